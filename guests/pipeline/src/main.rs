//! Three processes in a row: the first sends the numbers below a limit, the second passes on the primes among them, the
//! third counts and adds up what arrives. Each is this module again, with another first argument.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;

use everwarp_guest_gpu::{Error, Receiver, Sender, Status, channel, spawn};
use everwarp_guest_wasi::{args, eprintln, exit, println, start};

start!(main);

/// Numbers in a message, of 4 bytes each.
const BATCH: usize = 64;
const BYTES: usize = 4 * BATCH;

/// Collects numbers into messages.
struct Batches<'s> {
    to: &'s Sender,
    bytes: [u8; BYTES],
    length: usize,
}

impl<'s> Batches<'s> {
    fn new(to: &'s Sender) -> Self {
        Self {
            to,
            bytes: [0; BYTES],
            length: 0,
        }
    }

    fn push(&mut self, number: u32) -> Result<(), Error> {
        self.bytes[self.length..self.length + 4].copy_from_slice(&number.to_le_bytes());
        self.length += 4;
        match self.length == BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let length = core::mem::take(&mut self.length);
        self.to.send(&self.bytes[..length])
    }
}

/// Takes every number that arrives, until the channel is closed.
fn each(from: &Receiver, mut take: impl FnMut(u32) -> Result<(), Error>) -> Result<(), Error> {
    let mut bytes = [0; BYTES];
    loop {
        let length = match from.receive(&mut bytes) {
            Err(Error::Closed) => return Ok(()),
            other => other?,
        };
        for number in bytes[..length].as_chunks::<4>().0 {
            take(u32::from_le_bytes(*number))?;
        }
    }
}

fn generate(limit: u32) -> Result<(), Error> {
    let to = Sender::given(0);
    let mut out = Batches::new(&to);
    for number in 0..limit {
        out.push(number)?;
    }
    out.flush()
}

fn is_prime(n: u32) -> bool {
    let mut divisors = (3..).step_by(2).take_while(|d| d * d <= n);
    n == 2 || n > 2 && n % 2 == 1 && divisors.all(|d| n % d != 0)
}

fn filter() -> Result<(), Error> {
    let (from, to) = (Receiver::given(0), Sender::given(1));
    let mut out = Batches::new(&to);
    each(&from, |number| match is_prime(number) {
        true => out.push(number),
        false => Ok(()),
    })?;
    out.flush()
}

fn sum(limit: u32) -> Result<(), Error> {
    let (mut count, mut sum) = (0_u32, 0_u64);
    each(&Receiver::given(0), |number| {
        count += 1;
        sum += u64::from(number);
        Ok(())
    })?;
    println!("{count} primes below {limit}, sum {sum}");
    Ok(())
}

/// Makes the channels, spawns the three and waits for them.
fn pipeline(limit: u32) -> Result<(), Error> {
    let limit = format!("{limit}");
    let (to_filter, numbers) = channel(4, BYTES as u32)?;
    let (to_sum, primes) = channel(4, BYTES as u32)?;
    let children = [
        ("generate", spawn("", &["generate", &limit], &[&to_filter])?),
        ("filter", spawn("", &["filter", &limit], &[&numbers, &to_sum])?),
        ("sum", spawn("", &["sum", &limit], &[&primes])?),
    ];
    // A channel ends with its last sender.
    drop((to_filter, numbers, to_sum, primes));
    for (name, child) in children {
        let status = child.wait()?;
        if status != Status::Exited(0) {
            eprintln!("pipeline: {name}: {status:?}");
            exit(1);
        }
    }
    println!("three processes ended");
    Ok(())
}

fn main() {
    let args = args();
    let limit = match args.get(1).map(|text| text.parse()) {
        None => 10_000,
        Some(Ok(limit)) if limit <= 100_000_000 => limit,
        _ => {
            eprintln!("usage: pipeline [LIMIT], up to 100000000");
            exit(2);
        }
    };
    let done = match args.first().map(|name| name.as_str()) {
        Some("generate") => generate(limit),
        Some("filter") => filter(),
        Some("sum") => sum(limit),
        _ => pipeline(limit),
    };
    if let Err(e) = done {
        eprintln!("pipeline: {e}");
        exit(1);
    }
}
