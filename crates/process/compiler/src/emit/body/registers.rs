//! The registers, predicates and labels of a function, each named once.

use crate::text::{Label, Pred, Reg};

/// How many names of each kind a function has taken.
///
/// Registers are handed out in ascending order, and those of the locals come first. Only locals, the results of blocks
/// and the parameters of loops are assigned more than once.
#[derive(Default)]
pub(super) struct Registers {
    pub(super) narrow: u32,
    pub(super) wide: u32,
    pub(super) preds: u32,
    labels: u32,
    /// Registers below these numbers, narrow and wide, are locals.
    locals: (u32, u32),
}

impl Registers {
    /// A register that no instruction uses yet.
    pub(super) fn fresh(&mut self, wide: bool) -> Reg {
        let count = if wide {
            &mut self.wide
        } else {
            &mut self.narrow
        };
        *count += 1;
        let index = *count - 1;
        Reg { wide, index }
    }

    pub(super) fn fresh_pred(&mut self) -> Pred {
        self.preds += 1;
        Pred(self.preds - 1)
    }

    pub(super) fn fresh_label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// All registers that have been handed out so far are locals.
    pub(super) fn end_locals(&mut self) {
        self.locals = (self.narrow, self.wide);
    }

    pub(super) fn is_local(&self, reg: Reg) -> bool {
        let bound = if reg.wide {
            self.locals.1
        } else {
            self.locals.0
        };
        reg.index < bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_handed_out_once_and_locals_come_first() {
        let mut registers = Registers::default();
        let local = registers.fresh(true);
        registers.end_locals();
        let (narrow, wide) = (registers.fresh(false), registers.fresh(true));
        assert!(registers.is_local(local));
        assert!(!registers.is_local(narrow) && !registers.is_local(wide));
        assert_ne!(local, wide);
        assert_ne!(registers.fresh_label(), registers.fresh_label());
        assert_ne!(registers.fresh_pred(), registers.fresh_pred());
        assert_eq!(
            (registers.narrow, registers.wide, registers.preds),
            (1, 2, 2)
        );
    }
}
