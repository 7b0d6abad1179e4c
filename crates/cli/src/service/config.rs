//! The service's configuration file: `service.toml` in the user's folder for configurations.

use std::path::{Path, PathBuf};
use std::time::Duration;

use everwarp_service::Quotas;
use serde::{Deserialize, Serialize};

use super::UpError;
use super::up::duration;

/// What the file may say. The command line overrides it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// The engines: `cpu`, `cuda`.
    pub(super) engines: Option<Vec<String>>,
    pub(super) lazy: Option<bool>,
    pub(super) idle_exit: Option<String>,
    pub(super) log: Option<String>,
    /// A folder whose modules are loaded ahead.
    pub(super) modules: Option<PathBuf>,
    #[serde(default)]
    pub(super) quota: QuotaConfig,
}

/// What each client may use.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process_memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capture_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sockets: Option<u32>,
}

impl QuotaConfig {
    /// The quotas, with the usual ones where the file says nothing.
    pub(super) fn quotas(&self) -> Quotas {
        let usual = Quotas::default();
        Quotas {
            clients: self.clients.unwrap_or(usual.clients),
            processes: self.processes.unwrap_or(usual.processes),
            process_memory: self.process_memory.or(usual.process_memory),
            input_bytes: self.input_bytes.unwrap_or(usual.input_bytes),
            capture_bytes: self.capture_bytes.unwrap_or(usual.capture_bytes),
            memory: self.memory.or(usual.memory),
            output_bytes: self.output_bytes.unwrap_or(usual.output_bytes),
            sockets: self.sockets.unwrap_or(usual.sockets),
        }
    }
}

/// The place of the file.
fn usual_path() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let given = given.filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
    Some(given.or_else(home)?.join("everwarp/service.toml"))
}

impl Config {
    /// Reads the file that was given, or the usual one if it exists.
    pub(super) fn read(given: Option<&Path>) -> Result<Self, UpError> {
        let (path, must_exist) = match given {
            Some(path) => (path.to_owned(), true),
            None => match usual_path() {
                Some(path) => (path, false),
                None => return Ok(Self::default()),
            },
        };
        let text = match std::fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !must_exist => {
                return Ok(Self::default());
            }
            text => text.map_err(|source| UpError::System {
                what: path.display().to_string(),
                source,
            })?,
        };
        Self::parse(&text).map_err(|reason| UpError::Config { path, reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for engine in config.engines.iter().flatten() {
            if !["cpu", "cuda"].contains(&engine.as_str()) {
                return Err(format!("`{engine}` is no engine: use cpu or cuda"));
            }
        }
        config.idle_exit().map_err(|error| error.to_string())?;
        Ok(config)
    }

    /// The time without clients after which the service ends.
    pub(super) fn idle_exit(&self) -> Result<Option<Duration>, UpError> {
        self.idle_exit.as_deref().map(duration).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_read_and_unknown_ones_are_refused() {
        let config = Config::parse(
            "engines = ['cpu']\nlazy = true\nidle_exit = '10m'\nlog = 'debug'\nmodules = '/m'\n\
             [quota]\nclients = 3\nprocesses = 4\nprocess_memory = 5\ninput_bytes = 6\ncapture_bytes = 7\nmemory = 8\n\
             output_bytes = 9\nsockets = 10\n",
        );
        let config = config.expect("it is right");
        assert_eq!(config.engines.as_deref(), Some(&["cpu".to_owned()][..]));
        let idle = config.idle_exit().expect("it is a duration");
        assert_eq!(idle, Some(Duration::from_secs(600)));
        assert_eq!(config.quota.quotas().processes, 4);
        let quotas = config.quota.quotas();
        assert_eq!((quotas.process_memory, quotas.memory), (Some(5), Some(8)));
        assert_eq!((quotas.output_bytes, quotas.sockets), (9, 10));
        let usual = Config::parse("").expect("it may be empty");
        assert_eq!(usual.quota.quotas(), Quotas::default());
        for (text, says) in [
            ("engine = ['cpu']", "unknown field `engine`"),
            ("engines = ['abacus']", "`abacus` is no engine"),
            ("idle_exit = '1d'", "`1d` is no duration"),
            ("[quota]\nprocesses = -1", "invalid value"),
        ] {
            let error = Config::parse(text).expect_err(text);
            assert!(error.contains(says), "{error}");
        }
    }
}
