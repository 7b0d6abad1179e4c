//! The same commands with the service and without it: the same bytes, texts and exit codes.

use std::io::Write;
use std::process::{Output, Stdio};

use everwarp::process::{ImageFile, NativeImage};
use serde_json::Value;

use crate::sandbox::{CAT, Sandbox, finish};

/// Figures of time differ from run to run.
fn without_times(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(Value::Object(mut report)) = serde_json::from_slice(bytes) {
        for field in ["load_s", "elapsed_s", "instances_per_s", "input_s"] {
            assert!(report.remove(field).is_none_or(|value| value.is_number()));
        }
        return Value::Object(report).to_string();
    }
    let lines = text
        .lines()
        .map(|line| match line.contains(" processes/s)") {
            true => {
                let rest = line.split_once(" processes/s)").map(|(_, rest)| rest);
                format!("TIME{}", rest.unwrap_or_default())
            }
            false => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

struct Case<'a> {
    args: &'a [&'a str],
    stdin: Option<&'a str>,
}

fn run(sandbox: &Sandbox, case: &Case<'_>, alone: bool) -> Output {
    let mut command = sandbox.command(&["run"]);
    if alone {
        command.arg("--alone");
    }
    command
        .args(case.args)
        .current_dir(sandbox.path())
        .stdin(match case.stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), case.stdin) {
        // A process may not read all of it.
        drop(pipe.write_all(text.as_bytes()));
    }
    finish(child)
}

#[test]
fn output_texts_and_exit_codes_are_the_same_with_and_without_the_service() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    sandbox.module("cat.wasm", CAT);
    for name in ["hello", "json", "words", "pi"] {
        let built = format!(
            "{}/../../guests/built/{name}.wasm",
            env!("CARGO_MANIFEST_DIR")
        );
        let bytes = std::fs::read(built).expect("the guests are built");
        let path = sandbox.path().join(format!("{name}.wasm"));
        std::fs::write(path, bytes).expect("the folder is writable");
    }
    sandbox.module(
        "trap.wasm",
        r#"(module (func $f unreachable) (func (export "_start") call $f))"#,
    );
    sandbox.module(
        "big.wasm",
        r#"(module (memory 100) (func (export "_start")))"#,
    );
    std::fs::write(sandbox.path().join("lines"), "one\ntwo\nthree\n").expect("it is writable");
    std::fs::write(sandbox.path().join("bad.wasm"), "no module").expect("it is writable");
    let many: &[&str] = &[
        "hello.wasm",
        "--instances",
        "20",
        "--size",
        "1",
        "--",
        "{instance}",
    ];
    let cases: &[Case<'_>] = &[
        Case {
            args: &["hello.wasm"],
            stdin: None,
        },
        Case {
            args: &["hello.wasm", "--env", "A=1", "--", "x", "y"],
            stdin: Some("typed\n"),
        },
        Case {
            args: &["hello.wasm", "--json"],
            stdin: None,
        },
        Case {
            args: many,
            stdin: None,
        },
        Case {
            args: &["cat.wasm"],
            stdin: Some("some text\nwithout an end"),
        },
        Case {
            args: &["cat.wasm", "--stdin-lines", "lines", "--size", "1"],
            stdin: None,
        },
        Case {
            args: &["cat.wasm", "--stdin-lines", "lines", "--instances", "4"],
            stdin: None,
        },
        Case {
            args: &["cat.wasm", "--stdin-lines", "missing"],
            stdin: None,
        },
        Case {
            args: &["trap.wasm"],
            stdin: None,
        },
        Case {
            args: &["trap.wasm", "--json"],
            stdin: None,
        },
        Case {
            args: &["trap.wasm", "--instances", "3", "--size", "1"],
            stdin: None,
        },
        Case {
            args: &["big.wasm", "--memory", "1M"],
            stdin: None,
        },
        Case {
            args: &["big.wasm", "--stack", "64K"],
            stdin: None,
        },
        Case {
            args: &["big.wasm", "--interleave"],
            stdin: None,
        },
        Case {
            args: &["big.wasm", "--contract"],
            stdin: None,
        },
        Case {
            args: &["big.wasm", "--size", "0"],
            stdin: None,
        },
        Case {
            args: &["big.wasm", "--size", "2000"],
            stdin: None,
        },
        Case {
            args: &["bad.wasm"],
            stdin: None,
        },
        Case {
            args: &["missing.wasm"],
            stdin: None,
        },
        Case {
            args: &["hello.wasm", "--dir", "nowhere"],
            stdin: None,
        },
        Case {
            args: &["hello.wasm", "--engine", "abacus"],
            stdin: None,
        },
        Case {
            args: &["hello.wasm", "--fuel", "10"],
            stdin: None,
        },
        Case {
            args: &["hello.wasm", "--fuel", "0"],
            stdin: None,
        },
        Case {
            args: &["fib", "--n", "20", "--engine", "cpu", "--json"],
            stdin: None,
        },
    ];
    for case in cases {
        let alone = run(&sandbox, case, true);
        let served = run(&sandbox, case, false);
        let args = case.args;
        assert_eq!(served.status, alone.status, "{args:?}: {served:?}");
        assert_eq!(
            without_times(&served.stdout),
            without_times(&alone.stdout),
            "{args:?}"
        );
        assert_eq!(
            without_times(&served.stderr),
            without_times(&alone.stderr),
            "{args:?}"
        );
    }
    let log = sandbox.log();
    assert!(!log.contains("warn") && !log.contains("error"), "{log}");
}

