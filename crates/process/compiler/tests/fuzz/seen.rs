//! The observable behaviour of an instance.

use everwarp_compiler::TrapKind;

/// The outcome of one call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: Vec<u64>,
    /// The slots of its results, or its trap.
    pub(crate) result: Result<Vec<u64>, TrapKind>,
}

/// The outcomes of an instance's calls, and its state after the last one.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The trap of the instantiation, if there was one; then all other fields are empty.
    pub(crate) instantiated: Option<TrapKind>,
    pub(crate) calls: Vec<Call>,
    pub(crate) memory: Vec<u8>,
    /// Names and bits of globals; for references, whether they are not null.
    pub(crate) globals: Vec<(String, u128)>,
    /// Names and lengths of tables.
    pub(crate) tables: Vec<(String, u64)>,
}

/// Unifies two kinds of traps that only one of the two implementations distinguishes.
fn kind(trap: TrapKind) -> TrapKind {
    match trap {
        TrapKind::UndefinedElement => TrapKind::TableOutOfBounds,
        other => other,
    }
}

/// Describes the first difference between two sequences of instances.
pub(crate) fn differ(expected: &[Seen], found: &[Seen]) -> Option<String> {
    let pairs = expected.iter().zip(found).enumerate();
    let mut differing = pairs.filter_map(|(n, (one, two))| Some((n, one.differs(two)?)));
    match differing.next() {
        Some((n, what)) => Some(format!("instance {n}: {what}")),
        None if expected.len() != found.len() => {
            Some("one had more instances that trapped".to_owned())
        }
        None => None,
    }
}

impl Seen {
    /// Whether a call or the instantiation exhausted the stack.
    pub(crate) fn has_exhausted_its_stack(&self) -> bool {
        let calls = self
            .calls
            .iter()
            .filter_map(|call| call.result.as_ref().err());
        let mut traps = self.instantiated.iter().chain(calls);
        traps.any(|trap| matches!(trap, TrapKind::StackExhausted))
    }

    /// Describes the first difference.
    fn differs(&self, other: &Self) -> Option<String> {
        let (one, two) = (self.instantiated.map(kind), other.instantiated.map(kind));
        if one != two {
            return Some(format!("instantiation: expected {one:?}, found {two:?}"));
        }
        for (one, two) in self.calls.iter().zip(&other.calls) {
            let kinds = (
                one.result.clone().map_err(kind),
                two.result.clone().map_err(kind),
            );
            if kinds.0 != kinds.1 || one.name != two.name || one.args != two.args {
                return Some(format!("expected {one:x?}, found {two:x?}"));
            }
        }
        if self.calls.len() != other.calls.len() {
            return Some("one has more calls".to_owned());
        }
        if self.memory.len() != other.memory.len() {
            let (one, two) = (self.memory.len(), other.memory.len());
            return Some(format!("memory: expected {one} bytes, found {two}"));
        }
        let mut bytes = self.memory.iter().zip(&other.memory);
        if let Some(at) = bytes.position(|(one, two)| one != two) {
            let (one, two) = (self.memory[at], other.memory[at]);
            return Some(format!(
                "memory at {at:#x}: expected {one:#x}, found {two:#x}"
            ));
        }
        if self.globals != other.globals {
            let (one, two) = (&self.globals, &other.globals);
            return Some(format!("globals: expected {one:x?}, found {two:x?}"));
        }
        if self.tables != other.tables {
            let (one, two) = (&self.tables, &other.tables);
            return Some(format!("tables: expected {one:?}, found {two:?}"));
        }
        None
    }
}
