//! Statuses, and the message of a thread's last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use everwarp::actor::{ActorError, ModuleError};
use everwarp::process::{HostError, LoadError, SpawnError, StartError};

/// What became of a call, as in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// It did what it says.
    Ok = 0,
    /// An argument is wrong.
    Argument = 1,
    /// The device cannot be opened.
    Device = 2,
    /// A module is refused.
    Load = 3,
    /// An engine did not start, or has no room for a module.
    Start = 4,
    /// Processes were not started.
    Spawn = 5,
    /// The engine has failed.
    Host = 6,
    /// The time is over.
    Timeout = 7,
    /// The library has a mistake.
    Panic = 8,
    /// An actor does not live.
    Gone = 9,
    /// An ask ended without a reply.
    NoReply = 10,
}

/// A status with its message.
#[derive(Debug)]
pub(crate) struct Failure(Status, String);

impl Failure {
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self(Status::Argument, message.into())
    }
    pub(crate) fn null(what: &str) -> Self {
        Self::argument(format!("{what} is a null pointer"))
    }
    pub(crate) fn device(error: &everwarp::Error) -> Self {
        Self(Status::Device, error.to_string())
    }
    pub(crate) fn load(error: &ModuleError) -> Self {
        Self(Status::Load, error.to_string())
    }
    pub(crate) fn start(message: String) -> Self {
        Self(Status::Start, message)
    }
    pub(crate) fn timeout() -> Self {
        Self(
            Status::Timeout,
            "the processes have not ended; they run on".into(),
        )
    }
}

macro_rules! fails {
    ($($error:ty => $status:ident;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self(Status::$status, error.to_string())
            }
        }
    )*};
}

fails! {
    LoadError => Load;
    StartError => Start;
    SpawnError => Spawn;
    HostError => Host;
}

impl From<ActorError> for Failure {
    fn from(error: ActorError) -> Self {
        let status = match &error {
            ActorError::Gone { .. } => Status::Gone,
            ActorError::NoReply { .. } => Status::NoReply,
            ActorError::Timeout { .. } | ActorError::Full { .. } => Status::Timeout,
            ActorError::NoKindNamed { .. } | ActorError::NoMessage { .. } => Status::Argument,
            _ => Status::Host,
        };
        Self(status, error.to_string())
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

fn remember(message: &str) {
    let text = message.replace('\0', " ");
    MESSAGE.with_borrow_mut(|kept| *kept = CString::new(text).unwrap_or_default());
}

/// The message of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn ew_error_message() -> *const c_char {
    MESSAGE.with_borrow(|kept| kept.as_ptr())
}

/// Runs the body of a function of the interface.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    // After a panic the objects are only freed, and what they hold recovers its locks.
    let (status, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => (Status::Ok, String::new()),
        Ok(Err(Failure(status, message))) => (status, message),
        Err(panic) => (Status::Panic, panic_message(&*panic)),
    };
    remember(&message);
    status
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("everwarp has a mistake: {}", text.unwrap_or("a panic"))
}
