//! One process, from its start on a thread to its exit.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Instant;

use wasmtime::{AsContext, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use everwarp_process::threads::{THREADS, THREADS_MOST};
use everwarp_process::{Input, Output, Pid};

use crate::config::Config;
use crate::crowd::Seat;
use crate::exit::{Exit, Reason, TrapKind};
use crate::host::Shared;
use crate::kin::{Ends, Kin};
use crate::limits::Limits;
use crate::process::{KillSwitch, Process, Work};
use crate::program::{Code, Inner, Program};
use crate::sink::Sink;
use crate::threads::{Given, Hook, Team, Wasi};

/// `proc_exit`, on its way out of the guest.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub(crate) struct ProcExit(pub(crate) u32);

/// What belongs to one instance.
pub(crate) struct Guest {
    pub(crate) wasi: Wasi,
    pub(crate) kin: Kin,
    pub(crate) limits: Limits,
    /// What it has in common with other threads.
    pub(crate) team: Option<Arc<Team>>,
}

impl Guest {
    /// A guest that is given nothing, for looking things up.
    pub(crate) fn bare() -> Self {
        Self {
            wasi: Wasi::Own(Box::new(WasiCtxBuilder::new().build_p1())),
            kin: Kin::new(Weak::new(), Arc::default(), Ends::default()),
            limits: Limits::new(None),
            team: None,
        }
    }

    /// What belongs to a thread that is not the first.
    pub(crate) fn of_thread(team: &Arc<Team>) -> Self {
        Self {
            wasi: Wasi::Shared(None),
            kin: Kin::new(Weak::new(), Arc::default(), Ends::default()),
            limits: Limits::new(team.tables_limit()),
            team: Some(Arc::clone(team)),
        }
    }

    /// Bytes of memory and tables that it has now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let shared = self.team.as_ref().map_or(0, |team| team.memory_bytes());
        self.limits.used() + shared
    }
}

/// The two streams of a process, where they are not simply the host's.
#[derive(Default)]
struct Streams {
    stdout: Option<Sink>,
    stderr: Option<Sink>,
}

fn sink(output: Output, pid: Pid, is_stderr: bool) -> Option<Sink> {
    match output {
        Output::Inherit => None,
        Output::Capture { limit } => Some(Sink::capture(limit)),
        Output::Lines { tag, to_stderr } => {
            let tag = match tag {
                true => format!("[{pid}] "),
                false => String::new(),
            };
            Some(Sink::lines(tag, to_stderr || is_stderr))
        }
    }
}

fn guest(config: Config, streams: &Streams, kin: Kin) -> Result<Guest, String> {
    let mut wasi = WasiCtxBuilder::new();
    wasi.args(&config.args).envs(&config.env);
    match config.stdin {
        Input::Empty => {}
        Input::Inherit => drop(wasi.inherit_stdin()),
        Input::Bytes(bytes) => drop(wasi.stdin(MemoryInputPipe::new(bytes))),
    }
    match &streams.stdout {
        Some(sink) => wasi.stdout(sink.clone()),
        None => wasi.inherit_stdout(),
    };
    match &streams.stderr {
        Some(sink) => wasi.stderr(sink.clone()),
        None => wasi.inherit_stderr(),
    };
    for directory in &config.directories {
        wasi.preopened_dir(&directory.host, &directory.guest, FsPerms::ReadWrite)
            .map_err(|e| format!("{}: {e:#}", directory.host.display()))?;
    }
    Ok(Guest {
        wasi: Wasi::Own(Box::new(wasi.build_p1())),
        team: None,
        kin: Kin {
            instance: config.instance,
            directories: config.directories,
            memory_limit: config.memory_limit,
            stdout: streams.stdout.clone(),
            stderr: streams.stderr.clone(),
            ..kin
        },
        limits: Limits::new(config.memory_limit),
    })
}

pub(crate) fn host_trap(message: String) -> Reason {
    Reason::Trap {
        kind: TrapKind::Host,
        function: None,
        message,
    }
}

