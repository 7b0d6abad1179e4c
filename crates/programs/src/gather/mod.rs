//! `gather`: batches for training on a graph. Each seed vertex gets a sample of its neighbours, of their neighbours and so on,
//! and the rows of features of all of them are read from a file through the page cache, while the next batches are sampled.

mod entry;
#[path = "gather.rs"]
mod twin;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use everwarp::files::{
    CacheConfig, DevFiles, FILE_DOOR_STEP, FILE_SPAWNS, FileErrno, Files, FilesConfig, PageStats,
    Rights,
};
use everwarp::{Buffer, DevPtr, Engine, Instance, Pending, dev_struct, program};
use everwarp_graph::Csr;

use crate::mix;
use crate::native::RunError;
use twin::{again, door, fetch, fetched, sample};

pub use entry::GatherRows;

/// The most steps from a seed.
pub const HOPS: usize = 4;
/// The most vertices of a seed's sample, the seed included.
pub const SAMPLE_MOST: u32 = 120;

dev_struct! {
    /// Parameters of `gather`.
    pub struct DevGather: align 16, size 224 {
        /// The files.
        pub files: DevFiles,
        /// The graph.
        pub offsets: DevPtr<u32>,
        /// See `offsets`.
        pub columns: DevPtr<u32>,
        /// The vertices of the batches in work.
        pub nodes: DevPtr<u32>,
        /// Their rows.
        pub rows: DevPtr<u8>,
        /// The first error number.
        pub error: DevPtr<u64>,
        /// Vertices of the graph.
        pub vertices: u32,
        /// The file.
        pub handle: u32,
        /// Bytes of a row.
        pub row: u32,
        /// Seeds of a batch.
        pub seeds: u32,
        /// Vertices of a seed's sample.
        pub each: u32,
        /// How many steps there are.
        pub hops: u32,
        /// How many neighbours each step takes.
        pub fanouts: [u32; 4],
        /// Spelled-out hole.
        pub hole: [u32; 4],
    }
}

