//! Running a module once, without effects, to learn which of its functions are called.
//!
//! The process sees what the real one will see: arguments, variables, input, and directories, in which it can only read. What it
//! writes goes nowhere, and everything else that it asks for is refused: then the real process will go on in another way, so that its
//! calls are not known. It ends when its time is over.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use everwarp_process::Rehearsal;
use everwarp_process::imports::WASI_MODULE;
use tokio::time::timeout_at;
use wasmtime::{
    Caller, Engine, Extern, ExternType, InstancePre, Linker, Memory, Module, Result, Store,
    StoreLimits, StoreLimitsBuilder, Val,
};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wasmtime_wasi::p1::{WasiP1Ctx, add_to_linker_async, types};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};
use wiggle::{GuestMemory, GuestPtr};

use crate::child_compiler::{self, Form};
use crate::engines::EnginePair;
use crate::grants::path_of;
use crate::mark::{MARKS, Marking};

/// How often running code looks whether its time is over.
const STEP: Duration = Duration::from_millis(1);
/// Bytes of linear memory that a process may have in a rehearsal.
const MEMORY: usize = 1 << 30;
/// Bytes that the library may copy for one call.
const COPIED: usize = 128 << 20;
/// "Permission denied".
const ACCESS: i32 = 2;
/// Functions that change files or use sockets.
const REFUSED: [&str; 14] = [
    "fd_allocate",
    "fd_filestat_set_size",
    "fd_filestat_set_times",
    "path_create_directory",
    "path_filestat_set_times",
    "path_link",
    "path_remove_directory",
    "path_rename",
    "path_symlink",
    "path_unlink_file",
    "sock_accept",
    "sock_recv",
    "sock_send",
    "sock_shutdown",
];

/// What rehearsals have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Called {
    /// The functions that were called, numbered as in the module: imported ones come first, and are never called themselves.
    pub functions: BTreeSet<u32>,
    /// A process has asked for what only the real one gets, such as an input that is not known or a file to write, so that the real one
    /// will call others.
    pub others: bool,
}

/// What a process has.
struct Guest {
    wasi: WasiP1Ctx,
    limits: StoreLimits,
    /// Its standard input is not known.
    unknown: bool,
    /// It has asked for what only the real process gets.
    asked: bool,
}

impl Guest {
    /// Its descriptors, ready for a call.
    fn ready(&mut self) -> &mut WasiP1Ctx {
        self.wasi.set_hostcall_fuel(COPIED);
        &mut self.wasi
    }
}

/// The functions of a module that processes call which are given this, one after the other, in this time. The module may lack what
/// processes need: then nothing is called, or less.
pub fn rehearse(
    module: &[u8],
    given: impl IntoIterator<Item = Rehearsal> + Send,
    time: Duration,
) -> Called {
    // The caller's thread may belong to an executor, in which another one cannot run.
    thread::scope(|scope| {
        let rehearsal = scope.spawn(|| attempt(module, given, time));
        rehearsal.join().ok().flatten().unwrap_or_default()
    })
}

fn attempt(
    module: &[u8],
    given: impl IntoIterator<Item = Rehearsal>,
    time: Duration,
) -> Option<Called> {
    let marking = Marking::of(module)?;
    let engine = EnginePair::for_one_run().ok()?;
    let linked = linked(&engine, &marking.bytes)?;
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .ok()?;
    let end = Instant::now() + time;
    let called = thread::scope(|scope| {
        // Ends the clock also if a run panics.
        let _clock = Clock::start(scope, &engine);
        let mut called = Called::default();
        for given in given {
            if Instant::now() >= end {
                break;
            }
            if let Some((marks, asked)) = executor.block_on(run(&linked, given, end)) {
                called.functions.extend(marking.called(&marks));
                called.others |= asked;
            }
        }
        called
    });
    // A read of a file may wait on a thread of the executor.
    executor.shutdown_background();
    Some(called)
}

/// Lets running code look whether its time is over, until it is dropped.
struct Clock {
    _ends: Sender<()>,
}

impl Clock {
    fn start<'scope>(scope: &'scope thread::Scope<'scope, '_>, engine: &Engine) -> Self {
        let (ends, ended) = channel();
        let engine = engine.clone();
        scope.spawn(move || {
            while ended.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        });
        Self { _ends: ends }
    }
}

