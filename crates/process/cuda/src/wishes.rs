//! Which functions processes have asked for, and what became of it.
//!
//! A process that calls a function which its image lacks is suspended and asks the host. Threads of an engine, its assemblers,
//! assemble batches of functions: those that were asked for first, and others while there is nothing else to do. One more
//! thread, the supplier, loads what is assembled, next to the image or in another one, and lets the services ask again for all requests
//! that wait. The rules:
//!
//! 1. One lock guards, for all modules, how far each batch is and what is wanted. A request that finds its function neither
//!    present nor unavailable leaves the function wanted under the same lock.
//! 2. A function is present when the engine runs with its code.
//! 3. The supplier and the assemblers sleep under the lock under which they have seen that there is nothing for them to do.
//!    Each of these changes that, and wakes them: a request that leaves a function wanted, an assembler that is done with a batch, and the
//!    supplier when it divides a batch.
//! 4. Services ask again for all requests that wait after a function has become present or unavailable. A request that begins to
//!    wait is asked for once more under the lock of those that wait, so it does not matter which of the two is first.
//!
//! `crates/engine/cuda/src/models/supply.rs` is a model of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_hostcalls::{FunctionState, Service};
use everwarp_process::Exchanges;

use crate::batches::{Batches, Counts, Reason};
use crate::code::LoadedCode;
use crate::partial::Made;

/// A batch of a module, with its functions and what else is known of it.
#[derive(Clone)]
pub(crate) struct Work<P> {
    pub(crate) code: Arc<LoadedCode>,
    pub(crate) number: usize,
    pub(crate) functions: BTreeSet<u32>,
    /// Processes wait for it.
    pub(crate) is_wanted: bool,
    pub(crate) what: P,
}

/// A batch to assemble, and why.
pub(crate) type Wanted = Work<Reason>;
/// A batch that is assembled.
pub(crate) type Assembled = Work<Made>;

#[derive(Default)]
struct Books {
    modules: Vec<(Weak<LoadedCode>, Batches<Made>)>,
    stop: bool,
    exchanges: Exchanges,
}

impl Books {
    /// The batches of a module; `ahead` says whether code can be assembled ahead of an image.
    fn of(&mut self, code: &Arc<LoadedCode>, ahead: bool) -> Option<&mut Batches<Made>> {
        let partial = code.partial.as_ref()?;
        let is_it =
            |(known, _): &(Weak<LoadedCode>, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(code));
        let at = match self.modules.iter().position(is_it) {
            Some(at) => at,
            None => {
                // As good a time as any to forget modules that are not in the image any more.
                self.modules.retain(|(code, _)| code.strong_count() > 0);
                self.modules
                    .push((Arc::downgrade(code), partial.batches(ahead)));
                self.modules.len() - 1
            }
        };
        Some(&mut self.modules[at].1)
    }

    /// The next batch to assemble for one of these reasons.
    fn take(&mut self, reasons: &[Reason]) -> Option<Wanted> {
        for &reason in reasons {
            for (code, batches) in &mut self.modules {
                let Some(code) = code.upgrade() else {
                    continue;
                };
                if let Some((number, functions)) = batches.take(reason) {
                    return Some(Work {
                        code,
                        number,
                        functions,
                        is_wanted: reason == Reason::Asked,
                        what: reason,
                    });
                }
            }
        }
        None
    }

    /// The batches of the modules that are in use.
    fn in_use(&self) -> impl Iterator<Item = &Batches<Made>> {
        let modules = self.modules.iter();
        let in_use = modules.filter(|(code, _)| code.strong_count() > 0);
        in_use.map(|(_, batches)| batches)
    }

    /// Whether all has come that will come.
    fn is_complete(&self) -> bool {
        self.in_use().all(Batches::is_complete)
    }

    fn is_due(&self) -> bool {
        let is_settled = || self.is_complete() && self.in_use().any(Batches::is_apart);
        self.in_use().any(Batches::is_due) || is_settled()
    }
}

