//! `everwarp run`.

use std::path::PathBuf;
use std::time::Instant;

use everwarp::{Device, Engine};
use everwarp_graph::{Csr, Direction, ReadOptions, Spec, generate, read_path};
use everwarp_programs::{bfs, fib, noop, pagerank, pingpong, tree};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{check_place, print, print_json, write_file};
use crate::process;
use crate::programs::ENTRIES;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program; `everwarp programs` lists them. Or a WebAssembly module, MODULE.wasm.
    pub(crate) program: String,
    /// Where to run it: cpu, cuda, or auto (a GPU if there is one to use).
    #[arg(long, default_value = "auto")]
    pub(crate) engine: String,
    /// The engine's size: threads on a CPU, blocks on a GPU; as many as there are by default.
    #[arg(long)]
    pub(crate) size: Option<u32>,
    /// A graph: edge list or Matrix Market, plain or gzip.
    #[arg(long, conflicts_with = "generate")]
    graph: Option<PathBuf>,
    /// A generated graph: chain:N, grid:WxH, random:N:M or rmat:SCALE, with further sizes behind a colon.
    #[arg(long)]
    generate: Option<String>,
    /// Take the edges of --graph as directed.
    #[arg(long, conflicts_with = "undirected")]
    directed: bool,
    /// Take the edges of --graph as undirected.
    #[arg(long)]
    undirected: bool,
    /// The vertex to start from.
    #[arg(long)]
    source: Option<u32>,
    /// Iterations of pagerank.
    #[arg(long)]
    iterations: Option<u32>,
    /// The size of fib, tree, pingpong and noop.
    #[arg(long)]
    n: Option<u32>,
    /// Write the result here, one line a vertex.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Check the result against the plain reference.
    #[arg(long)]
    verify: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) process: process::Options,
}

/// What is printed.
#[derive(Debug, Default, Serialize)]
struct Report {
    program: &'static str,
    engine: String,
    device: String,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    vertices: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edges: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<u64>,
    tasks: u64,
    /// From submission to completion, copies not included.
    elapsed_s: f64,
    /// Reading or generating the input.
    input_s: f64,
    /// `null` when it was not asked for.
    verified: Option<bool>,
}

