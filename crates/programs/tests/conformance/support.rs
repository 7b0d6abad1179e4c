//! Helpers that cases share: an engine with all programs, and the marks of the program `probe`.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use everwarp::actor::{ActorId, ActorSystem};
use everwarp::{Device, Engine, EngineBuilder, EngineKind, Layout, Pools, Select};
use everwarp_programs::probe::{self, Probe};
use everwarp_programs::standard;

/// A case: its name, and a function that panics when the engine misbehaves.
pub(crate) type Case = (&'static str, fn(Select));

/// Cases that take a program of actors, with actors of lane, of warp and of block shape.
macro_rules! in_each_shape {
    ($lanes:expr, $warps:expr, $blocks:expr; $($case:ident),* $(,)?) => {
        &[$(
            (stringify!($case), |select| $case(select, &$lanes)),
            (concat!(stringify!($case), "_of_warps"), |select| $case(select, &$warps)),
            (concat!(stringify!($case), "_of_blocks"), |select| $case(select, &$blocks)),
        )*]
    };
}
pub(crate) use in_each_shape;

/// A builder of an engine with the standard programs and the probe.
pub(crate) fn with(device: &Device) -> EngineBuilder<'_> {
    let with_probe = device.engine().program(&probe::PROGRAM);
    standard().fold(with_probe, |builder, program| builder.program(program))
}

pub(crate) fn start(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    with(&device).start().expect("the engine starts")
}

/// A range argument: first | count << 32.
pub(crate) fn range(first: u32, count: u32) -> u64 {
    u64::from(count) << 32 | u64::from(first)
}

pub(crate) fn assert_marked_once(probe: &Probe) {
    let marks = probe.marks.read().expect("the marks can be read");
    let wrong: Vec<_> = marks
        .iter()
        .enumerate()
        .filter(|&(_, &m)| m != 1)
        .take(5)
        .collect();
    assert!(
        wrong.is_empty(),
        "places not marked exactly once (place, marks), the first of them: {wrong:?}"
    );
}

/// A function of the probe marks each of `places` places once.
pub(crate) fn mark_all(engine: &Engine, function: u32, places: u32) {
    let probe = Probe::new(engine, places as usize).expect("there is memory");
    let task = probe.instance.task(function).arg(range(0, places));
    engine.run(task).expect("it runs");
    assert_marked_once(&probe);
}

/// How many tasks have run. The engine parks for it, so that the count is final.
pub(crate) fn parked_count(engine: &Engine) -> u64 {
    engine.park().expect("it parks");
    let executed = engine.stats().expect("there are counters").executed;
    engine.resume().expect("it resumes");
    executed
}

/// The smallest size of an engine.
pub(crate) fn least_size(kind: EngineKind) -> u32 {
    match kind {
        EngineKind::Cpu | EngineKind::Wgpu => 1,
        EngineKind::Cuda => 2,
    }
}

/// Pools far smaller than the work, on the smallest engine that the device has.
pub(crate) fn small(select: Select, device: &Device) -> EngineBuilder<'_> {
    match device.kind() {
        EngineKind::Cpu => with(device).pools(Pools {
            tasks: 256,
            groups: 128,
            ..Pools::default()
        }),
        // The smallest pools of two workgroups.
        EngineKind::Wgpu => with(device).size(2).pools(Pools {
            tasks: 2 * 24 * 32,
            groups: 2 * 64,
            ..Pools::default()
        }),
        EngineKind::Cuda => {
            assert_eq!(select, Select::Cuda);
            // The smallest pools of two blocks with eight warps each.
            with(device).size(2).pools(Pools {
                tasks: 16 * 512,
                groups: 16 * 512,
                ..Pools::default()
            })
        }
    }
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{what}: not after 20 s"
        );
        std::thread::yield_now();
    }
}

/// Launches actors of one kind.
pub(crate) fn launch<const N: usize>(system: &ActorSystem, kind: u32) -> [ActorId; N] {
    [(); N].map(|()| system.launch(kind).expect("there is room"))
}
/// Tells an actor that lives.
pub(crate) fn tell(system: &ActorSystem, to: ActorId, tag: u8, words: &[u64]) {
    system.tell(to, tag, words).expect("it lives");
}
/// Waits until the state of an actor is as it should be in the end.
pub(crate) fn wait_for_state<S: Layout + std::fmt::Debug>(
    system: &ActorSystem,
    actor: ActorId,
    holds: impl Fn(&S) -> bool,
) -> S {
    let begin = Instant::now();
    loop {
        system.settle().expect("it settles");
        let state: S = system.state(actor).expect("it is there");
        if holds(&state) {
            return state;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{state:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
/// Waits until an actor has ended. `tag` and `words` are a message that changes nothing.
pub(crate) fn wait_for_end(system: &ActorSystem, actor: ActorId, tag: u8, words: &[u64]) {
    let begin = Instant::now();
    while system.tell(actor, tag, words).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{actor:?} lives");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for a future: nothing but its waker wakes this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Waits until there are this many marks. A dropped `Pending` cannot be waited for otherwise.
pub(crate) fn wait_until_marked(probe: &Probe, marks: u64) {
    wait_until(&format!("{marks} marks"), || {
        let read = probe.marks.read().expect("the marks can be read");
        let sum: u64 = read.iter().map(|&mark| u64::from(mark)).sum();
        assert!(sum <= marks, "{sum} marks instead of {marks}");
        sum == marks
    });
}

/// The next of a sequence of random numbers (Marsaglia's xorshift).
pub(crate) fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
