//! Which modules become handlers for GPUs, and why others do not. What the handlers compute is compared in
//! `crates/programs/tests/actors_on_host`.

use everwarp_actor::{ActorProgram, Kind};
use everwarp_handler::{ActorModule, program_of};

fn program(text: &str) -> ActorProgram {
    let bytes = wat::parse_str(text).expect("it is WebAssembly text");
    let module = ActorModule::new("ünsere Art", bytes).expect("it is a kind");
    program_of("2 Arten", &[module]).expect("it fits")
}

fn why(text: &str) -> String {
    let program = program(text);
    assert!(program.kinds[0].device().is_none(), "{text}");
    let (kind, why) = program.not_on_cuda().expect("it is refused");
    assert_eq!(kind, "ünsere Art");
    why.into_owned()
}

#[test]
fn what_a_gpu_does_not_have_is_named() {
    for (text, part) in [
        (
            "(module (func $down (export \"on.a\") (param i32) (if (local.get 0) (then (call $up (local.get 0)))))
               (func $up (param i32) (call $down (i32.sub (local.get 0) (i32.const 1)))))",
            "in a circle: `down` > `up` > `down`",
        ),
        (
            "(module (type $t (func)) (table 1 funcref) (elem (i32.const 0) $a)
               (func $a (export \"on.a\") (call_indirect (type $t) (i32.const 0))))",
            "in a circle: `a` > `a`",
        ),
        (
            "(module (func (export \"on.a\") (result i32) (i32x4.extract_lane 1 (i32x4.splat (i32.const 1)))))",
            "vectors",
        ),
        (
            "(module (@custom \"everwarp.actor\" \"fuel 1000000001\") (func (export \"on.a\")))",
            "1000000001 fuel",
        ),
        (
            "(module (table 1 funcref) (func (export \"on.a\") (drop (table.get (i32.const 0)))))",
            "refer to functions",
        ),
    ] {
        let why = why(text);
        assert!(why.contains(part), "{why}");
    }
    let many = "(drop (i32.const 1))".repeat(10_001);
    assert!(why(&format!("(module (func (export \"on.a\") {many}))")).contains("instructions"));
    let data = "x".repeat(33_000);
    let filled = format!(
        "(module (memory (export \"memory\") 40000 40000 (pagesize 1)) (data (i32.const 0) \"{data}\") \
         (func (export \"on.a\")))"
    );
    assert!(why(&filled).contains("33000 bytes"));
    let locals = "i64 ".repeat(2000);
    let deep = format!("(module (func (export \"on.a\") (local {locals})))");
    assert!(why(&deep).contains("bytes of stack"));
}

#[test]
fn chain_of_calls_as_long_as_a_module_is_refused_and_not_followed_by_recursion() {
    let mut text = String::from("(module (func $f0 (export \"on.a\"))");
    for n in 1..6000 {
        text.push_str(&format!("(func $f{n} (call $f{}))", n - 1));
    }
    text.push(')');
    assert!(why(&text).contains("bytes of stack"));
}

/// Each function calls the one before it twice: written out, that would be 2^60 instructions.
#[test]
fn functions_that_double_stay_calls() {
    let mut text = String::from("(module (func $f0 (param i32) (result i32) (local.get 0))");
    for n in 1..60 {
        let call = format!("(call $f{} ", n - 1);
        text.push_str(&format!(
            "(func $f{n} (param i32) (result i32) (i32.add {call}(local.get 0)) {call}(i32.const {n}))))"
        ));
    }
    text.push_str("(export \"on.a\" (func $f59)))");
    let program = program(&text);
    let device = program.kinds[0].device().expect("it is translated");
    assert!(
        device.source.contains("EW_CALL u32 f42("),
        "{}",
        device.source
    );
    assert!(device.source.contains("EW_FN u32 f1("));
}

#[test]
fn state_on_a_gpu_has_room_for_the_scratch() {
    let program = program(
        "(module (@custom \"everwarp.actor\" \"scratch 100\") (memory (export \"memory\") 150 150 (pagesize 1))
           (func (export \"on.a\")))",
    );
    let kind: &Kind = &program.kinds[0];
    assert_eq!(kind.state_bytes, 16 + 50);
    assert_eq!(
        kind.device().expect("it is translated").state_bytes,
        16 + 150
    );
}

/// Names of programs and kinds are any text, also where the device source has them.
#[test]
fn device_source_has_identifiers_only() {
    let program = program("(module (func (export \"on.a\")))");
    let source = program.program().device_source.to_string();
    for part in ["2 Arten", "ünsere"] {
        assert!(!source.contains(part), "{part}");
    }
}

/// What a module imports decides whether its program has services: one without must not pay for them.
#[test]
fn modules_that_need_services_get_them() {
    for (import, code, serves) in [
        (
            "(import \"everwarp:after\" \"a\" (func $f (param i64) (result i64)))",
            "(drop (call $f (i64.const 1)))",
            true,
        ),
        (
            "(import \"everwarp:actor\" \"keep\" (func $f (result i64)))",
            "(drop (call $f))",
            true,
        ),
        (
            "(import \"everwarp:actor\" \"cancel\" (func $f (param i64) (result i32)))",
            "(drop (call $f (i64.const 1)))",
            true,
        ),
        (
            "(import \"everwarp:tell\" \"a\" (func $f (param i64)))",
            "(call $f (i64.const 1))",
            false,
        ),
    ] {
        let text = format!("(module {import} (func (export \"on.a\") {code}))");
        let made = program(&text);
        assert!(made.not_on_cuda().is_none(), "{text}");
        assert_eq!(made.kinds[0].services, serves, "{text}");
        let source = made.program().device_source.to_string();
        assert!(source.contains(&format!("lists = {serves},")), "{source}");
        assert!(
            source.contains(&format!("services = {serves},")),
            "{source}"
        );
        // Names and dead letters are the host's wish.
        let source = program(&text)
            .services()
            .program()
            .device_source
            .to_string();
        assert!(source.contains("services = true,"), "{source}");
    }
}

/// Turns are most of what is compiled, so kinds that differ in little share them.
#[test]
fn kinds_that_differ_in_sends_only_share_their_turns() {
    let module = |name: &str, lines: &str| {
        let text =
            format!("(module (@custom \"everwarp.actor\" \"{lines}\") (func (export \"on.a\")))");
        let bytes = wat::parse_str(text).expect("it is WebAssembly text");
        ActorModule::new(name, bytes).expect("it is a kind")
    };
    let modules = [
        module("one", ""),
        module("atomic", "atomic"),
        module("two", "sends 3"),
        module("three", "mailbox 7"),
    ];
    let program = program_of("many", &modules).expect("they fit");
    let made = program.program();
    let names: Vec<_> = made.functions[..4]
        .iter()
        .map(|f| f.device_name())
        .collect();
    assert_eq!(names, ["one_turn", "atomic_turn", "one_turn", "one_turn"]);
    let source = &made.device_source;
    assert_eq!(source.matches("ew::actor_turn<").count(), 2, "{source}");
    assert_eq!(source.matches("switch (a.kind())").count(), 1, "{source}");
}
