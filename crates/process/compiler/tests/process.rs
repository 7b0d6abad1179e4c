//! Tests promises about instances that the official suite does not cover: fuel, the kill word, depth, the position of a
//! trap, and isolation from other memory. They run on the interpreter, or on the first CUDA device with
//! `EVERWARP_MACHINE=cuda CUDA_CACHE_DISABLE=1 cargo test -p everwarp-compiler --test process -- --test-threads 1`.

mod support;

use everwarp_compiler::{
    CompileError, CompileOptions, Compiled, Export, FunctionType, InstanceLimits, InstantiateError,
    Link, NoImports, ProvidedImport, Provider, TrapKind, ValueType, compile,
};
use support::encode;
use support::instance::{Process, Trapped};
use support::machine::chosen;

const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 4,
    table_elements: 16,
    fuel: 1_000_000,
    depth: 50,
};

fn compiled(text: &str) -> &'static Compiled {
    let compiled =
        compile(&encode(text), &CompileOptions::default()).expect("the module is supported");
    Box::leak(Box::new(compiled))
}

fn process(text: &str, limits: InstanceLimits) -> Process {
    begin(compiled(text), limits)
}

fn begin(compiled: &'static Compiled, limits: InstanceLimits) -> Process {
    let machine = chosen();
    let loaded = machine
        .borrow_mut()
        .load("", &compiled.ptx, &[], LIMITS.depth);
    assert_eq!(
        loaded,
        Ok(LIMITS.depth),
        "the machine accepts the emitted text"
    );
    let initial = compiled.instantiate(&NoImports, &limits);
    let initial = initial.expect("the module has no imports");
    Process::new(compiled, &machine, "", &initial).expect("memory can be allocated")
}

fn call(process: &mut Process, name: &str, args: &[u64]) -> Result<Vec<u64>, Trapped> {
    let Some(Export::Function(f)) = process.compiled.export(name) else {
        panic!("no function {name}");
    };
    process.call(f, args).expect("the machine reports no error")
}

const LOOP: &str = r#"(module
  (func (export "spin") (param i64)
    (loop (local.tee 0 (i64.sub (local.get 0) (i64.const 1)))
      (br_if 0 (i64.ne (i64.const 0))))))"#;

#[test]
fn each_round_of_a_loop_spends_one_unit_of_fuel() {
    let mut process = process(LOOP, LIMITS);
    assert_eq!(call(&mut process, "spin", &[1000]), Ok(vec![]));
    assert_eq!(process.fuel(), 1_000_000 - 1000);
}

#[test]
fn a_loop_traps_when_the_fuel_runs_out() {
    let mut process = process(LOOP, LIMITS);
    let trapped = call(&mut process, "spin", &[u64::MAX]).expect_err("the fuel runs out");
    assert_eq!(trapped.trap, TrapKind::OutOfFuel);
    assert_eq!(process.fuel(), 0);
    // No call starts without fuel.
    let again = call(&mut process, "spin", &[1]).expect_err("no fuel is left");
    assert_eq!(again.trap, TrapKind::OutOfFuel);
}

/// Compiled code counts fuel in two halves; it must borrow from the upper half where the lower half is zero.
#[test]
fn fuel_borrows_from_its_upper_half() {
    let upper = 1i64 << 32;
    for (more, rounds) in [
        (0, 1),
        (1, 1),
        (1, 5),
        (2, 5),
        (1000, 2000),
        (16_384, 40_000),
    ] {
        let fuel = upper + more;
        let mut process = process(LOOP, InstanceLimits { fuel, ..LIMITS });
        assert_eq!(call(&mut process, "spin", &[rounds]), Ok(vec![]));
        assert_eq!(process.fuel(), fuel - rounds as i64);
    }
    let fuel = upper + 1;
    let mut process = process(LOOP, InstanceLimits { fuel, ..LIMITS });
    process.kill();
    let trapped = call(&mut process, "spin", &[10]).expect_err("the instance is killed");
    assert_eq!((trapped.trap, process.fuel()), (TrapKind::Killed, upper));
}

