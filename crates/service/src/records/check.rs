//! The service's side. Records are checked once and then read by the engine's threads.

use std::ops::Range;

use bytes::Bytes;
use everwarp_process::{InputLines, StartWriter};

use super::{SAME_ARGS, SAME_ENV, STDIN_BYTES, STDIN_LINE};
use crate::wire::codec::{Decoder, Wire, WireError};

/// The standard input of one process.
#[derive(Clone, Debug)]
enum RecordInput {
    Shared,
    Bytes(Range<usize>),
    Line { set: usize, number: u32 },
}

#[derive(Clone, Debug)]
struct Record {
    args: Range<usize>,
    env: Range<usize>,
    stdin: RecordInput,
}

/// The records of a request.
#[derive(Debug)]
pub(crate) struct CheckedRecords {
    data: Bytes,
    /// Where the records begin in the data; before them is the standard input that all processes share.
    shared: usize,
    records: Vec<Record>,
    lines: Vec<InputLines>,
}

/// The bytes of a length and its content.
fn section(data: &Bytes, from: &mut Decoder<'_>) -> Result<Range<usize>, WireError> {
    let bytes = from.bytes()?;
    let end = data.len() - from.left();
    Ok(end - bytes.len()..end)
}

/// Texts, each with its length.
fn texts(bytes: &[u8]) -> impl Iterator<Item = Result<&str, WireError>> {
    let mut from = Decoder::new(bytes);
    std::iter::from_fn(move || (from.left() > 0).then(|| from.text()))
}

impl CheckedRecords {
    /// Checks the records of `count` processes after the first `shared` bytes.
    pub(crate) fn check(
        data: Bytes,
        shared: usize,
        count: u32,
        lines: Vec<InputLines>,
    ) -> Result<Self, WireError> {
        let mut from = Decoder::new(&data);
        from.take(shared)?;
        // A record takes a byte at least.
        if from.left() < count as usize {
            return Err(WireError::Short);
        }
        let mut records = Vec::<Record>::with_capacity(count as usize);
        for _ in 0..count {
            let flags = u8::get(&mut from)?;
            if flags & !(SAME_ARGS | SAME_ENV | STDIN_BYTES | STDIN_LINE) != 0 {
                return Err(WireError::Choice(flags.into()));
            }
            let last = records.last();
            let args = match flags & SAME_ARGS != 0 {
                true => last.ok_or(WireError::Range)?.args.clone(),
                false => {
                    let args = section(&data, &mut from)?;
                    texts(&data[args.clone()]).try_for_each(|text| text.map(drop))?;
                    args
                }
            };
            let env = match flags & SAME_ENV != 0 {
                true => last.ok_or(WireError::Range)?.env.clone(),
                false => {
                    let env = section(&data, &mut from)?;
                    let mut count = 0_u64;
                    for text in texts(&data[env.clone()]) {
                        text?;
                        count += 1;
                    }
                    // Names and values come in pairs.
                    if !count.is_multiple_of(2) {
                        return Err(WireError::Range);
                    }
                    env
                }
            };
            let stdin = match flags & (STDIN_BYTES | STDIN_LINE) {
                0 => RecordInput::Shared,
                STDIN_BYTES => RecordInput::Bytes(section(&data, &mut from)?),
                STDIN_LINE => {
                    let (set, number) = (u32::get(&mut from)? as usize, u32::get(&mut from)?);
                    let found = lines.get(set).filter(|set| u64::from(number) < set.count());
                    found.ok_or(WireError::Range)?;
                    RecordInput::Line { set, number }
                }
                other => return Err(WireError::Choice(other.into())),
            };
            records.push(Record { args, env, stdin });
        }
        from.end()?;
        Ok(Self {
            data,
            shared,
            records,
            lines,
        })
    }

    /// The standard input that all processes share, if there is one.
    pub(crate) fn shared_input(&self) -> Bytes {
        self.data.slice(..self.shared)
    }

    /// Writes what the process with this number gets.
    pub(crate) fn write(&self, number: u32, start: &mut dyn StartWriter) {
        let checked = "it was checked";
        let record = &self.records[number as usize];
        for arg in texts(&self.data[record.args.clone()]) {
            start.arg(&[arg.expect(checked)]);
        }
        let mut env = texts(&self.data[record.env.clone()]);
        while let Some(name) = env.next() {
            let value = env.next().expect(checked);
            start.variable(name.expect(checked), &[value.expect(checked)]);
        }
        match &record.stdin {
            RecordInput::Shared => {}
            RecordInput::Bytes(range) => start.stdin(self.data.slice(range.clone())),
            RecordInput::Line { set, number } => start.stdin_line(&self.lines[*set], *number),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::records::write::Records;

    /// What a process has got, as text.
    #[derive(Default)]
    struct Seen(String);

    impl StartWriter for Seen {
        fn arg(&mut self, parts: &[&str]) {
            self.0 += &format!("arg {};", parts.concat());
        }
        fn variable(&mut self, name: &str, parts: &[&str]) {
            self.0 += &format!("{name}={};", parts.concat());
        }
        fn stdin(&mut self, bytes: Bytes) {
            self.0 += &format!("stdin {bytes:?};");
        }
        fn connection(&mut self, _: everwarp_process::Connection) {
            unreachable!("no record has one");
        }
    }

    #[test]
    fn processes_get_what_the_client_wrote() {
        let write = |number: u32, start: &mut dyn StartWriter| {
            start.arg(&["name"]);
            // Two neighbours have the same arguments, and four the same variables.
            start.arg(&["n", &(number / 2).to_string()]);
            start.variable("FOUR", &["=", &(number / 4).to_string()]);
            if number.is_multiple_of(3) {
                start.stdin(Bytes::from(vec![number as u8; 3]));
            }
        };
        // Several threads write them.
        let count = 20_000;
        let records = Records::of_all(count, &write).expect("they are short");
        assert!(records.len() > 1);
        let records = records.iter().map(|part| &part.bytes[..]);
        let data: Vec<&[u8]> = std::iter::once(&b"shared"[..]).chain(records).collect();
        let data = data.concat().into();
        let checked = CheckedRecords::check(data, 6, count, Vec::new()).expect("it is right");
        assert_eq!(checked.shared_input(), "shared");
        for number in 0..count {
            let (mut expected, mut seen) = (Seen::default(), Seen::default());
            write(number, &mut expected);
            checked.write(number, &mut seen);
            assert_eq!(seen.0, expected.0);
        }
    }

    proptest! {
        #[test]
        fn hostile_records_are_read_or_refused(
            data in proptest::collection::vec(0_u8..12, 0..100), shared in 0_usize..8, count in 0_u32..20
        ) {
            if let Ok(checked) = CheckedRecords::check(data.into(), shared, count, Vec::new()) {
                for number in 0..count {
                    checked.write(number, &mut Seen::default());
                }
            }
        }
    }
}
