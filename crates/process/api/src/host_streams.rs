//! The standard streams of a host, which its processes may share.

use std::fmt;
use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;

use crate::budget::HostBudgets;

/// A stream that a host reads for its processes.
pub trait InputSource: Send + Sync {
    /// Reads up to `buffer.len()` bytes, and waits while there are none. 0 bytes are the end of the stream.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether processes learn that the stream is a terminal.
    fn is_terminal(&self) -> bool;
}

/// A stream that a host writes to for its processes.
pub trait OutputTarget: Send + Sync {
    /// Writes all of the bytes.
    ///
    /// # Errors
    /// The system's. Some of the bytes may have been written.
    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;

    /// Whether processes learn that the stream is a terminal.
    fn is_terminal(&self) -> bool;
}

/// The streams that [`Input::Inherit`](crate::Input::Inherit), [`Output::Inherit`](crate::Output::Inherit) and
/// [`Output::Lines`](crate::Output::Lines) stand for. Without any they are the program's own.
#[derive(Clone)]
pub struct HostStreams {
    /// Standard input.
    pub stdin: Arc<dyn InputSource>,
    /// Standard output.
    pub stdout: Arc<dyn OutputTarget>,
    /// Standard error.
    pub stderr: Arc<dyn OutputTarget>,
    /// What all processes may take together, if that is limited.
    pub budgets: Option<Arc<HostBudgets>>,
}

impl HostStreams {
    /// An empty standard input, and outputs that lose everything.
    pub fn closed() -> Self {
        Self {
            stdin: Arc::new(Closed),
            stdout: Arc::new(Closed),
            stderr: Arc::new(Closed),
            budgets: None,
        }
    }
}

/// A stream of [`HostStreams::closed`].
struct Closed;

impl InputSource for Closed {
    fn read(&self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn is_terminal(&self) -> bool {
        false
    }
}

impl OutputTarget for Closed {
    fn write_all(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn is_terminal(&self) -> bool {
        false
    }
}

impl fmt::Debug for HostStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostStreams").finish_non_exhaustive()
    }
}

/// Reads a source through [`Read`].
pub struct SourceReader(pub Arc<dyn InputSource>);

impl Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Writes to a target through [`Write`].
pub struct TargetWriter(pub Arc<dyn OutputTarget>);

impl Write for TargetWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// This program's own standard input.
#[derive(Debug)]
pub struct ProgramStdin;

impl InputSource for ProgramStdin {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().lock().read(buffer)
    }

    fn is_terminal(&self) -> bool {
        io::stdin().is_terminal()
    }
}

/// This program's own standard output.
#[derive(Debug)]
pub struct ProgramStdout;

impl OutputTarget for ProgramStdout {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }
}

/// This program's own standard error.
#[derive(Debug)]
pub struct ProgramStderr;

impl OutputTarget for ProgramStderr {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        io::stderr().lock().write_all(bytes)
    }

    fn is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }
}
