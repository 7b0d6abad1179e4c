//! An interpreter of a small Forth.
//!
//! `forth [PATH...]` runs programs one after the other on one machine; without a path, standard input. An
//! error names the line and ends the run with exit code 1. A cell has 32 bits; the words are listed in
//! `words.rs`, and those that control the flow in `compile.rs`.

#![no_std]
#![no_main]

extern crate alloc;

mod compile;
mod fault;
mod machine;
mod memory;
mod op;
mod output;
mod stack;
mod text;
mod words;
mod wrong;

use compile::Compiler;
use everwarp_guest_wasi::{Errno, File, args, eprintln, exit, open, start};

start!(main);

fn run(compiler: &mut Compiler, file: Result<File, Errno>, name: &str) {
    let bytes = file.and_then(|file| file.read_to_end());
    let bytes = bytes.unwrap_or_else(|e| {
        eprintln!("forth: {name}: {e}");
        exit(1)
    });
    let ended = compiler.program(&bytes);
    // What it printed comes before what is said of it.
    compiler.machine.output.flush();
    if let Err((line, what)) = ended {
        eprintln!("forth: {name}:{line}: {what}");
        exit(1);
    }
}

fn main() {
    let args = args();
    let mut compiler = Compiler::new();
    let paths = args.get(1..).unwrap_or_default();
    if paths.is_empty() {
        run(&mut compiler, Ok(File::STDIN), "-");
    }
    for path in paths {
        run(&mut compiler, open(path), path);
    }
}
