//! The host's side where there is none yet: every system but Linux.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use everwarp_contract::DevFiles;
use everwarp_pages::PageStats;
use everwarp_runtime::{Buffer, Engine, Instance};

use crate::config::{FileHandle, FileStats, FilesConfig, Rights};
use crate::error::FilesError;

/// The files of one instance's tasks. There are none on this system.
#[derive(Debug)]
pub enum Files {}

#[expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "see the files of Linux"
)]
impl Files {
    pub fn new(_: &Engine, _: FilesConfig) -> Result<Self, FilesError> {
        Err(FilesError::LinuxOnly)
    }
    pub fn tables(&self) -> DevFiles {
        match *self {}
    }
    pub fn grant(&self, _: impl AsRef<Path>, _: Rights) -> Result<u32, FilesError> {
        match *self {}
    }
    pub fn give(&self, _: File, _: Rights, _: bool) -> Result<FileHandle, FilesError> {
        match *self {}
    }
    pub fn give_cached(&self, _: File, _: Rights, _: u64) -> Result<FileHandle, FilesError> {
        match *self {}
    }
    pub fn page_stats(&self) -> Option<PageStats> {
        match *self {}
    }
    pub fn backend(&self) -> &'static str {
        match *self {}
    }
    pub fn buffer(&self, _: usize) -> Result<Arc<Buffer<u8>>, FilesError> {
        match *self {}
    }
    pub fn serve(&self, _: &Arc<Instance>, _: u32) -> Result<(), FilesError> {
        match *self {}
    }
    pub fn close(&self) {
        match *self {}
    }
    pub fn stats(&self) -> Result<FileStats, FilesError> {
        match *self {}
    }
}
