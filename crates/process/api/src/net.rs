//! The import module `everwarp:net`: functions for the network beyond WASI preview 1.
//!
//! `guests/NET.md` says what each function does. A function returns an error number of WASI; without the grant that it
//! needs, that is `ENOTCAPABLE`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use everwarp_io::{Connection, Family, Transport};

/// The module that these functions are imported from.
pub const MODULE: &str = "everwarp:net";

/// The functions with their parameters: a letter stands for a type, `i` for 32 bits, `l` for 64. Each returns an error number.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("address", "iii"),
    ("bind", "ii"),
    ("connect", "ii"),
    ("launch", "iiiii"),
    ("listen", "ii"),
    ("look_up", "iiiii"),
    ("option", "iii"),
    ("receive_from", "iiiiii"),
    ("send_to", "iiiii"),
    ("set_option", "iil"),
    ("socket", "iii"),
];

/// Bytes of an address in a process's memory, which it aligns to four.
pub const ADDRESS_BYTES: usize = 24;

/// The socket that a process asks for by two numbers; `None` if there is none.
pub fn socket_of(family: u32, kind: u32) -> Option<(Family, Transport)> {
    let family = match family {
        4 => Family::V4,
        6 => Family::V6,
        _ => return None,
    };
    let transport = match kind {
        1 => Transport::Stream,
        2 => Transport::Datagram,
        _ => return None,
    };
    Some((family, transport))
}

/// An address as a process has it in memory: the family (4 or 6) and the port with 16 bits each, 16 bytes of address, and
/// the number of an IPv6 zone with 32 bits.
pub fn write_address(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[2..4].copy_from_slice(&address.port().to_le_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[0] = 4;
            bytes[4..8].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            bytes[0] = 6;
            bytes[4..20].copy_from_slice(&v6.ip().octets());
            bytes[20..].copy_from_slice(&v6.scope_id().to_le_bytes());
        }
    }
    bytes
}

/// The address in a process's memory; `None` if it is of no family that there is.
pub fn read_address(bytes: &[u8; ADDRESS_BYTES]) -> Option<SocketAddr> {
    let port = u16::from_le_bytes([bytes[2], bytes[3]]);
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[4..20]);
    match u16::from_le_bytes([bytes[0], bytes[1]]) {
        4 => {
            let [a, b, c, d, ..] = octets;
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port))
        }
        6 => {
            let zone = u32::from_le_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]);
            let address = SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, zone);
            Some(SocketAddr::V6(address))
        }
        _ => None,
    }
}

/// The same address as three words of a host call.
pub fn address_words(address: SocketAddr) -> [u64; 3] {
    let bytes = write_address(address);
    let (words, _) = bytes.as_chunks::<8>();
    [0, 1, 2].map(|at| u64::from_le_bytes(words[at]))
}

/// The address of three words of a host call; `None` if it is of no family that there is.
pub fn address_of_words(words: [u64; 3]) -> Option<SocketAddr> {
    let mut bytes = [0; ADDRESS_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    read_address(&bytes)
}

/// The parameters of the function with this name.
pub fn find(name: &str) -> Option<&'static (&'static str, &'static str)> {
    FUNCTIONS.iter().find(|(found, _)| *found == name)
}

/// Starts programs for processes that ask for them by name.
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Starts the program with these variables, and returns a connection to its standard input and output. It does not wait
    /// for the start.
    ///
    /// # Errors
    /// [`LaunchError`].
    fn launch(
        &self,
        name: &str,
        variables: Vec<(String, String)>,
    ) -> Result<Connection, LaunchError>;
}

/// A program that was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No program has this name.
    #[error("no program has this name")]
    Unknown,
    /// The system gives no connection, or the host has ended.
    #[error("the program cannot be started: {0}")]
    System(#[from] io::Error),
}

/// The name and the variables of a launch: text, then for each variable `NAME=VALUE` and a zero byte.
///
/// Returns `None` if they have another form.
pub fn read_launch(name: &[u8], variables: &[u8]) -> Option<(String, Vec<(String, String)>)> {
    let name = std::str::from_utf8(name).ok()?;
    let text = std::str::from_utf8(variables).ok()?;
    let mut list = Vec::new();
    for variable in text.split_terminator('\0') {
        let (name, value) = variable
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())?;
        list.push((name.to_owned(), value.to_owned()));
    }
    (text.is_empty() || text.ends_with('\0')).then(|| (name.to_owned(), list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_memory_and_host_calls() {
        for text in [
            "192.0.2.1:80",
            "0.0.0.0:0",
            "[2001:db8::7]:65535",
            "[fe80::1%3]:9",
        ] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(read_address(&write_address(address)), Some(address));
            assert_eq!(address_of_words(address_words(address)), Some(address));
        }
        let address = "1.2.3.4:256".parse().expect("an address");
        assert_eq!(write_address(address)[..8], [4, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(address_words(address), [0x0403_0201_0100_0004, 0, 0]);
        assert_eq!(read_address(&[0; ADDRESS_BYTES]), None);
        assert_eq!(socket_of(4, 2), Some((Family::V4, Transport::Datagram)));
        assert_eq!((socket_of(5, 1), socket_of(6, 3)), (None, None));
    }

    #[test]
    fn functions_are_in_order() {
        assert!(FUNCTIONS.is_sorted());
    }

    #[test]
    fn a_launch_is_read_or_refused_as_a_whole() {
        let read = read_launch(b"program", b"A=1\0B==\0").expect("it is right");
        let variables = [("A", "1"), ("B", "=")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(read, ("program".to_owned(), variables.to_vec()));
        assert_eq!(read_launch(b"", b""), Some((String::new(), Vec::new())));
        for wrong in [&b"A=1"[..], b"A\0", b"=1\0", b"\0", b"A=\xff\0"] {
            assert_eq!(read_launch(b"program", wrong), None, "{wrong:?}");
        }
    }
}
