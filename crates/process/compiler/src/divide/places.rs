//! Where a place of a divided module was in the module that was divided.

/// Bytes that were copied, or made for something at one place.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Their first offset now.
    now: usize,
    /// What was there.
    then: usize,
    /// All of them are for that one place.
    made: bool,
}

/// For each place of a divided module that of the original one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    runs: Vec<Run>,
    /// The number of the first part.
    first: usize,
    /// For each part the function that it is of.
    parts: Vec<u32>,
}

impl Places {
    pub(super) fn new(first: usize) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    /// Bytes from `now` on are those from `then` on. Calls are in the order of `now`.
    pub(super) fn copied(&mut self, now: usize, then: usize) {
        if let Some(last) = self.runs.last()
            && !last.made
            && then.wrapping_sub(last.then) == now - last.now
        {
            return;
        }
        self.runs.push(Run {
            now,
            then,
            made: false,
        });
    }

    /// Bytes from `now` on were made for what was at `then`.
    pub(super) fn made(&mut self, now: usize, then: usize) {
        self.runs.push(Run {
            now,
            then,
            made: true,
        });
    }

    /// The next part is one of this function.
    pub(super) fn part_of(&mut self, function: u32) {
        self.parts.push(function);
    }

    /// Adds those of code that is now at this offset.
    pub(super) fn append(&mut self, code: &Self, at: usize) {
        for run in &code.runs {
            let now = run.now + at;
            self.runs.push(Run { now, ..*run });
        }
    }

    /// The original function of a function.
    pub(crate) fn function(&self, function: u32) -> u32 {
        let part = (function as usize).checked_sub(self.first);
        let of = part.and_then(|part| self.parts.get(part));
        of.copied().unwrap_or(function)
    }

    /// The original offset of an offset in the code. Zero, which is no place, stays.
    pub(crate) fn offset(&self, offset: usize) -> usize {
        let after = self.runs.partition_point(|run| run.now <= offset);
        let Some(run) = after.checked_sub(1).map(|at| &self.runs[at]) else {
            return offset;
        };
        match run.made {
            true => run.then,
            false => run.then + (offset - run.now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_again() {
        let mut code = Places::default();
        code.copied(0, 40);
        code.copied(5, 45);
        code.made(10, 50);
        code.copied(14, 60);
        assert_eq!(code.runs.len(), 3);
        let mut places = Places::new(7);
        places.append(&code, 100);
        places.part_of(3);
        assert_eq!(
            [0, 100, 107, 110, 113, 114, 120].map(|at| places.offset(at)),
            [0, 40, 47, 50, 50, 60, 66]
        );
        assert_eq!([2, 7, 8].map(|f| places.function(f)), [2, 3, 8]);
    }
}
