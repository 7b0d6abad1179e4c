//! What changes from epoch to epoch, and which sizes the next one may have.

use everwarp_contract::device::{BLOCK_WARPS, CHUNK_TASKS, GROUP_CACHE, LOCAL_TASKS};
use everwarp_engine::{EngineError, Frames, Image, Pools, PreparedImage};

use crate::addition::Loaded;
use crate::kernel::Kernel;

/// The fewest blocks: the first warp of the first block is the ingress warp, and another block runs block-shaped tasks.
const LEAST_BLOCKS: u32 = 2;

/// The code of an epoch.
#[derive(Debug)]
pub(crate) struct Code {
    kernel: Kernel,
    additions: Vec<Loaded>,
}

impl Code {
    /// Gives the memory of the code back. Nothing may be resident, because the driver waits for that.
    pub(crate) fn unload(self) {
        self.kernel.unload();
        self.additions.into_iter().for_each(Loaded::unload);
    }
}

/// What changes from epoch to epoch.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) number: u32,
    pub(crate) blocks: u32,
    /// The most blocks that this image's kernel may have.
    pub(crate) max_blocks: u32,
    pub(crate) resident: bool,
    pub(crate) kernel: Kernel,
    /// What is loaded next to the image, in the order in which it came.
    pub(crate) additions: Vec<Loaded>,
    /// The stack frames of the functions of both.
    pub(crate) frames: Frames,
    pub(crate) image: Image,
}

impl Epoch {
    /// The most blocks that another kernel may have, if it can have the blocks that there are. A larger kernel may allow
    /// fewer than the one before; the tables have room for no more than `reserved`.
    pub(crate) fn limit(&self, occupancy: u32, reserved: u32) -> Result<u32, EngineError> {
        let (asked, max) = (self.blocks, occupancy.min(reserved));
        if max < asked {
            let min = LEAST_BLOCKS;
            return Err(EngineError::Size { asked, min, max });
        }
        Ok(max)
    }

    /// The next epoch runs this image. Returns the code of the one before.
    #[must_use]
    pub(crate) fn exchange(
        &mut self,
        kernel: Kernel,
        max_blocks: u32,
        prepared: &PreparedImage,
    ) -> Code {
        self.max_blocks = max_blocks;
        self.frames = prepared.frames.clone();
        self.image = prepared.image.clone();
        Code {
            kernel: std::mem::replace(&mut self.kernel, kernel),
            additions: std::mem::take(&mut self.additions),
        }
    }

    /// The number of blocks of the next epoch, which is the last one's unless another is asked for.
    pub(crate) fn next_size(&self, asked: Option<u32>, pools: Pools) -> Result<u32, EngineError> {
        let blocks = asked.unwrap_or(self.blocks);
        check_size(blocks, self.max_blocks, pools)?;
        Ok(blocks)
    }
}

/// Refuses sizes that the device cannot hold, and pools too small for what every worker keeps in reserve.
pub(crate) fn check_size(blocks: u32, max_blocks: u32, pools: Pools) -> Result<(), EngineError> {
    if blocks < LEAST_BLOCKS || blocks > max_blocks {
        return Err(EngineError::Size {
            asked: blocks,
            min: LEAST_BLOCKS,
            max: max_blocks,
        });
    }
    let warps = blocks * BLOCK_WARPS;
    if pools.groups < warps * GROUP_CACHE {
        let value = u64::from(pools.groups);
        return Err(EngineError::Pool {
            what: "pools.groups",
            rule: "at least 512 for each resident warp",
            value,
        });
    }
    if pools.tasks < warps * 16 * CHUNK_TASKS {
        let value = u64::from(pools.tasks);
        return Err(EngineError::Pool {
            what: "pools.tasks",
            rule: "at least 512 for each resident warp",
            value,
        });
    }
    const { assert!(LOCAL_TASKS >= 2 * CHUNK_TASKS) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel {
            module: std::ptr::null_mut(),
            raw: std::ptr::null_mut(),
            shared_bytes: 0,
            tables: 0,
        }
    }

    fn epoch(blocks: u32, max_blocks: u32) -> Epoch {
        Epoch {
            number: 1,
            blocks,
            max_blocks,
            resident: false,
            kernel: kernel(),
            additions: Vec::new(),
            frames: Frames::default(),
            image: Image::default(),
        }
    }

    fn prepared() -> PreparedImage {
        PreparedImage {
            image: Image::default(),
            code: Vec::new(),
            frames: Frames::default(),
        }
    }

    /// The limit of the first image used to stay, so that a size was accepted that the driver then refused to launch.
    #[test]
    fn the_limit_of_blocks_is_that_of_the_image_in_use() {
        let (mut epoch, pools) = (epoch(132, 264), Pools::default());
        assert_eq!(epoch.next_size(Some(264), pools).ok(), Some(264));
        let max_blocks = epoch.limit(132, 264).expect("132 blocks fit");
        let _before = epoch.exchange(kernel(), max_blocks, &prepared());
        let refused = epoch.next_size(Some(264), pools);
        let limit = EngineError::Size {
            asked: 264,
            min: 2,
            max: 132,
        };
        assert_eq!(refused.map_err(|e| e.to_string()), Err(limit.to_string()));
        assert_eq!(epoch.next_size(None, pools).ok(), Some(132));
        // A smaller image may have as many blocks as the tables have room for again.
        let max_blocks = epoch.limit(396, 264).expect("132 blocks fit");
        let _before = epoch.exchange(kernel(), max_blocks, &prepared());
        assert_eq!(epoch.next_size(Some(264), pools).ok(), Some(264));
    }

    #[test]
    fn an_image_that_cannot_have_the_blocks_there_are_is_refused() {
        let refused = epoch(264, 264).limit(132, 264);
        assert!(
            matches!(
                refused,
                Err(EngineError::Size {
                    asked: 264,
                    min: 2,
                    max: 132
                })
            ),
            "{refused:?}"
        );
    }
}
