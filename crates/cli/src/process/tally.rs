//! How processes ended, counted.

use std::collections::BTreeMap;

use everwarp_process::Pid;

/// How a process ended.
pub(super) struct Ended {
    pub(super) how: How,
    pub(super) fuel_used: u64,
}

/// Why a process ended.
pub(super) enum How {
    /// By itself, with this code. Most do, so that no words are made for each.
    Code(u32),
    /// Otherwise: the kind of end, for counting, and the end in words.
    Words { key: String, reason: String },
}

impl How {
    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Code(code) => Some(*code),
            Self::Words { .. } => None,
        }
    }

    pub(super) fn reason(self) -> String {
        match self {
            Self::Code(code) => exit_code(code),
            Self::Words { reason, .. } => reason,
        }
    }
}

fn exit_code(code: u32) -> String {
    format!("exit code {code}")
}

/// The ends of some processes.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    pub(super) fuel_used: u64,
    /// The first that failed, by the order of beginning.
    pub(super) first: Option<(Pid, How)>,
    codes: BTreeMap<u32, u32>,
    words: BTreeMap<String, u32>,
}

impl Tally {
    /// Counts one that began behind those that are counted.
    pub(super) fn add(&mut self, pid: Pid, ended: Ended) {
        self.fuel_used = self.fuel_used.saturating_add(ended.fuel_used);
        match &ended.how {
            How::Code(code) => *self.codes.entry(*code).or_default() += 1,
            How::Words { key, .. } => *self.words.entry(key.clone()).or_default() += 1,
        }
        if ended.how.code() == Some(0) {
            self.succeeded += 1;
            return;
        }
        self.failed += 1;
        self.first.get_or_insert((pid, ended.how));
    }

    /// Adds those that began behind these.
    pub(super) fn append(&mut self, behind: Self) {
        self.succeeded += behind.succeeded;
        self.failed += behind.failed;
        self.fuel_used = self.fuel_used.saturating_add(behind.fuel_used);
        self.first = self.first.take().or(behind.first);
        for (code, count) in behind.codes {
            *self.codes.entry(code).or_default() += count;
        }
        for (key, count) in behind.words {
            *self.words.entry(key).or_default() += count;
        }
    }

    /// How many ended for each reason.
    pub(super) fn reasons(&self) -> BTreeMap<String, u32> {
        let codes = self.codes.iter().map(|(code, &n)| (exit_code(*code), n));
        let words = self.words.iter().map(|(key, &n)| (key.clone(), n));
        codes.chain(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(ends: &[(u32, Option<u32>)]) -> Tally {
        let mut tally = Tally::default();
        for &(slot, code) in ends {
            let how = match code {
                Some(code) => How::Code(code),
                None => How::Words {
                    key: "trap".to_owned(),
                    reason: format!("trap in {slot}"),
                },
            };
            let ended = Ended { how, fuel_used: 10 };
            tally.add(Pid::new(slot, 1), ended);
        }
        tally
    }

    #[test]
    fn parts_together_are_the_whole() {
        let ends = [
            (0, Some(0)),
            (1, Some(0)),
            (2, None),
            (3, Some(7)),
            (4, None),
        ];
        for cut in 0..=ends.len() {
            let (before, behind) = ends.split_at(cut);
            let mut all = tally(before);
            all.append(tally(behind));
            assert_eq!((all.succeeded, all.failed, all.fuel_used), (2, 3, 50));
            let reasons = [("exit code 0", 2), ("exit code 7", 1), ("trap", 2)];
            let reasons = reasons.map(|(key, n)| (key.to_owned(), n));
            assert_eq!(all.reasons(), BTreeMap::from(reasons));
            let (pid, how) = all.first.expect("some have failed");
            assert_eq!((pid, how.code()), (Pid::new(2, 1), None));
            assert_eq!(how.reason(), "trap in 2");
        }
    }
}