/// The wishes of all processes of an engine.
#[derive(Default)]
pub(crate) struct Wishes {
    books: Mutex<Books>,
    /// There may be something to assemble.
    absent: Condvar,
    /// An exchange may be due.
    due: Condvar,
    /// The services of the hosts whose processes may ask.
    services: Mutex<Vec<Weak<Service>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Is set when nothing is to be assembled any more.
    unwanted: Arc<AtomicBool>,
    /// Code can be assembled ahead of an image.
    ahead: AtomicBool,
}

impl Wishes {
    /// Processes of this module may ask from now on.
    pub(crate) fn expect(&self, code: &Arc<LoadedCode>) {
        let mut books = lock(&self.books);
        if books.of(code, self.ahead.load(Ordering::Relaxed)).is_some() {
            self.absent.notify_all();
        }
    }

    /// Asks for a function for a process.
    pub(crate) fn ask(&self, code: &Arc<LoadedCode>, function: u32) -> FunctionState {
        let mut books = lock(&self.books);
        let ahead = self.ahead.load(Ordering::Relaxed);
        let (Some(batches), Some(partial)) = (books.of(code, ahead), &code.partial) else {
            // No code of the module asks for it.
            return FunctionState::Unavailable;
        };
        let (state, new) = batches.ask(function);
        if new {
            batches.expect(&partial.near(&code.module, function));
            self.absent.notify_all();
            self.due.notify_one();
        }
        state
    }

    /// Why a function cannot be had.
    pub(crate) fn reason(&self, code: &Arc<LoadedCode>, function: u32) -> Option<Arc<str>> {
        let mut books = lock(&self.books);
        let ahead = self.ahead.load(Ordering::Relaxed);
        books.of(code, ahead)?.reason(function)
    }

    /// Lets a service answer requests that wait when functions have come.
    pub(crate) fn add_service(&self, service: &Arc<Service>) {
        let mut services = lock(&self.services);
        services.retain(|service| service.strong_count() > 0);
        services.push(Arc::downgrade(service));
    }

    /// Waits until there is a batch to assemble for one of these reasons, which is in work from then on; `None` if the thread is to
    /// end.
    pub(crate) fn next(&self, reasons: &[Reason]) -> Option<Wanted> {
        let mut books = lock(&self.books);
        loop {
            if books.stop {
                return None;
            }
            if let Some(work) = books.take(reasons) {
                return Some(work);
            }
            books = ignore_poison(self.absent.wait(books));
        }
    }

    /// A batch is assembled.
    pub(crate) fn assembled(&self, work: &Wanted, made: Made) {
        let mut books = lock(&self.books);
        if let Some(batches) = books.of(&work.code, true) {
            batches.assembled(work.number, made);
        }
        self.due.notify_one();
    }

    /// A batch cannot be had.
    pub(crate) fn fail<P>(&self, work: &Work<P>, reason: &str) {
        let mut books = lock(&self.books);
        if let Some(batches) = books.of(&work.code, true) {
            batches.fail(work.number, reason);
        }
        // The functions of the batch may have become batches of their own, or this was the last one that others waited for.
        self.absent.notify_all();
        self.due.notify_one();
        drop(books);
        self.tell();
    }

