//! Actors: messages, asks and launches. `bench/actors` measures the same rows of other actor systems.

use std::time::Instant;

use everwarp::Engine;
use everwarp::actor::{
    ActorConfig, ActorError, ActorId, ActorModule, ActorSystem, Column, program_of,
};
use everwarp::cuda::raw::Raw;
use everwarp_programs::asks::Questions;
use everwarp_programs::big::{Crowd, reference as big_reference};
use everwarp_programs::counting::{Count, DevCounter};
use everwarp_programs::ring::{Ring, reference as ring_reference};
use everwarp_programs::skynet::{Tree, reference as skynet_reference};
use everwarp_programs::{asks, big, counting, ring, skynet};

use super::experiment::{Context, Experiment, On, Part};
use super::rings;
use super::stats::{Role, Row};
use super::work::{Label, Work, sweep};
use crate::error::CliError;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "actors",
    title: "actors",
    about: "`ring` is one token that 1,000 actors pass around: a message waits for the one before. `ring_full` has a token for each \
            actor. `counting` is 100 actors that send to one, which handles \
            up to 32 messages at a time in `counting_warp` and `counting_block`. In `big` as many messages as there are actors are sent on ten \
            times to actors chosen at random. `skynet` launches a tree of actors and adds its leaves. In `asks` the actors \
            of 1,000 pairs ask and reply, and `ask_from_host` is the time of single asks of the host. `host_tells` is messages of the \
            host to 10,000 actors, until all are handled, and `host_launches` actors that the host launches. `ring_wide` and \
            `asks_many` are the same with 50,000 actors and 250,000 pairs. The actors of `ring_module` are those of `ring_wide`, \
            as a WebAssembly module that Rust has built. The rows `raw` are what the GPU needs at least, \
            without an engine. \
            `ring_kernel_stream` and `ring_kernel_relay` are ring kernels, whose messages take 10 us of work each, and \
            `ring_kernel_copy` has large messages, which `copies` copies instead. The \
            folder `bench/actors` measures the same rows of kameo, ractor and actix.",
    parts: &[
        Part::many("ring", On::Both, |cx| ring(cx, MEMBERS, 1)),
        Part::many("ring_full", On::Both, |cx| ring(cx, MEMBERS, MEMBERS)),
        Part::many("ring_wide", On::Both, |cx| ring(cx, WIDE, WIDE)),
        Part::many("ring_module", On::CpuAndCuda, ring_of_modules),
        Part::many("counting", On::Both, count),
        Part::many("counting_warp", On::CpuAndCuda, |cx| {
            count_wide(cx, counting::WARP_COUNTER, "a warp")
        }),
        Part::many("counting_block", On::CpuAndCuda, |cx| {
            count_wide(cx, counting::BLOCK_COUNTER, "a block")
        }),
        Part::many("big", On::Both, crowd),
        Part::many("skynet", On::Both, tree),
        Part::many("asks", On::Both, |cx| {
            questions(cx, PAIRS, &[100_000, 1_000_000])
        }),
        Part::many("asks_many", On::Both, |cx| {
            questions(cx, MANY, &[1_000_000, 10_000_000, 100_000_000])
        }),
        Part::many("ask_from_host", On::Both, host),
        Part::many("host_tells", On::Both, tells),
        Part::many("host_launches", On::Both, launches),
        Part::many("raw", On::Cuda, raw),
        Part::many("ring_kernel_stream", On::CpuAndCuda, rings::stream),
        Part::many("ring_kernel_relay", On::CpuAndCuda, rings::relay),
        Part::many("ring_kernel_copy", On::CpuAndCuda, rings::copy),
        Part::many("copies", On::CpuAndCuda, rings::copies),
    ],
};

