//! The values of constant expressions, once the imported globals are known.

use crate::compiled::Compiled;
use crate::facts::module::{Constant, Step};

impl Compiled {
    /// The values of all globals, given those of the imported ones.
    pub(super) fn globals(&self, imported: &[u128]) -> Vec<u128> {
        let mut values = imported.to_vec();
        for global in &self.module.globals[imported.len()..] {
            let init = global.init.expect("only imports have no initial value");
            values.push(self.value(init, &values));
        }
        values
    }

    pub(super) fn value(&self, constant: Constant, globals: &[u128]) -> u128 {
        match constant {
            Constant::Bits(bits) => bits,
            Constant::Global(global) => globals[global as usize],
            Constant::Function(function) => self.reference(function).into(),
            Constant::Computed(number) => self.computed(number, globals),
        }
    }

    /// The value of an expression of more than one instruction, which has been validated.
    fn computed(&self, number: u32, globals: &[u128]) -> u128 {
        let mut stack: Vec<u64> = Vec::new();
        let pop = |stack: &mut Vec<u64>| stack.pop().expect("there is an operand");
        for step in &self.module.computed[number as usize] {
            let (bits, result) = match *step {
                Step::Push(constant) => (64, self.value(constant, globals) as u64),
                Step::Add(bits) => {
                    let (b, a) = (pop(&mut stack), pop(&mut stack));
                    (bits, a.wrapping_add(b))
                }
                Step::Sub(bits) => {
                    let (b, a) = (pop(&mut stack), pop(&mut stack));
                    (bits, a.wrapping_sub(b))
                }
                Step::Mul(bits) => {
                    let (b, a) = (pop(&mut stack), pop(&mut stack));
                    (bits, a.wrapping_mul(b))
                }
            };
            stack.push(result & (u64::MAX >> (64 - bits)));
        }
        pop(&mut stack).into()
    }
}