/// A module with what it imports, as far as it is there.
fn linked(engine: &Engine, bytes: &[u8]) -> Option<InstancePre<Guest>> {
    let module = match child_compiler::compile(Form::OneRun, bytes) {
        // SAFETY: the result of `Module::serialize` in a child of this process that runs the same program, through a pipe that no
        // other process has.
        Some(code) => unsafe { Module::deserialize(engine, code.ok()?) },
        None => Module::from_binary(engine, bytes),
    };
    let module = module.ok()?;
    let mut linker = Linker::new(engine);
    add_to_linker_async(&mut linker, |guest: &mut Guest| &mut guest.wasi).ok()?;
    linker.allow_shadowing(true);
    linker
        .func_wrap_async(WASI_MODULE, "path_open", |caller, arguments| {
            Box::new(open(caller, arguments))
        })
        .ok()?;
    linker
        .func_wrap_async(WASI_MODULE, "fd_read", |caller, arguments| {
            Box::new(read(caller, arguments))
        })
        .ok()?;
    for import in module.imports() {
        let ExternType::Func(ty) = import.ty() else {
            continue;
        };
        let (of, name) = (import.module(), import.name());
        let of_wasi = of == WASI_MODULE;
        if of_wasi && !REFUSED.contains(&name) {
            continue;
        }
        let refuse = move |mut caller: Caller<'_, Guest>, _: &[Val], results: &mut [Val]| {
            caller.data_mut().asked = true;
            match results {
                [result] if of_wasi => *result = Val::I32(ACCESS),
                _ => wasmtime::bail!("only the real process has it"),
            }
            Ok(())
        };
        linker.func_new(of, name, ty, refuse).ok()?;
    }
    linker.define_unknown_imports_as_traps(&module).ok()?;
    linker.instantiate_pre(&module).ok()
}

/// Reads, unless that is from an input that is not known.
async fn read(
    mut caller: Caller<'_, Guest>,
    (fd, vectors, count, to): (i32, i32, i32, i32),
) -> Result<i32> {
    if fd == 0 && caller.data().unknown {
        caller.data_mut().asked = true;
        wasmtime::bail!("the input is not known");
    }
    let Some(memory) = memory_of(&mut caller) else {
        return Ok(ACCESS);
    };
    let (bytes, guest) = memory.data_and_store_mut(&mut caller);
    let mut memory = GuestMemory::Unshared(bytes);
    p1::fd_read(guest.ready(), &mut memory, fd, vectors, count, to).await
}

fn memory_of(caller: &mut Caller<'_, Guest>) -> Option<Memory> {
    caller.get_export("memory").and_then(Extern::into_memory)
}

/// What processes ask for that write to a file.
const WRITING: types::Rights = types::Rights::FD_WRITE.union(types::Rights::FD_ALLOCATE);

type OpenArguments = (i32, i32, i32, i32, i32, i64, i64, i32, i32);

/// Opens regular files and directories alone: to read from a pipe would take what the real process is to get, and to open one would
/// end its writer.
async fn open(
    mut caller: Caller<'_, Guest>,
    (fd, lookup, path, length, how, base, inheriting, flags, to): OpenArguments,
) -> Result<i32> {
    let Some(memory) = memory_of(&mut caller) else {
        return Ok(ACCESS);
    };
    let (bytes, guest) = memory.data_and_store_mut(&mut caller);
    let mut memory = GuestMemory::Unshared(bytes);
    let wasi = guest.ready();
    let rights = types::Rights::from_bits_truncate(base as u64);
    let writes = how != 0 || rights.intersects(WRITING);
    let name = GuestPtr::<str>::new((path as u32, length as u32));
    let follow = types::Lookupflags::from_bits_truncate(lookup as u32);
    let stat = WasiSnapshotPreview1::path_filestat_get(
        wasi,
        &mut memory,
        types::Fd::from(fd),
        follow,
        name,
    );
    // What is not there is left to the library, which knows why.
    if let Ok(stat) = stat.await
        && !matches!(
            stat.filetype,
            types::Filetype::RegularFile | types::Filetype::Directory
        )
    {
        guest.asked = true;
        return Ok(ACCESS);
    }
    let opened = p1::path_open(
        wasi,
        &mut memory,
        fd,
        lookup,
        path,
        length,
        how,
        base,
        inheriting,
        flags,
        to,
    )
    .await;
    // A file that is opened for writing is not there, or cannot be written here.
    guest.asked |= writes && !matches!(opened, Ok(0));
    opened
}

