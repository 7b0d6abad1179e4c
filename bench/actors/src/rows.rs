//! The rows, which are those of `everwarp bench actors`, and how they are timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::node::{Address, Msg, Node, REPORTS, expect, next_random, place, wait};

/// An actor system.
pub trait System: Sized {
    /// Addresses of its actors.
    type Link: Address;
    /// An actor that asks, and one that replies.
    type Pair;
    /// Its name.
    const NAME: &'static str;
    /// Starts it with this number of threads.
    fn start(threads: usize) -> Self;
    /// Spawns an actor.
    fn spawn(&self, node: Node<Self::Link>) -> Self::Link;
    /// Spawns a pair.
    fn pair(&self) -> Self::Pair;
    /// Lets the first of a pair ask `n` times; then one thing is done.
    fn ask(&self, pair: &Self::Pair, n: u64);
    /// Asks `n` times from outside. Returns the time of each.
    fn ask_from_host(&self, pair: &Self::Pair, n: u64) -> Vec<f64>;
    /// Ends a pair.
    fn end(&self, pair: Self::Pair);
}

/// A measured row, with the fields that the command's rows have.
#[derive(Serialize)]
pub struct Row {
    system: &'static str,
    row: &'static str,
    case: String,
    unit: &'static str,
    n: usize,
    median_s: f64,
    p99_s: f64,
    units: f64,
    per_second: f64,
    verified: bool,
}

/// The fewest and the most repetitions, and the time after which there are no more: as in the command.
const LEAST: usize = 3;
const MOST: usize = 100;
const BUDGET: Duration = Duration::from_millis(400);
const LONGEST_S: f64 = 4.0;

const MEMBERS: u32 = 1000;
const PRODUCERS: u64 = 100;
const HOPS: u64 = 10;
const PAIRS: u64 = 1000;
const ASKS: u64 = 20_000;

fn row<S: System>(
    name: &'static str,
    case: u64,
    unit: &'static str,
    units: f64,
    mut times: Vec<f64>,
    verified: bool,
) {
    times.sort_by(f64::total_cmp);
    let n = times.len();
    let median = match n % 2 {
        1 => times[n / 2],
        _ => (times[n / 2 - 1] + times[n / 2]) / 2.0,
    };
    let row = Row {
        system: S::NAME,
        row: name,
        case: if case == 0 {
            String::new()
        } else {
            case.to_string()
        },
        unit,
        n,
        median_s: median,
        p99_s: times[((n as f64 * 0.99).ceil() as usize).clamp(1, n) - 1],
        units,
        per_second: units / median,
        verified,
    };
    println!("{}", serde_json::to_string(&row).expect("it is JSON"));
}

/// The times of repetitions, without the first, and whether all were right.
fn repeat(mut run: impl FnMut() -> (f64, bool)) -> (Vec<f64>, bool) {
    let (_, mut right) = run();
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < LEAST || (begin.elapsed() < BUDGET && times.len() < MOST) {
        let (time, is_right) = run();
        right &= is_right;
        times.push(time);
        if time > LONGEST_S {
            break;
        }
    }
    (times, right)
}

fn spawn_all<S: System>(system: &S, n: u32) -> Arc<Vec<S::Link>> {
    let all: Vec<_> = (0..n).map(|_| system.spawn(Node::default())).collect();
    let all = Arc::new(all);
    expect(n.into());
    for (i, link) in (0..).zip(&*all) {
        link.tell(Msg::Know(all.clone(), i));
    }
    wait();
    all
}

/// The counts and sums of actors, by their numbers.
fn reports<L: Address>(all: &[L]) -> Vec<(u64, u64)> {
    REPORTS.lock().expect("no panic").clear();
    expect(all.len() as i64);
    all.iter().for_each(|link| link.tell(Msg::Report));
    wait();
    let mut reports = REPORTS.lock().expect("no panic");
    reports.sort();
    reports.iter().map(|r| (r.1, r.2)).collect()
}

fn end<L: Address>(all: &[L]) {
    all.iter().for_each(|link| link.tell(Msg::Stop));
}

fn timed(things: i64, begin: impl FnOnce()) -> f64 {
    expect(things);
    let start = Instant::now();
    begin();
    wait();
    start.elapsed().as_secs_f64()
}

