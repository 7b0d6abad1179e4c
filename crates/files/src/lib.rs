//! Files, timers and sockets of native tasks.
//!
//! A task asks the host to open, read, write, append, truncate, stat, sync or close, and names the task that goes on when
//! that is done. Until then it holds its group open, so no thread and no warp waits. The bytes go straight between the file
//! and a buffer that was shared. `docs/files.md` is the guide, and `everwarp-contract` has the layouts and the protocol.
//!
//! * A twin uses [`FileTask`] and [`FileEnd`]; device source has the same names in `everwarp/files/files.cuh`.
//! * The same [`FileTask`] has timers, sockets and events.
//! * The host uses [`Files`]: it grants directories, gives open files, shares buffers, and serves the requests of one
//!   instance with some threads.
//!
//! Linux only, for now. This crate is **internal** to everwarp, which shows it as `everwarp::files`.

mod class;
mod config;
mod errno;
mod error;
mod event_task;
mod faults;
mod net_task;
mod page_task;
mod ring;
mod table;
mod table_words;
mod task;
mod time_task;

#[cfg(target_os = "linux")]
mod arena;
#[cfg(target_os = "linux")]
mod bell;
#[cfg(target_os = "linux")]
mod cache;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod copying;
#[cfg(target_os = "linux")]
mod counters;
#[cfg(target_os = "linux")]
mod cutting;
#[cfg(target_os = "linux")]
mod delivery;
#[cfg(target_os = "linux")]
mod desk;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod ended;
#[cfg(target_os = "linux")]
mod event_stream;
#[cfg(target_os = "linux")]
mod execute;
#[cfg(target_os = "linux")]
mod files;
#[cfg(not(target_os = "linux"))]
#[path = "no_files.rs"]
mod files;
#[cfg(target_os = "linux")]
mod giving;
#[cfg(target_os = "linux")]
mod grants;
#[cfg(target_os = "linux")]
mod handles;
#[cfg(target_os = "linux")]
mod handover;
#[cfg(target_os = "linux")]
mod keeping;
#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
mod listing;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod moving;
#[cfg(target_os = "linux")]
mod networking;
#[cfg(target_os = "linux")]
mod open_file;
#[cfg(all(test, target_os = "linux"))]
mod orders;
#[cfg(target_os = "linux")]
mod paging;
#[cfg(target_os = "linux")]
mod plain;
#[cfg(target_os = "linux")]
mod port;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod request;
#[cfg(target_os = "linux")]
mod server;
mod setting;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod taking;
#[cfg(target_os = "linux")]
mod uring;
#[cfg(target_os = "linux")]
mod waiting;
#[cfg(target_os = "linux")]
mod waits;

pub use class::RequestClass;
pub use config::{ArenaConfig, CacheConfig, FileHandle, FileStats, FilesConfig, Rights};
pub use errno::FileErrno;
pub use error::FilesError;
pub use everwarp_contract::files::{
    EVENT_END, EVENT_INPUT, EVENT_KEY, EVENT_MOUSE, EVENT_SIGNAL, EVENT_SIZE, EVENT_WATCHING,
    FILE_BACKGROUND, FILE_CACHED, FILE_CREATE, FILE_DOOR_STEP, FILE_EMPTY, FILE_FOR_READING,
    FILE_FOR_WRITING, FILE_INTERACTIVE, FILE_KIND_DIRECTORY, FILE_KIND_LINK, FILE_KIND_OTHER,
    FILE_KIND_REGULAR, FILE_MOST, FILE_NEW, FILE_NORMAL, FILE_UNORDERED, SHUT_RECEIVING,
    SHUT_SENDING, SOCKET_BROADCAST, SOCKET_KEEP_ALIVE, SOCKET_NO_DELAY, SOCKET_ONLY_V6,
    SOCKET_RECEIVE_BUFFER, SOCKET_REUSE_ADDRESS, SOCKET_SEND_BUFFER, SOCKET_TIME_TO_LIVE,
    SOURCE_INPUT, SOURCE_KEYS, SOURCE_MOUSE, SOURCE_SIZE,
};
pub use everwarp_contract::{
    DevEvent, DevFileEntry, DevFileList, DevFileStat, DevFiles, DevNetAddress,
};
#[cfg(target_os = "linux")]
pub use everwarp_io::{
    AddressRule, Connection, EventSources, Events, ListenAddress, ListenError, Listener, Network,
    Recording, RuleError,
};
pub use everwarp_io::{BACKEND_SETTING, Backend, BackendError};
pub use everwarp_pages::PageStats;
pub use faults::Faults;
pub use files::Files;
pub use page_task::{Got, Page};
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use record::Record;
pub use task::{FILE_SPAWNS, FileEnd, FileTask, Then, door};
