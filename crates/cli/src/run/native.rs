//! `everwarp run PROGRAM`: one run of a native program.

use std::io::Write;
use std::time::{Duration, Instant};

use everwarp::{Device, Engine, EngineKind, Select};
use everwarp_programs::{InputError, OUTPUT, OptionValues, Prepared, Registered};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::options::NativeOptions;
use super::served;
use crate::error::CliError;
use crate::output::{check_place, print, print_json, write_file};

/// The report that is printed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    program: String,
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
    /// From submission to completion, without copies.
    elapsed_s: f64,
    /// Reading or generating the input.
    input_s: f64,
    /// `null` without --verify.
    verified: Option<bool>,
}

/// A run that has ended: its report, and why its result is wrong if it is.
pub(super) struct Ran {
    pub(super) report: Report,
    pub(super) wrong: Option<String>,
}

/// Runs a program as the options say, in the service if one is up.
pub(super) fn main(
    program: &'static dyn Registered,
    options: &NativeOptions,
) -> Result<(), CliError> {
    let output = options.values.file(&OUTPUT);
    let select = options.engine.engine.parse()?;
    let adapter = options.engine.adapter.as_deref();
    if adapter.is_some() && select != Select::Wgpu {
        return Err(CliError::AdapterWithoutWgpu);
    }
    output.map_or(Ok(()), check_place)?;
    let select = match select {
        // A GPU that is there does not help a program that it cannot run.
        Select::Auto if !program.runs_on(EngineKind::Cuda) => Select::Cpu,
        select => select,
    };
    let ran = match served::run(program, options, select)? {
        Some(ran) => ran,
        None => {
            let device = || match select {
                Select::Wgpu => Ok(Device::open_adapter(adapter)?),
                // Not an adapter of wgpu, which has no times.
                select if options.engine.watch.times().is_some() => Ok(Device::open(select)?),
                select => Ok(Device::for_tasks(select, [program.program()], 0)?),
            };
            let write = |fill: &mut Fill<'_>| match output {
                Some(path) => write_file(path, fill),
                None => Ok(()),
            };
            let (values, size) = (&options.values, options.engine.size);
            run(program, values, options.verify, size, device, |_| {}, write)?
        }
    };
    if let Some(what) = ran.wrong {
        if options.engine.json {
            print_json(&ran.report)?;
        }
        return Err(CliError::Wrong { what });
    }
    match options.engine.json {
        true => print_json(&ran.report),
        false => print(&describe(&ran.report)),
    }
}

/// Writes a result.
pub(super) type Fill<'a> = dyn FnMut(&mut dyn Write) -> std::io::Result<()> + 'a;

/// Runs a program on the device that `open` opens once the input is there. `started` gets the engine before the program
/// runs, and `write` the result if it is right.
pub(super) fn run<D: std::borrow::Borrow<Device>>(
    program: &'static dyn Registered,
    values: &OptionValues,
    verify: bool,
    size: Option<u32>,
    open: impl FnOnce() -> Result<D, CliError>,
    started: impl FnOnce(&Engine),
    write: impl FnOnce(&mut Fill<'_>) -> Result<(), CliError>,
) -> Result<Ran, CliError> {
    let begin = Instant::now();
    let prepared = prepare(program, values)?;
    let input_s = begin.elapsed().as_secs_f64();
    let device = open()?;
    let device = device.borrow();
    if !program.runs_on(device.kind()) {
        return Err(CliError::ProgramNotOnEngine {
            program: program.name().to_owned(),
            engine: device.kind(),
        });
    }
    let engine = start(device, program, size)?;
    started(&engine);
    let running = format!("running {}", program.name());
    let finished = spin(&running, || prepared.run(&engine))?;
    let verified = verify.then(|| finished.verify());
    let facts = finished.facts();
    let mut report = Report {
        program: program.name().to_owned(),
        engine: engine.kind().to_string(),
        device: engine.device_name(),
        why: device.why().to_owned(),
        vertices: facts.vertices,
        edges: facts.edges,
        reached: facts.reached,
        levels: facts.levels,
        result: facts.result,
        tasks: 0,
        elapsed_s: finished.elapsed().as_secs_f64(),
        input_s,
        verified: verified.as_ref().map(Result::is_ok),
    };
    // A wrong result is not written to the file.
    if let Some(Err(what)) = verified {
        let wrong = Some(what);
        return Ok(Ran { report, wrong });
    }
    write(&mut |out| finished.write(out))?;
    engine.park()?;
    report.tasks = engine.stats()?.executed;
    let wrong = None;
    Ok(Ran { report, wrong })
}

/// Starts an engine with the program.
fn start(
    device: &Device,
    program: &'static dyn Registered,
    size: Option<u32>,
) -> Result<Engine, CliError> {
    let builder = device.engine().program(program.program());
    let builder = match size {
        Some(size) => builder.size(size),
        None => builder,
    };
    let starting = format!("starting the {} engine", device.kind());
    Ok(spin(&starting, || builder.start())?)
}

/// Shows a spinner on a terminal while something takes long.
pub(super) fn spin<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let bar = spinner(what);
    let result = work();
    bar.finish_and_clear();
    result
}

fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Reads the input, with a bar or a spinner on a terminal.
fn prepare(
    program: &'static dyn Registered,
    values: &OptionValues,
) -> Result<Box<dyn Prepared>, CliError> {
    let style = ProgressStyle::with_template("{msg} {bar:40} {bytes}/{total_bytes} {eta}")
        .expect("a valid template");
    let mut bar = None;
    let prepared = program.prepare(values, &mut |what, part| {
        let bar = bar.get_or_insert_with(|| match part {
            Some(_) => ProgressBar::new(0)
                .with_style(style.clone())
                .with_message(what.to_owned()),
            None => spinner(what),
        });
        if let Some((done, total)) = part {
            bar.set_length(total);
            bar.set_position(done);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(prepared?)
}

impl From<InputError> for CliError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::NeedsGraph { program } => Self::NeedsGraph { program },
            InputError::SourceOutOfRange {
                source_vertex,
                largest,
            } => Self::SourceOutOfRange {
                source_vertex,
                largest,
            },
            InputError::Graph(error) => Self::Graph(error),
            InputError::Spec(error) => Self::Spec(error),
            InputError::File { path, source } => Self::Input { path, source },
            error @ (InputError::Value { .. } | InputError::NeedsFile { .. }) => {
                Self::ProgramInput(error)
            }
        }
    }
}

/// A number of things, with the word in the singular or the plural.
fn count(number: impl Into<i128>, one: &str, many: &str) -> String {
    let number = number.into();
    format!("{number} {}", if number == 1 { one } else { many })
}

fn describe(r: &Report) -> String {
    let mut text = format!("{} on {} ({})\n", r.program, r.engine, r.device);
    if let (Some(vertices), Some(edges)) = (r.vertices, r.edges) {
        text += &format!(
            "graph: {}, {}, read in {:.3} s\n",
            count(vertices, "vertex", "vertices"),
            count(edges, "directed edge", "directed edges"),
            r.input_s
        );
    }
    if let (Some(reached), Some(levels)) = (r.reached, r.levels) {
        text += &format!(
            "reached: {} in {}\n",
            count(reached as u64, "vertex", "vertices"),
            count(levels, "level", "levels")
        );
    }
    if let Some(result) = r.result {
        text += &format!("result: {result}\n");
    }
    let rate = r.tasks as f64 / r.elapsed_s / 1e6;
    let tasks = count(r.tasks, "task", "tasks");
    text += &format!("{tasks} in {:.6} s ({rate:.2} M/s)", r.elapsed_s);
    match r.verified {
        Some(true) => text + "\nverified: equal to the plain reference",
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_vertex_in_one_level_is_in_the_singular() {
        let report = Report {
            vertices: Some(1),
            edges: Some(0),
            reached: Some(1),
            levels: Some(1),
            tasks: 1,
            elapsed_s: 1.0,
            ..Report::default()
        };
        let text = describe(&report);
        for part in [
            "graph: 1 vertex, 0 directed edges,",
            "reached: 1 vertex in 1 level\n",
            "\n1 task in 1.000000 s",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
