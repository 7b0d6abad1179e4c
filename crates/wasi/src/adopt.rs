//! Processes that others have spawned on the device: the host hears of one when it first calls.

use std::sync::Arc;

use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::process::{Process, Slot};
use crate::request::Request;
use crate::service::Service;
use crate::sink::lock;
use crate::streams::Streams;

impl Process {
    /// A process with this one's streams and directories. Its input is at the end: two that read one stream would
    /// race for its bytes.
    fn child(&self, slot: u32, generation: u32, streams: &Streams) -> Result<Self> {
        let config = Config {
            directories: self.given.directories.clone(),
            handles: self.given.handles,
            ..Config::default()
        };
        let name = format!("{slot}.{generation}");
        let child = Self::new(slot, generation, &Arc::new(config), streams)?;
        Ok(Self {
            stdout: self.stdout.shared(&name),
            stderr: self.stderr.shared(&name),
            ..child
        })
    }
}

impl Service {
    /// Opens the process that asks, as a child of the one that it names.
    pub(crate) fn adopt(&self, request: &Request<'_>) -> Result {
        let number = |k: usize| u32::try_from(request.args[k]).map_err(|_| Errno::INVAL);
        let ancestor = self.process(number(0)?, number(1)?)?;
        let child = ancestor.child(request.process, request.generation, self.streams())?;
        let mut place = lock(self.slot(request.process).ok_or(Errno::SRCH)?);
        if place.generation().is_some() {
            return Err(Errno::EXIST);
        }
        *place = Slot::Open(Arc::new(child));
        Ok(())
    }
}
