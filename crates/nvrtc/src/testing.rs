//! For the tests of this workspace that need NVRTC.

use std::path::{Path, PathBuf};

use crate::find::{children, libraries};
use crate::nvrtc::Nvrtc;

/// NVRTC as `EVERWARP_NVRTC` names it, else as `.ci/install-nvrtc` put it into `target/nvrtc`, else as the
/// system has it. `None`, with a printed line, means: skip.
///
/// # Panics
/// If there is none although `CI` is `true` or `EVERWARP_REQUIRE_NVRTC` is `1`, and whenever
/// `EVERWARP_NVRTC` or the file in `target/nvrtc` cannot be used: a skipped test must not hide a broken
/// installation.
pub fn open_for_tests() -> Option<Nvrtc> {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    let named = std::env::var_os("EVERWARP_NVRTC").is_some();
    let installed = find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvrtc"));
    let must =
        named || installed.is_some() || is("CI", "true") || is("EVERWARP_REQUIRE_NVRTC", "1");
    let opened = match installed {
        Some(path) if !named => Nvrtc::open_at(&path),
        _ => Nvrtc::open(),
    };
    match opened {
        Ok(nvrtc) => Some(nvrtc),
        Err(e) if must => panic!("this test needs NVRTC: {e:?}\n{e}\nrun .ci/install-nvrtc"),
        Err(e) => {
            eprintln!("skipped, as there is no NVRTC (run .ci/install-nvrtc): {e}");
            None
        }
    }
}

/// The first NVRTC below a folder.
fn find(folder: &Path) -> Option<PathBuf> {
    let here = libraries(folder).into_iter().next();
    here.or_else(|| {
        children(folder, |_| true)
            .iter()
            .filter(|p| p.is_dir())
            .find_map(|p| find(p))
    })
}
