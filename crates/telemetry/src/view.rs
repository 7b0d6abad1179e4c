//! What a program shows of its engines: plain data, which goes through the control socket as JSON.

use serde::{Deserialize, Serialize};

use crate::histogram::Distribution;

/// Whether something works, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// How well it works.
    pub state: HealthState,
    /// Why, in words; empty if it works.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// How well something works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// It works.
    #[default]
    Ok,
    /// It works, and something that was asked of it was not done.
    Degraded,
    /// It does not work any more.
    Failed,
}

impl std::fmt::Display for HealthState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        })
    }
}

impl Health {
    /// It works, with something left to say.
    pub fn degraded(reason: impl Into<String>) -> Self {
        Self {
            state: HealthState::Degraded,
            reason: reason.into(),
        }
    }
    /// It does not work.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self {
            state: HealthState::Failed,
            reason: reason.into(),
        }
    }
}

/// A program and all of its engines, as they were at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramView {
    /// The program's process id.
    pub os_pid: u32,
    /// The name of its file.
    pub program: String,
    /// The version of everwarp in it.
    pub version: String,
    /// Seconds since its first engine started.
    pub age_s: f64,
    /// Whether times are measured.
    pub measures: bool,
    /// Whether it runs the engines of the service, which shows the processes of its clients itself.
    #[serde(default)]
    pub of_service: bool,
    /// Whether it is traced.
    pub traces: bool,
    /// Its engines for tasks.
    pub engines: Vec<EngineView>,
    /// Its hosts of processes.
    pub hosts: Vec<HostView>,
    /// Its systems of actors.
    pub systems: Vec<SystemView>,
}

/// An engine for tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineView {
    /// Its number in the program.
    pub number: u32,
    /// `cpu`, `cuda` or `wgpu`.
    pub engine: String,
    /// The device's name.
    pub device: String,
    /// Seconds since it started.
    pub age_s: f64,
    /// Whether it works.
    pub health: Health,
    /// Threads on a CPU, blocks on a GPU.
    pub size: u32,
    /// Tasks run to completion.
    pub executed: u64,
    /// Batches in which they ran.
    pub batches: u64,
    /// Continuations fired.
    pub fired: u64,
    /// Tasks that moved from one worker to another.
    pub received: u64,
    /// How often a worker could not run because a pool had no room.
    pub starved: u64,
    /// Tasks in the workers' queues.
    pub queued: u64,
    /// Tasks that the pools hold, and how often they had no room for one.
    pub task_limit: u64,
    /// How often a task was refused room.
    pub task_refusals: u64,
    /// Groups that the pools hold.
    pub group_limit: u64,
    /// How often a group was refused.
    pub group_refusals: u64,
    /// Bytes of its heap that are in use; none without a heap.
    pub heap_used: Option<u64>,
    /// Bytes of its heap.
    pub heap_bytes: Option<u64>,
    /// Bytes of device memory that it occupies, without buffers.
    pub device_bytes: u64,
    /// Its workers: threads on a CPU, multiprocessors on a GPU.
    pub workers: Vec<WorkerView>,
    /// Its functions, by program.
    pub functions: Vec<FunctionView>,
    /// Tasks in the queues of a worker, seen at samples.
    pub depth: Option<Distribution>,
}

/// A worker, or the workers of a multiprocessor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerView {
    /// Its number.
    pub number: u32,
    /// How many workers it stands for.
    pub workers: u32,
    /// How many of them run a task.
    pub running: u32,
    /// How many have tasks and no room for them.
    pub starved: u32,
    /// What the first of them does.
    pub state: String,
    /// The function of its last task.
    pub function: String,
    /// Tasks run to completion.
    pub executed: u64,
    /// Tasks that came from other workers.
    pub received: u64,
    /// Tasks in its queues.
    pub queued: u64,
}

/// A function of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionView {
    /// The program.
    pub program: String,
    /// The function.
    pub function: String,
    /// How often it was called; none if that is not counted.
    pub calls: Option<u64>,
    /// How long its tasks ran.
    pub run: Option<Distribution>,
    /// How long they waited in queues.
    pub wait: Option<Distribution>,
}

/// A host of processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostView {
    /// Its number in the program.
    pub number: u32,
    /// The program's process id, or that of the service's client.
    pub os_pid: u32,
    /// `cpu` or `cuda`.
    pub engine: String,
    /// The module, as the program names it.
    pub module: String,
    /// Seconds since it started.
    pub age_s: f64,
    /// Whether it works.
    #[serde(default)]
    pub health: Health,
    /// How many processes have not started.
    pub waiting: usize,
    /// How many processes have started and not exited.
    pub running: usize,
    /// How many processes have exited and have not been waited for.
    pub ended: usize,
    /// How many processes are not described.
    pub left_out: usize,
    /// How far the compiler is, where functions come while processes run.
    #[serde(default)]
    pub compiling: Option<CompilingView>,
    /// What its processes did so far, where that is measured.
    #[serde(default)]
    pub totals: Option<ProcessTotals>,
    /// The processes that are described.
    pub processes: Vec<ProcessRow>,
}

