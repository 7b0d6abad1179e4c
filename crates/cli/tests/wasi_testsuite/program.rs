//! The suite's programs: their files, their inputs, and the results that the suite expects.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{copy, create_dir, read, read_dir};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The specification of a program, in a file of its name, with the suite's field names.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Specification {
    pub(crate) args: Vec<String>,
    /// Folders next to the program, which it sees under the same names.
    pub(crate) dirs: Vec<String>,
    /// A folder next to the program that it sees as `/`.
    pub(crate) root: Option<String>,
    pub(crate) env: BTreeMap<String, String>,
    exit_code: u32,
    stdout: Option<String>,
    stderr: Option<String>,
    /// The calls that it tests. Nothing depends on this field.
    wasi_functions: Vec<String>,
}

/// How a program ended.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Ended {
    /// The exit code; `None` if the program did not exit by itself.
    pub(crate) code: Option<u32>,
    /// The same as a sentence.
    pub(crate) reason: String,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// A program of the suite.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) specification: Specification,
}

impl Program {
    fn new(path: PathBuf) -> io::Result<Self> {
        let specification = match read(path.with_extension("json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Specification::default(),
            text => serde_json::from_slice(&text?)
                .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?,
        };
        Ok(Self {
            path,
            specification,
        })
    }

    /// Its name, without the folder and the ending.
    pub(crate) fn name(&self) -> &str {
        let stem = self.path.file_stem().and_then(OsStr::to_str);
        stem.unwrap_or("a name that is no text")
    }

    /// The language that it is written in, as the folders above it name it.
    pub(crate) fn language(&self) -> &str {
        let folders = self.path.components().rev().map(|c| c.as_os_str());
        let mut rest = folders.skip_while(|folder| *folder != "testsuite").skip(1);
        rest.next().and_then(OsStr::to_str).unwrap_or("-")
    }

    /// Copies the folders that it uses, so that no program finds files of another one. Returns the copies with the
    /// names that the program has for them.
    pub(crate) fn folders(&self, under: &Path) -> io::Result<Vec<(PathBuf, String)>> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let named = self.specification.dirs.iter().map(|dir| (dir, dir.clone()));
        let root = self.specification.root.iter();
        let all = named.chain(root.map(|root| (root, "/".to_owned())));
        all.enumerate()
            .map(|(number, (dir, guest))| {
                let fresh = under.join(format!("{}-{}-{number}", self.language(), self.name()));
                copy_folder(&folder.join(dir), &fresh)?;
                Ok((fresh, guest))
            })
            .collect()
    }

    /// How its end differs from the one that the suite expects; `None` if it does not.
    pub(crate) fn complaint(&self, ended: &Ended) -> Option<String> {
        let wanted = &self.specification;
        if ended.code != Some(wanted.exit_code) {
            let said = String::from_utf8_lossy(&ended.stderr);
            let (reason, said) = (&ended.reason, said.trim());
            return Some(format!(
                "{reason}, not exit code {}: {said}",
                wanted.exit_code
            ));
        }
        for (stream, wanted, found) in [
            ("output", &wanted.stdout, &ended.stdout),
            ("errors", &wanted.stderr, &ended.stderr),
        ] {
            if let Some(wanted) = wanted.as_ref().filter(|w| w.as_bytes() != found) {
                let found = String::from_utf8_lossy(found);
                return Some(format!("standard {stream}: {found:?}, not {wanted:?}"));
            }
        }
        None
    }
}

/// Copies a folder with everything in it.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    create_dir(to)?;
    for entry in read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => drop(copy(entry.path(), to)?),
        }
    }
    Ok(())
}

/// All modules in a folder and its subfolders that are programs of preview 1: those of other previews are in folders
/// named after their target.
pub(crate) fn find(folder: &Path) -> io::Result<Vec<Program>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let other = name.starts_with("wasm32-wasip") && name != "wasm32-wasip1";
                if !other && name != "target" && name != "node_modules" {
                    folders.push(path);
                }
            } else if path.extension() == Some(OsStr::new("wasm")) {
                found.push(Program::new(path)?);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