/// Runs a process until it ends or its time is over; the memory of its marks, and whether it has asked for what only the real one gets, if
/// it came that far.
async fn run(
    linked: &InstancePre<Guest>,
    given: Rehearsal,
    end: Instant,
) -> Option<(Vec<u8>, bool)> {
    let unknown = given.stdin.is_none();
    let mut wasi = WasiCtxBuilder::new();
    wasi.args(&given.args).envs(&given.env);
    wasi.stdin(MemoryInputPipe::new(given.stdin.unwrap_or_default()));
    for directory in &given.directories {
        let opened = wasi.preopened_dir(path_of(directory), directory.guest(), FsPerms::ReadOnly);
        opened.ok()?;
    }
    let guest = Guest {
        wasi: wasi.build_p1(),
        limits: StoreLimitsBuilder::new().memory_size(MEMORY).build(),
        unknown,
        asked: false,
    };
    let mut store = Store::new(linked.module().engine(), guest);
    store.limiter(|guest| &mut guest.limits);
    // It looks whether its time is over.
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    let instance = timeout_at(end.into(), linked.instantiate_async(&mut store));
    let instance = instance.await.ok()?.ok()?;
    if let Ok(start) = instance.get_typed_func::<(), ()>(&mut store, "_start") {
        // However it ends, it has called what it has called.
        let _ = timeout_at(end.into(), start.call_async(&mut store, ())).await;
    }
    let marks = instance.get_memory(&mut store, MARKS)?;
    Some((marks.data(&store).to_vec(), store.data().asked))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use everwarp_process::{Bytes, Directory};

    use super::*;

    /// A process that calls function 6 if its input has the letter a, 7 if it can open `file` in its directory, for writing if that is w, and 8
    /// if that is u and it can remove it. It asks for a socket if that is s, and then loops.
    const TEXT: &str = r#"(module
      (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "path_unlink_file" (func $unlink (param i32 i32 i32) (result i32)))
      (import "everwarp:net" "socket" (func $socket (param i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 16) "file")
      (data (i32.const 32) "\40\00\00\00\01\00\00\00")
      (func $start (export "_start")
        (drop (call $read (i32.const 0) (i32.const 32) (i32.const 1) (i32.const 48)))
        (drop (call $write (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 48)))
        (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 97)) (then (call $a)))
        (if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 4) (i32.const 0)
                       (select (i64.const 66) (i64.const 2) (i32.eq (i32.load8_u (i32.const 64)) (i32.const 119)))
                       (i64.const 0) (i32.const 0) (i32.const 48))) (then (call $opened)))
        (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 117)) (then
          (if (i32.eqz (call $unlink (i32.const 3) (i32.const 16) (i32.const 4))) (then (call $unlinked)))))
        (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 115)) (then
          (drop (call $socket (i32.const 0) (i32.const 0) (i32.const 0)))))
        (loop (br 0)))
      (func $a) (func $opened) (func $unlinked) (func $never))"#;

    /// The functions that processes call, and whether the real ones will call others.
    fn all_called(given: Vec<Rehearsal>) -> (Vec<u32>, bool) {
        let module = wat::parse_str(TEXT).expect("the text is right");
        let called = rehearse(&module, given, Duration::from_millis(500));
        (called.functions.into_iter().collect(), called.others)
    }

    fn called(given: Vec<Rehearsal>) -> Vec<u32> {
        let (functions, others) = all_called(given);
        assert!(!others);
        functions
    }

    fn input(text: &'static str) -> Rehearsal {
        Rehearsal {
            stdin: Some(Bytes::from_static(text.as_bytes())),
            ..Rehearsal::default()
        }
    }

    #[test]
    fn what_a_process_calls_is_known_although_it_does_not_end() {
        assert_eq!(called(vec![input("b")]), [5]);
        assert_eq!(called(vec![input("a")]), [5, 6]);
        assert!(called(Vec::new()).is_empty());
    }

    #[test]
    fn a_rehearsal_ends_where_an_input_is_read_that_is_not_known() {
        let module = wat::parse_str(TEXT).expect("the text is right");
        let called = rehearse(&module, [Rehearsal::default()], Duration::from_secs(60));
        let functions = [5].into();
        assert_eq!(
            called,
            Called {
                functions,
                others: true
            }
        );
    }

    /// A process with this input and directory.
    fn within(text: &'static str, folder: &Path) -> Vec<Rehearsal> {
        let mut given = input(text);
        let directory = Directory::open(folder, "/".to_owned());
        given.directories.push(directory.expect("it is there"));
        vec![given]
    }

    #[cfg(unix)]
    #[test]
    fn files_are_read_and_pipes_are_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        assert_eq!(called(within("b", folder.path())), [5]);
        std::fs::write(&file, "text").expect("it is written");
        assert_eq!(called(within("b", folder.path())), [5, 7]);
        std::fs::remove_file(&file).expect("it is there");
        // A reader that opened the pipe would wait for its writer.
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).expect("a pipe");
        assert_eq!(all_called(within("b", folder.path())), (vec![5], true));
    }

    #[test]
    fn what_changes_files_or_needs_sockets_is_refused_and_what_follows_is_not_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "text").expect("it is written");
        for (letter, functions) in [("w", vec![5]), ("u", vec![5, 7]), ("s", vec![5, 7])] {
            let called = all_called(within(letter, folder.path()));
            assert_eq!(called, (functions, true), "{letter}");
            assert_eq!(std::fs::read(&file).expect("it is there"), b"text");
        }
    }

    #[test]
    fn a_module_without_memory_and_bytes_that_are_none_call_nothing() {
        let module = wat::parse_str(r#"(module (func (export "_start")))"#);
        let module = module.expect("the text is right");
        for module in [&module[..], b"not a module", b""] {
            let called = rehearse(module, [Rehearsal::default()], Duration::from_secs(1));
            assert_eq!(called, Called::default());
        }
    }
}
