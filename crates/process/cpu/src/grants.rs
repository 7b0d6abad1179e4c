//! What processes are given, checked.

use std::sync::Arc;

use bytes::Bytes;
use everwarp_process::net::Launcher;
use everwarp_process::{
    Connection, Directory, Events, Grants, Input, Network, Output, SpawnError, StartWriter, gpu,
};

use crate::channel::{ChannelSide, HostId};
use crate::numbers::SharedListener;

/// What the processes of one call of `spawn` have in common.
#[derive(Clone)]
pub(crate) struct CheckedGrants {
    pub(crate) directories: Arc<[Directory]>,
    pub(crate) listeners: Arc<[SharedListener]>,
    pub(crate) launcher: Option<Arc<dyn Launcher>>,
    pub(crate) network: Option<Arc<Network>>,
    pub(crate) events: Option<Arc<Events>>,
    pub(crate) stdin: Input,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    pub(crate) fuel: Option<u64>,
    pub(crate) handles: Option<u32>,
}

impl CheckedGrants {
    /// Checks what is given, and takes out the channel ends, which each process gets for itself.
    pub(crate) fn check(
        grants: &Grants,
        host: HostId,
    ) -> Result<(Self, Vec<ChannelSide>), SpawnError> {
        if let Some(fuel) = grants.fuel
            && !(1..1 << 63).contains(&fuel)
        {
            return Err(SpawnError::Fuel { fuel });
        }
        let most = gpu::HANDLES as usize;
        if grants.ends.len() > most {
            let ends = grants.ends.len();
            return Err(SpawnError::Ends { ends, most });
        }
        let side = |end: &everwarp_process::ChannelEnd| {
            let side = end.endpoint().as_any().downcast_ref::<ChannelSide>();
            let side = side.filter(|side| side.host() == host);
            side.cloned().ok_or(SpawnError::ForeignEnd)
        };
        let ends = grants.ends.iter().map(side).collect::<Result<_, _>>()?;
        let checked = Self {
            directories: grants.directories.clone().into(),
            launcher: grants.launcher.clone(),
            network: grants.network.clone(),
            events: grants.events.clone(),
            listeners: grants.listeners.iter().map(SharedListener::new).collect(),
            stdin: grants.stdin.clone(),
            stdout: grants.stdout,
            stderr: grants.stderr,
            fuel: grants.fuel,
            handles: grants.handles,
        };
        Ok((checked, ends))
    }
}

/// Arguments and variables, or a standard input, take less than this.
const LENGTH_MOST: usize = 1 << 31;

/// The arguments, variables and standard input of one process.
#[derive(Default)]
pub(crate) struct StartValues {
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: Option<Bytes>,
    /// A connection in the place of standard input and output.
    pub(crate) connection: Option<Connection>,
}

impl StartValues {
    /// Checks that C strings can hold the values, and that their lengths fit WASI's numbers.
    pub(crate) fn check(&self) -> Result<(), SpawnError> {
        let variables = self.env.iter().flat_map(|(name, value)| [name, value]);
        let texts = self.args.iter().chain(variables);
        if let Some(what) = texts.clone().find(|text| text.contains('\0')) {
            return Err(SpawnError::ZeroByte { what: what.clone() });
        }
        // Each text ends with `=` or a zero byte.
        let strings = texts.map(|text| text.len() + 1).sum::<usize>();
        let stdin = self.stdin.as_ref().map_or(0, Bytes::len);
        let bytes = strings.max(stdin);
        match bytes < LENGTH_MOST {
            true => Ok(()),
            false => Err(SpawnError::TooLong { bytes }),
        }
    }
}

impl StartWriter for StartValues {
    fn arg(&mut self, parts: &[&str]) {
        self.args.push(parts.concat());
    }

    fn variable(&mut self, name: &str, parts: &[&str]) {
        self.env.push((name.to_owned(), parts.concat()));
    }

    fn stdin(&mut self, bytes: Bytes) {
        self.stdin = Some(bytes);
    }

    fn connection(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }
}

/// Opens a directory in the namespace of a process: the one whose handle was opened, whatever its path leads to now.
#[cfg(target_os = "linux")]
pub(crate) fn path_of(directory: &Directory) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", directory.handle().as_raw_fd()).into()
}

/// wasmtime's WASI opens directories by path only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn path_of(directory: &Directory) -> std::path::PathBuf {
    directory.path().to_owned()
}
