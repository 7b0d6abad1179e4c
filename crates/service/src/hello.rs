//! The first message of each side, whose layout never changes, whatever the version of the protocol.
//!
//! The client sends 64 bytes: the word `everwarp`; then, as little-endian numbers of 4 bytes, the lowest and the highest
//! version that it speaks, its purpose (0: processes, 1: operator), and the engine that it wants (0: CPU, 1: CUDA, 2: a
//! GPU if there is one); then zeros.
//!
//! The service sends 64 bytes: the word `everwarp`; the chosen version or 0; a code (0: go on); its process id; the
//! engine (0: CPU, 1: CUDA); the length of the text that follows; then 32 bytes with the name of its version, filled with
//! zeros. A refusal's text says why and what to do.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use everwarp_engine::EngineKind;
use everwarp_telemetry::control::own_user;

use crate::convert::kind_of;

/// The versions of the protocol that this program speaks.
pub(crate) const LOWEST: u32 = 3;
pub(crate) const HIGHEST: u32 = 3;

const LENGTH: usize = 64;
const WORD: &[u8; 8] = b"everwarp";
/// The longest text of a refusal.
const TEXT_MOST: usize = 4096;

/// What a client connects for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To run processes.
    Processes,
    /// To see and stop what others run, and the service itself.
    Operator,
}

/// The engine that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The host's cores.
    Cpu,
    /// A GPU.
    Cuda,
    /// A GPU if there is one, and otherwise the host's cores.
    Any,
}

/// The first message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    pub(crate) lowest: u32,
    pub(crate) highest: u32,
    pub(crate) purpose: Purpose,
    pub(crate) wanted: Wanted,
}

/// Why a service does not serve a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no common version.
    Version = 1,
    /// The engine does not exist, or does not start.
    Engine = 2,
    /// There are too many clients.
    Full = 3,
    /// The service ends.
    Stopping = 4,
    /// The message is not understood.
    Garbled = 5,
}

impl Refusal {
    fn of(code: u32) -> Self {
        match code {
            1 => Self::Version,
            2 => Self::Engine,
            3 => Self::Full,
            4 => Self::Stopping,
            _ => Self::Garbled,
        }
    }
}

/// The first message of a service that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) os_pid: u32,
    pub(crate) kind: EngineKind,
}

fn number(bytes: &[u8; LENGTH], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(bytes)
}

fn message(numbers: &[u32]) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(WORD);
    for (at, number) in (8..).step_by(4).zip(numbers) {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

impl ClientHello {
    pub(crate) fn new(purpose: Purpose, wanted: Wanted) -> Self {
        Self {
            lowest: LOWEST,
            highest: HIGHEST,
            purpose,
            wanted,
        }
    }

    fn bytes(&self) -> [u8; LENGTH] {
        let purpose = match self.purpose {
            Purpose::Processes => 0,
            Purpose::Operator => 1,
        };
        let wanted = match self.wanted {
            Wanted::Cpu => 0,
            Wanted::Cuda => 1,
            Wanted::Any => 2,
        };
        message(&[self.lowest, self.highest, purpose, wanted])
    }

    fn read(bytes: &[u8; LENGTH]) -> Option<Self> {
        if bytes[..8] != *WORD {
            return None;
        }
        let purpose = match number(bytes, 16) {
            0 => Purpose::Processes,
            1 => Purpose::Operator,
            _ => return None,
        };
        let wanted = match number(bytes, 20) {
            0 => Wanted::Cpu,
            1 => Wanted::Cuda,
            2 => Wanted::Any,
            _ => return None,
        };
        Some(Self {
            lowest: number(bytes, 8),
            highest: number(bytes, 12),
            purpose,
            wanted,
        })
    }

    /// The highest version that both sides speak.
    pub(crate) fn version(&self) -> Option<u32> {
        let version = self.highest.min(HIGHEST);
        Some(version).filter(|version| *version >= self.lowest.max(LOWEST))
    }

    /// Reads the first message of a client within `time`; `None` if it is not one.
    ///
    /// # Errors
    /// The client has gone, or is too slow.
    pub(crate) fn receive(stream: &mut UnixStream, time: Duration) -> io::Result<Option<Self>> {
        stream.set_read_timeout(Some(time))?;
        let mut bytes = [0; LENGTH];
        stream.read_exact(&mut bytes)?;
        stream.set_read_timeout(None)?;
        Ok(Self::read(&bytes))
    }
}

fn reply(version: u32, code: u32, kind: EngineKind, text: &str) -> Vec<u8> {
    let cuda = u32::from(kind == EngineKind::Cuda);
    let os_pid = std::process::id();
    let mut bytes = message(&[version, code, os_pid, cuda, text.len() as u32]);
    let name = env!("CARGO_PKG_VERSION").as_bytes();
    let name = &name[..name.len().min(LENGTH - 32)];
    bytes[32..32 + name.len()].copy_from_slice(name);
    [&bytes, text.as_bytes()].concat()
}

/// Tells a client to go on.
pub(crate) fn welcome(stream: &mut impl Write, version: u32, kind: EngineKind) -> io::Result<()> {
    stream.write_all(&reply(version, 0, kind, ""))
}

/// Tells a client that it is not served.
pub(crate) fn refuse(stream: &mut impl Write, why: Refusal, text: &str) -> io::Result<()> {
    let most = text.floor_char_boundary(TEXT_MOST);
    stream.write_all(&reply(0, why as u32, EngineKind::Cpu, &text[..most]))
}

/// Why a client is not served.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The peer of the socket is another user.
    #[error("the socket belongs to user {user}, so it is not used")]
    OtherUser {
        /// The user.
        user: u32,
    },
    /// The service has closed the connection: it ends.
    #[error("the service ends")]
    Ended,
    /// The service has refused.
    #[error("{text}")]
    Refused {
        /// Whether another service may accept.
        stopping: bool,
        /// The reason, and what to do.
        text: String,
    },
    /// The service has no such engine.
    #[error("{text}")]
    NoEngine {
        /// The reason.
        text: String,
    },
    /// What came is not the message of a service.
    #[error("what listens on the socket is no everwarp service")]
    Garbled,
    /// The system's error.
    #[error("{0}")]
    System(io::Error),
}

