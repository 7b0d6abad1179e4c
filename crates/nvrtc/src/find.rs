//! Where NVRTC is looked for when nobody names a path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{NvrtcError, Place, Places};
use crate::nvrtc::Nvrtc;

/// The names the loader is asked for; the newest major version that is known to work comes first.
const LOADER_NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// What the search depends on, so that a test can give it another world.
pub(crate) struct Surroundings<'a> {
    /// The environment's variables.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The folder with the toolkits, `cuda` and `cuda-*`.
    pub(crate) toolkits: &'a Path,
    /// The names that the loader resolves.
    pub(crate) loader_names: &'a [&'a str],
}

impl Surroundings<'static> {
    pub(crate) fn of_process() -> Self {
        Self {
            variable: &|name| std::env::var_os(name),
            toolkits: Path::new("/usr/local"),
            loader_names: &LOADER_NAMES,
        }
    }
}

/// Opens the first usable NVRTC.
pub(crate) fn open(world: &Surroundings<'_>) -> Result<Nvrtc, NvrtcError> {
    if let Some(path) = (world.variable)("EVERWARP_NVRTC") {
        let path = PathBuf::from(path);
        return Nvrtc::open_at(&path).map_err(|e| NvrtcError::Named {
            path,
            source: Box::new(e),
        });
    }
    let mut places = Vec::new();
    for &name in world.loader_names {
        match Nvrtc::load(PathBuf::from(name)) {
            Ok(nvrtc) => return Ok(nvrtc),
            // Its word on a name it does not know is the only one it has, and says nothing more.
            Err(NvrtcError::Load { .. }) => places.push(Place {
                name: format!("{name} (loader)"),
                fault: None,
            }),
            Err(e) => places.push(Place {
                name: format!("{name} (loader)"),
                fault: Some(Box::new(e)),
            }),
        }
    }
    for (name, folders) in folders(world) {
        let mut found = false;
        for file in folders.iter().flat_map(|f| libraries(f)) {
            found = true;
            match Nvrtc::open_at(&file) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(e) => places.push(Place {
                    name: file.display().to_string(),
                    fault: Some(Box::new(e)),
                }),
            }
        }
        if !found {
            places.push(Place { name, fault: None });
        }
    }
    Err(NvrtcError::NotFound(Places(places)))
}

/// The folders to look into, in order, each set under the name that an error gives it.
fn folders(world: &Surroundings<'_>) -> Vec<(String, Vec<PathBuf>)> {
    let libs = |root: &Path| ["lib64", "lib"].map(|lib| root.join(lib));
    let toolkits = newest_first(children(world.toolkits, |name| {
        name == "cuda" || name.starts_with("cuda-")
    }));
    let pattern = world
        .toolkits
        .join("cuda*/{lib64,lib}")
        .display()
        .to_string();
    let mut list = vec![(
        pattern,
        toolkits.iter().flat_map(|root| libs(root)).collect(),
    )];
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        list.push(match (world.variable)(variable) {
            Some(root) => {
                let root = Path::new(&root);
                (
                    format!("{variable}={}", root.display()),
                    libs(root).to_vec(),
                )
            }
            None => (format!("{variable} (not set)"), Vec::new()),
        });
    }
    list.push(match (world.variable)("VIRTUAL_ENV") {
        Some(root) => {
            let lib = Path::new(&root).join("lib");
            let pythons = newest_first(children(&lib, |name| name.starts_with("python")));
            let packages = pythons
                .iter()
                .flat_map(|p| children(&p.join("site-packages/nvidia"), |_| true));
            let pattern = lib.join("python*/site-packages/nvidia/*/lib");
            (
                format!("VIRTUAL_ENV: {}", pattern.display()),
                packages.map(|p| p.join("lib")).collect(),
            )
        }
        None => ("VIRTUAL_ENV (not set)".to_owned(), Vec::new()),
    });
    list
}

