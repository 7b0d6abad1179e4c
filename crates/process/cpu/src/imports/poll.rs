//! `poll_oneoff` of a process that has sockets.
//!
//! wasmtime's library knows its own descriptors only. So it is asked about those with a time of zero, the sockets are
//! looked at here, and if nothing has happened, the process waits for all of them together and looks again.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everwarp_contract::errno;
use everwarp_io::Interest;
use everwarp_process::sockets::{errno_of, event_flags};
use wasmtime::{Caller, Result};
use wasmtime_wasi::cli::StdinStream;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::{GuestMemory, GuestPtr};

use super::arguments::as_errno;
use super::files::settle;
use super::sockets::{find, leave_thread, ready, watch, with_memory};
use super::waiting::relock;
use crate::guest::Guest;
use crate::numbers::{Numbered, OpenSocket, SocketKind};
use crate::watch::Memory;

/// Kinds of subscriptions and events.
const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
/// Bytes of a subscription and of an event.
const SUBSCRIPTION: usize = 48;
const EVENT: usize = 32;

/// A subscription.
struct Subscription {
    userdata: u64,
    awaited: Awaited,
}

enum Awaited {
    /// A time; `None` if it is later than the clock can show.
    Clock(Option<Instant>),
    Socket(Arc<OpenSocket>, Interest),
    /// A descriptor of wasmtime's: the subscription with wasmtime's number.
    Inner([u8; SUBSCRIPTION]),
}

/// An event: error number, kind, bytes and flags.
type Event = (u32, u8, u64, u64);

