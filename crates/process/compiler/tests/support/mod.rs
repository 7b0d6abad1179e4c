//! What the tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod cubins;
pub(crate) mod gpu;
pub(crate) mod instance;
pub(crate) mod machine;
pub(crate) mod ptx;
pub(crate) mod report;
pub(crate) mod spec;
pub(crate) mod tools;
pub(crate) mod waiting;

/// The bytes of a module that is given as text.
pub(crate) fn encode(text: &str) -> Vec<u8> {
    let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
    wat.encode().expect("it can be encoded")
}
