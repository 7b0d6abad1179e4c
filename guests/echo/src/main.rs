//! Writes what it reads, as soon as it has read it. With `--per-connection` it is the simplest server, and the one that
//! `everwarp bench io` measures.

#![no_std]
#![no_main]

use everwarp_guest_wasi::{File, Stream, exit, start, write_all};

start!(main);

fn main() {
    let mut buffer = [0; 4096];
    loop {
        match File::STDIN.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => {
                if write_all(Stream::Out, &buffer[..bytes]).is_err() {
                    // The peer has gone.
                    exit(1);
                }
            }
            Err(_) => exit(1),
        }
    }
}
