//! The thread that compiles the functions which processes have asked for, and exchanges the image.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use everwarp_process::StartError;
use everwarp_runtime::{EngineError, Error, LinkedEngine};

use crate::code::LoadedCode;
use crate::error::system;
use crate::partial::Round;
use crate::resident::{Residency, ResidentProcesses};
use crate::wishes::{Wish, Wishes};

/// Exchanges are this many times as far apart as the last one paused the engine: so they take 5 % of the time at most. Wishes
/// gather meanwhile.
const APART: u32 = 20;

/// When an image is exchanged that could not be, because the engine was parked for something else.
const PARKED: Duration = Duration::from_millis(5);

/// Functions that are compiled, assembled and exchanged together.
#[derive(Clone)]
struct Attempt<M = Arc<LoadedCode>> {
    wishes: Vec<Wish<M>>,
    /// With the functions that they call.
    callees: bool,
}

impl<M: Clone> Attempt<M> {
    /// All functions that were asked for.
    fn of(wishes: Vec<Wish<M>>) -> Self {
        Self {
            wishes,
            callees: true,
        }
    }

    /// What to attempt after a failure: each function alone, then without those that it calls, so that a function that cannot
    /// be had fails alone. Nothing is left to attempt for a single function.
    fn smaller(&self) -> Vec<Self> {
        let functions = self.wishes.iter().map(|wish| wish.functions.len());
        let alone = functions.sum::<usize>() == 1;
        if alone && !self.callees {
            return Vec::new();
        }
        let wishes = self.wishes.iter().flat_map(|wish| {
            let of = |function: &u32| Wish {
                code: wish.code.clone(),
                functions: [*function].into(),
            };
            wish.functions.iter().map(of)
        });
        wishes
            .map(|wish| Self {
                wishes: vec![wish],
                callees: !alone,
            })
            .collect()
    }
}

impl Attempt {
    /// Compiles and assembles next to the running engine, and exchanges its image. Returns for how long the engine paused, and the
    /// functions that it has now.
    fn make(&self, resident: &Arc<ResidentProcesses>) -> Result<(Duration, Vec<Wish>), StartError> {
        let mut rounds = Vec::with_capacity(self.wishes.len());
        for Wish { code, functions } in &self.wishes {
            let partial = code.partial.as_ref();
            let partial = partial.expect("only modules with functions left out are asked for any");
            let round = partial.compile(&code.module, functions, self.callees);
            let round = round.map_err(|source| StartError::Load {
                module: code.module.name.clone(),
                source,
            })?;
            rounds.extend(round.map(|round| (Arc::clone(code), round)));
        }
        if rounds.is_empty() {
            // They came as callees of others.
            return Ok((Duration::ZERO, Vec::new()));
        }
        let parts: Vec<_> = rounds.iter().map(|(_, round)| round.part.clone()).collect();
        // Without the lock of the code, so that hosts whose modules are loaded do not wait.
        resident.engine.assemble_ahead(&parts);
        // The last host may have ended meanwhile, and with it the engine would be parked.
        let _residency = Residency::enter(resident)?;
        let mut code = resident.code();
        let pause = code.supply(&resident.engine, resident.stack_most, &rounds)?;
        drop(code);
        let delivered = rounds.into_iter().map(|(code, round)| {
            let Round { functions, .. } = round;
            Wish { code, functions }
        });
        Ok((pause, delivered.collect()))
    }
}

/// Gets ready for processes of these modules to ask for functions, if some are left out.
pub(crate) fn expect(
    resident: &Arc<ResidentProcesses>,
    codes: &[Arc<LoadedCode>],
) -> Result<(), StartError> {
    if codes.iter().all(|code| code.partial.is_none()) {
        return Ok(());
    }
    let (engine, wishes) = (Arc::downgrade(resident), Arc::clone(&resident.wishes));
    let thread = || {
        let thread = std::thread::Builder::new().name("everwarp-supply".into());
        thread.spawn(move || run(&engine, &wishes))
    };
    resident
        .wishes
        .start(thread)
        .map_err(system("a thread that compiles functions"))
}

