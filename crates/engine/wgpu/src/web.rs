//! An image for a browser: its text, and the numbers that the host library computes elsewhere.

use everwarp_contract::Layout;
use everwarp_engine::{EngineError, HeapConfig, Image, Pools, ProgramRef};

use crate::image::{ImageText, function_table};
use crate::sizes::{INBOX, Sizes};

/// The memory that programs reach in a browser, in bytes; every WebGPU binds as much.
const WINDOW: u64 = 64 << 20;

/// A function of a browser's image, by its number.
#[derive(Clone, Debug)]
pub struct WebFunction {
    /// `program_function`; empty for numbers without a function.
    pub name: String,
    /// Its entry in the table of functions.
    pub info: u32,
    /// Whether a root of it needs a counting group.
    pub counted: bool,
}

/// Everything that a small host in JavaScript needs to run an image.
#[derive(Clone, Debug)]
pub struct WebImage {
    /// The text.
    pub wgsl: String,
    /// Workgroups of a dispatch.
    pub workgroups: u32,
    /// Slots of submissions.
    pub inbox: u32,
    /// The words of a `DevRound` that are the same in every dispatch.
    pub round: Vec<u32>,
    /// The buffers in the order of their bindings, from 1 on: their names and bytes.
    pub bytes: Vec<(&'static str, u64)>,
    /// The state before the first dispatch, which is 0 elsewhere: the first word, how many, the first value, and its step.
    pub state: Vec<[u32; 4]>,
    /// The functions.
    pub functions: Vec<WebFunction>,
}

impl WebImage {
    /// Makes the image of some programs.
    ///
    /// # Errors
    /// A program has no WGSL.
    pub fn of(
        programs: impl IntoIterator<Item = impl Into<ProgramRef>>,
    ) -> Result<Self, EngineError> {
        let image = &Image::of(programs.into_iter().collect());
        let text = ImageText::new(image)?;
        let workgroups = 64;
        let pools = Pools {
            submission_slots: 64,
            tokens: 64,
            arena_tasks: 64,
            tasks: workgroups * 4096,
            groups: workgroups * 2048,
            heap: HeapConfig::default(),
        };
        let sizes = Sizes::new(pools, workgroups, WINDOW)?;
        let table = function_table(image);
        let mut functions: Vec<_> = table
            .iter()
            .map(|&info| WebFunction {
                name: String::new(),
                info,
                counted: false,
            })
            .collect();
        for (id, program, function) in image.functions() {
            let entry = &mut functions[id.0 as usize];
            entry.name = format!("{}_{}", program.name, function.name);
            entry.counted = function.spawns;
        }
        Ok(Self {
            wgsl: text.text,
            workgroups,
            inbox: INBOX,
            round: words(sizes.round.bytes()),
            bytes: vec![
                ("window", WINDOW),
                ("params", Sizes::params_bytes()),
                ("tasks", sizes.task_bytes()),
                ("groups", sizes.group_bytes()),
                ("state", sizes.state_bytes()),
                ("inbox", Sizes::inbox_bytes()),
                ("completed", sizes.completion_bytes()),
            ],
            state: runs(&sizes.first_state()),
            functions,
        })
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |b: &[u8]| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

/// The runs of words that are equal or ascend by one; those of zeros are left out.
fn runs(state: &[u32]) -> Vec<[u32; 4]> {
    let mut runs = Vec::<[u32; 4]>::new();
    for (at, &value) in (0_u32..).zip(state) {
        if let Some([first_at, count, first, step]) = runs.last_mut()
            && *first_at + *count == at
        {
            let last = *first + (*count - 1) * *step;
            let next = value.wrapping_sub(last);
            if *count == 1 && next <= 1 || next == *step {
                *step = next;
                *count += 1;
                continue;
            }
        }
        runs.push([at, 1, value, 0]);
    }
    runs.retain(|&[_, _, first, step]| first != 0 || step != 0);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_rebuild_the_state() {
        let state = [0, 0, 5, 5, 5, 6, 0, 1, 2, 3, 0, u32::MAX, u32::MAX, 7];
        let mut rebuilt = [0; 14];
        for [at, count, first, step] in runs(&state) {
            for i in 0..count {
                rebuilt[(at + i) as usize] = first + i * step;
            }
        }
        assert_eq!(rebuilt, state);
        assert!(runs(&[0; 1000]).is_empty());
    }
}
