//! Where a piece of work belongs, reckoned from measured costs.
//!
//! The model is small on purpose, so that it can be checked by hand: a time for each way to run the work is the sum of
//! a fixed cost, a cost for each piece, the pieces' own work on the processors that there are, and the bytes that cross
//! the bus. It knows nothing of caches, divergence or vector units; a benchmark of the real work beats it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::finding::{Check, FindingId};
use crate::report::Report;

/// Threads of an H200 that hold work at a time, as processes are laid out.
const LANES: f64 = 67_000.0;
/// How much longer one lane of a GPU takes for irregular work than one core of the host. Between 25 (hashing) and 70
/// (drawing random points) were measured with 100,000 processes.
const LANE_SLOWDOWN: f64 = 40.0;
/// Bytes a second over the bus, each way, from pinned memory.
const BUS: f64 = 55e9;
/// What a task costs on one core of the CPU engine.
const CPU_TASK: f64 = 4e-8;
/// Another place must be so much faster before work moves there.
const WORTH_MOVING: f64 = 1.2;

/// What is known of the successors of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependencies {
    /// The pieces do not depend on each other.
    None,
    /// The pieces depend on each other, and the whole graph is known beforehand.
    Known,
    /// Each piece decides what comes next.
    Unknown,
}

/// The five questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Question {
    /// Seconds that a piece takes on one core of the CPU.
    pub piece_s: f64,
    /// How many pieces there are.
    pub count: f64,
    /// What they depend on.
    pub dependencies: Dependencies,
    /// Bytes that have to cross the bus for all of them, if they run on the GPU.
    pub bytes: f64,
    /// Seconds within which the first answer is wanted; infinity if any time will do.
    pub latency_s: f64,
}

/// A way to run work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The host's cores.
    Cpu,
    /// One ordinary kernel, or one for each level.
    Kernel,
    /// A CUDA graph, a node for each piece.
    Graph,
    /// Tasks on the resident engine.
    Tasks,
    /// WebAssembly processes on the resident engine.
    Processes,
}

impl Tool {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "stay on the CPU",
            Self::Kernel => "a plain kernel",
            Self::Graph => "a CUDA graph",
            Self::Tasks => "everwarp tasks",
            Self::Processes => "everwarp processes",
        }
    }
}

/// One way, reckoned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The way.
    pub tool: Tool,
    /// Seconds for all pieces.
    pub total_s: f64,
    /// Seconds until the first answer, at least.
    pub first_s: f64,
    /// How the total was reckoned.
    pub arithmetic: String,
    /// Why this way is out of the question; empty if it is not.
    pub ruled_out: String,
    /// Findings that bear on it.
    pub findings: Vec<FindingId>,
}

/// What to do, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The way to take.
    pub tool: Tool,
    /// One sentence.
    pub why: String,
    /// All ways, fastest first; those that are out of the question come last.
    pub estimates: Vec<Estimate>,
    /// The device that the costs were measured on.
    pub device: String,
}

#[derive(Deserialize)]
struct CostFile {
    device: String,
    report: String,
    #[serde(rename = "cost")]
    costs: Vec<Cost>,
}

#[derive(Deserialize)]
struct Cost {
    name: String,
    check: Check,
    value: f64,
}

/// Measured costs, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    device: String,
    launch: f64,
    graph_node: f64,
    round_trip: f64,
    task: f64,
    step: f64,
    process: f64,
}

fn cost_file() -> CostFile {
    toml::from_str(include_str!("../data/costs.toml")).expect("a test reads the costs")
}

impl Costs {
    /// The costs of the machine whose figures everwarp publishes.
    pub fn published() -> Self {
        Self::of(&Report::default())
    }

    /// The costs in a report; where it lacks one, the published one.
    pub fn of(report: &Report) -> Self {
        let file = cost_file();
        let mut measured = 0;
        let mut cost = |name: &str| {
            let cost = file
                .costs
                .iter()
                .find(|c| c.name == name)
                .expect("every cost is in the file");
            let figure = report.figure(&cost.check);
            measured += usize::from(figure.is_some());
            figure.unwrap_or(cost.value)
        };
        let [launch, graph_node, round_trip, task, step, process] = [
            "launch",
            "graph_node",
            "round_trip",
            "task",
            "step",
            "process",
        ]
        .map(&mut cost);
        let device = match measured {
            0 => format!("{} ({})", file.device, file.report),
            6 => report.device.clone(),
            some => format!(
                "{}, {some} of 6 costs; the others of {}",
                report.device, file.device
            ),
        };
        Self {
            device,
            launch,
            graph_node,
            round_trip,
            task,
            step,
            process,
        }
    }
}

