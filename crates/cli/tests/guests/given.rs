//! `hello` prints its arguments, environment and input; `pi` needs only arguments and random bytes.

use everwarp_testkit::cases;

use crate::{Case, Ended, ONE_PAGE, run, run_on};

/// Cases that run no guest on a GPU.
pub(crate) const HOST: &[(&str, Case)] =
    cases![pi_without_a_seed_draws_points_of_its_own_in_every_instance];
/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    hello_prints_its_arguments_environment_and_the_length_of_its_input,
    pi_with_a_seed_draws_the_same_points_everywhere,
    instances_know_their_number,
    pi_refuses_an_invalid_number_of_samples
];

fn hello_prints_its_arguments_environment_and_the_length_of_its_input() {
    let options = ["--env", "LANG=C", "--env", "EMPTY=", "--memory", ONE_PAGE];
    for (length, args) in [(0, &[][..]), (10_000, &["one", "", "three words here"])] {
        let mut out = "hello\nargument 0: hello.wasm\n".to_owned();
        for (number, arg) in args.iter().enumerate() {
            out += &format!("argument {}: {arg}\n", number + 1);
        }
        out += &format!("variable LANG=C\nvariable EMPTY=\nstandard input: {length} bytes\n");
        let ended = run("hello", &options, args, &vec![b'x'; length]);
        assert_eq!(ended, Ended::new(0, &out, ""));
    }
}

/// The number of hits in a line of `pi`, after a look at the rest of it.
fn hits(line: &str, samples: u64) -> u64 {
    let (estimate, rest) = line.split_once(" from ").expect("an estimate");
    let (said, hits) = rest.split_once(" samples, ").expect("a number of samples");
    assert_eq!(said.parse(), Ok(samples));
    let hits = hits.strip_suffix(" hits").expect("a number of hits");
    let hits = hits.parse().expect("a number");
    let millionths = hits * 4_000_000 / samples;
    let (whole, part) = (millionths / 1_000_000, millionths % 1_000_000);
    assert_eq!(estimate, format!("{whole}.{part:06}"));
    hits
}

/// The same points, drawn here.
fn expected(samples: u64, seed: u64, stream: u64) -> u64 {
    let mix = |state: u64| {
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let start = seed ^ mix(stream.wrapping_add(step));
    let point = |n: u64| mix(start.wrapping_add(step.wrapping_mul(n)));
    let inside = |bits: u64| {
        let (x, y) = (bits >> 33, bits & 0x7fff_ffff);
        u128::from(x).pow(2) + u128::from(y).pow(2) < 1 << 62
    };
    (1..=samples).filter(|n| inside(point(*n))).count() as u64
}

fn pi_with_a_seed_draws_the_same_points_everywhere() {
    for (samples, seed, stream) in [
        (1, 0, 0),
        (1000, 7, 0),
        (1000, 7, 1),
        (250_000, u64::MAX, 9),
    ] {
        let args = [samples, seed, stream].map(|n| n.to_string());
        let args = args.each_ref().map(String::as_str);
        let ended = run("pi", &[], &args, b"");
        let hits = hits(ended.out.trim_end(), samples);
        assert_eq!(
            hits,
            expected(samples, seed, stream),
            "{samples} {seed} {stream}"
        );
    }
}

fn pi_without_a_seed_draws_points_of_its_own_in_every_instance() {
    let samples = 100_000;
    let ended = run_on(
        "cpu",
        "pi",
        &["--instances", "64", "--memory", ONE_PAGE],
        &[],
        b"",
    );
    assert_eq!(ended.code, 0);
    let mut all: Vec<u64> = ended.out.lines().map(|l| hits(l, samples)).collect();
    assert_eq!(all.len(), 64);
    // The share is pi/4 with a standard deviation of 130 hits each; six of them on 64 draws fail once in
    // eight million runs.
    for hits in &all {
        assert!((77_761..=79_319).contains(hits), "{hits} hits of {samples}");
    }
    let total = all.iter().sum::<u64>() as f64 / (64 * samples) as f64;
    assert!(
        (total - std::f64::consts::FRAC_PI_4).abs() < 0.001,
        "{total}"
    );
    // Streams that repeat would show here: 64 draws of about 800 likely values are not all one.
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 32, "{} different results only", all.len());
}

fn instances_know_their_number() {
    let args = ["1000", "7", "{instance}"];
    let ended = run(
        "pi",
        &["--instances", "40", "--memory", ONE_PAGE],
        &args,
        b"",
    );
    assert_eq!(ended.code, 0);
    let mut drawn: Vec<u64> = ended.out.lines().map(|l| hits(l, 1000)).collect();
    let mut wanted: Vec<u64> = (0..40).map(|stream| expected(1000, 7, stream)).collect();
    drawn.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(drawn, wanted);

    let options = ["--instances", "3", "--tag", "--env", "N=<{instance}>"];
    let ended = run("hello", &options, &["{instance}{instance}"], b"");
    for number in 0..3 {
        for line in [
            format!("[{number}.1] argument 1: {number}{number}"),
            format!("[{number}.1] variable N=<{number}>"),
        ] {
            assert!(
                ended.out.lines().any(|l| l == line),
                "{line}\n{}",
                ended.out
            );
        }
    }
    // A single process gets its arguments as they were typed.
    let ended = run("hello", &["--env", "N={instance}"], &["{instance}"], b"");
    assert!(
        ended
            .out
            .contains("argument 1: {instance}\nvariable N={instance}\n")
    );
}

fn pi_refuses_an_invalid_number_of_samples() {
    for (arg, says) in [
        (
            "many",
            "pi: `many` is no number: use pi [SAMPLES] [SEED] [STREAM]\n",
        ),
        ("0", "pi: from 1 to 2^40 samples, not 0\n"),
    ] {
        assert_eq!(run("pi", &[], &[arg], b""), Ended::new(2, "", says));
    }
}