/// How far the compiler is with the modules of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompilingView {
    /// Functions that were not compiled before the start.
    pub left_out: u64,
    /// Those of them that are assembled.
    pub assembled: u64,
    /// Those of them that processes have.
    pub present: u64,
    /// How often the engine's image was exchanged for more functions.
    pub exchanges: u64,
    /// Seconds for which that paused the engine, in all.
    pub paused_s: f64,
}

/// What the processes of a program did so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessTotals {
    /// Processes that have started.
    pub started: u64,
    /// Processes that exited with code 0.
    pub succeeded: u64,
    /// Processes that ended in another way.
    pub failed: u64,
    /// How long they waited for a thread, or for a place on a GPU.
    pub wait: Distribution,
    /// How long they took from their start to their end.
    pub run: Distribution,
    /// Host calls.
    pub calls: u64,
    /// How long host calls took: on the CPU engine from samples, on a GPU from the moment at which the host took the request
    /// until it had written the answer.
    pub call: Distribution,
    /// The host calls of each kind, where kinds are counted: on a GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_kind: Vec<CallTimes>,
}

/// How long the host calls of one kind took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// The call's name, such as `fd_write`.
    pub call: String,
    /// How long each of them took.
    pub times: Distribution,
}

impl ProcessTotals {
    /// Adds what other processes did.
    pub fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
        self.calls += other.calls;
        self.call.merge(&other.call);
        for kind in &other.by_kind {
            match self.by_kind.iter_mut().find(|own| own.call == kind.call) {
                Some(own) => own.times.merge(&kind.times),
                None => self.by_kind.push(kind.clone()),
            }
        }
    }
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// `SLOT.GENERATION`.
    pub pid: String,
    /// Its number among the processes that the program started; none if another process spawned it.
    pub instance: Option<u32>,
    /// The process that spawned it; none if the program did.
    pub parent: Option<String>,
    /// What it does.
    pub state: String,
    /// The fuel that it had used at its last host call or suspension; none where fuel is not counted.
    pub fuel_used: Option<u64>,
    /// The bytes of its memory and tables.
    pub memory_bytes: Option<u64>,
}

/// A system of actors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemView {
    /// Its number in the program.
    pub number: u32,
    /// The program of actors.
    pub program: String,
    /// The kind of its engine.
    pub engine: String,
    /// Whether it works.
    pub health: Health,
    /// Actors that it has room for.
    pub limit: u32,
    /// Actors that live.
    pub live: u32,
    /// Dead letters, by reason.
    pub dead: Vec<(String, u64)>,
    /// How often a sender was muted.
    pub mutes: u64,
    /// How often there was no slot for an actor.
    pub launch_refusals: u64,
    /// How often a failed actor was restarted.
    pub restarts: u64,
    /// How long the host's asks took until their replies.
    pub ask: Option<Distribution>,
    /// Its kinds.
    pub kinds: Vec<KindView>,
    /// Some of its actors: those with the most messages handled come first.
    pub actors: Vec<ActorRow>,
}

/// A kind of actors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindView {
    /// Its name.
    pub kind: String,
    /// Whether its actors work.
    pub health: Health,
    /// Actors that live.
    pub live: u32,
    /// Those of them that have a turn, or wait for one.
    pub busy: u32,
    /// Those that keep their messages and handle none.
    pub deactivated: u32,
    /// Those that wait until a receiver has room.
    pub muted: u32,
    /// Messages that wait in mailboxes.
    pub waiting: u64,
    /// The longest mailbox.
    pub longest: u32,
    /// The bound of a mailbox.
    pub bound: u32,
    /// Messages that its living actors have handled.
    pub handled: u64,
    /// How long handling one message took.
    pub handling: Option<Distribution>,
    /// How long turns waited in queues.
    pub wait: Option<Distribution>,
}

/// One actor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorRow {
    /// `SLOT.GENERATION`.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// What it does.
    pub state: String,
    /// Messages that wait in its mailbox.
    pub waiting: u32,
    /// Messages that it has handled.
    pub handled: u64,
    /// The actor that launched it; none if the host did.
    pub parent: Option<String>,
    /// The bytes of its state in hexadecimal, if one actor was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl ProgramView {
    /// The worst health of all of its parts, with all reasons.
    pub fn health(&self) -> Health {
        let mut parts = Vec::new();
        for e in &self.engines {
            parts.push((format!("engine {} ({})", e.number, e.engine), &e.health));
        }
        for h in &self.hosts {
            parts.push((format!("processes of {}", h.module), &h.health));
        }
        for s in &self.systems {
            parts.push((format!("actors of {}", s.program), &s.health));
            for kind in &s.kinds {
                parts.push((format!("kind {} of {}", kind.kind, s.program), &kind.health));
            }
        }
        let bad = parts
            .iter()
            .filter(|(_, health)| health.state != HealthState::Ok);
        let reasons: Vec<_> = bad
            .map(|(what, health)| format!("{what}: {}", health.reason))
            .collect();
        Health {
            state: parts
                .iter()
                .map(|(_, health)| health.state)
                .max()
                .unwrap_or_default(),
            reason: reasons.join("; "),
        }
    }
}
