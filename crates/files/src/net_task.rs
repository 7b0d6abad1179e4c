//! Sockets as the CPU twin of a task sees them. Device source has the same names in `everwarp/files/files.cuh`.

use everwarp_contract::files::{
    FILE_ACCEPT, FILE_ADDRESS, FILE_CANCEL, FILE_CONNECT, FILE_DATAGRAMS, FILE_LISTEN, FILE_OPTION,
    FILE_PEER, FILE_RECEIVE, FILE_RECEIVE_FROM, FILE_SEND, FILE_SEND_TO, FILE_SET_OPTION,
    FILE_SHUT,
};
use everwarp_contract::{DevFileRequest, DevNetAddress, DevPtr, DevType};

use crate::task::{FileTask, Then};

/// Sockets are opened as the rules that the host has given with [`Files::allow`](crate::Files::allow) say, or given by it.
/// What comes in and what goes out are two lines: the requests of each are done in the order in which they were made.
/// [`close`](Self::close) does not wait for them: those that wait end with `CANCELED`.
impl FileTask<'_> {
    fn open_socket(&mut self, op: u32, address: DevNetAddress, nanos: u64, then: Then) -> bool {
        let request = DevFileRequest {
            op,
            address: nanos,
            offset: address.port_and_scope(),
            to: address.high,
            room: address.low,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Listens for connections. The result is the listener's handle.
    pub fn listen(&mut self, address: DevNetAddress, then: Then) -> bool {
        self.open_socket(FILE_LISTEN, address, 0, then)
    }
    /// Connects to a listener. The result is the connection's handle, once it is there.
    pub fn connect(&mut self, address: DevNetAddress, then: Then) -> bool {
        self.open_socket(FILE_CONNECT, address, 0, then)
    }
    /// As [`connect`](Self::connect); if the connection is not there after this many nanoseconds, it ends with `TIMEDOUT`. A limit of 0
    /// is none.
    pub fn connect_within(&mut self, address: DevNetAddress, nanos: u64, then: Then) -> bool {
        self.open_socket(FILE_CONNECT, address, nanos, then)
    }
    /// Opens a socket for datagrams at an address of this machine. With the unspecified address of a family and port 0 it gets
    /// an address when it sends, and no rule for it is needed. The result is the handle.
    pub fn datagrams(&mut self, address: DevNetAddress, then: Then) -> bool {
        self.open_socket(FILE_DATAGRAMS, address, 0, then)
    }
    /// Takes the next connection that comes to a listener. The result is its handle, and the peer's address goes to `peer`,
    /// which may be null. If no handle is free, the connection stays in the listener's queue.
    pub fn accept(&mut self, handle: u32, peer: DevPtr<DevNetAddress>, then: Then) -> bool {
        self.accept_within(handle, peer, 0, then)
    }
    /// As [`accept`](Self::accept); if no connection has come after this many nanoseconds, it ends with `TIMEDOUT`. A limit of 0 is none.
    pub fn accept_within(
        &mut self,
        handle: u32,
        peer: DevPtr<DevNetAddress>,
        nanos: u64,
        then: Then,
    ) -> bool {
        let request = DevFileRequest {
            op: FILE_ACCEPT,
            handle,
            offset: nanos,
            address: peer.address(),
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    fn move_some(
        &mut self,
        op: u32,
        handle: u32,
        bytes: DevPtr<u8>,
        len: u32,
        nanos: u64,
        then: Then,
    ) -> bool {
        let request = DevFileRequest {
            op,
            handle,
            offset: nanos,
            address: bytes.address(),
            len,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Receives bytes of a connection, as soon as there are any. The result is how many, 256 KiB at most; 0: the peer sends no
    /// more.
    pub fn receive(&mut self, handle: u32, to: DevPtr<u8>, len: u32, then: Then) -> bool {
        self.receive_within(handle, to, len, 0, then)
    }
    /// As [`receive`](Self::receive); if no byte has come after this many nanoseconds, it ends with `TIMEDOUT`. A limit of 0 is none.
    pub fn receive_within(
        &mut self,
        handle: u32,
        to: DevPtr<u8>,
        len: u32,
        nanos: u64,
        then: Then,
    ) -> bool {
        self.move_some(FILE_RECEIVE, handle, to, len, nanos, then)
    }
    /// Sends bytes over a connection. The result is how many: all of them, or fewer if an error or the close came after them.
    pub fn send(&mut self, handle: u32, from: DevPtr<u8>, len: u32, then: Then) -> bool {
        self.send_within(handle, from, len, 0, then)
    }
    /// As [`send`](Self::send); if the peer has made no room for all bytes after this many nanoseconds, the result is how many were
    /// sent, or `TIMEDOUT` if none was. A limit of 0 is none.
    pub fn send_within(
        &mut self,
        handle: u32,
        from: DevPtr<u8>,
        len: u32,
        nanos: u64,
        then: Then,
    ) -> bool {
        self.move_some(FILE_SEND, handle, from, len, nanos, then)
    }
    /// Ends the requests of a socket or a timer that wait and have this note: they end with `CANCELED`, or with the bytes that
    /// were sent. A request that is done meanwhile ends as ever. The socket and the timer stay open.
    pub fn cancel(&mut self, handle: u32, note: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_CANCEL,
            handle,
            offset: note.into(),
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Changes a setting of a socket, such as [`SOCKET_NO_DELAY`](crate::SOCKET_NO_DELAY), after the requests before it that send.
    pub fn set_option(&mut self, handle: u32, option: u32, value: u64, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_SET_OPTION,
            handle,
            offset: option.into(),
            address: value,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Reads a setting of a socket. The result is its value.
    pub fn option(&mut self, handle: u32, option: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_OPTION,
            handle,
            offset: option.into(),
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Writes the address of a connection's peer into a shared buffer.
    pub fn peer(&mut self, handle: u32, to: DevPtr<DevNetAddress>, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_PEER,
            handle,
            address: to.address(),
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Receives a datagram, and its sender's address into `sender`, which may be null. The result is how many bytes it has; what
    /// does not fit `len` is lost.
    pub fn receive_from(
        &mut self,
        handle: u32,
        to: DevPtr<u8>,
        len: u32,
        sender: DevPtr<DevNetAddress>,
        then: Then,
    ) -> bool {
        let request = DevFileRequest {
            op: FILE_RECEIVE_FROM,
            handle,
            address: to.address(),
            len,
            to: sender.address(),
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Sends a datagram of up to 8192 bytes, where a rule allows it, or to a peer that this socket, which is bound, has heard.
    pub fn send_to(
        &mut self,
        handle: u32,
        from: DevPtr<u8>,
        len: u32,
        address: DevNetAddress,
        then: Then,
    ) -> bool {
        let request = DevFileRequest {
            op: FILE_SEND_TO,
            handle,
            offset: address.port_and_scope(),
            address: from.address(),
            len,
            to: address.high,
            room: address.low,
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Ends directions of a connection ([`SHUT_RECEIVING`](crate::SHUT_RECEIVING), [`SHUT_SENDING`](crate::SHUT_SENDING), or
    /// both), once earlier bytes are sent. The peer of a connection that sends no more sees its end, and may still send.
    pub fn shut(&mut self, handle: u32, directions: u32, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_SHUT,
            handle,
            offset: directions.into(),
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
    /// Writes the socket's own address into a shared buffer, such as the port that the system has chosen for port 0.
    pub fn address(&mut self, handle: u32, to: DevPtr<DevNetAddress>, then: Then) -> bool {
        let request = DevFileRequest {
            op: FILE_ADDRESS,
            handle,
            address: to.address(),
            ..DevFileRequest::ZERO
        };
        self.post(request, then)
    }
}
