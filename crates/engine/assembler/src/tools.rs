//! ptxas and nvlink: where they are, and which version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::toolkit::{self, Surroundings, Wanted};

/// Why a program of the toolkit cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// It is not installed.
    #[error(
        "{name} was not found (looked for it in PATH, CUDA toolkits and Python packages): install the CUDA toolkit or the \
         Python package nvidia-cuda-nvcc, or set {variable} to its path"
    )]
    NotFound {
        /// The program.
        name: &'static str,
        /// The variable that may name it.
        variable: &'static str,
    },
    /// The file that the variable names cannot be used.
    #[error("{variable} names {path}, which is no program that runs: {reason}")]
    BadPath {
        /// The variable.
        variable: &'static str,
        /// The path given.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
}

/// A program of the CUDA toolkit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its file.
    pub path: PathBuf,
    /// Its version, such as `13.0.88`.
    pub version: String,
}

impl Tool {
    /// The first number of the version.
    pub fn major(&self) -> Option<i32> {
        self.version.split('.').next()?.parse().ok()
    }

    /// The assembler: the program that `EVERWARP_PTXAS` names, or the first one in the toolkits that `CUDA_HOME` and
    /// `CUDA_PATH` name, in the Python package in `VIRTUAL_ENV`, in `PATH`, in the toolkits below `/usr/local` and `/opt`,
    /// and in the Python package where `python3` has it.
    ///
    /// # Errors
    /// There is none, or the variable names something else.
    pub fn ptxas() -> Result<Self, ToolError> {
        Self::find("ptxas", "EVERWARP_PTXAS")
    }

    /// The linker, which is looked for next to the assembler first, so that both are of one version.
    ///
    /// # Errors
    /// There is none, or `EVERWARP_NVLINK` names something else.
    pub fn nvlink(ptxas: &Self) -> Result<Self, ToolError> {
        let variable = "EVERWARP_NVLINK";
        if toolkit::setting(std::env::var_os(variable)).is_none()
            && let Ok(tool) = Self::at(&ptxas.path.with_file_name("nvlink"))
        {
            return Ok(tool);
        }
        Self::find("nvlink", variable)
    }

    fn find(name: &'static str, variable: &'static str) -> Result<Self, ToolError> {
        if let Some(path) = toolkit::setting(std::env::var_os(variable)) {
            return Self::at(&path).map_err(|reason| ToolError::BadPath {
                variable,
                path,
                reason,
            });
        }
        let here = Surroundings::here();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = here
            .named(Wanted::Program)
            .into_iter()
            .chain(std::env::split_paths(&path))
            .chain(here.installed(Wanted::Program));
        first(folders, name)
            .or_else(|| first(toolkit::python(Wanted::Program).into_iter(), name))
            .ok_or(ToolError::NotFound { name, variable })
    }

    /// The program at a path, if it runs and says which version it is.
    fn at(path: &Path) -> Result<Self, String> {
        let mut command = Command::new(path);
        let output = command
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = version(&text).ok_or("it does not say its version")?;
        Ok(Self {
            path: path.to_owned(),
            version: version.to_owned(),
        })
    }
}

fn first(folders: impl Iterator<Item = PathBuf>, name: &str) -> Option<Tool> {
    let files = folders.map(|folder| folder.join(name));
    let mut usable = files.filter(|file| file.is_file());
    usable.find_map(|file| Tool::at(&file).ok())
}

/// The version in the last lines of what a tool says about itself: `Cuda compilation tools, release 13.0, V13.0.88`.
fn version(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace().rev();
    words.find_map(|word| {
        let number = word.strip_prefix('V')?;
        number
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_last_word_that_is_one() {
        let text = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.0, V13.0.88\n\
                    Build cuda_13.0.r13.0/compiler.36424714_0\n";
        assert_eq!(version(text), Some("13.0.88"));
        assert_eq!(version("Version 3 of Vim"), None);
    }

    #[test]
    fn the_major_version_is_the_first_number() {
        let major = |version: &str| {
            let version = version.to_owned();
            let path = PathBuf::new();
            Tool { path, version }.major()
        };
        assert_eq!(major("13.0.88"), Some(13));
        assert_eq!(major("12"), Some(12));
        assert_eq!(major("none"), None);
    }

    #[test]
    #[cfg(unix)]
    fn a_program_that_does_not_say_its_version_is_passed_over() {
        let reason = Tool::at(Path::new("/bin/true")).expect_err("it says nothing");
        assert!(reason.contains("version"), "{reason}");
        assert!(Tool::at(Path::new("/nonexistent/ptxas")).is_err());
        let folders = [PathBuf::from("/nonexistent"), PathBuf::from("/bin")];
        assert_eq!(first(folders.into_iter(), "true"), None);
    }
}
