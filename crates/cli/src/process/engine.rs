//! What the command asks of a host of processes, whichever engine it is on.

/// A host that runs.
pub(crate) trait Processes: Send + Sync {
    /// Asks all of them to end. That the engine has ended is for others to report.
    fn kill_all(&self);
}

impl Processes for everwarp_process::Host {
    fn kill_all(&self) {
        self.kill_all();
    }
}

impl Processes for everwarp_guest::Host {
    fn kill_all(&self) {
        // A host whose engine has ended says so to whoever waits.
        drop(self.kill_all());
    }
}
