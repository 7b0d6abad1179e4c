//! One process, from its start on a worker thread to its exit.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use everwarp_process::{Connection, Exit, ExitStatus, Input};
use everwarp_telemetry::processes::ProcessHand;
use wasmtime::{AsContext, InstancePre, Store, UpdateDeadline};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use crate::channel::ChannelSide;
use crate::engines::Metering;
use crate::family::{Family, HandleTable, HostAccess, Inheritance};
use crate::grants::{CheckedGrants, StartValues, path_of};
use crate::guest::{Guest, fuel_left, reading};
use crate::guest_thread::{SharedDescriptorsHook, note_call};
use crate::limits::{MemoryBound, MemoryCounter};
use crate::numbers::Numbers;
use crate::process::{KillSwitch, Process, ProcessFuture, QueuedWork, host_call_failed};
use crate::program::{Code, Program};
use crate::sink::OutputSink;
use crate::status::exit_status;
use crate::threads::{Descriptors, ThreadGroup, ThreadGroupConfig};
use crate::worker_load::WorkerLoad;

/// A process that has not started.
pub(crate) struct ProcessWork {
    pub(crate) program: Arc<Program>,
    pub(crate) grants: Arc<CheckedGrants>,
    pub(crate) values: StartValues,
    /// The channel ends that become its handles.
    pub(crate) ends: Vec<ChannelSide>,
    /// Its number among those that were spawned with it.
    pub(crate) instance: u32,
    pub(crate) host: HostAccess,
    /// What it gets from its parent, if it has one.
    pub(crate) inheritance: Option<Inheritance>,
}

impl QueuedWork for ProcessWork {
    fn start(self: Box<Self>, process: Arc<Process>, load: Arc<WorkerLoad>) -> ProcessFuture {
        let hand = process.hand();
        let running = run(*self, process, load);
        match hand {
            None => Box::pin(running),
            Some(hand) => Box::pin(recorded(running, hand)),
        }
    }
}

/// Runs a process, and records when it has its thread.
async fn recorded(running: impl Future<Output = Exit>, mut hand: ProcessHand) -> Exit {
    let mut running = pin!(running);
    let exit = poll_fn(|cx| hand.run(|| running.as_mut().poll(cx))).await;
    hand.end(exit.success());
    exit
}

/// Fuel after which a process with a limit returns to this crate, which then knows what it has used. Compiled code keeps
/// its count in a register, and a loop without calls would show 0. It costs 0.2 us for about a millisecond of work.
const FUEL_INTERVAL: u64 = 1_000_000;

fn descriptors(
    grants: &CheckedGrants,
    values: StartValues,
    host: &HostAccess,
    stdout: &OutputSink,
    stderr: &OutputSink,
) -> Result<WasiP1Ctx, String> {
    let mut wasi = WasiCtxBuilder::new();
    wasi.args(&values.args).envs(&values.env);
    match (values.stdin, &grants.stdin) {
        (Some(bytes), _) => drop(wasi.stdin(MemoryInputPipe::new(bytes))),
        (None, Input::Bytes(bytes)) => drop(wasi.stdin(MemoryInputPipe::new(bytes.clone()))),
        (None, Input::Inherit) => drop(wasi.stdin(host.stdin.clone())),
        (None, Input::Empty) => {}
    }
    wasi.stdout(stdout.clone()).stderr(stderr.clone());
    for directory in &*grants.directories {
        let perms = match directory.is_read_only() {
            true => FsPerms::ReadOnly,
            false => FsPerms::ReadWrite,
        };
        wasi.preopened_dir(path_of(directory), directory.guest(), perms)
            .map_err(|e| format!("{}: {e:#}", directory.path().display()))?;
    }
    Ok(wasi.build_p1())
}

/// The descriptors by number of a process that has sockets or directories.
fn numbers(
    grants: &CheckedGrants,
    connection: Option<Connection>,
    host: &HostAccess,
    with_threads: bool,
) -> Result<Option<Arc<Numbers>>, String> {
    let events = grants.events.as_ref().map(|events| events.open());
    let events = events
        .transpose()
        .map_err(|error| format!("no stream of events: {error}"))?;
    let bare = grants.listeners.is_empty()
        && grants.launcher.is_none()
        && grants.network.is_none()
        && (grants.directories.is_empty() || with_threads);
    if bare && connection.is_none() && events.is_none() {
        return Ok(None);
    }
    let stdin = matches!(grants.stdin, Input::Inherit) && connection.is_none();
    let stdin = stdin.then(|| host.stdin.clone());
    let directories = grants.directories.len();
    let given = &grants.listeners;
    let mut numbers = Numbers::new(connection, directories, given, grants.handles, stdin);
    numbers.give_directories(&grants.directories);
    numbers.launcher.clone_from(&grants.launcher);
    numbers.network.clone_from(&grants.network);
    numbers.budgets.clone_from(&host.budgets);
    events.into_iter().for_each(|events| numbers.give(events));
    Ok(Some(Arc::new(numbers)))
}

