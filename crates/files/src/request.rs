//! Requests, once they were copied out of the ring and checked.

use std::net::SocketAddr;
use std::time::Instant;

use everwarp_contract::files as device;
use everwarp_contract::{DevEvent, DevFileDone, DevFileRequest, DevFileStat, DevNetAddress};
use everwarp_io::{Shutdown, SocketOption};

use crate::class::RequestClass;
use crate::errno::FileErrno;
use crate::grants::How;
use crate::lines::{Name, Named};
use crate::memory::{Memory, Range};

/// When a request has to be done, and a number that no other has.
pub(crate) type Deadline = (Instant, u64);

/// The task that goes on when a request is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    pub(crate) then: u32,
    pub(crate) group: u32,
    pub(crate) note: u32,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) class: RequestClass,
    /// Bytes that the request has in flight.
    pub(crate) bytes: u32,
}

impl Named for After {
    fn has_name(&self, name: Name) -> bool {
        match name {
            Name::Note(note) => self.note == note,
            Name::Deadline(number) => self.deadline.is_some_and(|(_, own)| own == number),
        }
    }
}

impl After {
    /// The completion with a result.
    pub(crate) fn done(self, result: Result<u32, FileErrno>) -> DevFileDone {
        let result = match result {
            // No result is that large: see `FILE_MOST` and the handles.
            Ok(value) => value.min(i32::MAX as u32),
            Err(error) => (error.0 as i32).wrapping_neg() as u32,
        };
        DevFileDone {
            then: self.then,
            group: self.group,
            arg: u64::from(result) << 32 | u64::from(self.note),
            page: 0,
            word: 0,
        }
    }
}

/// Requests that have ended.
pub(crate) type Ended = Vec<(After, Result<u32, FileErrno>)>;

/// What is to be done to an open file.
#[derive(Debug)]
pub(crate) enum Op {
    Read {
        from: u64,
        to: Range,
    },
    Write {
        to: u64,
        from: Range,
    },
    Append {
        from: Range,
    },
    Truncate {
        size: u64,
    },
    Stat {
        to: Range,
    },
    Sync,
    /// The handle.
    Close(u32),
    #[cfg(test)]
    Nothing,
}

/// A request for an open file.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) after: After,
}

impl Request {
    /// Whether it has a name, and may end before it is done. A close is done in any case.
    pub(crate) fn may_be_struck(&self, name: Name) -> bool {
        self.after.has_name(name) && !matches!(self.op, Op::Close(_))
    }
    /// Whether it waits for earlier requests of its handle, and later ones wait for it, even if the handle is unordered.
    pub(crate) fn wants_order(&self) -> bool {
        matches!(
            self.op,
            Op::Append { .. } | Op::Truncate { .. } | Op::Sync | Op::Close(_)
        )
    }
}

/// What is asked of timers. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfTime {
    Sleep {
        nanos: u64,
    },
    /// A period of 0 is none.
    Set {
        after: u64,
        period: u64,
    },
    Tick(u32),
    Stop(u32),
    /// Ends the wait for a timer of the request with a note.
    Cancel {
        handle: u32,
        note: u32,
    },
}

/// What kind of socket is opened, and its address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfNetwork {
    Listen(SocketAddr),
    /// Within this many nanoseconds; 0: without a limit.
    Connect {
        address: SocketAddr,
        within: u64,
    },
    Datagrams(SocketAddr),
}

/// What is asked of a socket.
#[derive(Debug)]
pub(crate) enum OfSocket {
    Accept {
        peer: Option<Range>,
    },
    Receive {
        to: Range,
    },
    Send {
        from: Range,
    },
    ReceiveFrom {
        to: Range,
        from: Option<Range>,
    },
    SendTo {
        from: Range,
        address: SocketAddr,
    },
    Shut(Shutdown),
    Address {
        to: Range,
    },
    Peer {
        to: Range,
    },
    SetOption {
        option: SocketOption,
        value: u64,
    },
    Option(SocketOption),
    /// Waits for events.
    Events {
        to: Range,
    },
    /// Chooses the sources of events, and the signals.
    Watch {
        sources: u32,
        signals: u64,
    },
    /// The outcome of making a connection.
    Connect,
}