/// Whether the image was not exchanged because another thread has parked the engine for a moment.
fn is_parked(error: &StartError) -> bool {
    let StartError::Engine(error) = error else {
        return false;
    };
    let error = error.downcast_ref::<Error>();
    error.is_some_and(|error| matches!(error, Error::Engine(EngineError::Parked { .. })))
}

/// Serves wishes until the engine ends.
fn run(engine: &Weak<ResidentProcesses>, wishes: &Wishes) {
    let mut not_before = Instant::now();
    while let Some(wanted) = wishes.next() {
        let mut attempts = VecDeque::from([Attempt::of(wanted)]);
        while let Some(attempt) = attempts.pop_front() {
            if !wishes.wait_until(not_before) {
                return;
            }
            let Some(resident) = engine.upgrade() else {
                return;
            };
            match attempt.make(&resident) {
                Ok((pause, delivered)) => {
                    not_before = Instant::now() + pause * APART;
                    wishes.deliver(&delivered);
                    for Wish { code, .. } in &delivered {
                        code.partial.iter().for_each(|partial| partial.keep());
                    }
                }
                Err(error) if is_parked(&error) => {
                    not_before = Instant::now() + PARKED;
                    attempts.push_front(attempt);
                }
                Err(error) => {
                    let smaller = attempt.smaller();
                    if smaller.is_empty() {
                        for Wish { code, functions } in &attempt.wishes {
                            let reason = error.to_string();
                            functions
                                .iter()
                                .for_each(|function| wishes.refuse(code, *function, &reason));
                        }
                    }
                    attempts.extend(smaller);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::not_started;

    fn wish(code: &'static str, functions: &[u32]) -> Wish<&'static str> {
        let functions = functions.iter().copied().collect();
        Wish { code, functions }
    }

    /// What is attempted for these wishes, and what is refused in the end, if the functions in `bad` cannot be assembled, nor
    /// anything with callees of those in `bad_callees`.
    fn outcome(
        wishes: Vec<Wish<&'static str>>,
        bad: &[u32],
        bad_callees: &[u32],
    ) -> (usize, Vec<u32>, Vec<u32>) {
        let mut attempts = VecDeque::from([Attempt::of(wishes)]);
        let (mut count, mut delivered, mut refused) = (0, Vec::new(), Vec::new());
        while let Some(attempt) = attempts.pop_front() {
            count += 1;
            let all = attempt.wishes.iter().flat_map(|wish| &wish.functions);
            let all: Vec<u32> = all.copied().collect();
            let fails = |function: &u32| {
                bad.contains(function) || attempt.callees && bad_callees.contains(function)
            };
            if !all.iter().any(fails) {
                delivered.extend(all);
                continue;
            }
            let smaller = attempt.smaller();
            if smaller.is_empty() {
                refused.extend(all);
            }
            attempts.extend(smaller);
        }
        (count, delivered, refused)
    }

    #[test]
    fn only_a_parked_engine_is_waited_for() {
        let action = "loading an image while it runs";
        let parked = not_started(EngineError::Parked { action }.into());
        assert!(is_parked(&parked));
        assert!(!is_parked(&not_started(Error::Stopped)));
        assert!(!is_parked(&StartError::Modules { most: 1 }));
    }

    #[test]
    fn all_wishes_are_served_together() {
        let wishes = vec![wish("a", &[1, 2]), wish("b", &[7])];
        assert_eq!(outcome(wishes, &[], &[]), (1, vec![1, 2, 7], vec![]));
    }

    #[test]
    fn a_function_that_cannot_be_had_fails_alone() {
        let wishes = vec![wish("a", &[1, 2]), wish("b", &[7])];
        assert_eq!(outcome(wishes, &[2], &[]), (5, vec![1, 7], vec![2]));
    }

    #[test]
    fn a_function_comes_without_a_callee_that_cannot_be_had() {
        assert_eq!(
            outcome(vec![wish("a", &[1])], &[], &[1]),
            (2, vec![1], vec![])
        );
        let wishes = vec![wish("a", &[1, 3])];
        assert_eq!(outcome(wishes, &[], &[3]), (4, vec![1, 3], vec![]));
    }
}
