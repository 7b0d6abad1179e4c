//! Names for people: of functions, from the name section or else from exports.

use std::collections::HashMap;

use wasmparser::{Name, NameSectionReader};

use crate::facts::module::{Export, Module};
use crate::facts::module::{Import, ImportKind};

/// Reads function names. The section is only for debugging, so what is malformed in it is left out.
pub(crate) fn read(section: NameSectionReader<'_>, names: &mut HashMap<u32, String>) {
    for subsection in section {
        let Ok(Name::Function(map)) = subsection else {
            continue;
        };
        for naming in map.into_iter().flatten() {
            names.insert(naming.index, naming.name.to_owned());
        }
    }
}

/// The name of each function, where one is known.
pub(crate) fn functions(module: &Module) -> Vec<Option<String>> {
    let mut names: Vec<_> = (0..module.functions.len() as u32)
        .map(|f| module.names.get(&f).cloned())
        .collect();
    for (name, export) in &module.exports {
        if let Export::Function(f) = export {
            names[*f as usize].get_or_insert_with(|| name.clone());
        }
    }
    for (name, import) in names.iter_mut().zip(function_imports(module)) {
        name.get_or_insert_with(|| format!("{}.{}", import.module, import.name));
    }
    names
}

/// The imports that are functions, in the order of the function index space.
pub(crate) fn function_imports(module: &Module) -> impl Iterator<Item = &Import> {
    let is_function = |i: &&Import| matches!(i.kind, ImportKind::Function(_));
    module.imports.iter().filter(is_function)
}
