//! Compiling modules in a child process. A module can be made so that compiling it takes minutes and gigabytes; what it takes is
//! limited there, and ends with the child.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use everwarp_process::LoadError;
use wasmtime::{Engine, Module};

use crate::engines::{EnginePair, Metering, Stack};
use crate::lock::lock;

/// Smaller modules are compiled by the caller: what they can make the compiler take is little.
const SMALL: usize = 4 << 10;
/// Bytes of memory that the child may write to.
const MEMORY: u64 = 4 << 30;
/// Time of the processor, of all its threads together.
const TIME: Duration = Duration::from_secs(60);
/// How long the child may live: it shares the cores with others.
const LIFETIME: Duration = Duration::from_secs(600);
/// The same for a child whose module is rehearsed: a process waits for that.
const LIFETIME_FOR_ONE_RUN: Duration = Duration::from_secs(10);
/// The exit code for a module that the compiler refuses, with the reason on standard error.
const REFUSED: i32 = 3;
/// Bytes of a reason that are kept.
const REASON: u64 = 4 << 10;

/// How a module is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For processes.
    Many { metering: Metering, stack: Stack },
    /// For a rehearsal.
    OneRun,
}

impl Form {
    /// As the arguments of [`answer_parent`].
    fn arguments(self) -> [String; 2] {
        match self {
            Self::Many { metering, stack } => {
                let metered = metering == Metering::Fuel;
                [metered.to_string(), stack.bytes().to_string()]
            }
            // No stack is that small.
            Self::OneRun => [false.to_string(), 0.to_string()],
        }
    }

    /// The form with these arguments.
    fn of(metered: bool, stack: usize) -> Self {
        match stack {
            0 => Self::OneRun,
            bytes => Self::Many {
                metering: match metered {
                    true => Metering::Fuel,
                    false => Metering::EpochOnly,
                },
                stack: Stack::of(Some(u32::try_from(bytes).unwrap_or(u32::MAX))),
            },
        }
    }

    fn engine(self) -> Result<Engine, String> {
        match self {
            Self::Many { metering, stack } => EnginePair::without_pool(metering, stack),
            Self::OneRun => EnginePair::for_one_run(),
        }
    }
}

static COMMAND: OnceLock<fn() -> Command> = OnceLock::new();
/// For modules that are rehearsed.
static COMMAND_FOR_ONE_RUN: OnceLock<fn() -> Command> = OnceLock::new();
/// Children at work; as many as there are cores. The others wait, so that many modules at once take no more memory.
static AT_WORK: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The right to have a child.
struct Turn;

impl Turn {
    fn wait() -> Self {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let (count, freed) = &AT_WORK;
        let mut count = lock(count);
        while *count >= most {
            count = freed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        *count += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (count, freed) = &AT_WORK;
        *lock(count) -= 1;
        freed.notify_one();
    }
}

/// From here on, modules are compiled by children of this process, unless they are small. `command` starts a program that calls
/// [`answer_parent`] with the two arguments that are added to it.
pub fn compile_in_children(command: fn() -> Command) {
    // The first one stays.
    let _ = COMMAND.set(command);
}

/// The same for modules that are rehearsed, which no one has asked to run on the CPU engine.
pub fn rehearse_in_children(command: fn() -> Command) {
    // The first one stays.
    let _ = COMMAND_FOR_ONE_RUN.set(command);
}

/// The code of a module as wasmtime writes it; none if the caller has to compile it.
pub(crate) fn compile(form: Form, bytes: &[u8]) -> Option<Result<Vec<u8>, LoadError>> {
    let (command, lifetime) = match form {
        Form::Many { .. } => (COMMAND.get(), LIFETIME),
        Form::OneRun => (
            COMMAND.get().or_else(|| COMMAND_FOR_ONE_RUN.get()),
            LIFETIME_FOR_ONE_RUN,
        ),
    };
    let command = command.filter(|_| bytes.len() > SMALL)?;
    let mut command = command();
    command.args(form.arguments());
    let _turn = Turn::wait();
    Some(run(command, bytes, lifetime))
}

fn not_run(error: &std::io::Error) -> LoadError {
    LoadError::Compile(format!("its compiler could not be run: {error}"))
}

/// A child that is killed when it is dropped before it has ended.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(mut command: Command, bytes: &[u8], lifetime: Duration) -> Result<Vec<u8>, LoadError> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Killed(command.spawn().map_err(|e| not_run(&e))?);
    let mut input = child.0.stdin.take().expect("it is a pipe");
    let mut output = child.0.stdout.take().expect("it is a pipe");
    let mut errors = child.0.stderr.take().expect("it is a pipe");
    std::thread::scope(|scope| {
        // A child that ends early closes its input, and its status says why.
        scope.spawn(move || drop(input.write_all(bytes)));
        let (sender, ended) = channel();
        let reader = scope.spawn(move || {
            let mut code = Vec::new();
            let read = output.read_to_end(&mut code);
            // The receiver waits, or has given up.
            let _ = sender.send(());
            read.map(|_| code)
        });
        let reasons = scope.spawn(move || {
            let mut reason = Vec::new();
            // Errors that cannot be read say nothing.
            let _ = (&mut errors).take(REASON).read_to_end(&mut reason);
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
            String::from_utf8_lossy(&reason).trim().to_owned()
        });
        let late = ended.recv_timeout(lifetime) == Err(RecvTimeoutError::Timeout);
        if late {
            // An error means that it has just ended.
            let _ = child.0.kill();
        }
        let status = child.0.wait().map_err(|e| not_run(&e))?;
        let code = reader.join().expect("reading does not panic");
        let reason = reasons.join().expect("reading does not panic");
        match late {
            true => Err(LoadError::CompileTime { limit: lifetime }),
            false if status.success() => code.map_err(|e| not_run(&e)),
            false => Err(judge(status, reason)),
        }
    })
}

