//! WASI preview 1's calls on sockets, and the calls on any descriptor for processes that have sockets.
//!
//! A call is tried at once. If it would wait, the process waits in the event queue of its worker thread, and the thread
//! takes another process meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use everwarp_contract::errno;
use everwarp_io::{Connection, Interest, Shutdown, Socket};
use everwarp_process::sockets::{self, OtherCall, errno_of};
use tokio::io::unix::AsyncFd;
use wasmtime::{Caller, Extern, Result, SharedMemory};
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::{GuestMemory, GuestPtr};

use super::arguments::{Argument, U32, as_errno, refused};
use crate::guest::Guest;
use crate::numbers::{Numbered, Numbers, OpenSocket, SharedListener, SocketKind, SocketPermit};
use crate::permits::WaitingPermit;
use crate::watch::{Memory, Watch, queue_interest};
use crate::worker_load::{BlockedProcess, WorkerLoad};

/// Bytes that one call sends or receives.
const BYTES_MOST: usize = 1 << 20;

/// The error number of a call, as compiled code gets it.
pub(super) fn code(errno: u32) -> i32 {
    errno as i32
}

/// Calls `act` with the memory of a caller.
pub(super) fn with_memory<T>(
    caller: &mut Caller<'_, Guest>,
    act: impl FnOnce(&mut GuestMemory<'_>) -> T,
) -> Result<T> {
    if let Some(memory) = caller.data().exported {
        return Ok(act(&mut GuestMemory::Unshared(memory.data_mut(caller))));
    }
    let shared: SharedMemory;
    let mut memory = match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => GuestMemory::Unshared(memory.data_mut(caller)),
        Some(Extern::SharedMemory(memory)) => {
            shared = memory;
            GuestMemory::Shared(shared.data())
        }
        _ => wasmtime::bail!("the module exports no memory"),
    };
    Ok(act(&mut memory))
}

/// What a number stands for in this process: without sockets, wasmtime's descriptor of that number.
pub(super) fn find(guest: &Guest, fd: i32) -> Option<Numbered> {
    match &guest.numbers {
        None => Some(Numbered::Inner(fd as u32)),
        Some(numbers) => numbers.find(fd),
    }
}

/// wasmtime's number for a descriptor, for a call that works on files alone.
///
/// # Errors
/// The error number for a socket, or for a number without a descriptor.
pub(super) fn inner(guest: &Guest, fd: i32, call: &str) -> std::result::Result<i32, i32> {
    match find(guest, fd) {
        Some(Numbered::Inner(number)) => Ok(number as i32),
        Some(Numbered::Socket(_)) => Err(code(match sockets::other_call(call) {
            OtherCall::NoOffset => errno::ERRNO_SPIPE,
            OtherCall::NoFile => errno::ERRNO_BADF,
        })),
        // Of a file that the process reads on its own thread. The calls that may succeed have settled it before.
        Some(Numbered::File(_)) => Err(code(match call {
            "fd_allocate" | "fd_fdstat_set_rights" => errno::ERRNO_NOTSUP,
            "fd_prestat_dir_name" => errno::ERRNO_NOTDIR,
            _ => errno::ERRNO_BADF,
        })),
        None => Err(code(errno::ERRNO_BADF)),
    }
}

/// The socket with this number; the error number if there is none.
pub(super) fn socket(guest: &mut Guest, fd: i32) -> std::result::Result<Arc<OpenSocket>, i32> {
    match &guest.numbers {
        None => {
            // The library knows whether there is such a descriptor, which is no socket.
            let mut memory = GuestMemory::Unshared(&mut []);
            let answered = p1::sock_shutdown(guest.wasi.get(), &mut memory, fd, 1);
            let errno = as_errno(answered).ok().filter(|errno| *errno != 0);
            Err(errno.unwrap_or(code(errno::ERRNO_NOTSOCK)))
        }
        Some(numbers) => match numbers.find(fd) {
            Some(Numbered::Socket(socket)) => Ok(socket),
            Some(Numbered::Inner(_) | Numbered::File(_)) => Err(code(errno::ERRNO_NOTSOCK)),
            None => Err(code(errno::ERRNO_BADF)),
        },
    }
}

fn connection(socket: &OpenSocket) -> std::result::Result<&Connection, i32> {
    match &socket.kind {
        SocketKind::Connection(connection) => Ok(connection),
        SocketKind::Endpoint(endpoint) => Ok(endpoint.connection()),
        SocketKind::Listener(_) => Err(code(errno::ERRNO_NOTCONN)),
    }
}

