//! `heap_probe`: functions that let tests see what the heap does: every byte of every block is written and read.

#[path = "heap_probe.rs"]
mod twin;

use everwarp::{Buffer, DevPtr, Engine, Error, Instance, dev_struct, program};

use twin::{block, check, churn, empty, fill, mistake, release, resize, sweep, until, warp};

dev_struct! {
    /// Parameters of `heap_probe`.
    pub struct DevHeapProbe: align 16, size 32 {
        /// Blocks by place.
        pub blocks: DevPtr<u64>,
        /// The requested sizes, by place.
        pub sizes: DevPtr<u32>,
        /// The smallest size.
        pub low: u32,
        /// The largest.
        pub high: u32,
        /// Number of places.
        pub places: u64,
    }
}

program! {
    /// The program.
    pub static PROGRAM: heap_probe(DevHeapProbe), "heap_probe.cu"; wgsl "heap_probe.wgsl" {
        /// Allocates a block for place `lo` and writes the place's pattern. The block has `hi` bytes; where `hi` is 0, its
        /// size follows from the place. It belongs to the owner in the tag (0: the instance's own). Reports 1 if there was
        /// room.
        FILL: lane(fill),
        /// Reports how many bytes of place `lo` are not as they were written.
        CHECK: lane(check),
        /// Frees the block of place `lo`.
        EMPTY: lane(empty),
        /// Gives the block of place `lo` a size of `hi` bytes. Reports how many bytes changed, and 2^32 when there was no
        /// room.
        RESIZE: lane(resize),
        /// Takes `hi` random steps at places `4 lo` to `4 lo + 3`: allocates, resizes, frees. Reports as `RESIZE` does.
        CHURN: lane(churn),
        /// A warp with one block of `hi` bytes for place `lo`, which it doubles, and one block for each lane. It leaves the
        /// block of an even place. Reports as `RESIZE` does.
        WARP: warp(warp),
        /// As `WARP`, by a block of threads.
        BLOCK: block(block),
        /// Frees all blocks of the owner in the tag, as part `lo` of `hi`. Reports how many bytes.
        RELEASE: warp(release),
        /// Looks for guards that were overwritten, as part `lo` of `hi`. Reports how many.
        SWEEP: warp(sweep),
        /// Makes mistake `lo` with a block of `hi` bytes: 1 frees it twice, 2 frees an address outside the heap, 3 frees an
        /// address inside the block, 4 writes past its end and frees it, 5 only writes past its end.
        MISTAKE: lane(mistake),
        /// Allocates `hi` bytes for place `lo`, again and again until there is room.
        UNTIL: lane(until).spawns(1),
    }
}

/// An instance with its places.
#[derive(Debug)]
pub struct HeapProbe {
    /// The instance.
    pub instance: Instance,
    /// Blocks by place.
    pub blocks: Buffer<u64>,
    /// The requested sizes, by place.
    pub sizes: Buffer<u32>,
}

impl HeapProbe {
    /// Prepares `places` places for blocks of `low` to `high` bytes.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(engine: &Engine, places: usize, low: u32, high: u32) -> Result<Self, Error> {
        let (blocks, sizes) = (engine.buffer(places)?, engine.buffer(places)?);
        let params = DevHeapProbe {
            blocks: blocks.ptr(),
            sizes: sizes.ptr(),
            low,
            high,
            places: places as u64,
        };
        // SAFETY: the buffers have `places` elements and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            blocks,
            sizes,
        })
    }
}
