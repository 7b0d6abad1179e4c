//! Which functions may be suspended, and how much their frames take.
//!
//! This is found before any code is emitted, from the operators alone: a call costs more where its callee may suspend, and
//! only there.

use std::collections::BTreeSet;

use crate::facts::calls::{CallGraph, Calls};
use crate::facts::chains::{Chains, Takes};
use crate::facts::module::Module;
use crate::facts::options::{CompileOptions, ImportAction, ProvidedImport};
use crate::facts::referenced::Referenced;

/// The functions of a module that may be suspended.
pub(crate) struct Suspending {
    functions: Vec<bool>,
    /// Canonical types: an indirect call of such a type may reach one of these functions.
    types: BTreeSet<u32>,
    /// Every safepoint may suspend.
    pub(crate) preempt: bool,
}

impl Suspending {
    /// None if the module is not to be suspended.
    pub(crate) fn new(
        module: &Module,
        referenced: &Referenced,
        options: &CompileOptions,
        actions: &[ImportAction<'_>],
        waiting: &[&ProvidedImport],
        graph: &CallGraph,
    ) -> Option<Self> {
        if !options.suspendable && !options.preempt {
            return None;
        }
        let own = graph.functions.len() - waiting.len();
        let action = |f: usize| match f.checked_sub(own) {
            Some(f) => Some(ImportAction::Call(waiting[f])),
            None => actions.get(f).copied(),
        };
        let by_itself = |(f, calls): (usize, &Calls)| match action(f) {
            Some(ImportAction::Call(provided)) => provided.suspends || options.preempt,
            Some(_) => false,
            None => options.preempt && (calls.loops || !calls.none()),
        };
        let all = graph.functions.iter().enumerate();
        let mut this = Self {
            functions: all.map(by_itself).collect(),
            types: BTreeSet::new(),
            preempt: options.preempt,
        };
        this.spread(module, referenced, graph);
        Some(this)
    }

    /// A function that calls one of them is one of them.
    fn spread(&mut self, module: &Module, referenced: &Referenced, graph: &CallGraph) {
        let mut callers = vec![Vec::new(); self.functions.len()];
        for (caller, calls) in graph.functions.iter().enumerate() {
            for &callee in &calls.direct {
                callers[callee as usize].push(caller);
            }
        }
        let found = (0..self.functions.len()).filter(|&f| self.functions[f]);
        let mut work: Vec<usize> = found.collect();
        while let Some(function) = work.pop() {
            let mut new = callers[function].clone();
            let ty = module.canonical_type(function as u32);
            if referenced.list(ty).contains(&(function as u32)) && self.types.insert(ty) {
                let calls = graph.functions.iter().enumerate();
                let indirect = calls.filter(|(_, c)| c.indirect.contains(&ty));
                new.extend(indirect.map(|(caller, _)| caller));
            }
            for caller in new {
                if !self.functions[caller] {
                    self.functions[caller] = true;
                    work.push(caller);
                }
            }
        }
    }

    /// Whether a function may be suspended.
    pub(crate) fn function(&self, function: u32) -> bool {
        self.functions[function as usize]
    }

    /// Whether an indirect call of this canonical type may be.
    pub(crate) fn indirect(&self, ty: u32) -> bool {
        self.types.contains(&ty)
    }

    /// What the frames of all functions on a stack take at most, given each one's frame.
    pub(crate) fn need(
        &self,
        graph: &CallGraph,
        referenced: &Referenced,
        frames: &[usize],
    ) -> SaveNeed {
        let called = |calls: &Calls| !calls.indirect.is_disjoint(&self.types);
        let between = |saves: bool| if saves { INDIRECT_FRAME } else { 0 };
        let indirect = between(graph.functions.iter().any(called));
        let largest = frames.iter().max().copied().unwrap_or(0);
        let takes = Takes {
            function: |f: u32| frames[f as usize] as u64,
            between: |ty| between(self.indirect(ty)) as u64,
            trampoline: INDIRECT_FRAME as u64,
        };
        SaveNeed {
            largest: (largest + indirect) as u64,
            chains: Chains::new(graph, referenced, &takes),
        }
    }
}

/// Bytes that the function of an indirect call saves: which function it has called.
pub(crate) const INDIRECT_FRAME: usize = 8;

/// How much a module's save area must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct SaveNeed {
    /// The largest frame, with that of an indirect call if there are any.
    pub(crate) largest: u64,
    /// The frames of chains of calls.
    pub(crate) chains: Chains,
}
