//! Validates JSON documents (RFC 8259) and says where the first error is.
//!
//! `json [PATH...]`; without a path, standard input. One line for each document, `PATH: valid` or
//! `PATH:LINE:COLUMN: what is wrong`, with columns in bytes from 1; the exit code is 1 if any is not valid.

#![no_std]
#![no_main]

extern crate alloc;

mod document;

use everwarp_guest_wasi::{Errno, File, args, eprintln, exit, line, open, println, start};

start!(main);

/// Whether it is valid.
fn check(file: Result<File, Errno>, name: &str) -> bool {
    let mut bytes = match file.and_then(|file| file.read_to_end()) {
        Ok(bytes) => bytes,
        Err(e) => {
            eprintln!("json: {name}: {e}");
            return false;
        }
    };
    match document::check(&mut bytes) {
        Ok(()) => line(&[name, ": valid"]),
        Err((at, what)) => {
            let before = &bytes[..at];
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            let start = before
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |n| n + 1);
            println!("{name}:{line}:{}: {what}", at - start + 1);
            return false;
        }
    }
    true
}

fn main() {
    let args = args();
    let paths = args.get(1..).unwrap_or_default();
    let mut valid = true;
    if paths.is_empty() {
        valid = check(Ok(File::STDIN), "-");
    }
    for path in paths {
        valid &= check(open(path), path);
    }
    if !valid {
        exit(1);
    }
}
