//! What a service reports to the host that embeds it.

use everwarp_process::Pid;

use crate::exit::ExitReport;
use crate::request::Reply;

/// A process whose request has been answered and that wants to be woken. The request named it, so it is an allegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The process.
    pub process: Pid,
    /// The ring's slot of the request.
    pub slot: u32,
    /// The sequence of the request, which the slot's status shows by now.
    pub sequence: u32,
}

/// A process that has said how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The process.
    pub process: Pid,
    /// The tag that it was opened with; 0 for a process that another process has spawned.
    pub tag: u64,
    /// How it ended.
    pub exit: ExitReport,
}

/// What is known of a function that a process has called and that its image did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionState {
    /// The image that the engine runs has it.
    Present,
    /// It will be present or unavailable some time, because it was asked for.
    Awaited,
    /// It cannot be had.
    Unavailable,
}

/// Receives the service's reports, on the service's threads. It must not panic there.
pub trait Events: Send + Sync {
    /// Requests whose processes want to be woken have been answered.
    fn wake(&self, woken: &[Woken]);
    /// Processes have said how they ended. Their descriptors are closed, their slots may be opened again, and all their
    /// output has been written or is in [`Service::output_errors`](crate::Service::output_errors). The receiver takes
    /// them out of the list.
    fn exited(&self, ended: &mut Vec<Ended>);
    /// A process has called a function that its image did not have: asks for it, unless that has been done, and returns what is
    /// known of it. The service asks again after [`Service::functions_changed`](crate::Service::functions_changed), while it holds a
    /// lock, so this must neither wait nor drop the last owner of the service. The request names process and function, so both are allegations.
    fn function(&self, process: Pid, function: u32) -> FunctionState {
        let _ = (process, function);
        FunctionState::Unavailable
    }
}

/// For a host that needs no reports.
impl Events for () {
    fn wake(&self, _: &[Woken]) {}
    fn exited(&self, _: &mut Vec<Ended>) {}
}

/// Receives the answer of a request that had to wait, and returns the process to wake.
pub type AnswerCallback = Box<dyn FnOnce(&Reply) -> Option<Woken> + Send>;
