//! The imports of `everwarp:net`; `guests/NET.md` says what they promise.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use everwarp_contract::errno;
use everwarp_io::{ADDRESSES_MOST, DATAGRAM_MOST, Endpoint, Interest, SocketOption};
use everwarp_process::net::{
    ADDRESS_BYTES, LaunchError, MODULE, read_address, read_launch, socket_of, write_address,
};
use everwarp_process::sockets::{self, errno_of, option_value};
use everwarp_telemetry::processes::host_call_is;
use wasmtime::{Caller, Linker, Result};
use wiggle::{GuestMemory, GuestPtr};

use super::HostCall;
use super::arguments::{ADDRESS, Argument, U32, U64, refused};
use super::sockets::{code, retry, socket, wait, with_memory};
use crate::guest::Guest;
use crate::numbers::{Numbered, Numbers, OpenSocket, SocketKind, SocketPermit};

/// The bytes of a name and variables together: as many as a GPU's host call holds.
const LAUNCH_BYTES: usize = 8192;

/// A value, or the error number that the process gets.
type Attempt<T> = std::result::Result<T, i32>;

fn bytes(at: i32, length: i32) -> GuestPtr<[u8]> {
    GuestPtr::new((at as u32, length as u32))
}

/// The error number of arguments that are not in memory.
fn wrong(caller: &mut Caller<'_, Guest>, arguments: &[Argument]) -> Result<Option<i32>> {
    with_memory(caller, |memory| refused(memory, arguments))
}

/// The error number of an error.
fn failed(error: &io::Error) -> i32 {
    code(errno_of(error))
}

/// What a process has of the network; `ENOTCAPABLE` without a grant.
fn numbers(caller: &Caller<'_, Guest>) -> Attempt<Arc<Numbers>> {
    let numbers = caller.data().numbers.clone();
    numbers.ok_or(code(errno::ERRNO_NOTCAPABLE))
}

/// Adds a socket, and writes its number.
fn add_socket(
    caller: &mut Caller<'_, Guest>,
    numbers: &Numbers,
    (kind, permit): (SocketKind, SocketPermit),
    to: i32,
) -> Result<i32> {
    let number = numbers.insert(Numbered::Socket(OpenSocket::opened(kind, false, permit)));
    let place = GuestPtr::<u32>::new(to as u32);
    with_memory(caller, |memory| memory.write(place, number))??;
    Ok(0)
}

fn launch(
    mut caller: Caller<'_, Guest>,
    (name, name_length, variables, variables_length, to): (i32, i32, i32, i32, i32),
) -> Result<i32> {
    let checked = [
        Argument::Result(to, U32),
        Argument::Bytes(name, name_length),
        Argument::Bytes(variables, variables_length),
    ];
    if let Some(errno) = wrong(&mut caller, &checked)? {
        return Ok(errno);
    }
    if name_length as u32 as usize + variables_length as u32 as usize > LAUNCH_BYTES {
        return Ok(code(errno::ERRNO_NOBUFS));
    }
    let granted = numbers(&caller).ok().and_then(|numbers| {
        let launcher = numbers.launcher.clone()?;
        Some((numbers, launcher))
    });
    let Some((numbers, launcher)) = granted else {
        return Ok(code(errno::ERRNO_NOTCAPABLE));
    };
    let read = with_memory(&mut caller, |memory| -> Result<_> {
        let name = memory.to_vec(bytes(name, name_length))?;
        let variables = memory.to_vec(bytes(variables, variables_length))?;
        Ok(read_launch(&name, &variables))
    })??;
    let Some((name, variables)) = read else {
        return Ok(code(errno::ERRNO_INVAL));
    };
    if !numbers.has_room() {
        return Ok(code(errno::ERRNO_MFILE));
    }
    let permit = match numbers.socket_permit() {
        Ok(permit) => permit,
        Err(error) => return Ok(failed(&error)),
    };
    match launcher.launch(&name, variables) {
        Ok(connection) => {
            let kind = SocketKind::Connection(connection);
            add_socket(&mut caller, &numbers, (kind, permit), to)
        }
        Err(LaunchError::Unknown) => Ok(code(errno::ERRNO_NOENT)),
        Err(LaunchError::System(error)) => Ok(failed(&error)),
    }
}

