//! `everwarp status` and `everwarp down`.

use everwarp_service::{EngineState, EngineStatus, Folder, Operator, ServiceStatus};
use serde::Serialize;

use super::UpError;
use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DownArgs {
    /// End at once, and end the processes of all clients. Otherwise the service accepts no further clients, and ends when
    /// the last one has gone.
    #[arg(long)]
    now: bool,
}

/// The output of `status --json`.
#[derive(Debug, Serialize)]
struct StatusReport {
    up: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopping: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_exit_s: Option<f64>,
    engines: Vec<EngineReport>,
}

#[derive(Debug, Serialize)]
struct EngineReport {
    engine: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_pid: Option<u32>,
    device: String,
    clients: u32,
    starts: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

fn state(state: EngineState) -> &'static str {
    match state {
        EngineState::NotStarted => "not started",
        EngineState::Starting => "starting",
        EngineState::Ready => "ready",
        EngineState::Failed => "failed",
    }
}

fn engine_report(engine: EngineStatus) -> EngineReport {
    EngineReport {
        engine: engine.kind.to_string(),
        state: state(engine.state),
        os_pid: engine.os_pid,
        device: engine.device,
        clients: engine.clients,
        starts: engine.starts,
        reason: engine.reason,
    }
}

fn report(status: Option<ServiceStatus>) -> StatusReport {
    let Some(status) = status else {
        return StatusReport {
            up: false,
            os_pid: None,
            version: None,
            age_s: None,
            stopping: None,
            idle_exit_s: None,
            engines: Vec::new(),
        };
    };
    StatusReport {
        up: true,
        os_pid: Some(status.os_pid),
        version: Some(status.version),
        age_s: Some(status.age_ms as f64 / 1e3),
        stopping: Some(status.stopping),
        idle_exit_s: status.idle_exit_ms.map(|ms| ms as f64 / 1e3),
        engines: status.engines.into_iter().map(engine_report).collect(),
    }
}

fn describe(report: &StatusReport) -> String {
    let Some((os_pid, age)) = report.os_pid.zip(report.age_s) else {
        return "no service is up".to_owned();
    };
    let version = report.version.as_deref().unwrap_or_default();
    let mut text = format!("service {os_pid}: version {version}, up for {age:.1} s");
    if report.stopping == Some(true) {
        text += ", ends when its last client has gone";
    }
    if let Some(idle) = report.idle_exit_s {
        text += &format!(", ends after {idle:.0} s without clients");
    }
    for engine in &report.engines {
        text += &format!("\n{}: {}", engine.engine, engine.state);
        if !engine.device.is_empty() {
            text += &format!(" on {}", engine.device);
        }
        if let Some(os_pid) = engine.os_pid {
            text += &format!(", process {os_pid}, clients: {}", engine.clients);
        }
        if !engine.reason.is_empty() {
            text += &format!(" ({})", engine.reason);
        }
    }
    text
}

fn operator() -> Result<Option<Operator>, UpError> {
    Ok(Operator::connect(&Folder::of_user())?)
}

/// `everwarp status`.
pub(crate) fn status(args: &StatusArgs) -> Result<(), CliError> {
    let status = operator()?.map(|mut operator| operator.status());
    let status = status.transpose().map_err(UpError::Silent)?;
    let report = report(status);
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

/// `everwarp down`.
pub(crate) fn down(args: &DownArgs) -> Result<(), CliError> {
    let mut operator = operator()?.ok_or(UpError::Down)?;
    Ok(operator.down(args.now).map_err(UpError::Silent)?)
}
