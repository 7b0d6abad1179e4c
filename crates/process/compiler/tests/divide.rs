//! Functions that are divided because they are long: what they compute stays the same, and so does what their traps say.

mod support;

use everwarp_compiler::{CompileOptions, Compiled, Export, InstanceLimits, NoImports, compile};
use support::encode;
use support::instance::Process;
use support::machine::interpreter;

const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 4,
    table_elements: 1024,
    fuel: 1 << 40,
    depth: 200,
};

fn compiled(bytes: &[u8], divide: Option<usize>) -> &'static Compiled {
    let options = CompileOptions {
        preempt: true,
        divide,
        ..CompileOptions::default()
    };
    let compiled = compile(bytes, &options).expect("the module is supported");
    Box::leak(Box::new(compiled))
}

fn process(compiled: &'static Compiled) -> Process {
    let machine = interpreter();
    let loaded = machine
        .borrow_mut()
        .load("", &compiled.ptx, &[], LIMITS.depth);
    loaded.expect("the interpreter can read the emitted text");
    let initial = compiled.instantiate(&NoImports, &LIMITS);
    let initial = initial.expect("the module has no imports");
    Process::new(compiled, &machine, "", &initial).expect("memory can be allocated")
}

/// The lengths of the functions' texts.
fn lengths(compiled: &Compiled) -> Vec<usize> {
    let functions = compiled.ptx.split("\n.func ").skip(1);
    let with_body = functions.filter(|text| text.contains('{'));
    with_body
        .map(|text| text.find("\n}").unwrap_or(text.len()))
        .collect()
}

/// An interpreter: `run(n, seed)` reads a byte of a program for each step, and chooses one of its instructions, which use some
/// of its locals, call functions, return from within, leave loops, and trap.
fn interpreter_module() -> String {
    let mut handlers = String::new();
    // Each is in a block of its own around those before it.
    for n in 0..12 {
        let body = match n % 6 {
            0 => format!(
                "(local.set $a (i32.add (local.get $a) (i32.load8_u offset={n} (local.get $pc))))
                 (i32.store offset=512 (i32.and (local.get $a) (i32.const 0xff)) (local.get $b))
                 (local.set $w (i64.add (local.get $w) (i64.extend_i32_u (local.get $a))))"
            ),
            1 => "(if (i32.and (local.get $a) (i32.const 1))
                   (then (local.set $b (i32.mul (local.get $b) (i32.const 3))))
                   (else (local.set $t (local.get $b)) (local.set $b (local.get $a)) (local.set $a (local.get $t))))
                 (local.set $w (i64.rotl (local.get $w) (i64.const 7)))"
                .to_owned(),
            2 => "(local.set $k (i32.const 5))
                 (loop $again
                   (local.set $w (i64.add (local.get $w) (i64.load offset=512 (local.get $k))))
                   (br_if $next (i64.eq (local.get $w) (i64.const 77)))
                   (br_if $again (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))
                 (i64.store offset=600 (local.get $k) (local.get $w))"
                .to_owned(),
            3 => format!(
                "(local.set $f (f64.add (local.get $f) (f64.convert_i32_s (call $mix (local.get $a) (i32.const {n})))))
                 (local.set $a (call $mix (local.get $b) (local.get $a)))
                 (if (i32.eq (local.get $a) (i32.const 1234)) (then (return (i64.const -9) (local.get $f))))"
            ),
            4 => "(if (i32.eqz (i32.and (local.get $a) (i32.const 0x3f)))
                   (then (local.set $w (i64.sub (local.get $w) (i64.const 1))) (br $done)))
                 (local.set $b (i32.div_u (i32.const 100000) (i32.sub (local.get $b) (i32.const 40))))"
                .to_owned(),
            _ => "(block $skip
                   (br_table $skip $next $error $skip (i32.rem_u (local.get $b) (i32.const 7)))
                   unreachable)
                 (local.set $a (i32.xor (local.get $a) (i32.load offset=65500 (local.get $b))))"
                .to_owned(),
        };
        let before = match n {
            0 => {
                let labels: String = (0..12).map(|n| format!("$h{n} ")).collect();
                format!("(br_table {labels} $next (i32.rem_u (local.get $op) (i32.const 13)))")
            }
            _ => handlers,
        };
        // Long enough that a call is shorter.
        let body = body.repeat(4);
        handlers = format!("(block $h{n} {before})\n {body}\n (br $next)\n");
    }
    format!(
        r#"(module (memory 1 2)
          (data (i32.const 0) "\07\03\0c\2a\91\05\66\e1\08\0b\19\fa\44\33\21\71\c0\5d\01\02\9b\30\17\88\04\06\0a\0d\0e\0f\10\11")
          (func $mix (param i32 i32) (result i32)
            (i32.mul (i32.xor (local.get 0) (i32.rotl (local.get 1) (i32.const 5))) (i32.const 0x9e3779b1)))
          (func (export "run") (param $n i32) (param $seed i32) (result i64 f64)
            (local $pc i32) (local $op i32) (local $a i32) (local $b i32) (local $t i32) (local $k i32) (local $w i64) (local $f f64)
            (local.set $a (local.get $seed))
            (local.set $b (call $mix (local.get $seed) (i32.const 3)))
            (block $done (block $error
              (loop $top
                (br_if $done (i32.eqz (local.get $n)))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (block $next
                  (local.set $pc (i32.and (i32.add (local.get $pc) (i32.const 1)) (i32.const 0x1f)))
                  (local.set $op (i32.add (i32.load8_u (local.get $pc)) (i32.and (local.get $a) (i32.const 3))))
                  {handlers})
                (local.set $b (i32.and (local.get $b) (i32.const 0xff)))
                (br $top)))
              (local.set $w (i64.mul (local.get $w) (i64.const 31))))
            (local.get $w) (local.get $f)))"#
    )
}

