//! Modules as text, and a host that several tests use.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Mutex;

use everwarp_process::sync::{ignore_poison, lock};
use everwarp_process::{
    Bytes, Exit, Grants, HostConfig, HostError, Listing, LoadConfig, Module, ModuleId, Output, Pid,
    ProcessEngine, Receiver, Sender, SpawnError, SpawnRequest, StartWriter,
};
use everwarp_process_cpu::CpuProcesses;

/// The imports that the modules share; each is `$` and its name.
#[allow(dead_code, reason = "one test binary has modules of its own")]
pub(crate) const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_remove_directory"
    (func $path_remove_directory (param i32 i32 i32) (result i32)))
  ;; Writes bytes to a descriptor, with the vector at 0; returns the error number.
  (func $write (param $fd i32) (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $length))
    (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
"#;

/// A module from its text.
pub(crate) fn module(text: &str) -> Module {
    let bytes = wat::parse_str(text).expect("the text is right");
    Module::new("module", bytes).expect("the module is right")
}

/// A module from the text of its fields, with [`IMPORTS`] before them.
#[allow(dead_code, reason = "one test binary has modules of its own")]
pub(crate) fn program(fields: &str) -> Module {
    module(&format!("(module {IMPORTS} {fields})"))
}

/// What a process is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: Option<Bytes>,
    pub(crate) grants: Grants,
    pub(crate) load: LoadConfig,
}

impl Given {
    #[allow(dead_code, reason = "not every test binary gives arguments")]
    pub(crate) fn args(self, args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { args, ..self }
    }

    #[allow(dead_code, reason = "not every test binary limits fuel")]
    pub(crate) fn fuel(mut self, fuel: u64) -> Self {
        self.grants.fuel = Some(fuel);
        self.load.metered = true;
        self
    }

    #[allow(dead_code, reason = "not every test binary limits memory")]
    pub(crate) fn memory(mut self, bytes: u64) -> Self {
        self.load.memory = Some(bytes);
        self
    }

    #[allow(dead_code, reason = "not every test binary chooses the output")]
    pub(crate) fn stdout(mut self, output: Output) -> Self {
        self.grants.stdout = output;
        self
    }

    fn write(&self, writer: &mut dyn StartWriter) {
        self.args.iter().for_each(|arg| writer.arg(&[arg]));
        for (name, value) in &self.env {
            writer.variable(name, &[value]);
        }
        if let Some(stdin) = &self.stdin {
            writer.stdin(stdin.clone());
        }
    }
}

/// What a process with captured output is given.
pub(crate) fn captured() -> Given {
    let mut given = Given::default();
    given.grants.stdout = Output::Capture { limit: 1 << 16 };
    given.grants.stderr = Output::Capture { limit: 1 << 16 };
    given
}

/// A host that loads modules when their first process is spawned.
pub(crate) struct TestHost {
    pub(crate) engine: CpuProcesses,
    loaded: Mutex<Vec<(Module, LoadConfig, ModuleId)>>,
}

impl TestHost {
    /// A host with this number of threads.
    pub(crate) fn start(workers: usize) -> Self {
        Self::with(&HostConfig {
            workers: NonZeroUsize::new(workers),
            ..HostConfig::default()
        })
    }

    /// A host with these settings.
    pub(crate) fn with(config: &HostConfig) -> Self {
        Self {
            engine: CpuProcesses::start(&[], config).expect("a host starts"),
            loaded: Mutex::default(),
        }
    }

    /// The id of a module with these settings.
    pub(crate) fn load(&self, module: &Module, config: &LoadConfig) -> ModuleId {
        let mut loaded = lock(&self.loaded);
        let mut all = loaded.iter();
        if let Some((_, _, id)) = all.find(|(m, c, _)| m.is(module) && c == config) {
            return *id;
        }
        let id = self
            .engine
            .load(module, config)
            .expect("the module loads")
            .id;
        loaded.push((module.clone(), config.clone(), id));
        id
    }

    /// Starts processes that differ in their arguments. Returns their pids by number.
    #[allow(dead_code, reason = "most test binaries start single processes")]
    pub(crate) fn spawn_all(
        &self,
        module: &Module,
        given: &Given,
        args: &(dyn Fn(u32) -> Vec<String> + Sync),
        count: u32,
    ) -> Result<Vec<Pid>, SpawnError> {
        let parts = Mutex::new(BTreeMap::new());
        self.engine.spawn(&SpawnRequest {
            module: self.load(module, &given.load),
            grants: &given.grants,
            count,
            write: &|number, writer| {
                args(number).iter().for_each(|arg| writer.arg(&[arg]));
                given.write(writer);
            },
            started: &|first, pids| {
                let mut parts = lock(&parts);
                parts.insert(first, pids.to_vec());
                ControlFlow::Continue(())
            },
        })?;
        let parts = ignore_poison(parts.into_inner());
        Ok(parts.into_values().flatten().collect())
    }

    /// Tries to start a process.
    pub(crate) fn try_spawn(&self, module: &Module, given: Given) -> Result<Pid, SpawnError> {
        let pids = self.spawn_all(module, &given, &|_| Vec::new(), 1)?;
        Ok(pids[0])
    }

    /// Starts a process.
    pub(crate) fn spawn(&self, module: &Module, given: Given) -> Pid {
        self.try_spawn(module, given)
            .expect("the process is spawned")
    }

    /// Waits for a process, as the only waiter.
    pub(crate) fn wait(&self, pid: Pid) -> Exit {
        self.engine.wait(pid, None).expect("the pid is fresh")
    }

    #[allow(dead_code, reason = "not every test binary kills")]
    pub(crate) fn kill(&self, pid: Pid) -> bool {
        self.engine.kill(pid).expect("the engine runs")
    }

    #[allow(dead_code, reason = "not every test binary lists processes")]
    pub(crate) fn list(&self) -> Listing {
        self.engine.list(usize::MAX).expect("the engine runs")
    }

    #[allow(dead_code, reason = "not every test binary uses channels")]
    pub(crate) fn channel(&self, capacity: u32, bytes: u32) -> (Sender, Receiver) {
        let channel = self.engine.channel(capacity, bytes);
        channel.expect("the channel is possible")
    }
}

/// The error of a wait for a pid that names no process.
#[allow(dead_code, reason = "not every test binary waits twice")]
pub(crate) fn unknown<T>(result: &Result<T, HostError>) -> bool {
    matches!(result, Err(HostError::UnknownPid(_)))
}

#[allow(dead_code, reason = "not every test binary runs a single process")]
pub(crate) fn run(module: &Module, given: Given) -> Exit {
    let host = TestHost::start(1);
    host.wait(host.spawn(module, given))
}

#[allow(dead_code, reason = "not every test binary reads output")]
pub(crate) fn stdout(exit: &Exit) -> String {
    String::from_utf8(exit.stdout_bytes().to_vec()).expect("it is text")
}