/// Answers whether an option was given to a program that does not take it.
fn check_options(args: &Args) -> Result<(), CliError> {
    let program = args.program.as_str();
    let module = process::is_module(program);
    let graph = matches!(program, "bfs" | "pagerank");
    let given = [
        ("--graph", args.graph.is_some(), graph),
        ("--generate", args.generate.is_some(), graph),
        ("--output", args.output.is_some(), graph),
        ("--source", args.source.is_some(), program == "bfs"),
        (
            "--iterations",
            args.iterations.is_some(),
            program == "pagerank",
        ),
        ("--n", args.n.is_some(), !graph && !module),
        ("--directed", args.directed, graph),
        ("--undirected", args.undirected, graph),
        ("--verify", args.verify, !module),
    ];
    let native = given.iter().find(|(_, given, takes)| *given && !takes);
    let of_modules = match module {
        true => None,
        false => args.process.given(),
    };
    match native.map(|(option, ..)| *option).or(of_modules) {
        Some(option) => Err(CliError::NotApplicable {
            option,
            program: program.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Runs the program; the answer is the command's exit code.
pub(crate) fn main(args: &Args) -> Result<u8, CliError> {
    if process::is_module(&args.program) {
        check_options(args)?;
        return process::main(args);
    }
    run_native(args).map(|()| 0)
}

fn run_native(args: &Args) -> Result<(), CliError> {
    let known = || ENTRIES.map(|e| e.name).join(", ");
    let program = ENTRIES
        .iter()
        .find(|e| e.name == args.program)
        .map(|e| e.name);
    let program = program.ok_or_else(|| CliError::UnknownProgram {
        name: args.program.clone(),
        known: known(),
    })?;
    check_options(args)?;
    let select = args.engine.parse()?;
    let begin = Instant::now();
    args.output.as_deref().map_or(Ok(()), check_place)?;
    let graph = match program {
        "bfs" | "pagerank" => Some(load_graph(args, program)?),
        _ => None,
    };
    if let (Some(graph), Some(source)) = (&graph, args.source)
        && source >= graph.vertices()
    {
        return Err(CliError::SourceOutOfRange {
            source_vertex: source,
            largest: graph.vertices() - 1,
        });
    }
    let input_s = begin.elapsed().as_secs_f64();
    let device = Device::open(select)?;
    let entry = everwarp_programs::ALL
        .into_iter()
        .find(|p| p.name == program)
        .expect("every entry is a program");
    let mut builder = device.engine().program(entry);
    if let Some(size) = args.size {
        builder = builder.size(size);
    }
    let engine = spin(&format!("starting the {} engine", device.kind()), || {
        builder.start()
    })?;
    let mut report = Report {
        program,
        engine: engine.kind().to_string(),
        device: engine.device_name(),
        why: device.why().to_owned(),
        input_s,
        ..Report::default()
    };
    let result = match (program, &graph) {
        ("bfs", Some(graph)) => run_bfs(args, &engine, graph, &mut report),
        ("pagerank", Some(graph)) => run_pagerank(args, &engine, graph, &mut report),
        _ => run_sized(args, &engine, program, &mut report),
    };
    if let Err(wrong @ CliError::Wrong { .. }) = result {
        if args.json {
            print_json(&report)?;
        }
        return Err(wrong);
    }
    result?;
    engine.park()?;
    report.tasks = engine.stats()?.executed;
    if args.json {
        print_json(&report)
    } else {
        print(&describe(&report))
    }
}

/// Shows a spinner on a terminal while something takes long.
fn spin<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let result = work();
    bar.finish_and_clear();
    result
}

fn load_graph(args: &Args, program: &'static str) -> Result<Csr, CliError> {
    if let Some(spec) = &args.generate {
        let spec = match args.directed && !spec.ends_with(",directed") {
            true => format!("{spec},directed"),
            false => spec.clone(),
        };
        let spec: Spec = spec.parse()?;
        return Ok(spin(&format!("generating {spec}"), || generate(&spec))?);
    }
    let path = args
        .graph
        .as_ref()
        .ok_or(CliError::NeedsGraph { program })?;
    let direction = match (args.directed, args.undirected) {
        (true, _) => Some(Direction::Directed),
        (_, true) => Some(Direction::Undirected),
        _ => None,
    };
    let style = ProgressStyle::with_template("{msg} {bar:40} {bytes}/{total_bytes} {eta}")
        .expect("a valid template");
    let bar = ProgressBar::new(0)
        .with_style(style)
        .with_message(format!("reading {}", path.display()));
    let graph = read_path(
        path,
        &ReadOptions {
            direction,
            ..ReadOptions::default()
        },
        &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        },
    );
    bar.finish_and_clear();
    Ok(graph?)
}

fn run_bfs(args: &Args, engine: &Engine, graph: &Csr, report: &mut Report) -> Result<(), CliError> {
    let source = args.source.unwrap_or(0);
    report.vertices = Some(graph.vertices());
    report.edges = Some(graph.edges());
    let search = bfs::Bfs::new(engine, graph.rows(), graph.columns())?;
    search.reset(engine, source)?;
    let begin = Instant::now();
    spin("searching", || search.search(engine, source))?;
    report.elapsed_s = begin.elapsed().as_secs_f64();
    let found = search.found()?;
    report.reached = Some(found.reached());
    report.levels = Some(found.depth());
    if args.verify {
        let same = found == bfs::reference(graph.rows(), graph.columns(), source);
        report.verified = Some(same);
        if !same {
            return Err(CliError::Wrong {
                what: "levels or parents".to_owned(),
            });
        }
    }
    match &args.output {
        Some(path) => write_file(path, |out| {
            let lines = found.levels.iter().zip(&found.parents).enumerate();
            lines
                .into_iter()
                .try_for_each(|(v, (level, parent))| writeln!(out, "{v}\t{level}\t{parent}"))
        }),
        None => Ok(()),
    }
}

fn run_pagerank(
    args: &Args,
    engine: &Engine,
    graph: &Csr,
    report: &mut Report,
) -> Result<(), CliError> {
    let iterations = args.iterations.unwrap_or(20);
    if iterations > pagerank::MAX_ITERATIONS {
        return Err(CliError::Value {
            option: "--iterations",
            rule: "at most 255",
            value: iterations.into(),
        });
    }
    report.vertices = Some(graph.vertices());
    report.edges = Some(graph.edges());
    let incoming = graph.transpose();
    let degrees: Vec<u32> = graph.rows().windows(2).map(|w| w[1] - w[0]).collect();
    let program = pagerank::PageRank::new(
        engine,
        incoming.rows(),
        incoming.columns(),
        &degrees,
        iterations,
    )?;
    let begin = Instant::now();
    let ranks = spin("iterating", || program.run(engine))?;
    report.elapsed_s = begin.elapsed().as_secs_f64();
    if args.verify {
        let expected =
            pagerank::reference(incoming.rows(), incoming.columns(), &degrees, iterations);
        let worst = ranks
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs() / b)
            .fold(0.0, f64::max);
        report.verified = Some(worst < 1e-9);
        if worst >= 1e-9 {
            return Err(CliError::Wrong {
                what: format!("a rank is off by {worst:e} of its value"),
            });
        }
    }
    match &args.output {
        Some(path) => write_file(path, |out| {
            ranks
                .iter()
                .enumerate()
                .try_for_each(|(v, rank)| writeln!(out, "{v}\t{rank:e}"))
        }),
        None => Ok(()),
    }
}

/// The programs without a graph: the result and what it should be.
fn run_sized(
    args: &Args,
    engine: &Engine,
    program: &'static str,
    report: &mut Report,
) -> Result<(), CliError> {
    let limit = |n: u32, most: u32, rule| match n <= most {
        true => Ok(n),
        false => Err(CliError::Value {
            option: "--n",
            rule,
            value: n.into(),
        }),
    };
    let begin;
    let (result, expected): (u64, Box<dyn Fn() -> u64>) = match program {
        "fib" => {
            let n = limit(args.n.unwrap_or(25), fib::MAX_N, "at most 47")?;
            let instance = fib::instance(engine)?;
            begin = Instant::now();
            (
                spin("computing", || fib::run(engine, &instance, n))?,
                Box::new(move || fib::reference(n)),
            )
        }
        "tree" => {
            let depth = limit(args.n.unwrap_or(12), 28, "at most 28")?;
            let tree = tree::Tree::new(engine)?;
            begin = Instant::now();
            (
                spin("computing", || tree.run(engine, depth))?,
                Box::new(move || tree::reference(depth)),
            )
        }
        "pingpong" => {
            let steps = args.n.unwrap_or(10_000);
            let instance = pingpong::instance(engine)?;
            begin = Instant::now();
            (
                spin("running", || pingpong::run(engine, &instance, steps))?,
                Box::new(move || pingpong::reference(steps)),
            )
        }
        _ => {
            let n = args.n.unwrap_or(10_000);
            let instance = noop::instance(engine)?;
            let tasks = vec![instance.task(noop::NOTHING).build(); n as usize];
            begin = Instant::now();
            spin("running", || engine.submit_all(&tasks))?;
            report.elapsed_s = begin.elapsed().as_secs_f64();
            engine.park()?;
            (engine.stats()?.executed, Box::new(move || n.into()))
        }
    };
    if report.elapsed_s == 0.0 {
        report.elapsed_s = begin.elapsed().as_secs_f64();
    }
    report.result = Some(result);
    if args.verify {
        let expected = expected();
        report.verified = Some(result == expected);
        if result != expected {
            return Err(CliError::Wrong {
                what: format!("{result} instead of {expected}"),
            });
        }
    }
    Ok(())
}

fn describe(r: &Report) -> String {
    let mut text = format!("{} on {} ({})\n", r.program, r.engine, r.device);
    if let (Some(v), Some(e)) = (r.vertices, r.edges) {
        text += &format!(
            "graph: {v} vertices, {e} directed edges, read in {:.3} s\n",
            r.input_s
        );
    }
    if let (Some(reached), Some(levels)) = (r.reached, r.levels) {
        text += &format!("reached: {reached} vertices in {levels} levels\n");
    }
    if let Some(result) = r.result {
        text += &format!("result: {result}\n");
    }
    let rate = r.tasks as f64 / r.elapsed_s / 1e6;
    text += &format!("{} tasks in {:.6} s ({rate:.2} M/s)", r.tasks, r.elapsed_s);
    match r.verified {
        Some(true) => text + "\nverified: equal to the plain reference",
        _ => text,
    }
}