#[test]
fn a_divided_interpreter_computes_the_same() {
    let bytes = encode(&interpreter_module());
    let whole = compiled(&bytes, None);
    let most_of = |compiled| *lengths(compiled).iter().max().expect("there are functions");
    let longest = most_of(whole);
    for most in [longest / 3, longest / 6, 1000, 200] {
        let divided = compiled(&bytes, Some(most));
        let parts = lengths(divided).len() - lengths(whole).len();
        assert!(parts >= 3, "{most}: {parts} parts");
        let now = most_of(divided);
        assert!(
            most < 4000 || now < longest * 2 / 3,
            "{most}: {now} of {longest}"
        );
        let (mut ended, mut trapped) = (0, 0);
        let (mut expected, mut found) = (process(whole), process(divided));
        for seed in 0..200 {
            let args = [[20, 300, 7][seed as usize % 3], seed * 7];
            let Some(Export::Function(run)) = whole.export("run") else {
                panic!("it is exported");
            };
            let one = expected
                .call(run, &args)
                .expect("the interpreter reports no error");
            let other = found
                .call(run, &args)
                .expect("the interpreter reports no error");
            match (one, other) {
                (Ok(one), Ok(other)) => {
                    assert_eq!(one, other, "{most} {args:?}");
                    ended += 1;
                }
                (Err(one), Err(other)) => {
                    let of = |c: &Compiled, t: &support::instance::Trapped| {
                        (
                            c.place(t.function, t.offset),
                            c.describe_trap(t.trap, t.function, t.offset),
                        )
                    };
                    assert_eq!(of(whole, &one), of(divided, &other), "{most} {args:?}");
                    trapped += 1;
                }
                (one, other) => panic!("{most} {args:?}: {one:?} and {other:?}"),
            }
        }
        assert!(ended > 20 && trapped > 20, "{ended} {trapped}");
    }
}

#[test]
fn what_cannot_be_divided_stays_whole() {
    // One expression, and a module that is not valid.
    let sum = "(i64.mul (i64.add (local.get 0) ".repeat(200)
        + "(i64.const 3)"
        + &") (i64.const 5))".repeat(200);
    let bytes = encode(&format!(
        "(module (func (export \"f\") (param i64) (result i64) {sum}))"
    ));
    let (whole, divided) = (compiled(&bytes, None), compiled(&bytes, Some(100)));
    assert_eq!(whole.ptx, divided.ptx);
    let options = |divide| CompileOptions {
        divide,
        ..CompileOptions::default()
    };
    let bytes = encode(
        "(module (func (local i32) (local.set 0 (i32.const 1)) (local.set 0 (i64.const 1))))",
    );
    let error = |divide| {
        compile(&bytes, &options(divide))
            .expect_err("it is not valid")
            .to_string()
    };
    assert_eq!(error(None), error(Some(1)));
}

#[test]
fn a_refusal_names_the_offset_in_the_module_as_it_is() {
    let filler = "local.get 0 local.get 0 i32.load local.get 0 i32.add local.set 0 ".repeat(40);
    let nested = "block ".repeat(10_001) + &"end ".repeat(10_001);
    let bytes = encode(&format!(
        "(module (memory 1) (func (local i32) {filler} {nested}))"
    ));
    let error = |divide| {
        let options = CompileOptions {
            divide,
            ..CompileOptions::default()
        };
        compile(&bytes, &options)
            .expect_err("blocks are nested too deep")
            .to_string()
    };
    assert_eq!(error(None), error(Some(300)));
}