/// A NaN that arithmetic made is canonical wherever its bits can be observed. A NaN that was not computed keeps its
/// bits.
#[test]
fn computed_nans_are_canonical_wherever_they_are_observed() {
    let text = r#"(module (memory 1)
      (global $g (mut f32) (f32.const 0))
      (func $pass (param f32) (result i32) (i32.reinterpret_f32 (local.get 0)))
      (func $made (result f32) (f32.div (f32.const 0) (f32.const 0)))
      (func $give (export "give") (param f32) (result f32) (f32.add (local.get 0) (local.get 0)))
      (func (export "call") (param f32) (result i32) (call $pass (f32.add (local.get 0) (f32.const 1))))
      (func (export "result") (result i32) (i32.reinterpret_f32 (call $made)))
      (func (export "store") (param f32) (result i32) (local f32)
        (local.set 1 (f32.sqrt (local.get 0)))
        (f32.store (i32.const 8) (local.get 1))
        (i32.load (i32.const 8)))
      (func (export "tee") (param f32) (result i32) (local f32)
        (f32.store (i32.const 8) (local.tee 1 (f32.mul (local.get 0) (local.get 0))))
        (i32.and (i32.load (i32.const 8)) (i32.reinterpret_f32 (local.get 1))))
      (func (export "global") (param f32) (result i32)
        (global.set $g (f32.mul (local.get 0) (f32.const 2)))
        (i32.reinterpret_f32 (global.get $g)))
      (func (export "neg") (param f32) (result i32)
        (i32.reinterpret_f32 (f32.neg (f32.sub (local.get 0) (local.get 0)))))
      (func (export "copysign") (param f32) (result i32)
        (i32.reinterpret_f32 (f32.copysign (f32.const 1) (f32.add (local.get 0) (local.get 0)))))
      (func (export "select") (param f32) (result i32) (local f32)
        (local.set 1 (f32.ceil (local.get 0)))
        (i32.reinterpret_f32 (select (local.get 1) (f32.const 3) (i32.const 1))))
      (func (export "select_other") (param f32) (result i32)
        (i32.reinterpret_f32 (select (f32.ceil (local.get 0)) (local.get 0) (i32.const 0))))
      (func (export "block") (param f32) (result i32)
        (i32.reinterpret_f32 (block (result f32)
          (br_if 0 (f32.floor (local.get 0)) (i32.const 1)))))
      (func (export "loop") (param f32) (result i32) (local i32)
        (i32.reinterpret_f32 (f32.add (local.get 0) (f32.const 0))
          (loop (param f32) (result f32)
            (drop) (local.get 0)
            (br_if 0 (local.tee 1 (i32.eqz (local.get 1))))))) 
      (func (export "demote") (param f32) (result i32)
        (i32.reinterpret_f32 (f32.demote_f64 (f64.promote_f32 (local.get 0)))))
      (func (export "kept") (param f32) (result i32) (local f32 i32)
        (loop
          (if (local.get 2) (then (local.set 1 (f32.add (local.get 1) (f32.const 1))))
            (else (local.set 1 (local.get 0))))
          (f32.store offset=4 (i32.shl (local.get 2) (i32.const 2)) (local.get 1))
          (br_if 0 (i32.lt_u (local.tee 2 (i32.add (local.get 2) (i32.const 1))) (i32.const 2))))
        (i32.sub (i32.load (i32.const 4)) (i32.load (i32.const 8))))
      (func (export "chain") (param f32) (result i32) (local f32 f32 f32 f32)
        (local.set 4 (local.get 3)) (local.set 3 (local.get 2)) (local.set 2 (local.get 1))
        (local.set 1 (local.get 0)) (local.set 2 (local.get 1)) (local.set 3 (local.get 2))
        (local.set 4 (local.get 3))
        (i32.reinterpret_f32 (local.get 4))))"#;
    let mut process = process(text, LIMITS);
    let (canonical, payload): (u64, u64) = (0x7fc0_0000, 0x7fa0_1234);
    let mut seen = |name: &str| call(&mut process, name, &[payload]).expect("the call returns")[0];
    assert_eq!(seen("give"), canonical);
    for name in [
        "call", "store", "tee", "global", "select", "block", "demote",
    ] {
        assert_eq!(seen(name), canonical, "{name}");
    }
    assert_eq!(seen("neg"), canonical | 1 << 31);
    assert_eq!(seen("copysign"), 0x3f80_0000);
    assert_eq!(seen("select_other"), payload);
    assert_eq!(seen("loop"), payload);
    let difference = payload.wrapping_sub(canonical) & 0xffff_ffff;
    assert_eq!(seen("kept"), difference);
    assert_eq!(seen("chain"), payload);
    let made = call(&mut process, "result", &[]).expect("the call returns");
    assert_eq!(made, [canonical]);
}

