//! `everwarp up`: the service, in the foreground or in the background.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everwarp::EngineKind;
use everwarp_service::{
    Folder, Level, Listening, Settings, Stop, StopHandle, set_level, supervise,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::config::Config;
use super::engine::{EngineSettings, child};
use super::{UpError, detach, notify};
use crate::control::all_programs;
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
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// A folder whose modules (*.wasm) are compiled ahead.
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Serve metrics of all engines of the user at this address: ADDRESS:PORT/metrics (OpenMetrics) and
    /// ADDRESS:PORT/health (JSON). The engines of the service measure times then.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// The configuration file, instead of everwarp/service.toml in the folder for configurations.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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

/// The settings of the command line and of the configuration file.
struct Chosen {
    engines: Vec<EngineKind>,
    lazy: bool,
    idle_exit: Option<Duration>,
    level: Level,
    engine: EngineSettings,
}

impl UpArgs {
    fn choose(&self) -> Result<Chosen, UpError> {
        let config = Config::read(self.config.as_deref())?;
        let named = match self.engine.is_empty() {
            true => config.engines.clone().unwrap_or_default(),
            false => self.engine.clone(),
        };
        let wanted = |name: &str| named.is_empty() || named.iter().any(|e| e == name);
        let all = [(EngineKind::Cpu, "cpu"), (EngineKind::Cuda, "cuda")];
        let engines = all.into_iter().filter(|(_, name)| wanted(name));
        let log = self.log.as_ref().or(config.log.as_ref());
        let level = log.map_or(Ok(Level::Info), |text| {
            Level::of(text).ok_or_else(|| UpError::Level { text: text.clone() })
        })?;
        let idle_exit = match &self.idle_exit {
            Some(text) => Some(duration(text)?),
            None => config.idle_exit()?,
        };
        let modules = self.modules.clone().or(config.modules);
        if let Some(path) = modules.clone().filter(|path| !path.is_dir()) {
            return Err(UpError::NoModules { path });
        }
        Ok(Chosen {
            engines: engines.map(|(kind, _)| kind).collect(),
            lazy: self.lazy || config.lazy.unwrap_or(false),
            idle_exit,
            level,
            engine: EngineSettings {
                log: level.name().to_owned(),
                modules,
                quota: config.quota,
            },
        })
    }

    /// The words of the same command in the foreground, where paths mean the same in any folder.
    fn words(&self) -> Result<Vec<OsString>, UpError> {
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
        if let Some(log) = &self.log {
            words.extend(["--log".into(), log.into()]);
        }
        if let Some(address) = &self.metrics {
            words.extend(["--metrics".into(), address.to_string().into()]);
        }
        for (option, path) in [("--modules", &self.modules), ("--config", &self.config)] {
            let Some(path) = path else { continue };
            let path = std::path::absolute(path).map_err(|source| UpError::System {
                what: path.display().to_string(),
                source,
            })?;
            words.extend([option.into(), path.into()]);
        }
        Ok(words)
    }
}

/// `everwarp up`.
pub(crate) fn up(args: UpArgs) -> Result<(), CliError> {
    let chosen = args.choose()?;
    let folder = Folder::of_user();
    if args.detach {
        return Ok(detach::detach(&folder, &args.words()?)?);
    }
    set_level(chosen.level);
    ignore_terminal_output_stop();
    let serve = |address| everwarp_telemetry::metrics::serve_views(address, Arc::new(all_programs));
    let _metrics = args
        .metrics
        .map(serve)
        .transpose()
        .map_err(CliError::Metrics)?;
    let measures = args.metrics.is_some();
    let engine = chosen.engine;
    let settings = Settings {
        folder,
        listening: notify::passed_socket().map_or(Listening::Folder, Listening::Given),
        engines: chosen.engines,
        ahead: !chosen.lazy,
        command: Box::new(move |kind| {
            let mut command = child(kind, &engine, false);
            if measures {
                command.env(everwarp_telemetry::VARIABLE, "on");
            }
            command
        }),
        idle_exit: chosen.idle_exit,
    };
    let ready_fd = args.ready_fd;
    let mut signals = None;
    let served = supervise(settings, |stop| {
        signals = Some(listen(stop));
        tell_ready(ready_fd);
        notify::tell_ready();
    });
    served.map_err(UpError::from)?;
    match signals {
        Some(Err(error)) => Err(CliError::Signals(error)),
        _ => Ok(()),
    }
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
