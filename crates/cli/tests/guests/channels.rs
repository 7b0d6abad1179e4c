//! `pipeline` and `kv`, whose processes send each other messages, compared with results that are computed here.

use std::collections::BTreeMap;
use std::fmt::Write;

use everwarp_testkit::cases;

use crate::{Case, Ended, run};

/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    three_processes_find_the_primes,
    an_invalid_limit_is_refused,
    clients_read_the_values_that_they_have_put,
    a_family_may_be_spawned_many_times
];

/// The output of `pipeline`, computed with a sieve.
fn primes(limit: usize) -> String {
    let mut composite = vec![false; limit.max(2)];
    let (mut count, mut sum) = (0, 0);
    for n in 2..limit {
        if composite[n] {
            continue;
        }
        count += 1;
        sum += n;
        for multiple in (n * n..limit).step_by(n) {
            composite[multiple] = true;
        }
    }
    format!("{count} primes below {limit}, sum {sum}\nthree processes ended\n")
}

fn three_processes_find_the_primes() {
    for limit in [0, 1, 2, 3, 63, 64, 65, 1000, 30_000] {
        let ended = run("pipeline", &[], &[&limit.to_string()], b"");
        assert_eq!(ended, Ended::new(0, &primes(limit), ""));
    }
}

fn an_invalid_limit_is_refused() {
    for wrong in ["x", "-1", "100000001"] {
        let ended = run("pipeline", &[], &[wrong], b"");
        assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    }
}

fn mix(v: u64) -> u64 {
    let v = (v ^ (v >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let v = (v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    v ^ (v >> 31)
}

/// The output of `kv`: its clients use different keys, and their additions have the same sum in any order.
fn store(clients: u32, rounds: u32) -> String {
    let mut values = BTreeMap::new();
    let mut counter = 0;
    let mut out = String::new();
    for client in 0..clients {
        for round in 0..rounds {
            let key = client * 16 + round.wrapping_mul(2_654_435_761).wrapping_add(client) % 16;
            if round % 3 == 0 {
                values.insert(key, u64::from(round) << 32 | u64::from(client));
            }
            counter += u64::from(client + round);
        }
        let puts = rounds.div_ceil(3);
        writeln!(
            out,
            "client {client}: {puts} puts, {rounds} gets, {rounds} adds"
        )
        .expect("a string takes it");
    }
    values.insert(u32::MAX, counter);
    let digest = values.iter().fold(0, |sum, (key, value)| {
        sum ^ mix(u64::from(*key) << 32 ^ mix(*value))
    });
    let keys = values.len();
    writeln!(out, "{keys} keys, counter {counter}, digest {digest:016x}")
        .expect("a string takes it");
    out
}

fn clients_read_the_values_that_they_have_put() {
    for (clients, rounds) in [(1, 1), (3, 50), (8, 100), (28, 40)] {
        let args = [clients, rounds].map(|n: u32| n.to_string());
        let ended = run("kv", &[], &args.each_ref().map(String::as_str), b"");
        assert_eq!(ended, Ended::new(0, &store(clients, rounds), ""));
    }
}

fn a_family_may_be_spawned_many_times() {
    let ended = run("pipeline", &["--instances", "10"], &["200"], b"");
    let mut lines: Vec<_> = ended.out.lines().collect();
    lines.sort_unstable();
    let expected = primes(200);
    let mut expected: Vec<_> = std::iter::repeat_n(expected.lines(), 10)
        .flatten()
        .collect();
    expected.sort_unstable();
    assert_eq!((ended.code, lines), (0, expected));
}
