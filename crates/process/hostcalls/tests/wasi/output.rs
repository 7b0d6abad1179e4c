//! What processes print.

use std::thread;

use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{Config, LINE_LIMIT, Output};

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

/// Each process prints its lines in pieces that end anywhere, without waiting for an answer before it sends the
/// next piece, and its exit behind them.
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
fn a_line_without_an_end_is_passed_on_in_pieces() {
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
