//! Which functions may be suspended, and how much their frames take.
//!
//! This is found before any code is emitted, from the operators alone: a call costs more where its callee may suspend, and
//! only there.

use std::collections::BTreeSet;

use wasmparser::{FunctionBody, Operator};

use crate::facts::module::Module;
use crate::facts::options::{CompileOptions, ImportAction, ProvidedImport};
use crate::facts::referenced::Referenced;

/// What a function's operators call, dead ones included. The body may not be valid.
#[derive(Default)]
struct Calls {
    direct: BTreeSet<u32>,
    /// Canonical types.
    indirect: BTreeSet<u32>,
    loops: bool,
}

impl Calls {
    fn read(module: &Module, body: &FunctionBody<'_>) -> Self {
        let mut calls = Self::default();
        let Ok(mut operators) = body.get_operators_reader() else {
            return calls;
        };
        // The validator reports what cannot be read.
        while let Ok(operator) = operators.read() {
            match operator {
                Operator::Loop { .. } => calls.loops = true,
                Operator::Call { function_index: f }
                | Operator::ReturnCall { function_index: f }
                    if (f as usize) < module.functions.len() =>
                {
                    calls.direct.insert(f);
                }
                Operator::MemoryAtomicWait32 { .. } | Operator::MemoryAtomicWait64 { .. } => {
                    calls.direct.extend(module.waiting.wait);
                }
                Operator::MemoryAtomicNotify { .. } => {
                    calls.direct.extend(module.waiting.notify);
                }
                Operator::CallIndirect { type_index, .. }
                | Operator::ReturnCallIndirect { type_index, .. } => {
                    calls
                        .indirect
                        .extend(module.canonical.get(type_index as usize));
                }
                _ => {}
            }
            if operators.eof() {
                break;
            }
        }
        calls
    }
}

/// The functions of a module that may be suspended.
pub(crate) struct Suspending {
    functions: Vec<bool>,
    /// Canonical types: an indirect call of such a type may reach one of these functions.
    types: BTreeSet<u32>,
    /// Every safepoint may suspend.
    pub(crate) preempt: bool,
    calls: Vec<Calls>,
}

impl Suspending {
    /// None if the module is not to be suspended.
    pub(crate) fn new<'b>(
        module: &Module,
        referenced: &Referenced,
        options: &CompileOptions,
        actions: &[ImportAction<'_>],
        bodies: impl Iterator<Item = &'b FunctionBody<'b>>,
        waiting: &[&ProvidedImport],
    ) -> Option<Self> {
        if !options.suspendable && !options.preempt {
            return None;
        }
        let mut calls: Vec<_> = actions.iter().map(|_| Calls::default()).collect();
        calls.extend(bodies.map(|body| Calls::read(module, body)));
        let own = calls.len();
        calls.extend(waiting.iter().map(|_| Calls::default()));
        let action = |f: usize| match f.checked_sub(own) {
            Some(f) => Some(ImportAction::Call(waiting[f])),
            None => actions.get(f).copied(),
        };
        let by_itself = |(f, calls): (usize, &Calls)| match action(f) {
            Some(ImportAction::Call(provided)) => provided.suspends || options.preempt,
            Some(_) => false,
            None => {
                let calls_others = !calls.direct.is_empty() || !calls.indirect.is_empty();
                options.preempt && (calls.loops || calls_others)
            }
        };
        let mut this = Self {
            functions: calls.iter().enumerate().map(by_itself).collect(),
            types: BTreeSet::new(),
            preempt: options.preempt,
            calls,
        };
        this.spread(module, referenced);
        Some(this)
    }

    /// A function that calls one of them is one of them.
    fn spread(&mut self, module: &Module, referenced: &Referenced) {
        let mut callers = vec![Vec::new(); self.functions.len()];
        for (caller, calls) in self.calls.iter().enumerate() {
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
                let calls = self.calls.iter().enumerate();
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
    pub(crate) fn need(&self, referenced: &Referenced, frames: &[usize]) -> SaveNeed {
        let called = |calls: &Calls| !calls.indirect.is_disjoint(&self.types);
        let indirect = self.calls.iter().any(called);
        let between = if indirect { INDIRECT_FRAME } else { 0 };
        let largest = frames.iter().max().copied().unwrap_or(0);
        let mut paths = vec![Path::Unknown; frames.len()];
        let longest = (0..frames.len() as u32).try_fold(0, |longest: u64, f| {
            let path = self.path(referenced, frames, &mut paths, f)?;
            Some(longest.max(path))
        });
        SaveNeed {
            largest: (largest + between) as u64,
            longest,
        }
    }

    /// The most that is saved when this function is the outermost; none if calls can go in a circle.
    fn path(
        &self,
        referenced: &Referenced,
        frames: &[usize],
        paths: &mut [Path],
        function: u32,
    ) -> Option<u64> {
        // A stack of its own, because a module may nest calls as deep as it likes: a function, whether
        // its callees are done, and what the longest of them takes is in `paths`.
        let callees = |f: u32| {
            let calls = &self.calls[f as usize];
            let direct = calls.direct.iter().map(|&f| (f, 0));
            let indirect = calls.indirect.iter().flat_map(|&ty| {
                let list = referenced.list(ty).iter();
                list.map(|&f| (f, INDIRECT_FRAME as u64))
            });
            let all: Vec<_> = direct.chain(indirect).collect();
            all.into_iter().filter(|&(f, _)| self.function(f))
        };
        if !self.function(function) {
            return Some(0);
        }
        let mut work = vec![(function, false)];
        while let Some((f, done)) = work.pop() {
            if done {
                let below = callees(f).map(|(c, between)| match paths[c as usize] {
                    Path::Known(bytes) => bytes + between,
                    _ => 0,
                });
                let below = below.max().unwrap_or(0);
                paths[f as usize] = Path::Known(below + frames[f as usize] as u64);
                continue;
            }
            match paths[f as usize] {
                Path::Known(_) => continue,
                Path::Open => return None,
                Path::Unknown => {}
            }
            paths[f as usize] = Path::Open;
            work.push((f, true));
            for (callee, _) in callees(f) {
                match paths[callee as usize] {
                    Path::Open => return None,
                    Path::Known(_) => {}
                    Path::Unknown => work.push((callee, false)),
                }
            }
        }
        match paths[function as usize] {
            Path::Known(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// What is known of the longest chain of calls from a function on.
#[derive(Clone, Copy)]
enum Path {
    Unknown,
    /// It is being looked at, so a call of it closes a circle.
    Open,
    Known(u64),
}

/// Bytes that the function of an indirect call saves: which function it has called.
pub(crate) const INDIRECT_FRAME: usize = 8;

/// How much a module's save area must hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SaveNeed {
    /// The largest frame, with that of an indirect call if there are any.
    pub(crate) largest: u64,
    /// The frames of the longest chain of calls, if no calls go in a circle.
    pub(crate) longest: Option<u64>,
}
