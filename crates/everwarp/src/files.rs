//! Files of native tasks: open, read, write, append, truncate, stat, sync and close, waited for by no thread.
//!
//! A task asks with [`FileTask`] and names the task that goes on; [`FileEnd`] is that task's argument. The host grants
//! directories and gives open files with [`Files`]. The chapter "Files from a native task" in the book has the promises.
//! The CPU engine and CUDA have files; wgpu refuses them with [`FilesError::NotOnEngine`].
//!
//! The same [`FileTask`] sets timers and uses sockets: see the chapter "Timers and sockets of native tasks".
//!
//! ```
//! use std::sync::Arc;
//!
//! use everwarp::files::{DevFiles, FILE_DOOR_STEP, FILE_SPAWNS, FileEnd, FileTask, Files, FilesConfig, Rights, Then, door};
//! use everwarp::{DevPtr, Device, Select, TaskCx, dev_struct, program};
//!
//! dev_struct! {
//!     /// Parameters.
//!     pub struct DevFirst: align 16, size 144 {
//!         /// The files.
//!         pub files: DevFiles,
//!         /// Where the bytes go.
//!         pub bytes: DevPtr<u8>,
//!         /// The file.
//!         pub handle: u32,
//!         /// Spelled-out hole.
//!         pub hole: u32,
//!     }
//! }
//!
//! program! {
//!     static FIRST: first(DevFirst) {
//!         /// Reads the first 100 bytes.
//!         BEGIN: lane(begin).spawns(FILE_SPAWNS),
//!         /// Reports how many there were.
//!         END: lane(end),
//!         /// The door of the files.
//!         DOOR: warp(files_door).spawns(FILE_DOOR_STEP as u16),
//!     }
//! }
//!
//! fn params(task: &dyn TaskCx) -> DevFirst {
//!     // SAFETY: instances of this program are made with `DevFirst`.
//!     *unsafe { task.params::<DevFirst>() }
//! }
//! fn begin(task: &mut dyn TaskCx) {
//!     let p = params(task);
//!     // SAFETY: the tables are those of the instance's files.
//!     let mut files = unsafe { FileTask::new(&mut *task, &p.files, DOOR) };
//!     if !files.read(p.handle, 0, p.bytes, 100, Then::new(END, 0, 0)) {
//!         task.spawn(BEGIN, 0, 0); // the ring is full: once more
//!     }
//! }
//! fn end(task: &mut dyn TaskCx) {
//!     match FileEnd::of(task.arg()).result {
//!         Ok(count) => task.report_add(count.into()),
//!         Err(error) => task.fault(error.0.into()),
//!     }
//! }
//! fn files_door(task: &mut dyn TaskCx) {
//!     let p = params(task);
//!     // SAFETY: as above.
//!     unsafe { door(task, &p.files, DOOR) };
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&FIRST).size(1).start()?;
//! let files = Files::new(&engine, FilesConfig::default())?;
//! let bytes = files.buffer(100)?;
//! let file = std::fs::File::open("Cargo.toml")?;
//! let handle = files.give(file, Rights::Read, false)?;
//! let params = DevFirst { files: files.tables(), bytes: bytes.ptr(), handle: handle.0, hole: 0 };
//! // SAFETY: the files and the buffer live as long as the instance is used.
//! let instance = Arc::new(unsafe { engine.instance(&FIRST, &params) }?);
//! files.serve(&instance, DOOR)?;
//!
//! assert_eq!(engine.run(instance.task(BEGIN))?.value, 100);
//! assert!(bytes.read()?.starts_with(b"[package]"));
//! # Ok(()) }
//! ```

#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use everwarp_files::Record;
#[cfg(target_os = "linux")]
pub use everwarp_files::{
    AddressRule, Connection, EventSources, Events, ListenAddress, ListenError, Listener, Network,
    Recording, RuleError,
};
pub use everwarp_files::{
    ArenaConfig, BACKEND_SETTING, Backend, BackendError, CacheConfig, DevEvent, DevFileEntry,
    DevFileList, DevFileStat, DevFiles, DevNetAddress, EVENT_END, EVENT_INPUT, EVENT_KEY,
    EVENT_MOUSE, EVENT_SIGNAL, EVENT_SIZE, EVENT_WATCHING, FILE_BACKGROUND, FILE_CACHED,
    FILE_CREATE, FILE_DOOR_STEP, FILE_EMPTY, FILE_FOR_READING, FILE_FOR_WRITING, FILE_INTERACTIVE,
    FILE_KIND_DIRECTORY, FILE_KIND_LINK, FILE_KIND_OTHER, FILE_KIND_REGULAR, FILE_MOST, FILE_NEW,
    FILE_NORMAL, FILE_SPAWNS, FILE_UNORDERED, Faults, FileEnd, FileErrno, FileHandle, FileStats,
    FileTask, Files, FilesConfig, FilesError, Got, Page, PageStats, RequestClass, Rights,
    SHUT_RECEIVING, SHUT_SENDING, SOCKET_BROADCAST, SOCKET_KEEP_ALIVE, SOCKET_NO_DELAY,
    SOCKET_ONLY_V6, SOCKET_RECEIVE_BUFFER, SOCKET_REUSE_ADDRESS, SOCKET_SEND_BUFFER,
    SOCKET_TIME_TO_LIVE, SOURCE_INPUT, SOURCE_KEYS, SOURCE_MOUSE, SOURCE_SIZE, Then, door,
};
