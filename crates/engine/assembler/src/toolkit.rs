//! Where NVIDIA's compilers may be: folders that the environment names come first, then the usual places of toolkits and of
//! the Python packages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a search is for, which decides the folders of a toolkit that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A library, such as NVRTC.
    Library,
    /// A program, such as ptxas.
    Program,
}

/// A variable's value; an empty one counts as not set.
pub fn setting(value: Option<OsString>) -> Option<PathBuf> {
    value.filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The environment and the file system of a search. A value of its own, so that tests can lay out a system in a folder.
#[derive(Debug)]
pub struct Surroundings {
    /// `CUDA_HOME` and `CUDA_PATH`.
    toolkits: Vec<PathBuf>,
    /// `VIRTUAL_ENV`.
    environment: Option<PathBuf>,
    /// `/`.
    root: PathBuf,
}

impl Surroundings {
    /// Those of this process.
    pub fn here() -> Self {
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
    /// Folders that the environment's variables name; they go before what the system finds.
    pub fn named(&self, wanted: Wanted) -> Vec<PathBuf> {
        let toolkits = self.toolkits.iter().flat_map(|t| wanted.in_toolkit(t));
        let mut list: Vec<_> = toolkits.collect();
        if let Some(environment) = &self.environment {
            let pythons = newest_first(&environment.join("lib"), "python");
            let sites = pythons.iter().map(|p| p.join("site-packages"));
            list.extend(sites.flat_map(|site| wanted.in_packages(&site)));
        }
        list
    }
    /// Folders of toolkits installed for everybody: the one that the system points to, then the newest.
    pub fn installed(&self, wanted: Wanted) -> Vec<PathBuf> {
        let local = self.root.join("usr/local");
        let mut toolkits = vec![local.join("cuda")];
        toolkits.extend(newest_first(&local, "cuda-"));
        toolkits.push(self.root.join("opt/cuda"));
        toolkits.iter().flat_map(|t| wanted.in_toolkit(t)).collect()
    }
}

/// Folders of the Python packages in the places where `python3` looks for packages. The interpreter is
/// asked, because it alone knows them; it takes a moment, so this is the last resort.
pub fn python(wanted: Wanted) -> Vec<PathBuf> {
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
        .flat_map(|l| wanted.in_packages(Path::new(l)))
        .collect()
}

impl Wanted {
    /// Where a toolkit keeps it.
    fn in_toolkit(self, toolkit: &Path) -> Vec<PathBuf> {
        let folders: &[_] = match self {
            Self::Library => &[
                "lib64",
                "lib",
                "targets/x86_64-linux/lib",
                "targets/sbsa-linux/lib",
            ],
            Self::Program => &["bin"],
        };
        folders.iter().map(|folder| toolkit.join(folder)).collect()
    }

    /// Where the Python packages keep it below a folder of packages: since version 13, and before.
    fn in_packages(self, site: &Path) -> Vec<PathBuf> {
        let folders = match self {
            Self::Library => ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"],
            Self::Program => ["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"],
        };
        folders.map(|folder| site.join(folder)).to_vec()
    }
}

/// The numbers in a name, for comparing versions: 12.10 is newer than 12.9.
fn version(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// The entries of a folder whose names start with `prefix`, newest version first.
pub fn newest_first(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let named = |e: &std::fs::DirEntry| e.file_name().to_string_lossy().starts_with(prefix);
    let mut list: Vec<_> = entries.flatten().filter(named).map(|e| e.path()).collect();
    list.sort_by_key(|path| std::cmp::Reverse((version(path), path.clone())));
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
        let all = folders.iter().flat_map(|f| newest_first(f, "libnvrtc.so"));
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
        assert_eq!(
            found(top.path(), &here.installed(Wanted::Library)),
            expected
        );
        assert!(here.named(Wanted::Library).is_empty());

        file(top.path(), "home/lib/libnvrtc.so.12");
        file(top.path(), "path/lib64/libnvrtc.so.13");
        here.toolkits = vec![top.path().join("home"), top.path().join("path")];
        let expected = ["home/lib/libnvrtc.so.12", "path/lib64/libnvrtc.so.13"];
        assert_eq!(found(top.path(), &here.named(Wanted::Library)), expected);
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
        assert_eq!(found(top.path(), &here.named(Wanted::Library)), [new, old]);
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        assert_eq!(setting(Some(OsString::new())), None);
        assert_eq!(setting(None), None);
        assert_eq!(setting(Some("x".into())), Some(PathBuf::from("x")));
    }

    #[test]
    fn programs_are_next_to_the_libraries() {
        let here = Surroundings {
            toolkits: vec!["/home/cuda".into()],
            environment: None,
            root: "/nothing".into(),
        };
        let named = here.named(Wanted::Program);
        assert_eq!(named, [PathBuf::from("/home/cuda/bin")]);
        let installed = here.installed(Wanted::Program);
        assert!(installed.contains(&PathBuf::from("/nothing/usr/local/cuda/bin")));
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
