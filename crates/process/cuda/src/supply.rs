//! The threads that assemble functions which an image lacks, and the one that loads them.

use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use everwarp_process::{Exchanges, StartError};
use everwarp_runtime::trace::span;
use everwarp_runtime::{EngineError, Error, Haste, LinkedEngine};

use crate::batches::Reason;
use crate::code::{LoadedCode, Supplied};
use crate::error::system;
use crate::partial::Made;
use crate::pauses::Pauses;
use crate::resident::{Residency, ResidentProcesses};
use crate::wishes::{Assembled, Wishes};

/// When an image is exchanged that could not be, because the engine was parked for something else.
const PARKED: Duration = Duration::from_millis(5);

/// Gets ready for processes of these modules to ask for functions, if some are left out. Batches of the modules are assembled from
/// now on, by two threads for each core; the processes of the assembler have a low priority.
pub(crate) fn expect(
    resident: &Arc<ResidentProcesses>,
    codes: &[Arc<LoadedCode>],
) -> Result<(), StartError> {
    if codes.iter().all(|code| code.partial.is_none()) {
        return Ok(());
    }
    let (engine, wishes) = (Arc::downgrade(resident), Arc::clone(&resident.wishes));
    let thread = |name: &str, run: fn(&Weak<ResidentProcesses>, &Wishes)| {
        let (engine, wishes) = (Weak::clone(&engine), Arc::clone(&wishes));
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || run(&engine, &wishes))
    };
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    // What processes wait for does not wait until a thread is done with something else.
    let assemblers = (0..cores).flat_map(|_| {
        let awaited = thread("everwarp-assemble", |engine, wishes| {
            assemble(engine, wishes, &Reason::AWAITED);
        });
        let ahead = thread("everwarp-ahead", |engine, wishes| {
            assemble(engine, wishes, &[Reason::Idle]);
        });
        [awaited, ahead]
    });
    let threads = assemblers.chain(std::iter::once_with(|| thread("everwarp-supply", supply)));
    let started: std::io::Result<()> = wishes.start(resident.engine.assembles_ahead(), threads);
    started.map_err(system("threads that assemble functions"))?;
    codes.iter().for_each(|code| wishes.expect(code));
    Ok(())
}

/// Assembles batches for these reasons until the engine ends.
fn assemble(engine: &Weak<ResidentProcesses>, wishes: &Wishes, reasons: &[Reason]) {
    while let Some(work) = wishes.next(reasons) {
        let Some(resident) = engine.upgrade() else {
            return;
        };
        let partial = work.code.partial.as_ref();
        let partial = partial.expect("only modules with functions left out have batches");
        let part = partial.part(&work.functions);
        let apart = partial.apart(&work.functions);
        let mut parts = vec![part.clone()];
        parts.extend(apart.iter().map(|apart| apart.part.clone()));
        let haste = match work.what {
            Reason::Asked | Reason::Near => Haste::Awaited,
            Reason::Idle => Haste::Idle,
        };
        let engine = &resident.engine;
        match engine.assemble_while(&parts, haste, wishes.unwanted()) {
            Ok(fits) => {
                let apart = apart.filter(|_| fits);
                wishes.assembled(&work, Made { part, apart });
            }
            Err(error) => wishes.fail(&work, &error.to_string()),
        }
    }
}

/// Loads batches until the engine ends.
fn supply(engine: &Weak<ResidentProcesses>, wishes: &Wishes) {
    let (mut pauses, mut not_before) = (Pauses::default(), Instant::now());
    while wishes.wait_until_due() && wishes.wait_until(not_before) {
        let (is_complete, ready) = (wishes.is_complete(), wishes.ready());
        if is_complete && !ready.iter().any(|work| work.is_wanted) {
            let Some(resident) = engine.upgrade() else {
                return;
            };
            link_for_the_next(&resident, &ready);
            wishes.linked();
            continue;
        }
        let mut attempts = vec![loaded_together(ready)];
        while let Some(attempt) = attempts.pop() {
            if !wishes.wait_until(not_before) {
                return;
            }
            let Some(resident) = engine.upgrade() else {
                return;
            };
            match exchange(&resident, &attempt) {
                Ok((exchanged, apart)) => {
                    let end = Instant::now();
                    pauses.add(end, exchanged.paused());
                    not_before = pauses.next().unwrap_or(end);
                    wishes.deliver(&attempt, apart, &exchanged);
                    for Assembled { code, .. } in &attempt {
                        code.partial.iter().for_each(|partial| partial.keep());
                    }
                }
                Err(error) if is_parked(&error) => {
                    not_before = Instant::now() + PARKED;
                    attempts.push(attempt);
                }
                Err(error) => match halves(attempt) {
                    Halves::Both(first, second) => attempts.extend([second, first]),
                    Halves::One(batch) => wishes.fail(&batch, &error.to_string()),
                    Halves::None => {}
                },
            }
        }
    }
}

/// Of what is ready, what one exchange brings. Batches that can only come in an image wait for it until a process waits for one of
/// them.
fn loaded_together(mut ready: Vec<Assembled>) -> Vec<Assembled> {
    let fits = |work: &Assembled| work.what.apart.is_some();
    if ready.iter().all(|work| fits(work) || !work.is_wanted) {
        ready.retain(fits);
    }
    ready
}

