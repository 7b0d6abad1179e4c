//! Files of native tasks: the ring of their requests, and the completions that become tasks.
//!
//! A request is a slot of a ring in the engine's memory. The task that makes it reserves a number in `reserved`, fills the
//! slot `number % slots`, and writes `turn = number + 1` last, with release. A task of the door copies requests in their order to memory of
//! the host, and reports how many there are. When the host has read them, it says so with `taken`, which a task writes for it; then
//! the slots are free.
//!
//! The host sleeps in a submission that holds its group, the *bell*. Who makes a request takes the bell and ends the group.
//! Taking and hanging up the bell are exchanges of one word, so either the host's task sees the request, or the task that
//! made it sees the bell.
//!
//! A completion names a held group and a task. A task of the program's door function spawns it there.
//!
//! Where the host does not reach the engine's memory, it reads into an *arena* of its own memory that tasks reach. Tasks of the door
//! copy from there: see `DevFileCopy`.
//!
//! Tasks that find the ring full try again, and may keep all workers busy. So the door's tasks are urgent: they make room. What
//! they spawn has the priority of the task that asked.

use core::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::layout::DevPtr;
use crate::pages::DevPages;

crate::dev_consts! {
    /// Writes the constants of files as CUDA C++.
    pub fn write_consts;
    /// `DevFileRequest::op`: open the file at a path beneath a granted directory.
    pub const FILE_OPEN = 1;
    /// Read bytes at an offset.
    pub const FILE_READ = 2;
    /// Write bytes at an offset.
    pub const FILE_WRITE = 3;
    /// Write bytes after the last byte.
    pub const FILE_APPEND = 4;
    /// Set the file's size.
    pub const FILE_TRUNCATE = 5;
    /// Write a `DevFileStat`.
    pub const FILE_STAT = 6;
    /// Wait until what was written is on the device.
    pub const FILE_SYNC = 7;
    /// Close a handle.
    pub const FILE_CLOSE = 8;
    /// List a directory with all that is beneath it.
    pub const FILE_LIST = 9;
    /// Read the page of a cached file for a task that holds it.
    pub const FILE_PAGE = 10;
    /// Read pages of a cached file that tasks may want later.
    pub const FILE_PREFETCH = 11;
    /// Go on after a time.
    pub const FILE_SLEEP = 12;
    /// Set a timer.
    pub const FILE_TIMER = 13;
    /// Go on when a timer has expired.
    pub const FILE_TICK = 14;
    /// Listen for connections at an address of this machine.
    pub const FILE_LISTEN = 15;
    /// Connect to a listener.
    pub const FILE_CONNECT = 16;
    /// Open a socket for datagrams.
    pub const FILE_DATAGRAMS = 17;
    /// Take a connection that has come.
    pub const FILE_ACCEPT = 18;
    /// Receive bytes of a connection.
    pub const FILE_RECEIVE = 19;
    /// Send bytes over a connection.
    pub const FILE_SEND = 20;
    /// Receive a datagram.
    pub const FILE_RECEIVE_FROM = 21;
    /// Send a datagram.
    pub const FILE_SEND_TO = 22;
    /// End directions of a connection.
    pub const FILE_SHUT = 23;
    /// Write a socket's own address.
    pub const FILE_ADDRESS = 24;
    /// Write the address of a connection's peer.
    pub const FILE_PEER = 25;
    /// Change a setting of a socket (`SOCKET_…`).
    pub const FILE_SET_OPTION = 26;
    /// Read a setting of a socket.
    pub const FILE_OPTION = 27;
    /// End the requests of a socket or timer that wait and have a note.
    pub const FILE_CANCEL = 28;
    /// Choose the sources of a stream of events.
    pub const FILE_WATCH = 29;
    /// Go on when events have come.
    pub const FILE_EVENTS = 30;
    /// A source of events: keys of the terminal.
    pub const SOURCE_KEYS = 1;
    /// The terminal's mouse.
    pub const SOURCE_MOUSE = 2;
    /// The terminal's size: now, and when it changes.
    pub const SOURCE_SIZE = 4;
    /// An input device, or a recording of one.
    pub const SOURCE_INPUT = 8;
    /// `DevEvent::kind`: a key was pressed.
    pub const EVENT_KEY = 2;
    /// The mouse has done something.
    pub const EVENT_MOUSE = 3;
    /// The terminal has this size.
    pub const EVENT_SIZE = 4;
    /// A signal has come.
    pub const EVENT_SIGNAL = 5;
    /// An event of an input device.
    pub const EVENT_INPUT = 6;
    /// Sources have ended.
    pub const EVENT_END = 7;
    /// The sources that a stream brings from now on.
    pub const EVENT_WATCHING = 8;
    /// A setting of a socket: small writes are sent at once.
    pub const SOCKET_NO_DELAY = 1;
    /// An address may be bound while connections of an earlier listener are still there.
    pub const SOCKET_REUSE_ADDRESS = 2;
    /// The system finds out whether a silent peer is still there.
    pub const SOCKET_KEEP_ALIVE = 3;
    /// Datagrams may be sent to all machines of a network.
    pub const SOCKET_BROADCAST = 4;
    /// The size of the system's buffer of received bytes.
    pub const SOCKET_RECEIVE_BUFFER = 5;
    /// The size of the system's buffer of bytes to send.
    pub const SOCKET_SEND_BUFFER = 6;
    /// How many routers may pass a packet on.
    pub const SOCKET_TIME_TO_LIVE = 7;
    /// An IPv6 socket takes no IPv4 addresses.
    pub const SOCKET_ONLY_V6 = 8;
    /// The first bit of a request's class in `op`.
    pub const FILE_CLASS_SHIFT = 8;
    /// The class of a request that does not say otherwise.
    pub const FILE_NORMAL = 0;
    /// The class of a request that someone waits for.
    pub const FILE_INTERACTIVE = 1;
    /// The class of a request that may take longer while there is other work.
    pub const FILE_BACKGROUND = 2;
    /// A direction that `FILE_SHUT` ends: nothing more is received.
    pub const SHUT_RECEIVING = 1;
    /// Nothing more is sent.
    pub const SHUT_SENDING = 2;
    /// How to open a file: to read it.
    pub const FILE_FOR_READING = 1;
    /// To write it.
    pub const FILE_FOR_WRITING = 2;
    /// Make it if it is missing.
    pub const FILE_CREATE = 4;
    /// Make it, and fail if it is there.
    pub const FILE_NEW = 8;
    /// Empty it.
    pub const FILE_EMPTY = 16;
    /// Reads, writes and stats of this handle may be done together and end in any order.
    pub const FILE_UNORDERED = 32;
    /// Its pages are cached: they are reached through the cache, and not with reads and writes.
    pub const FILE_CACHED = 64;
    /// The most bytes of one request.
    pub const FILE_MOST = 0x4000_0000;
    /// Tag of the door's task that waits for requests; its argument is how many the host has taken.
    pub const FILE_DOOR_WAIT = 0;
    /// Tag of the door's task that reports that there are requests.
    pub const FILE_DOOR_COUNT = 1;
    /// Tag of the door's task that spawns completions: the first and how many.
    pub const FILE_DOOR_DELIVER = 2;
    /// Tag of the door's task that closes the ring.
    pub const FILE_DOOR_CLOSE = 3;
    /// Tag of the door's task that carries out orders: the first and how many.
    pub const FILE_DOOR_ORDERS = 4;
    /// Tag of the door's task that copies from the arena: the first record and how many.
    pub const FILE_DOOR_COPY = 5;
    /// The most completions that one task of the door spawns, one for each lane of its warp.
    pub const FILE_DOOR_STEP = 32;
    /// `DevFileCopy::from`: zeros are written.
    pub const FILE_COPY_ZEROS = 0xffff_ffff;
    /// The most bytes of a `DevFileCopy`.
    pub const FILE_COPY_MOST = 0x4000;
    /// The most requests that the host takes at a time.
    pub const FILE_TAKE_STEP = 256;
    /// What the waiting task reports when the ring is closed and empty.
    pub const FILE_ENDED = 0x8000_0000;
    /// `DevFileRequest::then`: where the priority is.
    pub const FILE_THEN_PRIORITY_SHIFT = 30;
    /// The bit of `DevFileControl::reserved` that is set when the ring is closed.
    pub const FILE_CLOSED_BIT = 63;
    /// `DevFileStat::kind` and `DevFileEntry::kind`: none of the others.
    pub const FILE_KIND_OTHER = 0;
    /// A regular file.
    pub const FILE_KIND_REGULAR = 1;
    /// A directory.
    pub const FILE_KIND_DIRECTORY = 2;
    /// A symbolic link, which a listing does not follow.
    pub const FILE_KIND_LINK = 3;
}