/// A time for people.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s.is_infinite() => "any time".to_owned(),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.2} us", s * 1e6),
        s => format!("{:.2} ns", s * 1e9),
    }
}

/// Says where work belongs on a machine with `cores` cores.
pub fn advise(question: &Question, costs: &Costs, cores: f64) -> Advice {
    let mut estimates = vec![
        cpu(question, cores),
        kernel(question, costs),
        graph(question, costs),
        tasks(question, costs),
        processes(question, costs),
    ];
    for estimate in &mut estimates {
        if estimate.ruled_out.is_empty() && estimate.first_s > question.latency_s {
            estimate.ruled_out = format!(
                "its first answer takes {} and {} are wanted",
                duration(estimate.first_s),
                duration(question.latency_s)
            );
        }
    }
    estimates.sort_by(|a, b| {
        (!a.ruled_out.is_empty(), a.total_s)
            .partial_cmp(&(!b.ruled_out.is_empty(), b.total_s))
            .expect("times are numbers")
    });
    let cpu = estimates
        .iter()
        .find(|e| e.tool == Tool::Cpu)
        .expect("the CPU is always a way");
    let best = &estimates[0];
    let stays = best.tool == Tool::Cpu
        || cpu.ruled_out.is_empty() && cpu.total_s < WORTH_MOVING * best.total_s;
    let (tool, why) = match stays {
        true => {
            let other = estimates
                .iter()
                .find(|e| e.tool != Tool::Cpu && e.ruled_out.is_empty());
            let than = other.map_or_else(
                || "nothing on a GPU fits".to_owned(),
                |e| {
                    format!(
                        "the best on a GPU, {}, takes {}",
                        e.tool.name(),
                        duration(e.total_s)
                    )
                },
            );
            (
                Tool::Cpu,
                format!(
                    "{} on the CPU; {than}, and moving work is worth it from {WORTH_MOVING} x on",
                    duration(cpu.total_s)
                ),
            )
        }
        false => (
            best.tool,
            format!(
                "{}: {}, where the CPU takes {}",
                best.tool.name(),
                duration(best.total_s),
                duration(cpu.total_s)
            ),
        ),
    };
    Advice {
        tool,
        why,
        device: costs.device.clone(),
        estimates,
    }
}

/// Seconds for the pieces' own work on a GPU, one lane for each.
fn on_lanes(question: &Question, arithmetic: &mut String) -> f64 {
    let rounds = (question.count / LANES).max(1.0);
    let work = rounds * question.piece_s * LANE_SLOWDOWN;
    let bus = question.bytes / BUS;
    write!(
        arithmetic,
        " + {} of work ({rounds:.1} rounds of {LANES} lanes, each {LANE_SLOWDOWN} x slower than a core)",
        duration(work)
    )
    .expect("writing to a string cannot fail");
    if bus > 0.0 {
        write!(
            arithmetic,
            " + {} for {} bytes over the bus",
            duration(bus),
            question.bytes
        )
        .expect("writing to a string cannot fail");
    }
    work + bus
}

fn estimate(
    tool: Tool,
    total_s: f64,
    first_s: f64,
    arithmetic: String,
    findings: &[u32],
) -> Estimate {
    let findings = findings.iter().copied().map(FindingId).collect();
    Estimate {
        tool,
        total_s,
        first_s,
        arithmetic,
        ruled_out: String::new(),
        findings,
    }
}

fn cpu(q: &Question, cores: f64) -> Estimate {
    let work = (q.piece_s + CPU_TASK) * (q.count / cores).max(1.0);
    let arithmetic = format!(
        "{} pieces of {} and {} each for the task, on {cores} cores",
        q.count,
        duration(q.piece_s),
        duration(CPU_TASK)
    );
    estimate(Tool::Cpu, work, q.piece_s, arithmetic, &[360, 365])
}

fn kernel(q: &Question, c: &Costs) -> Estimate {
    let mut arithmetic = format!("{} to launch and wait", duration(c.launch));
    let total = c.launch + on_lanes(q, &mut arithmetic);
    let mut kernel = estimate(Tool::Kernel, total, total, arithmetic, &[438, 451]);
    if q.dependencies != Dependencies::None {
        kernel.ruled_out =
            "pieces that depend on each other need a launch for each step".to_owned();
    }
    kernel
}

