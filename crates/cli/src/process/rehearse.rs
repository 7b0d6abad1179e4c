//! What some of a plan's processes are given, for a rehearsal.

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
    let given = some_of(plan.instances).map(|number| {
        let mut given = Rehearsal {
            stdin: stdin.clone(),
            directories: plan.directories().to_vec(),
            ..Rehearsal::default()
        };
        given.arg(&[plan.module.name()]);
        plan.write(number, &mut given, |_| {});
        given
    });
    given.collect()
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
