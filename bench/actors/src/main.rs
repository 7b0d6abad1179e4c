//! Measures kameo, ractor or actix: `everwarp-bench-actors SYSTEM [THREADS]` prints a line of JSON for each row.
//! `everwarp-bench-actors table FOLDER` prints a table of what `bench/actors/run` has written.

mod node;
mod rows;
mod table;
mod with_actix;
mod with_kameo;
mod with_ractor;

use rows::measure;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let system = arguments.next().unwrap_or_default();
    if system == "table" {
        let folder = arguments.next().unwrap_or_default();
        if let Err(problem) = table::print(folder.as_ref()) {
            eprintln!("{problem}");
            std::process::exit(1)
        }
        return;
    }
    let threads = match arguments.next().map(|text| text.parse()) {
        None => std::thread::available_parallelism().map_or(1, usize::from),
        Some(Ok(threads)) => threads,
        Some(Err(_)) => {
            eprintln!("the number of threads is a whole number");
            std::process::exit(2)
        }
    };
    match &*system {
        "kameo" => measure::<with_kameo::Kameo>(threads),
        "ractor" => measure::<with_ractor::Ractor>(threads),
        "actix" => measure::<with_actix::Actix>(threads),
        _ => {
            eprintln!("usage: everwarp-bench-actors kameo|ractor|actix [THREADS], or table FOLDER");
            std::process::exit(2)
        }
    }
}
