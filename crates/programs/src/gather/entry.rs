//! The registry's entry of `gather`.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everwarp::{Engine, Program};
use everwarp_graph::Csr;

use super::{Features, Gather, PROGRAM, SAMPLE_MOST, Shape, checksum, reference};
use crate::input::{DIRECTED, GENERATE, GRAPH, InputError, Progress, UNDIRECTED, graph};
use crate::native::{Facts, NativeProgram, RunError, same_number};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct GatherRows;

const FEATURES: ProgramOption = ProgramOption::file(
    "--features",
    "The file with a row for each vertex; without it one is generated",
);
const ROW: ProgramOption = ProgramOption::number(
    "--row",
    "Bytes of a row, a power of two from 8 to 4096",
    1024,
);
const BATCHES: ProgramOption = ProgramOption::number("--batches", "How many batches", 64);
const SEEDS: ProgramOption =
    ProgramOption::number("--seeds", "Seed vertices of a batch", 256).at_most(1 << 16);
const FIRST: ProgramOption =
    ProgramOption::number("--fanout", "Neighbours that are sampled of a seed", 8).at_most(64);
const SECOND: ProgramOption = ProgramOption::number(
    "--fanout2",
    "Neighbours that are sampled of each of those; 0: none",
    4,
)
.at_most(64);
const CACHE: ProgramOption = ProgramOption::number(
    "--cache",
    "The cache in MiB; 0: an eighth of the features",
    0,
)
.at_most(1 << 20);

/// A graph with its features, and what is gathered.
#[derive(Debug)]
pub struct Job {
    graph: Csr,
    features: Features,
    shape: Shape,
    batches: u32,
    cache: u64,
}

impl NativeProgram for GatherRows {
    type Input = Job;
    type Output = u64;
    const ABOUT: &'static str = "batches of sampled neighbours, with their rows of features from a file through the page cache";
    const OPTIONS: &'static [ProgramOption] = &[
        GRAPH, GENERATE, DIRECTED, UNDIRECTED, FEATURES, ROW, BATCHES, SEEDS, FIRST, SECOND, CACHE,
    ];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--generate", "rmat:10"), ("--batches", "8")];
    const ON_WGPU: bool = false;

    fn program(&self) -> &'static Program {
        &PROGRAM
    }
    fn input(
        &self,
        options: &OptionValues,
        progress: &mut Progress<'_>,
    ) -> Result<Job, InputError> {
        let graph = graph(&PROGRAM.name, options, progress)?;
        let wrong = |option: &ProgramOption, rule: &str, value: u64| InputError::Value {
            option: option.flag,
            rule: rule.to_owned(),
            value,
        };
        let row = options.number(&ROW)?;
        if !row.is_power_of_two() || !(8..=4096).contains(&row) {
            return Err(wrong(&ROW, "a power of two from 8 to 4096", row.into()));
        }
        let fanouts = [options.at_least_one(&FIRST)?, options.number(&SECOND)?];
        let shape = Shape {
            row,
            seeds: options.at_least_one(&SEEDS)?,
            fanouts: fanouts.into_iter().filter(|&f| f > 0).collect(),
            slots: 4,
        };
        if shape.each().is_none() {
            let rule = format!("smaller: a seed's sample has {SAMPLE_MOST} vertices at most");
            return Err(wrong(&SECOND, &rule, fanouts[1].into()));
        }
        let needed = u64::from(graph.vertices()) * u64::from(row);
        if needed == 0 {
            return Err(InputError::SourceOutOfRange {
                source_vertex: 0,
                largest: 0,
            });
        }
        let features = match options.file(&FEATURES) {
            None => {
                progress("generating features", None);
                let file = Features::generate(&graph, row, 1);
                file.map_err(|source| InputError::File {
                    path: PathBuf::from("the generated features"),
                    source,
                })?
            }
            Some(path) => {
                let file = match options.open(&FEATURES) {
                    Some(file) => file.try_clone(),
                    None => File::open(path),
                };
                let features = file.and_then(|file| Features::of(file, row));
                let features = features.map_err(|source| InputError::File {
                    path: path.to_owned(),
                    source,
                })?;
                if features.size < needed {
                    let rule = format!("a file with a row for each vertex ({needed} bytes)");
                    return Err(wrong(&FEATURES, &rule, features.size));
                }
                features
            }
        };
        let cache = match u64::from(options.number(&CACHE)?) << 20 {
            0 => (features.size / 8).max(1 << 18),
            cache => cache,
        };
        Ok(Job {
            graph,
            features,
            shape,
            batches: options.at_least_one(&BATCHES)?,
            cache,
        })
    }
    fn run(&self, engine: &Engine, job: &Job) -> Result<(u64, Duration), RunError> {
        let gather = Gather::new(engine, &job.graph, &job.features, &job.shape, job.cache)?;
        let begin = Instant::now();
        let mut sum = 0_u64;
        for batch in gather.batches(engine, job.batches).in_place() {
            sum = sum.wrapping_add(batch?.checksum);
        }
        Ok((sum, begin.elapsed()))
    }
    fn reference(&self, job: &Job) -> u64 {
        let mut sum = 0_u64;
        for batch in 0..job.batches {
            let nodes = reference(&job.graph, &job.shape, batch);
            for (at, node) in nodes.into_iter().enumerate() {
                sum = sum.wrapping_add(checksum(&job.features.row(node), at as u32));
            }
        }
        sum
    }
    fn compare(&self, &output: &u64, &expected: &u64) -> Result<(), String> {
        same_number(output, expected)
    }
    fn facts(&self, job: &Job, &output: &u64) -> Facts {
        Facts {
            vertices: Some(job.graph.vertices()),
            edges: Some(job.graph.edges()),
            result: Some(output),
            ..Facts::default()
        }
    }
}
