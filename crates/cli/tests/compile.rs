//! `everwarp compile` from end to end.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use everwarp::process::{ImageFile, NativeImage};

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

/// A command that prints its name and a word.
const HELLO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "hello\n")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 6))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

fn run(program: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.args(["run", "--engine", "cpu", "--alone"]);
    everwarp_testkit::output(command.arg(program))
}

/// A tool that `.ci` installs below `target`. In CI it must be there.
fn tool(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target")
        .join(path);
    let there = path.exists();
    assert!(there || std::env::var_os("CI").is_none(), "{path:?}");
    there.then_some(path)
}

#[test]
fn an_image_is_made_without_a_gpu_and_its_module_runs() {
    let (Some(nvrtc), Some(ptxas)) = (
        tool("nvrtc/nvidia/cu13/lib/libnvrtc.so.13"),
        tool("ptxas/nvidia/cu13/bin/ptxas"),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hello = wat::parse_str(HELLO).expect("the text is right");
    let module = file(folder.path(), "hello.wasm", &hello);
    let image = folder.path().join("hello.ewimg");
    let compile = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
        command.arg("compile").arg(&module).arg("-o").arg(&image);
        command.args(["--arch", "90", "--json"]);
        command.env("CUDA_VISIBLE_DEVICES", "");
        command.env("EVERWARP_CACHE_DIR", folder.path().join("cache"));
        command
            .env("EVERWARP_NVRTC", &nvrtc)
            .env("EVERWARP_PTXAS", &ptxas);
        let output = everwarp_testkit::output(&mut command);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(report["images"][0]["arch"], "sm_90");
        assert_eq!(report["module_bytes"], hello.len());
        std::fs::read(&image).expect("it was written")
    };
    let made = compile();
    let has = |name: &[u8]| made.windows(name.len()).any(|part| part == name);
    assert!(has(b"\x7fELF") && has(b".text.everwarp_engine\0"));
    // The module's own entry, after twelve digits of its hash.
    let is_entry = |name: &[u8]| {
        let digits = name
            .strip_prefix(b"m")
            .and_then(|n| n.strip_suffix(b"_enter\0"));
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    assert!(made.windows(20).any(is_entry));
    assert_eq!(run(&image).stdout, b"hello\n");
    // What was kept makes the same image again.
    assert!(made == compile(), "the images differ");
    // Who may read the file is as for any other file of the user.
    let mode = |path: &Path| {
        let found = std::fs::metadata(path).expect("the file is there");
        found.permissions().mode()
    };
    assert_eq!(mode(&image), mode(&module));
    // The module in the file can be described, and compiled once more.
    let described = self::compile(&image, &["--json"]);
    assert!(described.status.success(), "{}", text(&described.stderr));
    let report: serde_json::Value = serde_json::from_slice(&described.stdout).expect("it is JSON");
    assert_eq!(report["bytes"], hello.len());
    assert!(self::compile(&image, &["--emit", "ptx"]).status.success());
}

#[test]
fn a_place_that_cannot_be_written_to_is_named_before_anything_is_compiled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hello = wat::parse_str(HELLO).expect("the text is right");
    let module = file(folder.path(), "hello.wasm", &hello);
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    let output = folder.path().join("missing/hello.ewimg");
    command.arg("compile").arg(&module).arg("-o").arg(&output);
    // Compiling would fail because of this.
    command.env("EVERWARP_NVRTC", folder.path().join("no-nvrtc.so"));
    let refused = everwarp_testkit::output(&mut command);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("there is no folder"), "{said}");
}

#[test]
fn an_image_file_that_is_damaged_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = file(folder.path(), "tool.ewimg", b"everwarp image 1 and no more");
    let refused = run(&image);
    assert_eq!(refused.status.code(), Some(1));
    let says = text(&refused.stderr).split_whitespace().collect::<Vec<_>>();
    assert!(says.join(" ").contains("it is damaged"), "{says:?}");
}

/// Runs a command line of `everwarp run` on the CPU engine.
fn run_with(image: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.arg("run").arg(image);
    command.args(["--engine", "cpu", "--alone"]).args(options);
    everwarp_testkit::output(&mut command)
}

#[test]
fn the_cpu_engine_runs_the_module_in_a_file_that_the_user_vouches_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hello = wat::parse_str(HELLO).expect("the text is right");
    let images = ImageFile {
        name: "hello.wasm".to_owned(),
        module: hello.clone().into(),
        images: vec![NativeImage {
            arch: 90,
            key: "of another version".to_owned(),
            code: b"machine code".to_vec().into(),
        }],
    };
    let bytes = images.to_bytes();
    let whole = file(folder.path(), "hello.ewimg", &bytes);
    for options in [&[][..], &["--allow-precompiled"]] {
        let ran = run_with(&whole, options);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        assert_eq!((&*ran.stdout, &*ran.stderr), (&b"hello\n"[..], &b""[..]));
    }
    let cut = file(folder.path(), "cut.ewimg", &bytes[..bytes.len() - 1]);
    let module = file(folder.path(), "hello.wasm", &hello);
    for (path, says) in [(&cut, "it is damaged"), (&module, "without images")] {
        let refused = run_with(path, &["--allow-precompiled"]);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
        let told = text(&refused.stderr).split_whitespace();
        let told = told.collect::<Vec<_>>().join(" ");
        assert!(
            told.contains(says) && told.contains("everwarp compile"),
            "{told}"
        );
    }
}

#[test]
fn what_to_write_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let module = file(folder.path(), "add.wasm", ADD);
    for (args, says) in [
        (vec!["--emit", "image"], "`--output` is missing"),
        (vec!["--output", "add.txt"], "`--emit` is missing"),
        (vec!["-o", "add.ewimg", "--arch", "sm_70"], "sm_80"),
    ] {
        let refused = compile(&module, &args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        let stderr = text(&refused.stderr);
        assert!(stderr.contains(says), "{stderr}");
    }
    // A library can be described, and is no program.
    let refused = compile(&module, &["-o", "add.ewimg"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("_start"));
    assert!(!folder.path().join("add.ewimg").exists());
}

#[test]
fn a_hostile_module_is_refused_by_the_name_of_a_limit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // 200,000 nested blocks: the text format would nest as well, so the bytes are written as they are.
    let nested = 200_000;
    let leb = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 128 {
            bytes.push(number as u8 | 128);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let mut body = vec![0];
    body.extend([0x02, 0x40].repeat(nested));
    body.extend(vec![0x0b; nested + 1]);
    let code = [vec![1], leb(body.len()), body].concat();
    let mut bytes =
        b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a".to_vec();
    bytes.extend(leb(code.len()));
    bytes.extend(code);
    let module = file(folder.path(), "hostile.wasm", &bytes);
    let refused = compile(&module, &["--output", "hostile.ewimg"]);
    assert_eq!(refused.status.code(), Some(1));
    let says = text(&refused.stderr).split_whitespace().collect::<Vec<_>>();
    assert!(says.join(" ").contains("10000 nested blocks"), "{says:?}");
    assert!(!Path::new("hostile.ewimg").exists());
}
