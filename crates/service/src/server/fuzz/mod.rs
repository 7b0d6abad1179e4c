//! Clients that send anything: messages in any order with any numbers, broken messages, and broken frames. A session ends
//! when its client does, keeps no descriptor and no engine, and sends nothing that is no message.
//!
//! Each seed is one client. `EVERWARP_FUZZ_SEEDS=N` tries N of them instead of 400, and `EVERWARP_FUZZ_FIRST=S` begins with
//! seed S, which a failure names.

mod engine;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use everwarp_process::{HostConfig, LoadConfig, Pid};

use engine::FakeBackend;

use super::{ModuleCache, Quotas, Session, SessionSettings, install_interrupt};
use crate::protocol::{
    DirectoryGrant, FromEngine, HostSettings, InputGrant, LoadSettings, NetworkGrant, OutputGrant,
    SharedGrants, SystemError, ToEngine, body,
};
use crate::wire::codec::decoded;
use crate::wire::socket::{FrameReceiver, send_all};

/// A session that takes longer to end hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// A module that does nothing.
const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

/// A linear congruential generator modulo 2^64 with Knuth's factor; its high bits are good enough here.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }

    fn pid(&mut self) -> Pid {
        // The engine's pids, and others.
        let next = self.below(12);
        Pid::new(next % 8, next)
    }

    fn bytes(&mut self, most: u32) -> Bytes {
        let length = self.below(most);
        (0..length).map(|_| self.below(16) as u8).collect()
    }

    /// A number that is small, or at the end of its range.
    fn number(&mut self) -> u32 {
        match self.below(12) {
            0 => u32::MAX,
            1 => u32::MAX / 2,
            _ => self.below(6),
        }
    }

    fn output(&mut self) -> OutputGrant {
        match self.below(3) {
            0 => OutputGrant::Inherit,
            1 => OutputGrant::Lines {
                tag: self.below(2) == 0,
                to_stderr: false,
            },
            _ => OutputGrant::Capture {
                limit: self.below(5) as usize,
            },
        }
    }

    fn rule(&mut self) -> String {
        let rules = ["80", "127.0.0.1:*", "example.com:80", "no rule", ""];
        rules[self.below(rules.len() as u32) as usize].to_owned()
    }

    fn grants(&mut self) -> SharedGrants {
        let directories = (0..self.below(8) / 6).map(|_| DirectoryGrant {
            path: "/somewhere".to_owned(),
            guest: "data".to_owned(),
            read_only: false,
        });
        SharedGrants {
            directories: directories.collect(),
            listeners: self.below(8) / 7,
            network: (self.below(4) == 0).then(|| NetworkGrant {
                connect: (0..self.below(3)).map(|_| self.rule()).collect(),
                bind: (0..self.below(2)).map(|_| self.rule()).collect(),
                reports: self.below(2) == 0,
            }),
            events: self.below(8) / 7,
            stdin: match self.below(3) {
                0 => InputGrant::Empty,
                1 => InputGrant::Inherit,
                _ => InputGrant::Bytes {
                    count: self.below(9) as usize,
                },
            },
            stdout: self.output(),
            stderr: self.output(),
            fuel: None,
            handles: None,
            ends: (0..self.below(8) / 6).map(|_| self.below(3)).collect(),
        }
    }

    fn start(&mut self) -> ToEngine {
        ToEngine::Start {
            request: self.below(5),
            host: HostSettings::from(&HostConfig::default()),
            modules: (0..self.below(3)).map(|n| format!("module {n}")).collect(),
            program: "program".to_owned(),
        }
    }

    fn message(&mut self) -> ToEngine {
        let request = self.below(5);
        match self.below(22) {
            0 => self.start(),
            1 => ToEngine::Load {
                request,
                name: "module".to_owned(),
                settings: LoadSettings::from(&LoadConfig::default()),
            },
            2..=4 => {
                let count = self.number();
                ToEngine::Spawn {
                    request,
                    module: self.below(3),
                    count,
                    grants: self.grants(),
                    // Each record that says nothing is a byte.
                    data: match self.below(3) {
                        0 => self.number().into(),
                        _ => count.into(),
                    },
                }
            }
            5..=6 => ToEngine::SpawnData {
                request,
                bytes: match self.below(3) {
                    0 => self.bytes(12),
                    // The first record has its own arguments and variables; the others are the same.
                    _ => Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3]),
                },
            },
            7 => ToEngine::StopSpawn { request },
            8 => ToEngine::Wait { pid: self.pid() },
            9 => ToEngine::WaitEach {
                request,
                pids: (0..self.below(6)).map(|_| self.pid()).collect(),
            },
            10 => ToEngine::Kill {
                request,
                pid: self.pid(),
            },
            11 => ToEngine::KillAll { request },
            12 => ToEngine::List {
                request,
                limit: self.number(),
            },
            13 => ToEngine::Pause { request },
            14 => ToEngine::ReadLines { request },
            15 => ToEngine::MakeChannel {
                request,
                capacity: self.below(3),
                bytes: self.number(),
            },
            16 => ToEngine::SendMessage {
                request,
                end: self.below(4),
                message: self.bytes(40),
                timeout: Some(Duration::ZERO),
            },
            17 => ToEngine::ReceiveMessage {
                request,
                end: self.below(4),
                timeout: None,
            },
            18 => ToEngine::CloseEnd { end: self.below(4) },
            19 => ToEngine::Input {
                bytes: self.bytes(40),
            },
            20 => match self.below(3) {
                0 => ToEngine::InputEnd,
                1 => ToEngine::InputFailed {
                    error: SystemError {
                        code: Some(5),
                        text: "an error".to_owned(),
                    },
                },
                _ => ToEngine::HoldOutput {
                    request,
                    held: self.below(2) == 0,
                },
            },
            _ => ToEngine::Native {
                request,
                body: self.bytes(6),
            },
        }
    }
}

