//! How places are divided among the tasks that start and wake processes: up to 32 places in each.

use crate::layout::START_PROCESSES;

/// How many of `together` processes a warp starts side by side: as few as leave none waiting, but all of its lanes if
/// some wait in any case. Lanes that diverge take turns, although many of them meet again and again: 32 processes that
/// validate documents took a warp 16 ms, 24 took 14, 16 took 12 and 8 took 10.
pub(super) fn width(together: usize, workers: u32) -> u32 {
    let each = together.max(1).div_ceil(workers.max(1) as usize);
    each.min(START_PROCESSES as usize) as u32
}

/// Divides places, which ascend, into tasks of up to `width` places each. A task is its first place and a mask of the 32
/// places from there on.
pub(super) fn runs(places: impl Iterator<Item = u32>, width: u32) -> Vec<(u32, u32)> {
    let mut tasks: Vec<(u32, u32)> = Vec::new();
    for place in places {
        match tasks.last_mut() {
            Some((first, mask))
                if place - *first < START_PROCESSES && mask.count_ones() < width =>
            {
                *mask |= 1 << (place - *first);
            }
            _ => tasks.push((place, 1)),
        }
    }
    tasks
}

/// Adjacent places whose processes start at once, `width` of them in each warp. If one warp suffices, the mask says which
/// places they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) width: u32,
    pub(super) mask: u32,
}

/// Joins adjacent tasks without gaps. All tasks of a row are equally wide, except for a narrower last one.
pub(super) fn spreads(tasks: &[(u32, u32)]) -> Vec<Spread> {
    let mut all: Vec<Spread> = Vec::new();
    for &(first, mask) in tasks {
        let width = mask.count_ones();
        let gapless = mask.trailing_ones() == width;
        match all.last_mut() {
            Some(row)
                if gapless
                    && row.mask.trailing_ones() == row.width
                    && row.first + row.count == first
                    && row.count % row.width == 0
                    && width <= row.width =>
            {
                row.count += width;
            }
            _ => all.push(Spread {
                first,
                count: width,
                width,
                mask,
            }),
        }
    }
    all
}

/// Divides places, which ascend, into tasks of up to `width` places of one group of 32. A task is the group's number and a
/// mask.
pub(super) fn masks(places: impl Iterator<Item = u32>, width: u32) -> Vec<(u32, u32)> {
    let mut tasks: Vec<(u32, u32)> = Vec::new();
    for place in places {
        let (group, bit) = (place / START_PROCESSES, 1 << (place % START_PROCESSES));
        match tasks.last_mut() {
            Some((last, mask)) if *last == group && mask.count_ones() < width => *mask |= bit,
            _ => tasks.push((group, bit)),
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_each_place_once_and_stay_in_their_group() {
        let places = [0, 1, 2, 31, 32, 33, 64, 95, 96];
        for width in [1, 2, 32] {
            let tasks = masks(places.into_iter(), width);
            let mut seen = Vec::new();
            for (group, mask) in tasks {
                assert!(mask.count_ones() <= width);
                seen.extend(
                    (0..32)
                        .filter(|b| mask >> b & 1 != 0)
                        .map(|b| group * 32 + b),
                );
            }
            assert_eq!(seen, places);
        }
        assert_eq!(masks(0..64, 32), [(0, u32::MAX), (1, u32::MAX)]);
    }

    #[test]
    fn runs_cover_each_place_once_from_any_first_place() {
        let places = [3, 4, 5, 34, 35, 36, 67, 68, 100];
        assert_eq!(
            runs(places.into_iter(), 32),
            [(3, 1 << 31 | 7), (35, 3), (67, 3), (100, 1)]
        );
        assert_eq!(runs(0..5, 2), [(0, 3), (2, 3), (4, 1)]);
        assert_eq!(runs(7..39, 32), [(7, u32::MAX)]);
    }

    #[test]
    fn adjacent_tasks_without_a_gap_are_joined() {
        let row = |first, count, width, mask| Spread {
            first,
            count,
            width,
            mask,
        };
        let tasks = runs(3..103, 24);
        assert_eq!(spreads(&tasks), [row(3, 100, 24, 0xff_ffff)]);
        // A narrower task ends a row, and so does a gap within a task or between two.
        let tasks = [(0, 7), (3, 7), (6, 1), (7, 7), (11, 7), (14, 5), (17, 7)];
        assert_eq!(
            spreads(&tasks),
            [
                row(0, 7, 3, 7),
                row(7, 3, 3, 7),
                row(11, 3, 3, 7),
                row(14, 2, 2, 5),
                row(17, 3, 3, 7),
            ]
        );
        let groups = [(0, u32::MAX), (32, u32::MAX), (64, 0xff), (96, u32::MAX)];
        assert_eq!(
            spreads(&groups),
            [row(0, 72, 32, u32::MAX), row(96, 32, 32, u32::MAX)]
        );
    }

    #[test]
    fn warps_are_filled_when_there_are_more_processes_than_lanes() {
        assert_eq!(width(0, 2112), 1);
        assert_eq!(width(2112, 2112), 1);
        assert_eq!(width(8192, 2112), 4);
        assert_eq!(width(67_584, 2112), 32);
        assert_eq!(width(100_000, 2112), 32);
        assert_eq!(width(5, 0), 5);
    }
}
