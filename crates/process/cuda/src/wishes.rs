//! Which functions processes have asked for, and what became of it.
//!
//! A process that calls a function which its image lacks is suspended and asks the host. One thread of an engine, the supplier,
//! compiles what was asked for, exchanges the image, and lets the services ask again for all requests that wait. The rules:
//!
//! 1. One lock guards, for all modules, what is present, wanted and unavailable. A request that finds its function neither
//!    present nor unavailable leaves the function wanted under the same lock.
//! 2. A function is present when an image with it runs.
//! 3. The supplier sleeps under the lock under which it has seen that nothing is wanted.
//! 4. Services ask again for all requests that wait after a function has become present or unavailable. A request that begins to
//!    wait is asked for once more under the lock of those that wait, so it does not matter which of the two is first.
//!
//! `crates/engine/cuda/src/models/supply.rs` is a model of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_hostcalls::{FunctionState, Service};

use crate::code::LoadedCode;

/// What is known of the functions of a module.
#[derive(Debug, Default)]
struct Functions {
    present: BTreeSet<u32>,
    wanted: BTreeSet<u32>,
    unavailable: BTreeMap<u32, Arc<str>>,
}

impl Functions {
    /// The state of a function, which is wanted from now on if it is neither present nor unavailable. Says as well whether it has
    /// not been wanted before.
    fn ask(&mut self, function: u32) -> (FunctionState, bool) {
        if self.present.contains(&function) {
            return (FunctionState::Present, false);
        }
        if self.unavailable.contains_key(&function) {
            return (FunctionState::Unavailable, false);
        }
        (FunctionState::Awaited, self.wanted.insert(function))
    }
}

#[derive(Default)]
struct Books {
    modules: Vec<(Weak<LoadedCode>, Functions)>,
    stop: bool,
}

impl Books {
    fn of(&mut self, code: &Arc<LoadedCode>) -> &mut Functions {
        let is_it = |(known, _): &(Weak<LoadedCode>, Functions)| {
            std::ptr::eq(known.as_ptr(), Arc::as_ptr(code))
        };
        let at = match self.modules.iter().position(is_it) {
            Some(at) => at,
            None => {
                // As good a time as any to forget modules that are not in the image any more.
                self.modules.retain(|(code, _)| code.strong_count() > 0);
                let functions = Functions {
                    present: code
                        .partial
                        .as_ref()
                        .map(|p| p.present())
                        .unwrap_or_default(),
                    ..Functions::default()
                };
                self.modules.push((Arc::downgrade(code), functions));
                self.modules.len() - 1
            }
        };
        &mut self.modules[at].1
    }

    /// Takes what is wanted.
    fn take(&mut self) -> Vec<Wish> {
        let modules = self.modules.iter_mut();
        let wishes = modules.filter(|(_, functions)| !functions.wanted.is_empty());
        wishes
            .filter_map(|(code, functions)| {
                let functions = std::mem::take(&mut functions.wanted);
                let code = code.upgrade()?;
                Some(Wish { code, functions })
            })
            .collect()
    }
}

/// Functions of a module that processes have asked for.
#[derive(Clone)]
pub(crate) struct Wish<M = Arc<LoadedCode>> {
    pub(crate) code: M,
    pub(crate) functions: BTreeSet<u32>,
}

/// The wishes of all processes of an engine.
#[derive(Default)]
pub(crate) struct Wishes {
    books: Mutex<Books>,
    asked: Condvar,
    /// The services of the hosts whose processes may ask.
    services: Mutex<Vec<Weak<Service>>>,
    supplier: Mutex<Option<JoinHandle<()>>>,
}

impl Wishes {
    /// Asks for a function for a process.
    pub(crate) fn ask(&self, code: &Arc<LoadedCode>, function: u32) -> FunctionState {
        let left_out = |partial: &crate::partial::Partial| partial.leaves_out(function);
        if !code.partial.as_ref().is_some_and(left_out) {
            // No code of the module asks for it.
            return FunctionState::Unavailable;
        }
        let mut books = lock(&self.books);
        let (state, new) = books.of(code).ask(function);
        if new {
            self.asked.notify_one();
        }
        state
    }

    /// Why a function cannot be had.
    pub(crate) fn reason(&self, code: &Arc<LoadedCode>, function: u32) -> Option<Arc<str>> {
        let mut books = lock(&self.books);
        books.of(code).unavailable.get(&function).cloned()
    }

    /// Lets a service answer requests that wait when functions have come.
    pub(crate) fn add_service(&self, service: &Arc<Service>) {
        let mut services = lock(&self.services);
        services.retain(|service| service.strong_count() > 0);
        services.push(Arc::downgrade(service));
    }

    /// Waits until functions are wanted, and takes them; `None` if the supplier is to end.
    pub(crate) fn next(&self) -> Option<Vec<Wish>> {
        let mut books = lock(&self.books);
        loop {
            if books.stop {
                return None;
            }
            let wishes = books.take();
            if !wishes.is_empty() {
                return Some(wishes);
            }
            books = ignore_poison(self.asked.wait(books));
        }
    }

    /// Waits until this time; returns whether the supplier is to go on.
    pub(crate) fn wait_until(&self, time: Instant) -> bool {
        let mut books = lock(&self.books);
        while !books.stop {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            books = ignore_poison(self.asked.wait_timeout(books, left)).0;
        }
        false
    }

