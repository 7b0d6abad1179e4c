//! Experiments, their parts, and the context that a part measures in. It imports no experiment; the list of all is in
//! the module above.

use std::path::Path;

use everwarp::{Device, EngineKind};

use super::stats::{Outcome, Row};
use crate::error::CliError;
use crate::output::print;

/// A benchmark of the command.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// The question that it answers and how to read its rows, for the report.
    pub(crate) about: &'static str,
    pub(crate) parts: &'static [Part],
}

/// The rows that are measured in one child process.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) on: On,
    /// True if it needs `--roads`.
    pub(crate) roads: bool,
    pub(crate) measure: Measure,
}

/// The engines that a part can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Both,
    /// Both engines that are no adapter.
    CpuAndCuda,
    Cpu,
    Cuda,
    #[cfg(feature = "wgpu")]
    Adapter,
}

/// How a part is measured.
pub(crate) enum Measure {
    /// It makes one row, named like the part.
    One(fn(&Device, Option<&Path>) -> Result<Row, CliError>),
    /// It hands over each row as soon as it is measured.
    Many(fn(&Context<'_>) -> Result<(), CliError>),
}

impl Part {
    /// A part that makes several rows.
    pub(crate) const fn many(
        name: &'static str,
        on: On,
        measure: fn(&Context<'_>) -> Result<(), CliError>,
    ) -> Self {
        Self {
            name,
            on,
            roads: false,
            measure: Measure::Many(measure),
        }
    }
    /// True if it can measure this kind of engine.
    pub(crate) fn runs_on(&self, kind: EngineKind) -> bool {
        match self.on {
            On::Both => true,
            On::CpuAndCuda => matches!(kind, EngineKind::Cpu | EngineKind::Cuda),
            On::Cpu => kind == EngineKind::Cpu,
            On::Cuda => kind == EngineKind::Cuda,
            #[cfg(feature = "wgpu")]
            On::Adapter => kind == EngineKind::Wgpu,
        }
    }
}

/// The input of a part, and the place for its rows.
pub(crate) struct Context<'c> {
    pub(crate) device: &'c Device,
    pub(crate) roads: Option<&'c Path>,
    /// How many processes the commands of `S` start.
    pub(crate) processes: u32,
    /// How many connections and timers `io` has.
    pub(crate) connections: u32,
    pub(crate) timers: u32,
    pub(crate) bench: &'static str,
    pub(crate) part: &'static str,
}

impl Context<'_> {
    pub(crate) fn is_cuda(&self) -> bool {
        self.device.kind() == EngineKind::Cuda
    }
    /// The GPU.
    ///
    /// # Panics
    /// The device is no GPU. Only parts that are declared for CUDA may call this.
    pub(crate) fn gpu(&self) -> &everwarp::cuda::CudaDevice {
        let gpu = self.device.cuda();
        gpu.expect("the part is declared for the CUDA engine")
    }
    /// Hands over a row with the part's name.
    pub(crate) fn emit(&self, row: Row) -> Result<(), CliError> {
        self.emit_as(self.part, row)
    }
    /// Hands over a row with a name of its own. The line is written at once, so a later failure cannot lose it.
    pub(crate) fn emit_as(&self, name: &str, row: Row) -> Result<(), CliError> {
        let row = Row {
            bench: self.bench.to_owned(),
            row: name.to_owned(),
            engine: self.device.kind().to_string(),
            device: self.device.name(),
            ..row
        };
        self.line(&Outcome::Measured(Box::new(row)))
    }
    /// Reports a row that is not measured, with the reason.
    pub(crate) fn skip(&self, name: &str, case: &str, why: &str) -> Result<(), CliError> {
        self.line(&Outcome::Skipped {
            bench: self.bench.to_owned(),
            row: name.to_owned(),
            case: case.to_owned(),
            skipped: why.to_owned(),
        })
    }
    fn line(&self, outcome: &Outcome) -> Result<(), CliError> {
        print(&serde_json::to_string(outcome).expect("numbers and strings are always JSON"))
    }
    /// Measures a part in this process.
    pub(crate) fn measure(&self, part: &Part) -> Result<(), CliError> {
        match part.measure {
            Measure::One(one) => self.emit(one(self.device, self.roads)?),
            Measure::Many(many) => many(self),
        }
    }
}