fn word<const N: usize>(bytes: &[u8; SUBSCRIPTION], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

/// The time that a process's monotonic clock shows, in nanoseconds.
fn monotonic(guest: &mut Guest) -> Result<u64> {
    let mut bytes = [0; 8];
    let wasi = guest.wasi.get();
    p1::clock_time_get(wasi, &mut GuestMemory::Unshared(&mut bytes), 1, 0, 0)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads a subscription; the error number if it is wrong.
fn subscription(
    guest: &mut Guest,
    bytes: &[u8; SUBSCRIPTION],
    now: Instant,
) -> Result<std::result::Result<Awaited, u32>> {
    let number = u32::from_le_bytes(word(bytes, 16));
    let interest = match bytes[8] {
        CLOCK => {
            let timeout = u64::from_le_bytes(word(bytes, 24));
            let timeout = match (number, u16::from_le_bytes(word(bytes, 40))) {
                (0 | 1, 0) => timeout,
                (0, 1) => {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH);
                    let now = now.unwrap_or_default().as_nanos() as u64;
                    timeout.saturating_sub(now)
                }
                (1, 1) => timeout.saturating_sub(monotonic(guest)?),
                _ => return Ok(Err(errno::ERRNO_INVAL)),
            };
            let at = now.checked_add(Duration::from_nanos(timeout));
            return Ok(Ok(Awaited::Clock(at)));
        }
        READ => Interest::READ,
        WRITE => Interest::WRITE,
        _ => return Ok(Err(errno::ERRNO_INVAL)),
    };
    Ok(match find(guest, number as i32) {
        None | Some(Numbered::File(_)) => Err(errno::ERRNO_BADF),
        Some(Numbered::Socket(open)) => match (&open.kind, interest.write) {
            (SocketKind::Listener(_), true) => Err(errno::ERRNO_BADF),
            _ => Ok(Awaited::Socket(open, interest)),
        },
        Some(Numbered::Inner(number)) => {
            let mut bytes = *bytes;
            bytes[16..20].copy_from_slice(&number.to_le_bytes());
            Ok(Awaited::Inner(bytes))
        }
    })
}

/// The event of a socket, if it has occurred. `trusting` takes the event queue's word for it that nothing has.
fn socket_event(
    guest: &Guest,
    open: &OpenSocket,
    interest: Interest,
    trusting: bool,
) -> Option<Event> {
    let kind = if interest.read { READ } else { WRITE };
    let flags = |hung_up| u64::from(event_flags(open.socket(), hung_up));
    let watch = watch(guest, open);
    match watch.map_or(Memory::Unknown, |watch| watch.memory(interest)) {
        Memory::Nothing if trusting => return None,
        Memory::Happened { ended: false } if interest.read => {
            let bytes = open.socket().available();
            if bytes > 0 {
                return Some((0, kind, bytes, flags(false)));
            }
        }
        _ => {}
    }
    match open.socket().readiness() {
        Err(error) => Some((errno_of(&error), kind, 0, 0)),
        Ok(ready) if ready.meets(interest) => {
            let bytes = match open.kind {
                SocketKind::Connection(_) if interest.read => open.socket().available(),
                // It may also listen, or hold an empty datagram.
                SocketKind::Endpoint(_) if interest.read && !ready.hung_up => {
                    open.socket().available().max(1)
                }
                SocketKind::Endpoint(_) if interest.read => open.socket().available(),
                _ => 1,
            };
            Some((0, kind, bytes, flags(ready.hung_up)))
        }
        Ok(_) => {
            watch.inspect(|watch| watch.found_nothing(interest));
            None
        }
    }
}

/// Asks the library which of its descriptors are ready now, and puts their events where the subscriptions are.
async fn ask_library(
    guest: &mut Guest,
    all: &[Subscription],
    events: &mut [Option<Event>],
) -> Result<i32> {
    let mut list = Vec::new();
    for (at, subscription) in all.iter().enumerate() {
        if let Awaited::Inner(bytes) = &subscription.awaited {
            let mut bytes = *bytes;
            bytes[..8].copy_from_slice(&(at as u64).to_le_bytes());
            list.extend_from_slice(&bytes);
        }
    }
    if list.is_empty() {
        return Ok(0);
    }
    // A time of zero, so that the call returns at once. It is the last.
    let mut zero = [0; SUBSCRIPTION];
    zero[16] = 1;
    list.extend_from_slice(&zero);
    let count = list.len() / SUBSCRIPTION;
    let to = list.len();
    let total = to + count * EVENT;
    let mut scratch = list;
    scratch.resize(total + 8, 0);
    let mut memory = GuestMemory::Unshared(&mut scratch);
    let wasi = guest.wasi.get();
    let polled = p1::poll_oneoff(wasi, &mut memory, 0, to as i32, count as i32, total as i32);
    let errno = as_errno(polled.await)?;
    if errno != 0 {
        return Ok(errno);
    }
    let occurred = u32::from_le_bytes(scratch[total..total + 4].try_into().expect("four bytes"));
    for event in scratch[to..total]
        .chunks_exact(EVENT)
        .take(occurred as usize)
    {
        let part =
            |at: usize| u64::from_le_bytes(event[at..at + 8].try_into().expect("eight bytes"));
        let kind = event[10];
        if kind != CLOCK {
            let errno = u32::from(u16::from_le_bytes([event[8], event[9]]));
            events[part(0) as usize] = Some((errno, kind, part(16), part(24)));
        }
    }
    Ok(0)
}

type Waiting<'w> = Pin<Box<dyn Future<Output = ()> + Send + 'w>>;

/// Waits until one of several things happens.
async fn first(mut waiting: Vec<Waiting<'_>>) {
    poll_fn(|cx| {
        let done = waiting
            .iter_mut()
            .any(|one| one.as_mut().poll(cx).is_ready());
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Waits until something may have happened.
async fn wait(caller: &mut Caller<'_, Guest>, all: &[Subscription]) {
    caller.data_mut().wasi.unlock();
    leave_thread(caller.data_mut());
    let mut waiting = Vec::<Waiting<'_>>::new();
    let clocks = all.iter().filter_map(|one| match one.awaited {
        Awaited::Clock(at) => at,
        _ => None,
    });
    if let Some(at) = clocks.min() {
        waiting.push(Box::pin(tokio::time::sleep_until(at.into())));
    }
    for one in all {
        if let Awaited::Socket(open, interest) = &one.awaited {
            let watch = watch(caller.data(), open);
            // An error shows when the socket is looked at again.
            waiting.push(Box::pin(async move {
                let happened = match watch {
                    Some(watch) => watch.happened(open.socket(), *interest).await,
                    None => None,
                };
                if happened.is_none() {
                    drop(ready(open.socket(), *interest).await);
                }
            }));
        }
    }
    let reads =
        |one: &Subscription| matches!(&one.awaited, Awaited::Inner(bytes) if bytes[8] == READ);
    let numbers = caller.data().numbers.clone();
    let stdin = numbers.as_ref().and_then(|numbers| numbers.stdin.as_ref());
    if let Some(stdin) = stdin.filter(|_| all.iter().any(reads)) {
        let mut input = stdin.p2_stream();
        waiting.push(Box::pin(async move { input.ready().await }));
    }
    first(waiting).await;
}

/// Writes the events that have occurred, and their number.
fn write(
    memory: &mut GuestMemory<'_>,
    all: &[Subscription],
    events: &[Option<Event>],
    (to, count): (u32, u32),
) -> Result<()> {
    let mut written = 0;
    for (subscription, event) in all.iter().zip(events) {
        let Some((errno, kind, bytes, flags)) = event else {
            continue;
        };
        let at = to + EVENT as u32 * written;
        let head = u64::from(*errno & 0xffff) | u64::from(*kind) << 16;
        for (offset, word) in [
            (0, subscription.userdata),
            (8, head),
            (16, *bytes),
            (24, *flags),
        ] {
            memory.write(GuestPtr::<u64>::new(at + offset), word)?;
        }
        written += 1;
    }
    memory.write(GuestPtr::<u32>::new(count), written)?;
    Ok(())
}

/// The call, after its memory has been checked.
pub(super) async fn poll(
    caller: &mut Caller<'_, Guest>,
    (from, to, count, events_at): (i32, i32, i32, i32),
) -> Result<i32> {
    let length = SUBSCRIPTION as u32 * count as u32;
    let list = with_memory(caller, |memory| {
        memory.to_vec(GuestPtr::<[u8]>::new((from as u32, length)))
    })??;
    let now = Instant::now();
    let mut all = Vec::with_capacity(count as usize);
    for bytes in list.as_chunks::<SUBSCRIPTION>().0 {
        if bytes[8] != CLOCK
            && let Some(errno) = settle(caller, u32::from_le_bytes(word(bytes, 16)) as i32).await?
        {
            return Ok(errno);
        }
        match subscription(caller.data_mut(), bytes, now)? {
            Err(errno) => return Ok(errno as i32),
            Ok(awaited) => all.push(Subscription {
                userdata: u64::from_le_bytes(word(bytes, 0)),
                awaited,
            }),
        }
    }
    loop {
        let now = Instant::now();
        let look = |guest: &Guest, one: &Subscription, trusting| match &one.awaited {
            Awaited::Clock(at) => at.is_some_and(|at| at <= now).then_some((0, CLOCK, 0, 0)),
            Awaited::Socket(open, interest) => socket_event(guest, open, *interest, trusting),
            Awaited::Inner(_) => None,
        };
        let mut events: Vec<Option<Event>> = all
            .iter()
            .map(|one| look(caller.data(), one, true))
            .collect();
        let errno = ask_library(caller.data_mut(), &all, &mut events).await?;
        if errno != 0 {
            return Ok(errno);
        }
        if events.iter().any(Option::is_some) {
            // The queue has only known of what had happened when the process waited last, and this call does not wait.
            for (one, event) in all.iter().zip(&mut events) {
                *event = event.or_else(|| look(caller.data(), one, false));
            }
            let to = (to as u32, events_at as u32);
            with_memory(caller, |memory| write(memory, &all, &events, to))??;
            return Ok(0);
        }
        wait(caller, &all).await;
        relock(caller).await;
    }
}
