//! How many reads one thread is given at a time: enough to be worth a wake, and so few that other threads have some, too.

/// Cuts a sequence of reads into jobs.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The most reads of a job, and the most bytes of one with two or more.
    reads: usize,
    bytes: u64,
    /// How many more of both the last job may have.
    left: (usize, u64),
}

impl Cut {
    pub(crate) fn new(reads: usize, bytes: u64) -> Self {
        Self {
            reads,
            bytes,
            left: (0, 0),
        }
    }
    /// Whether the next read, of this many bytes, joins those before it. Else it is the first of a job.
    pub(crate) fn joins(&mut self, bytes: u64) -> bool {
        let (reads, most) = self.left;
        let joins = reads > 0 && most >= bytes;
        let (reads, most) = match joins {
            true => (reads, most),
            false => (self.reads, self.bytes),
        };
        self.left = (reads - 1, most.saturating_sub(bytes));
        joins
    }
    /// Nothing joins what came last.
    pub(crate) fn end(&mut self) {
        self.left = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_few_reads_and_few_bytes() {
        let mut cut = Cut::new(3, 100);
        let joined = [10, 20, 30, 1, 99, 1, 500, 0, 40, 40, 20, 10].map(|bytes| cut.joins(bytes));
        assert_eq!(
            joined,
            [
                false, true, true, // three reads
                false, true,  // a hundred bytes
                false, // one hundred and one, and the next one would be more
                false, true, // more than a hundred are alone but for nothing
                false, true, true, // three reads
                false,
            ]
        );
        cut.end();
        assert!(!cut.joins(1));
        assert!(cut.joins(1));
    }

    #[test]
    fn a_job_of_one_read_takes_no_other() {
        let mut cut = Cut::new(1, u64::MAX);
        assert_eq!([0, 5, 0].map(|bytes| cut.joins(bytes)), [false; 3]);
    }
}
