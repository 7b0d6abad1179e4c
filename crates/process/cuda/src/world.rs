//! The memory that processes share on a GPU where a module asks for it: channels, and what processes are to each
//! other.
//!
//! It is laid out for the places of all modules that are there at the start and for the spare ones, or, if the first
//! module that asks for it comes later, for those that are spare then. Modules join it, one by one, before their
//! processes run; those that are there when it is made without asking for it never do.

use std::mem::offset_of;
use std::ops::Range;
use std::time::{Duration, Instant};

use everwarp_runtime::{Buffer, DevPtr, Engine, Layout};

use crate::children::Bond;
use crate::config::MODULES_MOST;
use crate::kin::{
    CHANNEL_BYTES, CHILD_ENDS, CHILD_STRINGS, DevBond, DevChannel, DevHostOp, DevKin, DevModule,
    DevWorld, FREE_STACKS, FREE_STRIDE, MESSAGE_BYTES, NAME_BYTES,
};
use crate::module::Loaded;
use crate::places::Places;
use crate::program;

/// No group, and no name.
const NONE: u32 = u32::MAX;
/// A task that is the first of its engine has run by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// What lies where. It must live as long as the places.
pub(crate) struct World {
    /// Where the host writes what it asks of channels, and reads what it receives.
    pub(crate) mailbox: Buffer<u8>,
    /// A module that has joined: tasks for the world are its.
    pub(crate) asker: usize,
    /// The places that it has room for.
    places: Range<u32>,
    head: Buffer<u8>,
    kin: Buffer<u8>,
    /// By place, what the host has to know of children.
    bonds: Buffer<u8>,
    links: Buffer<u8>,
    modules: Buffer<u8>,
    _channels: [Buffer<u8>; 3],
    joined: Vec<Joined>,
}

/// What the device reads of a module that has joined.
pub(crate) struct Joined {
    _strings: Buffer<u8>,
    _table: Buffer<u8>,
    _free: Buffer<u64>,
}

fn bytes_of<T: Layout>(records: &[T]) -> Vec<u8> {
    records.iter().flat_map(|r| r.bytes()).copied().collect()
}

/// A tagged stack of these ids, and its links, of which the first is that of `first`.
fn stack(ids: impl Iterator<Item = u32>, first: u32, links: &mut [u8]) -> u64 {
    let mut head = 0;
    for id in ids {
        links[4 * (id - first) as usize..][..4].copy_from_slice(&(head as u32).to_le_bytes());
        head = u64::from(id) + 1;
    }
    head
}

/// Where the first of all places would be, if these records are of the places from `first` on.
fn from_zero<T>(records: &Buffer<u8>, first: u32) -> DevPtr<T> {
    let before = u64::from(first) * size_of::<T>() as u64;
    DevPtr::new(records.ptr().address().wrapping_sub(before))
}

impl World {
    /// Memory for the head of it, whose address the places are told.
    pub(crate) fn head(engine: &Engine) -> Result<Buffer<u8>, everwarp_runtime::Error> {
        engine.buffer(size_of::<DevWorld>())
    }

    /// Fills it, for these places. The first module that joins is number `asker`.
    pub(crate) fn new(
        engine: &Engine,
        head: Buffer<u8>,
        places: Range<u32>,
        channels: u32,
        asker: usize,
    ) -> Result<Self, everwarp_runtime::Error> {
        let (first, total) = (places.start, places.len());
        let channel_count = channels.max(1);
        let mut channel_links = vec![0; 4 * channel_count as usize];
        let channels_free = stack((0..channel_count).rev(), 0, &mut channel_links);
        let channel_links = engine.buffer_from(&channel_links)?;
        let channels = engine.buffer(channel_count as usize * size_of::<DevChannel>())?;
        let messages = engine.buffer_uncleared(channel_count as usize * CHANNEL_BYTES as usize)?;
        let kin = engine.buffer(total * size_of::<DevKin>())?;
        let bonds = engine.buffer(total * size_of::<DevBond>())?;
        let links = engine.buffer(total * size_of::<u32>())?;
        let nobody = DevModule {
            name: [0; NAME_BYTES as usize],
            // What has not joined is found by no name.
            name_bytes: NONE,
            first: 0,
            start_head: 0,
            run_head: 0,
            table: DevPtr::NULL,
            free: DevPtr::NULL,
            memory_limit: 0,
            wake_head: 0,
            flags: 0,
        };
        let modules = engine.buffer_from(&bytes_of(&vec![nobody; MODULES_MOST]))?;
        let mailbox = engine.buffer(size_of::<DevHostOp>() + MESSAGE_BYTES as usize)?;
        let world = DevWorld {
            modules: DevPtr::new(modules.ptr().address()),
            kin: from_zero(&kin, first),
            bonds: from_zero(&bonds, first),
            place_links: from_zero(&links, first),
            channels: DevPtr::new(channels.ptr().address()),
            messages: messages.ptr(),
            channel_links: DevPtr::new(channel_links.ptr().address()),
            channels_free,
            module_count: 0,
            channel_count,
            group: NONE,
            reserved: [0; 5],
        };
        head.write(world.bytes())?;
        Ok(Self {
            mailbox,
            asker,
            places,
            head,
            kin,
            bonds,
            links,
            modules,
            _channels: [channels, channel_links, messages],
            joined: Vec::new(),
        })
    }

