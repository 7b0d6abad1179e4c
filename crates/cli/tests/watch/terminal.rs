//! A terminal whose user is the test, with what it shows.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, ExitStatus};

use rustix::termios::{Winsize, tcsetwinsize};

use crate::pseudo_terminal;
use crate::sandbox::wait_for;

pub(crate) struct Terminal {
    user: File,
    screen: vt100::Parser,
    child: Child,
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a screen has cells")
}

impl Terminal {
    /// Runs a command on a new terminal of this size.
    pub(crate) fn start(command: &mut Command, rows: u16, columns: u16) -> Self {
        command.env("TERM", "xterm-256color");
        let (user, child) = pseudo_terminal::start(command, Some(size(rows, columns)));
        Self {
            user,
            screen: vt100::Parser::new(cells(rows), cells(columns), 0),
            child,
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.user
            .write_all(keys.as_bytes())
            .expect("the terminal takes it");
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        tcsetwinsize(&self.user, size(rows, columns)).expect("it has a size");
        self.screen
            .screen_mut()
            .set_size(cells(rows), cells(columns));
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.user.read(&mut bytes) {
            self.screen.process(&bytes[..count]);
        }
    }

    /// Waits until the screen is as wanted.
    pub(crate) fn expect(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let shown = wait_for_screen(self, what, |screen| wanted(&screen.contents()));
        shown.unwrap_or_else(|last| panic!("{what} is not shown:\n{last}"))
    }

    /// Waits until the command has ended and the screen is the one from before.
    pub(crate) fn end(mut self) -> ExitStatus {
        let status = wait_for("the command ends", || {
            self.read();
            self.child.try_wait().expect("it can be asked")
        });
        self.read();
        assert!(
            !self.screen.screen().alternate_screen(),
            "the terminal is restored"
        );
        assert!(!self.screen.screen().hide_cursor(), "the cursor is shown");
        status
    }
}

fn wait_for_screen(
    terminal: &mut Terminal,
    what: &str,
    wanted: impl Fn(&vt100::Screen) -> bool,
) -> Result<String, String> {
    let begin = std::time::Instant::now();
    loop {
        terminal.read();
        let contents = terminal.screen.screen().contents();
        if wanted(terminal.screen.screen()) {
            return Ok(contents);
        }
        if begin.elapsed() > std::time::Duration::from_secs(120) {
            return Err(format!("{what}: {contents}"));
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
