//! A key-value store as a process: it spawns its clients, serves what they ask over one channel, and answers each over
//! one of its own. A client is an agent that puts, gets and adds by a rule of its own, and checks what it gets.

#![no_std]
#![no_main]

extern crate alloc;

mod client;
mod message;
mod store;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use everwarp_guest_gpu::{Child, Error, Receiver, Sender, Status, channel, spawn};
use everwarp_guest_wasi::{args, eprintln, exit, println, start};

use message::{ANSWER, Op, REQUEST, Request};
use store::Store;

start!(main);

/// The store's handles: a sender for each client, and the receiver of requests.
const CLIENTS: u32 = 28;

/// A client as the store sees it.
struct Served {
    child: Child,
    answers: Sender,
    puts: u32,
    gets: u32,
    adds: u32,
}

fn begin(clients: u32, rounds: &str, requests: &Sender) -> Result<Vec<Served>, Error> {
    let one = |number: u32| {
        let (answers, from) = channel(1, ANSWER as u32)?;
        let args = ["client", &format!("{number}"), rounds];
        Ok(Served {
            child: spawn("", &args, &[requests, &from])?,
            answers,
            puts: 0,
            gets: 0,
            adds: 0,
        })
    };
    (0..clients).map(one).collect()
}

fn serve(from: &Receiver, clients: &mut [Served], store: &mut Store) -> Result<(), Error> {
    let mut bytes = [0; REQUEST];
    loop {
        let request = match from.receive(&mut bytes) {
            Err(Error::Closed) => return Ok(()),
            Err(e) => return Err(e),
            Ok(_) => Request::decode(&bytes),
        };
        let client = &mut clients[request.client as usize];
        let answer = match request.op {
            Op::Put => {
                client.puts += 1;
                store.put(request.key, request.value)
            }
            Op::Get => {
                client.gets += 1;
                store.get(request.key)
            }
            Op::Add => {
                client.adds += 1;
                let sum = store.get(request.key).wrapping_add(request.value);
                store.put(request.key, sum);
                sum
            }
        };
        client.answers.send(&answer.to_le_bytes())?;
    }
}

fn run(clients: u32, rounds: &str) -> Result<(), Error> {
    let (requests, from) = channel(16, REQUEST as u32)?;
    let mut served = begin(clients, rounds, &requests)?;
    // The channel closes when the last client ends, because no sender is left then.
    drop(requests);
    let mut store = Store::default();
    serve(&from, &mut served, &mut store)?;
    for (number, client) in served.into_iter().enumerate() {
        let status = client.child.wait()?;
        if status != Status::Exited(0) {
            eprintln!("kv: client {number}: {status:?}");
            exit(1);
        }
        println!(
            "client {number}: {} puts, {} gets, {} adds",
            client.puts, client.gets, client.adds
        );
    }
    println!(
        "{} keys, counter {}, digest {:016x}",
        store.len(),
        store.get(message::COUNTER),
        store.digest()
    );
    Ok(())
}

/// A number from 1 to a limit.
fn number(text: Option<&String>, default: u32, most: u32) -> u32 {
    match text.map(|t| t.parse()) {
        None => default,
        Some(Ok(n)) if (1..=most).contains(&n) => n,
        _ => {
            eprintln!("usage: kv [CLIENTS [ROUNDS]], up to {CLIENTS} clients and 1000000 rounds");
            exit(2);
        }
    }
}

fn main() {
    let args = args();
    let done = match args.first().map(String::as_str) {
        Some("client") => {
            let number = args[1].parse().expect("the store names it");
            client::run(number, args[2].parse().expect("the store says"))
        }
        _ => {
            let clients = number(args.get(1), 8, CLIENTS);
            run(clients, &format!("{}", number(args.get(2), 100, 1_000_000)))
        }
    };
    if let Err(e) = done {
        eprintln!("kv: {e}");
        exit(1);
    }
}