fn supplied(batches: &[Assembled]) -> Vec<Supplied> {
    let supplied = |work: &Assembled| Supplied {
        code: Arc::clone(&work.code),
        functions: work.functions.clone(),
        made: work.what.clone(),
    };
    batches.iter().map(supplied).collect()
}

/// Links an image with these batches and everything that the engine has, for the cache: the next program begins with it. The engine does
/// not pause for it, and its hosts do not wait.
fn link_for_the_next(resident: &ResidentProcesses, batches: &[Assembled]) {
    let _span = span("supply: link for the next program");
    let batches = supplied(batches);
    let linked = resident.code().with_batches(&batches);
    // An image that cannot be linked is no failure of a function that has come.
    if resident.engine.prepare_linked(linked).is_ok() {
        resident.code().keep_with_batches(&batches);
    }
}

/// Loads these batches, next to the image if they can be. Returns what that took, and whether they are next to the image.
fn exchange(
    resident: &Arc<ResidentProcesses>,
    batches: &[Assembled],
) -> Result<(Exchanges, bool), StartError> {
    let batches = supplied(batches);
    let _span = span("supply: exchange");
    // The last host may have ended meanwhile, and with it the engine would be parked.
    let _residency = Residency::enter(resident)?;
    resident
        .code()
        .supply(&resident.engine, resident.stack_most, &batches)
}

/// Whether the image was not exchanged because another thread has parked the engine for a moment.
fn is_parked(error: &StartError) -> bool {
    let StartError::Engine(error) = error else {
        return false;
    };
    let error = error.downcast_ref::<Error>();
    error.is_some_and(|error| matches!(error, Error::Engine(EngineError::Parked { .. })))
}

/// What to attempt after a failure, so that what cannot be loaded fails alone.
#[derive(Debug, PartialEq)]
enum Halves<T> {
    None,
    /// It was one.
    One(T),
    Both(Vec<T>, Vec<T>),
}

fn halves<T>(mut all: Vec<T>) -> Halves<T> {
    let second = all.split_off(all.len() / 2);
    match (all.is_empty(), second.len()) {
        (_, 0) => Halves::None,
        (true, _) => second.into_iter().next().map_or(Halves::None, Halves::One),
        (false, _) => Halves::Both(all, second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::not_started;

    #[test]
    fn only_a_parked_engine_is_waited_for() {
        let action = "loading an image while it runs";
        let parked = not_started(EngineError::Parked { action }.into());
        assert!(is_parked(&parked));
        assert!(!is_parked(&not_started(Error::Stopped)));
        assert!(!is_parked(&StartError::Modules { most: 1 }));
    }

    #[test]
    fn what_fits_next_to_an_image_does_not_wait_for_what_does_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let code = crate::wishes::tests::code(folder.path());
        let work = |number, is_wanted, fits: bool| {
            let functions = [number as u32].into();
            let partial = code.partial.as_ref().expect("it lacks functions");
            let apart = partial.apart(&functions).filter(|_| fits);
            let part = partial.part(&functions);
            Assembled {
                code: Arc::clone(&code),
                number,
                functions,
                is_wanted,
                what: Made { part, apart },
            }
        };
        let numbers = |works: [Assembled; 2]| {
            let together = loaded_together(works.into());
            together.iter().map(|work| work.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers([work(1, true, true), work(2, false, true)]), [1, 2]);
        assert_eq!(numbers([work(1, true, true), work(2, false, false)]), [1]);
        assert_eq!(numbers([work(1, true, true), work(2, true, false)]), [1, 2]);
    }

    /// What is delivered and what is refused if the batches in `bad` cannot be loaded, and how many attempts that takes.
    fn outcome(batches: &[u32], bad: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
        let mut attempts = vec![batches.to_vec()];
        let (mut delivered, mut refused, mut count) = (Vec::new(), Vec::new(), 0);
        while let Some(attempt) = attempts.pop() {
            count += 1;
            if !attempt.iter().any(|batch| bad.contains(batch)) {
                delivered.extend(attempt);
                continue;
            }
            match halves(attempt) {
                Halves::Both(first, second) => attempts.extend([second, first]),
                Halves::One(batch) => refused.push(batch),
                Halves::None => unreachable!("it has a bad one"),
            }
        }
        (delivered, refused, count)
    }

    #[test]
    fn a_batch_that_cannot_be_loaded_fails_alone() {
        assert_eq!(outcome(&[1, 2, 3], &[]), (vec![1, 2, 3], vec![], 1));
        let (delivered, refused, count) = outcome(&[1, 2, 3, 4, 5], &[4]);
        assert_eq!((delivered, refused), (vec![1, 2, 3, 5], vec![4]));
        assert!(count <= 7, "{count} attempts");
        assert_eq!(outcome(&[7], &[7]), (vec![], vec![7], 1));
        assert_eq!(outcome(&[1, 2], &[1, 2]), (vec![], vec![1, 2], 3));
        assert_eq!(halves(Vec::<u32>::new()), Halves::None);
    }
}
