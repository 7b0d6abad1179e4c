//! Long requests of a session, each on a thread of its own.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_engine::trace::spanned;
use everwarp_process::{
    Budget, Exit, Grants, HostError, Input, ModuleId, Pid, ProcessEngine, SpawnRequest,
};

use crate::protocol::{FromEngine, ProcessExit, Reply, body};
use crate::records::CheckedRecords;
use crate::wire::socket::FrameSender;

/// The pids of one message.
const PIDS_MOST: usize = 64 << 10;
/// The exits of one message.
const EXITS_MOST: usize = 4 << 10;
/// The captured bytes of one message.
const CAPTURED_MOST: usize = 256 << 10;

/// A request to start processes whose data has not all come.
pub(super) struct PendingSpawn {
    pub(super) module: u32,
    pub(super) count: u32,
    pub(super) grants: Grants,
    /// How many of the data's first bytes are the standard input that all processes share.
    pub(super) shared: Option<usize>,
    pub(super) expected: u64,
    pub(super) data: Vec<u8>,
    pub(super) stop: Arc<AtomicBool>,
}

/// The processes of a session with their numbers, for listings.
pub(super) type Instances = Mutex<HashMap<Pid, u32, BuildHasherDefault<PidHasher>>>;

/// Spreads pids, whose slots are small numbers of the engine's own choice, over a table. The usual hasher, which also
/// withstands keys that are chosen to collide, takes a tenth of the time that an engine takes for a small process.
#[derive(Default)]
pub(super) struct PidHasher(u64);

impl Hasher for PidHasher {
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// Sends a reply. A client that has gone gets none.
pub(super) fn reply(sender: &FrameSender, request: u32, reply: Reply) {
    drop(sender.send(&body(&FromEngine::Reply { request, reply }), &[]));
}

/// Sends what was captured of a process, in parts. Then it counts as output in flight no longer.
pub(super) fn send_captured(sender: &FrameSender, pid: Pid, exit: &Exit, output: &Budget) {
    for (stderr, captured) in [(false, &exit.stdout), (true, &exit.stderr)] {
        let Some(captured) = captured else { continue };
        for part in captured.bytes.chunks(CAPTURED_MOST) {
            let bytes = Bytes::copy_from_slice(part);
            let message = FromEngine::Captured { pid, stderr, bytes };
            drop(sender.send(&body(&message), &[]));
        }
        output.give(captured.bytes.len() as u64);
    }
}

impl PendingSpawn {
    /// Starts the processes, and sends their pids as they start.
    pub(super) fn run(
        self,
        engine: &dyn ProcessEngine,
        lines: Vec<everwarp_process::InputLines>,
        instances: &Instances,
        send: &(dyn Fn(Reply) + Sync),
    ) {
        let shared = self.shared.unwrap_or(0);
        let checked = spanned("service: check records", || {
            CheckedRecords::check(self.data.into(), shared, self.count, lines)
        });
        let records = match checked {
            Ok(records) => records,
            Err(error) => {
                let text = error.to_string();
                let fault = crate::protocol::SpawnFault::Other { text };
                return send(Reply::Spawned { result: Err(fault) });
            }
        };
        let mut grants = self.grants;
        if self.shared.is_some() {
            grants.stdin = Input::Bytes(records.shared_input());
        }
        let started = |first: u32, pids: &[Pid]| {
            let mut named = lock(instances);
            named.extend(pids.iter().copied().zip(first..));
            drop(named);
            for (part, first) in pids.chunks(PIDS_MOST).zip((first..).step_by(PIDS_MOST)) {
                let pids = part.to_vec();
                send(Reply::Pids { first, pids });
            }
            match self.stop.load(Ordering::Acquire) {
                false => ControlFlow::Continue(()),
                true => ControlFlow::Break(()),
            }
        };
        let result = engine.spawn(&SpawnRequest {
            module: ModuleId(self.module),
            grants: &grants,
            count: self.count,
            write: &|number, start| records.write(number, start),
            started: &started,
        });
        let result = result.map_err(|error| (&error).into());
        send(Reply::Spawned { result });
    }
}

/// Exits that wait to be sent.
#[derive(Default)]
struct ExitBuffer {
    exits: Mutex<(Vec<(Pid, Exit)>, bool)>,
    changed: Condvar,
}

impl ExitBuffer {
    fn add(&self, pid: Pid, exit: Exit) {
        let mut exits = lock(&self.exits);
        exits.0.push((pid, exit));
        let first = exits.0.len() == 1;
        drop(exits);
        if first {
            self.changed.notify_one();
        }
    }

    fn close(&self) {
        lock(&self.exits).1 = true;
        self.changed.notify_one();
    }

    /// All that wait; empty after the end.
    fn take(&self) -> Vec<(Pid, Exit)> {
        let mut exits = lock(&self.exits);
        while exits.0.is_empty() && !exits.1 {
            exits = ignore_poison(self.changed.wait(exits));
        }
        std::mem::take(&mut exits.0)
    }
}

/// Gets exits before the client does.
pub(super) type Waited<'a> = dyn Fn(&[(Pid, Exit)]) + Sync + 'a;

/// Sends the exits of processes in this order, as they come: one thread waits for them while another one sends. `waited`
/// gets each of them before the client does.
pub(super) fn wait_each(
    engine: &dyn ProcessEngine,
    pids: &[Pid],
    sender: &FrameSender,
    request: u32,
    output: &Budget,
    waited: &Waited<'_>,
) -> Result<(), HostError> {
    let send = |exits: &[(Pid, Exit)]| {
        waited(exits);
        for part in exits.chunks(EXITS_MOST) {
            for (pid, exit) in part {
                send_captured(sender, *pid, exit, output);
            }
            let exits = part.iter();
            let exits = exits.map(|(pid, exit)| (*pid, ProcessExit::from(exit)));
            let exits = exits.collect();
            reply(sender, request, Reply::Exits { exits });
        }
    };
    if let [_] = pids {
        // One process needs no second thread.
        return engine.wait_each(pids, &mut |pid, exit| send(&[(pid, exit)]));
    }
    let buffer = ExitBuffer::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let exits = buffer.take();
                if exits.is_empty() {
                    return;
                }
                send(&exits);
            }
        });
        let result = engine.wait_each(pids, &mut |pid, exit| buffer.add(pid, exit));
        buffer.close();
        result
    })
}
