//! What an engine shows to those who look at it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use everwarp_contract::{DevWorker, FunctionId, WorkerState};
use everwarp_engine::{EngineKind, Function, Image, MeasuredFunction, Program};
use everwarp_telemetry::registry::{Source, View};
use everwarp_telemetry::view::{EngineView, FunctionView, Health, WorkerView};
use everwarp_telemetry::{Distribution, EngineRecorder};

use crate::core::EngineCore;
use crate::engine::Engine;
use crate::sync::lock;

impl Source for EngineCore {
    fn view(&self, _: usize) -> Option<View> {
        if self.stopped.load(Ordering::Acquire) {
            return None;
        }
        let engine = &*self.engine;
        let workers = engine.workers();
        let image = lock(&self.image).clone();
        let sum = |field: fn(&DevWorker) -> u64| workers.iter().flatten().map(field).sum();
        let pools = engine.pool_state().unwrap_or_default();
        let heap = engine.heap().map(|heap| heap.stats());
        let heap = heap.and_then(Result::ok);
        let measured = engine.measured().ok().flatten();
        let all = workers.as_deref().unwrap_or_default();
        let each = match engine.kind() {
            EngineKind::Cpu => 1,
            _ => (all.len() / engine.size().max(1) as usize).max(1),
        };
        Some(View::Engine(EngineView {
            number: 0,
            engine: engine.kind().to_string(),
            device: engine.device_name(),
            age_s: self.begin.elapsed().as_secs_f64(),
            health: self.health(workers.as_ref().map_err(ToString::to_string)),
            size: engine.size(),
            executed: sum(|w| w.executed),
            batches: sum(|w| w.batches),
            fired: sum(|w| w.fired),
            received: sum(|w| w.received),
            starved: sum(|w| w.starved),
            queued: sum(|w| w.queued.into()),
            task_limit: pools.task_limit,
            task_refusals: pools.task_refusals,
            group_limit: pools.group_limit,
            group_refusals: pools.group_refusals,
            heap_used: heap.as_ref().map(|heap| heap.in_use),
            heap_bytes: heap.as_ref().map(|heap| heap.bytes),
            device_bytes: engine.footprint().device_bytes,
            workers: parts(all, each, &image),
            functions: match &measured {
                Some(measured) => measured_functions(&image, measured),
                None => functions(&image, engine.recorder()),
            },
            depth: match &measured {
                Some(measured) => Some(merged(measured.iter().map(|of| &of.depth))),
                None => engine.recorder().map(depth),
            },
        }))
    }
}

impl Engine {
    /// How long the tasks of a function ran and waited, and how long messages took if its tasks are turns of actors, if the engine
    /// measures. Not a stable API.
    #[doc(hidden)]
    pub fn function_times(&self, program: &str, function: &str) -> Option<[Distribution; 3]> {
        let image = lock(&self.core.image).clone();
        let mut functions = image.functions();
        let (id, _, _) = functions.find(|(_, p, f)| p.name == program && f.name == function)?;
        let mut all: [Distribution; 3] = Default::default();
        if let Some(measured) = self.core.engine.measured().ok().flatten() {
            let found = measured.get(id.0 as usize)?;
            return Some([&found.run, &found.wait, &found.handling].map(Clone::clone));
        }
        let recorder = self.core.engine.recorder()?;
        for times in recorder.workers().iter().filter_map(|w| w.read_times(id.0)) {
            for (all, one) in all
                .iter_mut()
                .zip([&times.run, &times.wait, &times.handling])
            {
                all.merge(&one.read());
            }
        }
        Some(all)
    }

    /// How often a function was called, if the engine measures: exact while nothing runs. Not a stable API.
    #[doc(hidden)]
    pub fn function_calls(&self, program: &str, function: &str) -> Option<u64> {
        let image = lock(&self.core.image).clone();
        let mut functions = image.functions();
        let (id, _, _) = functions.find(|(_, p, f)| p.name == program && f.name == function)?;
        if let Some(measured) = self.core.engine.measured().ok().flatten() {
            return Some(measured.get(id.0 as usize)?.calls);
        }
        let recorder = self.core.engine.recorder()?;
        Some(recorder.workers().iter().map(|w| w.calls(id.0)).sum())
    }
}

