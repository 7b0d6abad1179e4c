//! The host's standard streams.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use crate::input::HostInput;
use crate::sink::HostOutput;

/// The streams of the host that processes are given; clones are the same streams.
#[derive(Clone)]
pub struct Streams {
    pub(crate) stdin: Arc<HostInput>,
    pub(crate) stdout: Arc<HostOutput>,
    pub(crate) stderr: Arc<HostOutput>,
}

impl Streams {
    /// Any three streams.
    pub fn new(stdin: HostInput, stdout: HostOutput, stderr: HostOutput) -> Self {
        Self {
            stdin: Arc::new(stdin),
            stdout: Arc::new(stdout),
            stderr: Arc::new(stderr),
        }
    }

    /// Those of this program.
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