/// Waits until a socket is ready, in the event queue of this thread.
pub(super) async fn ready(socket: &Socket, interest: Interest) -> io::Result<()> {
    use std::os::fd::AsFd;
    let wanted = queue_interest(interest);
    // SAFETY: the descriptor is borrowed from a socket that outlives the registration, and a socket keeps its descriptor.
    let watched = unsafe { AsyncFd::register_with_interest(socket.as_fd(), wanted) };
    match watched.map_err(io::Error::from) {
        // Another process of this thread waits for it: a queue knows a descriptor once, but also its duplicate.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let own = socket.as_fd().try_clone_to_owned()?;
            // SAFETY: the registration owns the duplicate.
            let watched = unsafe { AsyncFd::register_with_interest(own, wanted) };
            watched
                .map_err(io::Error::from)?
                .ready(wanted)
                .await
                .map(drop)
        }
        watched => watched?.ready(wanted).await.map(drop),
    }
}

/// The place of a socket in the event queue, if it stays there: that of a connection, in a process without further threads.
/// A listener is shared with other processes, and a socket of the process's own may not be connected yet.
pub(super) fn watch<'o>(guest: &Guest, open: &'o OpenSocket) -> Option<&'o Watch> {
    let stays = matches!(open.kind, SocketKind::Connection(_)) && guest.threads.is_none();
    stays.then_some(&*open.watch)
}

/// Waits for a socket of the process.
async fn wait_for(
    caller: &mut Caller<'_, Guest>,
    open: &OpenSocket,
    interest: Interest,
) -> io::Result<()> {
    let Some(watch) = watch(caller.data(), open) else {
        return wait(caller, open.socket(), interest).await;
    };
    leave_thread(caller.data_mut());
    match watch.happened(open.socket(), interest).await {
        Some(happened) => happened,
        None => wait(caller, open.socket(), interest).await,
    }
}

/// Waits, and lets the other threads of the process call and the worker take another process.
pub(super) async fn wait(
    caller: &mut Caller<'_, Guest>,
    socket: &Socket,
    interest: Interest,
) -> io::Result<()> {
    caller.data_mut().wasi.unlock();
    leave_thread(caller.data_mut());
    ready(socket, interest).await
}

/// Lets the caller's worker thread take other processes, from now on. The thread of a process that gets no instance of its
/// own waits with it, and so does a further thread of a process.
pub(super) fn leave_thread(guest: &mut Guest) {
    if let (None, Some(family)) = (&guest.permit, &guest.family) {
        guest.permit = WaitingPermit::take(&family.load);
    }
}

/// Lets the worker thread take another process while this one waits for others, if it does not do so anyway.
pub(super) fn block<'l>(guest: &Guest, load: &'l WorkerLoad) -> Option<BlockedProcess<'l>> {
    guest.permit.is_none().then(|| load.block())
}

