//! What every process must do.

mod channels;
mod children;
mod ends;
mod late;
mod load;
mod many;
mod streams;
mod threads;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use everwarp_process::{
    Bytes, Captured, Exit, ExitStatus, Grants, ModuleId, Output, Pid, ProcessEngine, SpawnError,
    SpawnRequest, StartWriter,
};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

/// A case.
pub(crate) type Case = fn(&CudaProcesses) -> Result<(), Failed>;

macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        /// The modules that the cases run, by name.
        pub(crate) const MODULES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../modules/", $name, ".wat")))),*];
    };
}
modules!(
    "hello",
    "ends",
    "files",
    "cat",
    "facts",
    "sleep",
    "lines",
    "moves",
    "neighbour",
    "sum",
    "calls",
    "reads",
    "pieces",
    "echo",
    "family",
    "forge",
    "threads"
);

/// Guests, which come behind them.
pub(crate) const GUESTS: &[(&str, &[u8])] = &[
    (
        "pipeline",
        include_bytes!("../../../../../guests/built/pipeline.wasm"),
    ),
    ("kv", include_bytes!("../../../../../guests/built/kv.wasm")),
];

/// All cases.
pub(crate) const ALL: &[(&str, Case)] = &[
    ("hello", streams::hello),
    ("exit_codes", ends::exit_codes),
    ("traps", ends::traps),
    ("fuel", ends::fuel),
    ("memory_limit", ends::memory_limit),
    ("kill_a_loop", ends::kill_a_loop),
    ("files", streams::files),
    ("cat", streams::cat),
    ("own_input", streams::own_input),
    ("facts", streams::facts),
    ("lines", streams::lines),
    ("kill_a_wait", ends::kill_a_wait),
    ("kill_in_the_queue", ends::kill_in_the_queue),
    ("stale_pids", ends::stale_pids),
    ("listing", ends::listing),
    ("waits_hold_no_lane", many::waits_hold_no_lane),
    ("loops_share_their_lanes", many::loops_share_their_lanes),
    ("many_callers", many::many_callers),
    ("many_readers", many::many_readers),
    ("readers_without_room", many::readers_without_room),
    ("readers_in_turn", many::readers_in_turn),
    ("neighbours", many::neighbours),
    ("echo", channels::echo),
    ("kill_a_receiver", channels::kill_a_receiver),
    ("ends_in_the_queue", channels::ends_in_the_queue),
    ("forged", channels::forged),
    ("pairs", channels::pairs),
    ("closing_races", channels::closing_races),
    ("killed_children", channels::killed_children),
    ("output_of_children", channels::output_of_children),
    ("places_of_children", channels::places_of_children),
    ("children", channels::children),
    ("named_children", children::named),
    ("listed_children", children::listed),
    ("gone_children", children::gone),
    ("bombs", channels::bombs),
    ("guests", channels::guests),
    ("threads_locks", threads::locks),
    ("threads_notifications", threads::notifications),
    ("threads_times", threads::times),
    ("threads_growing", threads::growing),
    ("threads_joins", threads::joins),
    ("threads_output", threads::output),
    ("threads_ends", threads::ends),
    ("threads_fuel", threads::fuel),
    ("threads_kills", threads::kills),
    ("threads_bomb", threads::bomb),
    ("threads_crowd", threads::crowd),
    ("a_hundred_thousand", many::a_hundred_thousand),
    ("each_its_own", many::each_its_own),
    ("refused_loads", load::refused_loads),
    ("load_while_running", load::load_while_running),
    ("load_a_family", late::family),
    ("load_threads", late::threads),
];

/// The modules that a host begins with for the cases of [`BARE`].
pub(crate) const BARE_MODULES: &[&str] = &["hello", "sum"];

/// Cases for a host that begins without channels, children and threads.
pub(crate) const BARE: &[(&str, Case)] = &[
    ("threads_beside_others", late::threads_beside_others),
    ("family_beside_others", late::family_beside_others),
];

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
const CAPTURE: Output = Output::Capture { limit: 1 << 20 };

fn number(module: &str) -> ModuleId {
    let texts = MODULES.iter().map(|(name, _)| *name);
    let mut all = texts.chain(GUESTS.iter().map(|(name, _)| *name));
    let found = all.position(|name| name == module);
    let found = found.unwrap_or_else(|| panic!("there is no module {module}"));
    ModuleId(found as u32)
}

/// What the processes of a case are given.
#[derive(Clone)]
struct Launch {
    args: Vec<String>,
    env: Vec<(&'static str, &'static str)>,
    /// A standard input of the process's own.
    stdin: Option<Bytes>,
    grants: Grants,
}

impl Launch {
    fn granted(mut self, change: impl FnOnce(&mut Grants)) -> Self {
        change(&mut self.grants);
        self
    }

    fn write(&self, writer: &mut dyn StartWriter) {
        self.args.iter().for_each(|arg| writer.arg(&[arg]));
        for (name, value) in &self.env {
            writer.variable(name, &[value]);
        }
        if let Some(bytes) = &self.stdin {
            writer.stdin(bytes.clone());
        }
    }
}

/// Captured output, and these arguments after the program's name.
fn config(args: &[&str]) -> Launch {
    let args = std::iter::once(&"program").chain(args);
    Launch {
        args: args.map(|a| (*a).to_owned()).collect(),
        env: Vec::new(),
        stdin: None,
        grants: Grants {
            stdout: CAPTURE,
            stderr: CAPTURE,
            ..Grants::default()
        },
    }
}

/// Starts processes that are all given the same; returns their pids by number.
fn spawn_many(
    host: &CudaProcesses,
    module: ModuleId,
    launch: &Launch,
    count: usize,
) -> Result<Vec<Pid>, SpawnError> {
    let parts = Mutex::new(BTreeMap::new());
    host.spawn(&SpawnRequest {
        module,
        grants: &launch.grants,
        count: count as u32,
        write: &|_, writer| launch.write(writer),
        started: &|first, pids| {
            let mut parts = parts.lock().expect("no other holder panics");
            parts.insert(first, pids.to_vec());
            ControlFlow::Continue(())
        },
    })?;
    let parts = parts.into_inner().expect("no other holder panics");
    Ok(parts.into_values().flatten().collect())
}

fn spawn(host: &CudaProcesses, module: ModuleId, launch: &Launch) -> Result<Pid, SpawnError> {
    let pids = spawn_many(host, module, launch, 1)?;
    Ok(pids[0])
}

fn wait(host: &CudaProcesses, pid: Pid) -> Result<Exit, Failed> {
    Ok(host.wait(pid, Some(PATIENCE))?)
}

fn run(host: &CudaProcesses, module: &str, launch: &Launch) -> Result<Exit, Failed> {
    let pid = spawn(host, number(module), launch)?;
    wait(host, pid)
}

fn text(captured: &Option<Captured>) -> String {
    let captured = captured.as_ref().expect("it was to be captured");
    String::from_utf8_lossy(&captured.bytes).into_owned()
}

/// Fails unless the two are equal.
fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), Failed> {
    if found == expected {
        return Ok(());
    }
    Err(format!("found {found:?}, expected {expected:?}").into())
}

fn normal(exit: &Exit, code: u32) -> Result<(), Failed> {
    same(&exit.status, &ExitStatus::Exited(code))
}
