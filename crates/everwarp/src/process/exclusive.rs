//! A GPU for one client of a service at a time.
//!
//! While an engine is resident on a GPU, the driver's calls that start another one in the same program wait for the first
//! one to end, some of them with locks that the first one needs. So a client waits until the GPU is free.

use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use everwarp_process::{
    ChannelError, Exit, HostError, Listing, LoadConfig, LoadedModule, Module, ModuleId,
    OutputErrors, Pid, ProcessEngine, Receiver, Sender, SpawnError, SpawnRequest, StartError,
};
use everwarp_runtime::EngineKind;

use super::sync::{ignore_poison, lock};

/// Whether the GPU is taken.
#[derive(Debug, Default)]
pub(super) struct Turn {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// The right to use the GPU, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<Turn>);

impl Drop for Permit {
    fn drop(&mut self) {
        *lock(&self.0.taken) = false;
        self.0.given_back.notify_one();
    }
}

impl Turn {
    /// Waits until the GPU is free.
    pub(super) fn take(self: &Arc<Self>) -> Permit {
        let mut taken = lock(&self.taken);
        while *taken {
            let waited = self.given_back.wait(taken);
            taken = ignore_poison(waited);
        }
        *taken = true;
        Permit(Arc::clone(self))
    }

    /// Takes the GPU if it is free.
    pub(super) fn try_take(self: &Arc<Self>) -> Option<Permit> {
        let mut taken = lock(&self.taken);
        let free = !std::mem::replace(&mut *taken, true);
        free.then(|| Permit(Arc::clone(self)))
    }
}

/// An engine with the right to use the GPU. The engine ends before the right is given back.
#[derive(Debug)]
pub(super) struct Exclusive {
    pub(super) engine: Arc<dyn ProcessEngine>,
    pub(super) _permit: Permit,
}

impl ProcessEngine for Exclusive {
    fn kind(&self) -> EngineKind {
        self.engine.kind()
    }

    fn width(&self, module: ModuleId) -> u32 {
        self.engine.width(module)
    }

    fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError> {
        self.engine.load(module, config)
    }

    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError> {
        self.engine.spawn(request)
    }

    fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError> {
        self.engine.wait(pid, timeout)
    }

    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError> {
        self.engine.wait_each(pids, each)
    }

    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>> {
        self.engine.poll_wait(pid, cx)
    }

    fn kill(&self, pid: Pid) -> Result<bool, HostError> {
        self.engine.kill(pid)
    }

    fn kill_all(&self) -> Result<(), HostError> {
        self.engine.kill_all()
    }

    fn list(&self, limit: usize) -> Result<Listing, HostError> {
        self.engine.list(limit)
    }

    fn pause(&self) -> Result<Duration, HostError> {
        self.engine.pause()
    }

    fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        self.engine.channel(capacity, bytes)
    }

    fn output_errors(&self) -> &OutputErrors {
        self.engine.output_errors()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_client_gets_the_gpu_when_the_first_has_given_it_back() {
        let turn = Arc::<Turn>::default();
        let first = turn.take();
        assert!(turn.try_take().is_none());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| turn.take());
            drop(first);
            drop(second.join().expect("it does not panic"));
        });
        assert!(turn.try_take().is_some());
    }
}
