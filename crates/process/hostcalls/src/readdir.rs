//! `fd_readdir`: a listing that does not change while a process reads it.
//!
//! A cookie is the number of entries before it; `.` and `..` are the first two. The listing is taken at cookie 0
//! and kept with the descriptor, so that files that others create and remove meanwhile neither hide an entry nor show
//! one twice. The system's own cookies would do without keeping anything, but not every file system's survive a
//! removal. A process keeps the last [`LISTINGS`] of them, or one with many descriptors of a large directory would
//! take much memory of the host's. A listing that has been dropped is taken anew when it is asked for.

use std::sync::Arc;

use everwarp_contract::hostcall::Fd;
use everwarp_engine::sync::lock;

use crate::errno::Result;
use crate::listing::Listing;
use crate::open::Descriptor;
use crate::process::Process;
use crate::request::Reply;

/// Listings that a process keeps at a time: mostly enough for a walk through a tree.
const LISTINGS: usize = 16;

/// Brings back up to `length` bytes of the listing from `cookie` on, without the first `skip` bytes.
pub(crate) fn readdir(
    process: &Process,
    fd: Fd,
    length: usize,
    (cookie, skip): (u64, u64),
    reply: &mut Reply,
) -> Result {
    let descriptor = process.descriptor(fd)?;
    let dir = descriptor.directory()?;
    let kept = lock(&dir.listing)
        .as_ref()
        .filter(|_| (cookie, skip) != (0, 0))
        .map(Arc::clone);
    let listing = match kept {
        Some(listing) => listing,
        None => {
            let taken = Arc::new(Listing::take(&dir.dir)?);
            let first = lock(&dir.listing).replace(Arc::clone(&taken)).is_none();
            if first {
                process.keep_listing(&descriptor);
            }
            taken
        }
    };
    listing.write(cookie, skip, length, &mut reply.data);
    reply.count();
    Ok(())
}

impl Process {
    /// Notes that a descriptor has a listing. If there are too many, the oldest listing is dropped.
    fn keep_listing(&self, of: &Arc<Descriptor>) {
        let mut listed = lock(&self.listed);
        // A directory that has been closed took its listing along.
        listed.retain(|descriptor| descriptor.strong_count() > 0);
        listed.push_back(Arc::downgrade(of));
        let oldest = if listed.len() > LISTINGS {
            listed.pop_front()
        } else {
            None
        };
        if let Some(Descriptor::Directory(dir)) =
            oldest.and_then(|oldest| oldest.upgrade()).as_deref()
        {
            *lock(&dir.listing) = None;
        }
    }
}
