//! Tiny tasks by graphs that a graph launches from the device.

use std::ffi::CStr;

use everwarp_engine::EngineError;

use super::Baseline;
use super::graph::Graph;
use super::launch::{Shape, args};
use super::memory::Memory;
use crate::cache::Cache;
use crate::device::CudaDevice;
use crate::image::{Source, unit};
use crate::link::link_library;
use crate::nvrtc::toolkit_file;

/// Graphs that one run of a graph may launch without waiting for them; the driver allows 120.
const ROUND: u32 = 120;

/// Fields of the device's `Rounds`.
const ROUNDS: usize = 3;
const FAILED: usize = 2;

/// The kernels that launch graphs. Relocatable, to be linked with the toolkit's device runtime.
pub fn device_graph_source() -> Source {
    Source {
        relocatable: true,
        ..unit(include_str!("../../device/device_graph.cu"))
    }
}

impl Baseline {
    /// Loads the kernels that launch graphs; `None` where the toolkit's device runtime library is not found.
    ///
    /// # Errors
    /// They do not compile or link, or the device refuses.
    pub fn device_graphs(device: &CudaDevice) -> Result<Option<Self>, EngineError> {
        let Some(library) = toolkit_file("libcudadevrt.a") else {
            return Ok(None);
        };
        device.context.enter()?;
        let compiled = Cache::user()
            .compile(&device_graph_source(), device.arch())
            .map_err(|e| EngineError::Compile(Box::new(e)))?;
        let image = link_library(&compiled.into_image(), &library)?;
        Self::of_image(device, &image).map(Some)
    }
}

/// Tasks ready to run.
#[derive(Debug)]
pub struct DeviceGraphs<'b> {
    base: &'b Baseline,
    cells: Memory<u32>,
    rounds: Memory<u32>,
    /// The handles of `tasks`, which the launching kernel reads.
    _handles: Memory<u64>,
    _tasks: Vec<Graph>,
    launcher: Graph,
}

impl<'b> DeviceGraphs<'b> {
    /// Prepares `tasks` tasks that each add 1 to a cell of their own.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(base: &'b Baseline, tasks: u32) -> Result<Self, EngineError> {
        let shape = |kernel: &CStr, block| {
            let kernel = base.kernel(kernel)?;
            Ok::<_, EngineError>(Shape {
                kernel,
                grid: 1,
                block,
            })
        };
        let (task, round) = (shape(c"base_round_task", 1)?, shape(c"base_round", ROUND)?);
        let cells = Memory::new(base, tasks as usize)?;
        let rounds = Memory::<u32>::new(base, ROUNDS)?;
        let (mut cells_at, mut rounds_at) = (cells.at, rounds.at);
        let single = |mut k: u32| {
            let nodes = base.nodes()?;
            // SAFETY: the kernel's parameters; the launching kernel keeps to cells that are there.
            unsafe { nodes.add(task, &mut args![cells_at, rounds_at, k], &[]) }?;
            nodes.finish_for_device()
        };
        let graphs: Vec<Graph> = (0..ROUND).map(single).collect::<Result<_, _>>()?;
        let handles: Vec<u64> = graphs.iter().map(Graph::handle).collect();
        let handles = Memory::from(base, &handles)?;
        let nodes = base.nodes()?;
        let (mut handles_at, mut count) = (handles.at, tasks);
        // SAFETY: the kernel's parameters, which live as long as the graph.
        unsafe { nodes.add(round, &mut args![handles_at, rounds_at, count], &[]) }?;
        Ok(Self {
            base,
            launcher: nodes.finish_for_device()?,
            cells,
            rounds,
            _handles: handles,
            _tasks: graphs,
        })
    }

    /// Runs all tasks once and waits for them.
    ///
    /// # Errors
    /// The device refuses.
    pub fn run(&self) -> Result<(), EngineError> {
        self.launcher.launch(&self.base.stream)?;
        self.base.stream.synchronize()
    }

    /// The cells: how often each task ran.
    ///
    /// # Errors
    /// A launch from the device failed, or the device refuses.
    pub fn cells(&self) -> Result<Vec<u32>, EngineError> {
        match self.rounds.read()?[FAILED] {
            0 => self.cells.read(),
            code => Err(EngineError::Driver {
                call: "cudaGraphLaunch on the device",
                code: code as i32,
                name: "an error of the device runtime".to_owned(),
            }),
        }
    }
}
