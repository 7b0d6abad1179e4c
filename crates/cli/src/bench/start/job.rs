//! One command that runs processes: how it is called, what it must print, and how long it takes.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use super::service::failed;
use crate::error::CliError;

/// The lines of an output, whatever their order: how many there are of each.
pub(super) type Lines = HashMap<Vec<u8>, u64>;

/// A command that runs processes of one module.
pub(super) struct Job {
    /// The module's file.
    pub(super) module: PathBuf,
    /// The options before the arguments of the processes.
    pub(super) options: Vec<String>,
    /// The arguments of each process.
    pub(super) arguments: Vec<String>,
    pub(super) processes: u32,
    /// What the processes print together.
    pub(super) prints: Lines,
}

/// Where a job runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Service,
    Alone,
}

/// The times of one run, in seconds.
pub(super) struct Times {
    pub(super) whole: f64,
    /// What the command reports; a single process has no report.
    pub(super) inside: Option<f64>,
}

/// A job that runs, with the files that it writes to.
pub(super) struct Started {
    begin: Instant,
    child: Child,
    output: PathBuf,
    report: PathBuf,
}

/// A job that has ended, before its output is read.
pub(super) struct Ended {
    pub(super) seconds: f64,
    status: ExitStatus,
    output: PathBuf,
    report: PathBuf,
}

/// Adds the lines of a text, `times` times.
pub(super) fn add_lines(lines: &mut Lines, text: &[u8], times: u64) {
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match lines.get_mut(line) {
            Some(count) => *count += times,
            None => drop(lines.insert(line.to_vec(), times)),
        }
    }
}

impl Started {
    /// Waits for the end. Nothing else is done before the clock is read.
    pub(super) fn wait(mut self) -> Result<Ended, CliError> {
        let status = self.child.wait().map_err(failed)?;
        Ok(Ended {
            seconds: self.begin.elapsed().as_secs_f64(),
            status,
            output: self.output,
            report: self.report,
        })
    }
}

impl Ended {
    /// The times, and whether the job printed what it must.
    pub(super) fn check(self, job: &Job) -> Result<(Times, bool), CliError> {
        let report = std::fs::read_to_string(&self.report).map_err(failed)?;
        if !self.status.success() {
            return Err(failed(format!("it ended with {}: {report}", self.status)));
        }
        let mut printed = Lines::new();
        add_lines(
            &mut printed,
            &std::fs::read(&self.output).map_err(failed)?,
            1,
        );
        // `0.063128 s (1584087 processes/s), 9677780 fuel`
        let inside = report.lines().find_map(|line| {
            let (seconds, _) = line.split_once(" s (")?;
            seconds.parse().ok()
        });
        let times = Times {
            whole: self.seconds,
            inside,
        };
        let reported = inside.is_some() || job.processes == 1;
        Ok((times, printed == job.prints && reported))
    }
}

impl Job {
    /// Starts the job with a command that has its environment and no arguments yet. `name` tells its files from those of
    /// other jobs that run at the same time.
    pub(super) fn start(
        &self,
        mut command: Command,
        place: Where,
        engine: &str,
        folder: &Path,
        name: &str,
    ) -> Result<Started, CliError> {
        let output = folder.join(format!("{name}.output"));
        let report = folder.join(format!("{name}.report"));
        command.arg("run").arg(&self.module);
        command.args(["--engine", engine]);
        if place == Where::Alone {
            command.arg("--alone");
        }
        command.args(&self.options);
        if !self.arguments.is_empty() {
            command.arg("--").args(&self.arguments);
        }
        command
            .stdin(Stdio::null())
            .stdout(File::create(&output).map_err(failed)?)
            .stderr(File::create(&report).map_err(failed)?);
        let begin = Instant::now();
        let child = command.spawn().map_err(failed)?;
        Ok(Started {
            begin,
            child,
            output,
            report,
        })
    }

    /// Runs the job once.
    pub(super) fn run(
        &self,
        command: Command,
        place: Where,
        engine: &str,
        folder: &Path,
    ) -> Result<(Times, bool), CliError> {
        let started = self.start(command, place, engine, folder, "job")?;
        started.wait()?.check(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_equal_if_they_have_the_same_lines_as_often() {
        let lines = |text: &str, times| {
            let mut lines = Lines::new();
            add_lines(&mut lines, text.as_bytes(), times);
            lines
        };
        assert_eq!(lines("a\nb\na\n", 1), lines("b\na\na\n", 1));
        assert_eq!(lines("a\nb\n", 2), lines("b\na\nb\na\n", 1));
        assert_ne!(lines("a\nb\n", 1), lines("a\n", 1));
        assert_ne!(lines("a\na\n", 1), lines("a\n", 1));
        assert_ne!(lines("a\n", 1), lines("a", 1), "a line feed is missing");
    }
}
