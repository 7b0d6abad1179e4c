//! Which proposal an operator belongs to.

use wasmparser::Operator;

/// Whether an operator is one of the threads proposal.
pub(crate) fn is_of_threads(operator: &Operator<'_>) -> bool {
    macro_rules! is_threads {
        (threads) => {
            true
        };
        ($other:ident) => {
            false
        };
    }
    // The parser's own table of all operators says for each which proposal it is of.
    macro_rules! find {
        ($(@$proposal:ident $operator:ident $({ $($argument:ident: $type:ty),* })? => $visit:ident ($($arity:tt)*))*) => {
            match operator {
                $(Operator::$operator { .. } => is_threads!($proposal),)*
                _ => false,
            }
        };
    }
    wasmparser::for_each_operator!(find)
}

/// The name of an instruction, for an error: `I32AtomicLoad`. Its fields, which are this compiler's own matter, are left out.
pub(crate) fn operator_name(operator: &Operator<'_>) -> String {
    let shown = format!("{operator:?}");
    let end = shown.find([' ', '(', '{']).unwrap_or(shown.len());
    shown[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use wasmparser::MemArg;

    use super::*;

    #[test]
    fn atomic_operators_are_of_threads_and_plain_ones_are_not() {
        let memarg = MemArg {
            align: 2,
            max_align: 2,
            offset: 0,
            memory: 0,
        };
        assert!(is_of_threads(&Operator::AtomicFence));
        assert!(is_of_threads(&Operator::I64AtomicRmw32CmpxchgU { memarg }));
        assert!(is_of_threads(&Operator::MemoryAtomicNotify { memarg }));
        assert!(!is_of_threads(&Operator::I32Load { memarg }));
        assert!(!is_of_threads(&Operator::V128Not));
        assert_eq!(operator_name(&Operator::I32Load { memarg }), "I32Load");
        assert_eq!(operator_name(&Operator::V128Not), "V128Not");
    }
}
