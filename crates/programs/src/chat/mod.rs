//! `chat`: clients post to rooms, and a room sends each post to all its members. After Blessing, Fernandez-Reyes, Yang,
//! Drossopoulou and Wrigstad, "Run, Actor, Run: Towards Cross-Actor Language Benchmarking" (AGERE 2019), with fixed members.

mod entry;
#[path = "chat.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, Tell, actors};
use everwarp::{Buffer, DevPtr, Engine, dev_struct};

use crate::mix;
use twin::{client, room};

pub use entry::Chat;

dev_struct! {
    /// Parameters of `chat`.
    pub struct DevChat: align 16, size 32 {
        /// The ids of the clients, then those of the rooms.
        pub actors: DevPtr<u64>,
        /// How many clients there are.
        pub clients: u64,
        /// How many rooms.
        pub rooms: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

dev_struct! {
    /// The state of a client, and of a room.
    pub struct DevChatter: align 16, size 32 {
        /// Its number.
        pub number: u64,
        /// Posts that have come.
        pub count: u64,
        /// A sum over their content.
        pub sum: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

actors! {
    /// The program.
    pub static CHAT: chat(DevChat), "../mix.cu", "chat.cu"; wgsl "chat.wgsl" {
        /// Posts, and reads what others post.
        CLIENT: lane(client: DevChatter).mailbox(64).sends(2),
        /// Sends posts to its members.
        ROOM: lane(room: DevChatter).mailbox(256).sends(16),
    }
}

/// Members of each room.
pub(crate) const MEMBERS: u64 = 16;

/// To both: word 0 is its number.
const NUMBER: u8 = 1;
/// To a client: it posts, word 0 more times.
const TURN: u8 = 2;
/// To a room, and from there to its members: word 0 is the post.
const POST: u8 = 3;

/// The client that is member `i` of a room.
const fn member(room: u64, i: u64, clients: u64) -> u64 {
    mix(room * MEMBERS + i) % clients
}
/// The room to which a client posts, and its post, when `left` turns remain.
const fn post(client: u64, left: u64, rooms: u64) -> (u64, u64) {
    let random = mix(client << 32 | left);
    (random % rooms, mix(random))
}

/// Clients and rooms.
#[derive(Debug)]
pub struct Rooms {
    system: ActorSystem,
    clients: Vec<ActorId>,
    _table: Buffer<u64>,
}

impl Rooms {
    /// Prepares clients and rooms.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, clients: u32, rooms: u32) -> Result<Self, ActorError> {
        let actors = clients + rooms;
        let config = ActorConfig {
            actors,
            messages: 64 * actors + (1 << 16),
            ..ActorConfig::default()
        };
        let table = engine.buffer(actors as usize)?;
        let params = DevChat {
            actors: table.ptr(),
            clients: clients.into(),
            rooms: rooms.into(),
            reserved: 0,
        };
        // SAFETY: the table has an id for each client and room, which are written before the first message, and is dropped
        // after the system.
        let system = unsafe { ActorSystem::start_with(engine, &CHAT, &params, config) }?;
        let clients = system.launch_all(CLIENT, clients as usize)?;
        let rooms = system.launch_all(ROOM, rooms as usize)?;
        let all: Vec<u64> = clients.iter().chain(&rooms).map(|id| id.bits()).collect();
        table.write(&all)?;
        let numbers = |list: &[ActorId]| -> Vec<Tell> {
            let numbered = (0..).zip(list);
            numbered
                .map(|(i, &actor)| Tell::new(actor, NUMBER, &[i]))
                .collect()
        };
        system.tell_all(&[numbers(&clients), numbers(&rooms)].concat())?;
        system.settle()?;
        Ok(Self {
            system,
            clients,
            _table: table,
        })
    }
    /// Lets each client post `posts` times. Returns how many posts each has read, with their sum.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, posts: u32) -> Result<Vec<(u64, u64)>, ActorError> {
        if posts != 0 {
            let turns = self.clients.iter();
            let turns: Vec<_> = turns
                .map(|&client| Tell::new(client, TURN, &[u64::from(posts) - 1]))
                .collect();
            self.system.tell_all(&turns)?;
            self.system.settle()?;
        }
        let states: Vec<DevChatter> = self.system.states(&self.clients)?;
        Ok(states.iter().map(|s| (s.count, s.sum)).collect())
    }
}

/// The same, computed plainly.
pub fn reference(clients: u32, rooms: u32, posts: u32) -> Vec<(u64, u64)> {
    let mut read = vec![(0, 0_u64); clients as usize];
    let clients = u64::from(clients);
    for client in 0..clients {
        for left in 0..u64::from(posts) {
            let (room, post) = post(client, left, rooms.into());
            for i in 0..MEMBERS {
                let (count, sum) = &mut read[member(room, i, clients) as usize];
                (*count, *sum) = (*count + 1, sum.wrapping_add(post));
            }
        }
    }
    read
}
