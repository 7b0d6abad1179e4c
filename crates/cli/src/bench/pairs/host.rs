//! Pairs on the host's cores without the engine.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_programs::pairs::{first_value, folded, reference};

use super::SIZES;
use crate::bench::experiment::Context;
use crate::bench::stats::Role;
use crate::bench::work::{Label, Work, sweep};
use crate::error::CliError;

/// The words of all pairs.
struct Words {
    firsts: Vec<AtomicU64>,
    seconds: Vec<AtomicU64>,
}

impl Words {
    fn first(&self, i: usize) {
        self.firsts[i].store(first_value(i as u32), Ordering::Relaxed);
    }
    fn second(&self, i: usize) {
        let value = folded(self.firsts[i].load(Ordering::Relaxed));
        self.seconds[i].fetch_add(value, Ordering::Relaxed);
    }
}

struct OnHost {
    words: Words,
    run: fn(&Words),
}

impl Work for OnHost {
    fn before(&mut self) -> Result<(), CliError> {
        for word in self.words.firsts.iter_mut().chain(&mut self.words.seconds) {
            *word.get_mut() = 0;
        }
        Ok(())
    }
    fn run(&mut self) -> Result<(), CliError> {
        (self.run)(&self.words);
        Ok(())
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        let seconds = self.words.seconds.iter_mut().map(|s| *s.get_mut());
        Ok((0..).zip(seconds).all(|(i, s)| s == reference(i, 1)))
    }
}

fn measure(cx: &Context<'_>, what: &str, run: fn(&Words)) -> Result<(), CliError> {
    sweep(cx, Label::new(what, "pair", Role::Rival), &SIZES, |n| {
        let zeros = || (0..n).map(|_| AtomicU64::new(0)).collect();
        Ok(OnHost {
            words: Words {
                firsts: zeros(),
                seconds: zeros(),
            },
            run,
        })
    })
}

pub(super) fn threads(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, "a thread for each stage, joined before the next", |w| {
        for i in 0..w.firsts.len() {
            std::thread::scope(|s| {
                s.spawn(|| w.first(i));
            });
            std::thread::scope(|s| {
                s.spawn(|| w.second(i));
            });
        }
    })
}

pub(super) fn pool(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "a job of a pool (rayon) for each first stage, which queues one for its second";
    measure(cx, what, |w| {
        rayon::scope(|scope| {
            for i in 0..w.firsts.len() {
                scope.spawn(move |scope| {
                    w.first(i);
                    scope.spawn(move |_| w.second(i));
                });
            }
        });
    })
}

pub(super) fn plain_loop(cx: &Context<'_>) -> Result<(), CliError> {
    measure(cx, "a loop: both stages called one after the other", |w| {
        for i in 0..w.firsts.len() {
            std::hint::black_box(w).first(i);
            std::hint::black_box(w).second(i);
        }
    })
}
