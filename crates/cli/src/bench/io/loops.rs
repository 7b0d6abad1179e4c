//! The servers that engines are compared with: the same I/O by threads of the host alone.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::failed;
use super::server::{HELLO, Protocol};
use crate::error::CliError;
use crate::output::print;

/// Threads, as many as nginx has workers.
const THREADS: usize = 2;
/// The number of the listener in an epoll.
const LISTENER: u64 = u64::MAX;

/// Serves until standard input ends, and says where first.
pub(crate) fn serve(protocol: &str) -> Result<(), CliError> {
    let protocol = match protocol {
        "echo" => Protocol::Echo,
        _ => Protocol::Http,
    };
    let failed = failed("loop");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    rustix::net::listen(&listener, 4096).map_err(|error| failed(error.into()))?;
    listener.set_nonblocking(true).map_err(failed)?;
    print(&listener.local_addr().map_err(failed)?.to_string())?;
    for _ in 0..THREADS {
        let listener = listener.try_clone().map_err(failed)?;
        std::thread::spawn(move || {
            if let Err(error) = run(&listener, protocol) {
                eprintln!("loop: {error}");
                std::process::exit(1);
            }
        });
    }
    // The benchmark holds the other end.
    let _ = io::stdin().read(&mut [0]);
    Ok(())
}

fn run(listener: &TcpListener, protocol: Protocol) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), flags)?;
    let mut clients = HashMap::<u64, TcpStream>::new();
    let mut events = Vec::<Event>::with_capacity(256);
    let mut buffer = [0; 4096];
    let reply = reply();
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            waited => waited?,
        };
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                while let Ok((client, _)) = listener.accept() {
                    client.set_nodelay(true)?;
                    client.set_nonblocking(true)?;
                    let number = client.as_raw_fd() as u64;
                    epoll::add(
                        &epoll,
                        client.as_fd(),
                        EventData::new_u64(number),
                        EventFlags::IN,
                    )?;
                    clients.insert(number, client);
                }
                continue;
            }
            let Some(client) = clients.get_mut(&number) else {
                continue;
            };
            let answered = match client.read(&mut buffer) {
                Ok(0) => false,
                Ok(bytes) => match protocol {
                    Protocol::Echo => client.write_all(&buffer[..bytes]).is_ok(),
                    // A client sends a request at a time, and each comes whole.
                    Protocol::Http => {
                        buffer[..bytes].ends_with(b"\r\n\r\n") && client.write_all(&reply).is_ok()
                    }
                },
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            if !answered {
                clients.remove(&number);
            }
        }
    }
}

/// A reply of HTTP that is as long as those of other servers.
pub(super) fn reply() -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nLast-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\nETag: \"6ba1c0de-e\"\r\nAccept-Ranges: bytes\r\n\r\n",
        HELLO.len()
    );
    [head.as_bytes(), HELLO].concat()
}
