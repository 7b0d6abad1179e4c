//! Writes the PTX of a module to standard output: `emit module.wasm [OPTION...] > module.ptx`.

use everwarp_compiler::{CompileOptions, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let path = args
        .next()
        .ok_or("usage: emit MODULE [--preempt] [--interleave] [--contract]")?;
    let given: Vec<_> = args.collect();
    let options = CompileOptions {
        preempt: given.iter().any(|arg| arg == "--preempt"),
        interleaved: given.iter().any(|arg| arg == "--interleave"),
        contract: given.iter().any(|arg| arg == "--contract"),
        ..CompileOptions::default()
    };
    let compiled = compile(&std::fs::read(path)?, &options)?;
    print!("{}", compiled.ptx);
    Ok(())
}
