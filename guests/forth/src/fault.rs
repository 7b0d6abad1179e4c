//! What can go wrong in a word.

/// One byte, so that the result of an instruction fits in a register.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Few,
    Full,
    FewReturns,
    FullReturns,
    Return,
    Division,
    Address,
    Allot,
}

impl Fault {
    /// What went wrong.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Few => "the stack holds too few cells",
            Self::Full => "the stack is full",
            Self::FewReturns => "the return stack holds too few cells",
            Self::FullReturns => "the return stack is full",
            Self::Return => "a return to no word",
            Self::Division => "a division by zero",
            Self::Address => "there is no memory at this address",
            Self::Allot => "a program may allot from 0 to 1,048,576 bytes",
        }
    }
}
