//! Measures how many megabytes of WebAssembly the compiler turns into PTX per second, on all cores and without
//! assembling the PTX: once with the options of processes (`preempt`), and once without suspension. The script `run`
//! in this folder makes a module of one megabyte to compile: this compiler, built for WebAssembly. `compile_speed
//! MODULE...` measures other modules.

use std::error::Error;
use std::time::{Duration, Instant};

use everwarp_compiler::{CompileOptions, compile};

/// How long each module is compiled repeatedly.
const AT_LEAST: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    if paths.is_empty() {
        return Err("usage: compile_speed MODULE...".into());
    }
    for path in paths {
        let bytes = std::fs::read(&path)?;
        for preempt in [true, false] {
            let options = CompileOptions {
                preempt,
                ..CompileOptions::default()
            };
            // The first compilation touches pages that the allocator then keeps.
            let ptx = compile(&bytes, &options)?.ptx.len();
            let (begin, mut times) = (Instant::now(), Vec::new());
            while begin.elapsed() < AT_LEAST {
                let begin = Instant::now();
                compile(&bytes, &options)?;
                times.push(begin.elapsed());
            }
            times.sort_unstable();
            let median = times[times.len() / 2].as_secs_f64();
            println!(
                "{}: {} bytes {} in {:.1} ms, {:.1} MB/s, {:.1} bytes of PTX for each (median of {})",
                path.to_string_lossy(),
                bytes.len(),
                if preempt { "for a process" } else { "plain" },
                1e3 * median,
                bytes.len() as f64 / median / 1e6,
                ptx as f64 / bytes.len() as f64,
                times.len()
            );
        }
    }
    Ok(())
}
