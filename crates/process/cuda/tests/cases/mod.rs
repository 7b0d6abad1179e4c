//! Behaviour that every process must show, whether memories are interleaved or not.

mod channels;
mod children;
mod ends;
pub(crate) mod growing;
mod late;
mod load;
mod many;
pub(crate) mod missing;
mod pointers;
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
use everwarp_testkit::cases;
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

/// Guests, whose numbers follow those of the modules.
pub(crate) const GUESTS: &[(&str, &[u8])] = &[
    (
        "pipeline",
        include_bytes!("../../../../../guests/built/pipeline.wasm"),
    ),
    ("kv", include_bytes!("../../../../../guests/built/kv.wasm")),
];

/// The cases for a host with all modules.
pub(crate) const ALL: &[(&str, Case)] = cases![
    arguments_and_environment_reach_the_process in streams,
    a_process_exits_with_its_code in ends,
    a_trap_names_its_kind_and_its_function in ends,
    a_process_ends_when_its_fuel_is_used in ends,
    memory_grows_up_to_its_limit in ends,
    a_kill_ends_a_loop in ends,
    files_and_directories_can_be_used in streams,
    standard_input_is_copied_to_standard_output in streams,
    a_process_reads_an_input_of_its_own in streams,
    clocks_advance_and_random_bytes_differ in streams,
    ten_thousand_lines_keep_their_order in streams,
    a_kill_ends_a_call_that_waits in ends,
    a_kill_ends_a_process_that_waits_for_a_place in ends,
    an_old_pid_does_not_reach_a_new_process in ends,
    a_future_is_woken_by_the_exit in ends,
    unknown_modules_and_pids_are_refused in ends,
    a_listing_shows_what_each_process_does in ends,
    waiting_processes_hold_no_lane in many,
    endless_loops_share_their_lanes in many,
    thousands_of_processes_call_the_host_at_once in many,
    thousands_of_processes_read_a_file_at_once in many,
    readers_without_a_free_area_see_the_whole_file in many,
    readers_wait_until_others_close_their_files in many,
    a_hostile_process_does_not_reach_its_neighbours in many,
    messages_of_every_length_come_back_in_order in channels,
    a_kill_ends_a_receiver_and_closes_its_ends in channels,
    a_process_that_never_starts_holds_no_end_open in channels,
    forged_handles_are_refused in channels,
    children_add_up_the_messages_of_their_parents in channels,
    no_message_comes_twice_while_receivers_are_killed in channels,
    children_end_with_their_parents in channels,
    children_write_to_the_output_of_their_ancestor in channels,
    the_output_of_a_child_is_kept_when_its_place_is_reused in channels,
    each_parent_spawns_a_thousand_children in channels,
    children_of_other_modules_exit_like_spawned_processes in children,
    children_are_listed_and_killed_by_the_host in children,
    old_pids_of_children_reach_no_process in children,
    a_bomb_is_limited_and_ends_as_a_whole in channels,
    guests_print_the_same_as_on_the_cpu_engine in channels,
    locks_exclude_threads_of_one_warp in threads,
    a_notification_wakes_as_many_threads_as_it_asks_for in threads,
    waits_end_in_time in threads,
    threads_see_memory_that_others_have_grown in threads,
    places_of_threads_are_used_again in threads,
    lines_of_threads_stay_whole in threads,
    the_end_of_one_thread_ends_all in threads,
    fuel_belongs_to_the_whole_process in threads,
    a_kill_ends_all_threads in threads,
    a_thread_beyond_the_limit_is_refused in threads,
    processes_with_threads_run_at_the_same_time in threads,
    a_hundred_thousand_processes_exit in many,
    each_of_many_processes_reads_its_own_input in many,
    a_refused_module_changes_nothing in load,
    processes_run_on_while_modules_are_loaded in load,
    families_of_late_and_earlier_modules_find_each_other in late,
    a_late_module_has_threads in late,
    bad_pointers_are_errors_and_do_nothing in pointers,
];

/// The modules that a host starts with for the cases of [`BARE`].
pub(crate) const BARE_MODULES: &[&str] = &["hello", "sum"];

/// The cases for a host that starts without channels, children and threads.
pub(crate) const BARE: &[(&str, Case)] = cases![
    a_late_module_has_threads_where_no_module_had_any in late,
    a_late_family_works_where_no_module_had_channels in late,
];

/// The cases for a host whose only module is [`missing::module`], and whose image lacks its functions.
pub(crate) const MISSING: &[(&str, Case)] = cases![
    a_thousand_processes_call_missing_functions_at_once in missing,
    a_kill_ends_a_process_that_waits_for_a_function in missing,
    a_killed_assembler_is_started_again in missing,
    a_function_that_cannot_be_assembled_ends_the_processes_that_ask_for_it in missing,
];

/// The cases for a host whose only module is [`growing::module`], which is compiled while processes run.
pub(crate) const GROWING: &[(&str, Case)] = cases![
    processes_call_deeply_while_their_module_is_compiled in growing,
    the_rest_of_a_module_comes_without_being_asked_for in growing,
];

/// No wait of a case takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
const CAPTURE: Output = Output::Capture { limit: 1 << 20 };

fn number(module: &str) -> ModuleId {
    let texts = MODULES.iter().map(|(name, _)| *name);
    let mut all = texts.chain(GUESTS.iter().map(|(name, _)| *name));
    let found = all.position(|name| name == module);
    let found = found.unwrap_or_else(|| panic!("there is no module {module}"));
    ModuleId(found as u32)
}

/// The settings of a case's processes.
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
