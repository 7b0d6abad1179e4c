//! An interpreter as a server: each connection sends a program of its own and ends its half, and a process prints what the program does.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::server::Server;
use super::{OTHERS, descriptors, engines, failed};
use crate::bench::experiment::Context;
use crate::bench::stats::Row;
use crate::error::CliError;

/// How many connections there are at a time, in rows of their own.
const CONNECTIONS: [usize; 3] = [100, 1000, 10_000];
/// Processes that the CPU engine has room for with Linux's default limits.
const CPU_MOST: usize = 9000;
/// Rounds of each, after one that warms up.
const ROUNDS: u64 = 3;
/// The steps of a program's loop.
const STEPS: u64 = 20_000;
/// A round in which nothing happens for this long has failed.
const PATIENCE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// A program, and what it prints.
fn program(seed: u64) -> (String, String) {
    let (factor, start) = (seed % 97 + 3, seed % 1013);
    let text = format!(": run {start} {STEPS} 0 do {factor} * i + 65535 and loop . ;\nrun cr\n");
    let number = (0..STEPS).fold(start, |value, i| (value * factor + i) & 65535);
    (text, format!("{number} \n"))
}

/// A round: all programs are sent, and all have printed what they should.
fn round(address: SocketAddr, count: usize, first: u64) -> io::Result<(f64, bool)> {
    let programs: Vec<_> = (0..count as u64).map(|n| program(first + n)).collect();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let begin = Instant::now();
    let mut clients = Vec::with_capacity(count);
    for (number, (text, _)) in programs.iter().enumerate() {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(30))?;
        stream.set_nodelay(true)?;
        stream.write_all(text.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        stream.set_nonblocking(true)?;
        let data = EventData::new_u64(number as u64);
        epoll::add(&epoll, &stream, data, EventFlags::IN)?;
        clients.push(Some((stream, Vec::new())));
    }
    let (mut open, mut right) = (count, true);
    let mut events = Vec::<Event>::with_capacity(256);
    let mut buffer = [0; 4096];
    while open > 0 {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), Some(&PATIENCE)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            waited => waited?,
        };
        for event in &events {
            let number = event.data.u64() as usize;
            let Some((stream, got)) = &mut clients[number] else {
                continue;
            };
            match stream.read(&mut buffer) {
                Ok(0) => {
                    right &= *got == programs[number].1.as_bytes();
                    clients[number] = None;
                    open -= 1;
                }
                Ok(bytes) => got.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok((begin.elapsed().as_secs_f64(), right))
}

pub(super) fn rows(cx: &Context<'_>) -> Result<(), CliError> {
    let room = descriptors().saturating_sub(OTHERS) as usize;
    for connections in CONNECTIONS {
        for (name, role, engine) in engines(cx) {
            let case = format!("{} ({connections})", cx.part);
            let row = match name {
                "everwarp" => case.clone(),
                name => format!("{name}, {case}"),
            };
            // A server that has no room for all of them serves the others later.
            let most = if engine == "cpu" { CPU_MOST } else { room };
            let at_a_time = connections.min(most);
            let server = Server::interpreter(&engine, at_a_time).map_err(failed(name))?;
            let (mut times, mut right) = (Vec::new(), true);
            for number in 0..=ROUNDS {
                let first = number * connections as u64;
                let (seconds, is_right) =
                    round(server.address(), connections, first).map_err(failed(name))?;
                right &= is_right;
                if number > 0 {
                    times.push(seconds);
                }
            }
            let what = format!(
                "{connections} connections, each with a Forth program of its own of {STEPS} steps, which a process runs, {at_a_time} at a \
                 time; sockets by {}",
                super::BACKEND
            );
            let measured = Row::new(&what, "program", connections as f64, times)
                .case(&case)
                .role(role)
                .verified(right);
            cx.emit_as(&row, measured)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_differ() {
        let (one, two) = (program(1), program(2));
        assert!(one.0 != two.0 && one.1 != two.1, "{one:?} {two:?}");
    }
}