/// The NVRTCs of a folder, newest first. The wheel's `.alt.` twin is left out;
/// nothing here needs it.
pub(crate) fn libraries(folder: &Path) -> Vec<PathBuf> {
    newest_first(children(folder, |name| {
        name == "libnvrtc.so" || name.starts_with("libnvrtc.so.")
    }))
}

/// The entries of a folder whose name fits; none if it cannot be read.
pub(crate) fn children(folder: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|e| e.file_name().to_str().is_some_and(&fits))
        .map(|e| e.path())
        .collect()
}

/// By the numbers in the name, descending: `cuda-13.0`, `cuda-12.10`, `cuda-12.9`. A name without numbers is
/// the installer's choice of the default and comes first.
fn newest_first(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let numbers = |path: &PathBuf| -> Vec<u32> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.split(|c: char| !c.is_ascii_digit())
            .filter_map(|n| n.parse().ok())
            .collect()
    };
    paths.sort_by(|a, b| {
        let (left, right) = (numbers(a), numbers(b));
        right
            .is_empty()
            .cmp(&left.is_empty())
            .then(right.cmp(&left))
            .then(a.cmp(b))
    });
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world<'a>(
        variable: &'a dyn Fn(&str) -> Option<OsString>,
        toolkits: &'a Path,
    ) -> Surroundings<'a> {
        Surroundings {
            variable,
            toolkits,
            loader_names: &["libno-such-nvrtc.so"],
        }
    }

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("writable");
        std::fs::write(path, b"no library").expect("writable");
    }

    #[test]
    fn order_is_the_default_then_descending_versions() {
        let paths = ["cuda-12.9", "cuda-12.10", "cuda", "cuda-13.0"]
            .map(PathBuf::from)
            .to_vec();
        let names = newest_first(paths)
            .into_iter()
            .map(|p| p.display().to_string())
            .collect::<Vec<_>>();
        assert_eq!(names, ["cuda", "cuda-13.0", "cuda-12.10", "cuda-12.9"]);
    }

    #[test]
    fn the_error_lists_every_place_and_says_what_to_install() {
        let toolkits = tempfile::tempdir().expect("a temporary folder");
        touch(&toolkits.path().join("cuda-13.0/lib64/libnvrtc.so.13"));
        touch(&toolkits.path().join("cuda-13.0/lib64/libnvrtc.alt.so.13"));
        touch(
            &toolkits
                .path()
                .join("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13"),
        );
        let venv = toolkits.path().join("venv").into_os_string();
        let variable = move |name: &str| (name == "VIRTUAL_ENV").then(|| venv.clone());
        let error = open(&world(&variable, toolkits.path()))
            .expect_err("nothing is usable")
            .to_string();
        for part in [
            "pip install nvidia-cuda-nvrtc",
            "EVERWARP_NVRTC",
            "libno-such-nvrtc.so (loader): nothing there",
            "cuda-13.0/lib64/libnvrtc.so.13: the dynamic loader cannot open",
            "CUDA_HOME (not set): nothing there",
            "python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13: the dynamic loader cannot open",
        ] {
            assert!(error.contains(part), "`{part}` is missing:\n{error}");
        }
        assert!(!error.contains("alt"), "{error}");
    }

    #[test]
    fn a_wrong_variable_is_an_error_and_not_a_reason_to_search_on() {
        for value in ["", "no/such/libnvrtc.so", env!("CARGO_MANIFEST_DIR")] {
            let variable =
                move |name: &str| (name == "EVERWARP_NVRTC").then(|| OsString::from(value));
            let error = open(&world(&variable, Path::new("nowhere"))).expect_err("it is unusable");
            assert!(
                matches!(&error, NvrtcError::Named { path, .. } if path == Path::new(value)),
                "{error:?}"
            );
            assert!(
                error
                    .to_string()
                    .contains(&format!("EVERWARP_NVRTC is set to `{value}`")),
                "{error}"
            );
        }
    }
}
