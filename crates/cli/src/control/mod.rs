//! Other programs of the same user that have engines: how commands find them and what they ask. The service answers for
//! its clients; each other program with an engine has a socket, which `everwarp-telemetry` serves.

mod served;

use everwarp_telemetry::control::{Answer, Request, ask, engines};
pub(crate) use everwarp_telemetry::control::{Folder, Socket, socket};
use everwarp_telemetry::view::ProgramView;
pub(crate) use served::ServedClients;

/// Why a running engine could not be reached.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub(crate) enum ControlError {
    #[error(transparent)]
    #[diagnostic(help("remove the folder, or set XDG_RUNTIME_DIR to one that only you can use"))]
    Folder(everwarp_telemetry::control::ControlError),
    #[error(transparent)]
    Program(everwarp_telemetry::control::ControlError),
    #[error("no engine runs")]
    #[diagnostic(help(
        "`everwarp run`, the service (`everwarp up`) and each program that uses the library have engines as long as they run"
    ))]
    NoEngine,
    #[error("there is no engine {engine}; the running engines are {known}")]
    #[diagnostic(help("see `everwarp ps`"))]
    UnknownEngine { engine: u32, known: String },
    #[error("several engines run: {known}")]
    #[diagnostic(help("choose one with --engine N"))]
    WhichEngine { known: String },
    #[error("engine {engine} answered another request")]
    #[diagnostic(help("stop it, and use the same version of everwarp for both programs"))]
    OtherAnswer { engine: u32 },
    #[error("the service does not answer: {reason}")]
    Service { reason: String },
    #[error("no engine has actors")]
    #[diagnostic(help("`everwarp top` shows what the engines have"))]
    NoActors,
    #[error("several systems of actors are there, in the programs {known}")]
    #[diagnostic(help("choose one with --engine N and --system N; `everwarp actors` lists them"))]
    WhichSystem { known: String },
    #[error("program {engine} has no actor {id}")]
    #[diagnostic(help("it has ended, or never existed; see `everwarp actors`"))]
    NoActor { engine: u32, id: String },
    #[error("engine {engine} has no process {pid}")]
    #[diagnostic(help("it has exited, or never existed; see `everwarp ps --all`"))]
    NoProcess { engine: u32, pid: String },
}

impl From<everwarp_telemetry::control::ControlError> for ControlError {
    fn from(error: everwarp_telemetry::control::ControlError) -> Self {
        use everwarp_telemetry::control::ControlError;
        match error {
            ControlError::Shared { .. } => Self::Folder(error),
            _ => Self::Program(error),
        }
    }
}

/// The process ids of the programs with engines.
pub(crate) fn programs(folder: &Folder) -> Result<Vec<u32>, ControlError> {
    Ok(engines(folder)?)
}

/// Asks a program; `None` if it has ended meanwhile.
pub(crate) fn request(
    folder: &Folder,
    engine: u32,
    request: &Request,
) -> Result<Option<Answer>, ControlError> {
    Ok(ask(folder, engine, request)?)
}

/// What a program shows, with up to `most` processes or actors of each host and system; `None` if it has ended.
pub(crate) fn look(
    folder: &Folder,
    engine: u32,
    most: u32,
) -> Result<Option<ProgramView>, ControlError> {
    match request(folder, engine, &Request::View { most })? {
        None => Ok(None),
        Some(Answer::Program(view)) => Ok(Some(*view)),
        Some(_) => Err(ControlError::OtherAnswer { engine }),
    }
}

/// All programs of this user with engines, and the clients of the service, with up to `most` processes or actors of each.
/// What does not answer is left out.
pub(crate) fn all_programs(most: usize) -> Vec<ProgramView> {
    let folder = Folder::of_user();
    let most = most as u32;
    let numbers = programs(&folder).unwrap_or_default();
    let look = |engine| look(&folder, engine, most).ok().flatten();
    let mut all: Vec<_> = numbers.into_iter().filter_map(look).collect();
    if let Ok(served) = ServedClients::list(&folder, most) {
        let hosts = served
            .numbers()
            .flat_map(|client| served.snapshots(client))
            .collect();
        all.push(ProgramView {
            os_pid: std::process::id(),
            program: "everwarp".to_owned(),
            hosts,
            ..ProgramView::default()
        });
    }
    all
}

/// Numbers in a sentence.
pub(crate) fn list(numbers: &[u32]) -> String {
    let texts: Vec<_> = numbers.iter().map(u32::to_string).collect();
    texts.join(", ")
}

/// The engines that run, or the one that the user chose.
pub(crate) fn chosen(all: Vec<u32>, engine: Option<u32>) -> Result<Vec<u32>, ControlError> {
    match engine {
        None => Ok(all),
        Some(_) if all.is_empty() => Err(ControlError::NoEngine),
        Some(engine) if !all.contains(&engine) => {
            let known = list(&all);
            Err(ControlError::UnknownEngine { engine, known })
        }
        Some(engine) => Ok(vec![engine]),
    }
}
