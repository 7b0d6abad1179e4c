//! The words that are one instruction or a few.

use Word::{Does, Number, With};

use crate::op::Kind::{self, *};

/// What a word becomes.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// One instruction.
    Does(Kind),
    /// A number, and an instruction behind it.
    With(i8, Kind),
    /// A number.
    Number(i8),
}

/// Every word with its instructions.
#[rustfmt::skip]
pub(crate) const WORDS: &[(&[u8], Word)] = &[
    (b"+", Does(Plus)), (b"-", Does(Minus)), (b"*", Does(Times)),
    (b"/", Does(Divide)), (b"mod", Does(Remainder)),
    (b"negate", Does(Negate)), (b"abs", Does(Absolute)), (b"min", Does(Least)), (b"max", Does(Greatest)),
    (b"1+", With(1, Plus)), (b"1-", With(1, Minus)),
    (b"2*", With(1, ShiftLeft)), (b"2/", With(1, ShiftRight)),
    (b"and", Does(And)), (b"or", Does(Or)), (b"xor", Does(Xor)), (b"invert", Does(Invert)),
    (b"lshift", Does(ShiftLeft)), (b"rshift", Does(ShiftRight)),
    (b"=", Does(Equal)), (b"<>", Does(Differ)), (b"<", Does(Less)), (b">", Does(More)),
    (b"<=", Does(AtMost)), (b">=", Does(AtLeast)),
    (b"0=", Does(IsZero)), (b"0<", Does(IsNegative)), (b"0>", With(0, More)),
    (b"true", Number(-1)), (b"false", Number(0)),
    (b"dup", Does(Duplicate)), (b"?dup", Does(DuplicateSome)), (b"drop", Does(Drop)), (b"swap", Does(Swap)),
    (b"over", Does(Over)), (b"rot", Does(Rotate)), (b"nip", Does(Nip)), (b"tuck", Does(Tuck)),
    (b"2dup", Does(DuplicateTwo)), (b"2drop", Does(DropTwo)), (b"depth", Does(Depth)),
    (b">r", Does(ToReturn)), (b"r>", Does(FromReturn)), (b"r@", Does(PeekReturn)),
    (b"i", Does(PeekReturn)), (b"j", Does(Outer)), (b"unloop", Does(Unloop)),
    (b"@", Does(Fetch)), (b"!", Does(Store)), (b"+!", Does(AddTo)),
    (b"c@", Does(FetchByte)), (b"c!", Does(StoreByte)),
    (b"here", Does(Here)), (b"allot", Does(Allot)), (b",", Does(Comma)),
    (b"cells", With(4, Times)), (b"cell+", With(4, Plus)),
    (b".", Does(Dot)), (b"emit", Does(Emit)), (b"cr", Does(NewLine)),
    (b"space", With(32, Emit)),
];
