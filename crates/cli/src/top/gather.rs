//! What `everwarp top` looks at: all programs of the user with engines, the clients of the service, and the GPUs.

use everwarp_telemetry::control::{Answer, Request};
use everwarp_telemetry::registry::Order;
use everwarp_telemetry::view::{ActorRow, HostView, ProgramView};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use serde::{Deserialize, Serialize};

use crate::control::{ControlError, Folder, ServedClients, chosen, look, programs, request};

/// All that there is at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// Programs with engines.
    pub(crate) programs: Vec<ProgramView>,
    /// Processes that the service runs for its clients.
    pub(crate) served: Vec<HostView>,
    /// Programs that have engines and did not describe themselves.
    pub(crate) silent: Vec<Silent>,
    /// NVIDIA GPUs.
    pub(crate) gpus: Vec<GpuView>,
}

/// A program that did not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Silent {
    pub(crate) os_pid: u32,
    pub(crate) reason: String,
}

/// A GPU, as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct GpuView {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// Watts.
    pub(crate) power_w: Option<f64>,
    /// The most watts that it may take.
    pub(crate) power_limit_w: Option<f64>,
    /// Bytes of memory in use, by all programs.
    pub(crate) memory_used: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    /// The share of the last second in which a kernel was on it. A resident engine makes this 100.
    pub(crate) busy_percent: Option<u32>,
    pub(crate) temperature_c: Option<u32>,
}

/// What a row of a table stands for, where something can be asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) os_pid: u32,
    /// The source in its program; none for a client of the service.
    pub(crate) source: Option<u32>,
    pub(crate) id: String,
    pub(crate) is_actor: bool,
}

/// The eyes of `everwarp top`.
pub(crate) struct Gatherer {
    folder: Folder,
    engine: Option<u32>,
    nvml: Option<Nvml>,
}

impl Gatherer {
    /// Looks at all engines, or at those of one program.
    pub(crate) fn new(engine: Option<u32>) -> Self {
        // Without an NVIDIA driver there are no GPUs to show.
        let nvml = Nvml::init().ok();
        Self {
            folder: Folder::of_user(),
            engine,
            nvml,
        }
    }

    /// Looks at everything, with up to `most` processes or actors of each host and system.
    ///
    /// # Errors
    /// There is no engine, or the folder of their sockets cannot be used.
    pub(crate) fn gather(&self, most: u32) -> Result<Snapshot, ControlError> {
        let served = ServedClients::list(&self.folder, most)?;
        let mut all = programs(&self.folder)?;
        all.extend(served.numbers());
        all.sort_unstable();
        all.dedup();
        if all.is_empty() {
            return Err(ControlError::NoEngine);
        }
        let mut snapshot = Snapshot {
            gpus: self.gpus(),
            ..Snapshot::default()
        };
        for engine in chosen(all, self.engine)? {
            if served.has(engine) {
                snapshot.served.extend(served.snapshots(engine));
            }
            match look(&self.folder, engine, most) {
                Ok(Some(program)) => snapshot.programs.push(program),
                // It has ended since, or it is a client of the service without an engine of its own.
                Ok(None) => {}
                Err(e) => snapshot.silent.push(Silent {
                    os_pid: engine,
                    reason: e.to_string(),
                }),
            }
        }
        Ok(snapshot)
    }

    fn gpus(&self) -> Vec<GpuView> {
        let Some(nvml) = &self.nvml else {
            return Vec::new();
        };
        let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
        let gpu = |number| {
            let device = nvml.device_by_index(number).ok()?;
            let memory = device.memory_info().ok();
            Some(GpuView {
                number,
                name: device.name().unwrap_or_default(),
                power_w: device.power_usage().ok().map(watts),
                power_limit_w: device.enforced_power_limit().ok().map(watts),
                memory_used: memory.as_ref().map(|memory| memory.used),
                memory_bytes: memory.as_ref().map(|memory| memory.total),
                busy_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
                temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            })
        };
        (0..nvml.device_count().unwrap_or(0))
            .filter_map(gpu)
            .collect()
    }

    /// Gives an order. Returns what came of it, in words.
    pub(crate) fn order(&self, target: &Target, order: Order) -> String {
        let done = match order {
            Order::Kill => "was asked to end",
            Order::Deactivate => "keeps its messages",
            Order::Activate => "handles messages again",
            Order::Stop => "ends when it has handled its messages",
        };
        let what = format!("{} of program {}", target.id, target.os_pid);
        let done = |found: bool| match found {
            true => format!("{what} {done}"),
            false => format!("there is no {what} any more"),
        };
        let ordered = match target.source {
            None => ServedClients::list(&self.folder, 0)
                .and_then(|mut served| served.kill(target.os_pid, &target.id)),
            source => {
                let order = Request::Order {
                    source,
                    target: target.id.clone(),
                    order,
                };
                request(&self.folder, target.os_pid, &order)
                    .map(|answer| answer == Some(Answer::Done))
            }
        };
        ordered.map_or_else(|error| error.to_string(), done)
    }

    /// Describes one actor with its state.
    ///
    /// # Errors
    /// Its program does not answer, or refuses.
    pub(crate) fn actor(&self, target: &Target) -> Result<Option<ActorRow>, ControlError> {
        let (source, id) = (target.source, target.id.clone());
        match request(&self.folder, target.os_pid, &Request::Actor { source, id })? {
            Some(Answer::Actor(actor)) => Ok(Some(actor)),
            Some(Answer::NoTarget) | None => Ok(None),
            Some(_) => Err(ControlError::OtherAnswer {
                engine: target.os_pid,
            }),
        }
    }
}
