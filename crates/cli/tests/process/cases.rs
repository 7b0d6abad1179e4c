//! What `everwarp run MODULE.wasm` does, whichever engine runs the processes.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use everwarp_testkit::Running;

/// Writes its first bytes of standard input, its arguments and its variables. Then the last byte of the last argument
/// decides: `t` traps, `l` loops for ever, `m` grows the memory by 100 pages or exits with 7, `x` exits with 200, and
/// anything else exits with 0.
const MODULE: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 600) "in.txt") (data (i32.const 700) "\n")
  (func $write (param $at i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $length))
    (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable)))
  (func $copy (param $fd i32)
    (i32.store (i32.const 0) (i32.const 2000)) (i32.store (i32.const 4) (i32.const 100))
    (if (call $fd_read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)) (then return))
    (call $write (i32.const 2000) (i32.load (i32.const 8))))
  (func $trap (param $zero i32) (drop (i32.div_u (i32.const 1) (local.get $zero))))
  (func (export "_start") (local $how i32)
    (call $copy (i32.const 0))
    (drop (call $args_sizes (i32.const 16) (i32.const 20)))
    (drop (call $args (i32.const 1024) (i32.const 8192)))
    (call $write (i32.const 8192) (i32.load (i32.const 20)))
    (local.set $how (i32.load8_u (i32.add (i32.const 8190) (i32.load (i32.const 20)))))
    (drop (call $environ_sizes (i32.const 16) (i32.const 20)))
    (drop (call $environ (i32.const 1024) (i32.const 8192)))
    (call $write (i32.const 8192) (i32.load (i32.const 20)))
    (if (i32.eqz (call $open (i32.const 3) (i32.const 1) (i32.const 600) (i32.const 6) (i32.const 0)
        (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 40)))
      (then (call $copy (i32.load (i32.const 40)))))
    (call $write (i32.const 700) (i32.const 1))
    (if (i32.eq (local.get $how) (i32.const 116)) (then (call $trap (i32.const 0))))
    (if (i32.eq (local.get $how) (i32.const 108)) (then (loop $l (br $l))))
    (if (i32.eq (local.get $how) (i32.const 109))
      (then (if (i32.eq (memory.grow (i32.const 100)) (i32.const -1)) (then (call $proc_exit (i32.const 7))))))
    (if (i32.eq (local.get $how) (i32.const 120)) (then (call $proc_exit (i32.const 200))))))"#;

struct Bench {
    folder: tempfile::TempDir,
    module: PathBuf,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let module = folder.path().join("module.wasm");
    let bytes = wat::parse_str(MODULE).expect("the text is right");
    std::fs::write(&module, bytes).expect("the folder is writable");
    Bench { folder, module }
}

