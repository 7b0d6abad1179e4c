//! What a process is given whose run only shows which functions of its module are called.

use bytes::Bytes;
use everwarp_io::Connection;

use crate::config::{Directory, StartWriter};
use crate::input_lines::InputLines;

/// What a process is given in a rehearsal: a run on the CPU engine without effects, which shows which functions of a module are
/// called, before a GPU's code of the module is made.
///
/// The process can read files and change none, what it writes goes nowhere, and it reaches no network and no other process.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    /// Its arguments, the program's name first.
    pub args: Vec<String>,
    /// Its variables, names and values.
    pub env: Vec<(String, String)>,
    /// Its standard input, if it is known. If it is not, the rehearsal ends when the process reads it.
    pub stdin: Option<Bytes>,
    /// The directories in which it can read.
    pub directories: Vec<Directory>,
}

impl StartWriter for Rehearsal {
    fn arg(&mut self, parts: &[&str]) {
        self.args.push(parts.concat());
    }

    fn variable(&mut self, name: &str, parts: &[&str]) {
        self.env.push((name.to_owned(), parts.concat()));
    }

    fn stdin(&mut self, bytes: Bytes) {
        self.stdin = Some(bytes);
    }

    fn connection(&mut self, _: Connection) {}

    /// Lines that a service has are not known here.
    fn stdin_line(&mut self, lines: &InputLines, number: u32) {
        self.stdin = lines.source().line(number);
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::LineSource;

    /// Two lines. The first is in this program.
    struct First;

    impl LineSource for First {
        fn count(&self) -> u64 {
            2
        }
        fn bytes(&self) -> u64 {
            8
        }
        fn line(&self, number: u32) -> Option<Bytes> {
            (number == 0).then(|| Bytes::from_static(b"one\n"))
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    #[test]
    fn a_line_that_is_elsewhere_is_not_known() {
        let lines = InputLines::new(First);
        let mut given = Rehearsal::default();
        given.stdin_line(&lines, 0);
        assert_eq!(given.stdin.as_deref(), Some(&b"one\n"[..]));
        given.stdin_line(&lines, 1);
        assert_eq!(given.stdin, None);
    }
}