/// The client's side of the greeting.
pub(crate) fn greet(
    stream: &mut UnixStream,
    hello: &ClientHello,
) -> Result<Welcome, GreetingError> {
    check_peer(stream)?;
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => GreetingError::Ended,
        _ => GreetingError::System(error),
    };
    stream.write_all(&hello.bytes()).map_err(lost)?;
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes).map_err(lost)?;
    if bytes[..8] != *WORD {
        return Err(GreetingError::Garbled);
    }
    let (version, code) = (number(&bytes, 8), number(&bytes, 12));
    if code == 0 && (hello.lowest..=hello.highest).contains(&version) {
        return Ok(Welcome {
            os_pid: number(&bytes, 16),
            kind: kind_of(number(&bytes, 20) == 1),
        });
    }
    let length = (number(&bytes, 24) as usize).min(TEXT_MOST);
    let mut text = vec![0; length];
    stream.read_exact(&mut text).map_err(lost)?;
    let text = String::from_utf8_lossy(&text).escape_debug().to_string();
    Err(match code {
        0 => GreetingError::Garbled,
        code if Refusal::of(code) == Refusal::Engine => GreetingError::NoEngine { text },
        code => GreetingError::Refused {
            stopping: Refusal::of(code) == Refusal::Stopping,
            text,
        },
    })
}

/// Checks that the peer is this user.
pub(crate) fn check_peer(stream: &UnixStream) -> Result<(), GreetingError> {
    let found = rustix::net::sockopt::socket_peercred(stream);
    let user = found
        .map_err(|e| GreetingError::System(e.into()))?
        .uid
        .as_raw();
    match user == own_user() {
        true => Ok(()),
        false => Err(GreetingError::OtherUser { user }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_of_the_first_messages_is_fixed() {
        let hello = ClientHello {
            lowest: 1,
            highest: 0x0403_0201,
            purpose: Purpose::Operator,
            wanted: Wanted::Any,
        };
        let mut expected = [0; LENGTH];
        expected[..24].copy_from_slice(b"everwarp\x01\0\0\0\x01\x02\x03\x04\x01\0\0\0\x02\0\0\0");
        assert_eq!(hello.bytes(), expected);
        assert_eq!(ClientHello::read(&expected), Some(hello));
        expected[20] = 3;
        assert_eq!(ClientHello::read(&expected), None);
        expected[0] = b'E';
        assert_eq!(ClientHello::read(&expected), None);
    }

    #[test]
    fn highest_common_version_is_chosen() {
        let version = |lowest, highest| {
            let hello = ClientHello::new(Purpose::Processes, Wanted::Cpu);
            ClientHello {
                lowest,
                highest,
                ..hello
            }
            .version()
        };
        assert_eq!(version(LOWEST, HIGHEST), Some(HIGHEST));
        assert_eq!(version(LOWEST, u32::MAX), Some(HIGHEST));
        assert_eq!(version(HIGHEST + 1, u32::MAX), None);
        assert_eq!(version(0, LOWEST - 1), None);
        assert_eq!(version(5, 4), None);
    }

    fn answered(reply: &[u8]) -> Result<Welcome, GreetingError> {
        let (mut client, mut service) = UnixStream::pair().expect("sockets can be made");
        service.write_all(reply).expect("it is read");
        // Enough is read of the hello for the client not to wait, and then the service is gone.
        drop(service.shutdown(std::net::Shutdown::Write));
        greet(
            &mut client,
            &ClientHello::new(Purpose::Processes, Wanted::Cpu),
        )
    }

    #[test]
    fn refusals_and_garbage_are_different_errors() {
        let mut bytes = Vec::new();
        welcome(&mut bytes, HIGHEST, EngineKind::Cuda).expect("it is memory");
        let welcome = answered(&bytes).expect("it was accepted");
        assert_eq!(
            (welcome.os_pid, welcome.kind),
            (std::process::id(), EngineKind::Cuda)
        );

        for (why, stopping) in [(Refusal::Version, false), (Refusal::Stopping, true)] {
            let mut bytes = Vec::new();
            refuse(&mut bytes, why, "not \u{1b}now").expect("it is memory");
            match answered(&bytes) {
                Err(GreetingError::Refused {
                    stopping: found,
                    text,
                }) => {
                    assert_eq!((found, &text[..]), (stopping, r"not \u{1b}now"));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(
            answered(&[7; LENGTH]),
            Err(GreetingError::Garbled)
        ));
        assert!(matches!(answered(&[7; 10]), Err(GreetingError::Ended)));
        // A version that was not offered.
        let mut bytes = Vec::new();
        super::welcome(&mut bytes, HIGHEST + 1, EngineKind::Cpu).expect("it is memory");
        assert!(matches!(answered(&bytes), Err(GreetingError::Garbled)));
    }
}
