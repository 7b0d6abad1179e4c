//! Searches on the host's cores without the engine.

use std::sync::atomic::{AtomicU32, Ordering};

use everwarp_programs::bfs::{self, Found};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::Problem;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::Work;
use crate::error::CliError;

struct OneCore<'p> {
    problem: &'p Problem,
    found: Option<Found>,
}

impl Work for OneCore<'_> {
    fn run(&mut self) -> Result<(), CliError> {
        let graph = &self.problem.graph;
        let found = bfs::reference(graph.rows(), graph.columns(), self.problem.source);
        self.found = Some(found);
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(self.found.as_ref() == Some(&self.problem.expected))
    }
}

pub(super) fn one_core(cx: &Context<'_>, problem: &Problem) -> Result<(), CliError> {
    let mut work = OneCore {
        problem,
        found: None,
    };
    problem.measure(cx, "one_core", Role::Rival, &mut work)
}

/// Level by level on a pool; levels only.
struct Pool<'p> {
    problem: &'p Problem,
    levels: Vec<AtomicU32>,
}

impl Work for Pool<'_> {
    fn before(&mut self) -> Result<(), CliError> {
        for level in &mut self.levels {
            *level.get_mut() = u32::MAX;
        }
        *self.levels[self.problem.source as usize].get_mut() = 0;
        Ok(())
    }
    fn run(&mut self) -> Result<(), CliError> {
        let (graph, levels) = (&self.problem.graph, &self.levels);
        let mut frontier = vec![self.problem.source];
        for level in 1.. {
            let claim = |&u: &u32| {
                let word = &levels[u as usize];
                let claimed =
                    || word.compare_exchange(u32::MAX, level, Ordering::Relaxed, Ordering::Relaxed);
                word.load(Ordering::Relaxed) == u32::MAX && claimed().is_ok()
            };
            let visit = |mut next: Vec<u32>, &v: &u32| {
                next.extend(graph.neighbors(v).iter().copied().filter(claim));
                next
            };
            let join = |mut a: Vec<u32>, mut b: Vec<u32>| {
                a.append(&mut b);
                a
            };
            // Starting the pool costs more than searching a small level.
            frontier = match frontier.len() {
                0 => break,
                1..256 => frontier.iter().fold(Vec::new(), visit),
                _ => frontier
                    .par_iter()
                    .fold(Vec::new, visit)
                    .reduce(Vec::new, join),
            };
        }
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        let level = |l: &mut AtomicU32| match *l.get_mut() {
            u32::MAX => -1,
            l => i64::from(l),
        };
        let levels = self.levels.iter_mut().map(level);
        Ok(levels.eq(self.problem.expected.levels.iter().copied()))
    }
}

pub(super) fn pool(cx: &Context<'_>, problem: &Problem) -> Result<(), CliError> {
    let new = || AtomicU32::new(u32::MAX);
    let levels = std::iter::repeat_with(new).take(problem.graph.vertices() as usize);
    let mut work = Pool {
        problem,
        levels: levels.collect(),
    };
    problem.measure(cx, "pool", Role::Rival, &mut work)
}
