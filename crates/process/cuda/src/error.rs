//! How errors of the compiler and of the runtime become those of the process API.

use everwarp_compiler::{CompileError, InstantiateError};
use everwarp_process::{ChannelError, HostError, LoadError, StartError};
use everwarp_runtime::EngineError;

/// The compiler refused a module.
pub(crate) fn not_compiled(error: CompileError) -> LoadError {
    match error {
        CompileError::Invalid { offset, message } => LoadError::Invalid { offset, message },
        other => LoadError::Compile(other.to_string()),
    }
}

/// A module cannot be instantiated.
pub(crate) fn not_instantiated(error: &InstantiateError) -> LoadError {
    LoadError::Instantiate(error.to_string())
}

/// The engine did not start, or refused something that a host needs to start or to load a module.
pub(crate) fn not_started(error: everwarp_runtime::Error) -> StartError {
    StartError::Engine(Box::new(error))
}

/// The system refused something that a host needs to start.
pub(crate) fn system(what: &str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::System {
        what: what.to_owned(),
        source,
    }
}

/// The engine did not do what a host asked for.
pub(crate) fn refused(error: everwarp_runtime::Error) -> HostError {
    use everwarp_runtime::Error;
    match error {
        Error::Timeout { after } => HostError::Timeout { after },
        Error::Stopped | Error::Engine(EngineError::Lost { .. } | EngineError::Stuck { .. }) => {
            HostError::Lost {
                reason: error.to_string(),
            }
        }
        other => HostError::Engine {
            reason: other.to_string(),
        },
    }
}

/// The engine did not do what an end of a channel asked for.
pub(crate) fn channel_lost(error: &everwarp_runtime::Error) -> ChannelError {
    ChannelError::Lost(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_engine_that_has_ended_is_reported_as_lost() {
        let lost = EngineError::Lost {
            reason: "a lane is stuck".into(),
        };
        assert!(matches!(refused(lost.into()), HostError::Lost { .. }));
        let memory = EngineError::OutOfMemory {
            kind: "device",
            bytes: 64,
            detail: "no more".into(),
        };
        let message = refused(memory.into()).to_string();
        assert!(message.contains("64 bytes"), "{message}");
        assert!(!message.contains("ended"), "{message}");
    }
}
