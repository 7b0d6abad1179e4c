//! Processes that others have spawned on the device: the host hears of one when it first calls.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use everwarp_contract::hostcall::number;

use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::process::{Given, Process, Slot};
use crate::request::Request;
use crate::service::Service;
use crate::sink::lock;
use crate::streams::Streams;

/// The process that a request names beside the one that asks.
fn named(request: &Request<'_>) -> Result<(u32, u32)> {
    let number = |k: usize| u32::try_from(request.args[k]).map_err(|_| Errno::INVAL);
    Ok((number(0)?, number(1)?))
}

/// Of a place's last child comes the first one again.
const GENERATIONS: u32 = i32::MAX as u32;

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
        let given = Given {
            config: Arc::new(config),
            number: 0,
            tag: 0,
        };
        let child = Self::new(slot, generation, &given, streams)?;
        Ok(Self {
            stdout: self.stdout.shared(&name),
            stderr: self.stderr.shared(&name),
            ..child
        })
    }
}

impl Service {
    /// What processes ask for that others have spawned, or for them.
    pub(crate) fn of_families(&self, request: &Request<'_>) -> Result {
        match request.kind() {
            number::ADOPT => self.adopt(request),
            _ => self.interrupt_child(request),
        }
    }

    /// Calls off what a child waits for, or will wait for once it is known.
    fn interrupt_child(&self, request: &Request<'_>) -> Result {
        let (slot, generation) = named(request)?;
        self.slot(slot).ok_or(Errno::SRCH)?;
        self.doom(slot, generation);
        Ok(())
    }

    /// Calls off what a process waits for that another one has spawned, or will wait for once it is known. It may have
    /// ended by now, unless it is its parent that asks. Of a process without a slot nothing is known or will be.
    pub fn doom(&self, slot: u32, generation: u32) {
        let Some(place) = self.slot(slot) else { return };
        let there = lock(place);
        if there.generation() == Some(generation) {
            drop(there);
            self.interrupt(slot, generation);
        } else {
            // Under the slot's lock: it is not opened meanwhile.
            let mut doomed = lock(&self.doomed);
            let last = doomed.entry(slot).or_insert(generation);
            // A later one of the slot may have been doomed already. Generations go round.
            if generation.wrapping_sub(*last) & GENERATIONS < 1 << 30 {
                *last = generation;
            }
        }
    }

    /// Opens the process that asks, as a child of the one that it names.
    fn adopt(&self, request: &Request<'_>) -> Result {
        let (slot, generation) = named(request)?;
        let ancestor = self.process(slot, generation)?;
        let child = ancestor.child(request.process, request.generation, self.streams())?;
        let mut place = lock(self.slot(request.process).ok_or(Errno::SRCH)?);
        if place.generation().is_some() {
            return Err(Errno::EXIST);
        }
        let doomed = lock(&self.doomed).remove(&request.process);
        let ends = doomed == Some(request.generation);
        child.ended.store(ends, SeqCst);
        *place = Slot::Open(Arc::new(child));
        Ok(())
    }
}