fn run(module: &Path, args: &[&str]) -> Output {
    let mut command = crate::everwarp();
    let command = command.arg("run").arg(module).args(args);
    everwarp_testkit::output(command)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

/// The words of a report, which is wrapped to the width of a terminal.
fn words(bytes: &[u8]) -> String {
    let words = text(bytes).split_whitespace().filter(|w| *w != "│");
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn one_process_gets_its_input_and_passes_its_code_on() {
    let bench = bench();
    std::fs::write(bench.folder.path().join("in.txt"), "file").expect("the folder is writable");
    let name = bench.module.to_str().expect("a plain path");
    let dir = format!("{}::/data", bench.folder.path().display());
    let mut command = crate::everwarp();
    command
        .args([
            "run", name, "--engine", "cpu", "--env", "A=b=c", "--dir", &dir,
        ])
        .args(["--", "one", "--json", "ok"])
        .env("HIDDEN", "1");
    let output = everwarp_testkit::output_with_input(&mut command, b"typed ");
    assert!(output.status.success());
    // The first argument is the file's name and not the host's path.
    let expected = "typed module.wasm\0one\0--json\0ok\0A=b=c\0file\n";
    assert_eq!(text(&output.stdout), expected);

    let code = run(&bench.module, &["--", "x"]);
    assert_eq!(code.status.code(), Some(200));
    assert!(code.stderr.is_empty());
}

#[test]
fn a_trap_and_spent_fuel_are_one_error() {
    let bench = bench();
    for (args, says) in [
        (
            vec!["--", "t"],
            "process 0.1 ended: trap: integer divide by zero in `trap`",
        ),
        (
            vec!["--fuel", "50000", "--", "l"],
            "process 0.1 ended: out of fuel",
        ),
    ] {
        let output = run(&bench.module, &args);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            words(&output.stderr).contains(says),
            "{}",
            text(&output.stderr)
        );
        assert!(
            text(&output.stdout).ends_with('\n'),
            "its output before the trap is there"
        );
    }
}

#[test]
fn memory_is_limited() {
    let bench = bench();
    let fits = run(&bench.module, &["--memory", "7M", "--", "m"]);
    assert_eq!(fits.status.code(), Some(0));
    let refused = run(&bench.module, &["--memory", "6M", "--", "m"]);
    assert_eq!(refused.status.code(), Some(7));
    let start = run(&bench.module, &["--memory", "131071"]);
    assert_eq!(start.status.code(), Some(1));
    assert!(words(&start.stderr).contains("starts with 131072 bytes of memory"));
}

#[test]
fn many_processes_write_whole_tagged_lines_and_are_summed_up() {
    let bench = bench();
    let output = run(&bench.module, &["--instances", "300", "--tag", "--", "ok"]);
    assert!(output.status.success());
    let mut seen: Vec<u32> = text(&output.stdout)
        .lines()
        .map(|line| {
            let (tag, rest) = line.split_once("] ").expect("a tag");
            assert_eq!(rest, "module.wasm\0ok\0");
            let slot = tag.strip_prefix('[').and_then(|t| t.strip_suffix(".1"));
            slot.expect("a pid").parse().expect("a number")
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..300).collect::<Vec<_>>());
    assert!(text(&output.stderr).contains("300 exit code 0"));

    let failing = run(&bench.module, &["--instances", "20", "--json", "--", "t"]);
    assert_eq!(failing.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&failing.stdout).expect("one object");
    assert_eq!(json["instances"], 20);
    assert_eq!(json["failed"], 20);
    assert_eq!(json["reasons"]["trap: integer divide by zero"], 20);
    assert!(json["instances_per_s"].as_f64().expect("a number") > 0.0);
    assert!(
        words(&failing.stderr).contains("20 of 20 processes failed; the first was process 0.1")
    );

    let codes = run(&bench.module, &["--instances", "3", "--", "x"]);
    assert_eq!(codes.status.code(), Some(1));
    assert!(text(&codes.stderr).contains("3 exit code 200"));
}

#[test]
fn json_of_one_process_is_alone_on_standard_output() {
    let bench = bench();
    let output = run(&bench.module, &["--json", "--", "x"]);
    assert_eq!(output.status.code(), Some(200));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(json["exit_code"], 200);
    assert_eq!(json["engine"], "cpu");
    // Without a limit the CPU engine does not count fuel.
    assert!(json["fuel_used"].is_null(), "{json}");
    let limited = run(&bench.module, &["--json", "--fuel", "1000000", "--", "x"]);
    let json: serde_json::Value = serde_json::from_slice(&limited.stdout).expect("one object");
    assert!(json["fuel_used"].as_u64().expect("a number") > 0);
    assert!(text(&output.stderr).ends_with("\0x\0\n"));
}

#[test]
fn each_line_of_a_file_is_the_input_of_a_process() {
    let bench = bench();
    let file = bench.folder.path().join("lines.txt");
    std::fs::write(&file, "one\ntwo\n\nlast").expect("the folder is writable");
    let lines = file.to_str().expect("a plain path");
    let inputs = |args: &[&str]| {
        let output = run(&bench.module, args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let arguments = "module.wasm\0ok\0";
        let mut inputs: Vec<_> = text(&output.stdout)
            .lines()
            .filter_map(|line| line.strip_suffix(arguments).or(Some(line)))
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        inputs.sort();
        inputs
    };
    assert_eq!(
        inputs(&["--stdin-lines", lines, "--", "ok"]),
        ["last", "one", "two"]
    );
    let two = ["--stdin-lines", lines, "--instances", "2", "--", "ok"];
    assert_eq!(inputs(&two), ["one", "two"]);

    let many = run(&bench.module, &["--stdin-lines", lines, "--instances", "5"]);
    assert_eq!(many.status.code(), Some(2));
    assert!(words(&many.stderr).contains("has 4 lines, too few for 5 processes"));
    std::fs::write(&file, "").expect("the folder is writable");
    let none = run(&bench.module, &["--stdin-lines", lines]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn an_option_that_does_not_apply_or_is_wrong_is_an_error() {
    let bench = bench();
    for (args, says) in [
        (vec!["--n", "3"], "`--n` does not apply to `"),
        (vec!["--verify"], "`--verify` does not apply"),
        (vec!["--instances", "0"], "0 is not in 1.."),
        (vec!["--instances", "-1"], "-1 is not in 1.."),
        (vec!["--fuel", "-1"], "invalid value '-1' for '--fuel <N>'"),
        (vec!["--memory", "-1"], "`-1` is no size"),
        (vec!["--memory", "12Q"], "`12Q` is no size"),
        (vec!["--env", "=x"], "use NAME=VALUE"),
        (
            vec!["--env", "A=1", "--env", "A=1"],
            "`--env` gives `A` twice",
        ),
        (
            vec!["--dir", ".::/a", "--dir", "..::/a/"],
            "`--dir` gives `/a` twice",
        ),
        (vec!["--dir", "::/a"], "use HOST or HOST::GUEST"),
        (vec!["--size", "0"], "`--size` must be at least 1"),
        (
            vec!["--interleave"],
            "`--interleave` does not apply to processes on the CPU engine",
        ),
        (
            vec!["--contract"],
            "`--contract` does not apply to processes on the CPU engine",
        ),
    ] {
        let output = run(&bench.module, &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            words(&output.stderr).contains(says),
            "{}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
    for args in [vec!["--instances", "3"], vec!["--tag"], vec!["--", "x"]] {
        let output = run(Path::new("fib"), &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(words(&output.stderr).contains("does not apply to `fib`"));
    }
    let broken = bench.folder.path().join("broken.wasm");
    std::fs::write(&broken, b"\0asm\x01\0\0\0\x01").expect("the folder is writable");
    let output = run(&broken, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output.stderr).contains("not valid at offset 0x9"),
        "{}",
        text(&output.stderr)
    );
    let missing = run(&bench.folder.path().join("missing.wasm"), &[]);
    assert_eq!(missing.status.code(), Some(1));
    let told = words(&missing.stderr);
    assert_eq!(told.matches("No such file").count(), 1, "{told}");
    for (dir, says) in [
        ("nowhere", "No such file"),
        ("broken.wasm", "Not a directory"),
    ] {
        let dir = bench.folder.path().join(dir);
        let output = run(
            &bench.module,
            &["--dir", dir.to_str().expect("a plain path")],
        );
        assert_eq!(output.status.code(), Some(1));
        assert!(
            words(&output.stderr).contains(says),
            "{}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
    let unknown = run(Path::new("README.md"), &[]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(words(&unknown.stderr).contains("a WebAssembly module ends in .wasm"));
}

/// Every module that `run` refuses is refused by `compile` in the same words, before any engine starts.
#[test]
fn run_and_compile_refuse_the_same_modules_in_the_same_words() {
    let bench = bench();
    let start = r#"(func (export "_start"))"#;
    let wasi = r#"(import "wasi_snapshot_preview1""#;
    for (text, says) in [
        (
            format!(r#"(module (import "env" "f" (func)) {start})"#),
            "which everwarp does not provide: it was declared but not linked",
        ),
        (
            format!(r#"(module (import "wasi_unstable" "fd_read" (func)) {start})"#),
            "the older preview 0",
        ),
        (
            format!(r#"(module (import "env" "m" (memory 1)) {start})"#),
            "`env.m`",
        ),
        (
            format!(r#"(module {wasi} "fd_read" (func)) {start})"#),
            "with another type",
        ),
        (
            format!(r#"(module {wasi} "fd_read" (memory 1)) {start})"#),
            "with another type",
        ),
        (
            format!(r#"(module (import "\1b[31m" "f" (func)) {start})"#),
            // The report may be wrapped after the brace.
            r"`\u{1b}",
        ),
        (
            r#"(module (func (export "_start") i32.const 1))"#.to_owned(),
            "not valid at offset 0x",
        ),
        (format!("(module (tag) {start})"), "uses exceptions, which"),
        (format!("(module (memory i64 1) {start})"), "memory64"),
    ] {
        let bytes = wat::parse_str(&text).expect("the text is right");
        let module = bench.folder.path().join("refused.wasm");
        std::fs::write(&module, bytes).expect("the folder is writable");
        let ran = run(&module, &[]);
        let mut compile = crate::everwarp();
        let compiled = everwarp_testkit::output(compile.arg("compile").arg(&module));
        for output in [&ran, &compiled] {
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(output.stdout.is_empty());
            assert!(!output.stderr.contains(&0x1b), "no raw escape sequence");
        }
        assert_eq!(words(&ran.stderr), words(&compiled.stderr));
        let told = words(&ran.stderr);
        assert!(told.contains(says), "{told}");
    }
    let library = wat::parse_str("(module)").expect("the text is right");
    let module = bench.folder.path().join("library.wasm");
    std::fs::write(&module, library).expect("the folder is writable");
    let told = words(&run(&module, &[]).stderr);
    assert!(told.contains("exports no function `_start`"), "{told}");
}

/// Names from a module cannot control the terminal.
#[test]
fn names_of_functions_and_exports_are_escaped() {
    let bench = bench();
    let module = bench.folder.path().join("escape.wasm");
    let source = r#"(module (func $"\1b[31m" unreachable) (func (export "_start") call 0)
        (func (export "\1b[32m")))"#;
    let bytes = wat::parse_str(source).expect("the text is right");
    std::fs::write(&module, bytes).expect("the folder is writable");
    let trapped = run(&module, &[]);
    assert_eq!(trapped.status.code(), Some(1));
    let told = words(&trapped.stderr);
    assert!(told.contains(r"in `\u{1b}[31m`"), "{told}");
    let mut compile = crate::everwarp();
    let compiled = everwarp_testkit::output(compile.arg("compile").arg(&module));
    assert!(compiled.status.success());
    for bytes in [&trapped.stderr, &compiled.stdout] {
        assert!(!bytes.contains(&0x1b), "no raw escape sequence");
    }
    assert!(text(&compiled.stdout).contains(r"\u{1b}[32m"));
}

/// Ends a command by a signal as soon as its processes run.
fn end_by(signal: rustix::process::Signal, args: &[&str]) -> Output {
    let bench = bench();
    let mut child = Running::start(
        crate::everwarp()
            .arg("run")
            .arg(&bench.module)
            .args(["--engine", "cpu"])
            .args(args)
            .args(["--", "l"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    // The module writes a line before it loops.
    let mut line = [0; 4];
    let stdout = child.stdout.as_mut().expect("it is piped");
    stdout.read_exact(&mut line).expect("a process runs");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("it is no zero");
    rustix::process::kill_process(pid, signal).expect("the command runs");
    child.output()
}

#[test]
fn a_signal_ends_the_processes_and_they_are_reported() {
    use rustix::process::Signal;
    let one = end_by(Signal::INT, &[]);
    assert_eq!(one.status.code(), Some(130));
    let told = words(&one.stderr);
    assert!(told.contains("1 processes on"), "{told}");
    assert!(told.contains(": 1 killed"), "{told}");
    assert!(
        told.contains("SIGINT: 0 of 1 processes had ended well"),
        "{told}"
    );
    let many = end_by(Signal::TERM, &["--instances", "5000", "--size", "2"]);
    assert_eq!(many.status.code(), Some(143));
    let told = words(&many.stderr);
    assert!(told.contains("SIGTERM: 0 of 5000 processes"), "{told}");
    let number = |what: &str| -> u32 {
        let end = told
            .find(what)
            .unwrap_or_else(|| panic!("no {what}: {told}"));
        let digits = told[..end].rsplit(' ').next().unwrap_or_default();
        digits.parse().expect("a number")
    };
    assert_eq!(number(" killed") + number(" not started"), 5000);
}

/// Writes the line `on` for ever, or as many times as its only argument has bytes, and ignores all errors.
const WRITER: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 16) "on\n")
  (func (export "_start") (local $left i32)
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 3))
    (drop (call $args_sizes (i32.const 24) (i32.const 28)))
    (if (i32.eq (i32.load (i32.const 24)) (i32.const 2)) (then (local.set $left (i32.const 1000))))
    (loop $again
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (local.get $left)))))"#;

fn writer(folder: &Path) -> PathBuf {
    let module = folder.join("writer.wasm");
    let bytes = wat::parse_str(WRITER).expect("the text is right");
    std::fs::write(&module, bytes).expect("the folder is writable");
    module
}

/// `everwarp run ... | head -1`, with processes that never look at errors.
#[test]
fn a_closed_pipe_ends_the_run_soon_and_quietly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let module = writer(folder.path());
    for args in [&[][..], &["--instances", "1000", "--size", "2"]] {
        let mut child = Running::start(
            crate::everwarp()
                .arg("run")
                .arg(&module)
                .args(["--engine", "cpu"])
                .args(args)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let mut line = [0; 3];
        let mut stdout = child.stdout.take().expect("it is piped");
        stdout.read_exact(&mut line).expect("a process writes");
        drop(stdout);
        // The processes write for ever, so this returns only if the command ends them.
        let output = child.output();
        assert_eq!(output.status.code(), Some(128 + 13), "{args:?}");
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_a_full_disk_loses_makes_the_command_fail() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let module = writer(folder.path());
    for args in [&["--", "x"][..], &["--instances", "20", "--", "x"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let child = Running::start(
            crate::everwarp()
                .arg("run")
                .arg(&module)
                .args(["--engine", "cpu"])
                .args(args)
                .stdin(Stdio::null())
                .stdout(full.expect("Linux has it"))
                .stderr(Stdio::piped()),
        );
        let output = child.output();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let told = words(&output.stderr);
        assert!(
            told.contains("standard output: output of processes was lost: No space left"),
            "{told}"
        );
    }
}