/// What a task asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    Open {
        dir: u32,
        how: How,
        path: Range,
        /// The size that a cached file may grow to.
        room: u64,
    },
    List {
        dir: u32,
        path: Range,
        to: Range,
    },
    Of {
        handle: u32,
        op: Op,
        /// How many nanoseconds it may take; 0: without a limit.
        within: u64,
    },
    Time(OfTime),
    Network(OfNetwork),
    Socket {
        handle: u32,
        op: OfSocket,
        /// How many nanoseconds it may take; 0: without a limit.
        within: u64,
    },
    /// Ends requests that wait and have this note.
    Cancel {
        handle: u32,
        note: u32,
    },
}

/// What a request asks for (`FILE_…`).
pub(crate) fn op_of(record: &DevFileRequest) -> u32 {
    record.op & ((1 << device::FILE_CLASS_SHIFT) - 1)
}

/// The task that goes on after a request.
pub(crate) fn after(record: &DevFileRequest) -> After {
    After {
        then: record.then,
        group: record.group,
        note: record.note,
        // One with a wrong class is refused.
        class: class_of(record).unwrap_or_default(),
        bytes: match op_of(record) {
            device::FILE_READ
            | device::FILE_WRITE
            | device::FILE_APPEND
            | device::FILE_RECEIVE
            | device::FILE_SEND
            | device::FILE_RECEIVE_FROM
            | device::FILE_SEND_TO => record.len,
            _ => 0,
        },
        deadline: None,
    }
}

fn class_of(record: &DevFileRequest) -> Result<RequestClass, FileErrno> {
    RequestClass::of_number(record.op >> device::FILE_CLASS_SHIFT)
}

