//! The messages between the supervisor, the engines' children and operators.

use everwarp_process::Pid;

use crate::protocol::Row;
use crate::wire::codec::wire;

wire! {
    /// A message from the supervisor to the child of an engine.
    enum ToChild {
        /// A client that has been greeted up to the welcome. Its socket is the descriptor.
        Client = 1 { os_pid: u32, version: u32, },
        /// A question of an operator.
        Ask = 2 { number: u32, question: Question, },
    }

    /// A message from the child of an engine to the supervisor.
    enum FromChild {
        /// The engine serves clients now.
        Ready = 1 { device: String, },
        /// The engine cannot be started on this machine.
        Failed = 2 { reason: String, },
        /// How many clients there are, after each change.
        Clients = 3 { count: u32, },
        /// A part of the answer to a question; the last one is [`Answer::End`].
        Answer = 4 { number: u32, answer: Answer, },
    }

    /// What an operator asks.
    enum Question {
        /// Which clients are there, with up to `limit` processes of each.
        List = 1 { limit: u32, },
        /// End a process of the client with this process id.
        Kill = 2 { client: u32, pid: Pid, },
        /// What the service and its engines do.
        Status = 3,
        /// End: at once, or when the last client has gone.
        Down = 4 { now: bool, },
    }

    /// A part of an answer.
    enum Answer {
        Client = 1 { client: ClientHead, },
        /// Processes of the client that came last, with their numbers in the client's requests.
        Rows = 2 { rows: Vec<(Row, Option<u32>)>, },
        Killed = 3 { found: bool, },
        Refused = 4 { reason: String, },
        Status = 5 { status: StatusHead, },
        Engine = 6 { engine: EngineHead, },
        /// There is nothing more.
        End = 7,
    }

    /// One client.
    struct ClientHead {
        os_pid: u32,
        cuda: bool,
        program: String,
        age_ms: u64,
        waiting: u64,
        running: u64,
        ended: u64,
    }

    /// The service as a whole.
    struct StatusHead {
        os_pid: u32,
        version: String,
        age_ms: u64,
        stopping: bool,
        idle_exit_ms: Option<u64>,
    }

    /// One engine.
    struct EngineHead {
        cuda: bool,
        /// 0: not started; 1: starting; 2: ready; 3: failed.
        state: u8,
        os_pid: Option<u32>,
        device: String,
        clients: u32,
        /// How often it was started.
        starts: u32,
        reason: String,
    }
}
