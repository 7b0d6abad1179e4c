//! The word of a mailbox: [`DevActor::mail`](everwarp_contract::DevActor). This file only packs and unpacks it;
//! `mailbox.rs` has the rules.

use everwarp_contract::actor::{
    MAIL_BUSY, MAIL_CELL_BITS, MAIL_COUNT_MAX, MAIL_COUNT_SHIFT, MAIL_FLAG_SHIFT,
    MAIL_GENERATION_SHIFT, MAIL_LIVE,
};

/// A value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mail(pub(crate) u64);

const CELL: u64 = (1 << MAIL_CELL_BITS) - 1;
const COUNT: u64 = (MAIL_COUNT_MAX as u64) << MAIL_COUNT_SHIFT;

/// Clears the newest cell, for `fetch_and`.
pub(crate) const WITHOUT_CELLS: u64 = !CELL;

/// A flag's bit in the word.
pub(crate) const fn flag(flag: u32) -> u64 {
    (flag as u64) << MAIL_FLAG_SHIFT
}

impl Mail {
    /// The word of a slot without an actor. Its next actor has this generation.
    pub(crate) const fn free(generation: u32) -> Self {
        Self((generation as u64 & 0xffff) << MAIL_GENERATION_SHIFT)
    }
    /// The word of an actor that has just been launched, and is idle.
    pub(crate) const fn idle(generation: u32) -> Self {
        Self::free(generation).with(MAIL_LIVE)
    }
    /// The newest cell, plus one; 0 for none.
    pub(crate) const fn cell(self) -> u32 {
        (self.0 & CELL) as u32
    }
    /// Messages accepted and not handled.
    pub(crate) const fn count(self) -> u32 {
        ((self.0 & COUNT) >> MAIL_COUNT_SHIFT) as u32
    }
    /// Whether one of these flags is set.
    pub(crate) const fn has(self, flags: u32) -> bool {
        self.0 & flag(flags) != 0
    }
    /// With these flags set.
    pub(crate) const fn with(self, flags: u32) -> Self {
        Self(self.0 | flag(flags))
    }
    /// With these flags cleared.
    pub(crate) const fn without(self, flags: u32) -> Self {
        Self(self.0 & !flag(flags))
    }
    /// Whether the word belongs to this generation.
    pub(crate) const fn is_of(self, generation: u32) -> bool {
        self.0 >> MAIL_GENERATION_SHIFT == generation as u64 & 0xffff
    }
    /// With one message more, and a turn to handle it.
    pub(crate) const fn pushed(self, cell: u32) -> Self {
        self.pushed_all(cell, 1)
    }
    /// With `n` messages more; `cell` has the newest.
    pub(crate) const fn pushed_all(self, cell: u32, n: u32) -> Self {
        let more = Self((self.0 & !CELL | cell as u64) + ((n as u64) << MAIL_COUNT_SHIFT));
        more.with(MAIL_BUSY)
    }
    /// With `n` messages less.
    pub(crate) const fn handled(self, n: u32) -> Self {
        Self(self.0 - ((n as u64) << MAIL_COUNT_SHIFT))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use everwarp_contract::actor::MAIL_LISTED;

    #[test]
    fn parts_of_the_word_do_not_touch_each_other() {
        let mut mail = Mail::idle(0x1_ffff);
        assert!(mail.is_of(0xffff) && mail.is_of(0x1_ffff) && !mail.is_of(1));
        for n in 1..=MAIL_COUNT_MAX {
            mail = mail.pushed(0xfff_ffff);
            assert_eq!((mail.cell(), mail.count()), (0xfff_ffff, n));
        }
        mail = mail.with(MAIL_LISTED);
        assert!(mail.is_of(0xffff) && mail.has(MAIL_BUSY) && mail.has(MAIL_LIVE));
        let empty = mail
            .handled(MAIL_COUNT_MAX)
            .without(MAIL_LISTED | MAIL_BUSY);
        assert_eq!(empty.0 & WITHOUT_CELLS, Mail::idle(0xffff).0);
    }
}
