//! The functions that references may name.

use std::collections::BTreeMap;

use crate::facts::abi;
use crate::facts::module::{Constant, Module};

/// Functions that references may name, by their canonical type, in ascending order. A function's place
/// in its list is its number in a reference.
#[derive(Debug, Default)]
pub(crate) struct Referenced(BTreeMap<u32, Vec<u32>>);

impl Referenced {
    pub(crate) fn new(module: &Module) -> Self {
        let items = module.elements.iter().flat_map(|e| e.items.iter().copied());
        let globals = module.globals.iter().filter_map(|g| g.init);
        let named = items.chain(globals).filter_map(|c| match c {
            Constant::Function(f) => Some(f),
            _ => None,
        });
        // Code may take references to exported functions as well.
        let mut functions: Vec<u32> = named.chain(module.entries()).collect();
        functions.sort_unstable();
        functions.dedup();
        let mut lists: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for f in functions {
            lists.entry(module.canonical_type(f)).or_default().push(f);
        }
        Self(lists)
    }

    /// The functions of a canonical type that references may name.
    pub(crate) fn list(&self, ty: u32) -> &[u32] {
        self.0.get(&ty).map_or(&[], Vec::as_slice)
    }

    /// The reference to a function.
    pub(crate) fn reference(&self, module: &Module, function: u32) -> u64 {
        let ty = module.canonical_type(function);
        let place = self.list(ty).binary_search(&function);
        let place = place.expect("validated code refers to declared functions only");
        abi::reference(ty, place as u32)
    }

    /// The function that a reference names.
    pub(crate) fn function(&self, reference: u64) -> Option<u32> {
        let place = (reference as u32).checked_sub(1)?;
        let list = self.list((reference >> 32) as u32);
        list.get(place as usize).copied()
    }
}
