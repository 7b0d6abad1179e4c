//! The threads of many hosts. One test, because it counts the threads of this program.
#![cfg(target_os = "linux")]

mod common;

use std::time::{Duration, Instant};

use common::{TestHost, captured, program, stdout};

/// Writes its arguments, each with a zero byte after it.
const ECHO: &str = r#"(memory (export "memory") 2)
  (func (export "_start")
    (drop (call $args_sizes_get (i32.const 16) (i32.const 20)))
    (drop (call $args_get (i32.const 1024) (i32.const 32768)))
    (drop (call $write (i32.const 1) (i32.const 32768) (i32.load (i32.const 20)))))"#;

/// The worker threads of this program, as the system counts them.
fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is there");
    let names = tasks.map(|task| {
        let task = task.expect("the folder can be read").path();
        // A thread may have ended since the folder was read.
        std::fs::read_to_string(task.join("comm")).unwrap_or_default()
    });
    names.filter(|name| name == "process\n").count()
}

/// Waits until there are this many. A thread gets its name, and leaves the system's list, a moment after it starts and
/// returns.
fn wait_until(counts: std::ops::RangeInclusive<usize>) {
    let begin = Instant::now();
    while !counts.contains(&workers()) {
        let found = workers();
        assert!(begin.elapsed() < Duration::from_secs(20), "{found} workers");
        std::thread::yield_now();
    }
}

/// On 16 cores, host number 65 used to be refused: each host took as many threads as there are cores, and kept them.
#[test]
fn a_hundred_hosts_of_sixteen_threads_work_and_rest_with_one_thread_each() {
    let echo = program(ECHO);
    let hosts: Vec<_> = (0..100).map(|_| TestHost::start(16)).collect();
    wait_until(100..=100);
    let args = |n: u32| vec!["echo".to_owned(), n.to_string()];
    std::thread::scope(|scope| {
        for host in &hosts {
            scope.spawn(|| {
                let pids = host.spawn_all(&echo, &captured(), &args, 300);
                for (n, pid) in pids.expect("they are spawned").into_iter().enumerate() {
                    assert_eq!(stdout(&host.wait(pid)), format!("echo\0{n}\0"));
                }
            });
        }
    });
    // A thread that was dismissed has given its right back and may not have ended yet.
    wait_until(0..=100 + 1024);
    wait_until(100..=100);
    drop(hosts);
    wait_until(0..=0);
}
