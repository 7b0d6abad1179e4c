//! Which modules threads are compiling for an engine that hosts share.

use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex};
use std::thread::available_parallelism;

use everwarp_engine::sync::{ignore_poison, lock};

use crate::code::CodeKey;

/// The modules that threads are compiling. Each is compiled by one thread; the others that want it wait for that one.
pub(crate) struct Making {
    keys: Mutex<Vec<CodeKey>>,
    /// A thread is done with some of them.
    done: Condvar,
    /// The most modules at a time. To assemble one uses all cores.
    most: usize,
}

impl Default for Making {
    fn default() -> Self {
        Self {
            keys: Mutex::default(),
            done: Condvar::new(),
            most: available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }
}

/// The right to compile modules, until it is dropped.
pub(crate) struct Claim<'m> {
    making: &'m Making,
    keys: Vec<CodeKey>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        lock(&self.making.keys).retain(|key| !self.keys.contains(key));
        self.making.done.notify_all();
    }
}

impl Making {
    /// Claims all of these modules, or waits until a thread is done with some modules and returns nothing: there may be fewer
    /// to claim then. A thread that waits has claimed none, so that threads do not wait for each other in a circle.
    pub(crate) fn claim(&self, wanted: Vec<CodeKey>) -> Option<Claim<'_>> {
        let mut keys = lock(&self.keys);
        if keys.len() >= self.most || wanted.iter().any(|key| keys.contains(key)) {
            drop(ignore_poison(self.done.wait(keys)));
            return None;
        }
        keys.extend(wanted.iter().cloned());
        Some(Claim {
            making: self,
            keys: wanted,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;

    use everwarp_process::Module;

    use super::*;
    use crate::module::CompileChoice;

    fn key(name: &str) -> CodeKey {
        let text = r#"(module (func (export "_start")))"#;
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let bytes = wat.encode().expect("it can be encoded");
        let module = Module::new(name, bytes).expect("it is valid");
        CodeKey::of(&module, CompileChoice::default())
    }

    /// Claims `first`, and lets another thread claim `second` until it has it, which it may not have before the first claim
    /// ends.
    fn waits(most: usize, first: &str, second: &[&str]) {
        let making = Making {
            most,
            ..Making::default()
        };
        let ended = AtomicBool::new(false);
        let claim = making
            .claim(vec![key(first)])
            .expect("there is no other claim");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let wanted: Vec<_> = second.iter().map(|name| key(name)).collect();
                let claim = std::iter::repeat_with(|| making.claim(wanted.clone()));
                let claim = claim.flatten().next();
                assert!(ended.load(SeqCst), "the first claim has ended");
                assert_eq!(lock(&making.keys).len(), second.len());
                drop(claim);
            });
            ended.store(true, SeqCst);
            drop(claim);
        });
        assert!(lock(&making.keys).is_empty());
    }

    #[test]
    fn each_module_is_compiled_by_one_thread_and_no_more_at_a_time_than_cores() {
        waits(8, "a", &["b", "a"]);
        waits(1, "a", &["b"]);
        let making = Making {
            most: 2,
            ..Making::default()
        };
        let both = [key("a"), key("b")].map(|key| making.claim(vec![key]));
        assert!(both.iter().all(Option::is_some), "nothing keeps them apart");
    }
}
