//! What a program shows, as OpenMetrics text.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::histogram::Distribution;
use crate::view::{Health, HealthState, ProgramView};

type Labels = Vec<(&'static str, String)>;

/// Upper bounds of the buckets in nanoseconds: powers of four from 256 ns to 275 s.
fn bounds() -> impl Iterator<Item = u64> {
    (4..20).map(|power| 1 << (2 * power))
}

enum Sample {
    Count(u64),
    Gauge(f64),
    Times(Distribution),
}

struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    samples: Vec<(Labels, Sample)>,
}

impl Family {
    fn new(name: &'static str, help: &'static str, unit: Option<Unit>) -> Self {
        Self {
            name,
            help,
            unit,
            samples: Vec::new(),
        }
    }
    fn kind(&self) -> MetricType {
        match self.samples.first() {
            Some((_, Sample::Count(_))) => MetricType::Counter,
            Some((_, Sample::Times(_))) => MetricType::Histogram,
            _ => MetricType::Gauge,
        }
    }
}

fn encode_sample(encoder: &mut MetricEncoder<'_>, sample: &Sample) -> std::fmt::Result {
    match sample {
        Sample::Count(count) => encoder.encode_counter::<Labels, u64, f64>(count, None),
        Sample::Gauge(value) => encoder.encode_gauge(value),
        Sample::Times(times) => {
            let mut before = 0;
            let mut buckets: Vec<(f64, u64)> = bounds()
                .map(|bound| {
                    let within = times.at_most(bound);
                    let own = within - before;
                    before = within;
                    (bound as f64 / 1e9, own)
                })
                .collect();
            buckets.push((f64::INFINITY, times.count - before));
            encoder.encode_histogram::<Labels>(times.sum as f64 / 1e9, times.count, &buckets, None)
        }
    }
}

#[derive(Debug)]
struct Programs(Vec<ProgramView>);

impl Collector for Programs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        for family in families(&self.0) {
            if family.samples.is_empty() {
                continue;
            }
            let unit = family.unit.as_ref();
            let mut metric =
                encoder.encode_descriptor(family.name, family.help, unit, family.kind())?;
            for (labels, sample) in &family.samples {
                encode_sample(&mut metric.encode_family(labels)?, sample)?;
            }
        }
        Ok(())
    }
}

fn health(of: &Health) -> Sample {
    Sample::Gauge(match of.state {
        HealthState::Ok => 1.0,
        HealthState::Degraded => 0.5,
        HealthState::Failed => 0.0,
    })
}

/// The metrics of programs.
pub fn text(views: &[ProgramView]) -> String {
    let mut registry = Registry::with_prefix("everwarp");
    registry.register_collector(Box::new(Programs(views.to_vec())));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("a string takes all that is written to it");
    text
}

/// Collects the samples of several parts under one name, as the format wants it.
struct Families(Vec<Family>);

impl Families {
    fn add(&mut self, name: &'static str, help: &'static str, labels: &Labels, sample: Sample) {
        self.add_unit(name, help, None, labels, sample);
    }
    fn times(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &Labels,
        times: &Option<Distribution>,
    ) {
        if let Some(times) = times {
            let sample = Sample::Times(times.clone());
            self.add_unit(name, help, Some(Unit::Seconds), labels, sample);
        }
    }
    fn add_unit(
        &mut self,
        name: &'static str,
        help: &'static str,
        unit: Option<Unit>,
        labels: &Labels,
        sample: Sample,
    ) {
        let at = self.0.iter().position(|family| family.name == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(Family::new(name, help, unit));
            self.0.len() - 1
        });
        self.0[at].samples.push((labels.clone(), sample));
    }
}

