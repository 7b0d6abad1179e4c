//! Atomic read-modify-write operations.

/// How an operation computes the new value from the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add,
    And,
    Or,
    Xor,
    Exchange,
    /// Exchanges if the old value equals the first operand.
    Compare,
}

/// Parses a name such as `cas.b32`: the operation, its size in bits, and the number of its operands.
pub(crate) fn parse(name: &str) -> Result<(Action, u32, usize), String> {
    let bad = || format!("the atomic {name}");
    let (action, ty) = name.split_once('.').ok_or_else(bad)?;
    let (action, letter, count) = match action {
        "add" => (Action::Add, "u", 1),
        "and" => (Action::And, "b", 1),
        "or" => (Action::Or, "b", 1),
        "xor" => (Action::Xor, "b", 1),
        "exch" => (Action::Exchange, "b", 1),
        "cas" => (Action::Compare, "b", 2),
        _ => return Err(bad()),
    };
    let bits = ty.strip_prefix(letter).ok_or_else(bad)?;
    let bits: u32 = bits.parse().map_err(|_| bad())?;
    match bits {
        32 | 64 => Ok((action, bits, count)),
        _ => Err(bad()),
    }
}

impl Action {
    /// The new value.
    pub(crate) fn apply(self, bits: u32, old: u64, a: u64, b: u64) -> u64 {
        let mask = u64::MAX >> (64 - bits);
        let new = match self {
            Self::Add => old.wrapping_add(a),
            Self::And => old & a,
            Self::Or => old | a,
            Self::Xor => old ^ a,
            Self::Exchange => a,
            Self::Compare if old == a & mask => b,
            Self::Compare => old,
        };
        new & mask
    }
}
