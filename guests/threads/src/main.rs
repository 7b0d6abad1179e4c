//! Threads of Rust's standard library: `threads [THREADS] [NUMBERS]` sorts numbers in parts, passes them through a
//! queue, and counts them. What it prints does not depend on how many threads there are.

mod numbers;
mod queue;
mod sort;

use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use numbers::{Numbers, digest};
use queue::Queue;

/// Passes all numbers through a short queue, from some threads to others: how many came, and their sum.
fn pass(numbers: &[u32], threads: usize) -> (usize, u64) {
    let queue = Arc::new(Queue::new(16));
    let total = Arc::new(Mutex::new((0, 0)));
    let takers: Vec<_> = (0..threads)
        .map(|_| {
            let (queue, total) = (Arc::clone(&queue), Arc::clone(&total));
            thread::spawn(move || {
                let (mut count, mut sum) = (0, 0);
                while let Some(number) = queue.take() {
                    count += 1;
                    sum += u64::from(number);
                }
                let mut total = total.lock().expect("no thread panics while it counts");
                total.0 += count;
                total.1 += sum;
            })
        })
        .collect();
    thread::scope(|scope| {
        for part in numbers.chunks(numbers.len().div_ceil(threads).max(1)) {
            scope.spawn(|| part.iter().for_each(|number| queue.put(*number)));
        }
    });
    queue.close();
    for taker in takers {
        taker.join().expect("it has not panicked");
    }
    *total.lock().expect("no thread panics while it counts")
}

/// Rounds of threads that wait for each other. Each thread reports when it has come through all rounds.
fn rounds(threads: usize) -> usize {
    let barrier = Arc::new(Barrier::new(threads));
    let (sender, receiver) = mpsc::channel();
    let all: Vec<_> = (0..threads)
        .map(|_| {
            let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
            thread::spawn(move || {
                let leads = (0..10).filter(|_| barrier.wait().is_leader()).count();
                sender.send(leads).expect("somebody receives");
            })
        })
        .collect();
    drop(sender);
    let leads = receiver.iter().sum();
    all.into_iter()
        .for_each(|t| t.join().expect("it has not panicked"));
    leads
}

/// True if a wait for a message that never comes ends in time, and a late message is received.
fn patience() -> bool {
    let (sender, receiver) = mpsc::channel::<u32>();
    let nothing = receiver.recv_timeout(Duration::from_millis(2)).is_err();
    let late = thread::spawn(move || {
        thread::sleep(Duration::from_millis(2));
        sender.send(7).is_ok()
    });
    let came = receiver.recv_timeout(Duration::from_secs(600)) == Ok(7);
    nothing && came && late.join().is_ok_and(|sent| sent)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut number = |otherwise| args.next().map_or(Ok(otherwise), |a| a.parse::<usize>());
    let (Ok(threads @ 1..), Ok(count)) = (number(8), number(10_000)) else {
        eprintln!("usage: threads [THREADS] [NUMBERS]");
        return ExitCode::from(2);
    };
    let mut numbers: Vec<u32> = Numbers::new(1).take(count).collect();
    sort::sort(&mut numbers, threads);
    let sorted = numbers.is_sorted();
    println!(
        "{count} numbers, sorted: {sorted}, digest {:016x}",
        digest(&numbers)
    );
    let (passed, sum) = pass(&numbers, threads);
    println!("{passed} passed through a queue, sum {sum}");
    println!("10 rounds, {} led", rounds(threads));
    println!("patience: {}", patience());
    ExitCode::SUCCESS
}
