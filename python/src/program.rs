//! Native programs of the registry, and breadth-first search over arrays of Python.

use std::time::{Duration, Instant};

use everwarp_programs::bfs::Bfs;
use everwarp_programs::{Facts, OptionKind, OptionValue, OptionValues, REGISTRY, Registered, find};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict};

use crate::engine::Engine;
use crate::errors::{EngineLost, ProgramError};

/// The result of a native program.
#[pyclass(frozen, module = "everwarp")]
pub(crate) struct ProgramResult {
    /// The program's name.
    #[pyo3(get)]
    program: &'static str,
    /// Seconds from submission to completion, without reading input and copying results.
    #[pyo3(get)]
    elapsed: f64,
    facts: Facts,
    /// The whole result as lines of text, for programs that have one.
    #[pyo3(get)]
    text: String,
    /// Whether the result equals the plain reference; `None` unless `verify` was given.
    #[pyo3(get)]
    verified: Option<bool>,
}

#[pymethods]
impl ProgramResult {
    /// A result that is one number.
    #[getter]
    fn result(&self) -> Option<u64> {
        self.facts.result
    }
    /// Vertices of the graph.
    #[getter]
    fn vertices(&self) -> Option<u32> {
        self.facts.vertices
    }
    /// Directed edges of the graph.
    #[getter]
    fn edges(&self) -> Option<u64> {
        self.facts.edges
    }
    /// Vertices that a search reached.
    #[getter]
    fn reached(&self) -> Option<usize> {
        self.facts.reached
    }
    /// Levels of a search.
    #[getter]
    fn levels(&self) -> Option<i64> {
        self.facts.levels
    }
    fn __repr__(&self) -> String {
        format!(
            "<everwarp.ProgramResult {} in {:.6} s>",
            self.program, self.elapsed
        )
    }
}

/// The native programs: name and what each does.
#[pyfunction]
pub(crate) fn programs() -> Vec<(&'static str, &'static str)> {
    REGISTRY.iter().map(|p| (p.name(), p.about())).collect()
}

fn known(name: &str) -> PyResult<&'static dyn Registered> {
    find(name).ok_or_else(|| {
        let names: Vec<_> = REGISTRY.iter().map(|p| p.name()).collect();
        PyValueError::new_err(format!(
            "there is no program called {name:?}: there are {}",
            names.join(", ")
        ))
    })
}

/// The options, from keyword arguments: `source=3` is `--source 3`.
fn options(
    program: &'static dyn Registered,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<OptionValues> {
    let mut values = OptionValues::default();
    for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
        let name: String = name.extract()?;
        let flag = format!("--{}", name.replace('_', "-"));
        let option = program.option(&flag).ok_or_else(|| {
            let names = program
                .options()
                .iter()
                .map(|o| o.flag.trim_start_matches('-'));
            let names: Vec<_> = names.map(|name| name.replace('-', "_")).collect();
            PyTypeError::new_err(format!(
                "{} takes no option {name:?}: it takes {}",
                program.name(),
                names.join(", ")
            ))
        })?;
        let wrong = |reason: String| PyValueError::new_err(format!("{name}: {reason}"));
        let value = match option.kind {
            OptionKind::Switch => match value.extract::<bool>()? {
                true => OptionValue::Given,
                false => continue,
            },
            OptionKind::Number { .. } => OptionValue::Number(value.extract()?),
            OptionKind::File => OptionValue::File(value.extract()?),
            OptionKind::Text(_) => option.parse(&value.str()?.to_string()).map_err(wrong)?,
        };
        values.set(option, value);
    }
    Ok(values)
}

/// Runs a native program; `everwarp.Engine.run_program` describes it.
#[pyfunction]
pub(crate) fn run_program(
    engine: &Engine,
    py: Python<'_>,
    name: &str,
    verify: bool,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<ProgramResult> {
    let program = known(name)?;
    let values = options(program, given)?;
    let failed = |e: String| ProgramError::new_err(e);
    py.detach(|| {
        let prepared = program
            .prepare(&values, &mut |_, _| {})
            .map_err(|e| failed(e.to_string()))?;
        let mut open = engine.open()?;
        if !program.runs_on(open.device.kind()) {
            return Err(failed(format!(
                "{name} runs on the CPU engine only: make it with kind=\"cpu\""
            )));
        }
        let tasks = open.tasks(program.name(), program.program())?;
        let finished = prepared.run(tasks).map_err(|e| failed(e.to_string()))?;
        let verified = verify.then(|| finished.verify());
        if let Some(Err(what)) = verified {
            return Err(failed(format!("the result of {name} is wrong: {what}")));
        }
        let mut text = Vec::new();
        finished
            .write(&mut text)
            .map_err(|e| failed(e.to_string()))?;
        Ok(ProgramResult {
            program: program.name(),
            elapsed: finished.elapsed().as_secs_f64(),
            facts: finished.facts(),
            text: String::from_utf8_lossy(&text).into_owned(),
            verified: verified.map(|_| true),
        })
    })
}

/// Searches a graph in CSR form. Returns levels and parents as bytes of int64, and the seconds that it took.
#[pyfunction]
pub(crate) fn bfs<'py>(
    engine: &Engine,
    py: Python<'py>,
    rows: pyo3::buffer::PyBuffer<u32>,
    columns: pyo3::buffer::PyBuffer<u32>,
    source: u32,
) -> PyResult<(Bound<'py, PyByteArray>, Bound<'py, PyByteArray>, f64)> {
    let (rows, columns) = (rows.to_vec(py)?, columns.to_vec(py)?);
    check(&rows, &columns, source)?;
    let lost = |e: everwarp::Error| EngineLost::new_err(e.to_string());
    let (found, elapsed) = py.detach(|| {
        let program = known("bfs")?;
        let mut open = engine.open()?;
        let tasks = open.tasks(program.name(), program.program())?;
        let search = Bfs::new(tasks, &rows, &columns).map_err(lost)?;
        search.reset(tasks, source).map_err(lost)?;
        let begin = Instant::now();
        search.search(tasks, source).map_err(lost)?;
        let elapsed: Duration = begin.elapsed();
        Ok::<_, PyErr>((search.found().map_err(lost)?, elapsed))
    })?;
    let array = |values: &[i64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        PyByteArray::new(py, &bytes)
    };
    let (levels, parents) = (array(&found.levels), array(&found.parents));
    Ok((levels, parents, elapsed.as_secs_f64()))
}

/// Refuses arrays that are no graph.
fn check(rows: &[u32], columns: &[u32], source: u32) -> PyResult<()> {
    let wrong = |what: String| Err(PyValueError::new_err(what));
    let Some((&last, _)) = rows.split_last().filter(|(_, rest)| !rest.is_empty()) else {
        return wrong("the graph has no vertices".to_owned());
    };
    let vertices = rows.len() - 1;
    if rows[0] != 0 || !rows.is_sorted() || last as usize != columns.len() {
        return wrong(
            "the row offsets must begin with 0, never fall, and end with the number of columns"
                .to_owned(),
        );
    }
    if let Some(column) = columns.iter().find(|c| **c as usize >= vertices) {
        return wrong(format!(
            "column {column} is no vertex: there are {vertices}"
        ));
    }
    match (source as usize) < vertices {
        true => Ok(()),
        false => wrong(format!(
            "source {source} is no vertex: they are 0 to {}",
            vertices - 1
        )),
    }
}
