//! The processes that the host knows: how they are opened and how they end.

use std::collections::HashMap;
use std::io;
use std::mem::{replace, take};
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};

use everwarp_contract::hostcall::number;
use everwarp_engine::sync::lock;
use everwarp_process::{OutputErrors, Pid};
use everwarp_telemetry::hosted::HostedProcesses;

use crate::config::Config;
use crate::counters::{Counters, Counts};
use crate::endings::Endings;
use crate::errno::{Errno, Result};
use crate::events::{Ended, Events};
use crate::exit::{ExitReason, ExitReport};
use crate::limits::STREAMS;
use crate::openings::Openings;
use crate::output::Deferred;
use crate::process::{Process, ProcessSlot, StartConfig};
use crate::streams::Streams;
use crate::table::DescriptorTable;
use crate::timed;
use crate::waits::Waits;

/// A process that could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The caller named a slot that the table does not have.
    #[error("slot {slot} is beyond the process table, which has {slots}")]
    NoSuchSlot {
        /// The slot.
        slot: u32,
        /// How many slots there are.
        slots: usize,
    },
    /// The caller named a slot whose process has not been closed.
    #[error("slot {} still has process {process}", process.slot())]
    InUse {
        /// The slot's process.
        process: Pid,
    },
    /// The caller gave a process more directories and listeners than it may have descriptors.
    #[error(
        "{handles} descriptors do not hold three streams and {given} directories and listeners"
    )]
    TooFewHandles {
        /// The limit.
        handles: u32,
        /// The directories and listeners.
        given: usize,
    },
}

/// The host's side of processes that run elsewhere.
///
/// Many threads may use it at a time. Requests of one process that are to take effect in order must be served in order;
/// [`Server`](crate::Server) does so.
pub struct Service {
    /// The number of the first slot. Several services of one ring have slots of their own.
    first: u32,
    slots: Box<[Mutex<ProcessSlot>]>,
    streams: Streams,
    events: Arc<dyn Events>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) openings: Arc<Openings>,
    waiter: Option<JoinHandle<()>>,
    pub(crate) counters: Arc<Counters>,
    /// Counts and times of its processes and their calls, if they are measured.
    times: Option<Arc<HostedProcesses>>,
    /// The generations of processes that are to end and that the host does not know yet, by slot.
    pub(crate) doomed: Mutex<HashMap<u32, u32>>,
}

