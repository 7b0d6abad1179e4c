//! A program as the command, the conformance suite and the documents see it: its options, how it runs, and the plain
//! reference that its result must equal.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use everwarp::actor::ActorError;
use everwarp::files::{FileErrno, FilesError};
use everwarp::{Engine, EngineKind, Error, Program};

use crate::input::{InputError, Progress};
use crate::option::{OptionValues, ProgramOption};

/// An error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device has no memory left, or the engine has stopped or is lost.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The same of a program of actors.
    #[error(transparent)]
    Actor(ActorError),
    /// The program's tasks get no files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The program's file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A task could not read.
    #[error("a task could not read its file: {0}")]
    Read(FileErrno),
    /// A file has become shorter since the run began.
    #[error(
        "the file has become shorter while it was read: it ends near byte {at}; run again when nothing changes it"
    )]
    Shorter {
        /// Where its end was found.
        at: u64,
    },
}

impl From<ActorError> for RunError {
    fn from(error: ActorError) -> Self {
        match error {
            ActorError::Engine(error) => Self::Engine(error),
            error => Self::Actor(error),
        }
    }
}

/// A native program that the command can run. The registry lists one value of each.
pub trait NativeProgram: Sync {
    /// The options, checked, and the data that they name.
    type Input;
    /// The result.
    type Output;
    /// One line about it.
    const ABOUT: &'static str;
    /// Its options, in the order of the help text.
    const OPTIONS: &'static [ProgramOption];
    /// Options of a run that takes less than a second, for examples and tests.
    const EXAMPLE: &'static [(&'static str, &'static str)];
    /// Whether the program exists for a benchmark. Images of all programs leave it out.
    const BENCHMARK: bool = false;
    /// Whether it runs on wgpu, too. Programs that use files do not.
    const ON_WGPU: bool = true;

    /// The program itself.
    fn program(&self) -> &'static Program;
    /// Checks the options and reads the input.
    ///
    /// # Errors
    /// An option's value or the input is wrong.
    fn input(
        &self,
        options: &OptionValues,
        progress: &mut Progress<'_>,
    ) -> Result<Self::Input, InputError>;
    /// Runs the program on an engine that holds it. The time is that from submission to completion.
    ///
    /// # Errors
    /// The device has no memory left, or the engine has stopped or is lost.
    fn run(
        &self,
        engine: &Engine,
        input: &Self::Input,
    ) -> Result<(Self::Output, Duration), RunError>;
    /// The result, computed plainly.
    fn reference(&self, input: &Self::Input) -> Self::Output;
    /// Compares a result with the reference.
    ///
    /// # Errors
    /// They differ: how.
    fn compare(&self, output: &Self::Output, expected: &Self::Output) -> Result<(), String>;
    /// The facts about a result that are shown.
    fn facts(&self, input: &Self::Input, output: &Self::Output) -> Facts;
    /// Writes the whole result as lines of text, for a program with the option [`OUTPUT`].
    ///
    /// # Errors
    /// Those of the writer.
    fn write(&self, _output: &Self::Output, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The file that the result is written to. The command writes it once the result is there.
pub const OUTPUT: ProgramOption = ProgramOption::file(
    "--output",
    "Write the result to this file, one line for each vertex",
);

/// Facts about a result. A program fills in those that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Vertices of the graph.
    pub vertices: Option<u32>,
    /// Directed edges of the graph.
    pub edges: Option<u64>,
    /// Vertices that a search reached.
    pub reached: Option<usize>,
    /// Levels of a search.
    pub levels: Option<i64>,
    /// A result that is one number.
    pub result: Option<u64>,
}

/// An entry of the registry: a [`NativeProgram`] whose types are hidden.
pub trait Registered: Sync {
    /// The program itself.
    fn program(&self) -> &'static Program;
    /// One line about it.
    fn about(&self) -> &'static str;
    /// Its options.
    fn options(&self) -> &'static [ProgramOption];
    /// Options of a run that takes less than a second.
    fn example(&self) -> &'static [(&'static str, &'static str)];
    /// Whether the program exists for a benchmark.
    fn is_benchmark(&self) -> bool;
    /// Whether it runs on this kind of engine.
    fn runs_on(&self, kind: EngineKind) -> bool;
    /// Checks the options and reads the input.
    ///
    /// # Errors
    /// An option's value or the input is wrong.
    fn prepare(
        &'static self,
        options: &OptionValues,
        progress: &mut Progress<'_>,
    ) -> Result<Box<dyn Prepared>, InputError>;
    /// Its name.
    fn name(&self) -> &'static str {
        &self.program().name
    }
    /// The option with this flag.
    fn option(&self, flag: &str) -> Option<&'static ProgramOption> {
        self.options().iter().find(|option| option.flag == flag)
    }
    /// The example's options, as values.
    ///
    /// # Panics
    /// The example names an option that the program does not have, or gives it a wrong value.
    fn example_values(&self) -> OptionValues {
        let mut values = OptionValues::default();
        for (flag, text) in self.example() {
            let option = self.option(flag).expect("the example uses known options");
            let value = option.parse(text).expect("the example's values are right");
            values.set(option, value);
        }
        values
    }
}