/// Actors in a ring.
const MEMBERS: u32 = 1000;
/// In a wide one.
const WIDE: u32 = 50_000;
/// Actors that send to one.
const PRODUCERS: u32 = 100;
/// How often a message is sent on.
const HOPS: u32 = 10;
/// Pairs of actors that ask.
const PAIRS: u32 = 1000;
/// Pairs that fill a GPU.
const MANY: u32 = 250_000;
/// Actors to which the host sends.
const TOLD: usize = 10_000;
/// Single asks of the host.
const ASKS: usize = 20_000;

/// What a program does, and whether its result is right.
struct Measured<R, C> {
    run: R,
    check: C,
}

impl<R, C> Work for Measured<R, C>
where
    R: FnMut() -> Result<(), CliError>,
    C: FnMut(u64) -> Result<bool, CliError>,
{
    fn run(&mut self) -> Result<(), CliError> {
        (self.run)()
    }
    fn is_right(&mut self, rounds: u64) -> Result<bool, CliError> {
        (self.check)(rounds)
    }
}

fn label<'l>(what: &'l str, unit: &'l str) -> Label<'l> {
    Label::new(what, unit, Role::Ours)
}

fn ring(cx: &Context<'_>, members: u32, tokens: u32) -> Result<(), CliError> {
    let engine = cx.device.engine().program(ring::RING.program()).start()?;
    let what = "actors that pass tokens around a ring";
    let start = || Ring::new(&engine, members, tokens);
    around(cx, what, start, members, tokens)
}

/// The source of the module is `guests/actors/member`.
fn ring_of_modules(cx: &Context<'_>) -> Result<(), CliError> {
    let module = &include_bytes!("../../../../guests/actors/built/member.wasm")[..];
    let member = ActorModule::new("member", module).expect("it is a kind");
    let program = program_of("ring_module", &[member]).expect("its messages agree");
    let engine = cx.device.engine().program(program.program()).start()?;
    let what = "actors of a module that pass tokens around a ring";
    let start = || Ring::of(&engine, &program, WIDE, WIDE);
    around(cx, what, start, WIDE, WIDE)
}

fn around(
    cx: &Context<'_>,
    what: &str,
    start: impl Fn() -> Result<Ring, ActorError>,
    members: u32,
    tokens: u32,
) -> Result<(), CliError> {
    // The hops of all tokens together.
    let sizes = [100_000, 1_000_000, 10_000_000, 100_000_000];
    sweep(cx, label(what, "hop"), &sizes, |n| {
        let ring = std::rc::Rc::new(start()?);
        let hops = n as u32 / tokens;
        let checked = ring.clone();
        Ok(Measured {
            run: move || Ok(ring.run(tokens, hops)?),
            check: move |rounds| {
                let each = ring_reference(members, tokens, hops);
                let ended = checked.ended()?;
                Ok(ended.iter().zip(each).all(|(got, n)| *got == n * rounds))
            },
        })
    })
}

fn count(cx: &Context<'_>) -> Result<(), CliError> {
    let program = counting::COUNTING.program();
    let engine = cx.device.engine().program(program).start()?;
    let what = "100 actors that send numbers to one";
    counted(cx, what, || Count::new(&engine, PRODUCERS))
}

/// Who handles them says the shape.
fn count_wide(cx: &Context<'_>, counter: u32, who: &str) -> Result<(), CliError> {
    let program = counting::WIDE.program();
    let engine = cx.device.engine().program(program).start()?;
    let what = format!("100 actors that send numbers to one, which handles them with {who}");
    counted(cx, &what, || Count::wide(&engine, counter, PRODUCERS))
}

fn counted(
    cx: &Context<'_>,
    what: &str,
    start: impl Fn() -> Result<Count, ActorError>,
) -> Result<(), CliError> {
    let sizes = [100_000, 1_000_000, 10_000_000];
    sweep(cx, label(what, "message"), &sizes, |n| {
        let count = start()?;
        let last = std::rc::Rc::new(std::cell::Cell::new((0, 0)));
        let seen = last.clone();
        Ok(Measured {
            run: move || {
                last.set(count.run(n as u32)?);
                Ok(())
            },
            check: move |rounds| Ok(seen.get() == (rounds * (n * (n - 1) / 2), rounds * n)),
        })
    })
}