program! {
    /// The program.
    pub static PROGRAM: gather(DevGather), "../mix.cu", "gather.cu" {
        /// Samples around seed `lo` of all slots, for batch `hi`.
        SAMPLE: lane(sample).spawns(SAMPLE_MOST as u16),
        /// A warp that copies row `lo` from the cache. Reports a checksum.
        FETCH: warp(fetch).spawns(FILE_SPAWNS + 1),
        /// The same when the page is there.
        FETCHED: warp(fetched),
        /// The same as `FETCH` once there was no room for a request.
        AGAIN: warp(again).spawns(FILE_SPAWNS + 1).breadth_first(),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// The sizes of batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a row: a power of two from 8 to 4096.
    pub row: u32,
    /// Seeds of a batch.
    pub seeds: u32,
    /// How many neighbours each step takes, up to [`HOPS`] steps.
    pub fanouts: Vec<u32>,
    /// Batches that are in work at a time.
    pub slots: u32,
}

impl Shape {
    /// Vertices of a seed's sample; `None` if there are more than [`SAMPLE_MOST`].
    pub fn each(&self) -> Option<u32> {
        let (mut all, mut level) = (1_u32, 1_u32);
        for &fanout in &self.fanouts {
            level = level.checked_mul(fanout)?;
            all = all.checked_add(level)?;
        }
        (all <= SAMPLE_MOST && self.fanouts.len() <= HOPS).then_some(all)
    }
    /// Vertices of a batch.
    fn vertices(&self) -> u32 {
        self.seeds * self.each().expect("the shape was checked")
    }
}

/// A random number for a place of a sample.
const fn chance(batch: u32, seed: u32, at: u32) -> u64 {
    mix((batch as u64) << 40 ^ (seed as u64) << 16 ^ at as u64)
}

/// A seed vertex and its sample, level by level. `neighbours` returns where those of a vertex are, and `column` one of them.
fn sample_of(
    (batch, seed): (u32, u32),
    (vertices, fanouts): (u32, &[u32]),
    neighbours: impl Fn(u32) -> (u32, u32),
    column: impl Fn(u32) -> u32,
    mut found: impl FnMut(u32, u32),
) {
    let mut nodes = [0; SAMPLE_MOST as usize];
    nodes[0] = (chance(batch, seed, 0) % u64::from(vertices)) as u32;
    found(0, nodes[0]);
    let (mut first, mut count, mut next) = (0, 1, 1);
    for &fanout in fanouts {
        for at in 0..count * fanout {
            let parent = nodes[(first + at / fanout) as usize];
            let (begin, end) = neighbours(parent);
            // A vertex without neighbours stands for them.
            let node = match end - begin {
                0 => parent,
                degree => {
                    column(begin + (chance(batch, seed, next + at) % u64::from(degree)) as u32)
                }
            };
            nodes[(next + at) as usize] = node;
            found(next + at, node);
        }
        (first, count) = (next, count * fanout);
        next += count;
    }
}

/// The vertices of a batch, sampled plainly.
///
/// # Panics
/// The shape's samples are too large.
pub fn reference(graph: &Csr, shape: &Shape, batch: u32) -> Vec<u32> {
    let mut nodes = Vec::with_capacity(shape.vertices() as usize);
    for seed in 0..shape.seeds {
        let rows = graph.rows();
        sample_of(
            (batch, seed),
            (graph.vertices(), &shape.fanouts),
            |v| (rows[v as usize], rows[v as usize + 1]),
            |at| graph.columns()[at as usize],
            |_, node| nodes.push(node),
        );
    }
    nodes
}

/// What a row adds to the checksum, at its place in the batch.
pub fn checksum(row: &[u8], at: u32) -> u64 {
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
    let sum = row.chunks_exact(8).map(word).fold(0, u64::wrapping_add);
    sum.wrapping_mul(2 * u64::from(at) + 1)
}

/// A file with a row for each vertex.
#[derive(Debug)]
pub struct Features {
    /// The file.
    pub file: File,
    /// Its size.
    pub size: u64,
    row: u32,
}

impl Features {
    /// A file that is there.
    ///
    /// # Errors
    /// It cannot be asked for its size.
    pub fn of(file: File, row: u32) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { file, size, row })
    }
    /// Writes rows of random numbers to a file that has no name.
    ///
    /// # Errors
    /// There is no room.
    pub fn generate(graph: &Csr, row: u32, seed: u64) -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        let size = u64::from(graph.vertices()) * u64::from(row);
        let mut out = BufWriter::with_capacity(1 << 20, &file);
        for word in 0..size / 8 {
            out.write_all(&mix(seed << 40 ^ word).to_le_bytes())?;
        }
        out.flush()?;
        drop(out);
        Ok(Self { file, size, row })
    }
    /// The row of a vertex, read plainly, by one thread at a time; zeros where the file cannot be read.
    pub fn row(&self, node: u32) -> Vec<u8> {
        let mut row = vec![0; self.row as usize];
        let at = u64::from(node) * u64::from(self.row);
        let mut file = &self.file;
        let there = file.seek(SeekFrom::Start(at));
        match there.and_then(|_| file.read_exact(&mut row)) {
            Ok(()) => row,
            Err(_) => vec![0; self.row as usize],
        }
    }
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its number, from 0.
    pub number: u32,
    /// Its vertices: each seed, then its sample.
    pub nodes: Vec<u32>,
    /// Their rows, one after the other.
    pub rows: Vec<u8>,
    /// The sum of the rows' checksums.
    pub checksum: u64,
}

/// A graph whose batches can be gathered.
#[derive(Debug)]
pub struct Gather {
    // The files end before the memory that tasks fill does.
    files: Files,
    instance: Arc<Instance>,
    shape: Shape,
    error: Buffer<u64>,
    nodes: Buffer<u32>,
    rows: Buffer<u8>,
    _offsets: Buffer<u32>,
    _columns: Buffer<u32>,
}

