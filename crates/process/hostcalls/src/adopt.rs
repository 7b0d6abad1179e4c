//! Processes that other processes have spawned on the device. The host learns of one by its first call.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use everwarp_engine::sync::lock;
use everwarp_process::Pid;

use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::process::{Process, ProcessSlot, StartConfig};
use crate::service::Service;
use crate::streams::Streams;

/// The number of generations of a slot. After the last comes the first again.
const GENERATIONS: u32 = i32::MAX as u32;

impl Process {
    /// A process with this one's output streams and directories. Its input is at the end: two processes that read one
    /// stream would compete for its bytes.
    fn child(&self, pid: Pid, streams: &Streams) -> Result<Self> {
        let config = Config {
            directories: self.config.directories.clone(),
            handles: self.config.handles,
            ..Config::default()
        };
        let start = StartConfig {
            config: Arc::new(config),
            number: 0,
            tag: 0,
        };
        let name = pid.to_string();
        let child = Self::new(pid, &start, streams)?;
        Ok(Self {
            stdout: self.stdout.shared(&name),
            stderr: self.stderr.shared(&name),
            ..child
        })
    }
}

impl Service {
    /// Cancels what a child waits for, or will wait for once the host knows it.
    pub(crate) fn interrupt_child(&self, child: Pid) -> Result {
        self.slot(child).ok_or(Errno::SRCH)?;
        self.doom(child);
        Ok(())
    }

    /// Cancels what a process waits for that another process has spawned, or will wait for once the host knows it. It may
    /// have ended by now, unless its parent asks. A process whose slot the table does not have is ignored.
    pub fn doom(&self, process: Pid) {
        let Some(slot) = self.slot(process) else {
            return;
        };
        let there = lock(slot);
        if there.process() == Some(process) {
            drop(there);
            self.interrupt(process);
        } else {
            // Under the slot's lock, so that the slot is not opened meanwhile.
            let mut doomed = lock(&self.doomed);
            let generation = process.generation();
            let last = doomed.entry(process.slot()).or_insert(generation);
            // A later process of the slot may have been doomed already. Generations wrap around.
            if generation.wrapping_sub(*last) & GENERATIONS < 1 << 30 {
                *last = generation;
            }
        }
    }

    /// Opens a process as a child of `ancestor`.
    pub(crate) fn adopt(&self, process: Pid, ancestor: Pid) -> Result {
        let ancestor = self.process(ancestor)?;
        let child = ancestor.child(process, self.streams())?;
        let mut slot = lock(self.slot(process).ok_or(Errno::SRCH)?);
        if slot.process().is_some() {
            return Err(Errno::EXIST);
        }
        let doomed = lock(&self.doomed).remove(&process.slot());
        let ends = doomed == Some(process.generation());
        child.ended.store(ends, SeqCst);
        *slot = ProcessSlot::Open(Arc::new(child));
        Ok(())
    }
}
