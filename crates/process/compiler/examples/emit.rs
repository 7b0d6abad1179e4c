//! Writes the PTX of a module to standard output: `emit module.wasm [OPTION...] > module.ptx`. With `--module` writes the module
//! whose functions are divided.

use std::io::Write;

use everwarp_compiler::{CompileOptions, compile, divided};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let path = args.next().ok_or(
        "usage: emit MODULE [--preempt] [--interleave] [--contract] [--divide BYTES [--module]]",
    )?;
    let given: Vec<_> = args.collect();
    let options = CompileOptions {
        preempt: given.iter().any(|arg| arg == "--preempt"),
        interleaved: given.iter().any(|arg| arg == "--interleave"),
        contract: given.iter().any(|arg| arg == "--contract"),
        divide: (given.iter().position(|arg| arg == "--divide"))
            .and_then(|at| given.get(at + 1)?.to_str()?.parse().ok()),
        ..CompileOptions::default()
    };
    let bytes = std::fs::read(path)?;
    if given.iter().any(|arg| arg == "--module") {
        let divided = divided(&bytes, &options).ok_or("no function is divided")?;
        return Ok(std::io::stdout().write_all(&divided)?);
    }
    let compiled = compile(&bytes, &options)?;
    print!("{}", compiled.ptx);
    Ok(())
}