/// The reason in an error of wasmtime's.
pub(crate) fn reason(error: &wasmtime::Error, started: bool, program: &Inner) -> Reason {
    if let Some(ProcExit(code)) = error.downcast_ref() {
        return Reason::Normal(*code);
    }
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map(WasmBacktrace::frames);
    let function = frames.and_then(|f| f.first()).map(|frame| {
        let number = || format!("function {}", program.number(frame.func_index()));
        frame.func_name().map_or_else(number, str::to_owned)
    });
    let (kind, message) = match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return Reason::OutOfFuel,
        Some(Trap::Interrupt) => return Reason::Killed,
        Some(Trap::UnreachableCodeReached) => (TrapKind::Unreachable, String::new()),
        Some(Trap::IntegerDivisionByZero) => (TrapKind::DivideByZero, String::new()),
        Some(Trap::IntegerOverflow) => (TrapKind::IntegerOverflow, String::new()),
        Some(Trap::BadConversionToInteger) => (TrapKind::InvalidConversion, String::new()),
        Some(Trap::MemoryOutOfBounds) => (TrapKind::MemoryOutOfBounds, String::new()),
        Some(Trap::TableOutOfBounds) => (TrapKind::TableOutOfBounds, String::new()),
        Some(Trap::IndirectCallToNull) => (TrapKind::UninitializedElement, String::new()),
        Some(Trap::BadSignature) => (TrapKind::IndirectCallTypeMismatch, String::new()),
        Some(Trap::HeapMisaligned) => (TrapKind::UnalignedAtomic, String::new()),
        Some(Trap::AtomicWaitNonSharedMemory) => (TrapKind::ExpectedSharedMemory, String::new()),
        Some(Trap::StackOverflow) => (TrapKind::StackExhausted, String::new()),
        // Imports and types were checked when the program was loaded, so what fails before the first
        // instruction is the allocation of its memory.
        None if !started && function.is_none() => return Reason::OutOfMemory,
        _ => (TrapKind::Host, error.root_cause().to_string()),
    };
    Reason::Trap {
        kind,
        function,
        message,
    }
}

/// Runs `work` unless the switch is thrown, which drops it wherever it waits.
async fn unless_killed<T>(switch: &KillSwitch, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut killed) = (pin!(work), pin!(switch.thrown()));
    poll_fn(|cx| match killed.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(cx).map(Some),
    })
    .await
}

/// Runs a process to its end.
pub(crate) async fn run(
    process: &Process,
    work: Work,
    host: Weak<Shared>,
    seat: Arc<Seat>,
) -> Exit {
    let begin = Instant::now();
    let pid = process.pid;
    let Work {
        program,
        mut config,
        birth,
    } = work;
    // What was kept of a process that shares its parent's streams is its ancestor's to hand over.
    let shares = birth.shares;
    let share = |of: Option<Sink>| of.map(|sink| sink.shared(pid));
    let streams = Streams {
        stdout: share(birth.stdout).or_else(|| sink(config.stdout, pid, false)),
        stderr: share(birth.stderr).or_else(|| sink(config.stderr, pid, true)),
    };
    let terms = Terms {
        fuel: config.fuel,
        threads: config.threads.unwrap_or(THREADS).min(THREADS_MOST),
        talks: matches!(config.stdin, Input::Inherit),
    };
    let kin = Kin {
        program: Some(program.clone()),
        pid: pid.number(),
        family: birth.family,
        ..Kin::new(host, seat, Ends::new(std::mem::take(&mut config.ends)))
    };
    let (reason, fuel_used) = match guest(config, &streams, kin) {
        Err(message) => (host_trap(message), 0),
        Ok(guest) => {
            let (reason, fuel_used, mut kin) = execute(&program, guest, &terms, process).await;
            kin.retire().await;
            (reason, fuel_used)
        }
    };
    let finish = |sink: &Option<Sink>| sink.as_ref().and_then(|sink| sink.finish(!shares));
    Exit {
        reason,
        fuel_used,
        elapsed: begin.elapsed(),
        stdout: finish(&streams.stdout),
        stderr: finish(&streams.stderr),
    }
}

