//! What has ended, before it is passed on.

use std::rc::Rc;

use everwarp_pages::Run;

use crate::errno::FileErrno;
use crate::open_file::{OfJob, OpenFile};
use crate::request::After;

/// A request of a file that has ended.
#[derive(Debug)]
pub(crate) struct EndedRequest {
    pub(crate) file: Rc<OfJob<OpenFile>>,
    pub(crate) after: After,
    pub(crate) result: Result<u32, FileErrno>,
}

/// A read of pages that has ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    pub(crate) run: Run,
    /// How many bytes there were.
    pub(crate) got: u64,
    /// An error number.
    pub(crate) error: Option<u32>,
    /// A bit for each page whose word says already that the page is there.
    pub(crate) named: u64,
}