impl Service {
    /// A service for a table of `slots` processes.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(slots: u32, streams: Streams, events: Arc<dyn Events>) -> io::Result<Self> {
        Self::for_slots(0..slots, streams, events)
    }

    /// A service for the processes with slots of these numbers. Several services may share a ring
    /// ([`Server::attach`](crate::Server::attach)).
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn for_slots(
        slots: Range<u32>,
        streams: Streams,
        events: Arc<dyn Events>,
    ) -> io::Result<Self> {
        let waits = Arc::new(Waits::default());
        let listener: Weak<Waits> = Arc::downgrade(&waits);
        streams.stdin.listen(Box::new(move || {
            if let Some(waits) = listener.upgrade() {
                waits.input();
            }
        }));
        let of_thread = Arc::clone(&waits);
        let waiter = thread::Builder::new()
            .name("everwarp-waits".into())
            .spawn(move || of_thread.run())?;
        Ok(Self {
            first: slots.start,
            slots: slots.map(|_| Mutex::default()).collect(),
            streams,
            events,
            waits,
            openings: Openings::new(),
            waiter: Some(waiter),
            counters: Arc::default(),
            times: timed::times().map(Arc::new),
            doomed: Mutex::default(),
        })
    }

    /// The numbers of its slots.
    pub fn slots(&self) -> Range<u32> {
        self.first..self.first + self.slots.len() as u32
    }

    pub(crate) fn events(&self) -> &Arc<dyn Events> {
        &self.events
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The errors of writes to the host's output streams. An error is recorded here whether or not a process gets it too.
    pub fn output_errors(&self) -> &Arc<OutputErrors> {
        self.streams.output_errors()
    }

    /// Lines that processes write may wait to be written as long as the result lives.
    pub(crate) fn defer_output(&self) -> [Deferred<'_>; 2] {
        [self.streams.stdout.defer(), self.streams.stderr.defer()]
    }

    /// Lets processes have `files` files and directories open together, rather than as many as the system grants. To
    /// be called before anything is opened.
    pub fn limit_files(&self, files: u64) {
        self.openings.limit(files);
    }

    /// The counts of requests and answers until now.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Where the times of its processes and their calls are recorded; `None` unless that was asked for before the service was
    /// made ([`everwarp_telemetry::level`]). The service records the calls that come through a ring, and its owner records starts
    /// and ends.
    pub fn times(&self) -> Option<&HostedProcesses> {
        self.times.as_deref()
    }

    /// The same for an answer that is given later.
    pub(crate) fn shared_times(&self) -> Option<Arc<HostedProcesses>> {
        self.times.clone()
    }

    /// Opens a process.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        &self,
        process: Pid,
        config: impl Into<Arc<Config>>,
    ) -> std::result::Result<(), OpenError> {
        self.open_as(process, config.into(), 0, 0)
    }

    /// Opens a process as number `number` of those that share a configuration ([`Config::own`]). The tag is reported
    /// when it ends.
    ///
    /// # Errors
    /// As [`Service::open`].
    pub fn open_as(
        &self,
        process: Pid,
        config: Arc<Config>,
        number: u32,
        tag: u64,
    ) -> std::result::Result<(), OpenError> {
        let slot = self.slot(process).ok_or(OpenError::NoSuchSlot {
            slot: process.slot(),
            slots: self.slots.len(),
        })?;
        let (handles, directories) = (config.handles, config.directories.len());
        let given = directories + config.listeners.len();
        if (handles as usize) < STREAMS + given {
            return Err(OpenError::TooFewHandles { handles, given });
        }
        let mut slot = lock(slot);
        if let Some(process) = slot.process() {
            return Err(OpenError::InUse { process });
        }
        let start = StartConfig {
            config,
            number,
            tag,
        };
        *slot = ProcessSlot::Silent(process, start);
        Ok(())
    }

    /// Ends a process that did not exit itself. Returns what it left, or `None` if there is no such process.
    ///
    /// Its requests that wait get `ECANCELED`, and those that have not been served yet get `ESRCH`. Where output that has
    /// not been served yet matters, the device should send an `EXIT` after it instead.
    pub fn close(&self, process: Pid, reason: ExitReason) -> Option<ExitReport> {
        let mut endings = Endings::default();
        let ended = self.end(process, reason, b"", &mut endings);
        endings.settle(&self.streams);
        self.serve_openings();
        ended.map(|ended| ended.exit)
    }

    /// Ends a process after the last of its standard output. If that cannot be written, the error is recorded.
    pub(crate) fn end(
        &self,
        process: Pid,
        reason: ExitReason,
        last: &[u8],
        endings: &mut Endings,
    ) -> Option<Ended> {
        let ended = |tag, stdout, stderr| Ended {
            process,
            tag,
            exit: ExitReport {
                reason,
                fuel_left: 0,
                stdout,
                stderr,
            },
        };
        let there = match self.take(process)? {
            ProcessSlot::Free => return None,
            ProcessSlot::Silent(pid, start) => {
                drop(start.config.take_connection(start.number));
                let [stdout, stderr] = endings.last_output(pid, &start, last, &self.streams);
                return Some(ended(start.tag, stdout, stderr));
            }
            ProcessSlot::Open(there) => there,
        };
        if !last.is_empty() {
            // An error is recorded.
            let _ = there.stdout.write(last);
        }
        there.ended.store(true, SeqCst);
        self.waits.ended(&there);
        let (stdout, stderr) = (there.stdout.finish(), there.stderr.finish());
        // A request that is being served may hold the process a while longer, but its files close now.
        let table = replace(&mut *lock(&there.table), DescriptorTable::new(0));
        drop(table);
        self.cancel_openings_of(&there);
        Some(ended(there.tag, stdout, stderr))
    }

    /// Cancels what a process waits for, now and from now on; it stays open. This is for a process that has been asked
    /// to end, so that it notices.
    pub fn interrupt(&self, process: Pid) {
        if let Ok(there) = self.process(process) {
            there.ended.store(true, SeqCst);
            self.waits.ended(&there);
            self.cancel_openings_of(&there);
        }
    }

    /// Reports the processes that have exited, after all their output has been written.
    pub(crate) fn report_ends(&self, endings: &mut Endings) {
        endings.settle(&self.streams);
        let exits = &self.counters.calls[number::EXIT as usize];
        Counters::add(exits, take(&mut endings.exits));
        Counters::add(&self.counters.bytes_in, take(&mut endings.bytes));
        if !endings.ended.is_empty() {
            self.events().exited(&mut endings.ended);
            endings.ended.clear();
        }
    }

    pub(crate) fn slot(&self, process: Pid) -> Option<&Mutex<ProcessSlot>> {
        let slot = process.slot().wrapping_sub(self.first);
        self.slots.get(slot as usize)
    }

    /// Empties the slot of a process; `None` if there is no such process.
    fn take(&self, process: Pid) -> Option<ProcessSlot> {
        let mut slot = lock(self.slot(process)?);
        let there = slot.process() == Some(process);
        there.then(|| take(&mut *slot))
    }

    /// Whether there is such a process.
    pub(crate) fn knows(&self, process: Pid) -> bool {
        let slot = self.slot(process);
        slot.is_some_and(|slot| lock(slot).process() == Some(process))
    }

    pub(crate) fn process(&self, process: Pid) -> Result<Arc<Process>> {
        let slot = self.slot(process).ok_or(Errno::SRCH)?;
        lock(slot).open(process, &self.streams)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.streams.stdin.close();
        self.waits.stop();
        // The last owner of the service may be a callback on that thread, and a thread cannot wait for itself.
        let elsewhere = |waiter: &JoinHandle<()>| waiter.thread().id() != thread::current().id();
        if let Some(waiter) = self.waiter.take().filter(elsewhere) {
            // It cannot have panicked: it catches the panics of callbacks.
            drop(waiter.join());
        }
    }
}
