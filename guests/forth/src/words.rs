//! The words that are one instruction or a few.

use crate::op::Op;

/// Every word with its instructions.
#[rustfmt::skip]
pub(crate) const WORDS: &[(&[u8], &[Op])] = &[
    (b"+", &[Op::Plus]), (b"-", &[Op::Minus]), (b"*", &[Op::Times]),
    (b"/", &[Op::Divide]), (b"mod", &[Op::Remainder]),
    (b"negate", &[Op::Negate]), (b"abs", &[Op::Absolute]), (b"min", &[Op::Least]), (b"max", &[Op::Greatest]),
    (b"1+", &[Op::Push(1), Op::Plus]), (b"1-", &[Op::Push(1), Op::Minus]),
    (b"2*", &[Op::Push(1), Op::ShiftLeft]), (b"2/", &[Op::Push(1), Op::ShiftRight]),
    (b"and", &[Op::And]), (b"or", &[Op::Or]), (b"xor", &[Op::Xor]), (b"invert", &[Op::Invert]),
    (b"lshift", &[Op::ShiftLeft]), (b"rshift", &[Op::ShiftRight]),
    (b"=", &[Op::Equal]), (b"<>", &[Op::Differ]), (b"<", &[Op::Less]), (b">", &[Op::More]),
    (b"<=", &[Op::AtMost]), (b">=", &[Op::AtLeast]),
    (b"0=", &[Op::IsZero]), (b"0<", &[Op::IsNegative]), (b"0>", &[Op::Push(0), Op::More]),
    (b"true", &[Op::Push(-1)]), (b"false", &[Op::Push(0)]),
    (b"dup", &[Op::Duplicate]), (b"?dup", &[Op::DuplicateSome]), (b"drop", &[Op::Drop]), (b"swap", &[Op::Swap]),
    (b"over", &[Op::Over]), (b"rot", &[Op::Rotate]), (b"nip", &[Op::Nip]), (b"tuck", &[Op::Tuck]),
    (b"2dup", &[Op::DuplicateTwo]), (b"2drop", &[Op::DropTwo]), (b"depth", &[Op::Depth]),
    (b">r", &[Op::ToReturn]), (b"r>", &[Op::FromReturn]), (b"r@", &[Op::PeekReturn]),
    (b"i", &[Op::PeekReturn]), (b"j", &[Op::Outer]), (b"unloop", &[Op::Unloop]),
    (b"@", &[Op::Fetch]), (b"!", &[Op::Store]), (b"+!", &[Op::AddTo]),
    (b"c@", &[Op::FetchByte]), (b"c!", &[Op::StoreByte]),
    (b"here", &[Op::Here]), (b"allot", &[Op::Allot]), (b",", &[Op::Comma]),
    (b"cells", &[Op::Push(4), Op::Times]), (b"cell+", &[Op::Push(4), Op::Plus]),
    (b".", &[Op::Dot]), (b"emit", &[Op::Emit]), (b"cr", &[Op::NewLine]),
    (b"space", &[Op::Push(32), Op::Emit]),
];
