//! The instructions that words become.

/// Declares the kinds of instructions, each with its number.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident,)*) => {
        /// What an instruction does.
        #[derive(Clone, Copy)]
        #[repr(u8)]
        pub(crate) enum Kind {
            $($(#[$about])* $kind,)*
        }

        impl Kind {
            /// The kind with this number.
            #[inline(always)]
            fn of(number: u8) -> Option<Self> {
                match number {
                    $(n if n == Self::$kind as u8 => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Pushes the operand.
    Push,
    /// Pushes one of the numbers that are no operand, the operand's.
    PushWide,
    /// Jumps to the operand and remembers where to return to.
    Call,
    Return,
    Jump,
    /// Takes a cell and jumps if it is zero.
    JumpZero,
    /// Moves limit and index to the return stack.
    Do,
    /// The same, but jumps past the loop if they are equal.
    DoSome,
    /// Adds one to the index and jumps back unless it has reached the limit.
    Loop,
    /// Adds a cell to the index and jumps back unless it has crossed the limit.
    LoopBy,
    /// Forgets limit and index.
    Unloop,
    /// Prints one of the texts, the operand's.
    Print,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
    Negate,
    Absolute,
    Least,
    Greatest,
    And,
    Or,
    Xor,
    Invert,
    ShiftLeft,
    ShiftRight,
    Equal,
    Differ,
    Less,
    More,
    AtMost,
    AtLeast,
    IsZero,
    IsNegative,
    Duplicate,
    DuplicateSome,
    Drop,
    Swap,
    Over,
    Rotate,
    Nip,
    Tuck,
    DuplicateTwo,
    DropTwo,
    Depth,
    ToReturn,
    FromReturn,
    PeekReturn,
    /// The index of the loop around this one.
    Outer,
    Fetch,
    Store,
    AddTo,
    FetchByte,
    StoreByte,
    Here,
    Allot,
    Comma,
    Dot,
    Emit,
    NewLine,
}

/// One instruction in 32 bits, so that one load brings all of it: the kind in the lowest eight, above it an operand,
/// which is a number, the index of an instruction to go to, or one into a table.
#[derive(Clone, Copy)]
pub(crate) struct Op(u32);

/// What an operand may be: a number of 24 bits, and as an index one that is not negative.
const OPERANDS: core::ops::Range<i32> = -(1 << 23)..1 << 23;

impl Op {
    /// An instruction without an operand.
    pub(crate) fn of(kind: Kind) -> Self {
        Self::packed(kind, 0)
    }

    /// An instruction with an operand, if it is one.
    pub(crate) fn with(kind: Kind, operand: i32) -> Option<Self> {
        let fits = OPERANDS.contains(&operand);
        fits.then_some(Self::packed(kind, operand))
    }

    /// One that pushes a small number.
    pub(crate) fn push(number: i8) -> Self {
        Self::packed(Kind::Push, number.into())
    }

    fn packed(kind: Kind, operand: i32) -> Self {
        Self(kind as u32 | (operand as u32) << 8)
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        let Some(kind) = Kind::of(self.0 as u8) else {
            unreachable!("an instruction is made from its kind")
        };
        kind
    }

    #[inline(always)]
    pub(crate) fn operand(self) -> i32 {
        self.0 as i32 >> 8
    }
}
