//! What can be seen of an instance.

use everwarp_compiler::TrapKind;

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: Vec<u64>,
    /// Slots of results, or how it trapped.
    pub(crate) result: Result<Vec<u64>, TrapKind>,
}

/// What calls gave, and what the instance was like behind the last one.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How instantiation trapped, if it did; then there is nothing else.
    pub(crate) instantiated: Option<TrapKind>,
    pub(crate) calls: Vec<Call>,
    pub(crate) memory: Vec<u8>,
    /// Names and bits of globals; of references, whether they are null.
    pub(crate) globals: Vec<(String, u128)>,
    /// Names and lengths of tables.
    pub(crate) tables: Vec<(String, u64)>,
}

/// Traps that are told apart by one of the two only.
fn kind(trap: TrapKind) -> TrapKind {
    match trap {
        TrapKind::UndefinedElement => TrapKind::TableOutOfBounds,
        other => other,
    }
}

/// The first difference between the lives of instances, in words.
pub(crate) fn differ(expected: &[Seen], found: &[Seen]) -> Option<String> {
    let pairs = expected.iter().zip(found).enumerate();
    let mut differing = pairs.filter_map(|(n, (one, two))| Some((n, one.differs(two)?)));
    match differing.next() {
        Some((n, what)) => Some(format!("instance {n}: {what}")),
        None if expected.len() != found.len() => Some("one trapped more often".to_owned()),
        None => None,
    }
}

impl Seen {
    /// Whether it ended for want of room for calls.
    pub(crate) fn has_exhausted_its_stack(&self) -> bool {
        let calls = self
            .calls
            .iter()
            .filter_map(|call| call.result.as_ref().err());
        let mut traps = self.instantiated.iter().chain(calls);
        traps.any(|trap| matches!(trap, TrapKind::StackExhausted))
    }

    /// The first difference, in words.
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
            return Some("one was called more often".to_owned());
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
