//! What some of a plan's processes are given, for a rehearsal.

use std::cell::LazyCell;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use everwarp::process::{Bytes, Rehearsal, StartWriter};

use super::plan::Plan;

/// The most processes that are rehearsed.
const PROCESSES: u32 = 8;
/// The most bytes of the command's standard input that a rehearsal gets.
const INPUT: usize = 1 << 20;

/// What some of the processes are given, from the first to one of the last. None if each serves a connection: what peers send is
/// not known.
pub(super) fn rehearsals(plan: &Plan<'_>) -> Vec<Rehearsal> {
    if plan.per_connection() {
        return Vec::new();
    }
    let stdin = match plan.single() {
        true => own_input(),
        false => Some(Bytes::new()),
    };
    // Lines that a service has are read here as well.
    let lines = LazyCell::new(|| {
        let file = plan.stdin_lines().and_then(|path| File::open(path).ok())?;
        read_ahead(file, INPUT).ok()?
    });
    let given = some_of(plan.instances).map(|number| {
        let mut given = Rehearsal {
            stdin: stdin.clone(),
            directories: plan.directories().to_vec(),
            ..Rehearsal::default()
        };
        given.arg(&[plan.module.name()]);
        plan.write(number, &mut given, |_| {});
        if given.stdin.is_none() {
            given.stdin = lines.as_ref().and_then(|text| line_of(text, number));
        }
        given
    });
    given.collect()
}

/// The line with this number, from 0, of a text that is the beginning of a file. `None` if it has not the whole line.
fn line_of(text: &Bytes, number: u32) -> Option<Bytes> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let line = lines.nth(number as usize)?;
    let is_whole = line.ends_with(b"\n") || text.len() < INPUT;
    is_whole.then(|| text.slice_ref(line))
}

/// The numbers of some of these processes, as far apart as can be.
fn some_of(instances: u32) -> impl Iterator<Item = u32> {
    let count = instances.min(PROCESSES);
    (0..count).map(move |n| (u64::from(n) * u64::from(instances) / u64::from(count)) as u32)
}

/// The beginning of what the process will read from the command's standard input, which is not read by this; `None` if that is not a
/// file.
fn own_input() -> Option<Bytes> {
    read_ahead(io::stdin(), INPUT).ok()?
}

fn read_ahead(from: impl AsFd, most: usize) -> io::Result<Option<Bytes>> {
    let mut file = File::from(from.as_fd().try_clone_to_owned()?);
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let begin = file.stream_position()?;
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < most {
        match file.read_at(&mut bytes[length..], begin + length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    bytes.truncate(length);
    Ok(Some(bytes.into()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn some_processes_stand_for_all() {
        let numbers = |instances| some_of(instances).collect::<Vec<_>>();
        assert_eq!(numbers(1), [0]);
        assert_eq!(numbers(3), [0, 1, 2]);
        assert_eq!(numbers(u32::MAX)[7], 3_758_096_383);
        assert_eq!(numbers(1000), [0, 125, 250, 375, 500, 625, 750, 875]);
    }

    #[test]
    fn a_line_is_known_if_it_is_there_as_a_whole() {
        let text = Bytes::from_static(b"one\n\nlast");
        let line = |text: &Bytes, number| line_of(text, number).map(|line| line.to_vec());
        assert_eq!(line(&text, 0).as_deref(), Some(&b"one\n"[..]));
        assert_eq!(line(&text, 1).as_deref(), Some(&b"\n"[..]));
        assert_eq!(line(&text, 2).as_deref(), Some(&b"last"[..]));
        assert_eq!(line(&text, 3), None);
        let cut = Bytes::from([vec![b'\n'], vec![b'x'; INPUT - 1]].concat());
        assert_eq!(line(&cut, 0).as_deref(), Some(&b"\n"[..]));
        assert_eq!(line(&cut, 1), None);
    }

    #[test]
    fn a_file_is_read_ahead_from_where_it_is_and_stays_there() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"0123456789").expect("it is written");
        file.seek(io::SeekFrom::Start(3))
            .expect("it has that place");
        let ahead = read_ahead(&file, 4).expect("it can be read");
        assert_eq!(ahead.as_deref(), Some(&b"3456"[..]));
        let mut rest = String::new();
        file.read_to_string(&mut rest).expect("it can be read");
        assert_eq!(rest, "3456789");
    }

    #[test]
    fn a_pipe_is_not_read() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"text").expect("it has room");
        drop(writer);
        assert!(read_ahead(&reader, 4).expect("it is asked").is_none());
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("it can be read");
        assert_eq!(rest, "text");
    }
}