#[test]
fn a_recursion_traps_when_the_fuel_runs_out() {
    let text = r#"(module (func $f (export "f") (call $f) (call $f)))"#;
    let limits = InstanceLimits { fuel: 20, ..LIMITS };
    let mut process = process(text, limits);
    let trapped = call(&mut process, "f", &[]).expect_err("the recursion is endless");
    assert_eq!(trapped.trap, TrapKind::OutOfFuel);
}

#[test]
fn the_kill_word_ends_a_loop() {
    let mut process = process(LOOP, LIMITS);
    process.kill();
    let trapped = call(&mut process, "spin", &[900_000]).expect_err("the instance is killed");
    assert_eq!(trapped.trap, TrapKind::Killed);
    // At the first check, where the fuel is a multiple of the interval.
    let left = process.fuel();
    assert!(
        left > 0 && left % everwarp_compiler::KILL_INTERVAL as i64 == 0,
        "{left}"
    );
}

#[test]
fn depth_is_exact() {
    let text = r#"(module (func $down (export "down") (param i32) (result i32)
      (if (result i32) (local.get 0)
        (then (call $down (i32.sub (local.get 0) (i32.const 1))))
        (else (i32.const 7)))))"#;
    let mut process = process(text, LIMITS);
    assert_eq!(call(&mut process, "down", &[49]), Ok(vec![7]));
    let trapped = call(&mut process, "down", &[50]).expect_err("50 calls may nest, not 51");
    assert_eq!(trapped.trap, TrapKind::StackExhausted);
    assert_eq!(
        call(&mut process, "down", &[49]),
        Ok(vec![7]),
        "a trap gives back all depth"
    );
}

#[test]
fn a_trap_names_its_function_and_offset() {
    let text = r#"(module
      (memory 1)
      (func $inner (param i32) (drop (i32.load (local.get 0))))
      (func $parse_header (export "parse") (param i32) (nop) (call $inner (local.get 0)) unreachable)
      (table 3 funcref)
      (elem (i32.const 1) $inner)
      (func $pick (export "pick") (param i32) (call_indirect (local.get 0))))"#;
    let mut process = process(text, LIMITS);
    let mut describe = |name: &str, arg: u64| {
        let t = call(&mut process, name, &[arg]).expect_err("it traps");
        process.compiled.describe_trap(t.trap, t.function, t.offset)
    };
    assert_eq!(describe("parse", 0), "unreachable in `parse_header` +0x6");
    assert_eq!(
        describe("parse", 65_533),
        "out of bounds memory access in `inner` +0x3"
    );
    assert_eq!(describe("pick", 3), "undefined element in `pick` +0x3");
    assert_eq!(describe("pick", 0), "uninitialized element in `pick` +0x3");
    assert_eq!(
        describe("pick", 1),
        "indirect call type mismatch in `pick` +0x3"
    );
}

