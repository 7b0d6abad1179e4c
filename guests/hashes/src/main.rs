//! SHA-256 of files, and kernels that only compute.
//!
//! `hashes sha256 [PATH...]` prints what `sha256sum` prints; without a path, of standard input.
//! `hashes KERNEL N` runs a kernel of N steps and prints its checksum, for measuring compiled code:
//! `chain`, `fnv`, `crc`, `mix` or `mandel`.

#![no_std]
#![no_main]

mod kernels;
mod sha256;

use everwarp_guest_wasi::{Errno, File, Input, args, eprintln, exit, open, println, start};
use sha256::{Hex, Sha256};

start!(main);

fn sum(input: &mut Input, file: Result<File, Errno>, name: &str) -> bool {
    let mut hash = Sha256::new();
    let read = file.and_then(|file| input.each(&file, |piece| hash.take(piece)));
    match read {
        Ok(()) => println!("{}  {name}", Hex(hash.finish())),
        Err(e) => eprintln!("hashes: {name}: {e}"),
    }
    read.is_ok()
}

fn usage() -> ! {
    eprintln!("use hashes sha256 [PATH...], or hashes chain|fnv|crc|mix|mandel N");
    exit(2)
}

fn main() {
    let args = args();
    let Some(name) = args.get(1) else { usage() };
    let rest = &args[2..];
    if name == "sha256" {
        let mut input = Input::new(4096);
        let mut good = true;
        if rest.is_empty() {
            good = sum(&mut input, Ok(File::STDIN), "-");
        }
        for path in rest {
            good &= sum(&mut input, open(path), path);
        }
        if !good {
            exit(1);
        }
        return;
    }
    let Some(n) = rest.first().and_then(|n| n.parse().ok()) else {
        usage()
    };
    match name.as_str() {
        "chain" => println!("{}", Hex(kernels::chain(n))),
        "fnv" => println!("{:016x}", kernels::fnv(n)),
        "crc" => println!("{:08x}", kernels::crc(n)),
        "mix" => println!("{:016x}", kernels::mix(n)),
        "mandel" => println!("{}", kernels::mandel(n)),
        _ => usage(),
    }
}
