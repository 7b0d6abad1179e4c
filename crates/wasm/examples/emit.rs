//! Writes the PTX of a module to standard output: `emit module.wasm [--preempt] > module.ptx`.

use everwarp_wasm::{CompileOptions, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let path = args.next().ok_or("usage: emit MODULE [--preempt]")?;
    let options = CompileOptions {
        preempt: args.any(|arg| arg == "--preempt"),
        ..CompileOptions::default()
    };
    let compiled = compile(&std::fs::read(path)?, &options)?;
    print!("{}", compiled.ptx);
    Ok(())
}