crate::dev_struct! {
    /// A request, in its slot of the ring.
    pub struct DevFileRequest: align 64, size 64 {
        /// Its number plus one, written last.
        pub turn: u64,
        /// What to do (`FILE_…`), and from `FILE_CLASS_SHIFT` on its class.
        pub op: u32,
        /// The handle; to open, the number of the granted directory.
        pub handle: u32,
        /// Where in the file; to truncate, the size; to open, how; to sleep or set a timer, after how many nanoseconds; with a
        /// socket's address, its port and scope; to end directions of a connection, which; to accept, receive or send, within how
        /// many nanoseconds, or 0; of a setting, its number; to cancel, the note; to watch, the sources.
        pub offset: u64,
        /// The bytes to read or write, the path, or the place for a `DevFileStat` or a `DevNetAddress`: an address in shared
        /// memory. To connect, within how many nanoseconds, or 0; to change a setting, its value; to watch, the signals.
        pub address: u64,
        /// How many bytes, or events.
        pub len: u32,
        /// The held group of the completion's task.
        pub group: u32,
        /// The completion's task: its tag (8), its function, and from `FILE_THEN_PRIORITY_SHIFT` on its priority.
        pub then: u32,
        /// The lower half of its argument.
        pub note: u32,
        /// To list: where the listing goes, and how many bytes there are. Of a page, the number of its word. To open a cached
        /// file, the size that it may grow to. With a socket's address, its upper half; to receive a datagram, the place for its
        /// sender.
        pub to: u64,
        /// See `to`; of an open file, within how many nanoseconds, or 0; to prefetch, how many bytes; to set a timer, its period in nanoseconds, or 0; with a
        /// socket's address, its lower half.
        pub room: u64,
    }
}

