//! `heap_probe`: functions that let tests see what the heap does: every byte of every block is written and read.

mod twin;

use everwarp::{
    Buffer, DevPtr, Engine, Error, Function, Instance, Layout, Program, Shape, dev_struct,
};

use crate::lane;

/// Allocates a block for place `lo`, of `hi` bytes or, where that is 0, of a size that follows from the place, for
/// the owner that the tag says (0: the instance's), and writes the place's pattern. Reports whether it got one.
pub const FILL: u32 = 0;
/// Reports how many bytes of place `lo` are not as they were written.
pub const CHECK: u32 = 1;
/// Frees the block of place `lo`.
pub const EMPTY: u32 = 2;
/// Gives the block of place `lo` a size of `hi` bytes. Reports how many bytes are not as they were, and 2^32 when
/// there was no room.
pub const RESIZE: u32 = 3;
/// `hi` random steps at places `4 lo` to `4 lo + 3`: allocates, resizes, frees. Reports as `RESIZE` does.
pub const CHURN: u32 = 4;
/// A warp with one block of `hi` bytes for place `lo`, which it doubles, and one for each lane; leaves the block
/// when the place is even. Reports as `RESIZE` does.
pub const WARP: u32 = 5;
/// The same by a block.
pub const BLOCK: u32 = 6;
/// Frees what the owner in the tag holds, as part `lo` of `hi`. Reports how many bytes.
pub const RELEASE: u32 = 7;
/// Looks for guards that were overwritten, as part `lo` of `hi`. Reports how many.
pub const SWEEP: u32 = 8;
/// Makes mistake `lo` with a block of `hi` bytes: 1 frees it twice, 2 frees an address that is not the heap's, 3
/// one inside the block, 4 writes behind its end and frees it, 5 only writes.
pub const MISTAKE: u32 = 9;
/// Allocates `hi` bytes for place `lo`, again and again until there is room.
pub const UNTIL: u32 = 10;

dev_struct! {
    /// Parameters of `heap_probe`.
    pub struct DevHeapProbe: align 16, size 32 {
        /// Blocks by place.
        pub blocks: DevPtr<u64>,
        /// What was asked for, by place.
        pub sizes: DevPtr<u32>,
        /// The smallest size.
        pub low: u32,
        /// The largest.
        pub high: u32,
        /// Number of places.
        pub places: u64,
    }
}

/// The program.
pub static PROGRAM: Program = Program {
    name: "heap_probe",
    functions: &[
        lane("fill", twin::fill),
        lane("check", twin::check),
        lane("empty", twin::empty),
        lane("resize", twin::resize),
        lane("churn", twin::churn),
        Function {
            shape: Shape::Warp,
            ..lane("warp", twin::warp)
        },
        Function {
            shape: Shape::Block,
            ..lane("block", twin::block)
        },
        Function {
            shape: Shape::Warp,
            ..lane("release", twin::release)
        },
        Function {
            shape: Shape::Warp,
            ..lane("sweep", twin::sweep)
        },
        lane("mistake", twin::mistake),
        Function {
            max_spawn: 1,
            spawns: true,
            ..lane("until", twin::until)
        },
    ],
    device_source: include_str!("heap_probe.cu"),
    write_params: DevHeapProbe::write_struct,
    params_name: DevHeapProbe::NAME,
};

/// An instance with its places.
#[derive(Debug)]
pub struct HeapProbe {
    /// The instance.
    pub instance: Instance,
    /// Blocks by place.
    pub blocks: Buffer<u64>,
    /// What was asked for, by place.
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
