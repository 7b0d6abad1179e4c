//! Tiny tasks on the host's cores without the engine.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::SIZES;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

struct OnHost {
    cells: Vec<AtomicU32>,
    run: fn(&[AtomicU32]),
}

/// Each cell belongs to one task, so a plain addition is enough; being atomic only lets threads share the array.
fn add(cell: &AtomicU32) {
    cell.store(
        cell.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

impl Work for OnHost {
    fn run(&mut self) -> Result<(), CliError> {
        (self.run)(&self.cells);
        Ok(())
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        let cells = self.cells.iter_mut();
        Ok(cells.map(|c| u64::from(*c.get_mut())).all(|c| c == rounds))
    }
}

fn measure(cx: &Context<'_>, what: &str, run: fn(&[AtomicU32])) -> Result<(), CliError> {
    sweep(cx, Label::new(what, "task", Role::Rival), &SIZES, |n| {
        let cells = (0..n).map(|_| AtomicU32::new(0)).collect();
        Ok(OnHost { cells, run })
    })
}

pub(super) fn threads(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, "a thread a task, 64 at a time", |cells| {
        for part in cells.chunks(64) {
            std::thread::scope(|scope| {
                for cell in part {
                    scope.spawn(|| add(cell));
                }
            });
        }
    })
}

pub(super) fn pool(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, "a job of a pool (rayon) for each task", |cells| {
        rayon::scope(|scope| {
            for cell in cells {
                scope.spawn(move |_| add(cell));
            }
        });
    })
}

pub(super) fn pool_ranges(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a pool (rayon) that divides the cells as it sees fit";
    measure(cx, what, |cells| cells.par_iter().for_each(add))
}

pub(super) fn plain_loop(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, "a loop over the cells", |cells| {
        std::hint::black_box(cells).iter().for_each(add);
    })
}
