//! How much of the device's stack calls take, from the graph of calls and the frames that the machine code declares.

use std::collections::BTreeMap;

use crate::emit::indirect::groups_passed;
use crate::facts::calls::CallGraph;
use crate::facts::chains::{Chains, Takes};
use crate::facts::referenced::Referenced;

/// What a frame counts at least.
const FRAME_LEAST: u32 = 16;
/// The deepest that calls may nest, however small their frames are.
pub(crate) const DEPTH_MOST: u32 = 1 << 16;

/// What the calls of a module take of the device's stack.
#[derive(Clone, Debug)]
pub struct StackNeed {
    chains: Chains,
    /// Bytes of `enter`, of what it calls to run a part of deep calls, and of a helper.
    ends: u64,
    deep: bool,
}

impl StackNeed {
    /// `frames` have the names of the module's functions, without their prefix.
    pub(crate) fn new<'n>(
        graph: &CallGraph,
        referenced: &Referenced,
        frames: impl Iterator<Item = (&'n str, u32)>,
        deep: bool,
    ) -> Self {
        // A name may be there more than once.
        let (mut functions, mut between, mut others) = (BTreeMap::new(), BTreeMap::new(), 0);
        let mut largest = FRAME_LEAST;
        for (name, bytes) in frames {
            let bytes = bytes.max(FRAME_LEAST);
            largest = largest.max(bytes);
            let most = match Name::of(name) {
                Name::Function(f) => functions.entry(f).or_insert(0),
                Name::Indirect(ty) => between.entry(ty).or_insert(0),
                Name::Other => &mut others,
            };
            *most = bytes.max(*most);
        }
        // What the machine code does not name may be as large as what it does.
        let known = |found: Option<&u32>| u64::from(found.copied().unwrap_or(largest));
        let takes = Takes {
            function: |f: u32| known(functions.get(&f)),
            between: |ty: u32| {
                let passed = 1 + groups_passed(referenced.list(ty).len());
                known(between.get(&ty)) * u64::from(passed)
            },
            // The function that stands for one that tail calls, and the trampoline.
            trampoline: 2 * u64::from(largest),
        };
        Self {
            chains: Chains::new(graph, referenced, &takes),
            ends: if deep { 4 } else { 2 } * u64::from(others.max(FRAME_LEAST)),
            deep,
        }
    }

    /// The most bytes that calls take which nest this deep.
    pub fn bytes(&self, depth: u32) -> u64 {
        // One more than the depth: a function that calls nothing does not count.
        let chain = self.chains.most(u64::from(depth) + 1);
        chain.saturating_add(self.ends)
    }

    /// Whether calls nest deeper than the stack, because frames are moved to memory
    /// ([`CompileOptions::deep`](crate::CompileOptions::deep)), or never nest without end.
    pub fn is_bounded(&self) -> bool {
        self.deep || self.chains.end()
    }

    /// Whether frames that the stack does not hold are moved to memory.
    pub fn is_deep(&self) -> bool {
        self.deep
    }

    /// How deep calls may nest on a stack of this many bytes; `None` if not even an entry fits.
    pub fn depth(&self, stack: u64) -> Option<u32> {
        let chain = stack.checked_sub(self.ends)?;
        let functions = self.chains.longest(chain, DEPTH_MOST + 1);
        functions.checked_sub(1)
    }
}

/// What a function of the image is, by its name after the prefix.
enum Name {
    /// The code of a function of the module.
    Function(u32),
    /// It makes indirect calls of a canonical type, all of them or a group.
    Indirect(u32),
    /// A helper, an entry, or a trampoline.
    Other,
}

impl Name {
    fn of(name: &str) -> Self {
        let number = |text: &str| text.parse().ok();
        let found = match name.split_at_checked(1) {
            Some(("f" | "t", number_of)) => number(number_of).map(Self::Function),
            Some(("i", rest)) => rest
                .split_once('_')
                .and_then(|(ty, _)| number(ty))
                .map(Self::Indirect),
            _ => None,
        };
        found.unwrap_or(Self::Other)
    }
}
