//! Differential fuzzing: generated modules run in wasmtime and as the compiler's PTX, and both must show the same
//! results, traps, memory, globals and lengths of tables. For every four seeds, one module is compiled as plain code,
//! one is compiled so that it could be suspended, and two are suspended repeatedly: one of these in images that lack functions and
//! are exchanged at random, and every second one of those with frames that move from the stack to memory.
//!
//! `cargo test --release -p everwarp-compiler --test fuzz -- --seed S --count N` begins with seed S and tries N
//! modules (`--seconds T` instead of a count: for T seconds). Without arguments it tries a few hundred fixed seeds.
//! The PTX runs on the interpreter, or with `EVERWARP_MACHINE=cuda` on the first CUDA device. If a seed shows a
//! difference, it is printed, and its module is kept in the folder for temporary files; `--module FILE --seed S` runs
//! that module again.

#[path = "../support/mod.rs"]
mod support;

mod emitted;
mod generate;
mod loops;
mod reference;
mod seen;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The number of modules in a run without arguments.
const COUNT: u64 = 300;

struct Options {
    seed: u64,
    count: u64,
    time: Option<Duration>,
    module: Option<PathBuf>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 0,
        count: COUNT,
        time: None,
        module: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} takes a value"));
        let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
        match arg.as_str() {
            "--seed" => options.seed = number(value()?)?,
            "--count" => options.count = number(value()?)?,
            "--seconds" => {
                options.time = Some(Duration::from_secs(number(value()?)?));
                options.count = u64::MAX;
            }
            "--module" => options.module = Some(value()?.into()),
            other => return Err(format!("{other} means nothing here")),
        }
    }
    Ok(options)
}

/// The result of a comparison.
enum Verdict {
    /// Both ran the module and agreed. Some of its calls trapped.
    Same { calls: usize, traps: usize },
    /// One of the two does not accept the module, for this reason.
    Refused(String),
    /// The two differ in this point.
    Differs(String),
}

fn try_module(bytes: &[u8], seed: u64) -> Verdict {
    let expected = match reference::run(bytes, seed) {
        Ok(seen) => seen,
        Err(why) => return Verdict::Refused(format!("wasmtime: {why}")),
    };
    let found = match emitted::run(bytes, seed) {
        Ok(seen) => seen,
        Err(emitted::Failure::Refused(why)) => return Verdict::Refused(why),
        Err(emitted::Failure::Broken(why)) => return Verdict::Differs(why),
    };
    if let Some(what) = seen::differ(&expected, &found) {
        return Verdict::Differs(what);
    }
    let calls = || expected.iter().flat_map(|life| &life.calls);
    Verdict::Same {
        calls: calls().count(),
        traps: calls().filter(|c| c.result.is_err()).count(),
    }
}

fn keep(bytes: &[u8], seed: u64) -> String {
    let path = std::env::temp_dir().join(format!("everwarp-fuzz-{seed}.wasm"));
    match std::fs::write(&path, bytes) {
        Ok(()) => path.display().to_string(),
        Err(e) => format!("not kept: {e}"),
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}: use --seed S, --count N, --seconds T, --module FILE");
            return ExitCode::from(2);
        }
    };
    let (begin, mut next) = (Instant::now(), options.seed);
    let (mut same, mut calls, mut traps, mut refused, mut differ) = (0u64, 0, 0, 0u64, 0u64);
    let mut reasons = std::collections::BTreeMap::<String, u64>::new();
    for seed in options.seed..options.seed.saturating_add(options.count) {
        if options.time.is_some_and(|time| begin.elapsed() >= time) {
            break;
        }
        next = seed + 1;
        let bytes = match &options.module {
            Some(path) => std::fs::read(path).expect("the module can be read"),
            None => generate::module(seed),
        };
        match try_module(&bytes, seed) {
            Verdict::Same { calls: c, traps: t } => {
                same += 1;
                calls += c;
                traps += t;
            }
            Verdict::Refused(why) => {
                refused += 1;
                *reasons.entry(why).or_default() += 1;
            }
            Verdict::Differs(what) => {
                differ += 1;
                eprintln!("seed {seed}: {what} ({})", keep(&bytes, seed));
            }
        }
        if options.module.is_some() {
            break;
        }
    }
    let suspended = emitted::SUSPENSIONS.load(std::sync::atomic::Ordering::Relaxed);
    let images = emitted::IMAGES.load(std::sync::atomic::Ordering::Relaxed);
    println!(
        "seeds {} to {}: {same} modules alike in {calls} calls ({traps} trapped, {suspended} suspensions, {images} images exchanged), \
         {refused} refused, {differ} different, {:.1} s",
        options.seed,
        next,
        begin.elapsed().as_secs_f64()
    );
    for (why, count) in &reasons {
        println!("  refused {count}: {why}");
    }
    // A run that compares hardly anything proves nothing.
    let compared =
        same >= refused && same + differ > 0 && (same < 50 || suspended > 0 && images > 0);
    match differ == 0 && compared {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
