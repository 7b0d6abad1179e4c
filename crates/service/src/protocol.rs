//! The messages between a client and the engine that serves it, each declared once.
//!
//! A client sends [`ToEngine`] and receives [`FromEngine`], each as the body of one frame. Requests carry a number that
//! their replies repeat. The first message is [`ToEngine::Start`]; before it both sides exchange the greeting of
//! [`hello`](crate::hello), which chooses the version of everything on this page.
//!
//! Numbers of variants are never used again. A change that an older side cannot read is a new version of the protocol.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use everwarp_process::Pid;

use crate::wire::codec::{Wire, wire};

wire! {
    /// [`LoadConfig`](everwarp_process::LoadConfig).
    struct LoadSettings {
        places: u32,
        memory: Option<u64>,
        metered: bool,
        threads: u32,
        children: u32,
        memory_budget: Option<u64>,
    }

    /// [`Tier`](everwarp_process::Tier).
    enum TierChoice {
        Best = 0,
        Lazy = 1,
        Least = 2,
    }

    /// [`HostConfig`](everwarp_process::HostConfig).
    struct HostSettings {
        workers: Option<NonZeroUsize>,
        load: LoadSettings,
        stack_bytes: Option<u32>,
        interleaved: bool,
        contract: bool,
        tier: TierChoice,
        spare_places: u32,
        given_bytes: u64,
        servers: usize,
        /// The least number of reads that go through an io_uring; `None` for plain reads.
        batched_reads: Option<usize>,
        channels: u32,
    }

    /// [`Input`](everwarp_process::Input).
    enum InputGrant {
        Empty = 0,
        Inherit = 1,
        /// The first bytes of the request's data.
        Bytes = 2 { count: usize, },
    }

    /// [`Output`](everwarp_process::Output).
    enum OutputGrant {
        Inherit = 0,
        Lines = 1 { tag: bool, to_stderr: bool, },
        Capture = 2 { limit: usize, },
    }

    /// A directory, whose descriptor comes with the message.
    struct DirectoryGrant {
        /// What messages call it.
        path: String,
        guest: String,
        read_only: bool,
    }

    /// [`Network`](everwarp_process::Network): its rules as a user writes them.
    struct NetworkGrant {
        connect: Vec<String>,
        bind: Vec<String>,
        /// Whether the client wants to know what processes are refused.
        reports: bool,
    }

    /// [`Grants`](everwarp_process::Grants).
    struct SharedGrants {
        directories: Vec<DirectoryGrant>,
        /// How many listeners there are. Their descriptors follow those of the directories.
        listeners: u32,
        network: Option<NetworkGrant>,
        /// How many streams of events there are: none, or one for each process. Their descriptors follow those of the
        /// listeners.
        events: u32,
        stdin: InputGrant,
        stdout: OutputGrant,
        stderr: OutputGrant,
        fuel: Option<u64>,
        handles: Option<u32>,
        /// The numbers of channel ends.
        ends: Vec<u32>,
    }

    /// A message to the engine.
    enum ToEngine {
        /// Starts a host. The descriptors are standard input, output and error, then the files of the modules.
        Start = 1 { request: u32, host: HostSettings, modules: Vec<String>, program: String, },
        /// Loads a module, whose file is the descriptor.
        Load = 2 { request: u32, name: String, settings: LoadSettings, },
        /// Starts processes as soon as `data` bytes have come with [`ToEngine::SpawnData`]. The descriptors are the
        /// directories, then the listeners, then the streams of events.
        Spawn = 3 { request: u32, module: u32, count: u32, grants: SharedGrants, data: u64, },
        /// The next part of what each process gets of its own.
        SpawnData = 4 { request: u32, bytes: Bytes, },
        /// Starts no further processes of a request.
        StopSpawn = 5 { request: u32, },
        /// Asks for the exit of one process, which comes as [`FromEngine::Exited`].
        Wait = 6 { pid: Pid, },
        /// Asks for the exits of processes in this order.
        WaitEach = 7 { request: u32, pids: Vec<Pid>, },
        Kill = 8 { request: u32, pid: Pid, },
        KillAll = 9 { request: u32, },
        List = 10 { request: u32, limit: u32, },
        Pause = 11 { request: u32, },
        /// Reads the lines of a file, which is the descriptor. The next set of lines has the next number, from 0.
        ReadLines = 12 { request: u32, },
        MakeChannel = 13 { request: u32, capacity: u32, bytes: u32, },
        SendMessage = 14 { request: u32, end: u32, message: Bytes, timeout: Option<Duration>, },
        ReceiveMessage = 15 { request: u32, end: u32, timeout: Option<Duration>, },
        CloseEnd = 16 { end: u32, },
        /// Bytes of the client's standard input.
        Input = 17 { bytes: Bytes, },
        /// The end of the client's standard input.
        InputEnd = 18,
        InputFailed = 19 { error: SystemError, },
        /// Holds back output while the client is stopped, or lets it go on.
        HoldOutput = 20 { request: u32, held: bool, },
        /// Runs a native program. The files that the request names are the descriptors.
        Native = 21 { request: u32, body: Bytes, },
    }

    /// A message of the engine.
    enum FromEngine {
        /// The reply to a request, or a part of it.
        Reply = 1 { request: u32, reply: Reply, },
        /// The exit that [`ToEngine::Wait`] has asked for.
        Exited = 2 { pid: Pid, exit: Result<ProcessExit, HostFault>, },
        /// Captured output of a process, before its exit.
        Captured = 3 { pid: Pid, stderr: bool, bytes: Bytes, },
        /// A process waits for the client's standard input.
        ReadInput = 4 { most: u32, },
        /// The first failed write to the client's standard output or standard error.
        OutputFailed = 5 { stderr: bool, error: SystemError, },
        /// What a process was refused, for [`NetworkGrant`]s with reports.
        Refused = 6 { sentence: String, },
    }

    /// A reply to a request.
    enum Reply {
        Started = 1 { result: Result<StartedHost, StartFault>, },
        Loaded = 2 { result: Result<LoadedProgram, StartFault>, },
        /// Processes that have started: the first one has the number `first` in its request.
        Pids = 3 { first: u32, pids: Vec<Pid>, },
        Spawned = 4 { result: Result<(), SpawnFault>, },
        Exits = 5 { exits: Vec<(Pid, ProcessExit)>, },
        WaitedEach = 6 { result: Result<(), HostFault>, },
        Killed = 7 { result: Result<bool, HostFault>, },
        Paused = 8 { result: Result<Duration, HostFault>, },
        Rows = 9 { rows: Vec<Row>, },
        Listed = 10 { result: Result<Counts, HostFault>, },
        LinesRead = 11 { result: Result<LineCounts, SystemError>, },
        ChannelMade = 12 { result: Result<(u32, u32), ChannelFault>, },
        Sent = 13 { result: Result<(), ChannelFault>, },
        Received = 14 { result: Result<Bytes, ChannelFault>, },
        Done = 15,
        NativeDone = 16 { body: Bytes, },
    }

    struct StartedHost {
        /// Whether the engine is a GPU's.
        cuda: bool,
        device: String,
        widths: Vec<u32>,
    }

    struct LoadedProgram {
        id: u32,
        compiling: Duration,
        pause: Duration,
        width: u32,
    }

    struct LineCounts {
        lines: u64,
        bytes: u64,
    }

    /// An error of the operating system.
    struct SystemError {
        /// Its number, if it has one.
        code: Option<i32>,
        text: String,
    }

    /// [`StartError`](everwarp_process::StartError).
    enum StartFault {
        Option = 0 { option: String, cuda: bool, },
        Other = 1 { text: String, },
    }

    /// [`SpawnError`](everwarp_process::SpawnError).
    enum SpawnFault {
        Host = 0 { fault: HostFault, },
        Other = 1 { text: String, },
    }

    /// [`HostError`](everwarp_process::HostError).
    enum HostFault {
        Timeout = 0 { after: Duration, },
        UnknownPid = 1 { pid: Pid, },
        Engine = 2 { reason: String, },
        Lost = 3 { reason: String, },
    }

    /// [`ChannelError`](everwarp_process::ChannelError).
    enum ChannelFault {
        Closed = 0,
        Again = 1,
        Size = 2,
        Limit = 3,
        Lost = 4 { reason: String, },
    }

    /// [`ExitStatus`](everwarp_process::ExitStatus).
    enum Status {
        Exited = 0 { code: u32, },
        Trapped = 1 { kind: u32, function: Option<String>, message: String, },
        Killed = 2,
        OutOfFuel = 3,
        OutOfMemory = 4 { needs: u64, },
    }

    /// [`Exit`](everwarp_process::Exit) without the captured bytes, which come before it.
    struct ProcessExit {
        status: Status,
        fuel_used: Option<u64>,
        elapsed: Duration,
        /// For a captured stream, whether bytes were refused.
        stdout: Option<bool>,
        stderr: Option<bool>,
    }

    /// [`Stage`](everwarp_process::Stage).
    enum RowStage {
        Waiting = 0,
        Running = 1,
        Calling = 2,
        Ended = 3 { reason: String, },
    }

    /// [`ProcessSnapshot`](everwarp_process::ProcessSnapshot).
    struct Row {
        pid: Pid,
        parent: Option<Pid>,
        stage: RowStage,
        fuel_used: Option<u64>,
        memory_bytes: Option<u64>,
    }

    struct Counts {
        waiting: usize,
        running: usize,
        ended: usize,
    }
}

/// A message as the body of a frame.
pub(crate) fn body(message: &impl Wire) -> Vec<u8> {
    crate::wire::codec::encoded(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::codec::{decoded, encoded};

    proptest! {
        /// A peer may send anything: it is read or refused, and what is read means the same bytes.
        #[test]
        fn hostile_messages_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = decoded::<ToEngine>(&bytes) {
                prop_assert_eq!(&encoded(&message), &bytes);
            }
            if let Ok(message) = decoded::<FromEngine>(&bytes) {
                prop_assert_eq!(&encoded(&message), &bytes);
            }
        }

        /// Random bytes rarely get beyond the first choice, so the choice is made for them.
        #[test]
        fn hostile_contents_of_each_message_are_read_or_refused(
            kind in 0_u8..24, bytes in proptest::collection::vec(0_u8..4, 0..120)
        ) {
            let bytes = [&[kind], &bytes[..]].concat();
            if let Ok(message) = decoded::<ToEngine>(&bytes) {
                prop_assert_eq!(&encoded(&message), &bytes);
            }
            if let Ok(message) = decoded::<FromEngine>(&bytes) {
                prop_assert_eq!(&encoded(&message), &bytes);
            }
        }
    }
}