/// Runs `work` unless the switch is thrown, which drops it wherever it waits.
async fn unless_killed<T>(switch: &KillSwitch, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut killed) = (pin!(work), pin!(switch.thrown()));
    let mut woken: Option<Waker> = None;
    poll_fn(|cx| {
        // Once it waits for the switch, the switch wakes this task. It need not be asked each time that something else does.
        let waits = woken
            .as_ref()
            .is_some_and(|woken| woken.will_wake(cx.waker()));
        if !waits || switch.is_thrown() {
            woken = Some(cx.waker().clone());
            if killed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}

/// How the code of a process has ended.
struct CodeEnd {
    status: ExitStatus,
    fuel_used: Option<u64>,
}

/// Runs a process to its end.
async fn run(mut work: ProcessWork, process: Arc<Process>, load: Arc<WorkerLoad>) -> Exit {
    let begin = Instant::now();
    let (pid, grants) = (process.pid, Arc::clone(&work.grants));
    // The first ancestor of a child with captured output hands the bytes over.
    let owns_output = work.inheritance.is_none();
    let host = work.host;
    let open = |output, is_stderr| {
        let (streams, errors) = (&host.streams, &host.errors);
        OutputSink::open(
            output,
            pid,
            is_stderr,
            streams,
            errors,
            host.budgets.as_ref(),
        )
    };
    let (stdout, stderr, descendants) = match work.inheritance {
        Some(from) => (
            from.stdout.of_child(pid),
            from.stderr.of_child(pid),
            from.descendants,
        ),
        None => (
            open(grants.stdout, false),
            open(grants.stderr, true),
            Arc::default(),
        ),
    };
    let family = Family {
        host: host.clone(),
        load,
        pid,
        module: work.program.index,
        instance: work.instance,
        spawned: 0,
        descendants,
        children: Vec::new(),
        directories: Arc::clone(&grants.directories),
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        handles: HandleTable::new(work.ends),
    };
    let with_threads = work.program.facts.threads.is_some();
    let numbers = numbers(&grants, work.values.connection.take(), &host, with_threads);
    let opened = numbers.and_then(|numbers| {
        let wasi = descriptors(&grants, work.values, &host, &stdout, &stderr)?;
        Ok((wasi, numbers))
    });
    let end = match opened {
        Err(message) => CodeEnd {
            status: host_call_failed(message),
            fuel_used: None,
        },
        Ok(opened) => {
            let (end, mut family) = execute(&work.program, &grants, opened, family, &process).await;
            family.dissolve().await;
            end
        }
    };
    Exit {
        status: end.status,
        fuel_used: end.fuel_used,
        elapsed: begin.elapsed(),
        stdout: stdout.finish(owns_output),
        stderr: stderr.finish(owns_output),
    }
}

/// Runs the code of a process, and returns its family for what is left to do.
async fn execute(
    program: &Program,
    grants: &CheckedGrants,
    (wasi, numbers): (WasiP1Ctx, Option<Arc<Numbers>>),
    family: Family,
    process: &Arc<Process>,
) -> (CodeEnd, Family) {
    let facts = &program.facts;
    let bound = MemoryBound::new(program.memory_limit, facts.start_elements);
    let mut guest = Guest {
        wasi: Descriptors::Own(Box::new(wasi)),
        memory: MemoryCounter::new(bound, family.host.budgets.clone()),
        exported: None,
        family: Some(Box::new(family)),
        threads: None,
        numbers,
        permit: None,
        descriptor_limit: grants.handles,
        fuel: grants.fuel,
    };
    let linked = match program.code(Metering::of(grants.fuel)) {
        Ok(Code::Linked(linked)) => Ok(linked.clone()),
        Ok(Code::Threaded(_)) => start_group(program, grants, &mut guest),
        Err(error) => Err(host_call_failed(error.to_string())),
    };
    let (end, family) = match linked {
        Ok(linked) => run_code(&linked, program, guest, process).await,
        Err(status) => {
            let end = CodeEnd {
                status,
                fuel_used: None,
            };
            (end, guest.family)
        }
    };
    let family = family.expect("the first thread of a process has its family");
    (end, *family)
}

/// Gives a process what its threads share, and returns what its instances are made from.
fn start_group(
    program: &Program,
    grants: &CheckedGrants,
    guest: &mut Guest,
) -> Result<InstancePre<Guest>, ExitStatus> {
    let Ok(Code::Threaded(code)) = program.code(Metering::of(grants.fuel)) else {
        unreachable!("the caller has looked");
    };
    let Descriptors::Own(wasi) = std::mem::replace(&mut guest.wasi, Descriptors::Shared(None))
    else {
        unreachable!("a process begins with descriptors of its own");
    };
    let config = ThreadGroupConfig {
        wasi: *wasi,
        inherits_stdin: matches!(grants.stdin, Input::Inherit),
        stdin: guest.family().host.stdin.clone(),
        numbers: guest.numbers.clone(),
        descriptor_limit: grants.handles,
        memory_limit: program.memory_limit,
        limited: grants.fuel.is_some(),
        threads: program.threads,
        budgets: guest.family().host.budgets.clone(),
    };
    let store = Store::new(code.module.engine(), Guest::bare());
    let group = ThreadGroup::new(&code.module, &code.linker, &store, &program.facts, config);
    let group = group.map_err(|_| ExitStatus::OutOfMemory {
        needs: program.facts.start_bytes,
    })?;
    guest.memory = group.table_counter();
    let linked = group.linked().clone();
    guest.threads = Some(group);
    Ok(linked)
}

/// A store that watches for kills and shows what the process does.
fn store(linked: &InstancePre<Guest>, guest: Guest, process: &Arc<Process>) -> Store<Guest> {
    let load = guest.family.as_ref().map(|family| Arc::clone(&family.load));
    let load = load.expect("the first thread of a process has its family");
    let (group, fuel) = (guest.threads.clone(), guest.fuel);
    let mut store = Store::new(linked.module().engine(), guest);
    store.limiter(|guest| &mut guest.memory);
    if let Some(fuel) = fuel {
        let counts = "the engine of a limited process counts fuel";
        store.set_fuel(fuel).expect(counts);
        store
            .fuel_async_yield_interval(Some(FUEL_INTERVAL))
            .expect(counts);
    }
    let (watched, of_group) = (Arc::clone(process), group.clone());
    store.epoch_deadline_callback(move |store| {
        watched.usage.update(reading(store.as_context()));
        let ended = of_group.as_ref().is_some_and(|group| group.has_ended());
        let ended = ended || watched.switch.is_thrown();
        Ok(match (ended, load.is_shared()) {
            (true, _) => UpdateDeadline::Interrupt,
            // The other processes of this thread get their turn.
            (false, true) => UpdateDeadline::Yield(1),
            (false, false) => UpdateDeadline::Continue(1),
        })
    });
    // A process that starts has its thread for at least one whole interval, so that it comes to its first wait.
    store.set_epoch_deadline(2);
    let noted = Arc::clone(process);
    match &group {
        None => store.call_hook(move |store, hook| {
            note_call(&noted, store.as_context(), hook);
            Ok(())
        }),
        Some(group) => store.call_hook_async(SharedDescriptorsHook {
            wasi: Arc::clone(group.wasi()),
            process: Some(noted),
        }),
    }
    store
}

/// Runs the code of a process to its end, and the further threads of the process to theirs.
async fn run_code(
    linked: &InstancePre<Guest>,
    program: &Program,
    guest: Guest,
    process: &Arc<Process>,
) -> (CodeEnd, Option<Box<Family>>) {
    let (group, fuel) = (guest.threads.clone(), guest.fuel);
    let mut store = store(linked, guest, process);
    let mut started = false;
    let work = async {
        let instance = linked.instantiate_async(&mut store).await?;
        started = true;
        store.data_mut().exported = instance.get_memory(&mut store, "memory");
        let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
        start.call_async(&mut store, ()).await
    };
    // Nothing if another thread has ended the process.
    let ended = match &group {
        None => unless_killed(&process.switch, work).await.map(Some),
        Some(group) => unless_killed(&process.switch, group.unless_ended(work)).await,
    };
    let status = match ended {
        None => Some(ExitStatus::Killed),
        Some(None) => None,
        Some(Some(Ok(()))) => Some(ExitStatus::Exited(0)),
        Some(Some(Err(error))) => Some(exit_status(&error, started, &program.facts)),
    };
    let left = fuel.map(|_| fuel_left(store.as_context()));
    let family = store.into_data().family;
    let (status, left) = match (group, status) {
        (Some(group), status) => {
            if let Some(status) = status {
                group.end(status);
            }
            let (status, left_by_threads) = group.dissolve().await;
            (
                status,
                left.map(|left| left.saturating_add(left_by_threads)),
            )
        }
        (None, status) => (status.expect("there is no other thread"), left),
    };
    // Fuel that ended children have given back counts as not used.
    let used = |(fuel, left): (u64, u64)| fuel.saturating_sub(left);
    let fuel_used = fuel.zip(left).map(used);
    (CodeEnd { status, fuel_used }, family)
}
