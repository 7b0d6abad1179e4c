//! An engine whose processes end at once or never, to find what a session does with them.

use std::any::Any;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use everwarp_engine::EngineKind;
use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::{
    Captured, ChannelError, Endpoint, Exit, ExitStatus, HostConfig, HostError, HostStreams,
    InputLines, LineSource, Listing, LoadConfig, LoadedModule, Module, ModuleId, Output,
    OutputErrors, Pid, ProcessEngine, Receiver, Sender, SpawnError, SpawnRequest, StartError,
    StartWriter,
};

use crate::server::{Backend, Cancellation};

#[derive(Debug)]
struct FakeProcess {
    status: Option<ExitStatus>,
    captured: Option<Captured>,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Table {
    processes: HashMap<Pid, FakeProcess>,
    next: u32,
}

#[derive(Debug, Default)]
struct FakeEngine {
    table: Mutex<Table>,
    changed: Condvar,
    errors: OutputErrors,
}

/// Takes what a process gets, and writes down how much it was.
#[derive(Default)]
struct Taken(usize);

impl StartWriter for Taken {
    fn arg(&mut self, parts: &[&str]) {
        self.0 += parts.len();
    }
    fn variable(&mut self, name: &str, parts: &[&str]) {
        self.0 += name.len() + parts.len();
    }
    fn stdin(&mut self, bytes: Bytes) {
        self.0 += bytes.len();
    }
    fn connection(&mut self, _: everwarp_process::Connection) {
        unreachable!("no record has one");
    }
}

#[derive(Debug)]
struct FakeEnd;

impl Endpoint for FakeEnd {
    fn duplicate(&self) -> Box<dyn Endpoint> {
        Box::new(Self)
    }
    fn send(&self, _: &[u8], _: Option<Duration>) -> Result<(), ChannelError> {
        Ok(())
    }
    fn receive(&self, _: Option<Duration>) -> Result<Vec<u8>, ChannelError> {
        Err(ChannelError::Again)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FakeEngine {
    fn take(table: &mut Table, pid: Pid) -> Option<Result<Exit, HostError>> {
        match table.processes.get(&pid) {
            None => Some(Err(HostError::UnknownPid(pid))),
            Some(process) if process.status.is_none() => None,
            Some(_) => {
                let process = table.processes.remove(&pid)?;
                Some(Ok(Exit {
                    status: process.status?,
                    fuel_used: None,
                    elapsed: Duration::ZERO,
                    stdout: process.captured,
                    stderr: None,
                }))
            }
        }
    }

    fn end(&self, which: impl Fn(Pid) -> bool) -> bool {
        let mut table = lock(&self.table);
        let mut wakers = Vec::new();
        let mut found = false;
        for (pid, process) in table.processes.iter_mut().filter(|(pid, _)| which(**pid)) {
            found |= which(*pid);
            process.status.get_or_insert(ExitStatus::Killed);
            wakers.extend(process.waker.take());
        }
        drop(table);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
        found
    }
}

impl ProcessEngine for FakeEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Cpu
    }
    fn width(&self, _: ModuleId) -> u32 {
        2
    }
    fn load(&self, _: &Module, _: &LoadConfig) -> Result<LoadedModule, StartError> {
        Ok(LoadedModule::new(
            ModuleId(1),
            Duration::ZERO,
            Duration::ZERO,
        ))
    }
    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError> {
        if request.module.0 > 1 {
            return Err(SpawnError::UnknownModule(request.module));
        }
        for number in 0..request.count {
            (request.write)(number, &mut Taken::default());
            let mut table = lock(&self.table);
            table.next += 1;
            let pid = Pid::new(table.next % 8, table.next);
            let captured = match request.grants.stdout {
                Output::Capture { limit } => Some(Captured {
                    bytes: vec![b'x'; limit.min(3)],
                    refused: limit < 3,
                }),
                _ => None,
            };
            // Every third one runs until it is killed.
            let ends = !table.next.is_multiple_of(3);
            let process = FakeProcess {
                status: ends.then_some(ExitStatus::Exited(number)),
                captured,
                waker: None,
            };
            table.processes.insert(pid, process);
            drop(table);
            if (request.started)(number, &[pid]).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn wait(&self, pid: Pid, _: Option<Duration>) -> Result<Exit, HostError> {
        let mut table = lock(&self.table);
        loop {
            if let Some(ended) = Self::take(&mut table, pid) {
                return ended;
            }
            table = ignore_poison(self.changed.wait(table));
        }
    }
    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError> {
        for pid in pids {
            if let Ok(exit) = self.wait(*pid, None) {
                each(*pid, exit);
            }
        }
        Ok(())
    }
    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>> {
        let mut table = lock(&self.table);
        match Self::take(&mut table, pid) {
            Some(ended) => Poll::Ready(ended),
            None => {
                let process = table.processes.get_mut(&pid).expect("it has not ended");
                process.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
    fn kill(&self, pid: Pid) -> Result<bool, HostError> {
        Ok(self.end(|other| other == pid))
    }
    fn kill_all(&self) -> Result<(), HostError> {
        self.end(|_| true);
        Ok(())
    }
    fn list(&self, _: usize) -> Result<Listing, HostError> {
        Ok(Listing::default())
    }
    fn channel(&self, capacity: u32, _: u32) -> Result<(Sender, Receiver), ChannelError> {
        match capacity {
            0 => Err(ChannelError::Size),
            _ => Ok((
                Sender::new(Box::new(FakeEnd)),
                Receiver::new(Box::new(FakeEnd)),
            )),
        }
    }
    fn output_errors(&self) -> &OutputErrors {
        &self.errors
    }
}

/// Three lines.
struct FakeLines;

impl LineSource for FakeLines {
    fn count(&self) -> u64 {
        3
    }
    fn bytes(&self) -> u64 {
        6
    }
    fn line(&self, number: u32) -> Option<Bytes> {
        (number < 3).then(|| Bytes::from_static(b"l\n"))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Starts such engines, and knows how many of them there are.
#[derive(Default)]
pub(super) struct FakeBackend {
    engines: Mutex<Vec<std::sync::Weak<FakeEngine>>>,
}

impl FakeBackend {
    /// How many engines have not been dropped.
    pub(super) fn engines(&self) -> usize {
        let engines = lock(&self.engines);
        engines.iter().filter(|e| e.strong_count() > 0).count()
    }
}

impl Backend for FakeBackend {
    fn kind(&self) -> EngineKind {
        EngineKind::Cpu
    }
    fn device_name(&self) -> String {
        "a device".to_owned()
    }
    fn start(
        &self,
        _: &[Module],
        _: &HostConfig,
        _: &HostStreams,
    ) -> Result<Arc<dyn ProcessEngine>, StartError> {
        let engine = Arc::<FakeEngine>::default();
        lock(&self.engines).push(Arc::downgrade(&engine));
        Ok(engine)
    }
    fn lines(&self, _: File) -> io::Result<InputLines> {
        Ok(InputLines::new(FakeLines))
    }
    fn native(
        &self,
        body: &[u8],
        _: Vec<OwnedFd>,
        cancellation: &Cancellation,
    ) -> io::Result<Vec<u8>> {
        // Every second program runs until its client has gone.
        while body.len().is_multiple_of(2) && !cancellation.is_cancelled() {
            std::thread::yield_now();
        }
        Ok(body.to_vec())
    }
}
