//! The operator's side: what `ps`, `kill`, `status` and `down` ask the service.

use std::sync::Arc;

use everwarp_engine::EngineKind;
use everwarp_process::{HostError, Pid, ProcessSnapshot};
use everwarp_telemetry::control::Folder;

use crate::connect::{ConnectError, Connected, connect_in};
use crate::control::{Answer, Question};
use crate::convert::kind_of;
use crate::hello::{Purpose, Wanted};
use crate::protocol::body;
use crate::wire::codec::decoded;
use crate::wire::socket::{FrameReceiver, FrameSender};

/// A process of a client.
#[derive(Clone, Debug)]
pub struct ClientRow {
    /// The process.
    pub process: ProcessSnapshot,
    /// Its number in the client's request; `None` if another process spawned it.
    pub number: Option<u32>,
}

/// A client of the service, as it was at one moment.
#[derive(Clone, Debug)]
pub struct ClientSnapshot {
    /// The client's process id.
    pub os_pid: u32,
    /// The engine that runs its processes.
    pub kind: EngineKind,
    /// What it calls its program.
    pub program: String,
    /// Milliseconds since it has connected.
    pub age_ms: u64,
    /// How many of its processes have not started.
    pub waiting: u64,
    /// How many have started and not exited.
    pub running: u64,
    /// How many have exited and have not been waited for.
    pub ended: u64,
    /// Its processes, up to the limit.
    pub rows: Vec<ClientRow>,
}

/// What an engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// It is started when a client asks for it.
    NotStarted,
    /// It is being started.
    Starting,
    /// It serves clients.
    Ready,
    /// It could not be started.
    Failed,
}

/// An engine of the service.
#[derive(Clone, Debug)]
pub struct EngineStatus {
    /// Its kind.
    pub kind: EngineKind,
    /// What it does.
    pub state: EngineState,
    /// The process id of its child.
    pub os_pid: Option<u32>,
    /// The name of its device.
    pub device: String,
    /// How many clients it serves.
    pub clients: u32,
    /// How often it was started.
    pub starts: u32,
    /// Why it could not be started, or ended last; empty if neither has happened.
    pub reason: String,
}

/// The service.
#[derive(Clone, Debug)]
pub struct ServiceStatus {
    /// The process id of its supervisor.
    pub os_pid: u32,
    /// Its version.
    pub version: String,
    /// Milliseconds since it has started.
    pub age_ms: u64,
    /// Whether it ends when its last client has gone.
    pub stopping: bool,
    /// Milliseconds without clients after which it ends.
    pub idle_exit_ms: Option<u64>,
    /// Its engines.
    pub engines: Vec<EngineStatus>,
}

/// A connection of an operator.
#[derive(Debug)]
pub struct Operator {
    sender: FrameSender,
    receiver: FrameReceiver,
    /// The process id of the supervisor.
    pub os_pid: u32,
}

fn lost(reason: &str) -> HostError {
    HostError::Lost {
        reason: reason.to_owned(),
    }
}

impl Operator {
    /// Connects to the service of a folder; `None` if none is up.
    ///
    /// # Errors
    /// A service is up and cannot be used.
    pub fn connect(folder: &Folder) -> Result<Option<Self>, ConnectError> {
        let connected = connect_in(folder, Purpose::Operator, Wanted::Any)?;
        Ok(connected.map(|Connected { socket, os_pid, .. }| {
            let socket = Arc::new(socket);
            Self {
                sender: FrameSender::new(Arc::clone(&socket)),
                receiver: FrameReceiver::new(socket),
                os_pid,
            }
        }))
    }

    fn ask(
        &mut self,
        question: &Question,
        mut each: impl FnMut(Answer) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        let failed = |error: std::io::Error| lost(&error.to_string());
        self.sender.send(&body(question), &[]).map_err(failed)?;
        loop {
            let frame = self.receiver.receive().map_err(failed)?;
            let frame = frame.ok_or_else(|| lost("the service has closed the connection"))?;
            match decoded(&frame.body).map_err(|error| lost(&error.to_string()))? {
                Answer::End => return Ok(()),
                Answer::Refused { reason } => return Err(HostError::Engine { reason }),
                answer => each(answer)?,
            }
        }
    }

    /// The clients, with up to `limit` processes of each.
    ///
    /// # Errors
    /// The service has ended.
    pub fn list(&mut self, limit: u32) -> Result<Vec<ClientSnapshot>, HostError> {
        let mut clients = Vec::<ClientSnapshot>::new();
        self.ask(&Question::List { limit }, |answer| {
            match answer {
                Answer::Client { client } => clients.push(ClientSnapshot {
                    os_pid: client.os_pid,
                    kind: kind_of(client.cuda),
                    program: client.program,
                    age_ms: client.age_ms,
                    waiting: client.waiting,
                    running: client.running,
                    ended: client.ended,
                    rows: Vec::new(),
                }),
                Answer::Rows { rows } => {
                    let client = clients.last_mut();
                    let client = client.ok_or_else(|| lost("rows without a client"))?;
                    let rows = rows.into_iter().map(|(row, number)| ClientRow {
                        process: row.into(),
                        number,
                    });
                    client.rows.extend(rows);
                }
                _ => return Err(lost("another answer")),
            }
            Ok(())
        })?;
        Ok(clients)
    }

    /// Asks a process of a client to end; `false` if there is none with this pid.
    ///
    /// # Errors
    /// The service has ended, or has no such client.
    pub fn kill(&mut self, client: u32, pid: Pid) -> Result<bool, HostError> {
        let mut killed = false;
        self.ask(&Question::Kill { client, pid }, |answer| match answer {
            Answer::Killed { found } => {
                killed |= found;
                Ok(())
            }
            _ => Err(lost("another answer")),
        })?;
        Ok(killed)
    }

    /// What the service and its engines do.
    ///
    /// # Errors
    /// The service has ended.
    pub fn status(&mut self) -> Result<ServiceStatus, HostError> {
        let mut status = None;
        self.ask(&Question::Status, |answer| {
            match answer {
                Answer::Status { status: head } => {
                    status = Some(ServiceStatus {
                        os_pid: head.os_pid,
                        version: head.version,
                        age_ms: head.age_ms,
                        stopping: head.stopping,
                        idle_exit_ms: head.idle_exit_ms,
                        engines: Vec::new(),
                    });
                }
                Answer::Engine { engine } => {
                    let status = status.as_mut();
                    let status = status.ok_or_else(|| lost("an engine without a service"))?;
                    status.engines.push(EngineStatus {
                        kind: kind_of(engine.cuda),
                        state: match engine.state {
                            0 => EngineState::NotStarted,
                            1 => EngineState::Starting,
                            2 => EngineState::Ready,
                            _ => EngineState::Failed,
                        },
                        os_pid: engine.os_pid,
                        device: engine.device,
                        clients: engine.clients,
                        starts: engine.starts,
                        reason: engine.reason,
                    });
                }
                _ => return Err(lost("another answer")),
            }
            Ok(())
        })?;
        status.ok_or_else(|| lost("no status"))
    }

    /// Asks the service to end, when its last client has gone or at once, and waits until it has let go of its socket.
    ///
    /// # Errors
    /// The service has ended meanwhile.
    pub fn down(&mut self, now: bool) -> Result<(), HostError> {
        self.ask(&Question::Down { now }, |_| Ok(()))
    }
}
