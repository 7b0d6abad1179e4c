//! Rows: what was measured, how often, and which other rows it is compared with.

use serde::{Deserialize, Serialize};

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// The engine.
    Ours,
    /// Another way to do the same; the fastest of them is what the engine is compared with.
    Rival,
    /// What the hardware allows for an easier question. It is shown, and no row is compared with it.
    Limit,
}

/// A rival of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rival {
    pub(crate) row: String,
    /// The rival's median, scaled to as many units as our row has.
    pub(crate) median_s: f64,
}

/// One measured row. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) bench: String,
    pub(crate) row: String,
    /// Rows with the same case are compared: a size, or an input's name. Empty where a row is compared with none.
    pub(crate) case: String,
    /// The size as a number, where the case is one.
    pub(crate) size: Option<u64>,
    pub(crate) role: Role,
    pub(crate) engine: String,
    pub(crate) device: String,
    /// What one repetition does.
    pub(crate) what: String,
    /// Repetitions.
    pub(crate) n: usize,
    pub(crate) min_s: f64,
    pub(crate) median_s: f64,
    pub(crate) mean_s: f64,
    pub(crate) p99_s: f64,
    /// Standard deviation.
    pub(crate) spread_s: f64,
    /// How many things one repetition does, for a rate or a time of each.
    pub(crate) units: f64,
    pub(crate) unit: String,
    /// Units a second, by the median.
    pub(crate) per_second: f64,
    /// True if every result was equal to the reference.
    pub(crate) verified: bool,
    /// Raw limits of the same machine and process: name and value.
    pub(crate) raw: Vec<(String, f64)>,
    /// The names of the rows that are its rivals. If empty, all rivals of the same case are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) against: Vec<String>,
    /// The rivals, fastest first.
    #[serde(default)]
    pub(crate) rivals: Vec<Rival>,
}

/// The outcome of measuring a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    /// It was measured.
    Measured(Box<Row>),
    /// It was left out, with the reason.
    Skipped {
        bench: String,
        row: String,
        case: String,
        skipped: String,
    },
    /// It failed, with the reason.
    Failed {
        bench: String,
        row: String,
        error: String,
    },
}

impl Outcome {
    /// True if the command must fail because of this row.
    pub(crate) fn is_bad(&self) -> bool {
        match self {
            Self::Measured(row) => !row.verified,
            Self::Skipped { .. } => false,
            Self::Failed { .. } => true,
        }
    }
    pub(crate) fn bench(&self) -> &str {
        match self {
            Self::Measured(row) => &row.bench,
            Self::Skipped { bench, .. } | Self::Failed { bench, .. } => bench,
        }
    }
    pub(crate) fn row(&self) -> Option<&Row> {
        match self {
            Self::Measured(row) => Some(row),
            _ => None,
        }
    }
}

impl Row {
    pub(crate) fn new(what: &str, unit: &str, units: f64, mut times: Vec<f64>) -> Self {
        assert!(!times.is_empty(), "a row has repetitions");
        times.sort_by(f64::total_cmp);
        let n = times.len();
        let mean = times.iter().sum::<f64>() / n as f64;
        let spread = (times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        let median = middle(&times);
        // The nearest rank: the smallest time that 99 % of all are not above.
        let p99 = times[((n as f64 * 0.99).ceil() as usize).clamp(1, n) - 1];
        Self {
            bench: String::new(),
            row: String::new(),
            case: String::new(),
            size: None,
            role: Role::Ours,
            engine: String::new(),
            device: String::new(),
            what: what.to_owned(),
            n,
            min_s: times[0],
            median_s: median,
            mean_s: mean,
            p99_s: p99,
            spread_s: spread,
            units,
            unit: unit.to_owned(),
            per_second: units / median,
            verified: false,
            raw: Vec::new(),
            against: Vec::new(),
            rivals: Vec::new(),
        }
    }
    pub(crate) fn verified(self, verified: bool) -> Self {
        Self { verified, ..self }
    }
    pub(crate) fn raw(mut self, name: &str, value: f64) -> Self {
        self.raw.push((name.to_owned(), value));
        self
    }
    /// Names a rival that was measured as part of this row.
    pub(crate) fn rival(mut self, name: &str, median_s: f64) -> Self {
        let row = name.to_owned();
        self.rivals.push(Rival { row, median_s });
        self
    }
    pub(crate) fn case(self, case: &str) -> Self {
        let case = case.to_owned();
        Self { case, ..self }
    }
    pub(crate) fn size(self, size: u64) -> Self {
        Self {
            case: size.to_string(),
            size: Some(size),
            ..self
        }
    }
    pub(crate) fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }
    pub(crate) fn against(self, rows: &[&str]) -> Self {
        let against = rows.iter().map(|&r| r.to_owned()).collect();
        Self { against, ..self }
    }
    /// How many times faster than a rival; below 1 it loses.
    pub(crate) fn over(&self, rival: &Rival) -> f64 {
        rival.median_s / self.median_s
    }
    /// How many times faster than its fastest rival.
    pub(crate) fn advantage(&self) -> Option<f64> {
        Some(self.over(self.rivals.first()?))
    }
}

