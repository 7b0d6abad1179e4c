//! The record of one process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use everwarp_process::Pid;

use crate::config::Config;
use crate::exit::Exit;
use crate::kin::Birth;
use crate::live::Live;
use crate::program::Program;

/// Tells a running process to end, both its compiled code and a host call that it waits in.
#[derive(Default)]
pub(crate) struct KillSwitch {
    thrown: AtomicBool,
    notify: Notify,
}

impl KillSwitch {
    fn throw(&self) {
        self.thrown.store(true, Ordering::Release);
        // Leaves a permit when nobody waits yet, so that none is missed.
        self.notify.notify_one();
    }

    pub(crate) fn is_thrown(&self) -> bool {
        self.thrown.load(Ordering::Acquire)
    }

    pub(crate) async fn thrown(&self) {
        self.notify.notified().await;
    }
}

/// What is to run.
pub(crate) struct Work {
    pub(crate) program: Program,
    pub(crate) config: Config,
    pub(crate) birth: Birth,
}

impl Work {
    /// What the host begins.
    pub(crate) fn new(program: &Program, config: Config) -> Self {
        Self {
            program: program.clone(),
            config,
            birth: Birth::default(),
        }
    }
}

/// Where a process is in its life. It moves down this list only, under the record's lock.
pub(crate) enum State {
    /// In the queue.
    Queued(Box<Work>),
    /// On a thread.
    Running,
    /// Ended, and nobody has waited for it yet.
    Exited(Box<Exit>),
    /// Somebody has the exit.
    Reaped,
}

/// What a kill found.
#[must_use]
pub(crate) enum Killed {
    /// It was queued and has ended now.
    Ended,
    /// It runs and has been told for the first time.
    Told,
    /// It had ended, or had been told.
    Nothing,
}

pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// The process that has spawned it.
    pub(crate) parent: Option<Pid>,
    pub(crate) switch: Arc<KillSwitch>,
    pub(crate) live: Arc<Live>,
    state: Mutex<State>,
    /// Threads that wait for the end, changed and read under the lock: to tell nobody is a call of the system too.
    waiting: AtomicUsize,
    ended: Condvar,
    /// The same for processes.
    over: Notify,
}

impl Process {
    pub(crate) fn new(pid: Pid, work: Work) -> Self {
        Self {
            pid,
            parent: work.birth.parent,
            switch: Arc::default(),
            live: Arc::default(),
            state: Mutex::new(State::Queued(Box::new(work))),
            waiting: AtomicUsize::new(0),
            ended: Condvar::new(),
            over: Notify::new(),
        }
    }

    /// Tells threads that the state has changed.
    fn tell_threads(&self, state: MutexGuard<'_, State>) {
        let somebody = self.waiting.load(Ordering::Relaxed) > 0;
        drop(state);
        if somebody {
            self.ended.notify_all();
        }
    }

    fn tell(&self, state: MutexGuard<'_, State>) {
        self.tell_threads(state);
        self.over.notify_waiters();
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state(), State::Exited(_) | State::Reaped)
    }

    /// Waits for the end and leaves the exit where it is.
    pub(crate) async fn over(&self) {
        loop {
            // Before the look: an end behind it is heard.
            let mut over = std::pin::pin!(self.over.notified());
            over.as_mut().enable();
            if self.is_over() {
                return;
            }
            over.await;
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is to run; `None` if it was killed in the queue.
    pub(crate) fn begin(&self) -> Option<Box<Work>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Running) {
            State::Queued(work) => Some(work),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Records the end; answers whether a kill was pending.
    #[must_use]
    pub(crate) fn finish(&self, exit: Exit) -> bool {
        let mut state = self.state();
        *state = State::Exited(Box::new(exit));
        self.tell(state);
        self.switch.is_thrown()
    }

    /// Ends it: at once in the queue, soon where it runs. `told` runs before the process can end of it.
    pub(crate) fn kill(&self, exit: Exit, told: impl FnOnce()) -> Killed {
        let mut state = self.state();
        match *state {
            State::Queued(_) => {
                let work = std::mem::replace(&mut *state, State::Exited(Box::new(exit)));
                self.tell(state);
                // What it was to have closes, and not under the lock.
                drop(work);
                Killed::Ended
            }
            State::Running if !self.switch.is_thrown() => {
                told();
                self.switch.throw();
                Killed::Told
            }
            _ => Killed::Nothing,
        }
    }

    /// Waits for the end; `None` if somebody else has taken the exit.
    pub(crate) fn wait(&self) -> Option<Exit> {
        let mut state = self.state();
        loop {
            match std::mem::replace(&mut *state, State::Reaped) {
                State::Exited(exit) => {
                    self.tell_threads(state);
                    return Some(*exit);
                }
                State::Reaped => return None,
                other => *state = other,
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
            state = (self.ended.wait(state)).unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
