//! Arguments, environment and standard input as device code reads them.

use std::ops::Range;

use everwarp_process::{Bytes, Connection, SpawnError, StartWriter};

use crate::layout::process::STRINGS_HEAD;

/// Bytes before the first string.
const HEAD: usize = STRINGS_HEAD as usize;
/// Arguments and environment together take less than this, and so does standard input.
const MOST: usize = 1 << 31;

/// Where a caller writes what each of many processes is given, so that nothing is made for each process and copied
/// afterwards: first its arguments, then its environment.
#[derive(Debug)]
pub(crate) struct StringsWriter<'a> {
    all: &'a mut StringsBuffer,
    /// The number of arguments and their bytes, then the number of variables and their bytes.
    head: [usize; 4],
    stdin: Option<Bytes>,
    connection: Option<Connection>,
    /// The first string that cannot be given.
    wrong: Option<SpawnError>,
}

impl StartWriter for StringsWriter<'_> {
    fn arg(&mut self, parts: &[&str]) {
        self.head[1] += add_string(&mut self.all.bytes, parts, &mut self.wrong);
        self.head[0] += 1;
    }

    fn variable(&mut self, name: &str, parts: &[&str]) {
        let variables = &mut self.all.variables;
        variables.extend_from_slice(name.as_bytes());
        variables.push(b'=');
        add_string(variables, parts, &mut self.wrong);
        if name.contains('\0') && self.wrong.is_none() {
            let what = [name, "=", &parts.concat()].concat();
            self.wrong = Some(SpawnError::ZeroByte { what });
        }
        self.head[3] = variables.len();
        self.head[2] += 1;
    }

    /// The bytes are on the device, so reading them takes no host call. Bytes of an
    /// [`everwarp_runtime::HostBytes`] are copied there from where they are.
    fn stdin(&mut self, bytes: Bytes) {
        self.stdin = Some(bytes);
    }

    fn connection(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }
}

/// Adds a string of these parts with a zero after it, and returns its bytes.
fn add_string(bytes: &mut Vec<u8>, parts: &[&str], wrong: &mut Option<SpawnError>) -> usize {
    let before = bytes.len();
    parts
        .iter()
        .for_each(|part| bytes.extend_from_slice(part.as_bytes()));
    if bytes[before..].contains(&0) && wrong.is_none() {
        let what = parts.concat();
        *wrong = Some(SpawnError::ZeroByte { what });
    }
    bytes.push(0);
    bytes.len() - before
}

/// The strings and inputs of processes that are spawned together, as device code reads them.
///
/// For each process there are twelve words, then its strings, each followed by a zero, then the names of its directories,
/// each preceded by its length and padded to four bytes. The standard inputs of all processes follow after the last one.
/// The words are:
///
/// | word | content |
/// |---|---|
/// | 0, 1 | the number of arguments, and their bytes |
/// | 2, 3 | the number of variables, and their bytes |
/// | 4, 7 | the offset of standard input, lower and upper half |
/// | 5, 6 | the bytes of standard input, and how many of them have been read |
/// | 8, 9 | the number of directories, and the offset of their names |
/// | 10, 11 | unused |
#[derive(Debug, Default)]
pub(crate) struct StringsBuffer {
    /// The number of directories, and their names as device code reads them.
    pub(crate) directories: (u32, Vec<u8>),
    pub(crate) bytes: Vec<u8>,
    /// The variables of the process that is being written. They follow its arguments, and come in any order with them.
    variables: Vec<u8>,
    /// The inputs in order.
    pub(crate) inputs: Vec<Bytes>,
    /// Where the words of each input's process begin.
    of: Vec<usize>,
    /// The bytes of the process that was written last.
    last: Range<usize>,
}

/// The strings that one process has of its own.
pub(crate) struct ProcessStrings {
    /// Where its words begin.
    pub(crate) begin: u64,
    pub(crate) stdin: Option<Bytes>,
    /// A connection in the place of standard input and output.
    pub(crate) connection: Option<Connection>,
}

impl StringsBuffer {
    /// Sets the names of the directories that all processes have.
    pub(crate) fn set_directories<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let (count, bytes) = &mut self.directories;
        *count = 0;
        bytes.clear();
        for name in names {
            *count += 1;
            bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
    }

