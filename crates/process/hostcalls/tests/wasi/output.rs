//! The output of processes.

use std::io::{self, Write};
use std::thread;

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{Config, LINE_LIMIT, Output};
use everwarp_process::OutputStream;

use crate::world::{Process, World};

fn lines(tag: bool) -> Config {
    Config {
        stdout: Output::Lines {
            tag,
            to_stderr: false,
        },
        stderr: Output::Lines {
            tag,
            to_stderr: true,
        },
        ..Config::default()
    }
}

#[test]
fn an_inherited_stream_gets_every_byte_at_once() {
    let (world, process) = World::with_process();
    assert_eq!(
        process.get(number::FD_WRITE, &[1], "no line feed").values[0],
        12
    );
    process.get(number::OUTPUT, &[2], "to the other");
    assert_eq!(
        (world.stdout.text(), world.stderr.text()),
        ("no line feed".into(), "to the other".into())
    );
}

/// Each process prints its lines in pieces that end anywhere, and exits. It does not wait for an answer before it sends
/// the next piece or the exit.
#[test]
fn lines_of_many_processes_do_not_mix() {
    let (world, _) = World::with_process();
    const PROCESSES: u32 = 40;
    let processes: Vec<Process> = (0..PROCESSES)
        .map(|index| {
            let name = index.to_string();
            world.open(
                100 + index,
                1,
                Config {
                    name,
                    ..lines(true)
                },
            )
        })
        .collect();
    let text = |index: u32| -> String {
        (0..30)
            .map(|line| {
                format!(
                    "{index}: {line} {}\n",
                    "#".repeat((index + line) as usize % 50)
                )
            })
            .collect()
    };
    thread::scope(|scope| {
        for group in processes.chunks(10) {
            let device = &world.device;
            scope.spawn(move || {
                let texts: Vec<_> = group
                    .iter()
                    .map(|process| text(process.slot - 100) + "end")
                    .collect();
                let mut pieces: Vec<_> = texts
                    .iter()
                    .map(|text| text.as_bytes().chunks(17))
                    .collect();
                let mut sent = Vec::new();
                loop {
                    let before = sent.len();
                    for (process, pieces) in group.iter().zip(&mut pieces) {
                        if let Some(piece) = pieces.next() {
                            sent.push(process.request(number::OUTPUT, &[1], piece));
                        }
                    }
                    if sent.len() == before {
                        break;
                    }
                }
                sent.extend(
                    group
                        .iter()
                        .map(|process| process.request(number::EXIT, &[0, 0], b"")),
                );
                // Four of the device's slots at a time, so that requests of one process are out together.
                let mut out = std::collections::VecDeque::new();
                for ask in &sent {
                    if out.len() == 4 {
                        let oldest = out.pop_front().expect("four are out");
                        assert_eq!(device.receive(oldest).errno, 0);
                    }
                    out.push_back(device.send(ask));
                }
                for sent in out {
                    assert_eq!(device.receive(sent).errno, 0);
                }
            });
        }
    });
    let printed = world.stdout.text();
    for index in 0..PROCESSES {
        let tag = format!("[{index}] ");
        let own: String = printed
            .lines()
            .filter_map(|line| line.strip_prefix(&tag))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(own, text(index) + "end\n");
    }
    assert_eq!(printed.lines().count(), PROCESSES as usize * 31);
    assert_eq!(
        world.told.exits(PROCESSES as usize).len(),
        PROCESSES as usize
    );
}

#[test]
fn a_line_without_a_line_feed_is_written_in_parts() {
    let (world, _) = World::with_process();
    let process = world.open(2, 3, lines(true));
    let piece = "x".repeat(8192);
    for _ in 0..LINE_LIMIT / 8192 - 1 {
        process.get(number::FD_WRITE, &[2], &piece);
    }
    assert_eq!(world.stderr.text(), "");
    process.get(number::FD_WRITE, &[2], &piece);
    assert_eq!(
        world.stderr.text(),
        format!("[2.3] {}\n", "x".repeat(LINE_LIMIT))
    );
    process.get(number::FD_WRITE, &[2], "last");
    process.get(number::EXIT, &[0, 0], "");
    assert!(world.stderr.text().ends_with("\n[2.3] last\n"));
    assert_eq!(world.stdout.text(), "");
}

