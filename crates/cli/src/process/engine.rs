//! What the command asks of a host of processes, whichever engine it is on.

use everwarp_process::{Listing, Pid, ProcessEngine};

/// A host that runs.
pub(crate) trait Processes: Send + Sync {
    /// `cpu` or `cuda`.
    fn engine(&self) -> &'static str;
    /// The processes that have not been waited for, of which `most` at most are described.
    fn list(&self, most: usize) -> Result<Listing, String>;
    /// Asks a process to end; false if there is none of that name.
    fn kill(&self, pid: Pid) -> Result<bool, String>;
    /// Asks all of them to end. That the engine has ended is for others to report.
    fn kill_all(&self);
}

impl Processes for everwarp_process_cpu::CpuProcesses {
    fn engine(&self) -> &'static str {
        "cpu"
    }

    fn list(&self, most: usize) -> Result<Listing, String> {
        ProcessEngine::list(self, most).map_err(|e| e.to_string())
    }

    fn kill(&self, pid: Pid) -> Result<bool, String> {
        ProcessEngine::kill(self, pid).map_err(|e| e.to_string())
    }

    fn kill_all(&self) {
        drop(ProcessEngine::kill_all(self));
    }
}

impl Processes for everwarp_process_cuda::CudaProcesses {
    fn engine(&self) -> &'static str {
        "cuda"
    }

    fn list(&self, most: usize) -> Result<Listing, String> {
        ProcessEngine::list(self, most).map_err(|e| e.to_string())
    }

    fn kill(&self, pid: Pid) -> Result<bool, String> {
        ProcessEngine::kill(self, pid).map_err(|e| e.to_string())
    }

    fn kill_all(&self) {
        // A host whose engine has ended says so to whoever waits.
        drop(ProcessEngine::kill_all(self));
    }
}
