//! Writes the PTX of a module to standard output: `emit module.wasm > module.ptx`.

use everwarp_wasm::{CompileOptions, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: emit MODULE")?;
    let compiled = compile(&std::fs::read(path)?, &CompileOptions::default())?;
    print!("{}", compiled.ptx);
    Ok(())
}
