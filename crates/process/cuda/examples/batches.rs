//! How long the compiler takes for modules whose functions come while processes run (`--tier lazy`): once for the module, and for
//! each batch of functions. Needs no GPU; `bench/results` has what it printed.
//!
//! `cargo run --release -p everwarp-process-cuda --example batches -- MODULE.wasm...`

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use everwarp_process::Module;
use everwarp_process_cuda::{BatchTimes, batch_times};

fn main() -> ExitCode {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for path in std::env::args().skip(1) {
        let module = Module::from_file(Path::new(&path)).map_err(|e| e.to_string());
        let times = module.and_then(|module| batch_times(&module).map_err(|e| e.to_string()));
        let times = match times {
            Ok(times) => times,
            Err(error) => {
                eprintln!("batches: {error}");
                return ExitCode::FAILURE;
            }
        };
        let Some(times) = times else {
            println!("{path}: is compiled as a whole");
            continue;
        };
        let BatchTimes {
            translating,
            first_bytes: [first, stand_ins],
            mut batches,
        } = times;
        batches.sort_by_key(|(_, _, time)| *time);
        let functions: usize = batches.iter().map(|(functions, ..)| functions).sum();
        let bytes: usize = batches.iter().map(|(_, bytes, _)| bytes).sum();
        let middle = batches.get(batches.len() / 2).map(|(.., time)| *time);
        let longest = batches.last().map(|(.., time)| *time);
        println!(
            "{path}: translated in {:.0} ms; at first {} KB of PTX, {} KB that stand in for the rest; {functions} functions in {} batches, \
             {} KB; the text of a batch takes {:.2} ms, at most {:.2} ms",
            ms(translating),
            first >> 10,
            stand_ins >> 10,
            batches.len(),
            bytes >> 10,
            ms(middle.unwrap_or_default()),
            ms(longest.unwrap_or_default())
        );
    }
    ExitCode::SUCCESS
}
