//! The functions that an image of a module may lack, in batches that are assembled and come together, and how far each batch is.
//!
//! Batches are chosen when the module is compiled, from the module alone, and not from what processes ask for. So a batch has the
//! same text, and the same place in the cache, in each program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everwarp_hostcalls::FunctionState;

/// How far a batch is. It goes from each state to a later one; a batch that cannot be had is divided, if it has several functions,
/// or unavailable.
#[derive(Debug)]
enum State<P> {
    Absent,
    /// A thread assembles it.
    InWork,
    /// It is assembled: what is linked.
    Ready(P),
    /// The engine has it.
    Present,
    /// Each of its functions is in a batch of its own.
    Divided,
    Unavailable(Arc<str>),
}

#[derive(Debug)]
struct Entry<P> {
    functions: BTreeSet<u32>,
    state: State<P>,
}

/// Why a batch is assembled; the most urgent reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Processes wait for a function.
    Asked,
    /// Functions that processes wait for call one of these.
    Near,
    /// There is nothing else to do.
    Idle,
}

impl Reason {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Asked, Self::Near, Self::Idle];
    /// Those for which processes wait, or are likely to wait soon.
    pub(crate) const AWAITED: [Self; 2] = [Self::Asked, Self::Near];
}

/// How much of a module is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Functions that images may lack.
    pub(crate) left_out: usize,
    /// Of them, those that are assembled.
    pub(crate) assembled: usize,
    /// Of them, those that the engine has.
    pub(crate) present: usize,
}

impl Counts {
    /// The sum.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            left_out: self.left_out + other.left_out,
            assembled: self.assembled + other.assembled,
            present: self.present + other.present,
        }
    }
}

/// The batches of a module.
#[derive(Debug)]
pub(crate) struct Batches<P> {
    batches: Vec<Entry<P>>,
    /// For each function its batch.
    of: BTreeMap<u32, usize>,
    /// Functions that processes wait for and that are neither present nor unavailable.
    wanted: BTreeSet<u32>,
    /// Batches with functions that those call, which processes are likely to ask for next.
    near: BTreeSet<usize>,
    /// Batches are assembled that no process has asked for.
    unasked: bool,
    /// Some of what the engine has is next to its image.
    apart: bool,
    /// An image with everything is linked.
    linked: bool,
}

impl<P: Clone> Batches<P> {
    /// Batches with these functions, those first that are assembled first. The engine has the functions in `present`. `unasked`:
    /// batches are assembled that no process has asked for.
    pub(crate) fn new(
        batches: impl IntoIterator<Item = BTreeSet<u32>>,
        present: &BTreeSet<u32>,
        unasked: bool,
    ) -> Self {
        let batch = |functions: BTreeSet<u32>| Entry {
            state: match functions.is_subset(present) {
                true => State::Present,
                false => State::Absent,
            },
            functions,
        };
        let batches: Vec<_> = batches.into_iter().map(batch).collect();
        let numbered = (0..).zip(&batches);
        let of = numbered.flat_map(|(n, batch)| batch.functions.iter().map(move |f| (*f, n)));
        Self {
            of: of.collect(),
            batches,
            wanted: BTreeSet::new(),
            near: BTreeSet::new(),
            unasked,
            apart: false,
            linked: false,
        }
    }

    /// The state of a function, which is wanted from now on if it is neither present nor unavailable. Says as well whether it has
    /// not been wanted before.
    pub(crate) fn ask(&mut self, function: u32) -> (FunctionState, bool) {
        let state = self.of.get(&function).map(|n| &self.batches[*n].state);
        match state {
            // No code of the module asks for it.
            None | Some(State::Unavailable(_)) => (FunctionState::Unavailable, false),
            Some(State::Present) => (FunctionState::Present, false),
            Some(_) => (FunctionState::Awaited, self.wanted.insert(function)),
        }
    }

    /// Why a function cannot be had.
    pub(crate) fn reason(&self, function: u32) -> Option<Arc<str>> {
        match &self.batches[*self.of.get(&function)?].state {
            State::Unavailable(reason) => Some(Arc::clone(reason)),
            _ => None,
        }
    }

    /// Processes are likely to ask for these functions next.
    pub(crate) fn expect(&mut self, functions: &BTreeSet<u32>) {
        let near = functions
            .iter()
            .filter_map(|function| self.of.get(function));
        self.near.extend(near);
    }

