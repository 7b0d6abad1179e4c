//! Standard streams, arguments and the environment.

mod common;

use common::Given;
use common::{captured, program, run, stdout};
use everwarp_process::{ExitStatus, Input, Output};

/// Writes the arguments as the host lays them out, with a zero byte after each, then the environment.
const ECHO: &str = r#"(memory (export "memory") 2)
  (func (export "_start")
    (drop (call $args_sizes_get (i32.const 16) (i32.const 20)))
    (drop (call $args_get (i32.const 1024) (i32.const 32768)))
    (drop (call $write (i32.const 1) (i32.const 32768) (i32.load (i32.const 20))))
    (drop (call $environ_sizes_get (i32.const 16) (i32.const 20)))
    (drop (call $environ_get (i32.const 1024) (i32.const 32768)))
    (drop (call $write (i32.const 2) (i32.const 32768) (i32.load (i32.const 20)))))"#;

#[test]
fn each_stream_is_captured_by_itself() {
    let hello = program(
        r#"(memory (export "memory") 1) (data (i32.const 100) "hello\nworld\n")
        (func (export "_start")
          (drop (call $write (i32.const 1) (i32.const 100) (i32.const 6)))
          (drop (call $write (i32.const 2) (i32.const 106) (i32.const 6))))"#,
    );
    let exit = run(&hello, captured());
    assert!(exit.success());
    assert_eq!(stdout(&exit), "hello\n");
    assert_eq!(exit.stderr.expect("it was captured").bytes, b"world\n");
}

#[test]
fn process_sees_only_the_given_arguments_and_variables() {
    let echo = program(ECHO);
    let exit = run(
        &echo,
        Given {
            args: vec!["echo".to_owned(), "a b".to_owned(), String::new()],
            env: vec![("KEY".to_owned(), "va=lue".to_owned())],
            ..captured()
        },
    );
    assert_eq!(stdout(&exit), "echo\0a b\0\0");
    assert_eq!(exit.stderr.expect("it was captured").bytes, b"KEY=va=lue\0");
    let exit = run(&echo, captured());
    assert_eq!(stdout(&exit), "");
    assert!(exit.stderr.expect("it was captured").bytes.is_empty());
}

#[test]
fn every_exit_code_is_passed_on() {
    for code in [0, 1, 42, 125, 126, 255, 70_000] {
        let exiting = program(&format!(
            r#"(memory (export "memory") 1)
            (func (export "_start") (call $proc_exit (i32.const {code})) unreachable)"#
        ));
        assert_eq!(run(&exiting, captured()).status, ExitStatus::Exited(code));
    }
}

/// Reads up to 10 bytes of standard input and writes them out again, until the end.
const CAT: &str = r#"(memory (export "memory") 1)
  (func (export "_start")
    (loop $more
      (i32.store (i32.const 16) (i32.const 200))
      (i32.store (i32.const 20) (i32.const 10))
      (if (call $fd_read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 24))
        (then unreachable))
      (if (i32.load (i32.const 24)) (then
        (if (call $write (i32.const 1) (i32.const 200) (i32.load (i32.const 24)))
          (then (call $proc_exit (call $write (i32.const 1) (i32.const 200) (i32.const 1)))))
        (br $more)))))"#;

#[test]
fn standard_input_is_the_given_bytes_or_empty() {
    let cat = program(CAT);
    let text = b"0123456789abcdefghijklmnopqrstuvwxyz\n".to_vec();
    let mut shared = captured();
    shared.grants.stdin = Input::Bytes(text.clone().into());
    assert_eq!(stdout(&run(&cat, shared.clone())).into_bytes(), text);
    let own = Given {
        stdin: Some("its own".into()),
        ..shared
    };
    assert_eq!(stdout(&run(&cat, own)), "its own");
    let exit = run(&cat, captured());
    assert!(exit.success() && stdout(&exit).is_empty());
}

#[test]
fn write_beyond_the_capture_limit_is_refused_and_noted() {
    const NOSPC: u32 = 51;
    let cat = program(CAT);
    for (limit, refused) in [(36, true), (37, false), (38, false), (0, true), (15, true)] {
        let given = Given {
            stdin: Some("0123456789abcdefghijklmnopqrstuvwxyz\n".into()),
            ..captured()
        };
        let exit = run(&cat, given.stdout(Output::Capture { limit }));
        let kept = exit.stdout.expect("it was captured");
        assert_eq!(kept.refused, refused, "limit {limit}");
        assert_eq!(kept.bytes.len(), limit.min(37));
        let code = if refused { NOSPC } else { 0 };
        assert_eq!(exit.status, ExitStatus::Exited(code), "limit {limit}");
    }
}

#[test]
fn large_write_is_captured_up_to_the_limit() {
    let large = program(
        r#"(memory (export "memory") 2)
        (func (export "_start")
          (memory.fill (i32.const 1000) (i32.const 120) (i32.const 100000))
          (call $proc_exit (call $write (i32.const 1) (i32.const 1000) (i32.const 100000))))"#,
    );
    for (limit, code) in [(100_000, 0), (99_999, 51), (5_000, 51)] {
        let exit = run(&large, captured().stdout(Output::Capture { limit }));
        assert_eq!(stdout(&exit), "x".repeat(limit));
        assert_eq!(exit.status, ExitStatus::Exited(code));
    }
}
