//! The memory that processes share on a GPU where a module asks for it: channels, and what processes are to each
//! other.

use std::ops::Range;
use std::time::{Duration, Instant};

use everwarp::{Buffer, DevPtr, Engine, Layout};

use crate::children::Bond;
use crate::config::HostConfig;
use crate::error::StartError;
use crate::kin::{
    CHANNEL_BYTES, CHILD_ENDS, CHILD_STRINGS, DevBond, DevChannel, DevHostOp, DevKin, DevModule,
    DevWorld, FREE_STACKS, FREE_STRIDE, MESSAGE_BYTES, NAME_BYTES,
};
use crate::module::Loaded;
use crate::places::Places;
use crate::program;

/// No group.
const NONE: u32 = u32::MAX;
/// A task that is the first of its engine has run by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// What lies where. It must live as long as the places.
pub(crate) struct World {
    /// Where the host writes what it asks of channels, and reads what it receives.
    pub(crate) mailbox: Buffer<u8>,
    /// By place, what the host has to know of children.
    bonds: Buffer<u8>,
    _stacks: Vec<Buffer<u64>>,
    _kept: Vec<Buffer<u8>>,
}

fn bytes_of<T: Layout>(records: &[T]) -> Vec<u8> {
    records.iter().flat_map(|r| r.bytes()).copied().collect()
}

/// A tagged stack of these ids, and its links.
fn stack(ids: impl Iterator<Item = u32>, links: &mut [u8]) -> u64 {
    let mut head = 0;
    for id in ids {
        links[4 * id as usize..][..4].copy_from_slice(&(head as u32).to_le_bytes());
        head = u64::from(id) + 1;
    }
    head
}

impl World {
    /// Memory for the head of it, whose address the places are told.
    pub(crate) fn head(engine: &Engine) -> Result<Buffer<u8>, everwarp::Error> {
        engine.buffer(size_of::<DevWorld>())
    }

    /// Fills it, when all places are known.
    pub(crate) fn new(
        engine: &Engine,
        head: Buffer<u8>,
        modules: &[Loaded],
        places: &[Places],
        config: &HostConfig,
    ) -> Result<Self, StartError> {
        let total: u32 = places.iter().map(Places::total).sum();
        let children: u32 = places.iter().map(|p| p.children).sum();
        let area = u64::from(CHILD_ENDS + CHILD_STRINGS);
        let strings = engine.buffer((u64::from(children.max(1)) * area) as usize)?;
        let mut next = strings.ptr().address();
        // SAFETY: all zero, which the numbers and null addresses of these may be.
        let nobody: DevKin = unsafe { std::mem::zeroed() };
        let mut kin = Vec::with_capacity(total as usize);
        let mut links = vec![0; 4 * total as usize];
        let mut records = Vec::new();
        let (mut tables, mut stacks) = (Vec::new(), Vec::new());
        for (number, (module, of)) in modules.iter().zip(places).enumerate() {
            for slot in 0..of.total() {
                let mut one = DevKin {
                    module: number as u32,
                    slot,
                    ..nobody
                };
                if slot >= of.count {
                    one.strings = DevPtr::new(next + u64::from(CHILD_ENDS));
                    next += area;
                }
                kin.push(one);
            }
            let ids = of.first + of.count..of.first + of.total();
            let mut free = vec![0; (FREE_STACKS * FREE_STRIDE) as usize];
            for stack_of in 0..FREE_STACKS {
                let its = ids.clone().rev();
                let its = its.filter(|id| id % FREE_STACKS == stack_of);
                free[(stack_of * FREE_STRIDE) as usize] = stack(its, &mut links);
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
            records.push(DevModule {
                name,
                name_bytes,
                first: of.first,
                start_head: of.instance.task(program::START).build().head,
                run_head: of.instance.task(program::RUN).build().head,
                table: DevPtr::new(table.ptr().address()),
                free: free.ptr(),
                memory_limit: of.memory_limit,
                wake_head: of.instance.task(program::WAKE).build().head,
                reserved: 0,
            });
            tables.push(table);
            stacks.push(free);
        }
        let channel_count = config.channels.max(1);
        let mut channel_links = vec![0; 4 * channel_count as usize];
        let channels_free = stack((0..channel_count).rev(), &mut channel_links);
        let kin = engine.buffer_from(&bytes_of(&kin))?;
        let bonds = engine.buffer(total as usize * size_of::<DevBond>())?;
        let links = engine.buffer_from(&links)?;
        let records = engine.buffer_from(&bytes_of(&records))?;
        let channel_links = engine.buffer_from(&channel_links)?;
        let channels = engine.buffer(channel_count as usize * size_of::<DevChannel>())?;
        let messages = engine.buffer_uncleared(channel_count as usize * CHANNEL_BYTES as usize)?;
        let mailbox = engine.buffer(size_of::<DevHostOp>() + MESSAGE_BYTES as usize)?;
        let world = DevWorld {
            modules: DevPtr::new(records.ptr().address()),
            kin: DevPtr::new(kin.ptr().address()),
            bonds: DevPtr::new(bonds.ptr().address()),
            place_links: DevPtr::new(links.ptr().address()),
            channels: DevPtr::new(channels.ptr().address()),
            messages: messages.ptr(),
            channel_links: DevPtr::new(channel_links.ptr().address()),
            channels_free,
            module_count: modules.len() as u32,
            channel_count,
            group: NONE,
            reserved: [0; 5],
        };
        head.write(world.bytes())?;
        anchor(engine, places, &head)?;
        let mut kept = vec![
            head,
            kin,
            links,
            records,
            channels,
            channel_links,
            messages,
            strings,
        ];
        kept.append(&mut tables);
        Ok(Self {
            mailbox,
            bonds,
            _stacks: stacks,
            _kept: kept,
        })
    }

    /// The bonds of places, as they were at this moment.
    pub(crate) fn bonds(&self, places: Range<u32>) -> Result<Vec<Bond>, everwarp::Error> {
        let mut bytes = vec![0; places.len() * size_of::<DevBond>()];
        let first = places.start as usize * size_of::<DevBond>();
        self.bonds.read_at(first, &mut bytes)?;
        let (records, _) = bytes.as_chunks();
        Ok(records.iter().map(Bond::of).collect())
    }
}

/// Opens the group that counts what processes submit. It never ends, so nobody waits for its completion.
fn anchor(engine: &Engine, places: &[Places], head: &Buffer<u8>) -> Result<(), StartError> {
    let instance = &places[0].instance;
    drop(engine.submit(instance.task(program::ANCHOR))?);
    let begin = Instant::now();
    let mut group = NONE.to_le_bytes();
    loop {
        head.read_at(std::mem::offset_of!(DevWorld, group), &mut group)?;
        if u32::from_le_bytes(group) != NONE {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(everwarp::Error::Timeout { after: PATIENCE }.into());
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_holds_its_ids_in_their_order_last_first() {
        let mut links = vec![0xff; 4 * 6];
        assert_eq!(stack([3, 5, 4].into_iter(), &mut links), 5);
        let link = |id: usize| u32::from_le_bytes(std::array::from_fn(|b| links[4 * id + b]));
        assert_eq!([link(4), link(5), link(3)], [6, 4, 0]);
        assert_eq!(stack(std::iter::empty(), &mut links), 0);
    }
}
