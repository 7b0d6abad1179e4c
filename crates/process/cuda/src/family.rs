//! The device memory for channels, children and threads, which the processes of several modules share.
//!
//! It is made for the places of all modules that a host starts with and for the spare places; or, if the first module
//! that needs it is loaded later, for the places that are spare then. Modules join it one by one, before their processes
//! run. Modules that were there before it was made, and did not need it, never join.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use everwarp_engine::sync::lock;
use everwarp_process::{ChannelError, ModuleId};
use everwarp_runtime::{
    Buffer, DevPtr, DevType, Engine, Error, Instance, Layout, LinkedEngine, Pending,
};

use crate::config::MODULES_MOST;
use crate::error::channel_lost;
use crate::layout::DevProcessTable;
use crate::layout::family::{
    ANCHOR_ENDS, ANCHOR_OPENS, CHANNEL_BYTES, CHILD_ENDS, CHILD_STRINGS, DevChannel,
    DevChildRecord, DevHostOp, DevModule, DevRelations, DevWorld, FREE_STACKS, FREE_STRIDE,
    HOST_RECEIVE, MESSAGE_BYTES, NAME_BYTES, SIDE_RECEIVE,
};
use crate::layout::snapshot::ChildRecord;
use crate::module::CompiledModule;
use crate::places::Places;
use crate::program;

/// In a record: no group, or no name.
const NONE: u32 = u32::MAX;
/// By then, the first task of an engine has run.
const PATIENCE: Duration = Duration::from_secs(10);
/// By then, the tasks that processes have submitted have ended, unless other processes keep all warps busy.
const MOMENT: Duration = Duration::from_millis(20);

/// The record with the addresses of everything else, for the places. Its address is known before the rest is laid out.
pub(crate) struct FamilyHead(Buffer<u8>);

impl FamilyHead {
    /// Memory for the record.
    pub(crate) fn reserve(engine: &Engine) -> Result<Self, Error> {
        engine.buffer(size_of::<DevWorld>()).map(Self)
    }

    /// The address that is passed to the places.
    pub(crate) fn address(&self) -> DevPtr<DevWorld> {
        DevPtr::new(self.0.ptr().address())
    }
}

/// The group that counts the tasks that the processes of a host submit. From the host's end on it counts as in flight, so that
/// the host's memory is not freed before the last of these tasks has ended.
struct Anchor {
    engine: Engine,
    instance: Instance,
    /// The submission whose group it is.
    open: Pending,
    group: u32,
    _world: Buffer<u8>,
}

