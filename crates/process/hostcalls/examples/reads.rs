//! How fast a server reads and writes files, by plain calls and by an io_uring: `reads [FOLDER [MILLISECONDS]]`.
//!
//! A mock device keeps one read of 4 KiB on its way for each process. *Hot* reads are of a small file that is in the page
//! cache; *cold* reads are of a file of 256 MiB that the system has been asked to drop from it, each page once and in no
//! order; *mixed* are seven hot reads to each cold one. *Writes* are of 4 KiB to a small file of each process. Every
//! answer is compared with what was written. The folder should be on a disk; without one, the system's temporary folder
//! is used. Each of five repetitions takes the given time, 500 milliseconds unless stated.

#[path = "../tests/wasi/device.rs"]
#[allow(dead_code, reason = "tests do more with it")]
mod device;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::{Ask, Device};
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{
    Config, HostInput, HostOutput, Reads, ServedDirectory, Server, ServerConfig, Service, Streams,
};
use everwarp_process::{Directory, Pid};
use rustix::fs::{Advice, fadvise};

const PAGE: u64 = 4096;
const HOT: u64 = 256;
const COLD: u64 = 65_536;
/// Numbers of processes. Each process has one read on its way.
const PROCESSES: [u32; 3] = [1, 64, 400];

/// A word of a page.
fn word(page: u64) -> u64 {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

fn write(path: &Path, pages: u64) -> io::Result<File> {
    use io::Write;
    let mut file = io::BufWriter::with_capacity(1 << 20, File::create(path)?);
    for page in 0..pages {
        for _ in 0..PAGE / 8 {
            file.write_all(&word(page).to_le_bytes())?;
        }
    }
    let file = file.into_inner()?;
    file.sync_all()?;
    drop(file);
    File::open(path)
}

/// An operation on a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Do {
    ReadHot,
    ReadCold,
    Write,
}

/// The next operation, and its page.
type Next<'a> = &'a mut dyn FnMut() -> Option<(Do, u64)>;

/// Lets `processes` read until there is no next operation or the time is up. Returns operations a second.
fn measure(world: &World, processes: u32, time: Duration, next: Next<'_>) -> f64 {
    let begin = Instant::now();
    let mut out = Vec::new();
    let mut done = 0_u64;
    let written = [7; PAGE as usize];
    let mut send = |process: u32| {
        if begin.elapsed() >= time {
            return None;
        }
        let (what, page) = next()?;
        let at = page * PAGE;
        let (call, args) = match what {
            Do::ReadHot => (number::FD_PREAD, [4, PAGE, at, 0, 0, 0]),
            Do::ReadCold => (number::FD_PREAD, [5, PAGE, at, 0, 0, 0]),
            Do::Write => (number::FD_PWRITE, [6, at % (16 * PAGE), 0, 0, 0, 0]),
        };
        let payload = if what == Do::Write { &written[..] } else { &[] };
        let sent = world.device.send(&Ask {
            process,
            generation: 1,
            call,
            data_bytes: payload.len() as u32,
            args,
            payload,
        });
        Some((process, what, page, sent))
    };
    for process in 0..processes {
        out.extend(send(process));
    }
    while !out.is_empty() {
        let mut at = 0;
        while at < out.len() {
            if !world.device.is_answered(&out[at].3) {
                at += 1;
                continue;
            }
            let (process, what, page, sent) = out.swap_remove(at);
            let reply = world.device.receive(sent);
            assert_eq!((reply.errno, reply.values[0]), (0, PAGE));
            if what != Do::Write {
                assert_eq!(reply.data.len() as u64, PAGE);
                assert_eq!(reply.data[..8], word(page).to_le_bytes());
            }
            done += 1;
            out.extend(send(process));
        }
    }
    done as f64 / begin.elapsed().as_secs_f64()
}

/// Fields are dropped in order: the server before the memory that it reads.
struct World {
    server: Server,
    device: Device,
}

fn world(folder: &Path, reads: Reads, workers: usize) -> io::Result<World> {
    let streams = Streams::new(
        HostInput::new(io::empty(), false),
        HostOutput::new(io::sink(), true),
        HostOutput::new(io::sink(), false),
    );
    let service = Arc::new(Service::new(512, streams, Arc::new(()))?);
    let device = Device::new(512, 1024);
    let config = ServerConfig {
        reads,
        workers,
        ..ServerConfig::default()
    };
    let server = Server::start(device.ring(), &service, config)?;
    let given = Arc::new(Config {
        directories: vec![ServedDirectory::of(&Directory::open(folder, "/data")?)?],
        ..Config::default()
    });
    for process in 0..PROCESSES[PROCESSES.len() - 1] {
        let opened = service.open(Pid::new(process, 1), Arc::clone(&given));
        opened.map_err(io::Error::other)?;
        let own = format!("written-{process}");
        for (name, flags, rights) in [("hot", 0, 2), ("cold", 0, 2), (own.as_str(), 1, 2 | 1 << 6)]
        {
            let reply = device.ask(&Ask {
                process,
                generation: 1,
                call: number::PATH_OPEN,
                data_bytes: name.len() as u32,
                args: [3, 0, flags, 0, rights, 0],
                payload: name.as_bytes(),
            });
            assert_eq!(reply.errno, 0, "{name} can be opened");
        }
    }
    Ok(World { server, device })
}

fn main() -> io::Result<()> {
    let here = std::env::args().nth(1);
    let time = std::env::args().nth(2).map_or(Ok(500), |time| time.parse());
    let time = Duration::from_millis(time.map_err(io::Error::other)?);
    let folder = match here {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let hot = write(&folder.path().join("hot"), HOT)?;
    let cold = write(&folder.path().join("cold"), COLD)?;
    println!("thousands of 4 KiB a second, median of 5 (least, most)");
    for processes in PROCESSES {
        for kind in ["hot", "mixed", "cold", "write"] {
            for reads in [Reads::Plain, Reads::default()] {
                let world = world(folder.path(), reads, 4)?;
                let mut rates = Vec::new();
                for _ in 0..5 {
                    fadvise(&cold, 0, None, Advice::DontNeed)?;
                    fadvise(&hot, 0, None, Advice::WillNeed)?;
                    // Odd steps through a power of two come to each page once.
                    let mut page = 0_u64;
                    let mut count = 0_u64;
                    let mut next = || {
                        count += 1;
                        if kind == "write" {
                            return Some((Do::Write, count % HOT));
                        }
                        if kind == "hot" || kind == "mixed" && !count.is_multiple_of(8) {
                            return Some((Do::ReadHot, count * 77 % HOT));
                        }
                        page += 1;
                        (page <= COLD).then_some((Do::ReadCold, page * 40_503 % COLD))
                    };
                    rates.push(measure(&world, processes, time, &mut next) / 1000.0);
                }
                rates.sort_by(f64::total_cmp);
                println!(
                    "{processes:4} processes, {kind:5}: {:>12} {:9.1} ({:.1}, {:.1})",
                    format!("{:?}", world.server.reads()),
                    rates[2],
                    rates[0],
                    rates[4]
                );
            }
        }
    }
    Ok(())
}