#[test]
fn verbose_says_where_it_runs() {
    let sandbox = Sandbox::new();
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let module = module.to_str().expect("a plain path");
    let told = |args: &[&str]| {
        let output = sandbox.run(&[&["run", module], args].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("it is text")
    };
    assert!(told(&["-v"]).contains("no service is up"));
    let _service = sandbox.up(&[]);
    let engine = sandbox.engine_pid();
    assert_eq!(
        told(&["-v"]),
        format!("everwarp: the service runs this on its cpu engine, process {engine}\n")
    );
    assert_eq!(told(&[]), "");
    assert_eq!(told(&["-v", "--alone"]), "");
}

#[test]
fn machine_code_of_a_file_never_goes_to_the_service() {
    let sandbox = Sandbox::new();
    let module = sandbox.module("nothing.wasm", r#"(module (func (export "_start")))"#);
    let file = ImageFile {
        name: "nothing.wasm".to_owned(),
        module: std::fs::read(module).expect("it was written").into(),
        images: vec![NativeImage {
            arch: 90,
            key: "of another version".to_owned(),
            code: b"machine code".to_vec().into(),
        }],
    };
    let path = sandbox.path().join("nothing.ewimg");
    std::fs::write(&path, file.to_bytes()).expect("the folder is writable");
    let path = path.to_str().expect("a plain path");
    let told = |args: &[&str]| {
        let output = sandbox.run(&[&["run", path, "-v"], args].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("it is text")
    };
    let _service = sandbox.up(&[]);
    assert!(told(&[]).contains("the service runs this"));
    assert!(told(&["--allow-precompiled"]).contains("a service takes no machine code"));
    assert_eq!(told(&["--allow-precompiled", "--alone"]), "");
}

#[test]
fn a_directory_is_the_one_that_was_opened() {
    let sandbox = Sandbox::new();
    let _service = sandbox.up(&[]);
    let module = sandbox.module(
        "open.wasm",
        r#"(module
          (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (memory (export "memory") 1) (data (i32.const 100) "made.txt") (data (i32.const 200) "../up.txt")
          (func (export "_start")
            (if (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 8) (i32.const 9)
              (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 0)) (then (call $exit (i32.const 1))))
            (if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 200) (i32.const 9) (i32.const 9)
              (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 0))) (then (call $exit (i32.const 2))))))"#,
    );
    let folder = sandbox.path().join("folder");
    std::fs::create_dir(&folder).expect("the folder is writable");
    // A relative path means the client's working directory and not the service's.
    let output = sandbox
        .command(&[
            "run",
            module.to_str().expect("a plain path"),
            "--dir",
            "folder::/",
        ])
        .current_dir(sandbox.path())
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{output:?}");
    assert!(folder.join("made.txt").exists());
    assert!(!sandbox.path().join("up.txt").exists());
}
