//! Handing completions over: into their slots, and to tasks of the door that spawn those that go on.

use std::collections::VecDeque;

use everwarp_contract::files::{FILE_DOOR_DELIVER, FILE_DOOR_STEP};
use everwarp_contract::{DevFileDone, Layout};
use everwarp_runtime::{DevTask, Engine, Error, Pending};

use crate::port::{DONE, Port};
use crate::table_words::words_of;

/// The slots of completions, and the tasks that read them.
#[derive(Debug)]
pub(crate) struct Handover {
    port: Port,
    given: VecDeque<(Pending, usize)>,
    /// The slot that is used next, which counts on.
    next: usize,
    used: usize,
}

/// Waits for a submission.
pub(crate) type Wait<'w> = dyn Fn(&mut Pending) -> Result<u64, Error> + 'w;

/// Whether the giver may wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    Busy,
    Patient,
}

impl Handover {
    pub(crate) fn new(port: Port) -> Self {
        Self {
            port,
            given: VecDeque::new(),
            next: 0,
            used: 0,
        }
    }
    /// Waits for the oldest tasks; false if there are none.
    fn wait(&mut self, wait: &Wait<'_>) -> Result<bool, Error> {
        let Some((mut oldest, count)) = self.given.pop_front() else {
            return Ok(false);
        };
        wait(&mut oldest)?;
        self.used -= count;
        Ok(true)
    }
    /// Frees the slots whose tasks have ended, the oldest first.
    fn reclaim(&mut self) {
        while self
            .given
            .front()
            .is_some_and(|(oldest, _)| oldest.is_done())
        {
            let (_, count) = self.given.pop_front().expect("it is there");
            self.used -= count;
        }
    }
    /// Hands over completions in their order. Returns how many: a busy giver may have had no room for all.
    pub(crate) fn hand_over(
        &mut self,
        engine: &Engine,
        wait: &Wait<'_>,
        done: &[DevFileDone],
        giver: Giver,
    ) -> Result<usize, Error> {
        let slots = self.port.done.len() / DONE;
        let mut handed = 0;
        while handed < done.len() {
            self.reclaim();
            let room = (slots - self.used).min(slots / 2);
            if room == 0 {
                if giver == Giver::Busy {
                    break;
                }
                self.wait(wait)?;
                continue;
            }
            let part = &done[handed..];
            let part = &part[..part.len().min(room)];
            let mut words = Vec::with_capacity(part.len() * DONE);
            for done in part {
                words.extend_from_slice(&words_of::<DONE>(done.bytes()));
            }
            let first = self.next % slots;
            let split = part.len().min(slots - first) * DONE;
            self.port.done.write_at(first * DONE, &words[..split])?;
            if split < words.len() {
                self.port.done.write_at(0, &words[split..])?;
            }
            let pending = match self.submit(engine, part.len(), true) {
                Err(Error::Full { .. }) if giver == Giver::Busy => break,
                // The rings may be full of these very tasks.
                Err(Error::Full { .. }) if self.wait(wait)? => continue,
                Err(Error::Full { .. }) => self.submit(engine, part.len(), false)?,
                submitted => submitted?,
            };
            self.given.push_back((pending, part.len()));
            (self.next, self.used) = (self.next + part.len(), self.used + part.len());
            handed += part.len();
        }
        Ok(handed)
    }
    /// Submits tasks of the door for the next completions. `tries`: it does not wait for room.
    fn submit(&self, engine: &Engine, count: usize, tries: bool) -> Result<Pending, Error> {
        let step = FILE_DOOR_STEP as usize;
        let task = |at: usize| {
            let task = self.port.task(FILE_DOOR_DELIVER);
            task.args((self.next + at) as u32, step.min(count - at) as u32)
        };
        // One task needs no range of the arena.
        match (count <= step, tries) {
            (true, true) => engine.try_submit(task(0)),
            (true, false) => engine.submit(task(0)),
            (false, tries) => {
                let tasks: Vec<DevTask> = (0..count)
                    .step_by(step)
                    .map(|at| task(at).build())
                    .collect();
                match tries {
                    true => engine.try_submit_batch(&tasks),
                    false => engine.submit_batch(&tasks),
                }
            }
        }
    }
}