/// Why a child failed.
fn judge(status: ExitStatus, reason: String) -> LoadError {
    if is_out_of_time(status) {
        return LoadError::CompileTime { limit: TIME };
    }
    let out_of_memory = ["memory allocation of", "Cannot allocate memory"];
    if out_of_memory.iter().any(|words| reason.contains(words)) {
        return LoadError::CompileMemory { limit: MEMORY };
    }
    match status.code() {
        Some(REFUSED) => LoadError::Compile(reason),
        _ => LoadError::Compile(format!("its compiler ended with {status}: {reason}")),
    }
}

#[cfg(unix)]
fn is_out_of_time(status: ExitStatus) -> bool {
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    signal == Some(rustix::process::Signal::XCPU.as_raw())
}

#[cfg(not(unix))]
fn is_out_of_time(_: ExitStatus) -> bool {
    false
}

/// Limits what this process may use, and ends it with its parent.
#[cfg(target_os = "linux")]
fn limit_this_process() -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let both = |most: u64, hard: u64| Rlimit {
        current: Some(most),
        maximum: Some(hard),
    };
    let seconds = TIME.as_secs();
    setrlimit(Resource::Cpu, both(seconds, seconds + 2))?;
    setrlimit(Resource::Core, both(0, 0))?;
    Ok(setrlimit(Resource::Data, both(MEMORY, MEMORY))?)
}

#[cfg(not(target_os = "linux"))]
fn limit_this_process() -> std::io::Result<()> {
    Ok(())
}

/// Compiles the module on standard input for the parent of this process, and writes the code to standard output. `metered` and
/// `stack` are the two arguments that the parent has added. Returns the exit code.
///
/// # Errors
/// The module cannot be read, or the code cannot be written.
pub fn answer_parent(metered: bool, stack: usize) -> std::io::Result<i32> {
    limit_this_process()?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    let code = Form::of(metered, stack).engine().and_then(|engine| {
        let module = Module::from_binary(&engine, &bytes).map_err(|e| format!("{e:#}"))?;
        module.serialize().map_err(|e| format!("{e:#}"))
    });
    match code {
        Ok(code) => {
            std::io::stdout().lock().write_all(&code)?;
            Ok(0)
        }
        Err(reason) => {
            writeln!(std::io::stderr(), "{reason}")?;
            Ok(REFUSED)
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn shell(script: &str, lifetime: Duration) -> Result<Vec<u8>, LoadError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, b"module", lifetime)
    }

    #[test]
    fn the_form_reaches_a_child() {
        let many = Form::Many {
            metering: Metering::Fuel,
            stack: Stack::of(Some(1 << 20)),
        };
        for form in [many, Form::OneRun] {
            let [metered, stack] = form.arguments();
            let metered = metered.parse().expect("it is a boolean");
            let stack = stack.parse().expect("it is a number");
            assert_eq!(Form::of(metered, stack), form);
        }
    }

    #[test]
    fn what_the_child_writes_is_the_code() {
        let code = shell("cat; printf +", LIFETIME).expect("it succeeds");
        assert_eq!(code, b"module+");
    }

    #[test]
    fn each_end_of_the_child_is_an_error_of_its_own() {
        let of = |script| shell(script, LIFETIME).expect_err("it fails").to_string();
        let refused = of("echo 'a reason' >&2; exit 3");
        assert_eq!(refused, "the module cannot be compiled: a reason");
        assert!(
            of("kill -XCPU $$").contains("60 s"),
            "{}",
            of("kill -XCPU $$")
        );
        let memory = of("echo 'memory allocation of 99 bytes failed' >&2; kill -ABRT $$");
        assert!(memory.contains("4294967296 bytes"), "{memory}");
        assert!(of("exit 7").contains("exit status: 7"));
        let late = shell("exec sleep 100", Duration::from_millis(1)).expect_err("it is late");
        assert!(matches!(late, LoadError::CompileTime { .. }), "{late}");
    }
}