/// Tries a call until it need not wait, or once if the process does not want to wait.
pub(super) async fn retry<T>(
    caller: &mut Caller<'_, Guest>,
    socket: &OpenSocket,
    interest: Interest,
    mut attempt: impl FnMut(&mut Caller<'_, Guest>) -> Result<io::Result<T>>,
) -> Result<std::result::Result<T, i32>> {
    let waits = !socket.nonblock.load(Relaxed);
    // Where the queue knows that there is nothing, the system need not be asked.
    let remembered = watch(caller.data(), socket).map(|watch| watch.memory(interest));
    let mut idle = waits && remembered == Some(Memory::Nothing);
    loop {
        if !idle {
            match attempt(caller)? {
                Ok(value) => return Ok(Ok(value)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && waits => {
                    if let Some(watch) = watch(caller.data(), socket) {
                        watch.found_nothing(interest);
                    }
                }
                Err(error) => return Ok(Err(code(errno_of(&error)))),
            }
        }
        idle = false;
        if let Err(error) = wait_for(caller, socket, interest).await {
            return Ok(Err(code(errno_of(&error))));
        }
    }
}

/// The next connection of a listener, in the process's turn.
async fn next_connection(
    caller: &mut Caller<'_, Guest>,
    open: &OpenSocket,
    (shared, numbers): (&SharedListener, &Numbers),
) -> Result<std::result::Result<Accepted, i32>> {
    // There is no turn while connections are there.
    match accept_within(numbers, || shared.listener.accept()) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && !open.nonblock.load(Relaxed) => {
        }
        accepted => return Ok(accepted.map_err(|error| code(errno_of(&error)))),
    }
    caller.data_mut().wasi.unlock();
    leave_thread(caller.data_mut());
    let _turn = shared.turn.lock().await;
    retry(caller, open, Interest::READ, |_| {
        Ok(accept_within(numbers, || shared.listener.accept()))
    })
    .await
}

/// A connection that was accepted, and the right to it.
type Accepted = (Connection, SocketPermit);

/// Accepts a connection if there may be one more socket.
fn accept_within(
    numbers: &Numbers,
    accept: impl FnOnce() -> io::Result<Connection>,
) -> io::Result<Accepted> {
    let permit = numbers.socket_permit()?;
    Ok((accept()?, permit))
}

pub(super) async fn accept(
    mut caller: Caller<'_, Guest>,
    (fd, flags, to): (i32, i32, i32),
) -> Result<i32> {
    let wrong = with_memory(&mut caller, |memory| {
        refused(memory, &[Argument::Result(to, U32)])
    })?;
    if let Some(errno) = wrong {
        return Ok(errno);
    }
    let open = match socket(caller.data_mut(), fd) {
        Ok(open) => open,
        Err(errno) => return Ok(errno),
    };
    if let SocketKind::Connection(_) = open.kind {
        return Ok(code(errno::ERRNO_INVAL));
    }
    if flags as u32 & !sockets::NONBLOCK != 0 {
        return Ok(code(errno::ERRNO_INVAL));
    }
    let numbers = caller.data().numbers.clone();
    let numbers = numbers.expect("a process with a socket has numbers");
    if !numbers.has_room() {
        return Ok(code(errno::ERRNO_MFILE));
    }
    let accepted = match &open.kind {
        SocketKind::Listener(shared) => {
            next_connection(&mut caller, &open, (shared, &*numbers)).await?
        }
        SocketKind::Endpoint(own) => {
            retry(&mut caller, &open, Interest::READ, |_| {
                Ok(accept_within(&numbers, || own.accept()))
            })
            .await?
        }
        SocketKind::Connection(_) => Err(code(errno::ERRNO_INVAL)),
    };
    let (connection, permit) = match accepted {
        Ok(accepted) => accepted,
        Err(errno) => return Ok(errno),
    };
    let kind = SocketKind::Connection(connection);
    let nonblock = flags as u32 & sockets::NONBLOCK != 0;
    let open = OpenSocket::opened(kind, nonblock, permit);
    let number = numbers.insert(Numbered::Socket(open));
    with_memory(&mut caller, |memory| {
        memory.write(GuestPtr::<u32>::new(to as u32), number)
    })??;
    Ok(0)
}

/// The first vector that holds anything: its address and length. A read fills that one alone, as the library's does.
pub(super) fn first_vector(memory: &GuestMemory<'_>, at: i32, count: i32) -> Result<(u32, usize)> {
    for n in 0..count as u32 {
        let vector = at as u32 + 8 * n;
        let length = memory.read(GuestPtr::<u32>::new(vector + 4))?;
        if length > 0 {
            let from = memory.read(GuestPtr::<u32>::new(vector))?;
            return Ok((from, (length as usize).min(BYTES_MOST)));
        }
    }
    Ok((0, 0))
}

/// Receives into memory that was checked, from byte `skip` on.
fn receive_into(
    memory: &mut GuestMemory<'_>,
    connection: &Connection,
    (at, length): (u32, usize),
    peek: bool,
) -> Result<io::Result<usize>> {
    let place = GuestPtr::<[u8]>::new((at, length as u32));
    if let Some(buffer) = memory.as_slice_mut(place)? {
        return Ok(connection.receive(buffer, peek));
    }
    // Other threads may write a shared memory meanwhile.
    let mut buffer = vec![0; length];
    Ok(match connection.receive(&mut buffer, peek) {
        Ok(bytes) => {
            memory.copy_from_slice(&buffer[..bytes], GuestPtr::<[u8]>::new((at, bytes as u32)))?;
            Ok(bytes)
        }
        error => error,
    })
}

/// Receives from a connection into vectors that were checked; returns the bytes.
pub(super) async fn receive(
    caller: &mut Caller<'_, Guest>,
    open: &OpenSocket,
    (list, count): (i32, i32),
    flags: u32,
) -> Result<std::result::Result<usize, i32>> {
    let connection = match connection(open) {
        Ok(connection) => connection,
        Err(errno) => return Ok(Err(errno)),
    };
    if flags & !(sockets::PEEK | sockets::WAIT_ALL) != 0 {
        return Ok(Err(code(errno::ERRNO_INVAL)));
    }
    let peek = flags & sockets::PEEK != 0;
    let all = flags & sockets::WAIT_ALL != 0 && !peek;
    let (at, length) = with_memory(caller, |memory| first_vector(memory, list, count))??;
    if length == 0 {
        return Ok(Ok(0));
    }
    let mut done = 0;
    loop {
        let rest = (at + done as u32, length - done);
        let received = retry(caller, open, Interest::READ, |caller| {
            with_memory(caller, |memory| {
                receive_into(memory, connection, rest, peek)
            })?
        });
        match received.await? {
            Ok(0) => break,
            Ok(bytes) => {
                done += bytes;
                if bytes < rest.1
                    && !peek
                    && let Some(watch) = watch(caller.data(), open)
                {
                    // The system had no more.
                    watch.found_nothing(Interest::READ);
                }
            }
            Err(errno) if done == 0 => return Ok(Err(errno)),
            Err(_) => break,
        }
        if !all || done == length {
            break;
        }
    }
    Ok(Ok(done))
}

/// Sends vectors that were checked; returns the bytes. A process that waits at all waits until all are sent.
pub(super) async fn send(
    caller: &mut Caller<'_, Guest>,
    open: &OpenSocket,
    (list, count): (i32, i32),
) -> Result<std::result::Result<usize, i32>> {
    let connection = match connection(open) {
        Ok(connection) => connection,
        Err(errno) => return Ok(Err(errno)),
    };
    let mut done = 0;
    if count == 1 {
        // Most calls have one vector, which needs no copy if there is room for all of it.
        let sent = with_memory(caller, |memory| -> Result<_> {
            let from = memory.read(GuestPtr::<u32>::new(list as u32))?;
            let length = memory.read(GuestPtr::<u32>::new(list as u32 + 4))?;
            let length = length.min(BYTES_MOST as u32);
            let bytes = memory.as_slice_mut(GuestPtr::<[u8]>::new((from, length)))?;
            let bytes = bytes.filter(|bytes| !bytes.is_empty());
            Ok(bytes.map(|bytes| (connection.send(bytes), length as usize)))
        })??;
        match sent {
            Some((Ok(sent), length)) if sent == length => return Ok(Ok(sent)),
            Some((Ok(sent), _)) => done = sent,
            // The system tells an error of the connection once.
            Some((Err(error), _)) if error.kind() != io::ErrorKind::WouldBlock => {
                return Ok(Err(code(errno_of(&error))));
            }
            _ => {}
        }
    }
    let bytes = with_memory(caller, |memory| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for n in 0..count as u32 {
            let vector = list as u32 + 8 * n;
            let from = memory.read(GuestPtr::<u32>::new(vector))?;
            let length = memory.read(GuestPtr::<u32>::new(vector + 4))? as usize;
            let length = length.min(BYTES_MOST - bytes.len());
            bytes.extend_from_slice(&memory.as_cow(GuestPtr::new((from, length as u32)))?);
        }
        Ok(bytes)
    })??;
    while done < bytes.len() {
        let sent = retry(caller, open, Interest::WRITE, |_| {
            Ok(connection.send(&bytes[done..]))
        });
        match sent.await? {
            Ok(sent) => done += sent,
            Err(errno) if done == 0 => return Ok(Err(errno)),
            // The error comes again with the next call.
            Err(_) => break,
        }
    }
    Ok(Ok(done))
}

