//! A system of closures, and a kind that records what it handles.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp_actor::{ActorConfig, ActorCx, ActorId, ActorProgram, ActorSystem, Kind, Message};
use everwarp_runtime::{Device, Engine, Select};

pub(crate) const LONG: Duration = Duration::from_secs(20);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn system(kinds: Vec<Kind>) -> (Engine, ActorSystem) {
    system_with(kinds, ActorConfig::default())
}
pub(crate) fn system_with(kinds: Vec<Kind>, config: ActorConfig) -> (Engine, ActorSystem) {
    let program = ActorProgram::closures("test", kinds);
    let device = Device::open(Select::Cpu).expect("the device opens");
    let engine = device.engine().program(program.program()).start();
    let engine = engine.expect("the engine starts");
    let system = ActorSystem::start(&engine, &program, config).expect("the system starts");
    (engine, system)
}

/// What actors have handled, in order: the actor, and the message.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(ActorId, Message)>>>);

impl Log {
    pub(crate) fn add(&self, actor: &ActorCx<'_, '_, '_>, message: &Message) {
        self.0
            .lock()
            .expect("no panic")
            .push((actor.id(), *message));
    }
    pub(crate) fn all(&self) -> Vec<(ActorId, Message)> {
        self.0.lock().expect("no panic").clone()
    }
    /// Waits until there are `n` entries, and returns them.
    pub(crate) fn wait_for(&self, n: usize) -> Vec<(ActorId, Message)> {
        let begin = Instant::now();
        while self.0.lock().expect("no panic").len() < n {
            assert!(begin.elapsed() < LONG, "{:?}", self.all());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.all()
    }
    pub(crate) fn tags(&self) -> Vec<u8> {
        self.all().iter().map(|(_, m)| m.tag()).collect()
    }
}

pub(crate) const ADD: u8 = 1;
pub(crate) const GET: u8 = 2;
pub(crate) const FAIL: u8 = 3;
pub(crate) const STOP: u8 = 4;

/// Adds word 0, replies with the sum, fails, or stops.
pub(crate) fn counter(actor: &mut ActorCx<'_, '_, '_>, message: &Message) {
    let state: &mut [u8; 8] = (&mut actor.state_bytes()[..8]).try_into().expect("8 bytes");
    let sum = u64::from_ne_bytes(*state);
    match message.tag() {
        ADD => *state = (sum + message.word(0)).to_ne_bytes(),
        GET => drop(actor.reply(GET, &[sum])),
        FAIL => actor.fail(),
        STOP => actor.stop(),
        _ => unreachable!("no such message"),
    }
}
pub(crate) fn counters(name: &'static str) -> Kind {
    Kind::closure(name, 8, counter)
}
pub(crate) fn sum(system: &ActorSystem, actor: ActorId) -> u64 {
    system.ask(actor, GET, &[]).expect("it replies").word(0)
}