impl Anchor {
    /// Opens the group.
    fn open(engine: &Engine) -> Result<Self, Error> {
        let world = engine.buffer::<u8>(size_of::<DevWorld>())?;
        let at = offset_of!(DevWorld, group);
        world.write_at(at, &NONE.to_le_bytes())?;
        let table = DevProcessTable {
            world: DevPtr::new(world.ptr().address()),
            ..DevProcessTable::ZERO
        };
        // SAFETY: the task reads and writes the group's number in the record, and follows no other address.
        let instance = unsafe { engine.instance(&program::PROGRAM, &table) }?;
        let task = instance.task(program::ANCHOR).tag(ANCHOR_OPENS as u8);
        let open = engine.submit_lasting(task)?;
        let begin = Instant::now();
        let mut group = NONE.to_le_bytes();
        loop {
            world.read_at(at, &mut group)?;
            let group = u32::from_le_bytes(group);
            if group != NONE {
                return Ok(Self {
                    engine: engine.clone(),
                    instance,
                    open,
                    group,
                    _world: world,
                });
            }
            if begin.elapsed() > PATIENCE {
                return Err(Error::Timeout { after: PATIENCE });
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Anchor {
    /// Lets the group end. No process of the host runs any more, but tasks may be on their way that wake processes which have
    /// ended; the engine keeps the host's memory for them.
    fn drop(&mut self) {
        self.engine.count(&self.open);
        let task = self.instance.task(program::ANCHOR);
        let ended = self.engine.submit(task.tag(ANCHOR_ENDS as u8));
        // They need a moment, after which the memory is free at once. A lost engine has lost the group, too.
        if ended.is_ok() {
            drop(self.open.wait_timeout(MOMENT));
        }
    }
}

/// The memory. It must live as long as the places.
pub(crate) struct FamilyMemory {
    _anchor: Anchor,
    head: FamilyHead,
    /// Where the host writes its requests to channels, and reads the messages that it receives.
    mailbox: Buffer<u8>,
    /// The instance of the first module that joined. Tasks for channels are its tasks.
    asker: Arc<Instance>,
    /// The places that there is room for.
    places: Range<u32>,
    relations: Buffer<u8>,
    /// The records of children, by place.
    children: Buffer<u8>,
    links: Buffer<u8>,
    modules: Buffer<u8>,
    _channels: [Buffer<u8>; 3],
    joined: Vec<JoinedModule>,
}

/// The records of a module that has joined, as the device reads them.
pub(crate) struct JoinedModule {
    _strings: Buffer<u8>,
    _table: Buffer<u8>,
    _free: Buffer<u64>,
}

fn bytes_of<T: Layout>(records: &[T]) -> Vec<u8> {
    records.iter().flat_map(|r| r.bytes()).copied().collect()
}

/// A tagged stack of these ids. `links` receives their links; the first link is that of the id `first`.
fn stack(ids: impl Iterator<Item = u32>, first: u32, links: &mut [u8]) -> u64 {
    let mut head = 0;
    for id in ids {
        links[4 * (id - first) as usize..][..4].copy_from_slice(&(head as u32).to_le_bytes());
        head = u64::from(id) + 1;
    }
    head
}

/// The address that place 0 would have, if these are the records of the places from `first` on.
fn from_zero<T>(records: &Buffer<u8>, first: u32) -> DevPtr<T> {
    let before = u64::from(first) * size_of::<T>() as u64;
    DevPtr::new(records.ptr().address().wrapping_sub(before))
}

impl FamilyMemory {
    /// Lays the memory out for these places and this many channels. `of` are the places of the first module that will
    /// join.
    pub(crate) fn lay_out(
        engine: &Engine,
        head: FamilyHead,
        places: Range<u32>,
        channels: u32,
        of: &Places,
    ) -> Result<Self, Error> {
        let anchor = Anchor::open(engine)?;
        let (first, total) = (places.start, places.len());
        let channel_count = channels.max(1);
        let mut channel_links = vec![0; 4 * channel_count as usize];
        let channels_free = stack((0..channel_count).rev(), 0, &mut channel_links);
        let channel_links = engine.buffer_from(&channel_links)?;
        let channels = engine.buffer(channel_count as usize * size_of::<DevChannel>())?;
        let messages = engine.buffer_uncleared(channel_count as usize * CHANNEL_BYTES as usize)?;
        let relations = engine.buffer(total * size_of::<DevRelations>())?;
        let children = engine.buffer(total * size_of::<DevChildRecord>())?;
        let links = engine.buffer(total * size_of::<u32>())?;
        let absent = DevModule {
            // A module that has not joined is found by no name.
            name_bytes: NONE,
            ..DevModule::ZERO
        };
        let modules = engine.buffer_from(&bytes_of(&vec![absent; MODULES_MOST]))?;
        let mailbox = engine.buffer(size_of::<DevHostOp>() + MESSAGE_BYTES as usize)?;
        let record = DevWorld {
            modules: DevPtr::new(modules.ptr().address()),
            relations: from_zero(&relations, first),
            child_records: from_zero(&children, first),
            place_links: from_zero(&links, first),
            channels: DevPtr::new(channels.ptr().address()),
            messages: messages.ptr(),
            channel_links: DevPtr::new(channel_links.ptr().address()),
            channels_free,
            module_count: 0,
            channel_count,
            group: anchor.group,
            reserved: [0; 5],
        };
        head.0.write(record.bytes())?;
        Ok(Self {
            _anchor: anchor,
            head,
            mailbox,
            asker: Arc::clone(&of.instance),
            places,
            relations,
            children,
            links,
            modules,
            _channels: [channels, channel_links, messages],
            joined: Vec::new(),
        })
    }

    /// The address that is passed to places.
    pub(crate) fn address(&self) -> DevPtr<DevWorld> {
        self.head.address()
    }

    /// Writes the records of a module and of its places, which no process reads before [`FamilyMemory::admit`].
    pub(crate) fn join(
        &self,
        engine: &Engine,
        id: ModuleId,
        module: &CompiledModule,
        of: &Places,
    ) -> Result<JoinedModule, Error> {
        let strings = self.write_relations(engine, id, of)?;
        let free = self.write_free_places(engine, of)?;
        let table = engine.buffer_from(of.table.bytes())?;
        let (name, name_bytes) = module_name(&module.name);
        let head = |function| of.instance.task(function).build().head;
        let record = DevModule {
            name,
            name_bytes,
            first: of.first,
            start_head: head(program::START),
            run_head: head(program::RUN),
            table: DevPtr::new(table.ptr().address()),
            free: free.ptr(),
            memory_limit: of.memory_limit(),
            wake_head: head(program::WAKE),
            flags: of.flags(),
        };
        let at = id.0 as usize * size_of::<DevModule>();
        self.modules.write_at(at, record.bytes())?;
        Ok(JoinedModule {
            _strings: strings,
            _table: table,
            _free: free,
        })
    }

    /// Writes the relations of a module's places; returns the memory for the arguments of children.
    fn write_relations(
        &self,
        engine: &Engine,
        id: ModuleId,
        of: &Places,
    ) -> Result<Buffer<u8>, Error> {
        let area = u64::from(CHILD_ENDS + CHILD_STRINGS);
        let children = of.of_children();
        let strings = engine.buffer((children.len().max(1) as u64 * area) as usize)?;
        let mut next = strings.ptr().address();
        let mut relations = Vec::with_capacity(of.total() as usize);
        for slot in 0..of.total() {
            let mut relation = DevRelations {
                module: id.0,
                slot,
                ..DevRelations::ZERO
            };
            if children.contains(&(of.first + slot)) {
                relation.strings = DevPtr::new(next + u64::from(CHILD_ENDS));
                next += area;
            }
            relations.push(relation);
        }
        let first = (of.first - self.places.start) as usize;
        let at = first * size_of::<DevRelations>();
        self.relations.write_at(at, &bytes_of(&relations))?;
        Ok(strings)
    }

    /// Writes the stacks of a module's free places for children, and returns them.
    fn write_free_places(&self, engine: &Engine, of: &Places) -> Result<Buffer<u64>, Error> {
        let ids = of.of_children();
        let mut links = vec![0; 4 * ids.len()];
        let mut free = vec![0; (FREE_STACKS * FREE_STRIDE) as usize];
        for number in 0..FREE_STACKS {
            let its = ids.clone().rev();
            let its = its.filter(|id| id % FREE_STACKS == number);
            free[(number * FREE_STRIDE) as usize] = stack(its, ids.start, &mut links);
        }
        if !links.is_empty() {
            let at = (ids.start - self.places.start) as usize * size_of::<u32>();
            self.links.write_at(at, &links)?;
        }
        engine.buffer_from(&free)
    }

    /// Lets processes find a module by its name, in addition to those before it. The module's code is in the image, and
    /// the host has its places.
    pub(crate) fn admit(&mut self, id: ModuleId, joined: JoinedModule) -> Result<(), Error> {
        self.joined.push(joined);
        let count = id.0 + 1;
        let at = offset_of!(DevWorld, module_count);
        self.head.0.write_at(at, &count.to_le_bytes())
    }

    /// The records of children in these places, as they were at one moment.
    fn child_records(&self, places: Range<u32>) -> Result<Vec<ChildRecord>, Error> {
        let mut bytes = vec![0; places.len() * size_of::<DevChildRecord>()];
        let first = (places.start - self.places.start) as usize * size_of::<DevChildRecord>();
        self.children.read_at(first, &mut bytes)?;
        let records = bytes.chunks_exact(size_of::<DevChildRecord>());
        Ok(records.map(ChildRecord::of).collect())
    }

    /// Has the device handle a request to a channel.
    fn ask(&self, engine: &Engine, head: DevHostOp, message: &[u8]) -> Result<u32, ChannelError> {
        let lost = |e: Error| channel_lost(&e);
        let all = [head.bytes(), message].concat();
        self.mailbox.write(&all).map_err(lost)?;
        let task = self.asker.task(program::CHANNEL);
        let task = task.arg(self.mailbox.ptr().address());
        let mut pending = engine.submit(task).map_err(lost)?;
        let answer = pending.wait().map_err(lost)?.value;
        // The device adds one to each answer, so that 0 is none.
        understood((answer as u32).wrapping_sub(1))
    }
}

/// A module's name as the device compares it. A name that is longer than the names that processes can give is never
/// found.
fn module_name(name: &str) -> ([u8; NAME_BYTES as usize], u32) {
    let mut bytes = [0; NAME_BYTES as usize];
    match bytes.get_mut(..name.len()) {
        Some(to) => {
            to.copy_from_slice(name.as_bytes());
            (bytes, name.len() as u32)
        }
        None => (bytes, NONE),
    }
}

/// An answer of the device, which is a length, a number or an error.
fn understood(answer: u32) -> Result<u32, ChannelError> {
    match ChannelError::of(answer as i32) {
        None => Ok(answer),
        Some(error) => Err(error),
    }
}

/// The family memory of a host, once a module needs it, and the engine that works on it.
pub(crate) struct SharedFamily {
    engine: Engine,
    /// The lock is held for one request at a time, because requests share the mailbox.
    memory: OnceLock<Mutex<FamilyMemory>>,
}

impl SharedFamily {
    /// The memory of a host, if one of its modules needs it already.
    pub(crate) fn new(engine: Engine, memory: Option<FamilyMemory>) -> Self {
        Self {
            engine,
            memory: memory.map_or_else(OnceLock::new, |memory| Mutex::new(memory).into()),
        }
    }

    /// The memory, if a module has needed it.
    pub(crate) fn memory(&self) -> Option<MutexGuard<'_, FamilyMemory>> {
        self.memory.get().map(lock)
    }

    /// Sets the memory, which no module has needed before.
    pub(crate) fn set(&self, memory: FamilyMemory) {
        self.memory.get_or_init(|| Mutex::new(memory));
    }

    /// Has the device handle a request to a channel, and returns its answer.
    pub(crate) fn ask(
        &self,
        operation: u32,
        channel: u32,
        side: u32,
        bytes: u32,
        message: &[u8],
    ) -> Result<u32, ChannelError> {
        let memory = self.memory().ok_or(ChannelError::Limit)?;
        let head = DevHostOp {
            operation,
            channel,
            side,
            bytes,
            ..DevHostOp::ZERO
        };
        memory.ask(&self.engine, head, message)
    }

    /// Receives a message from a channel, if there is one.
    pub(crate) fn receive(&self, channel: u32) -> Result<Vec<u8>, ChannelError> {
        let memory = self.memory().ok_or(ChannelError::Limit)?;
        let head = DevHostOp {
            operation: HOST_RECEIVE,
            channel,
            side: SIDE_RECEIVE,
            ..DevHostOp::ZERO
        };
        let length = memory.ask(&self.engine, head, &[])?;
        let mut message = vec![0; length as usize];
        memory
            .mailbox
            .read_at(size_of::<DevHostOp>(), &mut message)
            .map_err(|e| channel_lost(&e))?;
        Ok(message)
    }

    /// The records of children in these places; none if no module has needed the memory.
    pub(crate) fn child_records(&self, places: Range<u32>) -> Result<Vec<ChildRecord>, Error> {
        match self.memory().filter(|_| !places.is_empty()) {
            Some(memory) => memory.child_records(places),
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_links_its_ids_in_order_and_starts_at_the_last() {
        let mut links = vec![0xff; 4 * 6];
        assert_eq!(stack([13, 15, 14].into_iter(), 10, &mut links), 15);
        let link = |id: usize| u32::from_le_bytes(std::array::from_fn(|b| links[4 * id + b]));
        assert_eq!([link(4), link(5), link(3)], [16, 14, 0]);
        assert_eq!(stack(std::iter::empty(), 0, &mut links), 0);
    }

    #[test]
    fn a_name_that_is_too_long_is_never_found() {
        let (name, bytes) = module_name("family");
        assert_eq!((&name[..6], name[6], bytes), (&b"family"[..], 0, 6));
        let (_, bytes) = module_name(&"x".repeat(NAME_BYTES as usize));
        assert_eq!(bytes, NAME_BYTES);
        let (_, bytes) = module_name(&"x".repeat(NAME_BYTES as usize + 1));
        assert_eq!(bytes, NONE);
    }
}
