//! `threads`, which is an ordinary program of Rust's standard library, compared with the same work done here without threads.

use everwarp_testkit::cases;

use crate::{Case, Ended, run};

/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    threads_give_the_same_result_as_one_thread,
    a_program_that_may_not_start_its_threads_reports_it
];

/// The standard library gives each thread a stack of 2 MiB by default.
const SMALL: [&str; 4] = ["--memory", "8M", "--env", "RUST_MIN_STACK=65536"];

fn numbers(count: usize) -> Vec<u32> {
    let next = |n: &u32| {
        let n = n ^ n << 13;
        let n = n ^ n >> 17;
        Some(n ^ n << 5)
    };
    std::iter::successors(next(&1), next).take(count).collect()
}

fn expected(threads: usize, count: usize) -> Ended {
    let mut numbers = numbers(count);
    numbers.sort_unstable();
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes());
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let sum: u64 = numbers.iter().map(|n| u64::from(*n)).sum();
    // Each round has one leader, however many threads there are.
    assert!(threads > 0);
    let out = format!(
        "{count} numbers, sorted: true, digest {digest:016x}\n{count} passed through a queue, sum {sum}\n\
         10 rounds, 10 led\npatience: true\n"
    );
    Ended::new(0, &out, "")
}

fn threads_give_the_same_result_as_one_thread() {
    for (threads, count) in [(1, 0), (1, 100), (8, 3000), (30, 1000)] {
        let args = [threads.to_string(), count.to_string()];
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let ended = run("threads", &SMALL, &args, b"");
        assert_eq!(ended, expected(threads, count));
    }
}

fn a_program_that_may_not_start_its_threads_reports_it() {
    let ended = run(
        "threads",
        &["--memory", "64M", "--threads", "3"],
        // Each thread sorts for longer than it takes to start four of them.
        &["8", "400000"],
        b"",
    );
    assert_ne!(ended.code, 0);
    assert!(
        ended.err.contains("failed to spawn thread"),
        "{}",
        ended.err
    );
    let wrong = run("threads", &[], &["0"], b"");
    assert_eq!(
        wrong,
        Ended::new(2, "", "usage: threads [THREADS] [NUMBERS]\n")
    );
}