    /// The engine runs an image that has these functions.
    pub(crate) fn deliver(&self, wishes: &[Wish]) {
        let mut books = lock(&self.books);
        for Wish { code, functions } in wishes {
            let known = books.of(code);
            known.present.extend(functions);
            known
                .wanted
                .retain(|function| !functions.contains(function));
        }
        drop(books);
        self.tell();
    }

    /// A function cannot be had.
    pub(crate) fn refuse(&self, code: &Arc<LoadedCode>, function: u32, reason: &str) {
        let mut books = lock(&self.books);
        let known = books.of(code);
        known.unavailable.insert(function, reason.into());
        known.wanted.remove(&function);
        drop(books);
        self.tell();
    }

    /// Lets all services ask again.
    fn tell(&self) {
        let services = lock(&self.services).clone();
        for service in services.iter().filter_map(Weak::upgrade) {
            service.functions_changed();
        }
    }

    /// Starts the supplier, unless there is one.
    pub(crate) fn start(
        &self,
        supplier: impl FnOnce() -> std::io::Result<JoinHandle<()>>,
    ) -> std::io::Result<()> {
        let mut running = lock(&self.supplier);
        if running.is_none() {
            *running = Some(supplier()?);
        }
        Ok(())
    }

    /// Ends the supplier, and returns when it is done with what it assembles. No process may wait for a function any more.
    pub(crate) fn stop(&self) {
        lock(&self.books).stop = true;
        self.asked.notify_all();
        let supplier = lock(&self.supplier).take();
        // The supplier may have been the last one that had the engine, and a thread cannot wait for itself.
        let elsewhere =
            |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(supplier) = supplier.filter(elsewhere) {
            drop(supplier.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    use everwarp_cache::Cache;
    use everwarp_process::Module;

    use super::*;
    use crate::code::lacking_functions;

    /// A module whose functions 1 and 2 are left out.
    fn code() -> Arc<LoadedCode> {
        let text = r#"(module (func (export "_start") (call 1) (call 2))
          (func (loop (br_if 0 (i32.const 0)))) (func (loop (br_if 0 (i32.const 0)))))"#;
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let module = Module::new("m", wat.encode().expect("it can be encoded"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        lacking_functions(&module.expect("it is valid"), &Cache::at(folder.path()))
    }

    #[test]
    fn the_supplier_gets_what_the_processes_of_all_modules_want() {
        let (wishes, codes) = (Wishes::default(), [code(), code()]);
        for (code, function) in [(0, 1), (1, 2), (0, 2), (0, 1)] {
            let state = wishes.ask(&codes[code], function);
            assert_eq!(state, FunctionState::Awaited);
        }
        let wanted = wishes.next().expect("it is not to end");
        let functions: Vec<Vec<u32>> = wanted
            .iter()
            .map(|wish| wish.functions.iter().copied().collect())
            .collect();
        assert_eq!(functions, [vec![1, 2], vec![2]]);
        // Asked for once more while they are compiled: they are not compiled again afterwards.
        assert_eq!(wishes.ask(&codes[0], 1), FunctionState::Awaited);
        wishes.deliver(&wanted);
        assert_eq!(wishes.ask(&codes[0], 1), FunctionState::Present);
        assert!(lock(&wishes.books).take().is_empty());
        // The functions of the other module are its own.
        assert_eq!(wishes.ask(&codes[1], 1), FunctionState::Awaited);
    }

    #[test]
    fn a_function_that_cannot_be_had_has_a_reason() {
        let (wishes, code) = (Wishes::default(), code());
        wishes.ask(&code, 1);
        wishes.refuse(&code, 1, "ptxas needs more than 4 GiB");
        assert_eq!(wishes.ask(&code, 1), FunctionState::Unavailable);
        let reason = wishes.reason(&code, 1);
        assert_eq!(reason.as_deref(), Some("ptxas needs more than 4 GiB"));
        assert_eq!(wishes.reason(&code, 2), None);
        assert!(
            lock(&wishes.books)
                .take()
                .iter()
                .all(|w| w.functions.is_empty())
        );
        // No code asks for a function that is always there.
        for function in [0, 99] {
            assert_eq!(wishes.ask(&code, function), FunctionState::Unavailable);
        }
    }

    #[test]
    fn the_supplier_ends_while_it_waits_for_wishes_or_for_time() {
        for waits_for_time in [false, true] {
            let (wishes, ended) = (
                Arc::new(Wishes::default()),
                Arc::new(AtomicBool::new(false)),
            );
            let (of_thread, noted) = (Arc::clone(&wishes), Arc::clone(&ended));
            let supplier = move || {
                let later = Instant::now() + Duration::from_secs(3600);
                let goes_on = match waits_for_time {
                    true => of_thread.wait_until(later),
                    false => of_thread.next().is_some(),
                };
                noted.store(!goes_on, SeqCst);
            };
            let started = wishes.start(|| Ok(std::thread::spawn(supplier)));
            started.expect("there is none yet");
            wishes.stop();
            assert!(ended.load(SeqCst));
        }
    }

    #[test]
    fn a_function_is_asked_for_once_until_it_comes() {
        let mut functions = Functions::default();
        assert_eq!(functions.ask(3), (FunctionState::Awaited, true));
        assert_eq!(functions.ask(3), (FunctionState::Awaited, false));
        // The supplier has taken it, and it is asked for once more before it comes.
        functions.wanted.clear();
        assert_eq!(functions.ask(3), (FunctionState::Awaited, true));
        functions.present.insert(3);
        assert_eq!(functions.ask(3), (FunctionState::Present, false));
        functions.unavailable.insert(4, "no memory".into());
        assert_eq!(functions.ask(4), (FunctionState::Unavailable, false));
    }
}
