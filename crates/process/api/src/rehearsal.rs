//! What a process is given whose run only shows which functions of its module are called.

use bytes::Bytes;
use everwarp_io::Connection;

use crate::config::{Directory, StartWriter};

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
}
