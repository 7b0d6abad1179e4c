//! Twins of `share.wgsl` and `turn.wgsl`, statement for statement: how workgroups divide their tasks at the beginning of a
//! dispatch, and how the tasks that a turn does not run are packed. A change there is a change here.

use proptest::prelude::*;

/// The most submissions that a workgroup takes in one dispatch: `WGPU_INTAKE`.
const INTAKE: u32 = everwarp_contract::wgpu::WGPU_INTAKE;
const THREADS: usize = everwarp_contract::wgpu::WGPU_THREADS as usize;

/// What every workgroup reads.
#[derive(Clone, Debug)]
struct Counts {
    /// Tasks that wait, and the room for more, by workgroup.
    workgroups: Vec<(u32, u32)>,
    /// Workgroups that run tasks.
    size: u32,
    /// Submissions that are not taken yet.
    submitted: u32,
}

/// What one workgroup does: tasks it gives, the range it takes of all that are given, and the range of submissions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    gives: u32,
    takes: (u32, u32),
    accepts: (u32, u32),
}

/// `division`: gives, takes of others, takes of submissions, at most.
fn division(counts: &Counts, workgroup: usize, average: u32, each: u32) -> [u32; 3] {
    let (has, room) = counts.workgroups[workgroup];
    if workgroup as u32 >= counts.size {
        return [has, 0, 0];
    }
    let space = room / 2;
    [
        has.saturating_sub(average),
        match has * 2 < average {
            true => (average - has).min(space),
            false => 0,
        },
        each.min(INTAKE).min(space),
    ]
}

/// `share`, as one workgroup computes it.
fn share(counts: &Counts, own: usize) -> Part {
    let waiting: u32 = counts.workgroups.iter().map(|w| w.0).sum();
    let average = waiting.div_ceil(counts.size);
    let each = counts.submitted.div_ceil(counts.size);
    let (mut before, mut mine) = ([0; 3], ([0; 3], [0; 3]));
    for i in 0..counts.workgroups.len() {
        let one = division(counts, i, average, each);
        if i == own {
            mine = (before, one);
        }
        for k in 0..3 {
            before[k] += one[k];
        }
    }
    let moved = before[0].min(before[1]);
    let accepted = before[2].min(counts.submitted);
    let (begin, one) = mine;
    let range = |k: usize, most: u32| (begin[k].min(most), (begin[k] + one[k]).min(most));
    let given = range(0, moved);
    Part {
        gives: given.1 - given.0,
        takes: range(1, moved),
        accepts: range(2, accepted),
    }
}

fn counts() -> impl Strategy<Value = Counts> {
    let workgroup = (0_u32..5000, 0_u32..8000);
    let workgroups = proptest::collection::vec(workgroup, 1..70);
    (workgroups, any::<u32>(), 0_u32..40_000).prop_map(|(workgroups, size, submitted)| Counts {
        size: 1 + size % workgroups.len() as u32,
        workgroups,
        submitted,
    })
}

/// The tasks that a turn takes of the newest ones, and those that stay: these keep their order and move together.
fn pack(stage: &[u32], matches: &[bool], most: usize) -> (Vec<u32>, Vec<u32>) {
    let n = stage.len().min(2 * THREADS);
    let run = matches[..n].iter().filter(|m| **m).count().min(most);
    let (mut taken, mut packed) = (vec![u32::MAX; run], stage.to_vec());
    // Each lane has a newer and an older task.
    for at in 0..n {
        let task = stage[stage.len() - 1 - at];
        let place = matches[..at].iter().filter(|m| **m).count();
        if place < run {
            match matches[at] {
                true => taken[place] = task,
                false => packed[stage.len() - run - 1 - (at - place)] = task,
            }
        }
    }
    packed.truncate(stage.len() - run);
    (taken, packed)
}

proptest! {
    #[test]
    fn every_moved_task_is_given_once_and_taken_once(counts in counts()) {
        let parts: Vec<_> = (0..counts.workgroups.len()).map(|i| share(&counts, i)).collect();
        let given: u32 = parts.iter().map(|p| p.gives).sum();
        // The ranges follow each other without a gap, and end where the given tasks end.
        let (mut taken, mut accepted) = (0, 0);
        for (part, &(has, room)) in parts.iter().zip(&counts.workgroups) {
            prop_assert_eq!(part.takes.0, taken);
            prop_assert_eq!(part.accepts.0, accepted);
            (taken, accepted) = (part.takes.1, part.accepts.1);
            prop_assert!(part.gives <= has);
            let comes = part.takes.1 - part.takes.0 + part.accepts.1 - part.accepts.0;
            prop_assert!(comes <= room, "there is room for all that comes");
            prop_assert!(part.gives == 0 || part.takes.0 == part.takes.1, "none gives and takes");
        }
        prop_assert_eq!(taken, given);
        prop_assert!(accepted <= counts.submitted);
    }

    #[test]
    fn workgroups_that_do_not_run_keep_nothing_that_others_can_take(counts in counts()) {
        let (mut left, mut wanted) = (0, 0);
        for (i, &(has, _)) in counts.workgroups.iter().enumerate() {
            let part = share(&counts, i);
            if i as u32 >= counts.size {
                left += has - part.gives;
                prop_assert_eq!(part.takes.0, part.takes.1);
            } else {
                let waiting: u32 = counts.workgroups.iter().map(|w| w.0).sum();
                let one = division(&counts, i, waiting.div_ceil(counts.size), 0);
                wanted += one[1] - (part.takes.1 - part.takes.0);
            }
        }
        prop_assert!(left == 0 || wanted == 0, "{left} tasks stay and {wanted} could be taken");
    }

    #[test]
    fn tasks_that_stay_keep_their_order(
        matches in proptest::collection::vec(any::<bool>(), 1..200),
        most in 1_usize..65,
    ) {
        let stage: Vec<u32> = (0..matches.len() as u32).collect();
        let (mut taken, packed) = pack(&stage, &matches, most);
        prop_assert!(packed.is_sorted(), "{packed:?}");
        prop_assert!(taken.len() <= most);
        prop_assert!(taken.iter().rev().is_sorted(), "the newest first: {taken:?}");
        taken.extend(packed);
        taken.sort_unstable();
        prop_assert_eq!(taken, stage);
    }
}
