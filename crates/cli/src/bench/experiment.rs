//! Experiments, their parts, and what a part is given.

use std::path::Path;

use everwarp::{Device, EngineKind};

use super::stats::{Outcome, Row};
use super::{core, heap, operators, pairs, processes, search, tiny};
use crate::error::CliError;
use crate::output::print;

/// A benchmark of the command.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What it asks and how to read it, for the report.
    pub(crate) about: &'static str,
    pub(crate) parts: &'static [Part],
}

/// What runs in one process.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) on: On,
    /// Whether it needs `--roads`.
    pub(crate) roads: bool,
    pub(crate) measure: Measure,
}

/// On which engines a part makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Both,
    Cpu,
    Cuda,
}

/// How a part is measured.
pub(crate) enum Measure {
    /// It makes one row, named as the part.
    One(fn(&Device, Option<&Path>) -> Result<Row, CliError>),
    /// It hands over rows as they are done.
    Many(fn(&Context<'_>) -> Result<(), CliError>),
}

/// Every experiment, in the order of `bench all`.
pub(crate) const ALL: [&Experiment; 7] = [
    &core::EXPERIMENT,
    &pairs::EXPERIMENT,
    &tiny::EXPERIMENT,
    &search::EXPERIMENT,
    &heap::EXPERIMENT,
    &operators::EXPERIMENT,
    &processes::EXPERIMENT,
];

impl Part {
    /// A part that hands over several rows.
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
    /// Whether it makes sense on this kind of engine.
    pub(crate) fn runs_on(&self, kind: EngineKind) -> bool {
        match self.on {
            On::Both => true,
            On::Cpu => kind == EngineKind::Cpu,
            On::Cuda => kind == EngineKind::Cuda,
        }
    }
}

/// What a part is given, and where it puts its rows.
pub(crate) struct Context<'c> {
    pub(crate) device: &'c Device,
    pub(crate) roads: Option<&'c Path>,
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
    /// There is none: the part is declared for CUDA only.
    pub(crate) fn gpu(&self) -> &everwarp::cuda::CudaDevice {
        let gpu = self.device.cuda();
        gpu.expect("the part is declared for the CUDA engine")
    }
    /// Hands over a row under the part's name.
    pub(crate) fn emit(&self, row: Row) -> Result<(), CliError> {
        self.emit_as(self.part, row)
    }
    /// Hands over a row under a name of its own: one line at once, so that what comes later cannot lose it.
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
    /// Says what is not measured, and why.
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