fn ring<S: System>(system: &S, name: &'static str, tokens: u64) {
    for n in [100_000, 1_000_000, 10_000_000] {
        let all = spawn_all(system, MEMBERS);
        let hops = n / tokens;
        let mut rounds = 0;
        let (times, right) = repeat(|| {
            let time = timed(tokens as i64, || {
                for token in 0..tokens {
                    let at = token * u64::from(MEMBERS) / tokens;
                    all[at as usize].tell(Msg::Token { left: hops });
                }
            });
            rounds += 1;
            let ended = reports(&all);
            let mut wanted = vec![0; MEMBERS as usize];
            for token in 0..tokens {
                let at = token * u64::from(MEMBERS) / tokens + hops;
                wanted[(at % u64::from(MEMBERS)) as usize] += rounds;
            }
            (time, ended.iter().map(|r| r.0).eq(wanted))
        });
        end(&all);
        let slow = times.iter().sum::<f64>() / times.len() as f64 > LONGEST_S / 10.0;
        row::<S>(name, n, "hop", n as f64, times, right);
        if slow {
            break;
        }
    }
}

fn counting<S: System>(system: &S) {
    for n in [100_000_u64, 1_000_000, 10_000_000] {
        let (times, right) = repeat(|| {
            let counter = system.spawn(Node {
                pending: n,
                ..Node::default()
            });
            let mut all = vec![counter];
            all.extend((0..PRODUCERS).map(|_| system.spawn(Node::default())));
            let known = Arc::new(all);
            expect(known.len() as i64);
            for (i, link) in (0..).zip(&*known) {
                link.tell(Msg::Know(known.clone(), i));
            }
            wait();
            let time = timed(1, || {
                for i in 0..PRODUCERS {
                    let (first, end) = (n * i / PRODUCERS, n * (i + 1) / PRODUCERS);
                    known[1 + i as usize].tell(Msg::Produce { first, end });
                }
            });
            let counted = reports(&known)[0];
            end(&known);
            (time, counted == (n, n * (n - 1) / 2))
        });
        row::<S>("counting", n, "message", n as f64, times, right);
    }
}

fn big<S: System>(system: &S) {
    for n in [10_000_u32, 100_000, 1_000_000] {
        let all = spawn_all(system, n);
        let mut once = vec![(0, 0); n as usize];
        for i in 0..u64::from(n) {
            let (mut at, mut seed) = (i as usize, next_random(i));
            for _ in 0..HOPS {
                once[at].0 += 1;
                at = place(seed, n.into()) as usize;
                seed = next_random(seed);
            }
            once[at].0 += 1;
            once[at].1 += 1;
        }
        let mut rounds = 0;
        let (times, right) = repeat(|| {
            let time = timed(n.into(), || {
                for (i, link) in (0..).zip(&*all) {
                    let seed = next_random(i);
                    link.tell(Msg::Hop { left: HOPS, seed });
                }
            });
            rounds += 1;
            let got = reports(&all);
            let wanted = once.iter().map(|o| (o.0 * rounds, o.1 * rounds));
            (time, got.into_iter().eq(wanted))
        });
        end(&all);
        let messages = f64::from(n) * (HOPS + 1) as f64;
        row::<S>("big", n.into(), "message", messages, times, right);
    }
}

fn skynet<S: System>(system: &S) {
    for n in [10_000_u64, 100_000, 1_000_000] {
        let (times, right) = repeat(|| {
            REPORTS.lock().expect("no panic").clear();
            let time = timed(1, || {
                let root = system.spawn(Node::default());
                root.tell(Msg::Tree {
                    first: 0,
                    count: n,
                    depth: 0,
                });
            });
            let sum = REPORTS.lock().expect("no panic")[0].2;
            (time, sum == n * (n - 1) / 2)
        });
        let actors: u64 =
            std::iter::successors(Some(n), |n| (*n > 1).then(|| n.div_ceil(10))).sum();
        row::<S>("skynet", n, "actor", actors as f64, times, right);
    }
}

fn asks<S: System>(system: &S) {
    for n in [100_000_u64, 1_000_000] {
        let pairs: Vec<_> = (0..PAIRS).map(|_| system.pair()).collect();
        let (times, right) = repeat(|| {
            let ask = || pairs.iter().for_each(|pair| system.ask(pair, n / PAIRS));
            (timed(PAIRS as i64, ask), true)
        });
        pairs.into_iter().for_each(|pair| system.end(pair));
        // The askers themselves check each reply.
        row::<S>("asks", n, "ask", n as f64, times, right);
    }
    let pair = system.pair();
    let mut times = system.ask_from_host(&pair, ASKS + 1000);
    times.drain(..1000);
    system.end(pair);
    row::<S>("ask_from_host", 0, "ask", 1.0, times, true);
}

/// Measures all rows of a system.
pub fn measure<S: System>(threads: usize) {
    let system = S::start(threads);
    ring(&system, "ring", 1);
    ring(&system, "ring_full", MEMBERS.into());
    counting(&system);
    big(&system);
    skynet(&system);
    asks(&system);
}