fn graph(q: &Question, c: &Costs) -> Estimate {
    let nodes = q.count * c.graph_node;
    let mut arithmetic = format!("{} for {} nodes", duration(nodes), q.count);
    let total = c.launch + nodes + on_lanes(q, &mut arithmetic);
    let mut graph = estimate(
        Tool::Graph,
        total,
        c.launch + q.piece_s * LANE_SLOWDOWN,
        arithmetic,
        &[451, 352],
    );
    if q.dependencies == Dependencies::Unknown {
        graph.ruled_out =
            "a graph is made before it runs, so its dependences must be known".to_owned();
    }
    graph
}

fn tasks(q: &Question, c: &Costs) -> Estimate {
    let (each, what) = match q.dependencies {
        Dependencies::None => (c.task, "tasks"),
        _ => (c.task.max(c.step / LANES), "dependent tasks"),
    };
    let scheduling = c.round_trip + q.count * each;
    let mut arithmetic = format!(
        "{} for the round trip and {} {what}",
        duration(scheduling),
        q.count
    );
    let total = scheduling + on_lanes(q, &mut arithmetic);
    let first = c.round_trip + q.piece_s * LANE_SLOWDOWN;
    estimate(Tool::Tasks, total, first, arithmetic, &[291, 438, 439])
}

fn processes(q: &Question, c: &Costs) -> Estimate {
    let scheduling = c.round_trip + q.count * c.process;
    let mut arithmetic = format!(
        "{} to start and end {} processes",
        duration(scheduling),
        q.count
    );
    let total = scheduling + on_lanes(q, &mut arithmetic);
    let first = c.round_trip + c.process + q.piece_s * LANE_SLOWDOWN;
    let mut processes = estimate(Tool::Processes, total, first, arithmetic, &[550, 459]);
    if q.dependencies != Dependencies::None {
        processes.ruled_out =
            "processes pass messages; for dependences between pieces take tasks".to_owned();
    }
    processes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn question(piece_s: f64, count: f64, dependencies: Dependencies) -> Question {
        Question {
            piece_s,
            count,
            dependencies,
            bytes: 0.0,
            latency_s: f64::INFINITY,
        }
    }

    fn tool(question: Question) -> Tool {
        advise(&question, &Costs::published(), 16.0).tool
    }

    #[test]
    fn published_costs_are_those_of_the_report() {
        let file = cost_file();
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(&file.report);
        let report = Report::read(&path).expect("the report is committed");
        assert_eq!(report.device, file.device);
        for cost in &file.costs {
            let figure = report.figure(&cost.check).expect("the report has the row");
            assert!(
                (figure / cost.value - 1.0).abs() < 0.005,
                "{}: {figure} in the report",
                cost.name
            );
        }
        let costs = Costs::of(&report);
        assert_eq!(costs.device, "NVIDIA H200");
    }

    #[test]
    fn little_work_stays_on_the_cpu() {
        assert_eq!(tool(question(1e-6, 10.0, Dependencies::None)), Tool::Cpu);
        assert_eq!(tool(question(1e-3, 1.0, Dependencies::Unknown)), Tool::Cpu);
    }

    #[test]
    fn bytes_that_cross_the_bus_keep_work_on_the_cpu() {
        let little = Question {
            bytes: 0.0,
            ..question(1e-7, 1e6, Dependencies::None)
        };
        assert_eq!(tool(little), Tool::Kernel);
        assert_eq!(
            tool(Question {
                bytes: 1e9,
                ..little
            }),
            Tool::Cpu
        );
    }

    #[test]
    fn many_pieces_that_decide_what_comes_next_are_tasks() {
        assert_eq!(
            tool(question(1e-6, 1e7, Dependencies::Unknown)),
            Tool::Tasks
        );
    }

    #[test]
    fn a_latency_rules_ways_out() {
        let question = Question {
            latency_s: 1e-6,
            ..question(1e-7, 1e6, Dependencies::None)
        };
        let advice = advise(&question, &Costs::published(), 16.0);
        assert_eq!(advice.tool, Tool::Cpu);
        let kernel = advice
            .estimates
            .iter()
            .find(|e| e.tool == Tool::Kernel)
            .expect("all ways are listed");
        assert!(
            kernel.ruled_out.contains("first answer"),
            "{}",
            kernel.ruled_out
        );
    }
}
