//! Measures repetitions within a budget, with checks outside the timed region, for growing sizes until one takes too
//! long.

use std::time::{Duration, Instant};

use super::experiment::Context;
use super::stats::{Role, Row};
use crate::error::CliError;

/// The smallest and the largest number of repetitions.
const LEAST: usize = 3;
const MOST: usize = 100;
/// Repetitions go on until they have taken this long, checks included.
const BUDGET: Duration = Duration::from_millis(400);
/// A size at which one repetition would take longer is left out.
const LONGEST_S: f64 = 2.0;

/// Something to measure.
pub(crate) trait Work {
    /// Before each repetition; not timed.
    fn before(&mut self) -> Result<(), CliError> {
        Ok(())
    }
    /// One repetition: timed, done when it returns.
    fn run(&mut self) -> Result<(), CliError>;
    /// True if the result of the last repetition is right. It is called after each repetition and is not timed;
    /// `rounds` counts the repetitions so far.
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError>;
}

/// The times of repeated work, and true if all results were right. The first repetition is a warm-up and is not counted.
pub(crate) fn repeat(work: &mut dyn Work) -> Result<(Vec<f64>, bool), CliError> {
    let mut times = Vec::new();
    let mut right = true;
    let mut begin = Instant::now();
    for round in 0..=MOST {
        work.before()?;
        let started = Instant::now();
        work.run()?;
        times.push(started.elapsed().as_secs_f64());
        right &= work.is_right(round as u64 + 1)?;
        if round == 0 {
            times.clear();
            begin = Instant::now();
        } else if times.len() >= LEAST && begin.elapsed() > BUDGET {
            break;
        }
    }
    Ok((times, right))
}

/// The labels of a sweep's rows.
#[derive(Clone, Copy)]
pub(crate) struct Label<'l> {
    pub(crate) what: &'l str,
    pub(crate) unit: &'l str,
    pub(crate) role: Role,
    /// See [`Row::against`].
    pub(crate) against: &'l [&'l str],
    /// The largest size, with the reason for the limit.
    pub(crate) most: Option<(u64, &'l str)>,
    /// The number of units of a size.
    pub(crate) units: fn(u64) -> f64,
}

impl<'l> Label<'l> {
    pub(crate) const fn new(what: &'l str, unit: &'l str, role: Role) -> Self {
        Self {
            what,
            unit,
            role,
            against: &[],
            most: None,
            units: |size| size as f64,
        }
    }
}

/// Measures work of growing size, one row for each size. A size that takes too long, or that the engine's memory does not
/// hold, is left out and reported; nothing is extrapolated.
pub(crate) fn sweep<W: Work>(
    cx: &Context<'_>,
    label: Label<'_>,
    sizes: &[u64],
    mut prepare: impl FnMut(u64) -> Result<W, CliError>,
) -> Result<(), CliError> {
    let mut last: Option<(u64, f64)> = None;
    for &size in sizes {
        let case = size.to_string();
        if let Some((_, why)) = label.most.filter(|&(most, _)| size > most) {
            cx.skip(cx.part, &case, why)?;
            continue;
        }
        let guess = last.map_or(0.0, |(before, s)| s * (size as f64 / before as f64));
        if guess > LONGEST_S {
            let why = format!(
                "one repetition would take about {guess:.0} s at the rate of the size before; the limit is {LONGEST_S:.0} s"
            );
            cx.skip(cx.part, &case, &why)?;
            continue;
        }
        let mut work = match prepare(size) {
            Err(CliError::TooLarge(error)) => {
                cx.skip(cx.part, &case, &error.to_string())?;
                continue;
            }
            prepared => prepared?,
        };
        let (times, right) = repeat(&mut work)?;
        let row = Row::new(label.what, label.unit, (label.units)(size), times)
            .size(size)
            .role(label.role)
            .against(label.against)
            .verified(right);
        last = Some((size, row.median_s));
        cx.emit(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u64, u64);

    impl Work for Counting {
        fn run(&mut self) -> Result<(), CliError> {
            self.0 += 1;
            Ok(())
        }
        fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
            assert_eq!(rounds, self.0);
            Ok(rounds != self.1)
        }
    }

    #[test]
    fn every_repetition_is_checked_and_the_first_is_not_counted() {
        let mut work = Counting(0, 0);
        let (times, right) = repeat(&mut work).expect("nothing fails");
        assert!(right && times.len() as u64 == work.0 - 1 && times.len() <= MOST);
        assert!(times.len() >= LEAST);
        let (_, right) = repeat(&mut Counting(0, 2)).expect("nothing fails");
        assert!(!right, "one wrong repetition is enough");
    }
}