#[test]
fn accesses_work_at_every_alignment() {
    let text = r#"(module (memory 1)
      (func (export "swap") (param i32 i64) (result i64)
        (i64.store offset=3 (local.get 0) (local.get 1))
        (i64.add (i64.load32_s offset=3 (local.get 0)) (i64.load16_u offset=9 (local.get 0)))))"#;
    let mut process = process(text, LIMITS);
    let value = 0x8877_6655_f433_2211_u64;
    let expected = (value as i32 as i64 as u64).wrapping_add(0x8877);
    for address in 0..16 {
        assert_eq!(
            call(&mut process, "swap", &[address, value]),
            Ok(vec![expected])
        );
    }
    let last = 65_536 - 11;
    assert_eq!(
        call(&mut process, "swap", &[last, value]),
        Ok(vec![expected])
    );
    let beyond = call(&mut process, "swap", &[last + 1, value]).expect_err("one byte too far");
    assert_eq!(beyond.trap, TrapKind::MemoryOutOfBounds);
    let far = call(&mut process, "swap", &[0xffff_ffff, value]).expect_err("addresses do not wrap");
    assert_eq!(far.trap, TrapKind::MemoryOutOfBounds);
}

#[test]
fn growth_stops_at_the_hosts_limit() {
    let text = r#"(module (memory 1) (table 2 externref)
      (func (export "memory") (param i32) (result i32) (memory.grow (local.get 0)))
      (func (export "last") (result i32) (i32.load8_u (i32.const 262143)))
      (func (export "table") (param i32) (result i32)
        (table.grow (ref.null extern) (local.get 0))))"#;
    let mut process = process(text, LIMITS);
    let refused = Ok(vec![u64::from(u32::MAX)]);
    assert_eq!(call(&mut process, "memory", &[4]), refused);
    assert_eq!(call(&mut process, "memory", &[3]), Ok(vec![1]));
    assert_eq!(call(&mut process, "last", &[]), Ok(vec![0]));
    assert_eq!(call(&mut process, "memory", &[1]), refused);
    assert_eq!(call(&mut process, "table", &[15]), refused);
    assert_eq!(call(&mut process, "table", &[14]), Ok(vec![2]));
}

#[test]
fn memory_tables_and_segments_beyond_the_limits_are_refused() {
    let large = compiled("(module (memory 5))");
    let refused = large.instantiate(&NoImports, &LIMITS);
    assert!(matches!(
        refused,
        Err(InstantiateError::BeyondLimit {
            needed: 5,
            allowed: 4,
            ..
        })
    ));
    let segment = compiled(r#"(module (memory 1) (data (i32.const 65535) "ab"))"#);
    let trapped = segment.instantiate(&NoImports, &LIMITS);
    let trap = TrapKind::MemoryOutOfBounds;
    assert!(matches!(trapped, Err(InstantiateError::Trap { trap: t, segment: 0 }) if t == trap));
}

#[test]
fn an_unsupported_instruction_is_reported_with_its_offset() {
    let text = "(module (func (result i32) (i32.const 7) atomic.fence))";
    let error =
        compile(&encode(text), &CompileOptions::default()).expect_err("threads are not enabled");
    let CompileError::Unsupported { offset, what } = error else {
        panic!("the module is valid: {error}");
    };
    assert_eq!(offset, 26, "the offset of the second instruction");
    assert!(what.starts_with("the instruction AtomicFence"), "{what}");
}

/// Each function subtracts from a square all but its last bit. The result is zero if the square is rounded on its own.
const SQUARES: &str = r#"(module
  (func (export "f64") (param f64) (result f64)
    (f64.sub (f64.mul (local.get 0) (local.get 0)) (f64.const 0x1.0000002p0)))
  (func (export "f32") (param f32) (result f32)
    (f32.add (f32.const -0x1.002p0) (f32.mul (local.get 0) (local.get 0))))
  (func (export "f64x2") (param f64) (result f64) (local v128) (local.set 1 (f64x2.splat (local.get 0)))
    (f64x2.extract_lane 1
      (f64x2.add (f64x2.mul (local.get 1) (local.get 1)) (f64x2.splat (f64.const -0x1.0000002p0)))))
  (func (export "f32x4") (param f32) (result f32) (local v128) (local.set 1 (f32x4.splat (local.get 0)))
    (f32x4.extract_lane 2
      (f32x4.sub (f32x4.mul (local.get 1) (local.get 1)) (f32x4.splat (f32.const 0x1.002p0))))))"#;

