//! A client: it writes keys of its own, reads them again, and adds to what all share.

use everwarp_guest_gpu::{Error, Receiver, Sender};
use everwarp_guest_wasi::{eprintln, exit};

use crate::message::{ANSWER, COUNTER, Op, Request};

/// Keys of its own that a client uses.
const KEYS: u32 = 16;

/// What the store answers.
fn ask(requests: &Sender, answers: &Receiver, request: &Request) -> Result<u64, Error> {
    requests.send(&request.encode())?;
    let mut bytes = [0; ANSWER];
    answers.receive(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Runs `rounds` rounds of a get and an add, with a put in every third round.
pub(crate) fn run(client: u32, rounds: u32) -> Result<(), Error> {
    let (requests, answers) = (Sender::given(0), Receiver::given(1));
    let mut known = [0_u64; KEYS as usize];
    for round in 0..rounds {
        let which = round.wrapping_mul(2_654_435_761).wrapping_add(client) % KEYS;
        let request = |op, key, value| Request {
            client,
            op,
            key,
            value,
        };
        let key = client * KEYS + which;
        if round % 3 == 0 {
            let value = u64::from(round) << 32 | u64::from(client);
            let before = ask(&requests, &answers, &request(Op::Put, key, value))?;
            check(client, round, before, known[which as usize]);
            known[which as usize] = value;
        }
        let found = ask(&requests, &answers, &request(Op::Get, key, 0))?;
        check(client, round, found, known[which as usize]);
        let add = u64::from(client + round);
        let sum = ask(&requests, &answers, &request(Op::Add, COUNTER, add))?;
        if sum < add {
            check(client, round, sum, add);
        }
    }
    Ok(())
}

/// No other client writes this client's keys.
fn check(client: u32, round: u32, found: u64, expected: u64) {
    if found != expected {
        eprintln!("kv: client {client}, round {round}: found {found:#x}, expected {expected:#x}");
        exit(3);
    }
}
