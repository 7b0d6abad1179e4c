//! What can be wrong with a program.

use alloc::string::String;
use core::fmt;

use crate::fault::Fault;

/// What is wrong, with the word that it is about.
pub(crate) enum Wrong {
    /// A word ran into it.
    Fault(Fault),
    /// It is wrong by itself.
    Text(&'static str),
    /// What is wrong with a word that the program names.
    Word(String, &'static str),
}

impl Wrong {
    pub(crate) fn word(word: &[u8], what: &'static str) -> Self {
        Self::Word(String::from_utf8_lossy(word).into_owned(), what)
    }
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<&'static str> for Wrong {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => f.write_str(fault.text()),
            Self::Text(text) => f.write_str(text),
            Self::Word(word, what) => {
                f.write_str("`")?;
                f.write_str(word)?;
                f.write_str("` ")?;
                f.write_str(what)
            }
        }
    }
}
