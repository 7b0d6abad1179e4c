//! The twin of `cached_file.rs` for systems without such calls: nothing is opened here.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[derive(Debug)]
pub(crate) struct OpenedAs {
    pub(crate) directory: u32,
    pub(crate) lookup: i32,
    pub(crate) path: Vec<u8>,
    pub(crate) base: i64,
    pub(crate) inheriting: i64,
    pub(crate) flags: i32,
}

/// There is none.
#[derive(Debug)]
pub(crate) struct CachedFile {
    none: std::convert::Infallible,
    pub(crate) position: AtomicU64,
    pub(crate) opened_as: OpenedAs,
}

#[expect(dead_code, reason = "the other system has more outcomes")]
pub(crate) enum Attempt {
    Opened(CachedFile),
    Other(File),
    No,
}

pub(crate) fn only_reads(_: i32, _: i64, _: i32) -> bool {
    false
}

pub(crate) fn attempt(_: &File, _: OpenedAs) -> Attempt {
    Attempt::No
}

pub(crate) fn stat(_: &File, _: &[u8], _: bool) -> Option<[u64; 8]> {
    None
}

impl CachedFile {
    pub(crate) fn stat(&self) -> io::Result<[u64; 8]> {
        match self.none {}
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        match self.none {}
    }

    pub(crate) fn read(&self, _: &mut [u8], _: u64) -> Option<usize> {
        match self.none {}
    }

    pub(crate) fn seek(&self, _: i64, _: i32) -> io::Result<Option<u64>> {
        match self.none {}
    }
}

pub(crate) fn read_fully(_: &File, _: u64, _: usize) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}