    /// Where places are told that it is.
    pub(crate) fn address(&self) -> DevPtr<DevWorld> {
        DevPtr::new(self.head.ptr().address())
    }

    /// Writes what is known of a module and of its places, which nobody reads yet: to be given to [`World::admit`].
    pub(crate) fn join(
        &self,
        engine: &Engine,
        number: usize,
        module: &Loaded,
        of: &Places,
    ) -> Result<Joined, everwarp_runtime::Error> {
        let area = u64::from(CHILD_ENDS + CHILD_STRINGS);
        let strings = engine.buffer((u64::from(of.children.max(1)) * area) as usize)?;
        let mut next = strings.ptr().address();
        // SAFETY: all zero, which the numbers and null addresses of these may be.
        let nobody: DevKin = unsafe { std::mem::zeroed() };
        let mut kin = Vec::with_capacity(of.total() as usize);
        for slot in 0..of.total() {
            let mut one = DevKin {
                module: number as u32,
                slot,
                ..nobody
            };
            if (of.count..of.count + of.children).contains(&slot) {
                one.strings = DevPtr::new(next + u64::from(CHILD_ENDS));
                next += area;
            }
            kin.push(one);
        }
        let first = (of.first - self.places.start) as usize;
        self.kin
            .write_at(first * size_of::<DevKin>(), &bytes_of(&kin))?;
        let ids = of.of_children();
        let mut links = vec![0; 4 * ids.len()];
        let mut free = vec![0; (FREE_STACKS * FREE_STRIDE) as usize];
        for stack_of in 0..FREE_STACKS {
            let its = ids.clone().rev();
            let its = its.filter(|id| id % FREE_STACKS == stack_of);
            free[(stack_of * FREE_STRIDE) as usize] = stack(its, ids.start, &mut links);
        }
        if !links.is_empty() {
            let at = (ids.start - self.places.start) as usize * size_of::<u32>();
            self.links.write_at(at, &links)?;
        }
        let free = engine.buffer_from(&free)?;
        let mut name = [0; NAME_BYTES as usize];
        let name_bytes = module.name.len();
        // A longer name than processes can give is nobody's.
        let name_bytes = match name.get_mut(..name_bytes) {
            Some(to) => {
                to.copy_from_slice(module.name.as_bytes());
                name_bytes as u32
            }
            None => NONE,
        };
        let table = engine.buffer_from(of.table.bytes())?;
        let record = DevModule {
            name,
            name_bytes,
            first: of.first,
            start_head: of.instance.task(program::START).build().head,
            run_head: of.instance.task(program::RUN).build().head,
            table: DevPtr::new(table.ptr().address()),
            free: free.ptr(),
            memory_limit: of.memory_limit,
            wake_head: of.instance.task(program::WAKE).build().head,
            flags: of.flags(),
        };
        self.modules
            .write_at(number * size_of::<DevModule>(), record.bytes())?;
        Ok(Joined {
            _strings: strings,
            _table: table,
            _free: free,
        })
    }

    /// Lets processes find a module by its name, behind those before it: its code is there, and the host knows of it.
    pub(crate) fn admit(
        &mut self,
        number: usize,
        joined: Joined,
    ) -> Result<(), everwarp_runtime::Error> {
        self.joined.push(joined);
        let count = number as u32 + 1;
        self.head
            .write_at(offset_of!(DevWorld, module_count), &count.to_le_bytes())
    }

    /// The bonds of places, as they were at this moment.
    pub(crate) fn bonds(&self, places: Range<u32>) -> Result<Vec<Bond>, everwarp_runtime::Error> {
        let mut bytes = vec![0; places.len() * size_of::<DevBond>()];
        let first = (places.start - self.places.start) as usize * size_of::<DevBond>();
        self.bonds.read_at(first, &mut bytes)?;
        let (records, _) = bytes.as_chunks();
        Ok(records.iter().map(Bond::of).collect())
    }

    /// Opens the group that counts what processes submit, by a task of places that know of the world. It never ends, so
    /// nobody waits for its completion.
    pub(crate) fn anchor(
        &self,
        engine: &Engine,
        places: &Places,
    ) -> Result<(), everwarp_runtime::Error> {
        drop(engine.submit(places.instance.task(program::ANCHOR))?);
        let begin = Instant::now();
        let mut group = NONE.to_le_bytes();
        loop {
            self.head.read_at(offset_of!(DevWorld, group), &mut group)?;
            if u32::from_le_bytes(group) != NONE {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                return Err(everwarp_runtime::Error::Timeout { after: PATIENCE });
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_holds_its_ids_in_their_order_last_first() {
        let mut links = vec![0xff; 4 * 6];
        assert_eq!(stack([13, 15, 14].into_iter(), 10, &mut links), 15);
        let link = |id: usize| u32::from_le_bytes(std::array::from_fn(|b| links[4 * id + b]));
        assert_eq!([link(4), link(5), link(3)], [16, 14, 0]);
        assert_eq!(stack(std::iter::empty(), 0, &mut links), 0);
    }
}