#[test]
fn products_and_sums_are_fused_only_if_the_options_allow_it() {
    let (narrow, wide) = (1.0 + 2_f32.powi(-12), 1.0 + 2_f64.powi(-28));
    let (narrow, wide) = (u64::from(narrow.to_bits()), wide.to_bits());
    let last = (2_f32.powi(-24), 2_f64.powi(-56));
    let last = (u64::from(last.0.to_bits()), last.1.to_bits());
    for contract in [false, true] {
        let options = CompileOptions {
            contract,
            ..CompileOptions::default()
        };
        let compiled = compile(&encode(SQUARES), &options).expect("the module is supported");
        // The vector functions have four products and two.
        let count = |what: &str| compiled.ptx.matches(what).count();
        let written = ["mul.rn.f", "add.rn.f", "sub.rn.f"].map(count);
        let open = [" mul.f", " add.f", " sub.f"].map(count);
        let (some, none) = ([8, 3, 5], [0; 3]);
        let expected = if contract { (none, some) } else { (some, none) };
        assert_eq!((written, open), expected);

        let mut process = begin(Box::leak(Box::new(compiled)), LIMITS);
        for (name, arg, once) in [
            ("f64", wide, last.1),
            ("f64x2", wide, last.1),
            ("f32", narrow, last.0),
            ("f32x4", narrow, last.0),
        ] {
            let got = call(&mut process, name, &[arg]).expect("the call does not trap");
            let may = got == [0] || contract && got == [once];
            assert!(may, "{name}: {got:x?}, contracted: {contract}");
        }
    }
}

#[test]
fn imports_call_their_provider_or_trap() {
    let importer = r#"(module
      (import "lib" "divide" (func $divide (param i32 i32) (result i32)))
      (import "lib" "missing" (func $missing))
      (func (export "half") (param i32) (result i32) (call $divide (local.get 0) (i32.const 2)))
      (func (export "none") (param i32) (result i32) (call $divide (local.get 0) (i32.const 0)))
      (func (export "missing") (call $missing)))"#;
    let library = r#"(module (global $calls (export "calls") (mut i32) (i32.const 0))
      (func (export "missing"))
      (func (export "divide") (param i32 i32) (result i32)
        (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (i32.div_u (local.get 0) (local.get 1))))"#;
    let part = |text, prefix: &str, provided_imports| {
        let options = CompileOptions {
            prefix: prefix.to_owned(),
            provided_imports,
            ..CompileOptions::default()
        };
        let compiled = compile(&encode(text), &options).expect("the module is supported");
        &*Box::leak(Box::new(compiled))
    };
    let machine = chosen();
    let library = part(library, "a_", vec![]);
    let provided = ProvidedImport {
        module: "lib".to_owned(),
        name: "divide".to_owned(),
        symbol: library.symbol(1),
        provider: Provider::Module,
        suspends: false,
    };
    let importer = part(importer, "b_", vec![provided]);
    for (prefix, compiled, calls) in [
        ("a_", library, vec![]),
        ("b_", importer, vec!["a_".to_owned()]),
    ] {
        let loaded = (machine.borrow_mut()).load(prefix, &compiled.ptx, &calls, LIMITS.depth);
        assert_eq!(loaded, Ok(LIMITS.depth), "the parts make one image");
    }
    let initial = library
        .instantiate(&NoImports, &LIMITS)
        .expect("the module has no imports");
    let mut library =
        Process::new(library, &machine, "a_", &initial).expect("memory can be allocated");
    let link = Library(library.compiled, library.block);
    let initial = importer
        .instantiate(&link, &LIMITS)
        .expect("all types agree");
    let mut importer =
        Process::new(importer, &machine, "b_", &initial).expect("memory can be allocated");

    assert_eq!(call(&mut importer, "half", &[84]), Ok(vec![42]));
    let trapped = call(&mut importer, "none", &[84]).expect_err("the division by zero traps");
    let described = importer
        .compiled
        .describe_trap(trapped.trap, trapped.function, trapped.offset);
    assert_eq!(described, "integer divide by zero in `divide` +0x0");
    let trapped = call(&mut importer, "missing", &[]).expect_err("the import has no provider");
    assert_eq!(trapped.trap, TrapKind::UnlinkedImport);
    assert_eq!(library.global(0), Ok(2), "the library keeps its own state");
}