impl Gather {
    /// Prepares to gather rows through a cache of this many bytes.
    ///
    /// # Panics
    /// The shape's samples or rows are too large.
    ///
    /// # Errors
    /// The engine has no files or no memory left, or does not hold the program.
    pub fn new(
        engine: &Engine,
        graph: &Csr,
        features: &Features,
        shape: &Shape,
        cache: u64,
    ) -> Result<Self, RunError> {
        let each = shape.each().expect("the caller has checked the samples");
        assert!(shape.row.is_power_of_two() && (8..=4096).contains(&shape.row));
        let total = shape.vertices() as usize * shape.slots as usize;
        let config = FilesConfig {
            requests: (4 * total).next_power_of_two().clamp(1024, 1 << 16) as u32,
            cache: CacheConfig {
                files: features.size,
                ..CacheConfig::of(cache)
            },
            ..FilesConfig::default()
        };
        let files = Files::new(engine, config)?;
        let file = features.file.try_clone().map_err(|source| RunError::File {
            path: "the features".into(),
            source,
        })?;
        let handle = files.give_cached(file, Rights::Read, 0)?;
        let offsets = engine.buffer_from(graph.rows())?;
        // A buffer has an element at least.
        let columns = match graph.columns() {
            [] => engine.buffer(1)?,
            columns => engine.buffer_from(columns)?,
        };
        let (nodes, error) = (engine.buffer(total)?, engine.buffer(1)?);
        let rows = engine.buffer(total * shape.row as usize)?;
        let mut fanouts = [0; HOPS];
        fanouts[..shape.fanouts.len()].copy_from_slice(&shape.fanouts);
        let params = DevGather {
            files: files.tables(),
            offsets: offsets.ptr(),
            columns: columns.ptr(),
            nodes: nodes.ptr(),
            rows: rows.ptr(),
            error: error.ptr(),
            vertices: graph.vertices(),
            handle: handle.0,
            row: shape.row,
            seeds: shape.seeds,
            each,
            hops: shape.fanouts.len() as u32,
            fanouts,
            hole: [0; 4],
        };
        // SAFETY: the buffers have these sizes, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            shape: shape.clone(),
            error,
            nodes,
            rows,
            _offsets: offsets,
            _columns: columns,
        })
    }
    /// The batches, in order. Some are in work while the caller uses one.
    pub fn batches<'g>(&'g self, engine: &'g Engine, count: u32) -> Batches<'g> {
        Batches {
            gather: self,
            engine,
            count,
            next: 0,
            rows: true,
            pending: VecDeque::new(),
        }
    }
    /// How files are read: the name of the backend.
    pub fn backend(&self) -> &'static str {
        self.files.backend()
    }
    /// The cache's counters.
    pub fn page_stats(&self) -> PageStats {
        self.files.page_stats().unwrap_or_default()
    }
    fn begin(&self, engine: &Engine, batch: u32) -> Result<Pending, RunError> {
        let first = batch % self.shape.slots * self.shape.seeds;
        let seeds = first..first + self.shape.seeds;
        let task = |seed| self.instance.task(SAMPLE).args(seed, batch).build();
        let tasks: Vec<_> = seeds.map(task).collect();
        Ok(engine.submit_batch(&tasks)?)
    }
    fn end(&self, number: u32, pending: &mut Pending, rows: bool) -> Result<Batch, RunError> {
        let checksum = pending.wait()?.value;
        let mut error = [0];
        self.error.read_into(&mut error)?;
        if error[0] != 0 {
            return Err(RunError::Read(FileErrno(error[0] as u32)));
        }
        let vertices = self.shape.vertices() as usize;
        let first = (number % self.shape.slots) as usize * vertices;
        let row = self.shape.row as usize;
        let (mut nodes, mut bytes) = (Vec::new(), Vec::new());
        if rows {
            nodes.resize(vertices, 0);
            self.nodes.read_at(first, &mut nodes)?;
            bytes.resize(vertices * row, 0);
            self.rows.read_at(first * row, &mut bytes)?;
        }
        Ok(Batch {
            number,
            nodes,
            rows: bytes,
            checksum,
        })
    }
}

/// Batches of a [`Gather`].
#[derive(Debug)]
pub struct Batches<'g> {
    gather: &'g Gather,
    engine: &'g Engine,
    count: u32,
    next: u32,
    rows: bool,
    pending: VecDeque<(u32, Pending)>,
}

impl Batches<'_> {
    /// Leaves nodes and rows in the engine's memory: the batches are empty but for their checksums.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self {
            rows: false,
            ..self
        }
    }
    fn advance(&mut self) -> Result<Option<Batch>, RunError> {
        while self.next < self.count && self.pending.len() < self.gather.shape.slots as usize {
            let pending = self.gather.begin(self.engine, self.next)?;
            self.pending.push_back((self.next, pending));
            self.next += 1;
        }
        match self.pending.pop_front() {
            None => Ok(None),
            Some((number, mut pending)) => {
                self.gather.end(number, &mut pending, self.rows).map(Some)
            }
        }
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            // Nothing comes after an error.
            self.next = self.count;
        }
        next.transpose()
    }
}
