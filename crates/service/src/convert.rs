//! The types of processes as messages, and back.

use std::io;

use everwarp_engine::EngineKind;
use everwarp_process::{
    Captured, ChannelError, Exit, ExitStatus, HostConfig, HostError, Listing, LoadConfig, Output,
    ProcessSnapshot, Reads, SpawnError, Stage, StartError, Tier, Trap, TrapKind,
};

use crate::protocol::{
    ChannelFault, Counts, HostFault, HostSettings, LoadSettings, OutputGrant, ProcessExit, Row,
    RowStage, SpawnFault, StartFault, Status, SystemError, TierChoice,
};

impl From<&LoadConfig> for LoadSettings {
    fn from(config: &LoadConfig) -> Self {
        Self {
            places: config.places,
            memory: config.memory,
            metered: config.metered,
            threads: config.threads,
            children: config.children,
            memory_budget: config.memory_budget,
        }
    }
}

impl From<LoadSettings> for LoadConfig {
    fn from(settings: LoadSettings) -> Self {
        Self {
            places: settings.places,
            memory: settings.memory,
            metered: settings.metered,
            threads: settings.threads,
            children: settings.children,
            memory_budget: settings.memory_budget,
        }
    }
}

impl From<&HostConfig> for HostSettings {
    fn from(config: &HostConfig) -> Self {
        Self {
            workers: config.workers,
            load: (&config.load).into(),
            stack_bytes: config.stack_bytes,
            interleaved: config.interleaved,
            contract: config.contract,
            tier: match config.tier {
                Tier::Best => TierChoice::Best,
                Tier::Lazy => TierChoice::Lazy,
                Tier::Least => TierChoice::Least,
            },
            spare_places: config.spare_places,
            given_bytes: config.given_bytes,
            servers: config.servers,
            batched_reads: match config.reads {
                Reads::Plain => None,
                Reads::Batched(least) => Some(least),
            },
            channels: config.channels,
        }
    }
}

impl From<HostSettings> for HostConfig {
    fn from(settings: HostSettings) -> Self {
        Self {
            workers: settings.workers,
            // A client cannot ask a service that others use as well for more.
            waiting: Self::WAITING,
            load: settings.load.into(),
            stack_bytes: settings.stack_bytes,
            interleaved: settings.interleaved,
            contract: settings.contract,
            tier: match settings.tier {
                TierChoice::Best => Tier::Best,
                TierChoice::Lazy => Tier::Lazy,
                TierChoice::Least => Tier::Least,
            },
            spare_places: settings.spare_places,
            given_bytes: settings.given_bytes,
            servers: settings.servers,
            reads: settings.batched_reads.map_or(Reads::Plain, Reads::Batched),
            channels: settings.channels,
        }
    }
}

impl From<Output> for OutputGrant {
    fn from(output: Output) -> Self {
        match output {
            Output::Inherit => Self::Inherit,
            Output::Lines { tag, to_stderr } => Self::Lines { tag, to_stderr },
            Output::Capture { limit } => Self::Capture { limit },
        }
    }
}

impl From<OutputGrant> for Output {
    fn from(grant: OutputGrant) -> Self {
        match grant {
            OutputGrant::Inherit => Self::Inherit,
            OutputGrant::Lines { tag, to_stderr } => Self::Lines { tag, to_stderr },
            OutputGrant::Capture { limit } => Self::Capture { limit },
        }
    }
}

impl From<&io::Error> for SystemError {
    fn from(error: &io::Error) -> Self {
        Self {
            code: error.raw_os_error(),
            text: error.to_string(),
        }
    }
}

impl From<SystemError> for io::Error {
    fn from(error: SystemError) -> Self {
        match error.code {
            Some(code) => Self::from_raw_os_error(code),
            None => Self::other(error.text),
        }
    }
}

fn is_cuda(kind: EngineKind) -> bool {
    kind == EngineKind::Cuda
}

/// The kind of an engine.
pub(crate) fn kind_of(cuda: bool) -> EngineKind {
    match cuda {
        true => EngineKind::Cuda,
        false => EngineKind::Cpu,
    }
}

/// The names of options that only one engine has.
const OPTIONS: [&str; 4] = ["workers", "stack_bytes", "interleaved", "contract"];

impl From<&StartError> for StartFault {
    fn from(error: &StartError) -> Self {
        match error {
            StartError::Option { option, engine } => Self::Option {
                option: (*option).to_owned(),
                cuda: is_cuda(*engine),
            },
            other => Self::Other {
                text: other.to_string(),
            },
        }
    }
}

impl From<StartFault> for StartError {
    fn from(fault: StartFault) -> Self {
        match fault {
            StartFault::Option { option, cuda } => {
                let engine = kind_of(cuda);
                match OPTIONS.into_iter().find(|known| *known == option) {
                    Some(option) => Self::Option { option, engine },
                    None => Self::Service(format!("the {engine} engine has no option `{option}`")),
                }
            }
            StartFault::Other { text } => Self::Service(text),
        }
    }
}

impl From<&SpawnError> for SpawnFault {
    fn from(error: &SpawnError) -> Self {
        match error {
            SpawnError::Host(error) => Self::Host {
                fault: error.into(),
            },
            other => Self::Other {
                text: other.to_string(),
            },
        }
    }
}

