//! A: dependent pairs. The second stage of a pair reads what the first stage wrote.

mod gpu;
mod host;

use everwarp::{DevTask, Engine};
use everwarp_programs::pairs::{self, Pairs};

use super::experiment::{Context, Experiment, On, Part};
use super::stats::Role;
use super::work::{Label, Work, sweep};
use crate::error::CliError;

/// Numbers of pairs.
pub(super) const SIZES: [u64; 5] = [100, 1000, 10_000, 100_000, 1_000_000];

/// The rivals of `chain`: they run one pair after the other, as a chain does.
const SERIAL: [&str; 7] = [
    "launch_and_wait",
    "stream",
    "stream_early",
    "graph",
    "graph_early",
    "threads",
    "loop",
];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "A",
    title: "dependent pairs",
    about: "Each pair is two tasks; the second needs what the first wrote. Streams and the graphs called \
            `graph` and `graph_early` run pairs one after the other, `graph_wide` side by side. `bulk` knows all pairs \
            beforehand and runs all first stages, then all second stages: a limit, not a rival. `early` means \
            programmatic dependent launch. `host_waits` submits each stage and waits for it; `host_batch` submits all \
            pairs as forks with a continuation; `device_spawn` and `device_fork` start from one task that spreads on \
            the device; `chain` starts each pair when the one before has ended, so that its time of each is the latency \
            of a pair. Capture and instantiation of graphs are not timed.",
    parts: &[
        Part::many("launch_and_wait", On::Cuda, gpu::launch_and_wait),
        Part::many("stream", On::Cuda, gpu::stream),
        Part::many("stream_early", On::Cuda, gpu::stream_early),
        Part::many("graph", On::Cuda, gpu::graph),
        Part::many("graph_wide", On::Cuda, gpu::graph_wide),
        Part::many("graph_early", On::Cuda, gpu::graph_early),
        Part::many("bulk", On::Cuda, gpu::bulk),
        Part::many("threads", On::Cpu, host::threads),
        Part::many("pool", On::Cpu, host::pool),
        Part::many("loop", On::Cpu, host::plain_loop),
        Part::many("host_waits", On::Both, host_waits),
        Part::many("host_batch", On::Both, host_batch),
        Part::many("device_spawn", On::Both, device_spawn),
        Part::many("device_fork", On::Both, device_fork),
        Part::many("chain", On::Both, chain),
    ],
};

/// How the engine runs its pairs.
type Run = fn(&Ours) -> Result<(), everwarp::Error>;

struct Ours {
    engine: Engine,
    pairs: Pairs,
    batch: Vec<DevTask>,
    run: Run,
}

impl Work for Ours {
    fn before(&mut self) -> Result<(), CliError> {
        Ok(self.pairs.clear()?)
    }
    fn run(&mut self) -> Result<(), CliError> {
        Ok((self.run)(self)?)
    }
    fn is_right(&mut self, _: u64) -> Result<bool, CliError> {
        Ok(self.pairs.ran(1)?)
    }
}

fn ours(cx: &Context<'_>, label: Label<'_>, run: Run) -> Result<(), CliError> {
    let engine = cx.device.engine().program(&pairs::PROGRAM).start()?;
    sweep(cx, label, &SIZES, |n| {
        let pairs = Pairs::new(&engine, n as u32)?;
        Ok(Ours {
            engine: engine.clone(),
            batch: pairs.batch(),
            pairs,
            run,
        })
    })
}

fn host_waits(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "each stage submitted by the host, which waits for it";
    ours(cx, Label::new(what, "pair", Role::Ours), |o| {
        o.pairs.run_from_host(&o.engine)
    })
}

fn host_batch(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "all pairs submitted by the host, each a fork with the second stage as continuation";
    ours(cx, Label::new(what, "pair", Role::Ours), |o| {
        o.engine.submit_all(&o.batch)
    })
}

fn device_spawn(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one task spreads over the pairs; each first stage spawns its second";
    ours(cx, Label::new(what, "pair", Role::Ours), |o| {
        o.pairs.run_on_device(&o.engine, false)
    })
}

fn device_fork(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "one task spreads over the pairs; each forks over its first stage and continues with the second";
    ours(cx, Label::new(what, "pair", Role::Ours), |o| {
        o.pairs.run_on_device(&o.engine, true)
    })
}

fn chain(cx: &Context<'_>) -> Result<(), CliError> {
    let what = "each pair started by the one before: the latency of a pair";
    let label = Label {
        against: &SERIAL,
        ..Label::new(what, "pair", Role::Ours)
    };
    ours(cx, label, |o| o.pairs.run_chain(&o.engine))
}
