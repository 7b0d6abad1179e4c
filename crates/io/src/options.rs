//! Settings of sockets that processes may read and change.

use std::io;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::socket::Socket;

/// The largest buffer that a process may ask for.
const BUFFER_MOST: u64 = 1 << 20;

/// A setting. The numbers are those that processes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// Small writes are sent at once.
    NoDelay = 1,
    /// An address may be bound while connections of an earlier listener are still there.
    ReuseAddress = 2,
    /// The system finds out whether a silent peer is still there.
    KeepAlive = 3,
    /// Datagrams may be sent to all machines of a network.
    Broadcast = 4,
    /// The size of the system's buffer of received bytes.
    ReceiveBuffer = 5,
    /// The size of the system's buffer of bytes to send.
    SendBuffer = 6,
    /// How many routers may pass a packet on.
    TimeToLive = 7,
    /// An IPv6 socket takes no IPv4 addresses.
    OnlyV6 = 8,
    /// The error number of what has failed meanwhile, which is then forgotten. It can only be read; the value is the
    /// system's.
    Error = 9,
    /// 1 for a stream, 2 for datagrams. It can only be read.
    Kind = 10,
    /// Whether it accepts connections. It can only be read.
    Listening = 11,
}

impl SocketOption {
    /// All settings.
    pub const ALL: [Self; 11] = [
        Self::NoDelay,
        Self::ReuseAddress,
        Self::KeepAlive,
        Self::Broadcast,
        Self::ReceiveBuffer,
        Self::SendBuffer,
        Self::TimeToLive,
        Self::OnlyV6,
        Self::Error,
        Self::Kind,
        Self::Listening,
    ];

    /// The setting with this number.
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|option| *option as u32 == number)
    }

    /// Reads the setting.
    ///
    /// # Errors
    /// The socket does not have it.
    pub fn get(self, socket: &Socket) -> io::Result<u64> {
        Ok(match self {
            Self::NoDelay => sockopt::tcp_nodelay(socket)?.into(),
            Self::ReuseAddress => sockopt::socket_reuseaddr(socket)?.into(),
            Self::KeepAlive => sockopt::socket_keepalive(socket)?.into(),
            Self::Broadcast => sockopt::socket_broadcast(socket)?.into(),
            Self::ReceiveBuffer => sockopt::socket_recv_buffer_size(socket)? as u64,
            Self::SendBuffer => sockopt::socket_send_buffer_size(socket)? as u64,
            Self::TimeToLive => match sockopt::socket_domain(socket)? {
                AddressFamily::INET6 => sockopt::ipv6_unicast_hops(socket)?.into(),
                _ => sockopt::ip_ttl(socket)?.into(),
            },
            Self::OnlyV6 => sockopt::ipv6_v6only(socket)?.into(),
            Self::Error => match sockopt::socket_error(socket)? {
                Ok(()) => 0,
                Err(error) => error.raw_os_error() as u64,
            },
            Self::Kind => match sockopt::socket_type(socket)? {
                SocketType::DGRAM => 2,
                _ => 1,
            },
            Self::Listening => sockopt::socket_acceptconn(socket)?.into(),
        })
    }

    /// Changes the setting.
    ///
    /// # Errors
    /// The socket does not have it, it can only be read, or the value is none of its values.
    pub fn set(self, socket: &Socket, value: u64) -> io::Result<()> {
        let switch = || match value {
            0 | 1 => Ok(value == 1),
            _ => Err(io::Error::from(Errno::INVAL)),
        };
        let bytes = value.min(BUFFER_MOST) as usize;
        match self {
            Self::NoDelay => sockopt::set_tcp_nodelay(socket, switch()?)?,
            Self::ReuseAddress => sockopt::set_socket_reuseaddr(socket, switch()?)?,
            Self::KeepAlive => sockopt::set_socket_keepalive(socket, switch()?)?,
            Self::Broadcast => sockopt::set_socket_broadcast(socket, switch()?)?,
            Self::ReceiveBuffer => sockopt::set_socket_recv_buffer_size(socket, bytes)?,
            Self::SendBuffer => sockopt::set_socket_send_buffer_size(socket, bytes)?,
            Self::TimeToLive => {
                let hops = u8::try_from(value).ok().filter(|hops| *hops > 0);
                let hops = hops.ok_or(Errno::INVAL)?;
                match sockopt::socket_domain(socket)? {
                    AddressFamily::INET6 => sockopt::set_ipv6_unicast_hops(socket, Some(hops))?,
                    _ => sockopt::set_ip_ttl(socket, hops.into())?,
                }
            }
            Self::OnlyV6 => sockopt::set_ipv6_v6only(socket, switch()?)?,
            Self::Error | Self::Kind | Self::Listening => return Err(Errno::NOPROTOOPT.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::endpoint::{Endpoint, Family, Transport};
    use crate::network::Network;

    fn open(family: Family, transport: Transport) -> Endpoint {
        let network = Arc::new(Network::new(vec!["1".parse().expect("a rule")], Vec::new()));
        Endpoint::open(&network, family, transport).expect("a socket")
    }

    #[test]
    fn each_setting_is_read_back_as_it_was_set() {
        for family in [Family::V4, Family::V6] {
            let stream = open(family, Transport::Stream);
            let socket = stream.socket();
            for (option, value) in [
                (SocketOption::NoDelay, 1),
                (SocketOption::ReuseAddress, 1),
                (SocketOption::KeepAlive, 1),
                (SocketOption::Broadcast, 1),
                (SocketOption::TimeToLive, 9),
            ] {
                option
                    .set(socket, value)
                    .unwrap_or_else(|error| panic!("{option:?}: {error}"));
                assert_eq!(option.get(socket).expect("known"), value, "{option:?}");
            }
            for option in [SocketOption::ReceiveBuffer, SocketOption::SendBuffer] {
                option.set(socket, 20_000).expect("a size");
                assert!(option.get(socket).expect("known") >= 20_000);
            }
            assert_eq!(SocketOption::Kind.get(socket).expect("known"), 1);
            assert_eq!(SocketOption::Error.get(socket).expect("known"), 0);
            assert_eq!(SocketOption::Listening.get(socket).expect("known"), 0);
            let v6 = SocketOption::OnlyV6.set(socket, 1).is_ok();
            assert_eq!(v6, family == Family::V6);
        }
        let datagrams = open(Family::V4, Transport::Datagram);
        assert_eq!(
            SocketOption::Kind.get(datagrams.socket()).expect("known"),
            2
        );
        assert!(SocketOption::NoDelay.set(datagrams.socket(), 1).is_err());
    }

    #[test]
    fn wrong_values_and_settings_to_be_read_only_are_refused() {
        let stream = open(Family::V4, Transport::Stream);
        let errno = |error: io::Error| error.raw_os_error().map(Errno::from_raw_os_error);
        for (option, value, expected) in [
            (SocketOption::NoDelay, 2, Errno::INVAL),
            (SocketOption::TimeToLive, 0, Errno::INVAL),
            (SocketOption::TimeToLive, 256, Errno::INVAL),
            (SocketOption::Kind, 1, Errno::NOPROTOOPT),
            (SocketOption::Error, 0, Errno::NOPROTOOPT),
        ] {
            let error = option.set(stream.socket(), value).expect_err("refused");
            assert_eq!(errno(error), Some(expected), "{option:?}");
        }
        for number in [0, 12, u32::MAX] {
            assert_eq!(SocketOption::of_number(number), None);
        }
        for option in SocketOption::ALL {
            assert_eq!(SocketOption::of_number(option as u32), Some(option));
        }
    }
}
