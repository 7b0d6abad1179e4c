//! WASI preview 1's error numbers, which both the host and the device return.

crate::dev_consts! {
    /// Writes the error numbers as CUDA C++.
    pub fn write_consts;
    /// No error.
    pub const ERRNO_SUCCESS = 0;
    /// Permission denied.
    pub const ERRNO_ACCES = 2;
    /// The address is in use.
    pub const ERRNO_ADDRINUSE = 3;
    /// This machine does not have the address.
    pub const ERRNO_ADDRNOTAVAIL = 4;
    /// No such family of addresses.
    pub const ERRNO_AFNOSUPPORT = 5;
    /// Resource temporarily unavailable.
    pub const ERRNO_AGAIN = 6;
    /// The connection is being made already.
    pub const ERRNO_ALREADY = 7;
    /// Bad file descriptor.
    pub const ERRNO_BADF = 8;
    /// Device or resource busy.
    pub const ERRNO_BUSY = 10;
    /// Operation canceled.
    pub const ERRNO_CANCELED = 11;
    /// The peer has given a connection up.
    pub const ERRNO_CONNABORTED = 13;
    /// No program listens at the address.
    pub const ERRNO_CONNREFUSED = 14;
    /// The peer has reset the connection.
    pub const ERRNO_CONNRESET = 15;
    /// A datagram has no destination.
    pub const ERRNO_DESTADDRREQ = 17;
    /// Disk quota exceeded.
    pub const ERRNO_DQUOT = 19;
    /// File exists.
    pub const ERRNO_EXIST = 20;
    /// Bad address.
    pub const ERRNO_FAULT = 21;
    /// File too large.
    pub const ERRNO_FBIG = 22;
    /// No way leads to the host.
    pub const ERRNO_HOSTUNREACH = 23;
    /// Illegal byte sequence.
    pub const ERRNO_ILSEQ = 25;
    /// The connection is being made.
    pub const ERRNO_INPROGRESS = 26;
    /// Interrupted.
    pub const ERRNO_INTR = 27;
    /// Invalid argument.
    pub const ERRNO_INVAL = 28;
    /// Input or output error.
    pub const ERRNO_IO = 29;
    /// The socket is connected.
    pub const ERRNO_ISCONN = 30;
    /// Is a directory.
    pub const ERRNO_ISDIR = 31;
    /// Too many levels of symbolic links.
    pub const ERRNO_LOOP = 32;
    /// Too many open files of this process.
    pub const ERRNO_MFILE = 33;
    /// Too many links.
    pub const ERRNO_MLINK = 34;
    /// A datagram is too long.
    pub const ERRNO_MSGSIZE = 35;
    /// A name is too long.
    pub const ERRNO_NAMETOOLONG = 37;
    /// The network is down.
    pub const ERRNO_NETDOWN = 38;
    /// No way leads to the network.
    pub const ERRNO_NETUNREACH = 40;
    /// Too many open files of the system.
    pub const ERRNO_NFILE = 41;
    /// No such device.
    pub const ERRNO_NODEV = 43;
    /// No such file or directory.
    pub const ERRNO_NOENT = 44;
    /// Not enough memory.
    pub const ERRNO_NOMEM = 48;
    /// No memory for a network buffer.
    pub const ERRNO_NOBUFS = 42;
    /// The socket has no such option.
    pub const ERRNO_NOPROTOOPT = 50;
    /// No space left on the device.
    pub const ERRNO_NOSPC = 51;
    /// No such function.
    pub const ERRNO_NOSYS = 52;
    /// The socket is not connected.
    pub const ERRNO_NOTCONN = 53;
    /// Not a directory.
    pub const ERRNO_NOTDIR = 54;
    /// The directory is not empty.
    pub const ERRNO_NOTEMPTY = 55;
    /// Not a socket.
    pub const ERRNO_NOTSOCK = 57;
    /// Not supported.
    pub const ERRNO_NOTSUP = 58;
    /// Not a terminal.
    pub const ERRNO_NOTTY = 59;
    /// No such device or address.
    pub const ERRNO_NXIO = 60;
    /// A value does not fit its type.
    pub const ERRNO_OVERFLOW = 61;
    /// Operation not permitted.
    pub const ERRNO_PERM = 63;
    /// The reader of this pipe has closed it.
    pub const ERRNO_PIPE = 64;
    /// No such protocol.
    pub const ERRNO_PROTONOSUPPORT = 66;
    /// The protocol does not fit the socket.
    pub const ERRNO_PROTOTYPE = 67;
    /// Out of range.
    pub const ERRNO_RANGE = 68;
    /// The file system is read-only.
    pub const ERRNO_ROFS = 69;
    /// The descriptor cannot seek.
    pub const ERRNO_SPIPE = 70;
    /// No such process.
    pub const ERRNO_SRCH = 71;
    /// A file handle whose file has changed.
    pub const ERRNO_STALE = 72;
    /// The peer did not answer in time.
    pub const ERRNO_TIMEDOUT = 73;
    /// The file is being executed.
    pub const ERRNO_TXTBSY = 74;
    /// A link would lead to another device.
    pub const ERRNO_XDEV = 75;
    /// The descriptor does not have this right.
    pub const ERRNO_NOTCAPABLE = 76;
}