    /// The next batch to assemble for a reason, with its functions. It is in work from now on.
    pub(crate) fn take(&mut self, reason: Reason) -> Option<(usize, BTreeSet<u32>)> {
        let absent = |n: &usize| matches!(self.batches[*n].state, State::Absent);
        let number = match reason {
            Reason::Asked => self.wanted.iter().map(|f| self.of[f]).find(absent),
            Reason::Near => self.near.iter().copied().find(absent),
            Reason::Idle if self.unasked => (0..self.batches.len()).find(absent),
            Reason::Idle => None,
        }?;
        self.batches[number].state = State::InWork;
        Some((number, self.batches[number].functions.clone()))
    }

    /// A batch is assembled.
    pub(crate) fn assembled(&mut self, number: usize, part: P) {
        self.batches[number].state = State::Ready(part);
    }

    /// A batch cannot be assembled or loaded. Its functions are tried one by one; a single one is unavailable.
    pub(crate) fn fail(&mut self, number: usize, reason: &str) {
        let batch = &mut self.batches[number];
        if let [function] = batch.functions.iter().copied().collect::<Vec<_>>()[..] {
            batch.state = State::Unavailable(reason.into());
            self.wanted.remove(&function);
            return;
        }
        batch.state = State::Divided;
        for function in std::mem::take(&mut batch.functions) {
            self.of.insert(function, self.batches.len());
            self.batches.push(Entry {
                functions: [function].into(),
                state: State::Absent,
            });
        }
    }

    /// Whether batches are to be loaded: one is ready that processes wait for.
    pub(crate) fn is_due(&self) -> bool {
        let mut wanted = self.wanted.iter().map(|f| &self.batches[self.of[f]]);
        wanted.any(|batch| matches!(batch.state, State::Ready(_)))
    }

    /// Whether nothing is to come any more.
    pub(crate) fn is_complete(&self) -> bool {
        let to_come = |batch: &Entry<P>| matches!(batch.state, State::Absent | State::InWork);
        !self.batches.iter().any(to_come)
    }

    /// Whether processes wait for one of these functions.
    pub(crate) fn is_wanted(&self, functions: &BTreeSet<u32>) -> bool {
        !self.wanted.is_disjoint(functions)
    }

    /// The batches that are assembled and that the engine lacks.
    pub(crate) fn ready(&self) -> Vec<(usize, BTreeSet<u32>, P)> {
        let ready = |(n, batch): (usize, &Entry<P>)| match &batch.state {
            State::Ready(part) => Some((n, batch.functions.clone(), part.clone())),
            _ => None,
        };
        (0..).zip(&self.batches).filter_map(ready).collect()
    }

    /// An image with everything is linked.
    pub(crate) fn linked(&mut self) {
        self.linked = true;
    }