/// The median of some times, by the one definition that every figure of the benchmarks uses: the time in the middle, or
/// the mean of the two in the middle where their number is even. It favours neither side of a comparison.
///
/// # Panics
/// There are no times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    middle(&times)
}

/// The median of sorted times: see [`median`].
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// Finds the rivals of each of the engine's rows. A row with a wrong result is not a rival.
pub(crate) fn compare(outcomes: &mut [Outcome]) {
    let rivals: Vec<Row> = outcomes
        .iter()
        .filter_map(Outcome::row)
        .filter(|r| r.role == Role::Rival && r.verified)
        .cloned()
        .collect();
    for outcome in outcomes {
        let Outcome::Measured(row) = outcome else {
            continue;
        };
        if row.role != Role::Ours || row.case.is_empty() {
            continue;
        }
        let comparable = |r: &&Row| {
            r.bench == row.bench
                && r.case == row.case
                && (row.against.is_empty() || row.against.contains(&r.row))
        };
        row.rivals = rivals
            .iter()
            .filter(comparable)
            .map(|r| Rival {
                row: r.row.clone(),
                median_s: r.median_s * (row.units / r.units),
            })
            .collect();
        row.rivals.sort_by(|a, b| a.median_s.total_cmp(&b.median_s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, role: Role, seconds: f64) -> Outcome {
        let mut row = Row::new("", "task", 1.0, vec![seconds])
            .size(10)
            .role(role)
            .verified(true);
        row.row = name.to_owned();
        Outcome::Measured(Box::new(row))
    }

    #[test]
    fn one_definition_of_the_median_for_rows_rivals_and_limits() {
        let cases: [(&[f64], f64); 4] = [
            (&[3.0], 3.0),
            (&[4.0, 1.0], 2.5),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[8.0, 1.0, 2.0, 4.0], 3.0),
        ];
        for (times, expected) in cases {
            assert_eq!(median(times.to_vec()), expected, "{times:?}");
            let row = Row::new("", "task", 6.0, times.to_vec());
            assert_eq!(row.median_s, expected, "{times:?}");
            assert_eq!(row.per_second, 6.0 / expected, "{times:?}");
        }
    }

    #[test]
    fn statistics_are_those_of_the_times() {
        let row = Row::new("", "task", 10.0, (1..=100).rev().map(f64::from).collect());
        assert_eq!(
            (row.n, row.min_s, row.median_s, row.p99_s),
            (100, 1.0, 50.5, 99.0)
        );
        assert_eq!((row.mean_s, row.per_second), (50.5, 10.0 / 50.5));
        assert!((row.spread_s - 28.866).abs() < 1e-3);
    }

    #[test]
    fn a_row_is_compared_with_the_fastest_verified_rival() {
        let mut outcomes = vec![
            row("ours", Role::Ours, 2.0),
            row("slow", Role::Rival, 6.0),
            row("fast", Role::Rival, 1.0),
            row("limit", Role::Limit, 0.1),
        ];
        compare(&mut outcomes);
        let ours = outcomes[0].row().expect("measured").clone();
        assert_eq!(ours.rivals.first().map(|r| r.row.as_str()), Some("fast"));
        assert_eq!(ours.advantage(), Some(0.5));

        if let Outcome::Measured(fast) = &mut outcomes[2] {
            fast.verified = false;
        }
        compare(&mut outcomes);
        assert_eq!(outcomes[0].row().and_then(Row::advantage), Some(3.0));

        // A rival that did a quarter of the work would need four times as long for all of it.
        if let Outcome::Measured(ours) = &mut outcomes[0] {
            ours.units = 4.0;
        }
        compare(&mut outcomes);
        assert_eq!(outcomes[0].row().and_then(Row::advantage), Some(12.0));
        assert!(outcomes[2].is_bad());
    }

    #[test]
    fn outcomes_survive_a_round_trip_through_json() {
        let skipped = Outcome::Skipped {
            bench: "A".into(),
            row: "x".into(),
            case: "10".into(),
            skipped: "why".into(),
        };
        for outcome in [row("ours", Role::Ours, 0.25), skipped] {
            let text = serde_json::to_string(&outcome).expect("it is JSON");
            let back: Outcome = serde_json::from_str(&text).expect("it is an outcome");
            assert_eq!(back, outcome);
        }
    }
}
