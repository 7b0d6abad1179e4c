//! A native program in the service: the client's request and the service's reply, and the files that go with it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use everwarp::{Device, Select, Service};
use everwarp_programs::{
    OUTPUT, OptionKind, OptionValue, OptionValues, ProgramOption, Registered, find,
};
use everwarp_service::Cancellation;
use miette::Diagnostic;
use serde::{Deserialize, Serialize};

use super::native::{Ran, Report, run as run_here, spin};
use super::options::NativeOptions;
use crate::error::{CliError, Printed};
use crate::output::ResultFile;

/// What a client asks for. The files of options come with it, in the order of the options, and then the file for the
/// result.
#[derive(Debug, Serialize, Deserialize)]
struct NativeRequest {
    program: String,
    size: Option<u32>,
    verify: bool,
    /// The options with their values as text; none for a switch.
    options: Vec<(String, Option<String>)>,
    writes: bool,
}

/// What the service replies.
#[derive(Debug, Serialize, Deserialize)]
enum NativeAnswer {
    Ran {
        report: Report,
        wrong: Option<String>,
    },
    Failed(RemoteError),
}

/// An error of the service's run, as it is printed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RemoteError {
    message: String,
    help: Option<String>,
    cause: Option<String>,
    exit_code: u8,
}

impl RemoteError {
    fn of(error: CliError) -> Self {
        let exit_code = error.exit_code();
        let printed = Printed(error);
        Self {
            message: printed.to_string(),
            help: printed.help().map(|help| help.to_string()),
            cause: std::error::Error::source(&printed).map(ToString::to_string),
            exit_code,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

impl std::fmt::Display for RemoteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// The cause of an error, as text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RemoteCause(String);

/// An error of a run in the service.
#[derive(Debug)]
pub(crate) struct RunError {
    error: RemoteError,
    cause: Option<RemoteCause>,
}

impl RunError {
    pub(crate) fn exit_code(&self) -> u8 {
        self.error.exit_code()
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl Diagnostic for RunError {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let help = self.error.help.as_ref();
        help.map(|help| Box::new(help) as Box<dyn std::fmt::Display>)
    }
}

impl From<RemoteError> for RunError {
    fn from(mut error: RemoteError) -> Self {
        let cause = error.cause.take().map(RemoteCause);
        Self { error, cause }
    }
}

/// Runs a program in the service; `None` if none is up or the command line asks for an engine of its own.
pub(super) fn run(
    program: &'static dyn Registered,
    options: &NativeOptions,
    select: Select,
) -> Result<Option<Ran>, CliError> {
    if options.engine.alone || select == Select::Wgpu {
        return Ok(None);
    }
    let mut request = NativeRequest {
        program: program.name().to_owned(),
        size: options.engine.size,
        verify: options.verify,
        options: Vec::new(),
        writes: false,
    };
    let mut files = Vec::<File>::new();
    for option in program.options() {
        let given = options
            .values
            .given()
            .find(|(flag, _)| *flag == option.flag);
        let Some((flag, value)) = given.filter(|(flag, _)| *flag != OUTPUT.flag) else {
            continue;
        };
        let text = match value {
            OptionValue::Given => None,
            OptionValue::Number(number) => Some(number.to_string()),
            OptionValue::Text(text) => Some(text.clone()),
            OptionValue::File(path) => {
                // A file that cannot be opened is an error of the run without the service, in the same words.
                let Ok(file) = File::open(path) else {
                    return Ok(None);
                };
                files.push(file);
                Some(path.to_string_lossy().into_owned())
            }
        };
        request.options.push((flag.to_owned(), text));
    }
    let service = match Service::connect(select) {
        Ok(Some(service)) => service.program(program.name()),
        Err(error) if !error.is_folder() => return Err(CliError::Service(error)),
        Ok(None) | Err(_) => {
            if options.engine.verbose {
                eprintln!(
                    "everwarp: no service is up, so this command starts an engine of its own"
                );
            }
            return Ok(None);
        }
    };
    if options.engine.verbose {
        let (kind, os_pid) = (service.kind(), service.os_pid());
        eprintln!("everwarp: the service runs this on its {kind} engine, process {os_pid}");
    }
    let result = options.values.file(&OUTPUT).map(ResultFile::create);
    let result = result.transpose()?;
    request.writes = result.is_some();
    let mut passed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    passed.extend(result.as_ref().map(|result| result.file().as_fd()));
    let body = serde_json::to_vec(&request).expect("numbers and strings are always JSON");
    let running = format!("running {}", program.name());
    let reply = spin(&running, || service.native(body, &passed))?;
    let answer = serde_json::from_slice(&reply).map_err(|error| {
        CliError::Host(everwarp::process::HostError::Lost {
            reason: format!("the service sent what is no answer: {error}"),
        })
    })?;
    match answer {
        NativeAnswer::Failed(error) => Err(CliError::Run(error.into())),
        NativeAnswer::Ran { report, wrong } => {
            if let Some(result) = result.filter(|_| wrong.is_none()) {
                result.keep()?;
            }
            Ok(Some(Ran { report, wrong }))
        }
    }
}

/// Runs the request of a client, in the service.
pub(crate) fn serve(
    device: &Device,
    body: &[u8],
    files: Vec<OwnedFd>,
    cancellation: &Cancellation,
) -> Vec<u8> {
    let answer = match serve_request(device, body, files, cancellation) {
        Ok(Ran { report, wrong }) => NativeAnswer::Ran { report, wrong },
        Err(error) => NativeAnswer::Failed(RemoteError::of(error)),
    };
    serde_json::to_vec(&answer).expect("numbers and strings are always JSON")
}

fn garbled(what: &str) -> CliError {
    CliError::Request {
        what: what.to_owned(),
    }
}

/// The value of an option, with its file if it has one.
fn set(
    values: &mut OptionValues,
    option: &'static ProgramOption,
    text: Option<&str>,
    files: &mut impl Iterator<Item = OwnedFd>,
) -> Result<(), CliError> {
    let value = match (&option.kind, text) {
        (OptionKind::Switch, None) => OptionValue::Given,
        (OptionKind::Switch, Some(_)) | (_, None) => return Err(garbled(option.flag)),
        (_, Some(text)) => option.parse(text).map_err(|error| garbled(&error))?,
    };
    if matches!(option.kind, OptionKind::File) {
        let file = files.next().ok_or_else(|| garbled("a missing file"))?;
        values.set_open(option, file.into());
    }
    values.set(option, value);
    Ok(())
}

/// Runs the request of a client on a device that may not have been opened.
pub(crate) fn serve_on(
    device: Result<Device, everwarp::Error>,
    body: &[u8],
    files: Vec<OwnedFd>,
) -> Vec<u8> {
    match device {
        Ok(device) => serve(&device, body, files, &Cancellation::default()),
        Err(error) => {
            let answer = NativeAnswer::Failed(RemoteError::of(error.into()));
            serde_json::to_vec(&answer).expect("numbers and strings are always JSON")
        }
    }
}

fn serve_request(
    device: &Device,
    body: &[u8],
    files: Vec<OwnedFd>,
    cancellation: &Cancellation,
) -> Result<Ran, CliError> {
    let request: NativeRequest =
        serde_json::from_slice(body).map_err(|error| garbled(&error.to_string()))?;
    let program = find(&request.program).ok_or_else(|| garbled("an unknown program"))?;
    let mut values = OptionValues::default();
    let mut files = files.into_iter();
    for (flag, text) in &request.options {
        let option = program
            .option(flag)
            .filter(|option| option.flag != OUTPUT.flag);
        let option = option.ok_or_else(|| garbled("an unknown option"))?;
        set(&mut values, option, text.as_deref(), &mut files)?;
    }
    let result = files.next().filter(|_| request.writes);
    if request.writes && result.is_none() {
        return Err(garbled("a missing file"));
    }
    run_here(
        program,
        &values,
        request.verify,
        request.size,
        || match cancellation.is_cancelled() {
            // A graph may take long to read.
            true => Err(garbled("a client that has gone")),
            false => Ok(device),
        },
        |engine| {
            let canceller = engine.canceller();
            cancellation.on_cancel(move || canceller.cancel());
        },
        |fill| match result {
            None => Ok(()),
            Some(file) => {
                let mut out = BufWriter::new(File::from(file));
                let written = fill(&mut out).and_then(|()| out.flush());
                written.map_err(|source| CliError::Result { source })
            }
        },
    )
}
