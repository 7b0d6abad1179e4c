//! The numbers that travel between host and engine, each with its own type: a function's number cannot be passed where an
//! instance's number is wanted. In memory that both sides read they are plain words.

use core::fmt;

use crate::task::{FN_COMPLETE, FN_FETCH, FN_FIRST, FN_NONE};

macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident($number:ty);)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A function in an engine's image: a built-in one, or one of a program. Within its program a function has a
    /// number that counts from 0.
    FunctionId(u32);
    /// A program instance of an engine.
    InstanceId(u8);
    /// A submission in flight.
    TokenId(u32);
    /// A group of tasks that is open.
    GroupId(u32);
    /// An owner of heap blocks.
    HeapOwner(u32);
}

impl FunctionId {
    /// Does nothing: the continuation of a group that only counts.
    pub const NONE: Self = Self(FN_NONE);
    /// Fetches a range of the arena.
    pub const FETCH: Self = Self(FN_FETCH);
    /// Completes the host token in the task's `group` with the group's value.
    pub const COMPLETE: Self = Self(FN_COMPLETE);
    /// The first function of the first program.
    pub const FIRST: Self = Self(FN_FIRST);

    /// The function's place in a table of all functions of the programs; beyond any table for a built-in function.
    pub const fn index(self) -> usize {
        self.0.wrapping_sub(FN_FIRST) as usize
    }
    /// The id of the function that is `number` places after this one.
    pub const fn offset(self, number: u32) -> Self {
        Self(self.0 + number)
    }
}

impl InstanceId {
    /// The owner of the blocks that the instance's tasks allocate. Owner 0 is no instance's.
    pub const fn owner(self) -> HeapOwner {
        HeapOwner(self.0 as u32 + 1)
    }
    /// The instance's place in the table of instances.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A task's priority; spawned tasks inherit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Served before everything else.
    pub const URGENT: Self = Self(crate::task::PRIORITY_URGENT as u8);
    /// Served before ordinary work.
    pub const HIGH: Self = Self(1);
    /// Ordinary work.
    pub const NORMAL: Self = Self(2);
    /// Served when there is nothing else.
    pub const LOW: Self = Self(3);

    /// All priorities; the first is served first.
    pub const ALL: [Self; crate::task::PRIORITIES as usize] =
        [Self::URGENT, Self::HIGH, Self::NORMAL, Self::LOW];

    /// The level, 0 (served first) to 3.
    pub const fn level(self) -> u8 {
        self.0
    }
    /// The priority with this level; only the lowest two bits count.
    pub const fn from_bits(bits: u32) -> Self {
        Self((bits & (crate::task::PRIORITIES - 1)) as u8)
    }
    /// The priority's place in a table of all priorities.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