crate::dev_struct! {
    /// A completion.
    pub struct DevFileDone: align 16, size 32 {
        /// The task, as in the request.
        pub then: u32,
        /// Its group, which is held.
        pub group: u32,
        /// Its argument: the note of the request, then the result. A negative result is an error number.
        pub arg: u64,
        /// The page that it waited for: the number of its word plus one; 0: none.
        pub page: u64,
        /// The bits that say where the page is; 0: it could not be read, and the task holds it no more.
        pub word: u64,
    }
}

crate::dev_struct! {
    /// Bytes of the arena that go to the engine's memory. A warp copies 16 bytes with each lane at a time, so both addresses have the
    /// same remainder when they are divided by 16.
    pub struct DevFileCopy: align 16, size 32 {
        /// Where in the arena they begin, or `FILE_COPY_ZEROS`.
        pub from: u32,
        /// How many they are, up to `FILE_COPY_MOST`.
        pub len: u32,
        /// Where they go: an address in the engine's memory.
        pub to: u64,
        /// The page that is there once they are copied: the number of its word plus one; 0: none.
        pub page: u64,
        /// The bits that its word gets.
        pub bits: u64,
    }
}

crate::dev_struct! {
    /// What a file is.
    pub struct DevFileStat: align 8, size 32 {
        /// Its size in bytes.
        pub size: u64,
        /// When it was changed last, in nanoseconds since 1970.
        pub modified: u64,
        /// What it is (`FILE_KIND_…`).
        pub kind: u32,
        /// How many names it has.
        pub links: u32,
        /// Its number in its file system.
        pub inode: u64,
    }
}

crate::dev_struct! {
    /// The address of a socket: that of the machine is an IPv6 address as a number, and IPv4 addresses are those in
    /// `::ffff:0:0/96`.
    #[derive(PartialEq, Eq)]
    pub struct DevNetAddress: align 8, size 24 {
        /// The upper half of the machine's address.
        pub high: u64,
        /// The lower half.
        pub low: u64,
        /// The port.
        pub port: u32,
        /// The link of an address that is unique on its link only, or 0.
        pub scope: u32,
    }
}

