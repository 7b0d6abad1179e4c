//! The assembler, where it is installed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// ptxas, as installed by `.ci/install-ptxas` or by the system. In CI it must be installed.
pub(crate) fn ptxas() -> Option<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let installed = top.join("target/ptxas/nvidia/cu13/bin/ptxas");
    let program = if installed.exists() {
        installed
    } else {
        PathBuf::from("ptxas")
    };
    match Command::new(&program).arg("--version").output() {
        Ok(_) => Some(program),
        Err(e) if std::env::var_os("CI").is_some() => panic!("CI assembles what is emitted: {e}"),
        Err(e) => {
            // Not eprintln!, because the harness hides its output when a test passes.
            writeln!(
                std::io::stderr(),
                "skipped: no ptxas ({e}); run .ci/install-ptxas"
            )
            .expect("stderr takes a line");
            None
        }
    }
}
