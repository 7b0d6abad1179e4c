//! The answers of host calls.

use core::fmt;

/// An error number of WASI preview 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

impl Errno {
    /// No such file or directory.
    pub const NOENT: Self = Self(44);
    /// Not a directory.
    pub const NOTDIR: Self = Self(54);
    /// The capability is missing: no directory that was given holds the path.
    pub const NOTCAPABLE: Self = Self(76);

    /// The result of a host call.
    pub(crate) fn check(code: u16) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            code => Err(Self(code)),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            2 => "access denied",
            8 => "bad descriptor",
            28 => "invalid argument",
            29 => "input or output error",
            31 => "is a directory",
            44 => "no such file or directory",
            51 => "no space left",
            54 => "not a directory",
            63 => "not permitted",
            76 => "not beneath a directory that this process was given",
            code => return write!(f, "WASI error {code}"),
        };
        f.write_str(text)
    }
}
