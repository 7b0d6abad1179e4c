//! `everwarp run MODULE.wasm` from end to end, on an engine of its own. `tests/service` runs the same cases in a service.

mod cases;

use std::process::Command;
use std::sync::OnceLock;

/// The command, which finds no service: its folder for sockets is one of this test's own.
fn everwarp() -> Command {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_everwarp"));
    command.env("XDG_RUNTIME_DIR", folder.path());
    command
}
