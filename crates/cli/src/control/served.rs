//! The clients of the service, as `ps` and `kill` see them.

use everwarp::process::{HostError, Pid};
use everwarp_service::{ClientRow, ClientSnapshot, Folder, Operator};
use everwarp_telemetry::view::{HostView, ProcessRow};

use super::ControlError;

/// The clients of the service; none if no service is up.
pub(crate) struct ServedClients {
    operator: Option<Operator>,
    clients: Vec<ClientSnapshot>,
}

fn silent(error: &HostError) -> ControlError {
    ControlError::Service {
        reason: error.to_string(),
    }
}

fn row(row: &ClientRow) -> ProcessRow {
    let process = &row.process;
    ProcessRow {
        pid: process.pid.to_string(),
        instance: row.number,
        parent: process.parent.map(|parent| parent.to_string()),
        state: process.stage.to_string(),
        fuel_used: process.fuel_used,
        memory_bytes: process.memory_bytes,
    }
}

fn snapshot(client: &ClientSnapshot) -> HostView {
    let total = client.waiting + client.running + client.ended;
    HostView {
        os_pid: client.os_pid,
        engine: client.kind.to_string(),
        module: client.program.clone(),
        age_s: client.age_ms as f64 / 1e3,
        waiting: client.waiting as usize,
        running: client.running as usize,
        ended: client.ended as usize,
        left_out: (total as usize).saturating_sub(client.rows.len()),
        processes: client.rows.iter().map(row).collect(),
        ..HostView::default()
    }
}

impl ServedClients {
    /// The clients with up to `most` processes of each.
    pub(crate) fn list(folder: &Folder, most: u32) -> Result<Self, ControlError> {
        let operator = Operator::connect(folder).map_err(|error| ControlError::Service {
            reason: error.to_string(),
        });
        let mut operator = match operator {
            Ok(operator) => operator,
            // Where no socket can be, the search for other engines says so.
            Err(_) if folder.exists().is_err() => None,
            Err(error) => return Err(error),
        };
        let clients = match &mut operator {
            Some(operator) => operator.list(most).map_err(|e| silent(&e))?,
            None => Vec::new(),
        };
        Ok(Self { operator, clients })
    }

    /// The process ids of the clients.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.clients.iter().map(|client| client.os_pid)
    }

    /// Whether a program is a client.
    pub(crate) fn has(&self, os_pid: u32) -> bool {
        self.numbers().any(|number| number == os_pid)
    }

    /// The descriptions of a client: one for each of its hosts.
    pub(crate) fn snapshots(&self, os_pid: u32) -> impl Iterator<Item = HostView> {
        let own = self.clients.iter();
        own.filter(move |client| client.os_pid == os_pid)
            .map(snapshot)
    }

    /// Asks a process of a client to end; `false` if there is none with this pid.
    pub(crate) fn kill(&mut self, os_pid: u32, pid: &str) -> Result<bool, ControlError> {
        let (Some(operator), Ok(pid)) = (&mut self.operator, pid.parse::<Pid>()) else {
            return Ok(false);
        };
        operator.kill(os_pid, pid).map_err(|e| silent(&e))
    }
}