    /// Whether all has come that will come: then an image with everything is linked, which the next program finds.
    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.books).is_complete()
    }

    /// An image with everything is linked, or cannot be.
    pub(crate) fn linked(&self) {
        let mut books = lock(&self.books);
        let modules = books.modules.iter_mut();
        modules.for_each(|(_, batches)| batches.linked());
    }

    /// Waits until something is to be loaded; returns whether the supplier is to go on.
    pub(crate) fn wait_until_due(&self) -> bool {
        let mut books = lock(&self.books);
        while !books.stop && !books.is_due() {
            books = ignore_poison(self.due.wait(books));
        }
        !books.stop
    }

    /// Waits until this time; returns whether the supplier is to go on.
    pub(crate) fn wait_until(&self, time: Instant) -> bool {
        let mut books = lock(&self.books);
        while !books.stop {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            books = ignore_poison(self.due.wait_timeout(books, left)).0;
        }
        false
    }

    /// All batches that are assembled and that the image lacks.
    pub(crate) fn ready(&self) -> Vec<Assembled> {
        let books = lock(&self.books);
        let mut ready = Vec::new();
        for (code, batches) in &books.modules {
            let Some(code) = code.upgrade() else {
                continue;
            };
            let batch = |(number, functions, what)| Work {
                code: Arc::clone(&code),
                is_wanted: batches.is_wanted(&functions),
                number,
                functions,
                what,
            };
            ready.extend(batches.ready().into_iter().map(batch));
        }
        ready
    }

    /// The engine has these batches after this exchange, next to its image or in it.
    pub(crate) fn deliver(&self, delivered: &[Assembled], apart: bool, exchange: &Exchanges) {
        let mut books = lock(&self.books);
        for work in delivered {
            if let Some(batches) = books.of(&work.code, true) {
                batches.arrived(work.number, apart);
            }
        }
        books.exchanges.add(exchange);
        drop(books);
        self.tell();
    }

    /// How much of a module is there.
    pub(crate) fn counts(&self, code: &Arc<LoadedCode>) -> Counts {
        let mut books = lock(&self.books);
        let ahead = self.ahead.load(Ordering::Relaxed);
        books
            .of(code, ahead)
            .map(|batches| batches.counts())
            .unwrap_or_default()
    }

    /// The exchanges so far.
    pub(crate) fn exchanges(&self) -> Exchanges {
        lock(&self.books).exchanges
    }

    /// Lets all services ask again.
    fn tell(&self) {
        let services = lock(&self.services).clone();
        for service in services.iter().filter_map(Weak::upgrade) {
            service.functions_changed();
        }
    }

    /// Starts the threads, unless they run. `ahead` says whether code can be assembled ahead of an image.
    pub(crate) fn start(
        &self,
        ahead: bool,
        threads: impl IntoIterator<Item = std::io::Result<JoinHandle<()>>>,
    ) -> std::io::Result<()> {
        let mut running = lock(&self.threads);
        if running.is_empty() {
            self.ahead.store(ahead, Ordering::Relaxed);
            for thread in threads {
                running.push(thread?);
            }
        }
        Ok(())
    }

    /// Is set when nothing is to be assembled any more.
    pub(crate) fn unwanted(&self) -> &Arc<AtomicBool> {
        &self.unwanted
    }

    /// Ends the threads, and returns when they have ended; what they assemble is given up. No process may wait for a function any
    /// more.
    pub(crate) fn stop(&self) {
        self.unwanted.store(true, Ordering::Relaxed);
        lock(&self.books).stop = true;
        self.absent.notify_all();
        self.due.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        // A thread may have been the last one that had the engine, and cannot wait for itself.
        let own = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != own {
                drop(thread.join());
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    use everwarp_cache::Cache;
    use everwarp_process::Module;
    use everwarp_runtime::LinkedPart;

    use super::*;
    use crate::code::lacking_functions;

    impl Wishes {
        fn is_due(&self) -> bool {
            lock(&self.books).is_due()
        }
    }

    /// A module whose functions 1 and 2 are left out; notes of them go to this folder.
    pub(crate) fn code(folder: &Path) -> Arc<LoadedCode> {
        let text = r#"(module (func (export "_start") (call 1) (call 2))
          (func (loop (br_if 0 (i32.const 0)))) (func (loop (br_if 0 (i32.const 0)))))"#;
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let module = Module::new("m", wat.encode().expect("it can be encoded"));
        lacking_functions(&module.expect("it is valid"), &Cache::at(folder))
    }

    fn made() -> Made {
        let part = LinkedPart {
            name: "m".into(),
            ptx: "".into(),
        };
        Made { part, apart: None }
    }

    #[test]
    fn functions_of_all_modules_are_assembled_and_come_together() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let codes = [(); 2].map(|()| code(folder.path()));
        let wishes = Wishes::default();
        for (code, function) in [(0, 1), (1, 2), (0, 2), (0, 1)] {
            let state = wishes.ask(&codes[code], function);
            assert_eq!(state, FunctionState::Awaited);
        }
        let mut taken = Vec::new();
        for _ in 0..3 {
            let work = wishes.next(&Reason::ALL).expect("it is not to end");
            taken.push(work.functions.iter().copied().collect::<Vec<_>>());
            wishes.assembled(&work, made());
        }
        assert_eq!(taken, [[1], [2], [2]]);
        assert!(wishes.is_due());
        let ready = wishes.ready();
        assert_eq!(ready.len(), 3);
        // Asked for once more while the image is exchanged: it is not assembled again afterwards.
        assert_eq!(wishes.ask(&codes[0], 1), FunctionState::Awaited);
        let count = 1;
        let exchange = Exchanges {
            count,
            ..Exchanges::default()
        };
        wishes.deliver(&ready, true, &exchange);
        assert_eq!(wishes.ask(&codes[0], 1), FunctionState::Present);
        assert!(!wishes.is_due() && lock(&wishes.books).take(&Reason::ALL).is_none());
        // The functions of the other module are its own.
        assert_eq!(wishes.ask(&codes[1], 1), FunctionState::Awaited);
        assert_eq!(wishes.exchanges().count, 1);
        assert_eq!(wishes.counts(&codes[0]).present, 2);
        assert_eq!(wishes.counts(&codes[1]).present, 1);
        // When all have come, an image with everything is due once.
        let last = wishes.next(&Reason::ALL).expect("it is not to end");
        assert!(!wishes.is_complete());
        wishes.assembled(&last, made());
        assert!(wishes.is_due() && wishes.is_complete());
        wishes.deliver(&wishes.ready(), true, &exchange);
        assert!(wishes.is_due() && wishes.ready().is_empty());
        wishes.linked();
        assert!(!wishes.is_due());
    }

    #[test]
    fn a_function_that_cannot_be_had_has_a_reason() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (wishes, code) = (Wishes::default(), code(folder.path()));
        wishes.ask(&code, 1);
        let work = wishes.next(&Reason::ALL).expect("it is not to end");
        wishes.fail(&work, "ptxas needs more than 4 GiB");
        assert_eq!(wishes.ask(&code, 1), FunctionState::Unavailable);
        let reason = wishes.reason(&code, 1);
        assert_eq!(reason.as_deref(), Some("ptxas needs more than 4 GiB"));
        assert_eq!(wishes.reason(&code, 2), None);
        assert!(lock(&wishes.books).take(&Reason::ALL).is_none());
        // No code asks for a function that is always there.
        for function in [0, 99] {
            assert_eq!(wishes.ask(&code, function), FunctionState::Unavailable);
        }
    }

    #[test]
    fn the_threads_end_while_they_wait() {
        let waits: [fn(&Wishes) -> bool; 3] = [
            |wishes| wishes.next(&Reason::ALL).is_some(),
            |wishes| wishes.wait_until_due(),
            |wishes| wishes.wait_until(Instant::now() + Duration::from_secs(3600)),
        ];
        let (wishes, ended) = (Arc::new(Wishes::default()), Arc::new(AtomicUsize::new(0)));
        let threads = waits.map(|wait| {
            let (wishes, ended) = (Arc::clone(&wishes), Arc::clone(&ended));
            std::thread::spawn(move || {
                assert!(!wait(&wishes));
                ended.fetch_add(1, SeqCst);
            })
        });
        let started = wishes.start(true, threads.map(Ok));
        started.expect("there are none yet");
        wishes.stop();
        assert_eq!(ended.load(SeqCst), 3);
        assert!(wishes.unwanted().load(SeqCst));
    }
}