fn open(mut caller: Caller<'_, Guest>, (family, kind, to): (i32, i32, i32)) -> Result<i32> {
    if let Some(errno) = wrong(&mut caller, &[Argument::Result(to, U32)])? {
        return Ok(errno);
    }
    let Some((family, transport)) = socket_of(family as u32, kind as u32) else {
        return Ok(code(errno::ERRNO_AFNOSUPPORT));
    };
    let opened = numbers(&caller).and_then(|numbers| {
        let network = numbers.network.clone();
        let network = network.ok_or(code(errno::ERRNO_NOTCAPABLE))?;
        if !numbers.has_room() {
            return Err(code(errno::ERRNO_MFILE));
        }
        let permit = numbers.socket_permit().map_err(|error| failed(&error))?;
        let endpoint = Endpoint::open(&network, family, transport);
        let endpoint = endpoint.map_err(|error| failed(&error))?;
        Ok((numbers, (SocketKind::Endpoint(endpoint), permit)))
    });
    match opened {
        Ok((numbers, socket)) => add_socket(&mut caller, &numbers, socket, to),
        Err(errno) => Ok(errno),
    }
}

/// The address in memory that was checked.
fn address_at(memory: &GuestMemory<'_>, at: i32) -> Result<Attempt<SocketAddr>> {
    let mut read = [0; ADDRESS_BYTES];
    read.copy_from_slice(&memory.as_cow(bytes(at, ADDRESS_BYTES as i32))?);
    Ok(read_address(&read).ok_or(code(errno::ERRNO_AFNOSUPPORT)))
}

/// The socket that a process has opened itself: only such a one connects, binds and listens.
fn endpoint(open: &OpenSocket) -> Attempt<&Endpoint> {
    match &open.kind {
        SocketKind::Endpoint(endpoint) => Ok(endpoint),
        SocketKind::Connection(_) => Err(code(errno::ERRNO_ISCONN)),
        SocketKind::Listener(_) => Err(code(errno::ERRNO_INVAL)),
    }
}

/// The socket and the address of a call, after its pointers have been checked.
fn socket_and_address(
    caller: &mut Caller<'_, Guest>,
    fd: i32,
    at: i32,
) -> Result<Attempt<(Arc<OpenSocket>, SocketAddr)>> {
    let open = match socket(caller.data_mut(), fd) {
        Ok(open) => open,
        Err(errno) => return Ok(Err(errno)),
    };
    if let Err(errno) = endpoint(&open) {
        return Ok(Err(errno));
    }
    let address = with_memory(caller, |memory| address_at(memory, at))??;
    Ok(address.map(|address| (open, address)))
}

fn bind(mut caller: Caller<'_, Guest>, (fd, at): (i32, i32)) -> Result<i32> {
    if let Some(errno) = wrong(&mut caller, &[Argument::Result(at, ADDRESS)])? {
        return Ok(errno);
    }
    let found = socket_and_address(&mut caller, fd, at)?;
    let bound = found.and_then(|(open, address)| {
        let bound = endpoint(&open)?.bind(address);
        bound.map_err(|error| failed(&error))
    });
    Ok(bound.err().unwrap_or(0))
}

fn listen(mut caller: Caller<'_, Guest>, (fd, backlog): (i32, i32)) -> Result<i32> {
    let open = socket(caller.data_mut(), fd);
    let listens = open.and_then(|open| {
        let listens = endpoint(&open)?.listen(backlog as u32);
        listens.map_err(|error| failed(&error))
    });
    Ok(listens.err().unwrap_or(0))
}

async fn connect(mut caller: Caller<'_, Guest>, (fd, at): (i32, i32)) -> Result<i32> {
    if let Some(errno) = wrong(&mut caller, &[Argument::Result(at, ADDRESS)])? {
        return Ok(errno);
    }
    let (open, address) = match socket_and_address(&mut caller, fd, at)? {
        Ok(found) => found,
        Err(errno) => return Ok(errno),
    };
    let endpoint = match endpoint(&open) {
        Ok(endpoint) => endpoint,
        Err(errno) => return Ok(errno),
    };
    match endpoint.connect(address) {
        Ok(true) => return Ok(0),
        Ok(false) if open.nonblock.load(Relaxed) => return Ok(code(errno::ERRNO_INPROGRESS)),
        Ok(false) => {}
        Err(error) => return Ok(failed(&error)),
    }
    let connected = retry(&mut caller, &open, Interest::WRITE, |_| {
        Ok(endpoint.finish_connect())
    });
    Ok(connected.await?.err().unwrap_or(0))
}

