//! Measures how fast a graph file is read: `cargo run --release --example read_speed -- FILE`.
//!
//! The first run may measure the disk; later ones read from the page cache.

use std::path::Path;
use std::time::Instant;

use everwarp_graph::{ReadOptions, read_path};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: read_speed FILE")?;
    for _ in 0..3 {
        let (start, mut size, mut parsed) = (Instant::now(), 0, None);
        let graph = read_path(
            Path::new(&path),
            &ReadOptions::default(),
            &mut |read, total| {
                size = read;
                // The last report precedes the sort into rows.
                if read == total {
                    parsed = Some(start.elapsed());
                }
            },
        )?;
        let rate = |seconds: f64| size as f64 / 1e6 / seconds;
        println!(
            "{graph:?}: {:.0} MB/s until the last byte, {:.0} MB/s until the graph is built",
            rate(parsed.unwrap_or_default().as_secs_f64()),
            rate(start.elapsed().as_secs_f64()),
        );
    }
    Ok(())
}
