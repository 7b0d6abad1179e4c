//! Encodes modules that tests write as text.

/// The bytes of a module that is written as text.
pub(crate) fn encode(text: &str) -> Vec<u8> {
    let buffer = wast::parser::ParseBuffer::new(text).expect("the module is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("the text is a module");
    wat.encode().expect("the module can be encoded")
}
