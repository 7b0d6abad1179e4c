//! Read-modify-writes.

/// What one makes of the value that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add,
    And,
    Or,
    Xor,
    Exchange,
    /// Exchanges if the first operand is what it finds.
    Compare,
}

/// Of a name such as `cas.b32` what it does, the bits, and how many operands it takes.
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