/// Writes a count of bytes, or returns the error number.
pub(super) fn put_count(
    caller: &mut Caller<'_, Guest>,
    to: i32,
    done: std::result::Result<usize, i32>,
) -> Result<i32> {
    match done {
        Err(errno) => Ok(errno),
        Ok(bytes) => {
            let place = GuestPtr::<u32>::new(to as u32);
            with_memory(caller, |memory| memory.write(place, bytes as u32))??;
            Ok(0)
        }
    }
}

pub(super) async fn sock_recv(
    mut caller: Caller<'_, Guest>,
    (fd, list, count, flags, to, out_flags): (i32, i32, i32, i32, i32, i32),
) -> Result<i32> {
    let arguments = [
        Argument::Vectors(list, count),
        Argument::Result(to, U32),
        Argument::Result(out_flags, super::arguments::U16),
    ];
    if let Some(errno) = with_memory(&mut caller, |memory| refused(memory, &arguments))? {
        return Ok(errno);
    }
    let open = match socket(caller.data_mut(), fd) {
        Ok(open) => open,
        Err(errno) => return Ok(errno),
    };
    let received = receive(&mut caller, &open, (list, count), flags as u32).await?;
    if received.is_ok() {
        let place = GuestPtr::<u16>::new(out_flags as u32);
        with_memory(&mut caller, |memory| memory.write(place, 0))??;
    }
    put_count(&mut caller, to, received)
}

