//! The calls of `everwarp:net`: sockets that processes open themselves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use everwarp_contract::hostcall::{Fd, HOSTCALL_ADDRESSES_MAX};
use everwarp_engine::sync::lock;
use everwarp_io::{ADDRESSES_MOST, DATAGRAM_MOST, Endpoint, Network, SocketOption};
use everwarp_process::net::{ADDRESS_BYTES, address_of_words, address_words, socket_of};
use everwarp_process::sockets::{PEEK, option_value};

use crate::errno::{Errno, Result};
use crate::limits::DATA_BYTES;
use crate::open::{Descriptor, OpenConnection, OpenEndpoint};
use crate::openings::Openings;
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::sockets::{Action, SocketCall, endpoint};
use crate::wait::Served;
use crate::wasi;

// The device asks for as many as the host brings back.
const _: () = assert!(HOSTCALL_ADDRESSES_MAX as usize == ADDRESSES_MOST);
const _: () = assert!(DATA_BYTES == DATAGRAM_MOST);

fn network(process: &Process) -> Result<&Arc<Network>> {
    process.config.network.as_ref().ok_or(Errno::NOTCAPABLE)
}

fn address_of(words: [u64; 3]) -> Result<SocketAddr> {
    address_of_words(words).ok_or(Errno::AFNOSUPPORT)
}

fn done<T>(result: std::io::Result<T>) -> Result<T> {
    result.map_err(|error| Errno::of_socket(&error))
}

/// Opens a socket.
pub(crate) fn open(
    process: &Process,
    openings: &Arc<Openings>,
    (family, kind): (u32, u32),
    reply: &mut Reply,
) -> Result {
    let (family, transport) = socket_of(family, kind).ok_or(Errno::AFNOSUPPORT)?;
    let network = network(process)?;
    lock(&process.table).has_room()?;
    let permit = openings.take(&process.held)?.ok_or(Errno::NFILE)?;
    let open = Descriptor::Endpoint(OpenEndpoint {
        endpoint: done(Endpoint::open(network, family, transport))?,
        nonblock: AtomicBool::new(false),
        _permit: permit,
    });
    reply.values[0] = lock(&process.table).insert(open)?.0.into();
    Ok(())
}

pub(crate) fn bind(process: &Process, fd: Fd, words: [u64; 3]) -> Result {
    let descriptor = process.descriptor(fd)?;
    let open = endpoint(&descriptor)?;
    done(open.endpoint.bind(address_of(words)?))
}

pub(crate) fn listen(process: &Process, fd: Fd, backlog: u32) -> Result {
    let descriptor = process.descriptor(fd)?;
    done(endpoint(&descriptor)?.endpoint.listen(backlog))
}

/// Begins to connect, and waits for the outcome. A caller that holds up neighbours is to call again before anything is done.
pub(crate) fn connect(
    process: Arc<Process>,
    fd: Fd,
    words: [u64; 3],
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Served> {
    let descriptor = process.descriptor(fd)?;
    let open = endpoint(&descriptor)?;
    let address = address_of(words)?;
    let nonblock = open.nonblock.load(Relaxed);
    if !nonblock && !request.patient {
        return Err(Errno::LATER);
    }
    if done(open.endpoint.connect(address))? {
        return Ok(Served::Answered);
    }
    if nonblock {
        return Err(Errno::INPROGRESS);
    }
    let action = Action::Connect;
    SocketCall { descriptor, action }.serve(process, request, reply)
}

pub(crate) fn address(process: &Process, fd: Fd, which: u32, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    let socket = descriptor.socket().ok_or(Errno::NOTSOCK)?;
    let address = match which {
        0 => socket.local_address(),
        1 => socket.peer_address(),
        _ => return Err(Errno::INVAL),
    };
    reply.values = address_words(done(address)?);
    Ok(())
}

pub(crate) fn send_to(
    process: Arc<Process>,
    fd: Fd,
    words: [u64; 3],
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Served> {
    let descriptor = process.descriptor(fd)?;
    endpoint(&descriptor)?;
    let to = address_of(words)?;
    let bytes = request.payload.to_vec();
    let action = Action::SendTo { bytes, to };
    SocketCall { descriptor, action }.serve(process, request, reply)
}

pub(crate) fn receive_from(
    process: Arc<Process>,
    fd: Fd,
    (length, flags): (u32, u32),
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Served> {
    let descriptor = process.descriptor(fd)?;
    endpoint(&descriptor)?;
    let flags = wasi::flags(flags, PEEK)?;
    let action = Action::ReceiveFrom {
        limit: request.length(length).min(DATAGRAM_MOST),
        peek: flags & PEEK != 0,
    };
    SocketCall { descriptor, action }.serve(process, request, reply)
}

fn setting(option: u32) -> Result<SocketOption> {
    SocketOption::of_number(option).ok_or(Errno::NOPROTOOPT)
}

pub(crate) fn option(process: &Process, fd: Fd, option: u32, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    let socket = descriptor.socket().ok_or(Errno::NOTSOCK)?;
    reply.values[0] = done(option_value(setting(option)?, socket))?;
    Ok(())
}

pub(crate) fn set_option(process: &Process, fd: Fd, option: u32, value: u64) -> Result {
    let descriptor = process.descriptor(fd)?;
    let socket = descriptor.socket().ok_or(Errno::NOTSOCK)?;
    done(setting(option)?.set(socket, value))
}

/// Looks up a name, and waits for the answer.
pub(crate) fn look_up(
    process: Arc<Process>,
    most: u32,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Served> {
    let network = network(&process)?;
    let name = std::str::from_utf8(&request.payload).map_err(|_| Errno::ILSEQ)?;
    // A caller that calls again asks again: a name takes too long to look up for neighbours to wait.
    if !request.patient {
        return Err(Errno::LATER);
    }
    let lookup = done(network.look_up(name))?;
    // The call waits for the end of a connection to the thread that looks up the name.
    let descriptor = Arc::new(Descriptor::Connection(OpenConnection {
        connection: lookup.ready().clone(),
        nonblock: AtomicBool::new(false),
        _permit: None,
    }));
    let fit = (request.room / ADDRESS_BYTES).min(ADDRESSES_MOST);
    let most = (most as usize).min(fit);
    let action = Action::LookUp { lookup, most };
    SocketCall { descriptor, action }.serve(process, request, reply)
}
