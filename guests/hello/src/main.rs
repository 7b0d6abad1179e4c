//! Prints its arguments, its environment and how much standard input holds.

#![no_std]
#![no_main]

use everwarp_guest_wasi::{File, Input, args, environ, eprintln, exit, println, start};

start!(main);

fn main() {
    println!("hello");
    for (number, arg) in args().iter().enumerate() {
        println!("argument {number}: {arg}");
    }
    for variable in environ() {
        println!("variable {variable}");
    }
    let mut bytes = 0;
    if let Err(e) = Input::new(4096).each(&File::STDIN, |piece| bytes += piece.len()) {
        eprintln!("hello: standard input: {e}");
        exit(1);
    }
    println!("standard input: {bytes} bytes");
}
