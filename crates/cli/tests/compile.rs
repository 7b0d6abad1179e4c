//! `everwarp compile` from end to end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `(func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add)`.
const ADD: &[u8] =
    b"\0asm\x01\0\0\0\x01\x07\x01\x60\x02\x7f\x7f\x01\x7f\x03\x02\x01\0\x07\x07\x01\x03add\0\0\
\x0a\x09\x01\x07\0\x20\0\x20\x01\x6a\x0b";
/// A shared memory of one page.
const SHARED: &[u8] = b"\0asm\x01\0\0\0\x05\x04\x01\x03\x01\x01";

fn compile(module: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.arg("compile").arg(module).args(args);
    everwarp_testkit::output(&mut command)
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("the folder is writable");
    path
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

#[test]
fn products_are_contracted_only_with_the_option() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let product = "(module (func (param f64) (result f64) (f64.mul (local.get 0) (local.get 0))))";
    let product = wat::parse_str(product).expect("the text is right");
    let module = file(folder.path(), "product.wasm", &product);
    for (args, says) in [
        (vec!["--emit", "ptx"], "  mul.rn.f64 "),
        (vec!["--emit", "ptx", "--contract"], "  mul.f64 "),
    ] {
        let ptx = compile(&module, &args);
        assert!(text(&ptx.stdout).contains(says), "{args:?}");
    }
    let nothing = compile(&module, &["--contract"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(text(&nothing.stderr).contains("--emit"));
}

#[test]
fn a_module_becomes_ptx_and_is_described() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let module = file(folder.path(), "add.wasm", ADD);
    let ptx = compile(&module, &["--emit", "ptx"]);
    assert!(ptx.status.success());
    assert!(text(&ptx.stdout).starts_with(".version 7.5\n.target sm_80\n"));
    let out = folder.path().join("add.ptx");
    let written = compile(
        &module,
        &[
            "--emit",
            "ptx",
            "--output",
            out.to_str().expect("a plain path"),
        ],
    );
    assert!(written.status.success() && written.stdout.is_empty());
    let read = std::fs::read_to_string(&out).expect("it was written");
    assert_eq!(read.trim_end(), text(&ptx.stdout).trim_end());

    let json = compile(&module, &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(json["exports"][0]["name"], "add");
    assert_eq!(json["exports"][0]["kind"], "function (i32, i32) -> (i32)");
    assert_eq!(json["ptx_bytes"], read.len());
    assert_eq!(json["threads"], false);
    let threads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/built/threads.wasm");
    let threads = compile(&threads, &[]);
    assert!(text(&threads.stdout).contains("threads: the module starts threads"));
    assert!(text(&threads.stdout).contains("env.memory  shared memory"));
    let plain = compile(&module, &[]);
    assert!(
        text(&plain.stdout).contains("imports: 0\nexports: 1\n  add  function (i32, i32) -> (i32)")
    );
}

#[test]
fn a_refused_module_is_one_error_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("none.ptx");
    for (name, bytes, says) in [
        ("shared.wasm", SHARED, "a shared memory must be imported"),
        (
            "short.wasm",
            &ADD[..ADD.len() - 3],
            "not valid at offset 0x",
        ),
        ("text.wasm", b"(module)", "it is the text form (.wat)"),
        ("empty.wasm", b"", "it is empty"),
    ] {
        let module = file(folder.path(), name, bytes);
        let output = compile(
            &module,
            &[
                "--emit",
                "ptx",
                "--output",
                out.to_str().expect("a plain path"),
            ],
        );
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {errors}");
        // The report is wrapped to the width of a terminal.
        let words = errors
            .split_whitespace()
            .filter(|w| *w != "│")
            .collect::<Vec<_>>()
            .join(" ");
        assert!(words.contains(says), "{name}: {errors}");
        assert!(output.stdout.is_empty() && !out.exists(), "{name}");
    }
    let missing = compile(&folder.path().join("missing.wasm"), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("missing.wasm"));
}

/// A module that `compile` accepts runs on the CPU engine, and a module that it refuses does not.
#[test]
fn both_engines_accept_the_same_features() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, taken, items) in [
        (
            "vectors",
            true,
            "(func (drop (i8x16.swizzle (v128.const i64x2 1 2) (v128.const i64x2 3 4))))",
        ),
        ("tail calls", true, "(func (result i32) (return_call 0))"),
        (
            "extended constants",
            true,
            "(global i32 (i32.add (i32.const 1) (i32.const 2)))",
        ),
        (
            "several tables",
            true,
            "(table 1 funcref) (table 2 funcref)",
        ),
        ("a shared memory of its own", false, "(memory 1 1 shared)"),
        (
            "atomic instructions",
            true,
            "(memory 1) (func (drop (i32.atomic.load (i32.const 0))))",
        ),
        ("external references", false, "(func (param externref))"),
        (
            "relaxed vectors",
            false,
            "(func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))",
        ),
        ("several memories", false, "(memory 1) (memory 1)"),
        ("a memory of 64 bits", false, "(memory i64 1)"),
        ("exceptions", false, "(tag)"),
        ("structures", false, "(type (struct))"),
    ] {
        let module = format!("(module {items} (func (export \"_start\")))");
        let bytes = wat::parse_str(&module).expect("it is WebAssembly");
        let module = file(folder.path(), "module.wasm", &bytes);
        let compiled = compile(&module, &[]);
        assert_eq!(compiled.status.success(), taken, "the compiler: {name}");
        let mut run = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        let run = run.arg("run").arg(&module).args(["--engine", "cpu"]);
        let ran = everwarp_testkit::output(run);
        assert_eq!(ran.status.success(), taken, "the CPU engine: {name}");
    }
}