fn with(labels: &Labels, more: &[(&'static str, &str)]) -> Labels {
    let more = more
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    labels.iter().cloned().chain(more).collect()
}

fn families(views: &[ProgramView]) -> Vec<Family> {
    let mut all = Families(Vec::new());
    for view in views {
        engines(view, &mut all);
        hosts(view, &mut all);
        systems(view, &mut all);
        let own = vec![("program", view.os_pid.to_string())];
        all.add(
            "health",
            "Whether all parts of a program work: 1 yes, 0.5 with reservations, 0 no.",
            &own,
            health(&view.health()),
        );
    }
    all.0
}

fn engines(view: &ProgramView, all: &mut Families) {
    for e in &view.engines {
        let own: Labels = vec![
            ("program", view.os_pid.to_string()),
            ("engine", e.engine.clone()),
            ("number", e.number.to_string()),
        ];
        all.add(
            "engine_health",
            "Whether an engine works: 1 yes, 0.5 with reservations, 0 no.",
            &own,
            health(&e.health),
        );
        all.add(
            "engine_tasks",
            "Tasks run to completion.",
            &own,
            Sample::Count(e.executed),
        );
        all.add(
            "engine_batches",
            "Batches in which tasks ran.",
            &own,
            Sample::Count(e.batches),
        );
        all.add(
            "engine_continuations",
            "Continuations fired.",
            &own,
            Sample::Count(e.fired),
        );
        all.add(
            "engine_moved_tasks",
            "Tasks that moved from one worker to another.",
            &own,
            Sample::Count(e.received),
        );
        all.add(
            "engine_starved",
            "How often a worker had no room to run.",
            &own,
            Sample::Count(e.starved),
        );
        all.add(
            "engine_queued_tasks",
            "Tasks in the workers' queues.",
            &own,
            Sample::Gauge(e.queued as f64),
        );
        all.add(
            "engine_refused_tasks",
            "How often a pool had no room for a task.",
            &own,
            Sample::Count(e.task_refusals),
        );
        all.add(
            "engine_refused_groups",
            "How often a pool had no room for a group.",
            &own,
            Sample::Count(e.group_refusals),
        );
        all.add_unit(
            "engine_memory",
            "Device memory without buffers.",
            Some(Unit::Bytes),
            &own,
            Sample::Gauge(e.device_bytes as f64),
        );
        if let (Some(used), Some(bytes)) = (e.heap_used, e.heap_bytes) {
            all.add_unit(
                "heap_used",
                "Bytes of the heap in use.",
                Some(Unit::Bytes),
                &own,
                Sample::Gauge(used as f64),
            );
            all.add_unit(
                "heap_size",
                "Bytes of the heap.",
                Some(Unit::Bytes),
                &own,
                Sample::Gauge(bytes as f64),
            );
        }
        for w in &e.workers {
            let labels = with(&own, &[("worker", &w.number.to_string())]);
            all.add(
                "worker_tasks",
                "Tasks that a worker ran to completion.",
                &labels,
                Sample::Count(w.executed),
            );
            all.add(
                "worker_queued_tasks",
                "Tasks in a worker's queues.",
                &labels,
                Sample::Gauge(w.queued as f64),
            );
        }
        for f in &e.functions {
            let labels = with(&own, &[("of", &f.program), ("function", &f.function)]);
            if let Some(calls) = f.calls {
                all.add(
                    "function_calls",
                    "Calls of a function.",
                    &labels,
                    Sample::Count(calls),
                );
            }
            all.times(
                "function_run",
                "How long tasks of a function ran.",
                &labels,
                &f.run,
            );
            all.times(
                "function_wait",
                "How long tasks of a function waited in queues.",
                &labels,
                &f.wait,
            );
        }
    }
}

/// How many there are in each state.
fn by_state(
    all: &mut Families,
    name: &'static str,
    help: &'static str,
    labels: &Labels,
    states: [(&str, f64); 3],
) {
    for (state, count) in states {
        let labels = with(labels, &[("state", state)]);
        all.add(name, help, &labels, Sample::Gauge(count));
    }
}

fn hosts(view: &ProgramView, all: &mut Families) {
    for h in &view.hosts {
        let own: Labels = vec![
            ("program", h.os_pid.to_string()),
            ("engine", h.engine.clone()),
            ("module", h.module.clone()),
            ("number", h.number.to_string()),
        ];
        all.add(
            "processes_health",
            "Whether a host of processes works: 1 yes, 0.5 with reservations, 0 no.",
            &own,
            health(&h.health),
        );
        let states = [
            ("waiting", h.waiting as f64),
            ("running", h.running as f64),
            ("ended", h.ended as f64),
        ];
        by_state(all, "processes", "Processes by state.", &own, states);
        if let Some(compiling) = &h.compiling {
            let states = [
                ("left_out", compiling.left_out as f64),
                ("assembled", compiling.assembled as f64),
                ("present", compiling.present as f64),
            ];
            let help = "Functions that were not compiled before the start: all, those that are assembled, and those that \
                        processes have.";
            by_state(all, "functions", help, &own, states);
            all.add(
                "image_exchanges",
                "Exchanges of the engine's image for functions that processes have asked for.",
                &own,
                Sample::Count(compiling.exchanges),
            );
            all.add(
                "image_exchange_pause_seconds",
                "Seconds for which these exchanges have paused the engine, in all.",
                &own,
                Sample::Gauge(compiling.paused_s),
            );
        }
        let Some(totals) = &h.totals else { continue };
        for (end, count) in [("success", totals.succeeded), ("failure", totals.failed)] {
            all.add(
                "processes_ended",
                "Processes that have ended.",
                &with(&own, &[("end", end)]),
                Sample::Count(count),
            );
        }
        all.add(
            "host_calls",
            "Host calls of processes.",
            &own,
            Sample::Count(totals.calls),
        );
        all.times(
            "process_wait",
            "How long processes waited for a thread, or for a place on a GPU.",
            &own,
            &Some(totals.wait.clone()),
        );
        all.times(
            "process_run",
            "How long processes took from start to end.",
            &own,
            &Some(totals.run.clone()),
        );
        all.times(
            "host_call",
            "How long host calls took.",
            &own,
            &Some(totals.call.clone()),
        );
        for kind in &totals.by_kind {
            all.times(
                "host_call_kind",
                "How long the host took for calls of each kind.",
                &with(&own, &[("call", &kind.call)]),
                &Some(kind.times.clone()),
            );
        }
    }
}

fn systems(view: &ProgramView, all: &mut Families) {
    for s in &view.systems {
        let own: Labels = vec![
            ("program", view.os_pid.to_string()),
            ("actors", s.program.clone()),
            ("number", s.number.to_string()),
        ];
        for (reason, count) in &s.dead {
            all.add(
                "dead_letters",
                "Messages that were not handled, by reason.",
                &with(&own, &[("reason", reason)]),
                Sample::Count(*count),
            );
        }
        all.add(
            "actor_mutes",
            "How often a sender was muted.",
            &own,
            Sample::Count(s.mutes),
        );
        all.add(
            "actor_restarts",
            "How often a failed actor was restarted.",
            &own,
            Sample::Count(s.restarts),
        );
        all.add(
            "actor_launch_refusals",
            "How often there was no room for an actor.",
            &own,
            Sample::Count(s.launch_refusals),
        );
        all.times(
            "actor_ask",
            "How long the host's asks took until their replies.",
            &own,
            &s.ask,
        );
        for k in &s.kinds {
            let labels = with(&own, &[("kind", &k.kind)]);
            all.add(
                "kind_health",
                "Whether the actors of a kind work: 1 yes, 0.5 with reservations, 0 no.",
                &labels,
                health(&k.health),
            );
            all.add(
                "actors",
                "Actors that live.",
                &labels,
                Sample::Gauge(f64::from(k.live)),
            );
            all.add(
                "actor_messages_waiting",
                "Messages that wait in mailboxes.",
                &labels,
                Sample::Gauge(k.waiting as f64),
            );
            all.add(
                "actor_mailbox_longest",
                "Messages that wait in the longest mailbox of a kind.",
                &labels,
                Sample::Gauge(f64::from(k.longest)),
            );
            all.add(
                "actor_messages_handled",
                "Messages that living actors have handled.",
                &labels,
                Sample::Gauge(k.handled as f64),
            );
            all.times(
                "actor_handling",
                "How long handling one message took.",
                &labels,
                &k.handling,
            );
            all.times(
                "actor_wait",
                "How long turns waited in queues.",
                &labels,
                &k.wait,
            );
        }
    }
}