fn put_address(memory: &mut GuestMemory<'_>, to: i32, address: Option<SocketAddr>) -> Result<()> {
    let written = address.map_or([0; ADDRESS_BYTES], write_address);
    memory.copy_from_slice(&written, bytes(to, ADDRESS_BYTES as i32))?;
    Ok(())
}

fn address(mut caller: Caller<'_, Guest>, (fd, which, to): (i32, i32, i32)) -> Result<i32> {
    if let Some(errno) = wrong(&mut caller, &[Argument::Result(to, ADDRESS)])? {
        return Ok(errno);
    }
    let open = socket(caller.data_mut(), fd);
    let found = open.and_then(|open| {
        let found = match which {
            0 => open.socket().local_address(),
            1 => open.socket().peer_address(),
            _ => return Err(code(errno::ERRNO_INVAL)),
        };
        found.map_err(|error| failed(&error))
    });
    match found {
        Err(errno) => Ok(errno),
        Ok(found) => {
            with_memory(&mut caller, |memory| put_address(memory, to, Some(found)))??;
            Ok(0)
        }
    }
}

async fn send_to(
    mut caller: Caller<'_, Guest>,
    (fd, at, length, to, sent): (i32, i32, i32, i32, i32),
) -> Result<i32> {
    let checked = [
        Argument::Result(sent, U32),
        Argument::Bytes(at, length),
        Argument::Result(to, ADDRESS),
    ];
    if let Some(errno) = wrong(&mut caller, &checked)? {
        return Ok(errno);
    }
    let (open, address) = match socket_and_address(&mut caller, fd, to)? {
        Ok(found) => found,
        Err(errno) => return Ok(errno),
    };
    let endpoint = match endpoint(&open) {
        Ok(endpoint) => endpoint,
        Err(errno) => return Ok(errno),
    };
    if length as u32 as usize > DATAGRAM_MOST {
        return Ok(code(errno::ERRNO_MSGSIZE));
    }
    let payload = with_memory(&mut caller, |memory| memory.to_vec(bytes(at, length)))??;
    let done = retry(&mut caller, &open, Interest::WRITE, |_| {
        Ok(endpoint.send_to(&payload, address))
    });
    let done = done.await?;
    super::sockets::put_count(&mut caller, sent, done)
}

async fn receive_from(
    mut caller: Caller<'_, Guest>,
    (fd, at, length, flags, from, received): (i32, i32, i32, i32, i32, i32),
) -> Result<i32> {
    let checked = [
        Argument::Result(received, U32),
        Argument::Bytes(at, length),
        Argument::Result(from, ADDRESS),
    ];
    if let Some(errno) = wrong(&mut caller, &checked)? {
        return Ok(errno);
    }
    let open = match socket(caller.data_mut(), fd) {
        Ok(open) => open,
        Err(errno) => return Ok(errno),
    };
    let endpoint = match endpoint(&open) {
        Ok(endpoint) => endpoint,
        Err(errno) => return Ok(errno),
    };
    if flags as u32 & !sockets::PEEK != 0 {
        return Ok(code(errno::ERRNO_INVAL));
    }
    let peek = flags as u32 & sockets::PEEK != 0;
    let mut buffer = vec![0; (length as u32 as usize).min(DATAGRAM_MOST)];
    let done = retry(&mut caller, &open, Interest::READ, |_| {
        Ok(endpoint.receive_from(&mut buffer, peek))
    });
    let done = done.await?;
    if let Ok((count, sender)) = done {
        with_memory(&mut caller, |memory| -> Result<()> {
            memory.copy_from_slice(&buffer[..count], bytes(at, count as i32))?;
            put_address(memory, from, sender)
        })??;
    }
    super::sockets::put_count(&mut caller, received, done.map(|(count, _)| count))
}

/// The setting of a socket, and the socket.
fn setting(
    caller: &mut Caller<'_, Guest>,
    fd: i32,
    option: i32,
) -> Attempt<(Arc<OpenSocket>, SocketOption)> {
    let open = socket(caller.data_mut(), fd)?;
    let option = SocketOption::of_number(option as u32);
    Ok((open, option.ok_or(code(errno::ERRNO_NOPROTOOPT))?))
}