/// Gives a process what its threads share, if its memory is.
fn team(program: &Program, guest: &mut Guest, terms: &Terms) -> wasmtime::Result<()> {
    let Code::Sharing(sharing) = &program.0.code else {
        return Ok(());
    };
    let Wasi::Own(wasi) = std::mem::replace(&mut guest.wasi, Wasi::Shared(None)) else {
        unreachable!("a process begins with descriptors of its own");
    };
    let given = Given {
        wasi: *wasi,
        talks: terms.talks,
        memory_limit: guest.kin.memory_limit,
        limited: terms.fuel.is_some(),
        threads: terms.threads,
        host: guest.kin.host.clone(),
    };
    let team = Team::new(&program.0, sharing, given)?;
    guest.limits = Limits::new(team.tables_limit());
    guest.team = Some(team);
    Ok(())
}

/// What a process is granted.
struct Terms {
    fuel: Option<u64>,
    threads: u32,
    talks: bool,
}

async fn execute(
    program: &Program,
    mut guest: Guest,
    terms: &Terms,
    process: &Process,
) -> (Reason, u64, Kin) {
    let switch = &process.switch;
    let fuel = terms.fuel.unwrap_or(u64::MAX);
    if team(program, &mut guest, terms).is_err() {
        return (Reason::OutOfMemory, 0, guest.kin);
    }
    let team = guest.team.clone();
    let pre = match (&program.0.code, &team) {
        (Code::Linked(pre), _) => pre,
        (Code::Sharing(_), Some(team)) => team.linked(),
        (Code::Sharing(_), None) => unreachable!("it was made"),
    };
    let mut store = Store::new(pre.module().engine(), guest);
    store.limiter(|guest| &mut guest.limits);
    store.set_fuel(fuel).expect("the engine counts fuel");
    let seat = Arc::clone(&store.data().kin.seat);
    let (watched, live, over) = (switch.clone(), process.live.clone(), team.clone());
    store.epoch_deadline_callback(move |store| {
        live.look(fuel, store.as_context());
        let over = over.as_ref().is_some_and(|team| team.is_over());
        Ok(match (watched.is_thrown() || over, seat.is_shared()) {
            (true, _) => UpdateDeadline::Interrupt,
            // Those beside it have their turn.
            (false, true) => UpdateDeadline::Yield(1),
            (false, false) => UpdateDeadline::Continue(1),
        })
    });
    store.set_epoch_deadline(1);
    let live = process.live.clone();
    match &team {
        None => store.call_hook(move |store, hook| {
            live.pass(fuel, store, hook);
            Ok(())
        }),
        Some(team) => store.call_hook_async(Hook {
            wasi: Arc::clone(team.wasi()),
            live: Some((live, fuel)),
        }),
    }
    let mut started = false;
    let work = async {
        let instance = pre.instantiate_async(&mut store).await?;
        started = true;
        let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
        start.call_async(&mut store, ()).await
    };
    // Nothing if another thread has ended the process.
    let end = match &team {
        None => unless_killed(switch, work).await.map(Some),
        Some(team) => unless_killed(switch, team.unless_over(work)).await,
    };
    let reason = match end {
        None => Some(Reason::Killed),
        Some(None) => None,
        Some(Some(Ok(()))) => Some(Reason::Normal(0)),
        Some(Some(Err(error))) => Some(reason(&error, started, &program.0)),
    };
    let left = store.get_fuel().expect("the engine counts fuel");
    let kin = store.into_data().kin;
    match (team, reason) {
        (Some(team), reason) => {
            if let Some(reason) = reason {
                team.end(reason);
            }
            let (reason, used) = team.retire(fuel, left).await;
            (reason, used, kin)
        }
        // What it got back from children counts as not used.
        (None, reason) => {
            let reason = reason.expect("nobody else ends it");
            (reason, fuel.saturating_sub(left), kin)
        }
    }
}