/// Compiled functions pass the first global to each other in a register; all other code must find its value in the
/// block.
#[test]
fn a_global_in_a_register_is_stored_before_imports_and_traps() {
    let text = r#"(module
      (import "host" "look" (func $look (result i32)))
      (memory 1 1)
      (global $stack (mut i32) (i32.const 500))
      (func $down (param i32) (result i32) (local i32)
        (global.set $stack (i32.sub (global.get $stack) (i32.const 16)))
        (i32.store (global.get $stack) (local.get 0))
        (local.set 1 (if (result i32) (local.get 0)
          (then (call $down (i32.sub (local.get 0) (i32.const 1))))
          (else (call $look))))
        (local.set 1 (i32.add (local.get 1) (i32.load (global.get $stack))))
        (global.set $stack (i32.add (global.get $stack) (i32.const 16)))
        (local.get 1))
      (func (export "look") (param i32) (result i32) (call $down (local.get 0)))
      (func (export "trap") (param i32) (result i32)
        (global.set $stack (i32.sub (global.get $stack) (i32.const 16)))
        (i32.div_u (call $down (local.get 0)) (i32.const 0))))"#;
    let options = CompileOptions {
        provided_imports: vec![ProvidedImport {
            module: "host".to_owned(),
            name: "look".to_owned(),
            symbol: "host_look".to_owned(),
            provider: Provider::Device,
            suspends: false,
        }],
        ..CompileOptions::default()
    };
    let compiled = compile(&encode(text), &options).expect("the module is supported");
    let compiled: &'static Compiled = Box::leak(Box::new(compiled));
    let at = compiled.layout.global_offsets[0];
    // The import returns the global that it finds in the block.
    let provider = format!(
        ".func (.param .align 8 .b8 ret[16]) host_look (.param .b64 inst, .param .b64 fuel, .param .b32 depth)
{{
  .reg .b64 %d<2>;
  .reg .b32 %r;
  ld.param.b64 %d0, [inst];
  ld.param.b64 %d1, [fuel];
  ld.global.b32 %r, [%d0+{at}];
  st.param.b64 [ret], %d1;
  st.param.b32 [ret+8], %r;
  ret;
}}
"
    );
    let declared = compiled.ptx.lines().find(|l| l.starts_with(".extern"));
    let declared = declared.expect("the import is declared");
    let image = compiled.ptx.replace(declared, &provider);
    let machine = chosen();
    let loaded = machine.borrow_mut().load("", &image, &[], LIMITS.depth);
    assert_eq!(
        loaded,
        Ok(LIMITS.depth),
        "the machine accepts the emitted text"
    );
    let initial = compiled.instantiate(&Looking, &LIMITS);
    let initial = initial.expect("the import has its declared type");
    let mut process =
        Process::new(compiled, &machine, "", &initial).expect("memory can be allocated");

    // The stack pointer four frames deep, plus the sum of the numbers in the frames.
    let found = 500 - 4 * 16 + (3 + 2 + 1);
    assert_eq!(call(&mut process, "look", &[3]), Ok(vec![found]));
    assert_eq!(process.global(0), Ok(500));
    let trapped = call(&mut process, "trap", &[3]).expect_err("the division by zero traps");
    assert_eq!(trapped.trap, TrapKind::DivideByZero);
    assert_eq!(process.global(0), Ok(500 - 16), "its value at the trap");
}

/// Provides the one import.
struct Looking;

impl Link for Looking {
    fn function(&self, _: &str, _: &str) -> Option<FunctionType> {
        Some(FunctionType {
            params: vec![],
            results: vec![ValueType::I32],
        })
    }
}

/// Provides the functions that one module exports.
struct Library(&'static Compiled, u64);

impl Link for Library {
    fn function(&self, _: &str, name: &str) -> Option<FunctionType> {
        match self.0.export(name) {
            Some(Export::Function(f)) => Some(self.0.function_type(f).clone()),
            _ => None,
        }
    }
    fn provider(&self, _: &str, _: &str) -> Option<u64> {
        Some(self.1)
    }
}