    /// Removes all processes, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.inputs.clear();
        self.of.clear();
        self.last = 0..0;
    }

    /// Adds what a process is given, after `front`. A process that is given the same as the one before shares its bytes.
    pub(crate) fn add(
        &mut self,
        front: &[u8],
        write: impl FnOnce(&mut dyn StartWriter),
    ) -> Result<ProcessStrings, SpawnError> {
        let end = self.bytes.len();
        // The front is directly before the words.
        let begin = (end + front.len()).next_multiple_of(16);
        self.bytes.resize(begin - front.len(), 0);
        self.bytes.extend_from_slice(front);
        self.bytes.resize(begin + HEAD, 0);
        self.variables.clear();
        let mut writer = StringsWriter {
            all: self,
            head: [0; 4],
            stdin: None,
            connection: None,
            wrong: None,
        };
        write(&mut writer);
        let StringsWriter {
            head,
            stdin,
            connection,
            wrong,
            ..
        } = writer;
        self.bytes.extend_from_slice(&self.variables);
        let texts = self.bytes.len() - begin - HEAD;
        let names_at = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(names_at, 0);
        let (directories, names) = &self.directories;
        self.bytes.extend_from_slice(names);
        let input = stdin.as_ref().map_or(0, Bytes::len);
        if let Some(bytes) = [texts, input].into_iter().find(|&bytes| bytes >= MOST) {
            return Err(SpawnError::TooLong { bytes });
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let [args, args_bytes, env, env_bytes] = head.map(|number| number as u32);
        let head = [args, args_bytes, env, env_bytes, 0, 0, 0, 0];
        let head = head
            .into_iter()
            .chain([*directories, (names_at - begin) as u32]);
        for (at, number) in (begin..).step_by(4).zip(head) {
            self.bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let here = begin..self.bytes.len();
        // Device code counts there how much of the input has been read, so a process with an input shares nothing.
        if stdin.is_none() && self.bytes[here.clone()] == self.bytes[self.last.clone()] {
            self.bytes.truncate(end);
            let begin = self.last.start as u64;
            return Ok(ProcessStrings {
                begin,
                stdin,
                connection,
            });
        }
        self.last = if stdin.is_none() { here } else { 0..0 };
        if let Some(bytes) = &stdin {
            self.inputs.push(bytes.clone());
            self.of.push(begin);
        }
        let begin = begin as u64;
        Ok(ProcessStrings {
            begin,
            stdin,
            connection,
        })
    }

    /// Writes the offsets of the inputs, which follow the strings; returns the bytes of both.
    pub(crate) fn finish(&mut self) -> usize {
        let mut at = self.bytes.len();
        for (&begin, input) in self.of.iter().zip(&self.inputs) {
            let offset = (at - begin) as u64;
            let words = [offset as u32, input.len() as u32, 0, (offset >> 32) as u32];
            for (at, word) in (begin + 16..).step_by(4).zip(words) {
                self.bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            at += input.len();
        }
        at
    }

    /// The bytes to copy to the device, in order: the strings, then the inputs from where they are.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let inputs = self.inputs.iter().map(|input| &input[..]);
        std::iter::once(&self.bytes[..]).chain(inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The strings of one process.
    #[derive(Default)]
    struct Strings {
        args: Vec<&'static str>,
        env: Vec<(&'static str, &'static str)>,
        stdin: Option<&'static str>,
    }

    fn add(all: &mut StringsBuffer, strings: &Strings) -> Result<ProcessStrings, SpawnError> {
        all.add(&[7; 4], |writer| {
            strings.args.iter().for_each(|arg| writer.arg(&[arg]));
            for (name, value) in &strings.env {
                writer.variable(name, &[value]);
            }
            if let Some(stdin) = strings.stdin {
                writer.stdin(stdin.into());
            }
        })
    }

    fn words(bytes: &[u8]) -> Vec<u32> {
        let words = bytes[..HEAD].as_chunks::<4>().0.iter();
        words.map(|word| u32::from_le_bytes(*word)).collect()
    }

    #[test]
    fn arguments_and_variables_come_in_any_order() {
        let mut all = StringsBuffer::default();
        let mixed = all.add(&[], |writer| {
            writer.arg(&["a"]);
            writer.variable("K", &["v"]);
            writer.arg(&["b"]);
            writer.variable("L", &["w"]);
        });
        mixed.expect("it is valid");
        assert_eq!(words(&all.bytes)[..4], [2, 4, 2, 8]);
        assert_eq!(&all.bytes[HEAD..HEAD + 12], b"a\0b\0K=v\0L=w\0");
    }

    #[test]
    fn words_come_first_and_inputs_last() {
        let strings = Strings {
            args: vec!["a", ""],
            env: vec![("K", "v w")],
            stdin: Some("typed"),
        };
        let mut all = StringsBuffer::default();
        all.set_directories(["/p", "four"].into_iter());
        let first = add(&mut all, &strings).expect("there are no zeros");
        let second = add(&mut all, &strings).expect("there are no zeros");
        assert_eq!((first.begin, second.begin), (16, 96));
        let total = all.finish();
        let end = all.bytes.len();
        assert_eq!((end, total), (172, 182));
        assert_eq!(
            words(&all.bytes[16..]),
            [2, 3, 1, 6, 156, 5, 0, 0, 2, 60, 0, 0]
        );
        assert_eq!(
            words(&all.bytes[96..]),
            [2, 3, 1, 6, 81, 5, 0, 0, 2, 60, 0, 0]
        );
        assert_eq!(&all.bytes[12..16], [7; 4], "the front");
        assert_eq!(&all.bytes[16 + HEAD..73], b"a\0\0K=v w\0");
        let names = b"\x02\0\0\0/p\0\0\x04\0\0\0four";
        assert_eq!(&all.bytes[76..92], names);
        assert_eq!(all.inputs, ["typed", "typed"]);
    }

    #[test]
    fn equal_neighbours_share_bytes_unless_they_have_an_input() {
        let one = |arg: &'static str, stdin: Option<&'static str>| Strings {
            args: vec![arg],
            env: Vec::new(),
            stdin,
        };
        let mut all = StringsBuffer::default();
        let mut begin = |strings: &Strings| add(&mut all, strings).expect("it fits").begin;
        let same = [begin(&one("x", None)), begin(&one("x", None))];
        let others = [
            begin(&one("y", None)),
            begin(&one("y", Some(""))),
            begin(&one("y", Some(""))),
            begin(&one("y", None)),
        ];
        assert_eq!(same[0], same[1]);
        assert!(same[1] < others[0] && others.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_zero_byte_is_named() {
        let args = vec!["fine", "not\0fine"];
        let strings = Strings {
            args,
            ..Strings::default()
        };
        let error = add(&mut StringsBuffer::default(), &strings).err();
        let error = error.expect("a C string ends there");
        assert!(error.to_string().contains("not\\0fine"), "{error}");
    }
}
