//! The device sources of processes compile with a module linked to them, for every architecture. Needs NVRTC, no
//! GPU.

use std::collections::BTreeSet;
use std::path::Path;

use everwarp_assembler::Assembler;
use everwarp_cache::Cache;
use everwarp_process::{Module, Tier};
use everwarp_process_cuda::{
    addition_to, image, image_and_module_next_to_it, image_lacking_functions,
};
use everwarp_runtime::Image;
use everwarp_runtime::cuda::MAX_REGISTERS;
use everwarp_runtime::cuda::build::{build, build_addition};
use everwarp_runtime::cuda::cache::Cache as Images;
use everwarp_runtime::cuda::image::{Source, source};
use everwarp_runtime::cuda::nvrtc::Nvrtc;
use everwarp_runtime::cuda::testing::nvrtc;

fn module(text: &str) -> Module {
    let bytes = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&bytes).expect("it is a module");
    let bytes = wat.encode().expect("it can be encoded");
    Module::new("m", bytes).expect("it is valid")
}

#[test]
fn processes_compile_for_each_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "_start") (drop (call 0 (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    // Those that import `everwarp:gpu`.
    let family = include_str!("modules/family.wat");
    let forge = include_str!("modules/forge.wat");
    let threads = include_str!("modules/threads.wat");
    let modules = [text, family, forge, threads].map(module);
    let image = image(&modules, false).expect("it is supported");
    let source = source(&image);
    assert!(source.relocatable);
    assert!(!source.unit.contains("#define EVERWARP_PARTIAL"));
    compiles_for_each_architecture(&nvrtc, &source);
}

/// An image that lacks functions has code to ask for them.
#[test]
fn processes_that_ask_for_functions_compile_for_each_architecture() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = source(&lacking(&[], &Cache::at(Path::new("/nonexistent/cache"))));
    assert!(source.unit.contains("#define EVERWARP_PARTIAL"));
    compiles_for_each_architecture(&nvrtc, &source);
}

/// A module whose entry calls two functions, which can be left out and have a number in their code.
fn lacking(rounds: &[BTreeSet<u32>], cache: &Cache) -> Image {
    let function = |number: u32| {
        format!(
            "(func (param i32) (result i32) (loop (br_if 0 (local.get 0))) (i32.mul (local.get 0) (i32.const {number})))"
        )
    };
    let text = format!(
        r#"(module (memory 1) (func (export "_start")
             (i32.store (i32.const 8) (call 1 (i32.const 3))) (i32.store (i32.const 8) (call 2 (i32.const 3))))
           {} {})"#,
        function(FIRST),
        function(SECOND)
    );
    image_lacking_functions(&module(&text), rounds, cache).expect("it is supported")
}

const FIRST: u32 = 0x0765_4321;
const SECOND: u32 = 0x0123_4567;

/// ptxas and nvlink take an image as it grows, and a function that has come is called in place of what stood in for it.
#[test]
fn functions_that_come_replace_what_stood_in_for_them() {
    if nvrtc().is_none() || Assembler::find().is_err() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let code = Images::at(&folder.path().join("code"));
    let image = |rounds: &[BTreeSet<u32>]| {
        let asked = tempfile::tempdir().expect("a temporary folder");
        let image = lacking(rounds, &Cache::at(&asked.path().join("cache")));
        let built = build(&image, 90, &code);
        built.unwrap_or_else(|e| panic!("{} rounds: {e}", rounds.len()))
    };
    let has = |code: &[u8], number: u32| code.windows(4).any(|bytes| bytes == number.to_le_bytes());
    let images = [
        image(&[]),
        image(&[[2].into()]),
        image(&[[2].into(), [1].into()]),
    ];
    let found = images
        .each_ref()
        .map(|image| [FIRST, SECOND].map(|number| has(&image.code, number)));
    assert_eq!(found, [[false, false], [false, true], [true, true]]);
    // The functions that an image has are part of its key.
    assert_ne!(images[0].key, images[1].key);
    assert_ne!(images[1].key, images[2].key);
}

/// A batch is linked alone to code that an image's kernel can call: it has all that it calls, no constants of its own, and no more
/// registers than the kernel.
#[test]
fn a_batch_can_be_loaded_next_to_an_image() {
    if nvrtc().is_none() || Assembler::find().is_err() {
        return;
    }
    // `$a` has a table of branches, calls another function that is left out, one through the table, and one that is always there.
    let module = module(
        r#"(module (memory 1) (type $f (func (param i32) (result i32))) (table funcref (elem $b))
          (func (export "_start") (drop (call $a (i32.const 3))))
          (func $a (param i32) (result i32)
            (loop $again
              (block (block (block (block (block
                (br_table 0 1 2 3 4 0 (local.get 0)))
                (local.set 0 (i32.add (local.get 0) (i32.const 40)))) (i32.store (i32.const 8) (local.get 0)))
                (local.set 0 (i32.mul (local.get 0) (i32.const 7)))) (i32.store (i32.const 12) (local.get 0)))
              (br_if $again (i32.lt_u (local.get 0) (i32.const 1000))))
            (i32.add (call $b (local.get 0))
              (i32.add (call_indirect (type $f) (local.get 0) (i32.const 0)) (call $leaf (local.get 0)))))
          (func $b (param i32) (result i32) (loop (br_if 0 (i32.const 0))) (local.get 0))
          (func $leaf (param i32) (result i32) (i32.xor (local.get 0) (i32.const 5))))"#,
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let code = Images::at(&folder.path().join("code"));
    let asked = Cache::at(&folder.path().join("asked"));
    let image = image_lacking_functions(&module, &[], &asked).expect("it is supported");
    let addition = addition_to(&module, &[[1].into()]).expect("it is supported");
    let addition = addition.expect("functions are left out");
    for arch in [80, 90, 100] {
        let built = build(&image, arch, &code).unwrap_or_else(|e| panic!("sm_{arch}: {e}"));
        let added = build_addition(&addition, arch, &code);
        let added = added.unwrap_or_else(|e| panic!("sm_{arch}: {e}"));
        assert!(!added.has_constants, "sm_{arch}");
        assert!(added.registers <= built.registers, "sm_{arch}");
        let has = |name: &str| added.frames.iter().any(|(n, _)| n.ends_with(name));
        // `$b`, `$leaf`, and the function that makes indirect calls.
        for name in ["_f1", "_f2", "_f3", "_i0_0"] {
            assert!(has(name), "sm_{arch}: {name}");
        }
        // Functions that come later may need all registers that there are.
        assert_eq!(built.registers, MAX_REGISTERS, "sm_{arch}");
    }
}