pub(super) async fn sock_send(
    mut caller: Caller<'_, Guest>,
    (fd, list, count, flags, to): (i32, i32, i32, i32, i32),
) -> Result<i32> {
    let arguments = [Argument::Vectors(list, count), Argument::Result(to, U32)];
    if let Some(errno) = with_memory(&mut caller, |memory| refused(memory, &arguments))? {
        return Ok(errno);
    }
    let open = match socket(caller.data_mut(), fd) {
        Ok(open) => open,
        Err(errno) => return Ok(errno),
    };
    if let Err(errno) = connection(&open) {
        return Ok(errno);
    }
    if flags != 0 {
        return Ok(code(errno::ERRNO_INVAL));
    }
    let sent = send(&mut caller, &open, (list, count)).await?;
    put_count(&mut caller, to, sent)
}

pub(super) fn sock_shutdown(caller: &mut Caller<'_, Guest>, fd: i32, how: i32) -> i32 {
    let mut shut = || {
        let open = socket(caller.data_mut(), fd)?;
        let connection = connection(&open)?;
        let how = match how as u32 {
            sockets::SHUT_READ => Shutdown::Read,
            sockets::SHUT_WRITE => Shutdown::Write,
            both if both == sockets::SHUT_READ | sockets::SHUT_WRITE => Shutdown::Both,
            _ => return Err(code(errno::ERRNO_INVAL)),
        };
        let shut = connection.shut_down(how);
        shut.map_err(|error| code(errno_of(&error)))
    };
    shut().err().unwrap_or(0)
}

/// The type of a socket.
fn filetype(open: &OpenSocket) -> u8 {
    match &open.kind {
        SocketKind::Endpoint(own) => sockets::filetype_of(own.transport()),
        _ => sockets::FILETYPE,
    }
}

/// `fdstat` of a socket.
pub(super) fn fdstat(memory: &mut GuestMemory<'_>, open: &OpenSocket, to: i32) -> Result<i32> {
    let to = to as u32;
    let (base, inheriting) = match open.kind {
        SocketKind::Listener(_) => (sockets::LISTENER_RIGHTS, sockets::CONNECTION_RIGHTS),
        SocketKind::Connection(_) => (sockets::CONNECTION_RIGHTS, 0),
        SocketKind::Endpoint(_) => (sockets::ENDPOINT_RIGHTS, sockets::CONNECTION_RIGHTS),
    };
    let flags = match open.nonblock.load(Relaxed) {
        true => sockets::NONBLOCK,
        false => 0,
    };
    let first = u64::from(filetype(open)) | u64::from(flags) << 16;
    for (at, word) in [(0, first), (8, base), (16, inheriting)] {
        memory.write(GuestPtr::<u64>::new(to + at), word)?;
    }
    Ok(0)
}

/// `filestat` of a socket: only its type is known.
pub(super) fn filestat(memory: &mut GuestMemory<'_>, open: &OpenSocket, to: i32) -> Result<i32> {
    for at in (0..64).step_by(8) {
        let word = if at == 16 { filetype(open) } else { 0 };
        memory.write(GuestPtr::<u64>::new(to as u32 + at), word.into())?;
    }
    Ok(0)
}

/// Sets the flags of a socket.
pub(super) fn set_flags(open: &OpenSocket, flags: i32) -> i32 {
    let flags = flags as u32;
    if flags & !sockets::NONBLOCK != 0 {
        return code(errno::ERRNO_INVAL);
    }
    open.nonblock.store(flags & sockets::NONBLOCK != 0, Relaxed);
    0
}
