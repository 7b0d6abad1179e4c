//! Locks that ignore poison, and work on several threads, in one place for the whole project.
//!
//! A mutex is *poisoned* when a thread panics while it holds the lock. The project ignores that everywhere, for one
//! reason: every critical section leaves its data consistent between any two statements that can panic, so the data is
//! still right after a panic. A panic of user code (a CPU twin, a waker) never happens under a lock. Passing the poison on
//! would turn one failed thread into a panic of every thread that shares an engine with it, and a panic in a destructor
//! would abort the process.

use std::panic::resume_unwind;
use std::sync::{LockResult, Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks a mutex, also after a panic of another thread that held it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

/// Locks a mutex if no other thread holds it, also after a panic.
pub fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The value of any other lock operation (`RwLock::read`, `Condvar::wait`, `Mutex::get_mut`, a model's mutex), also after
/// a panic.
pub fn ignore_poison<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Does work on this many threads, the caller's among them, and returns what each has returned. A panic of one of them is
/// a panic of the caller.
pub fn on_threads<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        let own = work();
        let joined = others.into_iter().map(|other| other.join());
        let joined = joined.map(|other| other.unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_on_each_thread_and_a_panic_is_the_callers() {
        let done = Mutex::new(0);
        let numbers = on_threads(5, || {
            let mut done = lock(&done);
            *done += 1;
            *done
        });
        let mut sorted = numbers;
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 4, 5]);
        let caller = std::thread::current().id();
        assert_eq!(on_threads(0, || std::thread::current().id()), [caller]);
        let panics = || {
            on_threads(3, || {
                let other = std::thread::current().id() != caller;
                assert!(!other, "a panic of another thread, on purpose");
            })
        };
        assert!(std::panic::catch_unwind(panics).is_err());
    }

    #[test]
    fn a_panic_does_not_spread_through_a_lock() {
        let mutex = Mutex::new(1);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mut value = lock(&mutex);
                *value = 2;
                panic!("a panic under the lock, on purpose");
            });
            assert!(thread.join().is_err());
        });
        assert!(mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
        assert_eq!(try_lock(&mutex).as_deref(), Some(&2));
        let held = lock(&mutex);
        assert!(try_lock(&mutex).is_none());
        drop(held);
        assert_eq!(ignore_poison(mutex.into_inner()), 2);
    }
}
