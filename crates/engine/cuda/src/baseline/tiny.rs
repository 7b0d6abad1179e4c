//! Many tiny independent tasks by launches, graphs and one kernel.

use everwarp_engine::EngineError;

use super::Baseline;
use super::graph::Graph;
use super::launch::{Shape, args, blocks};
use super::memory::Memory;

/// How tasks are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TinyWay {
    /// A launch and a wait for each.
    Synchronized,
    /// Launches in one stream, one wait at the end.
    Streamed,
    /// One graph, a node a task, one after the other.
    Graph,
    /// One graph, a node a task, no dependences.
    GraphWide,
    /// One kernel, a thread a task.
    Bulk,
    /// One kernel, four tasks a thread and step: the speed of memory.
    BulkWide,
}

/// Tasks ready to run.
#[derive(Debug)]
pub struct Tiny<'b> {
    base: &'b Baseline,
    way: TinyWay,
    tasks: u32,
    shape: Shape,
    cells: Memory<u32>,
    graph: Option<Graph>,
}

impl<'b> Tiny<'b> {
    /// Prepares `tasks` tasks that each add 1 to a cell of their own.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(base: &'b Baseline, way: TinyWay, tasks: u32) -> Result<Self, EngineError> {
        let (kernel, grid, block) = match way {
            TinyWay::Bulk => (c"base_add_all", blocks(tasks, 256), 256),
            TinyWay::BulkWide => {
                let most = base.multiprocessors * 8;
                (c"base_add_wide", blocks(tasks / 4, 256).min(most), 256)
            }
            _ => (c"base_add", 1, 1),
        };
        let mut made = Self {
            base,
            way,
            tasks,
            shape: Shape {
                kernel: base.kernel(kernel)?,
                grid,
                block,
            },
            cells: Memory::new(base, tasks as usize)?,
            graph: None,
        };
        made.graph = match way {
            TinyWay::Graph | TinyWay::GraphWide => Some(made.build()?),
            _ => None,
        };
        Ok(made)
    }

    fn build(&self) -> Result<Graph, EngineError> {
        let nodes = self.base.nodes()?;
        let mut cells = self.cells.at;
        let mut before = Vec::new();
        for mut i in 0..self.tasks {
            // SAFETY: the kernel's parameters; there are `tasks` cells, which live as long as the graph.
            let node = unsafe { nodes.add(self.shape, &mut args![cells, i], &before) }?;
            if self.way == TinyWay::Graph {
                before = vec![node];
            }
        }
        nodes.finish()
    }

    /// Runs all tasks once and waits for them.
    ///
    /// # Errors
    /// The device refuses.
    pub fn run(&self) -> Result<(), EngineError> {
        let mut cells = self.cells.at;
        if let Some(graph) = &self.graph {
            graph.launch(&self.base.stream)?;
        } else if matches!(self.way, TinyWay::Bulk | TinyWay::BulkWide) {
            let mut n = self.tasks;
            // SAFETY: the kernel's parameters; there are `n` cells.
            unsafe { self.base.launch(self.shape, &mut args![cells, n]) }?;
        } else {
            for mut i in 0..self.tasks {
                // SAFETY: the kernel's parameters; cell `i` is there.
                unsafe { self.base.launch(self.shape, &mut args![cells, i]) }?;
                if self.way == TinyWay::Synchronized {
                    self.base.stream.synchronize()?;
                }
            }
        }
        self.base.stream.synchronize()
    }

    /// Sets all cells to 0.
    ///
    /// # Errors
    /// The device refuses.
    pub fn clear(&self) -> Result<(), EngineError> {
        self.cells.fill(0)
    }

    /// The cells: how often each task ran.
    ///
    /// # Errors
    /// The device refuses.
    pub fn cells(&self) -> Result<Vec<u32>, EngineError> {
        self.cells.read()
    }
}
