//! The import module `everwarp:net`: functions for the network beyond WASI preview 1.
//!
//! `guests/NET.md` says what each function does. A function returns an error number of WASI; without the grant that it
//! needs, that is `ENOTCAPABLE`.

use std::fmt;
use std::io;

use everwarp_io::Connection;

/// The module that these functions are imported from.
pub const MODULE: &str = "everwarp:net";

/// The functions with their parameters: a letter stands for a type, `i` for 32 bits. Each returns an error number.
pub const FUNCTIONS: &[(&str, &str)] = &[("launch", "iiiii")];

/// The parameters of the function with this name.
pub fn find(name: &str) -> Option<&'static (&'static str, &'static str)> {
    FUNCTIONS.iter().find(|(found, _)| *found == name)
}

/// Starts programs for processes that ask for them by name.
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Starts the program with these variables, and returns a connection to its standard input and output. It does not wait
    /// for the start.
    ///
    /// # Errors
    /// [`LaunchError`].
    fn launch(
        &self,
        name: &str,
        variables: Vec<(String, String)>,
    ) -> Result<Connection, LaunchError>;
}

/// A program that was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No program has this name.
    #[error("no program has this name")]
    Unknown,
    /// The system gives no connection, or the host has ended.
    #[error("the program cannot be started: {0}")]
    System(#[from] io::Error),
}

/// The name and the variables of a launch: text, then for each variable `NAME=VALUE` and a zero byte.
///
/// Returns `None` if they have another form.
pub fn read_launch(name: &[u8], variables: &[u8]) -> Option<(String, Vec<(String, String)>)> {
    let name = std::str::from_utf8(name).ok()?;
    let text = std::str::from_utf8(variables).ok()?;
    let mut list = Vec::new();
    for variable in text.split_terminator('\0') {
        let (name, value) = variable
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())?;
        list.push((name.to_owned(), value.to_owned()));
    }
    (text.is_empty() || text.ends_with('\0')).then(|| (name.to_owned(), list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_read_or_refused_as_a_whole() {
        let read = read_launch(b"program", b"A=1\0B==\0").expect("it is right");
        let variables = [("A", "1"), ("B", "=")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(read, ("program".to_owned(), variables.to_vec()));
        assert_eq!(read_launch(b"", b""), Some((String::new(), Vec::new())));
        for wrong in [&b"A=1"[..], b"A\0", b"=1\0", b"\0", b"A=\xff\0"] {
            assert_eq!(read_launch(b"program", wrong), None, "{wrong:?}");
        }
    }
}