fn crowd(cx: &Context<'_>) -> Result<(), CliError> {
    let engine = cx.device.engine().program(big::BIG.program()).start()?;
    let what =
        "messages sent on ten times among n actors at random; the unit is one handled message";
    let label = Label {
        units: |n| (n * u64::from(HOPS + 1)) as f64,
        ..label(what, "message")
    };
    sweep(cx, label, &[10_000, 100_000, 1_000_000], |n| {
        let crowd = std::rc::Rc::new(Crowd::new(&engine, n as u32)?);
        let checked = crowd.clone();
        let each = big_reference(n as u32, HOPS);
        Ok(Measured {
            run: move || Ok(crowd.run(HOPS)?),
            check: move |rounds| {
                let handled = checked.handled()?;
                let mut all = handled.iter().zip(&each);
                Ok(all.all(|(got, once)| *got == (once.0 * rounds, once.1 * rounds)))
            },
        })
    })
}

/// A tenth of the leaves above them, and so on.
fn actors_of_tree(n: u64) -> f64 {
    let levels = std::iter::successors(Some(n), |n| (*n > 1).then(|| n.div_ceil(10)));
    levels.sum::<u64>() as f64
}

fn tree(cx: &Context<'_>) -> Result<(), CliError> {
    let engine = cx
        .device
        .engine()
        .program(skynet::SKYNET.program())
        .start()?;
    let what = "a tree of actors over n leaves, ten children each; the unit is a launched actor";
    let label = Label {
        units: actors_of_tree,
        ..label(what, "actor")
    };
    sweep(cx, label, &[10_000, 100_000, 1_000_000], |n| {
        let tree = Tree::new(&engine, n as u32)?;
        let sum = std::rc::Rc::new(std::cell::Cell::new(0));
        let seen = sum.clone();
        Ok(Measured {
            run: move || {
                sum.set(tree.run()?);
                Ok(())
            },
            check: move |_| Ok(seen.get() == skynet_reference(n as u32)),
        })
    })
}

fn questions(cx: &Context<'_>, pairs: u32, sizes: &[u64]) -> Result<(), CliError> {
    let engine = cx.device.engine().program(asks::ASKS.program()).start()?;
    let what = format!("{pairs} pairs of actors that ask and reply, n asks together");
    sweep(cx, label(&what, "ask"), sizes, |n| {
        let all = Questions::new(&engine, pairs)?;
        let each = n as u32 / pairs;
        let last = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let seen = last.clone();
        Ok(Measured {
            run: move || {
                *last.borrow_mut() = all.run(each)?;
                Ok(())
            },
            check: move |rounds| {
                let n = u64::from(each) * rounds;
                let all = seen.borrow();
                Ok(all.len() == pairs as usize && all.iter().all(|r| *r == (n, n * (n + 1) / 2)))
            },
        })
    })
}

/// Each time is that of one ask.
fn host(cx: &Context<'_>) -> Result<(), CliError> {
    let engine = cx.device.engine().program(asks::ASKS.program()).start()?;
    let all = Questions::new(&engine, 1)?;
    let mut times = Vec::with_capacity(ASKS);
    let mut right = true;
    for i in 1..=ASKS as u64 + 1000 {
        let begin = Instant::now();
        let reply = all.ask()?;
        let time = begin.elapsed().as_secs_f64();
        right &= reply == i;
        // The first ones warm up.
        if i > 1000 {
            times.push(time);
        }
    }
    let what = "the host asks an actor and waits for the reply";
    cx.emit(Row::new(what, "ask", 1.0, times).verified(right))
}

