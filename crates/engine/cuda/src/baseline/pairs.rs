//! Dependent pairs by launches and graphs.

use everwarp_engine::EngineError;

use super::Baseline;
use super::graph::Graph;
use super::launch::{Shape, args, blocks};
use super::memory::Memory;

/// Pairs in one graph at most: 1,000 nodes.
const GRAPH_PAIRS: u32 = 500;

/// How pairs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairsWay {
    /// A launch and a wait for each stage.
    Synchronized,
    /// Launches in one stream, one wait at the end.
    Streamed,
    /// As `Streamed`, with programmatic dependent launches.
    StreamedEarly,
    /// Graphs of up to 500 pairs, one after the other; launched until all pairs ran.
    Graph,
    /// Graphs of up to 500 pairs side by side: a second stage waits for its first only.
    GraphWide,
    /// As `Graph`, captured from programmatic dependent launches.
    GraphEarly,
    /// All first stages in one kernel, all second stages in another: possible where all pairs are known.
    Bulk,
}

/// Pairs ready to run.
#[derive(Debug)]
pub struct Pairs<'b> {
    base: &'b Baseline,
    way: PairsWay,
    pairs: u32,
    first: Shape,
    second: Shape,
    firsts: Memory<u64>,
    seconds: Memory<u64>,
    graph: Option<Graph>,
}

impl<'b> Pairs<'b> {
    /// Prepares `pairs` pairs.
    ///
    /// # Panics
    /// A graph's pairs do not divide `pairs`.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(base: &'b Baseline, way: PairsWay, pairs: u32) -> Result<Self, EngineError> {
        use PairsWay as W;
        let (first, second) = match way {
            W::StreamedEarly | W::GraphEarly => (c"base_first_early", c"base_second_early"),
            W::Bulk => (c"base_first_all", c"base_second_all"),
            _ => (c"base_first", c"base_second"),
        };
        let (grid, block) = match way {
            W::Bulk => (blocks(pairs, 256), 256),
            _ => (1, 1),
        };
        let shape = |kernel| Shape {
            kernel,
            grid,
            block,
        };
        let is_graph = matches!(way, W::Graph | W::GraphWide | W::GraphEarly);
        let words = if is_graph {
            pairs.min(GRAPH_PAIRS)
        } else {
            pairs
        };
        assert!(
            words > 0 && pairs.is_multiple_of(words),
            "graphs of {words} pairs cannot make up {pairs}"
        );
        let mut made = Self {
            base,
            way,
            pairs,
            first: shape(base.kernel(first)?),
            second: shape(base.kernel(second)?),
            firsts: Memory::new(base, words as usize)?,
            seconds: Memory::new(base, words as usize)?,
            graph: None,
        };
        made.graph = match way {
            W::Graph | W::GraphWide => Some(made.build(words, way == W::GraphWide)?),
            W::GraphEarly => Some(base.capture(|| made.launch_all(words, true))?),
            _ => None,
        };
        Ok(made)
    }

    fn build(&self, pairs: u32, wide: bool) -> Result<Graph, EngineError> {
        let nodes = self.base.nodes()?;
        let (mut firsts, mut seconds) = (self.firsts.at, self.seconds.at);
        let mut before = Vec::new();
        for mut i in 0..pairs {
            // SAFETY: the kernels' parameters; both arrays have `pairs` words and live as long as the graph.
            unsafe {
                let first = nodes.add(self.first, &mut args![firsts, i], &before)?;
                let after = &mut args![firsts, seconds, i];
                let second = nodes.add(self.second, after, &[first])?;
                if !wide {
                    before = vec![second];
                }
            }
        }
        nodes.finish()
    }

    fn launch_all(&self, pairs: u32, early: bool) -> Result<(), EngineError> {
        let (mut firsts, mut seconds) = (self.firsts.at, self.seconds.at);
        for mut i in 0..pairs {
            let (first, second) = (&mut args![firsts, i], &mut args![firsts, seconds, i]);
            // SAFETY: the kernels' parameters; both arrays have `pairs` words.
            unsafe {
                if early {
                    self.base.launch_programmatic(self.first, first)?;
                    self.base.launch_programmatic(self.second, second)?;
                } else {
                    self.base.launch(self.first, first)?;
                    self.base.launch(self.second, second)?;
                }
            }
        }
        Ok(())
    }

    fn launch_synchronized(&self) -> Result<(), EngineError> {
        let (mut firsts, mut seconds) = (self.firsts.at, self.seconds.at);
        for mut i in 0..self.pairs {
            // SAFETY: as in `launch_all`.
            unsafe {
                self.base.launch(self.first, &mut args![firsts, i])?;
                self.base.stream.synchronize()?;
                let second = &mut args![firsts, seconds, i];
                self.base.launch(self.second, second)?;
            }
            self.base.stream.synchronize()?;
        }
        Ok(())
    }

    /// Runs all pairs once and waits for them.
    ///
    /// # Errors
    /// The device refuses.
    pub fn run(&self) -> Result<(), EngineError> {
        match (&self.graph, self.way) {
            (Some(graph), _) => {
                for _ in 0..self.pairs / self.pairs.min(GRAPH_PAIRS) {
                    graph.launch(&self.base.stream)?;
                }
            }
            (None, PairsWay::Synchronized) => return self.launch_synchronized(),
            (None, PairsWay::Bulk) => {
                let (mut firsts, mut seconds, mut n) =
                    (self.firsts.at, self.seconds.at, self.pairs);
                // SAFETY: the kernels' parameters; both arrays have `n` words.
                unsafe {
                    self.base.launch(self.first, &mut args![firsts, n])?;
                    self.base
                        .launch(self.second, &mut args![firsts, seconds, n])?;
                }
            }
            (None, way) => self.launch_all(self.pairs, way == PairsWay::StreamedEarly)?,
        }
        self.base.stream.synchronize()
    }

    /// Clears the record of the pairs that have run.
    ///
    /// # Errors
    /// The device refuses.
    pub fn clear(&self) -> Result<(), EngineError> {
        self.firsts.fill(0)?;
        self.seconds.fill(0)
    }

    /// The sums of the second stages, by pair, and how often each pair of a graph runs in one repetition: a graph that is
    /// launched several times runs the same pairs each time.
    ///
    /// # Errors
    /// The device refuses.
    pub fn seconds(&self) -> Result<(Vec<u64>, u64), EngineError> {
        let words = self.seconds.read()?;
        let times = u64::from(self.pairs) / words.len() as u64;
        Ok((words, times))
    }
}
