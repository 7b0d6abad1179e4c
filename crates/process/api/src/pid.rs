//! Process ids.

use std::fmt;
use std::str::FromStr;

/// The id of a process in its host: a slot of the host's table and the slot's generation.
///
/// A slot is reused after its process has been waited for. Its generation then grows, so an old pid never names a newer
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid {
    slot: u32,
    generation: u32,
}

impl Pid {
    /// The process of a slot and a generation.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The slot in the host's table.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// The slot's generation, from 1.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The number that processes use for it: the generation in the upper half, the slot in the lower.
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The pid with this number.
    pub const fn of_number(number: u64) -> Self {
        Self::new(number as u32, (number >> 32) as u32)
    }
}

/// `SLOT.GENERATION`.
impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// A text that is not a pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePidError(pub String);

impl fmt::Display for ParsePidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no process: use SLOT.GENERATION, such as 3.1",
            self.0
        )
    }
}

impl std::error::Error for ParsePidError {}

/// Reads the form that [`Pid`] is printed in.
impl FromStr for Pid {
    type Err = ParsePidError;

    fn from_str(text: &str) -> Result<Self, ParsePidError> {
        let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => digits.parse().ok(),
            false => None,
        };
        let (slot, generation) = text.split_once('.').unwrap_or((text, ""));
        match (number(slot), number(generation)) {
            (Some(slot), Some(generation)) => Ok(Self { slot, generation }),
            _ => Err(ParsePidError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_is_the_upper_half_of_the_number() {
        assert_eq!(Pid::new(3, 9).number(), 9 << 32 | 3);
    }

    #[test]
    fn a_printed_pid_can_be_read_back() {
        for pid in [Pid::new(0, 1), Pid::new(u32::MAX, u32::MAX)] {
            assert_eq!(pid.to_string().parse(), Ok(pid));
            assert_eq!(Pid::of_number(pid.number()), pid);
        }
        for text in [
            "",
            ".",
            "1",
            "1.",
            ".1",
            "1.1.1",
            "-1.1",
            "+1.1",
            "4294967296.1",
            "a.b",
            "1 .1",
        ] {
            assert_eq!(text.parse::<Pid>(), Err(ParsePidError(text.to_owned())));
        }
    }
}
