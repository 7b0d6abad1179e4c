//! What every process must do.

mod channels;
mod children;
mod ends;
mod late;
mod load;
mod many;
mod streams;
mod threads;

use std::time::Duration;

use everwarp_process_cuda::{Captured, Config, Exit, Host, Output, Pid, Reason, Strings};
use libtest_mimic::Failed;

/// A case.
pub(crate) type Case = fn(&Host) -> Result<(), Failed>;

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

fn number(module: &str) -> usize {
    let texts = MODULES.iter().map(|(name, _)| *name);
    let mut all = texts.chain(GUESTS.iter().map(|(name, _)| *name));
    let found = all.position(|name| name == module);
    found.unwrap_or_else(|| panic!("there is no module {module}"))
}

/// Captured output, and these arguments behind the program's name.
fn config(args: &[&str]) -> Config {
    let args = std::iter::once(&"program").chain(args);
    Config {
        strings: Strings {
            args: args.map(|a| (*a).to_owned()).collect(),
            ..Strings::default()
        },
        stdout: CAPTURE,
        stderr: CAPTURE,
        ..Config::default()
    }
}

fn wait(host: &Host, pid: Pid) -> Result<Exit, Failed> {
    let exit = host.wait_timeout(pid, PATIENCE)?;
    exit.ok_or_else(|| "it has not been waited for".into())
}

fn run(host: &Host, module: &str, config: &Config) -> Result<Exit, Failed> {
    let pid = host.spawn(number(module), config)?;
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
    same(&exit.reason, &Reason::Normal(code))
}
