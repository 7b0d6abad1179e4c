//! Answers clients on the first listener that it was given, one client after the other: a greeting from a file, then what
//! the client has sent, in capitals. `sockets [CLIENTS] [GREETING]`: the number of clients, and the path of the file.
//!
//! It is an ordinary program for systems with descriptors, and runs as one too: the variables `LISTEN_FDS` and
//! `LISTEN_FDS_FIRST` say which descriptors are listeners.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::process::ExitCode;

/// A number in an environment variable.
fn variable(name: &str) -> Option<i32> {
    std::env::var(name).ok()?.parse().ok()
}

/// The first listener.
fn listener() -> Result<TcpListener, String> {
    match (variable("LISTEN_FDS"), variable("LISTEN_FDS_FIRST")) {
        (Some(1..), Some(first)) => {
            // SAFETY: the variables say that the descriptor is a listener, and nothing else of this program uses it.
            Ok(unsafe { TcpListener::from_raw_fd(first) })
        }
        _ => Err("no listener: run it with --listen PORT".to_owned()),
    }
}

/// Greets a client and sends it what it has sent, in capitals; returns the bytes.
fn answer(mut client: TcpStream, greeting: &[u8]) -> io::Result<usize> {
    client.write_all(greeting)?;
    let mut bytes = 0;
    let mut buffer = [0; 1000];
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        bytes += read;
        buffer.make_ascii_uppercase();
        client.write_all(&buffer[..read])?;
    }
    client.shutdown(Shutdown::Write)?;
    Ok(bytes)
}

fn run() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let clients = args.next().unwrap_or_else(|| "1".to_owned());
    let clients: u32 = clients
        .parse()
        .map_err(|_| format!("`{clients}` is no number"))?;
    let greeting = match args.next() {
        Some(path) => fs::read(&path).map_err(|error| format!("{path}: {error}"))?,
        None => Vec::new(),
    };
    let listener = listener()?;
    for number in 0..clients {
        let answered = listener
            .accept()
            .and_then(|(client, _)| answer(client, &greeting));
        match answered {
            Ok(bytes) => println!("client {number}: {bytes} bytes"),
            Err(error) => println!("client {number}: {:?}", error.kind()),
        }
    }
    println!("done");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("sockets: {wrong}");
            ExitCode::from(2)
        }
    }
}
