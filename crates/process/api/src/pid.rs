//! The name of a process.

use std::fmt;
use std::str::FromStr;

/// A process of one host: the slot that it has in the host's table, and which of the slot's processes it is.
///
/// A slot is used again after its process has been waited for; the generation tells its processes apart, so
/// that an old pid never means somebody else's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid {
    slot: u32,
    generation: u32,
}

impl Pid {
    /// The name of a slot's process.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The place in the host's table.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Which of the slot's processes this is, from 1.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The number that processes have for it: the slot, and the generation in the upper half.
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The pid of such a number.
    pub const fn of_number(number: u64) -> Self {
        Self::new(number as u32, (number >> 32) as u32)
    }
}

/// The slot, and behind a point the generation.
impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// Text that names no process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPid(pub String);

impl fmt::Display for NoPid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no process: use SLOT.GENERATION, such as 3.1",
            self.0
        )
    }
}

impl std::error::Error for NoPid {}

/// Reads what [`Pid`] is printed as.
impl FromStr for Pid {
    type Err = NoPid;

    fn from_str(text: &str) -> Result<Self, NoPid> {
        let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => digits.parse().ok(),
            false => None,
        };
        let (slot, generation) = text.split_once('.').unwrap_or((text, ""));
        match (number(slot), number(generation)) {
            (Some(slot), Some(generation)) => Ok(Self { slot, generation }),
            _ => Err(NoPid(text.to_owned())),
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
    fn what_is_printed_can_be_read() {
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
            assert_eq!(text.parse::<Pid>(), Err(NoPid(text.to_owned())));
        }
    }
}