impl From<SpawnFault> for SpawnError {
    fn from(fault: SpawnFault) -> Self {
        match fault {
            SpawnFault::Host { fault } => Self::Host(fault.into()),
            SpawnFault::Other { text } => Self::Service(text),
        }
    }
}

impl From<&HostError> for HostFault {
    fn from(error: &HostError) -> Self {
        match error {
            HostError::Timeout { after } => Self::Timeout { after: *after },
            HostError::UnknownPid(pid) => Self::UnknownPid { pid: *pid },
            HostError::Engine { reason } => Self::Engine {
                reason: reason.clone(),
            },
            HostError::Lost { reason } => Self::Lost {
                reason: reason.clone(),
            },
            other => Self::Engine {
                reason: other.to_string(),
            },
        }
    }
}

impl From<HostFault> for HostError {
    fn from(fault: HostFault) -> Self {
        match fault {
            HostFault::Timeout { after } => Self::Timeout { after },
            HostFault::UnknownPid { pid } => Self::UnknownPid(pid),
            HostFault::Engine { reason } => Self::Engine { reason },
            HostFault::Lost { reason } => Self::Lost { reason },
        }
    }
}

impl From<&ChannelError> for ChannelFault {
    fn from(error: &ChannelError) -> Self {
        match error {
            ChannelError::Closed => Self::Closed,
            ChannelError::Again => Self::Again,
            ChannelError::Size => Self::Size,
            ChannelError::Limit => Self::Limit,
            other => Self::Lost {
                reason: match other {
                    ChannelError::Lost(reason) => reason.clone(),
                    other => other.to_string(),
                },
            },
        }
    }
}

impl From<ChannelFault> for ChannelError {
    fn from(fault: ChannelFault) -> Self {
        match fault {
            ChannelFault::Closed => Self::Closed,
            ChannelFault::Again => Self::Again,
            ChannelFault::Size => Self::Size,
            ChannelFault::Limit => Self::Limit,
            ChannelFault::Lost { reason } => Self::Lost(reason),
        }
    }
}

impl From<&Exit> for ProcessExit {
    fn from(exit: &Exit) -> Self {
        let refused = |captured: &Option<Captured>| captured.as_ref().map(|c| c.refused);
        Self {
            status: match &exit.status {
                ExitStatus::Exited(code) => Status::Exited { code: *code },
                ExitStatus::Trapped(trap) => Status::Trapped {
                    kind: trap.kind as u32,
                    function: trap.function.clone(),
                    message: trap.message.clone(),
                },
                ExitStatus::OutOfFuel => Status::OutOfFuel,
                ExitStatus::OutOfMemory { needs } => Status::OutOfMemory { needs: *needs },
                _ => Status::Killed,
            },
            fuel_used: exit.fuel_used,
            elapsed: exit.elapsed,
            stdout: refused(&exit.stdout),
            stderr: refused(&exit.stderr),
        }
    }
}

impl ProcessExit {
    /// The exit with the captured bytes of standard output and standard error.
    pub(crate) fn with(self, [stdout, stderr]: [Vec<u8>; 2]) -> Exit {
        let captured =
            |refused: Option<bool>, bytes| refused.map(|refused| Captured { bytes, refused });
        Exit {
            status: self.status.into(),
            fuel_used: self.fuel_used,
            elapsed: self.elapsed,
            stdout: captured(self.stdout, stdout),
            stderr: captured(self.stderr, stderr),
        }
    }
}

impl From<Status> for ExitStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Exited { code } => Self::Exited(code),
            Status::Trapped {
                kind,
                function,
                message,
            } => Self::Trapped(Trap {
                kind: TrapKind::from_code(kind).unwrap_or(TrapKind::Unreachable),
                function,
                message,
            }),
            Status::Killed => Self::Killed,
            Status::OutOfFuel => Self::OutOfFuel,
            Status::OutOfMemory { needs } => Self::OutOfMemory { needs },
        }
    }
}

impl From<&ProcessSnapshot> for Row {
    fn from(process: &ProcessSnapshot) -> Self {
        Self {
            pid: process.pid,
            parent: process.parent,
            stage: match &process.stage {
                Stage::Waiting => RowStage::Waiting,
                Stage::Running => RowStage::Running,
                Stage::Calling => RowStage::Calling,
                Stage::Ended(reason) => RowStage::Ended {
                    reason: reason.clone(),
                },
            },
            fuel_used: process.fuel_used,
            memory_bytes: process.memory_bytes,
        }
    }
}

impl From<Row> for ProcessSnapshot {
    fn from(row: Row) -> Self {
        Self {
            pid: row.pid,
            parent: row.parent,
            stage: match row.stage {
                RowStage::Waiting => Stage::Waiting,
                RowStage::Running => Stage::Running,
                RowStage::Calling => Stage::Calling,
                RowStage::Ended { reason } => Stage::Ended(reason),
            },
            fuel_used: row.fuel_used,
            memory_bytes: row.memory_bytes,
        }
    }
}

impl From<&Listing> for Counts {
    fn from(listing: &Listing) -> Self {
        Self {
            waiting: listing.waiting,
            running: listing.running,
            ended: listing.ended,
        }
    }
}
