//! Counting how processes ended.

use std::collections::BTreeMap;

use everwarp::process::{Exit, ExitStatus, Pid};

/// How some processes ended.
pub(super) struct Tally {
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    /// The fuel of all of them; `None` if it was not counted for some process.
    pub(super) fuel_used: Option<u64>,
    /// The first process that failed, in the order of starting.
    pub(super) first_failure: Option<(Pid, ExitStatus)>,
    /// How many exited by themselves, by code. Most processes do, so they need no text each.
    codes: BTreeMap<u32, u32>,
    /// How many ended otherwise, by category.
    categories: BTreeMap<String, u32>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            succeeded: 0,
            failed: 0,
            fuel_used: Some(0),
            first_failure: None,
            codes: BTreeMap::new(),
            categories: BTreeMap::new(),
        }
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

impl Tally {
    /// Counts a process that started after those that have been counted.
    pub(super) fn add(&mut self, pid: Pid, exit: Exit) {
        self.fuel_used = sum(self.fuel_used, exit.fuel_used);
        match exit.status.code() {
            Some(code) => *self.codes.entry(code).or_default() += 1,
            None => *self.categories.entry(exit.status.category()).or_default() += 1,
        }
        if exit.success() {
            self.succeeded += 1;
            return;
        }
        self.failed += 1;
        self.first_failure.get_or_insert((pid, exit.status));
    }

    /// Adds processes that started after these.
    pub(super) fn append(&mut self, later: Self) {
        self.succeeded += later.succeeded;
        self.failed += later.failed;
        self.fuel_used = sum(self.fuel_used, later.fuel_used);
        self.first_failure = self.first_failure.take().or(later.first_failure);
        for (code, count) in later.codes {
            *self.codes.entry(code).or_default() += count;
        }
        for (category, count) in later.categories {
            *self.categories.entry(category).or_default() += count;
        }
    }

    /// How many ended for each reason.
    pub(super) fn reasons(&self) -> BTreeMap<String, u32> {
        let codes = self.codes.iter();
        let codes = codes.map(|(&code, &n)| (ExitStatus::Exited(code).to_string(), n));
        let categories = self.categories.iter().map(|(key, &n)| (key.clone(), n));
        codes.chain(categories).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn exit(status: ExitStatus, fuel_used: Option<u64>) -> Exit {
        Exit {
            status,
            fuel_used,
            elapsed: Duration::ZERO,
            stdout: None,
            stderr: None,
        }
    }

    fn tally(ends: &[(u32, ExitStatus)]) -> Tally {
        let mut tally = Tally::default();
        for (slot, status) in ends {
            tally.add(Pid::new(*slot, 1), exit(status.clone(), Some(10)));
        }
        tally
    }

    #[test]
    fn tallies_of_parts_add_up_to_the_tally_of_all() {
        let ends = [
            (0, ExitStatus::Exited(0)),
            (1, ExitStatus::Exited(0)),
            (2, ExitStatus::Killed),
            (3, ExitStatus::Exited(7)),
            (4, ExitStatus::Killed),
        ];
        for cut in 0..=ends.len() {
            let (first, later) = ends.split_at(cut);
            let mut all = tally(first);
            all.append(tally(later));
            assert_eq!((all.succeeded, all.failed, all.fuel_used), (2, 3, Some(50)));
            let reasons = [("exit code 0", 2), ("exit code 7", 1), ("killed", 2)];
            let reasons = reasons.map(|(key, n)| (key.to_owned(), n));
            assert_eq!(all.reasons(), BTreeMap::from(reasons));
            let first = (Pid::new(2, 1), ExitStatus::Killed);
            assert_eq!(all.first_failure, Some(first));
        }
    }

    #[test]
    fn fuel_is_unknown_if_one_process_did_not_count_it() {
        let mut all = tally(&[(0, ExitStatus::Killed)]);
        all.add(Pid::new(1, 1), exit(ExitStatus::Killed, None));
        assert_eq!(all.fuel_used, None);
        let mut others = tally(&[(2, ExitStatus::Killed)]);
        others.append(all);
        assert_eq!(others.fuel_used, None);
    }
}