#[test]
fn untagged_lines_are_whole_too() {
    let (world, _) = World::with_process();
    let process = world.open(2, 1, lines(false));
    for piece in ["a", "\n\nb", "", "\nc"] {
        process.get(number::FD_WRITE, &[1], piece);
    }
    assert_eq!(world.stdout.text(), "a\n\nb\n");
    process.get(number::EXIT, &[0, 0], "");
    assert_eq!(world.stdout.text(), "a\n\nb\nc\n");
}

/// A disk with room for some bytes. It fails as a full one does.
struct FullDisk(usize);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.0);
        self.0 -= fits;
        match fits {
            0 => Err(io::ErrorKind::StorageFull.into()),
            fits => Ok(fits),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes of many processes wait for each other, and one of them fails when its process has exited already. Before the
/// last exit is reported, the error has been recorded.
#[test]
fn output_that_a_full_disk_refuses_is_never_silent() {
    for last_words in [false, true] {
        const PROCESSES: u32 = 64;
        let world = World::with_stdout(64, 128, io::empty(), FullDisk(1 << 10));
        let open = |slot| world.open(slot, 1, lines(true));
        let processes: Vec<_> = (0..PROCESSES).map(open).collect();
        let line = [b'x'; 63];
        let mut sent = Vec::new();
        for process in &processes {
            if !last_words {
                sent.push(process.request(number::OUTPUT, &[1], &line));
            }
        }
        let last: &[u8] = if last_words { &line } else { b"" };
        for process in &processes {
            sent.push(process.request(number::EXIT, &[0, 0], last));
        }
        // As many requests as there are slots are out together, so that workers get many at a time.
        for asks in sent.chunks(PROCESSES as usize) {
            let out: Vec<_> = asks.iter().map(|ask| world.device.send(ask)).collect();
            for sent in out {
                let errno = world.device.receive(sent).errno;
                assert!([0, e::ERRNO_NOSPC].contains(&errno), "errno {errno}");
            }
        }
        world.told.exits(PROCESSES as usize);
        let error = world.service.output_errors().first();
        let error = error.expect("4 KiB do not fit 1 KiB");
        assert_eq!(error.stream, OutputStream::Stdout);
        assert_eq!(error.kind, io::ErrorKind::StorageFull);
    }
}

#[test]
fn a_full_device_fails_the_write_itself() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let world = World::with_stdout(4, 8, io::empty(), full.expect("Linux has it"));
    let direct = world.open(0, 1, Config::default());
    direct.fails(e::ERRNO_NOSPC, number::FD_WRITE, &[1], "x");
    let of_lines = world.open(1, 1, lines(false));
    of_lines.get(number::FD_WRITE, &[1], "no line feed yet");
    of_lines.fails(e::ERRNO_NOSPC, number::OUTPUT, &[1], "\n");
    assert!(world.service.output_errors().first().is_some());
}

/// As `| head -1`: every process that goes on writing gets `EPIPE`, in lines or not, and the host learns of it.
#[test]
fn every_writer_gets_epipe_when_the_reader_has_gone() {
    let (reader, writer) = io::pipe().expect("a pipe");
    let world = World::with_stdout(8, 16, io::empty(), writer);
    let (first, second) = (world.open(0, 1, lines(true)), world.open(1, 1, lines(true)));
    let direct = world.open(2, 1, Config::default());
    first.get(number::OUTPUT, &[1], "one line\n");
    assert_eq!(world.service.output_errors().first(), None);
    drop(reader);
    for _ in 0..3 {
        first.fails(e::ERRNO_PIPE, number::OUTPUT, &[1], "lost\n");
        second.fails(e::ERRNO_PIPE, number::FD_WRITE, &[1], "lost\n");
        direct.fails(e::ERRNO_PIPE, number::FD_WRITE, &[1], "lost");
    }
    let error = world.service.output_errors().first();
    assert_eq!(error.map(|e| e.kind), Some(io::ErrorKind::BrokenPipe));
    // Standard error is another stream.
    first.get(number::FD_WRITE, &[2], "still read\n");
    assert_eq!(world.stderr.text(), "[0.1] still read\n");
}
