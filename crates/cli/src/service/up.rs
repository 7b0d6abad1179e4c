//! `everwarp up`: the service, in the foreground or in the background.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use everwarp::EngineKind;
use everwarp_service::{
    Folder, Level, Listening, Settings, Stop, StopHandle, set_level, supervise,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{UpError, detach};
use crate::error::CliError;

#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Run in the background, and return when the service accepts clients.
    #[arg(long)]
    detach: bool,
    /// The engines that the service has: cpu, cuda, or both (the default). An engine that cannot be started is left out.
    #[arg(long, value_name = "ENGINE", value_parser = ["cpu", "cuda"])]
    engine: Vec<String>,
    /// Start each engine when the first client asks for it, and not at once.
    #[arg(long)]
    lazy: bool,
    /// End after this time without clients: a number followed by s, m or h.
    #[arg(long, value_name = "TIME")]
    idle_exit: Option<String>,
    /// What is logged: error, warn, info or debug.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: String,
    /// The descriptor that says when the service is ready.
    #[arg(long, hide = true, value_name = "FD")]
    ready_fd: Option<i32>,
}

/// A duration such as `30s`, `10m` or `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, UpError> {
    let wrong = || UpError::Duration {
        text: text.to_owned(),
    };
    let (digits, seconds) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

impl UpArgs {
    fn engines(&self) -> Vec<EngineKind> {
        let wanted = |name: &str| self.engine.is_empty() || self.engine.iter().any(|e| e == name);
        let all = [(EngineKind::Cpu, "cpu"), (EngineKind::Cuda, "cuda")];
        let all = all.into_iter().filter(|(_, name)| wanted(name));
        all.map(|(kind, _)| kind).collect()
    }

    fn level(&self) -> Result<Level, UpError> {
        Level::of(&self.log).ok_or_else(|| UpError::Level {
            text: self.log.clone(),
        })
    }

    /// The words of the same command in the foreground.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["up".into()];
        for engine in &self.engine {
            words.extend(["--engine".into(), engine.into()]);
        }
        if self.lazy {
            words.push("--lazy".into());
        }
        if let Some(time) = &self.idle_exit {
            words.extend(["--idle-exit".into(), time.into()]);
        }
        words.extend(["--log".into(), (&self.log).into()]);
        words
    }
}

/// `everwarp up`.
pub(crate) fn up(args: UpArgs) -> Result<(), CliError> {
    let idle_exit = args.idle_exit.as_deref().map(duration).transpose()?;
    let level = args.level()?;
    let folder = Folder::of_user();
    if args.detach {
        return Ok(detach::detach(&folder, &args.words())?);
    }
    set_level(level);
    ignore_terminal_output_stop();
    let log = args.log.clone();
    let settings = Settings {
        folder,
        listening: Listening::Folder,
        engines: args.engines(),
        ahead: !args.lazy,
        command: Box::new(move |kind| child(kind, &log)),
        idle_exit,
    };
    let ready_fd = args.ready_fd;
    let mut signals = None;
    let served = supervise(settings, |stop| {
        signals = Some(listen(stop));
        tell_ready(ready_fd);
    });
    served.map_err(UpError::from)?;
    match signals {
        Some(Err(error)) => Err(CliError::Signals(error)),
        _ => Ok(()),
    }
}

/// The command of an engine's child. It is this program, even if its file was replaced meanwhile.
fn child(kind: EngineKind, log: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["engine", "--kind", &kind.to_string(), "--log", log]);
    command
}

/// Lets a service in the background of a terminal log there, even where the terminal stops others that write (`stty
/// tostop`): a service that is stopped would hold up all clients.
fn ignore_terminal_output_stop() {
    // SAFETY: to ignore a signal runs no code, and no other thread has started.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// Ends the service at the first signal.
fn listen(stop: StopHandle) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let listen = move || {
        for _ in signals.forever() {
            stop.stop(Stop::Now);
        }
    };
    let builder = std::thread::Builder::new().name("signals".to_owned());
    builder.spawn(listen).map(drop)
}

/// Tells the command that has started this service in the background.
fn tell_ready(fd: Option<i32>) {
    let Some(fd) = fd.filter(|fd| *fd > 2) else {
        return;
    };
    // SAFETY: the command that has started this one has put a pipe there, and nothing else in this program owns it.
    let pipe = unsafe { OwnedFd::from_raw_fd(fd) };
    // A command that has gone need not know.
    drop(std::fs::File::from(pipe).write_all(detach::READY));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let seconds = |text| duration(text).ok().map(|time| time.as_secs());
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("10m"), Some(600));
        assert_eq!(seconds("2h"), Some(7200));
        for wrong in ["", "s", "10", "-1s", "1d", "99999999999999999999h", "1ä"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