/// Checks a request.
pub(crate) fn decode(record: &DevFileRequest, memory: &Memory) -> Result<Asked, FileErrno> {
    class_of(record)?;
    let asked_op = op_of(record);
    let range = || match record.len > device::FILE_MOST {
        true => Err(FileErrno::INVAL),
        false => memory.range(record.address, record.len.into()),
    };
    let address = || {
        let address = DevNetAddress {
            high: record.to,
            low: record.room,
            port: record.offset as u32,
            scope: (record.offset >> 32) as u32,
        };
        address.socket_address().ok_or(FileErrno::INVAL)
    };
    let place = |at: u64| memory.range(at, size_of::<DevNetAddress>() as u64);
    let place_if_any = |at: u64| (at != 0).then(|| place(at)).transpose();
    let of_socket = |op| {
        Ok(Asked::Socket {
            handle: record.handle,
            op,
            within: match asked_op {
                device::FILE_ACCEPT | device::FILE_RECEIVE | device::FILE_SEND => record.offset,
                _ => 0,
            },
        })
    };
    let option = || {
        let number = u32::try_from(record.offset).ok();
        number
            .and_then(SocketOption::of_number)
            .ok_or(FileErrno::INVAL)
    };
    let stat = || memory.range(record.address, size_of::<DevFileStat>() as u64);
    let op = match asked_op {
        device::FILE_OPEN => {
            return Ok(Asked::Open {
                dir: record.handle,
                how: How::of_flags(record.offset)?,
                path: range()?,
                room: record.to,
            });
        }
        device::FILE_LIST => {
            return Ok(Asked::List {
                dir: record.handle,
                path: range()?,
                to: memory.range(record.to, record.room)?,
            });
        }
        device::FILE_SLEEP => {
            return Ok(Asked::Time(OfTime::Sleep {
                nanos: record.offset,
            }));
        }
        device::FILE_TIMER => {
            return Ok(Asked::Time(OfTime::Set {
                after: record.offset,
                period: record.room,
            }));
        }
        device::FILE_TICK => return Ok(Asked::Time(OfTime::Tick(record.handle))),
        device::FILE_LISTEN => return Ok(Asked::Network(OfNetwork::Listen(address()?))),
        device::FILE_CONNECT => {
            return Ok(Asked::Network(OfNetwork::Connect {
                address: address()?,
                within: record.address,
            }));
        }
        device::FILE_DATAGRAMS => return Ok(Asked::Network(OfNetwork::Datagrams(address()?))),
        device::FILE_ACCEPT => {
            let peer = place_if_any(record.address)?;
            return of_socket(OfSocket::Accept { peer });
        }
        device::FILE_RECEIVE => return of_socket(OfSocket::Receive { to: range()? }),
        device::FILE_SEND => return of_socket(OfSocket::Send { from: range()? }),
        device::FILE_RECEIVE_FROM => {
            return of_socket(OfSocket::ReceiveFrom {
                to: range()?,
                from: place_if_any(record.to)?,
            });
        }
        device::FILE_SEND_TO => {
            return of_socket(OfSocket::SendTo {
                from: range()?,
                address: address()?,
            });
        }
        device::FILE_SHUT => {
            const RECEIVING: u64 = device::SHUT_RECEIVING as u64;
            const SENDING: u64 = device::SHUT_SENDING as u64;
            const BOTH: u64 = RECEIVING | SENDING;
            return of_socket(OfSocket::Shut(match record.offset {
                RECEIVING => Shutdown::Read,
                SENDING => Shutdown::Write,
                BOTH => Shutdown::Both,
                _ => return Err(FileErrno::INVAL),
            }));
        }
        device::FILE_ADDRESS => {
            let to = place(record.address)?;
            return of_socket(OfSocket::Address { to });
        }
        device::FILE_PEER => {
            let to = place(record.address)?;
            return of_socket(OfSocket::Peer { to });
        }
        device::FILE_SET_OPTION => {
            return of_socket(OfSocket::SetOption {
                option: option()?,
                value: record.address,
            });
        }
        device::FILE_OPTION => return of_socket(OfSocket::Option(option()?)),
        device::FILE_CANCEL => {
            return Ok(Asked::Cancel {
                handle: record.handle,
                note: record.offset as u32,
            });
        }
        device::FILE_EVENTS => {
            let bytes = u64::from(record.len) * size_of::<DevEvent>() as u64;
            let to = memory.range(record.address, bytes)?;
            return of_socket(OfSocket::Events { to });
        }
        device::FILE_WATCH => {
            let sources = u32::try_from(record.offset).map_err(|_| FileErrno::INVAL)?;
            let signals = record.address;
            return of_socket(OfSocket::Watch { sources, signals });
        }
        device::FILE_READ => Op::Read {
            from: record.offset,
            to: range()?,
        },
        device::FILE_WRITE => Op::Write {
            to: record.offset,
            from: range()?,
        },
        device::FILE_APPEND => Op::Append { from: range()? },
        device::FILE_TRUNCATE => Op::Truncate {
            size: record.offset,
        },
        device::FILE_STAT => Op::Stat { to: stat()? },
        device::FILE_SYNC => Op::Sync,
        device::FILE_CLOSE => Op::Close(record.handle),
        _ => return Err(FileErrno::NOSYS),
    };
    Ok(Asked::Of {
        handle: record.handle,
        within: match op {
            Op::Close(_) => 0,
            _ => record.room,
        },
        op,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_numbers_of_their_names() {
        for (number, option) in [
            (device::SOCKET_NO_DELAY, SocketOption::NoDelay),
            (device::SOCKET_REUSE_ADDRESS, SocketOption::ReuseAddress),
            (device::SOCKET_KEEP_ALIVE, SocketOption::KeepAlive),
            (device::SOCKET_BROADCAST, SocketOption::Broadcast),
            (device::SOCKET_RECEIVE_BUFFER, SocketOption::ReceiveBuffer),
            (device::SOCKET_SEND_BUFFER, SocketOption::SendBuffer),
            (device::SOCKET_TIME_TO_LIVE, SocketOption::TimeToLive),
            (device::SOCKET_ONLY_V6, SocketOption::OnlyV6),
        ] {
            assert_eq!(SocketOption::of_number(number), Some(option));
        }
    }
}