fn option(mut caller: Caller<'_, Guest>, (fd, option, to): (i32, i32, i32)) -> Result<i32> {
    if let Some(errno) = wrong(&mut caller, &[Argument::Result(to, U64)])? {
        return Ok(errno);
    }
    let found = setting(&mut caller, fd, option);
    let value = found.and_then(|(open, option)| {
        option_value(option, open.socket()).map_err(|error| failed(&error))
    });
    match value {
        Err(errno) => Ok(errno),
        Ok(value) => {
            let place = GuestPtr::<u64>::new(to as u32);
            with_memory(&mut caller, |memory| memory.write(place, value))??;
            Ok(0)
        }
    }
}

fn set_option(mut caller: Caller<'_, Guest>, (fd, option, value): (i32, i32, i64)) -> Result<i32> {
    let found = setting(&mut caller, fd, option);
    let set = found.and_then(|(open, option)| {
        let set = option.set(open.socket(), value as u64);
        set.map_err(|error| failed(&error))
    });
    Ok(set.err().unwrap_or(0))
}

async fn look_up(
    mut caller: Caller<'_, Guest>,
    (name, length, to, most, count): (i32, i32, i32, i32, i32),
) -> Result<i32> {
    let checked = [
        Argument::Result(count, U32),
        Argument::Bytes(name, length),
        Argument::List(to, most, ADDRESS),
    ];
    if let Some(errno) = wrong(&mut caller, &checked)? {
        return Ok(errno);
    }
    if length as u32 as usize > LAUNCH_BYTES {
        return Ok(code(errno::ERRNO_NAMETOOLONG));
    }
    let network = numbers(&caller).and_then(|numbers| {
        let network = numbers.network.clone();
        network.ok_or(code(errno::ERRNO_NOTCAPABLE))
    });
    let network = match network {
        Ok(network) => network,
        Err(errno) => return Ok(errno),
    };
    let name = with_memory(&mut caller, |memory| memory.to_vec(bytes(name, length)))??;
    let Ok(name) = String::from_utf8(name) else {
        return Ok(code(errno::ERRNO_ILSEQ));
    };
    let lookup = match network.look_up(&name) {
        Ok(lookup) => lookup,
        Err(error) => return Ok(failed(&error)),
    };
    let found = loop {
        match lookup.addresses() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let ready = lookup.ready().socket();
                if let Err(error) = wait(&mut caller, ready, Interest::READ).await {
                    return Ok(failed(&error));
                }
            }
            Err(error) => return Ok(failed(&error)),
            Ok(found) => break found,
        }
    };
    let most = (most as u32 as usize).min(ADDRESSES_MOST);
    let found = &found[..found.len().min(most)];
    with_memory(&mut caller, |memory| -> Result<()> {
        for (at, address) in found.iter().enumerate() {
            let place = to as u32 + (at * ADDRESS_BYTES) as u32;
            let address = SocketAddr::new(*address, 0);
            put_address(memory, place as i32, Some(address))?;
        }
        Ok(memory.write(GuestPtr::<u32>::new(count as u32), found.len() as u32)?)
    })??;
    Ok(0)
}

/// Adds the imports.
pub(super) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    macro_rules! add {
        ($($name:literal: $call:expr, ($($argument:ident: $ty:ty),*);)*) => {$(
            linker.func_wrap(
                MODULE,
                $name,
                |caller: Caller<'_, Guest>, $($argument: $ty),*| -> Result<i32> {
                    host_call_is($name);
                    $call(caller, ($($argument),*))
                },
            )?;
        )*};
    }
    macro_rules! add_waiting {
        ($($name:literal: $call:expr, ($($ty:ty),*);)*) => {$(
            linker.func_wrap_async(
                MODULE,
                $name,
                |caller, arguments: ($($ty,)*)| -> HostCall<'_, i32> {
                    host_call_is($name);
                    Box::new($call(caller, arguments))
                },
            )?;
        )*};
    }
    add! {
        "launch": launch, (a: i32, b: i32, c: i32, d: i32, e: i32);
        "socket": open, (a: i32, b: i32, c: i32);
        "bind": bind, (a: i32, b: i32);
        "listen": listen, (a: i32, b: i32);
        "address": address, (a: i32, b: i32, c: i32);
        "option": option, (a: i32, b: i32, c: i32);
        "set_option": set_option, (a: i32, b: i32, c: i64);
    }
    add_waiting! {
        "connect": connect, (i32, i32);
        "send_to": send_to, (i32, i32, i32, i32, i32);
        "receive_from": receive_from, (i32, i32, i32, i32, i32, i32);
        "look_up": look_up, (i32, i32, i32, i32, i32);
    }
    Ok(())
}
