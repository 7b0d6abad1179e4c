//! `epidemic`: agents that infect each other. An infected agent meets ten others on each of five days; an agent that has
//! never been infected catches it with a given probability, and is infectious from the next day on.
//!
//! Whom an agent meets and whether it catches the disease are functions of the two agents and the day, so the result does
//! not depend on the order of messages within a day. Wards keep the lists of the infected: a day is one message to each
//! ward, which tells its agents, and it is over when no actor has a turn.

mod entry;
#[path = "epidemic.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, Tell, actors};
use everwarp::{Buffer, DevPtr, Engine, dev_struct};

use crate::mix;
use twin::{agent, ward};

pub use entry::Epidemic;

dev_struct! {
    /// Parameters of `epidemic`.
    pub struct DevEpidemic: align 16, size 48 {
        /// The ids of the agents.
        pub agents: DevPtr<u64>,
        /// The ids of the wards.
        pub wards: DevPtr<u64>,
        /// Lists of infected agents: `capacity` entries for each ward, with the number (32) and the day (32).
        pub lists: DevPtr<u64>,
        /// How many agents there are.
        pub count: u64,
        /// Entries in the list of a ward.
        pub capacity: u64,
        /// The probability to catch the disease at a meeting, in 2^-32.
        pub risk: u64,
    }
}

dev_struct! {
    /// The state of an agent, and of a ward.
    pub struct DevAgent: align 16, size 32 {
        /// The day on which the agent was infected, plus one. The ward's number.
        pub since: u64,
        /// The ward: agents in its list.
        pub listed: u64,
        /// The ward: the first of them that is still infectious.
        pub first: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

actors! {
    /// The program.
    pub static EPIDEMIC: epidemic(DevEpidemic), "../mix.cu", "epidemic.cu"; wgsl "epidemic.wgsl" {
        /// One of the population.
        AGENT: lane(agent: DevAgent).mailbox(64).sends(10),
        /// Keeps a list of infected agents.
        WARD: lane(ward: DevAgent).mailbox(1024).sends(17),
    }
}

/// Whom an infected agent meets on a day.
pub(crate) const MEETINGS: u64 = 10;
/// Days on which an agent is infectious.
pub(crate) const INFECTIOUS: u64 = 5;
/// Lists of the infected.
pub(crate) const WARDS: u64 = 64;
/// Agents that a ward tells for one message.
const AT_A_TIME: u64 = 16;

/// To a ward: word 0 is its number.
const NUMBER: u8 = 1;
/// To a ward: it is day word 0; it goes on at place word 1 of its list, or begins.
const DAY: u8 = 2;
/// In place of a place: the ward begins.
const BEGIN: u64 = u64::MAX;
/// In place of an agent: it was infected from outside.
const OUTSIDE: u64 = u64::MAX;
/// To an agent with number word 1, from its ward: it is day word 0.
const MEET: u8 = 3;
/// To an agent with number word 2: it meets agent word 1 on day word 0.
const MET: u8 = 4;
/// To a ward: the agent with number word 0 is infected on day word 1.
const INFECTED: u8 = 5;

/// Whom an agent meets.
const fn met(agent: u64, day: u64, i: u64, count: u64) -> u64 {
    mix(mix(agent << 20 | day) + i) % count
}
/// Whether an agent catches the disease from another.
const fn catches(agent: u64, from: u64, day: u64, risk: u64) -> bool {
    mix(mix(from << 32 | agent) + day) >> 32 < risk
}

/// A population.
#[derive(Debug)]
pub struct Population {
    system: ActorSystem,
    agents: Vec<ActorId>,
    wards: Vec<ActorId>,
    _tables: [Buffer<u64>; 3],
}

impl Population {
    /// Prepares agents that catch the disease with a probability of `risk` percent.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, n: u32, risk: u32) -> Result<Self, ActorError> {
        let count = u64::from(n);
        let capacity = count.div_ceil(WARDS);
        let config = ActorConfig {
            actors: n + WARDS as u32,
            messages: 12 * n + (1 << 18),
            ..ActorConfig::default()
        };
        let agents = engine.buffer(n as usize)?;
        let wards = engine.buffer(WARDS as usize)?;
        let lists = engine.buffer((capacity * WARDS) as usize)?;
        let params = DevEpidemic {
            agents: agents.ptr(),
            wards: wards.ptr(),
            lists: lists.ptr(),
            count,
            capacity,
            risk: (u64::from(risk) << 32) / 100,
        };
        // SAFETY: the tables have an id for each agent and ward, which are written before the first message; the lists have
        // room for all agents of a ward; and all are dropped after the system.
        let system = unsafe { ActorSystem::start_with(engine, &EPIDEMIC, &params, config) }?;
        let all = system.launch_all(AGENT, n as usize)?;
        let few = system.launch_all(WARD, WARDS as usize)?;
        let bits = |ids: &[ActorId]| ids.iter().map(|id| id.bits()).collect::<Vec<_>>();
        agents.write(&bits(&all))?;
        wards.write(&bits(&few))?;
        let numbers: Vec<_> = (0..)
            .zip(&few)
            .map(|(i, &ward)| Tell::new(ward, NUMBER, &[i]))
            .collect();
        system.tell_all(&numbers)?;
        Ok(Self {
            system,
            agents: all,
            wards: few,
            _tables: [agents, wards, lists],
        })
    }
    /// Infects the first `begin` agents, and lets days pass. Returns for each agent the day on which it was infected, plus
    /// one; 0 for never.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, begin: u32, days: u32) -> Result<Vec<u64>, ActorError> {
        let agents = self.agents.iter().enumerate();
        // They caught it outside, on day 0.
        let first: Vec<_> = agents
            .take(begin as usize)
            .map(|(i, &agent)| Tell::new(agent, MET, &[0, OUTSIDE, i as u64]))
            .collect();
        self.system.tell_all(&first)?;
        self.system.settle()?;
        for day in 1..=u64::from(days) {
            let turns = self.wards.iter();
            let turns: Vec<_> = turns
                .map(|&ward| Tell::new(ward, DAY, &[day, BEGIN]))
                .collect();
            self.system.tell_all(&turns)?;
            self.system.settle()?;
        }
        let states: Vec<DevAgent> = self.system.states(&self.agents)?;
        Ok(states.iter().map(|state| state.since).collect())
    }
}

/// The same, computed plainly.
pub fn reference(n: u32, begin: u32, days: u32, risk: u32) -> Vec<u64> {
    let (count, risk) = (u64::from(n), (u64::from(risk) << 32) / 100);
    let mut since = vec![0; n as usize];
    let mut infected: Vec<u64> = (0..u64::from(begin.min(n))).collect();
    infected.iter().for_each(|&agent| since[agent as usize] = 1);
    for day in 1..=u64::from(days) {
        // Day d is `since` d + 1, and those are infectious from d + 1 to d + INFECTIOUS.
        infected.retain(|&agent| since[agent as usize] + INFECTIOUS > day);
        let mut new = Vec::new();
        for &agent in &infected {
            for i in 0..MEETINGS {
                let other = met(agent, day, i, count);
                if since[other as usize] == 0 && catches(other, agent, day, risk) {
                    since[other as usize] = day + 1;
                    new.push(other);
                }
            }
        }
        infected.extend(new);
    }
    since
}
