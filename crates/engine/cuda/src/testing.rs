//! NVRTC for the tests of several crates, from where this workspace has it.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::nvrtc::Nvrtc;

/// NVRTC, as `.ci/install-nvrtc` installs it or as the system has it. In CI it must be there.
///
/// # Panics
/// In CI, if it is not there.
pub fn nvrtc() -> Option<Nvrtc> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/nvrtc");
    let installed = find(&folder);
    let opened = match &installed {
        Some(path) => Nvrtc::open_at(path),
        None => Nvrtc::open(),
    };
    match opened {
        Ok(nvrtc) => Some(nvrtc),
        Err(e) if std::env::var_os("CI").is_some() => panic!("CI compiles device sources: {e}"),
        Err(e) => {
            // Not eprintln!: the harness hides its output when a test passes.
            writeln!(std::io::stderr(), "skipped: {e}; or run .ci/install-nvrtc")
                .expect("stderr takes a line");
            None
        }
    }
}

fn find(folder: &Path) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if let Some(found) = find(&path) {
                return Some(found);
            }
        } else if name.starts_with("libnvrtc.so.") && !name.contains("alt") {
            return Some(path);
        }
    }
    None
}
