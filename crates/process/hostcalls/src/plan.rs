//! Which thread serves a call.

use everwarp_contract::hostcall::{BadCall, HostCall};

use crate::read::FileRead;

/// How a call is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// By the thread that has taken it from the ring: it needs no file and no stream, and is answered in less time than
    /// it takes to hand it on.
    Now,
    /// As one of many reads: from the page cache by the thread that has taken it from the ring, if nothing else is in the
    /// queue; otherwise by a worker, which does the reads that it has got through an io_uring.
    Batch(FileRead),
    /// By the worker of its process.
    Work,
    /// By the worker of its process, and it may have to wait: then it is answered later.
    Wait,
}

impl Plan {
    /// The plan for a call.
    pub(crate) const fn of(call: &Result<HostCall, BadCall>) -> Self {
        let Ok(call) = call else {
            return Self::Now;
        };
        match *call {
            HostCall::FdRead { fd, length } => Self::Batch(FileRead {
                fd,
                length,
                at: None,
            }),
            HostCall::FdPread { fd, length, offset } => Self::Batch(FileRead {
                fd,
                length,
                at: Some(offset),
            }),
            HostCall::Nop { .. }
            | HostCall::FdPrestatGet { .. }
            | HostCall::FdPrestatDirName { .. }
            | HostCall::NetAddress { .. }
            | HostCall::NetOption { .. }
            | HostCall::NetSetOption { .. }
            | HostCall::SockShutdown { .. } => Self::Now,
            HostCall::PathOpen { .. }
            | HostCall::PollOneoff { .. }
            | HostCall::FdWrite { .. }
            | HostCall::SockAccept { .. }
            | HostCall::SockRecv { .. }
            | HostCall::SockSend { .. }
            | HostCall::NetConnect { .. }
            | HostCall::NetSendTo { .. }
            | HostCall::NetReceiveFrom { .. }
            | HostCall::NetLookUp { .. }
            | HostCall::NeedFunction { .. } => Self::Wait,
            HostCall::Exit { .. }
            | HostCall::Output { .. }
            | HostCall::Adopt { .. }
            | HostCall::Interrupt { .. }
            | HostCall::CallOff { .. }
            | HostCall::NetLaunch { .. }
            | HostCall::NetSocket { .. }
            | HostCall::NetBind { .. }
            | HostCall::NetListen { .. }
            | HostCall::FdAdvise { .. }
            | HostCall::FdAllocate { .. }
            | HostCall::FdClose { .. }
            | HostCall::FdDatasync { .. }
            | HostCall::FdFdstatGet { .. }
            | HostCall::FdFdstatSetFlags { .. }
            | HostCall::FdFdstatSetRights { .. }
            | HostCall::FdFilestatGet { .. }
            | HostCall::FdFilestatSetSize { .. }
            | HostCall::FdFilestatSetTimes { .. }
            | HostCall::FdPwrite { .. }
            | HostCall::FdReaddir { .. }
            | HostCall::FdRenumber { .. }
            | HostCall::FdSeek { .. }
            | HostCall::FdSync { .. }
            | HostCall::FdTell { .. }
            | HostCall::PathCreateDirectory { .. }
            | HostCall::PathFilestatGet { .. }
            | HostCall::PathFilestatSetTimes { .. }
            | HostCall::PathLink { .. }
            | HostCall::PathReadlink { .. }
            | HostCall::PathRemoveDirectory { .. }
            | HostCall::PathRename { .. }
            | HostCall::PathSymlink { .. }
            | HostCall::PathUnlinkFile { .. } => Self::Work,
        }
    }
}

#[cfg(test)]
mod tests {
    use everwarp_contract::hostcall::{ARGUMENTS_MOST, CALLS, Waits};

    use super::*;

    #[test]
    fn calls_that_may_wait_are_planned_to() {
        for call in CALLS {
            let decoded = HostCall::decode(call.number, [0; ARGUMENTS_MOST]);
            let plan = Plan::of(&decoded);
            let may_wait = match plan {
                Plan::Now | Plan::Work => false,
                // Standard input and connections can be waited for, but have no offsets.
                Plan::Batch(read) => read.at.is_none(),
                Plan::Wait => true,
            };
            assert_eq!(
                may_wait,
                call.waits != Waits::Never,
                "{}: {plan:?}",
                call.name
            );
        }
    }
}
