//! `words`: counts the words of a file that may be larger than the engine's memory. Each buffer has a task that reads a
//! piece of the file into it, counts, and goes on with the next piece; no thread waits for the disk.

mod entry;
#[path = "words.rs"]
mod twin;

use std::fs::File;
use std::sync::Arc;

use everwarp::files::{
    DevFiles, FILE_DOOR_STEP, FILE_SPAWNS, FileErrno, Files, FilesConfig, Rights,
};
use everwarp::{Buffer, DevPtr, Engine, Instance, dev_struct, program};

use crate::native::RunError;
use twin::{again, count, door, next};

pub use entry::WordCount;

dev_struct! {
    /// Parameters of `words`.
    pub struct DevWordCount: align 16, size 176 {
        /// The files.
        pub files: DevFiles,
        /// The next piece of the file, and what went wrong: [`SHORTER`] plus the piece, or an error number.
        pub control: DevPtr<u64>,
        /// The piece that each buffer has.
        pub pieces: DevPtr<u64>,
        /// The buffers.
        pub bytes: DevPtr<u8>,
        /// Bytes of the file.
        pub size: u64,
        /// Bytes from one buffer to the next: those of a piece and the byte before it.
        pub stride: u32,
        /// Bytes of a piece.
        pub piece: u32,
        /// The file.
        pub handle: u32,
        /// Spelled-out hole.
        pub hole: u32,
    }
}

program! {
    /// The program.
    pub static PROGRAM: words(DevWordCount), "words.cu" {
        /// Takes the next piece of the file into buffer `lo`.
        NEXT: lane(next).spawns(FILE_SPAWNS),
        /// Asks once more for the piece of buffer `lo`.
        AGAIN: lane(again).spawns(FILE_SPAWNS).breadth_first(),
        /// A warp that counts the words that begin in the piece of a buffer, and goes on with the next.
        COUNT: warp(count).spawns(FILE_SPAWNS),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// In the second control word: the file was shorter than it had been, at the piece that is added to this.
pub const SHORTER: u64 = 1 << 32;

/// A file whose words can be counted.
#[derive(Debug)]
pub struct Words {
    // The files end before the memory that they fill does.
    _files: Files,
    instance: Arc<Instance>,
    control: Buffer<u64>,
    buffers: u32,
    piece: u32,
    _pieces: Buffer<u64>,
    _bytes: Arc<Buffer<u8>>,
}

impl Words {
    /// Prepares to read a file of `size` bytes through buffers of `piece` bytes.
    ///
    /// # Errors
    /// The engine has no files or no memory left, or does not hold the program.
    pub fn new(
        engine: &Engine,
        file: File,
        size: u64,
        buffers: u32,
        piece: u32,
    ) -> Result<Self, RunError> {
        let files = Files::new(
            engine,
            FilesConfig {
                // A slot is free again only when the host waits once more, and by then its request may be done and the next
                // one made.
                requests: (4 * buffers).next_power_of_two().max(1024),
                ..FilesConfig::default()
            },
        )?;
        let handle = files.give(file, Rights::Read, true)?;
        let stride = (piece + 1).next_multiple_of(64);
        let bytes = files.buffer(buffers as usize * stride as usize)?;
        let (control, pieces) = (engine.buffer(2)?, engine.buffer(buffers as usize)?);
        let params = DevWordCount {
            files: files.tables(),
            control: control.ptr(),
            pieces: pieces.ptr(),
            bytes: bytes.ptr(),
            size,
            stride,
            piece,
            handle: handle.0,
            hole: 0,
        };
        // SAFETY: the buffers have these sizes, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            _files: files,
            instance,
            control,
            buffers,
            piece,
            _pieces: pieces,
            _bytes: bytes,
        })
    }
    /// Counts the words.
    ///
    /// # Errors
    /// The file cannot be read, or has become shorter.
    pub fn count(&self, engine: &Engine) -> Result<u64, RunError> {
        self.control.fill_bytes(0)?;
        let task = |buffer: u32| self.instance.task(NEXT).args(buffer, 0).build();
        let tasks: Vec<_> = (0..self.buffers).map(task).collect();
        let words = engine.submit_batch(&tasks)?.wait()?.value;
        let mut control = [0; 2];
        self.control.read_into(&mut control)?;
        match control[1] {
            0 => Ok(words),
            SHORTER.. => Err(RunError::Shorter {
                at: (control[1] - SHORTER).saturating_mul(self.piece.into()),
            }),
            error => Err(RunError::Read(FileErrno(error as u32))),
        }
    }
}

/// Whether a byte is between words.
const fn is_space(byte: u8) -> bool {
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}
