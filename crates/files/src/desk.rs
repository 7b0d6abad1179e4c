//! Where threads leave what has happened to pages, for the one that takes it to the pager.
//!
//! 1. No thread that serves files waits for the pager's lock. It leaves its events here with [`add`](Giving::add). If no other thread is at
//!    it, it takes them to the pager, by the rules of [`giving`](crate::giving); else that thread finds them when it looks next.
//! 2. A thread with other work passes this on after some turns. The thread that keeps pages takes over then, and goes on until nothing is
//!    left.
//! 3. Orders are left here for the thread that keeps pages. There are none while others have no answers.

use everwarp_contract::DevFileRequest;
use everwarp_pages::{Order, WriteBack};

use crate::ended::EndedRun;
use crate::giving::Giving;

/// What has happened to pages.
#[derive(Debug)]
pub(crate) enum PageEvents {
    /// Tasks want pages, or will want them.
    Asked(Vec<DevFileRequest>),
    /// Reads have ended.
    Read(Vec<EndedRun>),
    /// Writes have ended, each without an error or with its number.
    Written(Vec<(WriteBack, Result<(), u32>)>),
    /// The answers to the orders that were on their way.
    Answered(Vec<u64>),
}

/// What threads leave for each other.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) events: Giving<PageEvents>,
    /// Orders to be carried out.
    pub(crate) orders: Option<Vec<Order>>,
    /// The thread that keeps pages has to look whether all is over, and whether tasks wait for frames in vain.
    pub(crate) look: bool,
}

impl Desk {
    /// Whether the thread that keeps pages has something to do.
    pub(crate) fn calls(&self) -> bool {
        self.look || self.orders.is_some() || self.events.is_passed()
    }
}
