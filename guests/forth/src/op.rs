//! The instructions that words become.

/// One instruction; targets are indices of instructions.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    Push(i32),
    Call(u32),
    Return,
    Jump(u32),
    /// Takes a cell and jumps if it is zero.
    JumpZero(u32),
    /// Moves limit and index to the return stack.
    Do,
    /// The same, but jumps past the loop if they are equal.
    DoSome(u32),
    /// Adds one to the index and jumps back unless it has reached the limit.
    Loop(u32),
    /// Adds a cell to the index and jumps back unless it has crossed the limit.
    LoopBy(u32),
    /// Forgets limit and index.
    Unloop,
    /// Prints so many bytes of the texts, from there.
    Print(u16, u32),
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