    /// Whether there is something next to the image, and no image with everything.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart && !self.linked
    }

    /// The engine has this batch, next to its image or in it.
    pub(crate) fn arrived(&mut self, number: usize, apart: bool) {
        self.apart |= apart;
        let batch = &mut self.batches[number];
        batch.state = State::Present;
        self.wanted.retain(|f| !batch.functions.contains(f));
        self.near.remove(&number);
    }

    /// How much there is.
    pub(crate) fn counts(&self) -> Counts {
        let count = |is: fn(&State<P>) -> bool| -> usize {
            let batches = self.batches.iter().filter(|batch| is(&batch.state));
            batches.map(|batch| batch.functions.len()).sum()
        };
        Counts {
            left_out: self.of.len(),
            assembled: count(|state| matches!(state, State::Ready(_) | State::Present)),
            present: count(|state| matches!(state, State::Present)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(functions: &[u32]) -> BTreeSet<u32> {
        functions.iter().copied().collect()
    }

    fn batches(lists: &[&[u32]], present: &[u32], unasked: bool) -> Batches<&'static str> {
        let lists = lists.iter().map(|functions| set(functions));
        Batches::new(lists, &set(present), unasked)
    }

    fn ready(batches: &Batches<&'static str>) -> Vec<usize> {
        batches.ready().into_iter().map(|(n, ..)| n).collect()
    }

    #[test]
    fn a_function_is_wanted_once_until_it_comes() {
        let mut batches = batches(&[&[1, 2], &[3], &[4]], &[4], false);
        assert_eq!(batches.ask(2), (FunctionState::Awaited, true));
        assert_eq!(batches.ask(2), (FunctionState::Awaited, false));
        assert_eq!(batches.ask(4), (FunctionState::Present, false));
        assert_eq!(batches.ask(9), (FunctionState::Unavailable, false));
        let taken = batches.take(Reason::Asked);
        assert_eq!(taken, Some((0, set(&[1, 2]))));
        assert_eq!(batches.take(Reason::Asked), None, "it is in work");
        assert!(!batches.is_due());
        batches.assembled(0, "code");
        assert!(batches.is_due());
        assert_eq!(batches.ready(), [(0, set(&[1, 2]), "code")]);
        assert_eq!(batches.ask(1), (FunctionState::Awaited, true));
        batches.arrived(0, false);
        assert_eq!(batches.ask(1), (FunctionState::Present, false));
        assert!(!batches.is_due() && batches.ready().is_empty());
        let counts = batches.counts();
        assert_eq!((counts.left_out, counts.present), (4, 3));
    }

    #[test]
    fn what_is_asked_for_comes_before_what_is_near_and_that_before_the_rest() {
        let mut batches = batches(&[&[1], &[2], &[3], &[4]], &[], true);
        batches.ask(3);
        batches.expect(&set(&[4, 9]));
        let mut order = Vec::new();
        while let Some((n, _)) = Reason::ALL.iter().find_map(|reason| batches.take(*reason)) {
            order.push(n);
        }
        assert_eq!(order, [2, 3, 0, 1]);
        let mut asked = self::batches(&[&[1]], &[], false);
        assert_eq!(asked.take(Reason::Idle), None, "no process has asked");
    }

    #[test]
    fn an_exchange_brings_all_that_is_ready_as_soon_as_a_process_waits_for_some_of_it() {
        let mut batches = batches(&[&[1], &[2], &[3]], &[], true);
        for reason in [Reason::Idle; 2] {
            let (n, _) = batches.take(reason).expect("there is more");
            batches.assembled(n, "code");
        }
        assert!(!batches.is_due(), "no process waits");
        batches.ask(3);
        let (third, _) = batches.take(Reason::Asked).expect("it is absent");
        assert!(!batches.is_due(), "what is ready is not waited for");
        batches.ask(1);
        assert!(batches.is_due(), "whatever else is waited for");
        assert_eq!(ready(&batches), [0, 1]);
        batches.arrived(0, false);
        batches.arrived(1, false);
        assert!(!batches.is_due());
        batches.assembled(third, "code");
        assert!(batches.is_due());
    }

    #[test]
    fn all_that_will_come_has_come_when_none_is_absent_or_in_work() {
        let mut batches = batches(&[&[1], &[2]], &[1], true);
        assert!(!batches.is_complete() && !batches.is_apart());
        let (second, _) = batches.take(Reason::Idle).expect("it is absent");
        assert!(!batches.is_complete());
        batches.assembled(second, "code");
        assert!(batches.is_complete());
        batches.arrived(second, true);
        assert!(batches.is_complete() && batches.is_apart());
        batches.linked();
        assert!(!batches.is_apart());
    }

    #[test]
    fn a_function_that_cannot_be_had_fails_alone() {
        let mut batches = batches(&[&[1, 2, 3]], &[], false);
        for function in [1, 2] {
            batches.ask(function);
        }
        let (whole, _) = batches.take(Reason::Asked).expect("it is absent");
        batches.fail(whole, "too long");
        assert!(!batches.is_due() && batches.ready().is_empty());
        let (first, functions) = batches.take(Reason::Asked).expect("it is absent");
        assert_eq!(functions, set(&[1]));
        let (second, functions) = batches.take(Reason::Asked).expect("it is absent");
        assert_eq!(functions, set(&[2]));
        assert_eq!(batches.take(Reason::Asked), None, "the third is not wanted");
        batches.fail(first, "too long");
        assert_eq!(batches.ask(1), (FunctionState::Unavailable, false));
        assert_eq!(batches.reason(1).as_deref(), Some("too long"));
        assert_eq!(batches.reason(2), None);
        batches.assembled(second, "code");
        assert!(batches.is_due());
        batches.arrived(second, false);
        assert_eq!(batches.ask(2), (FunctionState::Present, false));
        assert_eq!(batches.counts().present, 1);
    }
}