crate::dev_struct! {
    /// An event that has arrived by itself.
    #[derive(PartialEq, Eq)]
    pub struct DevEvent: align 8, size 32 {
        /// What it is (`EVENT_…`).
        pub kind: u16,
        /// Modifiers of a key; modifiers and action of the mouse; the type of an event of an input device.
        pub flags: u16,
        /// The key, the button, the number of the signal, or the code of an event of an input device.
        pub id: u32,
        /// When it happened, in nanoseconds since 1970.
        pub time: u64,
        /// The column; the terminal's columns; how often the signal has come since its last event; the value of an event of an
        /// input device; the sources that are watched; of sources that have ended, an error number or 0.
        pub a: i64,
        /// The row, the terminal's rows, or the signals that are watched.
        pub b: i64,
    }
}

impl DevNetAddress {
    /// The port and the scope, as a request has them.
    pub fn port_and_scope(self) -> u64 {
        u64::from(self.scope) << 32 | u64::from(self.port)
    }
    /// The address of a socket; `None` if there is no such port.
    pub fn socket_address(self) -> Option<SocketAddr> {
        let ip = Ipv6Addr::from_bits(u128::from(self.high) << 64 | u128::from(self.low));
        let port = u16::try_from(self.port).ok()?;
        Some(match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::from((ip, port)),
            None => SocketAddrV6::new(ip, port, 0, self.scope).into(),
        })
    }
}

impl From<SocketAddr> for DevNetAddress {
    fn from(address: SocketAddr) -> Self {
        let (ip, scope) = match address {
            SocketAddr::V4(address) => (address.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(address) => (*address.ip(), address.scope_id()),
        };
        let bits = ip.to_bits();
        Self {
            high: (bits >> 64) as u64,
            low: bits as u64,
            port: address.port().into(),
            scope,
        }
    }
}

crate::dev_struct! {
    /// The beginning of a listing. Its entries follow, each with its path.
    pub struct DevFileList: align 8, size 16 {
        /// Bytes of the listing, these included. A listing that has no room is only this.
        pub bytes: u64,
        /// How many entries it has.
        pub entries: u64,
    }
}

crate::dev_struct! {
    /// An entry of a listing. Its path follows, with zeros up to a multiple of 8 bytes.
    pub struct DevFileEntry: align 8, size 16 {
        /// The size of a regular file.
        pub size: u64,
        /// What it is (`FILE_KIND_…`).
        pub kind: u32,
        /// Bytes of its path, which begins at the listed directory.
        pub path: u32,
    }
}

crate::dev_struct! {
    /// Words that all requests share.
    pub struct DevFileControl: align 128, size 256 {
        /// Requests reserved so far; the highest bit is set when the ring is closed.
        pub reserved: u64,
        /// How often there was no free slot.
        pub refused: u64,
        /// Spelled-out hole.
        pub hole0: [u64; 14],
        /// Requests that the host has copied.
        pub taken: u64,
        /// The group in which the host waits plus one, or 0.
        pub bell: u64,
        /// Spelled-out hole.
        pub hole1: [u64; 14],
    }
}

crate::dev_struct! {
    /// The files of an instance: a field of its parameters.
    pub struct DevFiles: align 16, size 128 {
        /// Requests.
        pub requests: DevPtr<DevFileRequest>,
        /// Completions.
        pub done: DevPtr<DevFileDone>,
        /// Shared words.
        pub control: DevPtr<DevFileControl>,
        /// Slots of requests, a power of two.
        pub slots: u32,
        /// Slots of completions, a power of two.
        pub done_slots: u32,
        /// The page cache.
        pub pages: DevPages,
        /// The arena, if there is one: memory of the host.
        pub arena: DevPtr<u8>,
        /// What is to be copied from there, also in memory of the host.
        pub copies: DevPtr<DevFileCopy>,
        /// Bytes of the arena.
        pub arena_bytes: u32,
        /// How many records `copies` has.
        pub copy_slots: u32,
        /// The next requests: copies of the slots whose number a task has reported, up to `FILE_TAKE_STEP`, in memory of the host.
        pub copied: DevPtr<DevFileRequest>,
    }
}
