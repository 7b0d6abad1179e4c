//! Writes the pieces of a file of PTX to a folder, for `bench/programs/assemble`.

use everwarp_assembler::split::split;

fn main() -> std::io::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [file, folder] = &arguments[..] else {
        eprintln!("usage: pieces FILE.ptx FOLDER");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(file)?;
    let begin = std::time::Instant::now();
    let pieces = split(&text);
    println!(
        "{} bytes, {} pieces in {:.3} s; estimated: {:.1} s in all, {:.1} s the longest",
        text.len(),
        pieces.texts.len(),
        begin.elapsed().as_secs_f64(),
        pieces.estimate.sum.as_secs_f64(),
        pieces.estimate.longest.as_secs_f64()
    );
    std::fs::create_dir_all(folder)?;
    for (number, piece) in pieces.texts.iter().enumerate() {
        std::fs::write(format!("{folder}/{number:03}.ptx"), piece)?;
    }
    Ok(())
}
