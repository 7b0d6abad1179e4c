//! Addresses, and the names of hosts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::vec;

use crate::raw::{self, RawAddress, check};

/// Addresses that are asked for when a name is looked up.
const FOUND_MOST: usize = 64;

impl RawAddress {
    pub(crate) fn of(address: &SocketAddr) -> Self {
        let mut octets = [0; 16];
        let (family, zone) = match address {
            SocketAddr::V4(v4) => {
                octets[..4].copy_from_slice(&v4.ip().octets());
                (4, 0)
            }
            SocketAddr::V6(v6) => {
                octets = v6.ip().octets();
                (6, v6.scope_id())
            }
        };
        let port = address.port();
        Self {
            family,
            port,
            octets,
            zone,
        }
    }

    pub(crate) fn read(&self) -> io::Result<SocketAddr> {
        let [a, b, c, d, ..] = self.octets;
        match self.family {
            4 => Ok(SocketAddr::new(IpAddr::from([a, b, c, d]), self.port)),
            6 => {
                let address = Ipv6Addr::from(self.octets);
                let address = SocketAddrV6::new(address, self.port, 0, self.zone);
                Ok(SocketAddr::V6(address))
            }
            _ => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }
}

/// Looks up a name.
fn look_up(name: &str, port: u16) -> io::Result<vec::IntoIter<SocketAddr>> {
    let mut found = [RawAddress::default(); FOUND_MOST];
    let mut count = 0;
    // SAFETY: the name and the list are slices of these lengths, and `count` is written.
    check(unsafe {
        raw::look_up(
            name.as_ptr(),
            name.len(),
            found.as_mut_ptr(),
            FOUND_MOST,
            &mut count,
        )
    })?;
    let with_port = |raw: &RawAddress| RawAddress { port, ..*raw }.read();
    let all: io::Result<Vec<SocketAddr>> = found[..count].iter().map(with_port).collect();
    Ok(all?.into_iter())
}

/// What can be turned into addresses, as by [`std::net::ToSocketAddrs`], whose look-up of names WASI does not have.
pub trait ToSocketAddrs {
    /// The addresses.
    type Iter: Iterator<Item = SocketAddr>;

    /// The addresses, which may be looked up.
    ///
    /// # Errors
    /// The text has another form, or the name is unknown or not granted.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

macro_rules! addresses {
    ($($ty:ty,)*) => {$(
        impl ToSocketAddrs for $ty {
            type Iter = vec::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                Ok(vec![SocketAddr::from(*self)].into_iter())
            }
        }
    )*};
}

addresses! {
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16),
}

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        look_up(self.0, self.1)
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        look_up(&self.0, self.1)
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        if let Ok(address) = self.parse::<SocketAddr>() {
            return Ok(vec![address].into_iter());
        }
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let (name, port) = self.rsplit_once(':').ok_or_else(|| wrong("no port"))?;
        look_up(name, port.parse().map_err(|_| wrong("no port number"))?)
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs()
    }
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = std::iter::Cloned<std::slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

/// The first success of the addresses, or the last error.
pub(crate) fn each<T>(
    addresses: impl ToSocketAddrs,
    mut attempt: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "no address");
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match attempt(&address) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(none))
}
