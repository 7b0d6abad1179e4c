//! The host of processes: a table, a queue and a fixed set of threads.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use everwarp_process::{ChannelError, Pid, gpu};
use tokio::sync::Notify;

use crate::channel::{Channel, Receiver, Sender};
use crate::config::Config;
use crate::crowd::work;
use crate::engines::{Engines, POOL};
use crate::epoch::Kills;
use crate::exit::{Exit, Reason};
use crate::pid::StalePid;
use crate::process::{Killed, Process, State, Work};
use crate::program::{LoadError, Program};
use crate::table::Table;

/// Why a process was not begun.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// It would start with more than it may have.
    #[error("the module starts with {needs} bytes of memory, and the limit is {limit}")]
    Memory {
        /// Bytes of linear memory and tables at the start.
        needs: u64,
        /// The limit given.
        limit: u64,
    },
    /// A directory that it is to have is none.
    #[error("{path}: {source}")]
    Directory {
        /// The path on the host.
        path: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// An argument or a variable that C strings cannot hold.
    #[error("{what:?} contains a zero byte")]
    ZeroByte {
        /// The argument or variable.
        what: String,
    },
    /// More ends of channels than a process may have.
    #[error("{ends} ends of channels, where a process can have {most}")]
    Ends {
        /// How many were given.
        ends: usize,
        /// How many there may be.
        most: usize,
    },
    /// Every pid is in use.
    #[error("all 2^32 processes of this host are in use: wait for some")]
    Full,
}

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It waits for a thread.
    Queued,
    /// It runs.
    Running,
    /// It has ended and has not been waited for.
    Exited,
}

/// One row of [`Host::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process.
    pub pid: Pid,
    /// Where it is in its life.
    pub state: ProcessState,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Arc<Process>>,
    stop: bool,
}