/// A descriptor of any kind.
fn descriptor(dice: &mut Dice) -> OwnedFd {
    match dice.below(4) {
        0 => File::open("/").expect("there is a root").into(),
        1 => File::open("/dev/null").expect("it is there").into(),
        kind => {
            let mut file = tempfile::tempfile().expect("a temporary file");
            let bytes = if kind == 2 { EMPTY } else { b"no module" };
            file.write_all(bytes).expect("it is writable");
            file.into()
        }
    }
}

/// How many descriptors a message that is right has.
fn wanted(message: &ToEngine) -> usize {
    match message {
        ToEngine::Start { modules, .. } => 3 + modules.len(),
        ToEngine::Load { .. } | ToEngine::ReadLines { .. } => 1,
        ToEngine::Spawn { grants, .. } => {
            grants.directories.len() + (grants.listeners + grants.events) as usize
        }
        _ => 0,
    }
}

/// Sends one frame; some of them are broken. An error means that the session has ended.
fn send(dice: &mut Dice, socket: &UnixStream, message: &ToEngine) -> std::io::Result<()> {
    let mut bytes = body(message);
    let mut count = wanted(message);
    match dice.below(25) {
        0 => bytes.truncate(dice.below(bytes.len() as u32 + 1) as usize),
        1 => bytes.extend_from_slice(&dice.bytes(9)),
        2 => {
            let at = dice.below(bytes.len() as u32) as usize;
            bytes[at] ^= 1 << dice.below(8);
        }
        3 => count = dice.below(6) as usize,
        _ => {}
    }
    let files: Vec<OwnedFd> = (0..count).map(|_| descriptor(dice)).collect();
    let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    let mut header = [0; 8];
    header[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    header[4] = count as u8;
    if dice.below(60) == 0 {
        header[dice.below(8) as usize] ^= 1 << dice.below(8);
    }
    let whole = [&header[..], &bytes].concat();
    // A frame may come in parts, and its end may never come.
    let part = match dice.below(12) {
        0 => dice.below(whole.len() as u32) as usize,
        _ => whole.len(),
    };
    if part > 0 {
        send_all(socket, &[&whole[..part]], &files)?;
    }
    match dice.below(3) {
        0 => Err(std::io::ErrorKind::Other.into()),
        _ if part == whole.len() => Ok(()),
        _ => send_all(socket, &[&whole[part..]], &[]),
    }
    .or_else(|error| match part == whole.len() {
        true => Ok(()),
        false => Err(error),
    })
}

/// One client from its connection to its end.
fn client(seed: u64, settings: &Arc<SessionSettings>) {
    let mut dice = Dice(seed);
    let (ours, theirs) = UnixStream::pair().expect("sockets can be made");
    let session = Session::new(theirs.into(), 1, settings);
    let (done, ended) = channel::<()>();
    let serving = std::thread::spawn(move || {
        // A client that breaks a rule is no error here.
        drop(session.serve());
        drop(session);
        drop(done);
    });
    let reading = ours.try_clone().expect("it can be duplicated");
    let reader = std::thread::spawn(move || {
        let mut receiver = FrameReceiver::new(Arc::new(reading.into()));
        while let Ok(Some(frame)) = receiver.receive() {
            let message = decoded::<FromEngine>(&frame.body);
            message.expect("the service sends messages");
        }
    });
    let first = match dice.below(8) {
        0 => dice.message(),
        _ => dice.start(),
    };
    let mut sent = send(&mut dice, &ours, &first);
    for _ in 0..dice.below(30) {
        if sent.is_err() {
            break;
        }
        let message = dice.message();
        sent = send(&mut dice, &ours, &message);
    }
    // Some clients leave at once, and some wait for what still comes.
    let how = match dice.below(2) {
        0 => std::net::Shutdown::Both,
        _ => std::net::Shutdown::Write,
    };
    drop(ours.shutdown(how));
    drop(ours);
    let hangs = ended.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
    assert!(!hangs, "the session of seed {seed} does not end");
    let ended = [serving.join(), reader.join()];
    assert!(ended.iter().all(Result::is_ok), "seed {seed} panics");
}

fn number(name: &str, usual: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| {
        text.parse().expect("the variable is a number")
    })
}

#[test]
fn clients_that_send_anything_end_and_leave_nothing() {
    install_interrupt();
    let backend = Arc::<FakeBackend>::default();
    let settings = Arc::new(SessionSettings {
        backend: backend.clone(),
        quotas: Quotas {
            processes: 1000,
            input_bytes: 1 << 20,
            ..Quotas::default()
        },
        modules: ModuleCache::default(),
    });
    let first = number("EVERWARP_FUZZ_FIRST", 0);
    for seed in first..first + number("EVERWARP_FUZZ_SEEDS", 400) {
        client(seed, &settings);
        assert_eq!(backend.engines(), 0, "seed {seed} leaves an engine");
    }
}
