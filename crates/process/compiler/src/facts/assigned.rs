//! Which locals a function assigns.

use wasmparser::{FunctionBody, Operator};

/// For each of the function's `locals` whether an operator assigns it. `None` if an operator cannot be read: the
/// validator reports that.
pub(crate) fn assigned(body: &FunctionBody<'_>, locals: usize) -> Option<Vec<bool>> {
    let mut assigned = vec![false; locals];
    let mut operators = body.get_operators_reader().ok()?;
    while !operators.eof() {
        match operators.read().ok()? {
            Operator::LocalSet { local_index: local }
            | Operator::LocalTee { local_index: local } => {
                // The index may be too large, because the body has not been validated yet.
                if let Some(assigned) = assigned.get_mut(local as usize) {
                    *assigned = true;
                }
            }
            _ => {}
        }
    }
    Some(assigned)
}
