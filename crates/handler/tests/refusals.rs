//! Modules that cannot be kinds: each is refused with its name, the place, and what to do.

use everwarp_handler::{ActorModule, program_of};

fn refusal(text: &str) -> String {
    let bytes = wat::parse_str(text).expect("it is WebAssembly text");
    let module = match ActorModule::new("bank", bytes) {
        Err(error) => return error.to_string(),
        Ok(module) => module,
    };
    program_of("program", &[module])
        .expect_err("it must be refused")
        .to_string()
}

#[test]
fn wrong_module_is_refused_with_the_remedy() {
    let on = r#"(func (export "on.a"))"#;
    for (text, parts) in [
        ("(module)".to_owned(), ["handles no message", "on.NAME"]),
        (
            format!("(module {on} (memory 1))"),
            ["export it as `memory`", "bank"],
        ),
        (
            format!("(module {on} (memory (export \"memory\") 17))"),
            ["1114112 bytes", "pages of one byte"],
        ),
        (
            format!("(module {on} (start 0))"),
            ["start function", "_initialize"],
        ),
        (
            r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))"#
                .to_owned(),
            ["wasi_snapshot_preview1 fd_write", "everwarp:tell"],
        ),
        (
            r#"(module (import "everwarp:tell" "memory" (memory 1)))"#.to_owned(),
            ["functions only", "everwarp:tell memory"],
        ),
        (
            format!(r#"(module (import "everwarp:tell" "b" (func (param i64))) {on})"#),
            ["everwarp:tell b", "no kind of the program handles"],
        ),
        (
            format!(r#"(module (import "everwarp:tell" "a" (func (param i32))) {on})"#),
            ["(i32) -> ()", "must have (i64) -> ()"],
        ),
        (
            format!(r#"(module (import "everwarp:ask" "a" (func (param i64 i32))) (func (export "reply.a") (param i32)) {on})"#),
            ["everwarp:ask a", "no reply"],
        ),
        (
            r#"(module (import "everwarp:ask" "a" (func (param i64 i32))) (func (export "on.a") (result i32) i32.const 1))"#
                .to_owned(),
            ["everwarp:ask a", "export `reply.a`"],
        ),
        (
            r#"(module (import "everwarp:ask_within" "a" (func (param i64 i32 i64))) (func (export "on.a") (result i32) i32.const 1))"#
                .to_owned(),
            ["everwarp:ask_within a", "export `reply.a`"],
        ),
        (
            format!(r#"(module (import "everwarp:after" "a" (func (param i64))) {on})"#),
            ["everwarp:after a", "must have (i64) -> (i64)"],
        ),
        (
            r#"(module (import "everwarp:every" "b" (func (param i64) (result i64))) (func (export "on.a") (result i32) i32.const 1))"#
                .to_owned(),
            ["everwarp:every b", "export `on.b`"],
        ),
        (
            r#"(module (import "everwarp:after" "a" (func (param i64 i64 i64 i64 i64 i64) (result i64))) (func (export "on.a") (param i64 i64 i64 i64 i64)))"#
                .to_owned(),
            ["everwarp:after a", "up to 4 fields"],
        ),
        (
            format!(r#"(module {on} (func (export "reply.a") (param i32)))"#),
            ["reply.a", "does not import everwarp:ask a"],
        ),
        (
            format!(r#"(module (import "everwarp:spawn" "leaf" (func (result i64))) {on})"#),
            ["everwarp:spawn leaf", "it has bank"],
        ),
        (
            format!(r#"(module (import "everwarp:actor" "exit" (func)) {on})"#),
            ["everwarp:actor exit", "forward"],
        ),
        (
            r#"(module (func (export "on.a") (param i64 i64 i64 i64 i64 i64)))"#.to_owned(),
            ["on.a", "up to 5 fields"],
        ),
        (
            r#"(module (func (export "on.a") (param i64 i64 i64 i64 i64) (result i64) i64.const 1))"#.to_owned(),
            ["on.a", "4 results"],
        ),
        (
            r#"(module (func (export "on.a") (param v128)))"#.to_owned(),
            ["on.a", "must be numbers"],
        ),
        (
            format!("(module {on} (table 1 funcref) (func (table.set (i32.const 0) (ref.null func))))"),
            ["changes a table", "share"],
        ),
        (
            format!("(module {on} (global (mut funcref) (ref.null func)))"),
            ["refers to a function", "table"],
        ),
        (
            format!(r#"(module {on} (@custom "everwarp.actor" "message b"))"#),
            ["`message b`", "does not export `on.b`"],
        ),
        (
            format!(r#"(module {on} (@custom "everwarp.actor" "message a n:i32"))"#),
            ["`message a n:i32`", "(i32) -> ()"],
        ),
        (
            format!(r#"(module {on} (@custom "everwarp.actor" "scratch 9"))"#),
            ["`scratch 9`", "0 bytes"],
        ),
        (
            format!(r#"(module {on} (func (export "_initialize") unreachable))"#),
            ["cannot begin", "unreachable"],
        ),
    ] {
        let error = refusal(&text);
        for part in parts {
            assert!(error.contains(part), "{text}\n{error}");
        }
    }
    let error = ActorModule::new("noise", *b"not a module").expect_err("it is none");
    assert!(error.to_string().contains("`noise`"), "{error}");
}

#[test]
fn modules_that_do_not_fit_each_other_are_refused() {
    let module = |name: &str, text: &str| {
        let bytes = wat::parse_str(text).expect("it is WebAssembly text");
        ActorModule::new(name, bytes).expect("it is right by itself")
    };
    let one = module("one", r#"(module (func (export "on.a") (param i64)))"#);
    let two = module("two", r#"(module (func (export "on.a") (param i32)))"#);
    let text = |modules: &[ActorModule]| {
        let error = program_of("pair", modules).expect_err("they do not fit");
        error.to_string()
    };
    let error = text(&[one.clone(), two]);
    for part in ["`one`", "`two`", "a(0: i64)", "a(0: i32)"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(text(&[one.clone(), one]).contains("two kinds are called `one`"));
    assert!(text(&[]).contains("at least one"));
}