/// A system of counters, with room for `actors` and for messages that the host hands over at once.
fn counters(engine: &Engine, actors: u32, messages: u32) -> Result<ActorSystem, CliError> {
    let config = ActorConfig {
        actors,
        messages: messages + (1 << 16),
        host_messages: 1 << 17,
        ..ActorConfig::default()
    };
    Ok(ActorSystem::start(engine, &counting::COUNTING, config)?)
}

fn tells(cx: &Context<'_>) -> Result<(), CliError> {
    let program = counting::COUNTING.program();
    let engine = cx.device.engine().program(program).start()?;
    let what = "messages of the host to 10,000 actors, in one call, until all are handled";
    let sizes = [100_000, 1_000_000, 10_000_000];
    sweep(cx, label(what, "message"), &sizes, |n| {
        let system = counters(&engine, TOLD as u32, 1 << 20)?;
        let mut actors = system.launch_all(counting::COUNTER, TOLD)?;
        actors.sort_unstable();
        // Each actor's messages are next to each other.
        let each = n as usize / TOLD;
        let to: Vec<_> = actors.iter().flat_map(|a| vec![*a; each]).collect();
        let words: Vec<_> = (0..n).collect();
        let system = std::rc::Rc::new(system);
        let checked = system.clone();
        Ok(Measured {
            run: move || {
                system.tell_columns(&to, 0, &[Column::Each(&words)])?;
                system.settle()?;
                Ok(())
            },
            check: move |rounds| {
                let (mut sum, mut count) = (0, 0);
                for actor in &actors {
                    let state: DevCounter = checked.state(*actor)?;
                    sum += state.sum;
                    count += state.count;
                }
                Ok((sum, count) == (rounds * (n * (n - 1) / 2), rounds * n))
            },
        })
    })
}

/// Actors that the host launches, and kills after each repetition, which is not timed.
struct Launches {
    system: ActorSystem,
    actors: Vec<ActorId>,
    count: usize,
}

impl Work for Launches {
    fn before(&mut self) -> Result<(), CliError> {
        self.system.kill(&self.actors)?;
        self.system.settle()?;
        self.actors.clear();
        Ok(())
    }
    fn run(&mut self) -> Result<(), CliError> {
        self.actors = self.system.launch_all(counting::COUNTER, self.count)?;
        Ok(())
    }
    fn is_right(&mut self, _rounds: u64) -> Result<bool, CliError> {
        // All of them live, and each is there once.
        let unique: std::collections::HashSet<_> = self.actors.iter().collect();
        let told = self.system.tell_columns(&self.actors, 0, &[Column::All(1)]);
        Ok(unique.len() == self.count && told.is_ok())
    }
}

fn launches(cx: &Context<'_>) -> Result<(), CliError> {
    let program = counting::COUNTING.program();
    let engine = cx.device.engine().program(program).start()?;
    let what = "actors that the host launches, in one call";
    sweep(
        cx,
        label(what, "actor"),
        &[10_000, 100_000, 1_000_000],
        |n| {
            Ok(Launches {
                system: counters(&engine, n as u32, n as u32)?,
                actors: Vec::new(),
                count: n as usize,
            })
        },
    )
}

/// What the GPU needs at least. No engine is resident.
fn raw(cx: &Context<'_>) -> Result<(), CliError> {
    let gpu = cx.gpu();
    let raw = Raw::new(gpu)?;
    let trips = [
        (
            "host",
            "a word goes from the host to the GPU and back",
            raw.round_trips(20_000, false)?,
        ),
        (
            "relay",
            "the same through a second multiprocessor",
            raw.round_trips(20_000, true)?,
        ),
    ];
    for (case, what, times) in trips {
        let row = Row::new(what, "trip", 1.0, times)
            .case(case)
            .role(Role::Limit);
        cx.emit(row.verified(true))?;
    }
    let rate = raw.atomics(gpu.multiprocessors())?;
    let what = "an addition with acquire and release to one of 2 M words";
    let row = Row::new(what, "addition", 1.0, vec![1.0 / rate]);
    cx.emit(row.case("atomics").role(Role::Limit).verified(true))
}
