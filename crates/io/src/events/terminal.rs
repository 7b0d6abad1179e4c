//! The terminal of the command, while a process has its keys or its mouse.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::record::source;
use crate::socket::Socket;

/// Asks a terminal to report buttons, movements with a button held, and the wheel, with numbers of any size; and not to.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1002l\x1b[?1000l";

/// The controlling terminal. Its settings are those from before as soon as no process watches it.
pub(super) struct Terminal {
    socket: Arc<Socket>,
    before: Termios,
    /// What a process watches.
    watched: u32,
    /// The settings and the mouse are as a process wants them, and not as they were before.
    changed: bool,
}

impl Terminal {
    /// Opens the controlling terminal, with a file description of its own, so that only its own reads do not wait.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file: OwnedFd = rustix::fs::open("/dev/tty", flags, Mode::empty())?;
        let before = tcgetattr(&file)?;
        Ok(Self {
            socket: Socket::new(file),
            before,
            watched: 0,
            changed: false,
        })
    }

    /// The terminal as something to wait for.
    pub(super) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Whether its keys are read.
    pub(super) fn is_read(&self) -> bool {
        self.changed
    }

    /// Watches these sources from now on.
    ///
    /// # Errors
    /// The terminal refuses the settings.
    pub(super) fn watch(&mut self, sources: u32) -> io::Result<()> {
        let mouse = (self.watched ^ sources) & source::MOUSE != 0;
        if self.changed && mouse {
            self.restore();
        }
        self.watched = sources;
        self.apply()
    }

    /// Sets what is watched. Lines are not collected, and nothing is echoed; but Ctrl-C, Ctrl-\ and Ctrl-Z stay signals, and
    /// output is as it was.
    pub(super) fn apply(&mut self) -> io::Result<()> {
        if self.watched & (source::KEYS | source::MOUSE) == 0 {
            self.restore();
            return Ok(());
        }
        if !self.changed {
            self.before = tcgetattr(&self.socket)?;
        }
        let mut settings = self.before.clone();
        settings.make_raw();
        settings.local_modes |= self.before.local_modes & LocalModes::ISIG;
        settings.output_modes |= self.before.output_modes & OutputModes::OPOST;
        tcsetattr(&self.socket, OptionalActions::Now, &settings)?;
        self.changed = true;
        if self.watched & source::MOUSE != 0 {
            rustix::io::write(&self.socket, MOUSE_ON)?;
        }
        Ok(())
    }

    /// Gives it the settings from before. What the mouse has reported meanwhile is thrown away, since the next reader would
    /// take it for keys.
    pub(super) fn restore(&mut self) {
        if !self.changed {
            return;
        }
        self.changed = false;
        let mut actions = OptionalActions::Now;
        // A terminal that has gone needs no settings.
        if self.watched & source::MOUSE != 0 {
            let _ = rustix::io::write(&self.socket, MOUSE_OFF);
            actions = OptionalActions::Flush;
        }
        let _ = tcsetattr(&self.socket, actions, &self.before);
    }

    /// Its columns and rows.
    pub(super) fn size(&self) -> io::Result<(i64, i64)> {
        let size = tcgetwinsize(&self.socket)?;
        Ok((size.ws_col.into(), size.ws_row.into()))
    }

    /// Reads what was typed; 0 if the terminal has gone.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.socket, &mut *buffer) {
                Err(rustix::io::Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.restore();
    }
}