/// A module that comes later is linked alone, as a batch of functions is, and the image's kernel reaches all that modules may call.
#[test]
fn a_module_can_be_loaded_next_to_an_image() {
    if nvrtc().is_none() || Assembler::find().is_err() {
        return;
    }
    let first = module(r#"(module (func (export "_start")))"#);
    // A branch to one of several, calls and tail calls through a table, and calls of the host.
    let other = |n: u32| {
        format!("(func $f{n} (param i32) (result i32) (i32.mul (local.get 0) (i32.const {n})))")
    };
    let others: String = (0..9).map(other).collect();
    let later = module(&format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
          (memory (export "memory") 1) (type $f (func (param i32) (result i32)))
          (table funcref (elem $f0 $f1 $f2 $f3 $f4 $f5 $f6 $f7 $f8 $many))
          (func $many (param i32) (result i32)
            (block (block (block (block (block (br_table 0 1 2 3 4 0 (local.get 0)))
              (return (call $f1 (local.get 0)))) (i32.store (i32.const 8) (local.get 0)))
              (i32.store (i32.const 16) (call $random (i32.const 0) (i32.const 4)))) (return (i32.const 7)))
            (call_indirect (type $f) (local.get 0) (i32.load (i32.const 4))))
          (func (export "_start") (drop (call $many (i32.load (i32.const 0))))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))){others})"#,
    ));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let code = Images::at(&folder.path().join("code"));
    let all = std::env::var_os("EVERWARP_ALL_ARCHITECTURES").is_some();
    let architectures = if all { &[80, 90, 100][..] } else { &[90] };
    for tier in [Tier::Best, Tier::Least] {
        let made = image_and_module_next_to_it(std::slice::from_ref(&first), &later, tier);
        let (image, addition) = made.expect("it is supported");
        let addition = addition.expect("it needs no image");
        for &arch in architectures {
            let built = build(&image, arch, &code).unwrap_or_else(|e| panic!("sm_{arch}: {e}"));
            let added = build_addition(&addition, arch, &code);
            let added = added.unwrap_or_else(|e| panic!("sm_{arch}: {e}"));
            assert!(!added.has_constants, "sm_{arch} {tier:?}");
            assert!(added.registers <= built.registers, "sm_{arch}");
            assert_eq!(built.registers, MAX_REGISTERS, "sm_{arch}");
            let has = |name: &str| added.frames.iter().any(|(n, _)| n.ends_with(name));
            for name in ["_enter", "_f2", "everwarp_wasi_fd_write"] {
                assert!(has(name), "sm_{arch} {tier:?}: {name}");
            }
            // What the engine provides is there for any module, in the image.
            let provided = |name: &str| built.frames.iter().any(|(n, _)| n == name);
            assert!(provided("everwarp_wasi_path_open") && provided("everwarp_net_connect"));
        }
    }
    // A module with channels and children comes so as well.
    let family = module(include_str!("modules/family.wat"));
    let made = image_and_module_next_to_it(&[], &family, Tier::Best);
    let addition = made.expect("it is supported").1.expect("it needs no image");
    let added = build_addition(&addition, 90, &code).unwrap_or_else(|e| panic!("{e}"));
    assert!(!added.has_constants);
    // Threads wait for each other in code of the image.
    let threads = module(include_str!("modules/threads.wat"));
    let made = image_and_module_next_to_it(&[first], &threads, Tier::Best);
    assert!(made.expect("it is supported").1.is_none());
}

fn compiles_for_each_architecture(nvrtc: &Nvrtc, source: &Source) {
    for arch in [80, 90, 100] {
        let cubin = nvrtc.compile_source(source, arch);
        let log = cubin.unwrap_or_else(|e| panic!("sm_{arch}: {e}")).log;
        // The engine's own kernel keeps what it holds in registers.
        let mut lines = log.lines();
        lines
            .find(|l| l.contains("Function properties for everwarp_engine"))
            .expect("the assembler reports on the kernel");
        let frame = lines.next().unwrap_or_default();
        assert!(
            frame.contains("0 bytes spill stores, 0 bytes spill loads"),
            "sm_{arch}: {frame}"
        );
    }
}
