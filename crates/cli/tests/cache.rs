//! `everwarp cache`, and the modules that the CPU engine keeps there.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A command that prints `ok`, with so much code that it is worth keeping.
fn module() -> Vec<u8> {
    let mut text = String::from(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\08\00\00\00\03\00\00\00ok\0a")
          (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32))))"#,
    );
    for function in 0..2000 {
        let _ = write!(
            text,
            r#"(func (export "f{function}") (param i32) (result i32) (local i32)
               (loop (local.set 1 (i32.add (local.get 1) (i32.mul (local.get 0) (i32.const {function}))))
                 (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
               (local.get 1))"#
        );
    }
    wat::parse_str(text + ")").expect("it is a module")
}

fn everwarp(cache: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.args(args).env("EVERWARP_CACHE_DIR", cache);
    command
}

fn output(cache: &Path, args: &[&str]) -> Output {
    everwarp_testkit::output(&mut everwarp(cache, args))
}

fn report(cache: &Path, args: &[&str]) -> Value {
    let all = [&["cache", "--json"], args].concat();
    let output = output(cache, &all);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

#[test]
fn a_module_is_kept_listed_repaired_and_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cache, path) = (folder.path().join("code"), folder.path().join("many.wasm"));
    std::fs::write(&path, module()).expect("the folder is writable");
    let path = path.to_str().expect("a plain path");
    let run = || {
        let output = output(&cache, &["run", path, "--engine", "cpu", "--alone"]);
        assert_eq!(output.stdout, b"ok\n", "{output:?}");
        String::from_utf8(output.stderr).expect("it is text")
    };
    let empty = report(&cache, &["--list"]);
    assert_eq!(empty["entries"], Value::Array(Vec::new()));

    assert_eq!(run(), "");
    let kept = report(&cache, &["--list"]);
    assert_eq!(
        (&kept["modules"]["entries"], &kept["images"]["entries"]),
        (&1.into(), &0.into())
    );
    let entry = &kept["entries"][0];
    assert_eq!(entry["kind"], "module");
    assert!(
        entry["name"]
            .as_str()
            .is_some_and(|name| name.contains("many")),
        "{entry}"
    );
    let file = entry["file"].as_str().expect("it has a file").to_owned();
    let written = || {
        std::fs::metadata(&file)
            .and_then(|m| m.created())
            .expect("it is there")
    };
    let before = written();
    assert_eq!(run(), "");
    assert_eq!(written(), before, "the entry was used, not made again");

    // Damage is survived, mentioned once, and repaired.
    let mut bytes = std::fs::read(&file).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&file, &bytes).expect("it is ours");
    let said = run();
    assert_eq!(said.matches("is damaged").count(), 1, "{said}");
    assert_eq!(run(), "");

    let text = output(&cache, &["cache", "--list"]);
    let text = String::from_utf8(text.stdout).expect("it is text");
    assert!(text.contains("modules of the CPU engine: 1,"), "{text}");
    let cleared = report(&cache, &["--clear"]);
    assert_eq!(
        (
            &cleared["removed"]["entries"],
            &cleared["modules"]["entries"]
        ),
        (&1.into(), &0.into())
    );
    let limited = report(&cache, &["--limit", "1K"]);
    assert_eq!(limited["limit_bytes"], 1024);
    assert_eq!(run(), "");
    assert_eq!(
        report(&cache, &[])["modules"]["entries"],
        0,
        "it is larger than the limit"
    );
}

#[test]
fn processes_share_the_cache() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cache, path) = (folder.path().join("code"), folder.path().join("many.wasm"));
    std::fs::write(&path, module()).expect("the folder is writable");
    let path = path.to_str().expect("a plain path");
    std::thread::scope(|scope| {
        let all = [(); 4]
            .map(|()| scope.spawn(|| output(&cache, &["run", path, "--engine", "cpu", "--alone"])));
        for one in all {
            let output = one.join().expect("it runs");
            assert_eq!(
                (&output.stdout[..], &output.stderr[..]),
                (&b"ok\n"[..], &b""[..])
            );
        }
    });
    assert_eq!(report(&cache, &[])["modules"]["entries"], 1);
    let files = std::fs::read_dir(&cache).expect("it is a folder").count();
    assert_eq!(files, 1, "no temporary file is left");
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_can_write_is_named_and_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("many.wasm");
    std::fs::write(&path, module()).expect("the folder is writable");
    let path = path.to_str().expect("a plain path");
    let cache = folder.path().join("code");
    std::fs::create_dir(&cache).expect("the folder is writable");
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let output = output(&cache, &["run", path, "--engine", "cpu", "--alone"]);
    assert_eq!(output.stdout, b"ok\n");
    let said = String::from_utf8(output.stderr).expect("it is text");
    assert_eq!(said.matches("chmod go-w").count(), 1, "{said}");
    assert_eq!(
        std::fs::read_dir(&cache).expect("it is a folder").count(),
        0
    );
    let refused = self::output(&cache, &["cache", "--limit", "1G"]);
    assert_eq!(refused.status.code(), Some(1));
}