impl EngineCore {
    fn health(&self, workers: Result<&Vec<DevWorker>, String>) -> Health {
        if let Some(reason) = self.failure.get() {
            return Health::failed(reason);
        }
        if let Some(fault) = self.fault() {
            return Health::failed(fault.to_string());
        }
        let workers = match workers {
            Ok(workers) => workers,
            Err(reason) => return Health::failed(format!("its counters cannot be read: {reason}")),
        };
        if self.parked.load(Ordering::Acquire) % 2 == 1 {
            return Health::degraded("it is parked: its tasks wait until it is resumed");
        }
        let in_state = |state| workers.iter().filter(|w| w.activity() == state).count();
        let (starved, running) = (
            in_state(WorkerState::Starved),
            in_state(WorkerState::Running),
        );
        if starved > 0 && running == 0 {
            return Health::degraded(format!(
                "{starved} workers have tasks and no room for what these may spawn: give it larger pools"
            ));
        }
        Health::default()
    }

    /// What each worker did last, for the report of a fault; empty where that is not known.
    pub(crate) fn last_tasks(&self, image: &Image) -> String {
        let Some(recorder) = self.engine.recorder() else {
            return String::new();
        };
        let mut text = String::from("\nthe last tasks of each worker, the newest last:");
        let name =
            |head: u32| image.name(FunctionId(head & (everwarp_contract::task::FN_LIMIT - 1)));
        for (number, worker) in recorder.workers().iter().enumerate() {
            let last = worker.last();
            if last.is_empty() {
                continue;
            }
            let tasks = last
                .iter()
                .map(|(head, argument)| format!("{}({argument:#x})", name(*head)));
            let tasks: Vec<_> = tasks.collect();
            write!(text, "\n  worker {number}: {}", tasks.join(" ")).expect("a string takes it");
        }
        text
    }
}

/// The workers in parts of `each`: threads one by one, and the warps of a GPU by block.
fn parts(workers: &[DevWorker], each: usize, image: &Image) -> Vec<WorkerView> {
    let part = |(number, part): (usize, &[DevWorker])| {
        let first = &part[0];
        let count = |state| part.iter().filter(|w| w.activity() == state).count() as u32;
        let function = match first.executed {
            0 => String::new(),
            _ => image.name(FunctionId(first.function)),
        };
        WorkerView {
            number: number as u32,
            workers: part.len() as u32,
            running: count(WorkerState::Running),
            starved: count(WorkerState::Starved),
            state: first.activity().to_string(),
            function,
            executed: part.iter().map(|w| w.executed).sum(),
            received: part.iter().map(|w| w.received).sum(),
            queued: part.iter().map(|w| u64::from(w.queued)).sum(),
        }
    };
    let away = |part: &&[DevWorker]| {
        part.iter()
            .any(|w| w.activity() != WorkerState::Away || w.executed > 0)
    };
    workers
        .chunks(each)
        .filter(away)
        .enumerate()
        .map(part)
        .collect()
}

fn functions(image: &Image, recorder: Option<&EngineRecorder>) -> Vec<FunctionView> {
    let merged = |id: FunctionId| {
        let (mut calls, mut run, mut wait) = (0, Distribution::default(), Distribution::default());
        for worker in recorder.into_iter().flat_map(EngineRecorder::workers) {
            calls += worker.calls(id.0);
            if let Some(times) = worker.read_times(id.0) {
                run.merge(&times.run.read());
                wait.merge(&times.wait.read());
            }
        }
        (
            calls,
            Some(run).filter(|d| d.count > 0),
            Some(wait).filter(|d| d.count > 0),
        )
    };
    // A program may be in an image once only, but nothing here depends on it.
    let mut all = BTreeMap::new();
    for (id, program, function) in image.functions() {
        let (calls, run, wait) = merged(id);
        let view = FunctionView {
            program: program.name.to_string(),
            function: function.name.to_string(),
            calls: recorder.map(|_| calls),
            run,
            wait,
        };
        all.insert(id.0, view);
    }
    all.into_values().collect()
}

/// The functions of an image on a GPU that measures. Those of programs that came later are not measured.
fn measured_functions(image: &Image, measured: &[MeasuredFunction]) -> Vec<FunctionView> {
    let view = |(id, program, function): (FunctionId, &Program, &Function)| {
        let found = measured.get(id.0 as usize);
        let times = |of: fn(&MeasuredFunction) -> &Distribution| {
            let times = found.map(of).filter(|times| times.count > 0);
            times.cloned()
        };
        FunctionView {
            program: program.name.to_string(),
            function: function.name.to_string(),
            calls: found.map(|found| found.calls),
            run: times(|found| &found.run),
            wait: times(|found| &found.wait),
        }
    };
    image.functions().map(view).collect()
}

fn depth(recorder: &EngineRecorder) -> Distribution {
    let each = recorder
        .workers()
        .iter()
        .map(|worker| worker.depth().read());
    merged(each.collect::<Vec<_>>().iter())
}

fn merged<'d>(each: impl Iterator<Item = &'d Distribution>) -> Distribution {
    let mut all = Distribution::default();
    each.for_each(|one| all.merge(one));
    all
}
