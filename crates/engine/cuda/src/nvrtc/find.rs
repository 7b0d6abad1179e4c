//! Where NVRTC may be: folders that the environment names come first, then those that the loader knows, then the
//! usual places of toolkits and of the Python package.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The names that the system's loader is asked for.
pub(super) const NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// The variable that names the library itself.
pub(super) const VARIABLE: &str = "EVERWARP_NVRTC";

/// A variable's value; an empty one counts as not set.
pub(super) fn setting(value: Option<OsString>) -> Option<PathBuf> {
    value.filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The environment and the file system of a search. A value of its own, so that tests can lay out a system in a folder.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// `CUDA_HOME` and `CUDA_PATH`.
    toolkits: Vec<PathBuf>,
    /// `VIRTUAL_ENV`.
    environment: Option<PathBuf>,
    /// `/`.
    root: PathBuf,
}

impl Surroundings {
    pub(super) fn here() -> Self {
        let variable = |name| setting(std::env::var_os(name));
        Self {
            toolkits: ["CUDA_HOME", "CUDA_PATH"]
                .into_iter()
                .filter_map(variable)
                .collect(),
            environment: variable("VIRTUAL_ENV"),
            root: PathBuf::from("/"),
        }
    }
    /// Folders that the environment's variables name; they go before what the loader finds.
    pub(super) fn named(&self) -> Vec<PathBuf> {
        let toolkits = self.toolkits.iter().flat_map(|t| libraries(t));
        let mut list: Vec<_> = toolkits.collect();
        if let Some(environment) = &self.environment {
            let pythons = newest_first(&environment.join("lib"), "python");
            let sites = pythons.iter().map(|p| p.join("site-packages"));
            list.extend(sites.flat_map(|site| packages(&site)));
        }
        list
    }
    /// Folders of toolkits installed for everybody: the one that the system points to, then the newest.
    pub(super) fn installed(&self) -> Vec<PathBuf> {
        let local = self.root.join("usr/local");
        let mut toolkits = vec![local.join("cuda")];
        toolkits.extend(newest_first(&local, "cuda-"));
        toolkits.push(self.root.join("opt/cuda"));
        toolkits.iter().flat_map(|t| libraries(t)).collect()
    }
}

/// Folders of the Python package in the places where `python3` looks for packages. The interpreter is
/// asked, because it alone knows them; it takes a moment, so this is the last resort.
pub(super) fn python() -> Vec<PathBuf> {
    let asked = Command::new("python3")
        .args([
            "-c",
            "import sys; print('\\n'.join(filter(None, sys.path)))",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(answer) = asked else {
        return Vec::new();
    };
    let answer = String::from_utf8_lossy(&answer.stdout);
    answer
        .lines()
        .flat_map(|l| packages(Path::new(l)))
        .collect()
}

/// Where a toolkit keeps its libraries.
fn libraries(toolkit: &Path) -> [PathBuf; 4] {
    [
        "lib64",
        "lib",
        "targets/x86_64-linux/lib",
        "targets/sbsa-linux/lib",
    ]
    .map(|folder| toolkit.join(folder))
}

/// Where the Python packages keep it below a folder of packages: since version 13, and before.
fn packages(site: &Path) -> [PathBuf; 2] {
    ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"].map(|folder| site.join(folder))
}

/// The numbers in a name, for comparing versions: 12.10 is newer than 12.9.
fn version(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// The entries of a folder whose names start with `prefix`, newest version first.
fn newest_first(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let named = |e: &std::fs::DirEntry| e.file_name().to_string_lossy().starts_with(prefix);
    let mut list: Vec<_> = entries.flatten().filter(named).map(|e| e.path()).collect();
    list.sort_by_key(|path| std::cmp::Reverse((version(path), path.clone())));
    list
}

/// The NVRTC libraries in a folder, newest first.
pub(super) fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let mut list = newest_first(folder, "libnvrtc.so");
    list.retain(|p| !p.to_string_lossy().contains(".alt."));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an empty file and its folders.
    fn file(top: &Path, path: &str) {
        let path = top.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is writable");
        std::fs::write(path, b"").expect("it is writable");
    }
    /// The libraries in these folders, as paths below `top`.
    fn found(top: &Path, folders: &[PathBuf]) -> Vec<String> {
        let all = folders.iter().flat_map(|f| in_folder(f));
        all.map(|p| {
            let below = p.strip_prefix(top).expect("it is below");
            below.display().to_string()
        })
        .collect()
    }

    #[test]
    fn the_newest_toolkit_comes_first() {
        let top = tempfile::tempdir().expect("a temporary folder");
        for path in [
            "usr/local/cuda-12.9/lib64/libnvrtc.so.12",
            "usr/local/cuda-12.10/lib64/libnvrtc.so.12",
            "usr/local/cuda-13.0/lib64/libnvrtc.so.13",
            "usr/local/cuda-13.0/lib64/libnvrtc.alt.so.13",
            "usr/local/cuda-13.0/lib64/libnvrtc-builtins.so.13.0",
            "usr/local/lib/libnvrtc.so.1",
            "opt/cuda/targets/x86_64-linux/lib/libnvrtc.so.13.0.88",
        ] {
            file(top.path(), path);
        }
        let mut here = Surroundings {
            toolkits: Vec::new(),
            environment: None,
            root: top.path().to_owned(),
        };
        let expected = [
            "usr/local/cuda-13.0/lib64/libnvrtc.so.13",
            "usr/local/cuda-12.10/lib64/libnvrtc.so.12",
            "usr/local/cuda-12.9/lib64/libnvrtc.so.12",
            "opt/cuda/targets/x86_64-linux/lib/libnvrtc.so.13.0.88",
        ];
        assert_eq!(found(top.path(), &here.installed()), expected);
        assert!(here.named().is_empty());

        file(top.path(), "home/lib/libnvrtc.so.12");
        file(top.path(), "path/lib64/libnvrtc.so.13");
        here.toolkits = vec![top.path().join("home"), top.path().join("path")];
        let expected = ["home/lib/libnvrtc.so.12", "path/lib64/libnvrtc.so.13"];
        assert_eq!(found(top.path(), &here.named()), expected);
    }

    #[test]
    fn the_python_package_is_found_in_a_virtual_environment() {
        let top = tempfile::tempdir().expect("a temporary folder");
        let old = "lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
        let new = "lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13";
        file(top.path(), old);
        file(top.path(), new);
        let here = Surroundings {
            toolkits: Vec::new(),
            environment: Some(top.path().to_owned()),
            root: top.path().join("nothing"),
        };
        assert_eq!(found(top.path(), &here.named()), [new, old]);
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        assert_eq!(setting(Some(OsString::new())), None);
        assert_eq!(setting(None), None);
        assert_eq!(setting(Some("x".into())), Some(PathBuf::from("x")));
    }

    #[test]
    fn newer_libraries_in_one_folder_come_first() {
        let top = tempfile::tempdir().expect("a temporary folder");
        for name in ["libnvrtc.so.9", "libnvrtc.so.12.8.93", "libnvrtc.so.12"] {
            file(top.path(), name);
        }
        assert_eq!(
            found(top.path(), &[top.path().to_owned()]),
            ["libnvrtc.so.12.8.93", "libnvrtc.so.12", "libnvrtc.so.9"]
        );
    }
}
