//! The host's standard streams.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use everwarp_process::{
    HostBudgets, HostStreams, OutputErrors, OutputStream, SourceReader, TargetWriter,
};

use crate::input::HostInput;
use crate::output::HostOutput;

/// The streams of the host that processes are given. Clones share the same streams.
#[derive(Clone)]
pub struct Streams {
    pub(crate) stdin: Arc<HostInput>,
    pub(crate) stdout: Arc<HostOutput>,
    pub(crate) stderr: Arc<HostOutput>,
    errors: Arc<OutputErrors>,
    /// What all processes may take together, if that is limited.
    budgets: Option<Arc<HostBudgets>>,
}

impl Streams {
    /// Makes streams of any readers and writers.
    pub fn new(stdin: HostInput, stdout: HostOutput, stderr: HostOutput) -> Self {
        let errors = Arc::new(OutputErrors::new());
        Self {
            stdin: Arc::new(stdin),
            stdout: Arc::new(stdout.recording(OutputStream::Stdout, &errors)),
            stderr: Arc::new(stderr.recording(OutputStream::Stderr, &errors)),
            errors,
            budgets: None,
        }
    }

    /// The budgets of the host, if it has some.
    pub fn budgets(&self) -> Option<&Arc<HostBudgets>> {
        self.budgets.as_ref()
    }

    /// The errors of writes to the two output streams.
    pub fn output_errors(&self) -> &Arc<OutputErrors> {
        &self.errors
    }

    /// The streams that a host was given.
    pub fn of_host(streams: &HostStreams) -> Self {
        let HostStreams {
            stdin,
            stdout,
            stderr,
            budgets,
        } = streams;
        let given = Self::new(
            HostInput::new(SourceReader(Arc::clone(stdin)), stdin.is_terminal()),
            HostOutput::new(TargetWriter(Arc::clone(stdout)), stdout.is_terminal()),
            HostOutput::new(TargetWriter(Arc::clone(stderr)), stderr.is_terminal()),
        );
        Self {
            budgets: budgets.clone(),
            ..given
        }
    }

    /// The same streams for a host with budgets.
    pub fn within(self, budgets: Arc<HostBudgets>) -> Self {
        Self {
            budgets: Some(budgets),
            ..self
        }
    }

    /// The streams of this program.
    pub fn inherit() -> Self {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let terminals = [
            stdin.is_terminal(),
            stdout.is_terminal(),
            stderr.is_terminal(),
        ];
        Self::new(
            HostInput::new(stdin, terminals[0]),
            HostOutput::new(stdout, terminals[1]),
            HostOutput::new(stderr, terminals[2]),
        )
    }
}
