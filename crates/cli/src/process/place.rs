//! Where the processes of a command run: in the service, or on an engine of the command's own.

use std::fs::File;

use everwarp::process::{Host, HostBuilder, InputLines, read_lines};
use everwarp::trace::spanned;
use everwarp::{Device, EngineKind, Select, Service, cuda_device_count};

use super::options::Args;
use super::plan::not_on;
use crate::error::CliError;

/// Where processes run.
pub(super) enum Place {
    /// On a device, by an engine that this command starts.
    Own(Device),
    /// On an NVIDIA GPU, which is opened when the engine starts.
    Gpu,
    /// In the service that is up.
    Service(Service),
}

/// Whether the command is for many processes. One process is faster on a core, because a lane of a GPU is many times
/// slower; only many lanes are fast together.
fn many(args: &Args) -> bool {
    has_many(args, 1)
}

/// Whether the command may be for more processes than that.
fn has_many(args: &Args, most: u32) -> bool {
    match args.process.instances() {
        Some(instances) => instances > most,
        None => args.process.stdin_lines.is_some(),
    }
}

/// What the command line asks for.
fn select(args: &Args) -> Result<Select, CliError> {
    if args.adapter.is_some() {
        return Err(CliError::AdapterWithoutWgpu);
    }
    match args.engine.parse()? {
        Select::Wgpu => Err(CliError::NoProcesses),
        // Only the CPU engine has this option, so there is no need to look for a GPU.
        Select::Cuda if args.size.is_some() => Err(not_on("--size", EngineKind::Cuda)),
        Select::Auto if !many(args) || args.size.is_some() => Ok(Select::Cpu),
        select => Ok(select),
    }
}

impl Place {
    /// The service, unless none is up or the command line asks for an engine of its own.
    pub(super) fn in_service(args: &Args) -> Result<Option<Self>, CliError> {
        let select = select(args)?;
        if args.alone {
            return Ok(None);
        }
        let options = &args.process;
        if options.allow_precompiled {
            if args.verbose {
                eprintln!(
                    "everwarp: a service takes no machine code, so this command starts an engine of its own"
                );
            }
            return Ok(None);
        }
        let refused = match () {
            () if options.per_connection => Some("takes no connections yet".to_owned()),
            () if options.events.is_some() && has_many(args, Service::EVENTS_MOST) => {
                let most = Service::EVENTS_MOST;
                Some(format!("gives events to {most} processes at most"))
            }
            () => None,
        };
        if let Some(refused) = refused {
            if args.verbose {
                eprintln!(
                    "everwarp: a service {refused}, so this command starts an engine of its own"
                );
            }
            return Ok(None);
        }
        match Service::connect(select) {
            Ok(Some(service)) => {
                if args.verbose {
                    let (kind, os_pid) = (service.kind(), service.os_pid());
                    eprintln!(
                        "everwarp: the service runs this on its {kind} engine, process {os_pid}"
                    );
                }
                Ok(Some(Self::Service(service.program(&args.program))))
            }
            Ok(None) => {
                if args.verbose {
                    eprintln!(
                        "everwarp: no service is up, so this command starts an engine of its own"
                    );
                }
                Ok(None)
            }
            // Where no socket can be, no service is.
            Err(error) if error.is_folder() => Ok(None),
            Err(error) => Err(CliError::Service(error)),
        }
    }

    /// A device for an engine of the command's own.
    pub(super) fn own(args: &Args) -> Result<Self, CliError> {
        match select(args)? {
            Select::Cuda => Ok(Self::Gpu),
            Select::Auto if cuda_device_count().is_ok_and(|n| n > 0) => Ok(Self::Gpu),
            Select::Auto => Ok(Self::Own(Device::open(Select::Cpu)?)),
            select => Ok(Self::Own(Device::open(select)?)),
        }
    }

    /// Goes to the CPU engine for a single process, unless a GPU was asked for. Returns whether the place has changed.
    pub(super) fn move_to_cpu(&mut self, args: &Args) -> Result<bool, CliError> {
        let asked = args.engine.parse::<Select>()? == Select::Cuda;
        if asked || self.kind() == EngineKind::Cpu {
            return Ok(false);
        }
        *self = match self {
            Self::Own(_) | Self::Gpu => Self::Own(Device::open(Select::Cpu)?),
            Self::Service(_) => match Service::connect(Select::Cpu).map_err(CliError::Service)? {
                Some(service) => Self::Service(service.program(&args.program)),
                None => Self::Own(Device::open(Select::Cpu)?),
            },
        };
        Ok(true)
    }

    pub(super) fn kind(&self) -> EngineKind {
        match self {
            Self::Own(device) => device.kind(),
            Self::Gpu => EngineKind::Cuda,
            Self::Service(service) => service.kind(),
        }
    }

    /// Prepares a host.
    pub(super) fn host(&self) -> HostBuilder<'_> {
        match self {
            // The command shows its processes itself, with their numbers.
            Self::Own(device) => Host::builder(device).shown(false),
            Self::Gpu => Host::builder_opening(Select::Cuda).shown(false),
            Self::Service(service) => service.host(),
        }
    }

    /// Opens the device if it is not open yet: what is read for its processes lies in memory that it can reach.
    pub(super) fn open(&mut self) -> Result<(), CliError> {
        if matches!(self, Self::Gpu) {
            *self = Self::Own(spanned("device: open", || Device::open(Select::Cuda))?);
        }
        Ok(())
    }

    /// Reads the lines of a file for processes of the next host, whose device is open.
    pub(super) fn lines(&self, file: File) -> std::io::Result<InputLines> {
        match self {
            Self::Own(device) => read_lines(file, device),
            Self::Gpu => Err(std::io::ErrorKind::NotConnected.into()),
            Self::Service(service) => service.lines(&file),
        }
    }
}
