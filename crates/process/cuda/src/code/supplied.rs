//! Functions that come while processes run.

use std::collections::BTreeSet;
use std::sync::Arc;

use everwarp_runtime::{Addition, LinkedPart};

use crate::code::{BRIDGE_FRAME, LoadedCode};
use crate::partial::{Apart, Batch, Made};

/// Functions of a module that the engine is to have.
pub(crate) struct Supplied {
    pub(crate) code: Arc<LoadedCode>,
    pub(crate) functions: BTreeSet<u32>,
    pub(crate) made: Made,
}

/// The next image has these batches.
pub(super) fn add_to_parts(batches: &[Supplied]) {
    for supplied in batches {
        let batch = || Batch {
            functions: supplied.functions.clone(),
            part: supplied.made.part.clone(),
        };
        let partial = supplied.code.partial.iter();
        partial.for_each(|p| p.add(batch()));
    }
}

/// The engine has not got them.
pub(super) fn take_back_from_parts(batches: &[Supplied]) {
    for supplied in batches {
        let partial = supplied.code.partial.iter();
        partial.for_each(|p| p.take_back(&supplied.functions));
    }
}

/// Batches as code that is loaded next to an image.
pub(super) fn addition(batches: Vec<(&LoadedCode, &BTreeSet<u32>, LinkedPart, Apart)>) -> Addition {
    let mut addition = Addition {
        bridge_bytes: BRIDGE_FRAME,
        ..Addition::default()
    };
    for (code, functions, part, apart) in batches {
        addition.parts.extend([part, apart.part]);
        addition.gives.push(apart.gives);
        addition.takes.push(apart.takes);
        let prefix = &code.module.prefix;
        let names = functions.iter().map(|f| format!("{prefix}f{f}").into());
        addition.functions.extend(names);
    }
    addition
}