pub(crate) struct Shared {
    table: Mutex<Table<Arc<Process>>>,
    queue: Mutex<Queue>,
    work: Condvar,
    /// The same for threads that have processes already.
    pub(crate) more: Notify,
    pub(crate) kills: Kills,
    /// What processes may spawn, by name.
    programs: Mutex<HashMap<String, Program>>,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table<Arc<Process>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next process to run; `None` when the host ends.
    pub(crate) fn next(&self) -> Option<Arc<Process>> {
        let mut queue = self.queue();
        loop {
            if queue.stop {
                return None;
            }
            if let Some(process) = queue.ready.pop_front() {
                return Some(process);
            }
            queue = self
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next process to run, if there is one.
    pub(crate) fn another(&self) -> Option<Arc<Process>> {
        let mut queue = self.queue();
        match queue.stop {
            true => None,
            false => queue.ready.pop_front(),
        }
    }

    /// Whether processes wait for a thread.
    pub(crate) fn has_more(&self) -> bool {
        !self.queue().ready.is_empty()
    }

    pub(crate) fn program(&self, name: &[u8]) -> Option<Program> {
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let name = std::str::from_utf8(name).ok()?;
        programs.get(name).cloned()
    }

    /// Begins a process.
    pub(crate) fn spawn(&self, work: Work) -> Result<Arc<Process>, SpawnError> {
        fits(&work.program, &work.config)?;
        let process = self.enter(work).ok_or(SpawnError::Full)?;
        self.queue().ready.push_back(Arc::clone(&process));
        self.work.notify_one();
        self.more.notify_one();
        Ok(process)
    }

    /// Puts a process into the table; nothing if that is full.
    fn enter(&self, work: Work) -> Option<Arc<Process>> {
        let mut made = None;
        self.table().insert(|pid| {
            let process = Arc::new(Process::new(pid, work));
            made.insert(process).clone()
        });
        made
    }

    /// Begins processes together, which takes the locks of the threads that run them once.
    fn spawn_all(&self, works: impl Iterator<Item = Work>) -> Result<Vec<Pid>, SpawnError> {
        let mut processes = Vec::<Arc<Process>>::new();
        for work in works {
            let Some(process) = self.enter(work) else {
                processes.iter().for_each(|process| self.forget(process));
                return Err(SpawnError::Full);
            };
            processes.push(process);
        }
        let pids = processes.iter().map(|process| process.pid).collect();
        self.queue().ready.extend(processes);
        self.work.notify_all();
        self.more.notify_one();
        Ok(pids)
    }

    /// Takes a process out of the table.
    pub(crate) fn forget(&self, process: &Process) {
        // Somebody else may have waited for it.
        drop(self.table().remove(process.pid));
    }

    pub(crate) fn kill(&self, process: &Process) {
        match process.kill(ended(Reason::Killed), || self.kills.begin()) {
            Killed::Ended | Killed::Told | Killed::Nothing => {}
        }
    }
}

/// Whether a process may have what its module starts with.
fn fits(program: &Program, config: &Config) -> Result<(), SpawnError> {
    let needs = program.start_bytes();
    match config.memory_limit.filter(|limit| *limit < needs) {
        Some(limit) => Err(SpawnError::Memory { needs, limit }),
        None => Ok(()),
    }
}

/// Whether a process can be given what it is to be given. Directories that the one `before` has are not looked at again.
fn check(program: &Program, config: &Config, before: Option<&Config>) -> Result<(), SpawnError> {
    fits(program, config)?;
    if before.is_none_or(|before| before.directories != config.directories) {
        for directory in &config.directories {
            std::fs::read_dir(&directory.host).map_err(|source| SpawnError::Directory {
                path: directory.host.clone(),
                source,
            })?;
        }
    }
    let variables = config.env.iter().flat_map(|(k, v)| [k, v]);
    if let Some(what) = (config.args.iter().chain(variables)).find(|s| s.contains('\0')) {
        return Err(SpawnError::ZeroByte { what: what.clone() });
    }
    let most = gpu::HANDLES as usize;
    if config.ends.len() > most {
        let ends = config.ends.len();
        return Err(SpawnError::Ends { ends, most });
    }
    Ok(())
}

/// The exit of a process that did not run.
pub(crate) fn ended(reason: Reason) -> Exit {
    Exit {
        reason,
        fuel_used: 0,
        elapsed: Duration::ZERO,
        stdout: None,
        stderr: None,
    }
}

/// So many threads of those that the pool has instances for.
struct Permit(usize);

static THREADS: AtomicUsize = AtomicUsize::new(0);

impl Permit {
    fn take(count: usize) -> std::io::Result<Self> {
        let more = |have: usize| have.checked_add(count).filter(|n| *n <= POOL as usize);
        // Only the number itself is agreed upon.
        let taken = THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let refused = |have| {
            let text = format!("{count} threads beside {have}: there may be {POOL} for processes");
            std::io::Error::other(text)
        };
        taken.map(|_| Self(count)).map_err(refused)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        THREADS.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Runs processes on a fixed set of threads.
///
/// Dropping it kills what still runs.
pub struct Host {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    driver: Option<JoinHandle<()>>,
    _permit: Permit,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Host({} threads)", self.threads.len())
    }
}

impl Host {
    /// Starts a host with so many threads, or with as many as the machine runs at once.
    ///
    /// # Errors
    ///
    /// The system refuses a thread, wasmtime does not generate code for this machine, or all hosts together would
    /// have more than 1,024 threads.
    pub fn start(threads: Option<NonZeroUsize>) -> std::io::Result<Self> {
        let count = match threads {
            Some(count) => count.get(),
            None => available_parallelism()?.get(),
        };
        let engines = Engines::get().map_err(std::io::Error::other)?;
        let permit = Permit::take(count)?;
        let shared = Arc::new(Shared {
            table: Mutex::new(Table::new()),
            queue: Mutex::default(),
            work: Condvar::new(),
            more: Notify::new(),
            kills: Kills::default(),
            programs: Mutex::default(),
        });
        // Made first, so that what has been started ends if a thread is refused.
        let mut host = Self {
            shared,
            threads: Vec::with_capacity(count),
            driver: None,
            _permit: permit,
        };
        let spawn = |name: String, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name).spawn(body)
        };
        let shared = host.shared.clone();
        let drive = Box::new(move || shared.kills.drive(engines));
        host.driver = Some(spawn("processes".to_owned(), drive)?);
        for n in 0..count {
            let shared = host.shared.clone();
            let body = Box::new(move || work(&shared));
            host.threads.push(spawn(format!("process-{n}"), body)?);
        }
        Ok(host)
    }

    /// Loads a module while processes run, as the host of the other engine does; here none of them waits for it.
    /// Answers how long it took, too.
    ///
    /// # Errors
    ///
    /// [`LoadError`], as [`Program::load`].
    pub fn load(&self, bytes: &[u8]) -> Result<(Program, Duration), LoadError> {
        let begin = Instant::now();
        let program = Program::load(bytes)?;
        Ok((program, begin.elapsed()))
    }

    /// How many processes run at once.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Begins a process; it runs when a thread is free.
    ///
    /// # Errors
    ///
    /// What it is to be given does not exist, or is less than it starts with ([`SpawnError`]).
    pub fn spawn(&self, program: &Program, config: Config) -> Result<Pid, SpawnError> {
        check(program, &config, None)?;
        Ok(self.shared.spawn(Work::new(program, config))?.pid)
    }

    /// Begins processes, in this order, all of them or none; many at a time cost less.
    ///
    /// # Errors
    ///
    /// As [`Host::spawn`].
    pub fn spawn_all(
        &self,
        program: &Program,
        configs: Vec<Config>,
    ) -> Result<Vec<Pid>, SpawnError> {
        let mut before = None;
        for config in &configs {
            check(program, config, before)?;
            before = Some(config);
        }
        let works = configs.into_iter().map(|config| Work::new(program, config));
        self.shared.spawn_all(works)
    }

    /// Lets processes spawn a program under a name; one that had it loses it.
    pub fn name(&self, name: impl Into<String>, program: &Program) {
        let mut programs = (self.shared.programs.lock()).unwrap_or_else(PoisonError::into_inner);
        programs.insert(name.into(), program.clone());
    }

    /// Makes a channel of so many messages of up to so many bytes, whose ends the host holds and may give to
    /// processes ([`Config::ends`]). A side is open as long as somebody has an end of it.
    ///
    /// # Errors
    /// It is too large.
    pub fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError> {
        let (sender, receiver) = Channel::open(capacity, bytes)?;
        Ok((Sender(sender), Receiver(receiver)))
    }

    /// Waits until a process has ended. Its pid means nothing afterwards.
    ///
    /// # Errors
    ///
    /// It has been waited for already, perhaps by another thread just now.
    pub fn wait(&self, pid: Pid) -> Result<Exit, StalePid> {
        let process = self.shared.table().get(pid)?.clone();
        let exit = process.wait().ok_or(StalePid(pid))?;
        self.shared.table().remove(pid)?;
        Ok(exit)
    }

    /// Ends a process. It stays in the table until it is waited for; one that has ended keeps its reason.
    ///
    /// # Errors
    ///
    /// It has been waited for already.
    pub fn kill(&self, pid: Pid) -> Result<(), StalePid> {
        let process = self.shared.table().get(pid)?.clone();
        self.shared.kill(&process);
        Ok(())
    }

    /// The records of all processes.
    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        self.shared.table().values().cloned().collect()
    }

    /// Ends a process, whatever it does.
    pub(crate) fn end(&self, process: &Process) {
        self.shared.kill(process);
    }

    /// All processes that have not been waited for, by slot.
    pub fn list(&self) -> Vec<Status> {
        let table = self.shared.table();
        let rows = table.values().filter_map(|process| {
            let state = match *process.state() {
                State::Queued(_) => ProcessState::Queued,
                State::Running => ProcessState::Running,
                State::Exited(_) => ProcessState::Exited,
                State::Reaped => return None,
            };
            Some(Status {
                pid: process.pid,
                state,
            })
        });
        rows.collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.queue().stop = true;
        self.shared.work.notify_all();
        let all: Vec<_> = self.shared.table().values().cloned().collect();
        for process in all {
            self.shared.kill(&process);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            drop(thread.join());
        }
        self.shared.kills.stop();
        if let Some(driver) = self.driver.take() {
            drop(driver.join());
        }
    }
}