/// A program with its input.
pub trait Prepared {
    /// Runs it on an engine that holds the program.
    ///
    /// # Errors
    /// The device has no memory left, or the engine has stopped or is lost.
    fn run(self: Box<Self>, engine: &Engine) -> Result<Box<dyn Finished>, RunError>;
}

/// A program that has run.
pub trait Finished {
    /// The time from submission to completion.
    fn elapsed(&self) -> Duration;
    /// The facts about its result.
    fn facts(&self) -> Facts;
    /// Compares the result with the plain reference.
    ///
    /// # Errors
    /// They differ: how.
    fn verify(&self) -> Result<(), String>;
    /// Writes the whole result.
    ///
    /// # Errors
    /// Those of the writer.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;
}

struct Job<P: NativeProgram + 'static> {
    program: &'static P,
    input: P::Input,
}

struct Done<P: NativeProgram + 'static> {
    job: Job<P>,
    output: P::Output,
    elapsed: Duration,
}

impl<P: NativeProgram<Input: 'static, Output: 'static> + 'static> Registered for P {
    fn program(&self) -> &'static Program {
        NativeProgram::program(self)
    }
    fn about(&self) -> &'static str {
        P::ABOUT
    }
    fn options(&self) -> &'static [ProgramOption] {
        P::OPTIONS
    }
    fn example(&self) -> &'static [(&'static str, &'static str)] {
        P::EXAMPLE
    }
    fn is_benchmark(&self) -> bool {
        P::BENCHMARK
    }
    fn runs_on(&self, kind: EngineKind) -> bool {
        match kind {
            EngineKind::Cpu | EngineKind::Cuda => true,
            EngineKind::Wgpu => P::ON_WGPU,
        }
    }
    fn prepare(
        &'static self,
        options: &OptionValues,
        progress: &mut Progress<'_>,
    ) -> Result<Box<dyn Prepared>, InputError> {
        Ok(Box::new(Job {
            program: self,
            input: self.input(options, progress)?,
        }))
    }
}

impl<P: NativeProgram<Input: 'static, Output: 'static>> Prepared for Job<P> {
    fn run(self: Box<Self>, engine: &Engine) -> Result<Box<dyn Finished>, RunError> {
        let (output, elapsed) = self.program.run(engine, &self.input)?;
        Ok(Box::new(Done {
            job: *self,
            output,
            elapsed,
        }))
    }
}

impl<P: NativeProgram> Finished for Done<P> {
    fn elapsed(&self) -> Duration {
        self.elapsed
    }
    fn facts(&self) -> Facts {
        self.job.program.facts(&self.job.input, &self.output)
    }
    fn verify(&self) -> Result<(), String> {
        let Job { program, input } = &self.job;
        program.compare(&self.output, &program.reference(input))
    }
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.job.program.write(&self.output, out)
    }
}

/// Compares results that are one number.
pub(crate) fn same_number(output: u64, expected: u64) -> Result<(), String> {
    match output == expected {
        true => Ok(()),
        false => Err(format!("{output} instead of {expected}")),
    }
}

/// Compares results that are a pair of numbers for each actor.
pub(crate) fn same_pairs(
    what: &str,
    output: &[(u64, u64)],
    expected: &[(u64, u64)],
) -> Result<(), String> {
    match (output.iter().zip(expected)).position(|(got, wanted)| got != wanted) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what} {at} has {:?} instead of {:?}",
            output[at], expected[at]
        )),
    }
}
