//! Writing results: files that appear whole or not at all, and lines on standard output.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::CliError;

/// Whether a file can be written to this path, as far as that is known beforehand: long work should not end without a
/// place for its result.
pub(crate) fn check_place(path: &Path) -> Result<(), CliError> {
    let failed = |source| CliError::Output {
        path: path.to_owned(),
        source,
    };
    if path.is_dir() {
        return Err(failed(std::io::Error::from(
            std::io::ErrorKind::IsADirectory,
        )));
    }
    if !folder(path).is_dir() {
        return Err(CliError::NoFolder {
            path: folder(path).to_owned(),
        });
    }
    Ok(())
}

fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Writes a file through a temporary one in the same folder, so that it is never half-written.
pub(crate) fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), CliError> {
    ResultFile::create(path)?.fill(fill)
}

/// A file for a result. Until it is kept, nothing has changed at its path.
pub(crate) struct ResultFile<'p> {
    path: &'p Path,
    open: OpenResult,
}

enum OpenResult {
    /// A temporary file in the same folder.
    Temporary(tempfile::NamedTempFile),
    /// A device or a pipe, which cannot be replaced by a rename and is written directly.
    Direct(std::fs::File),
}

impl<'p> ResultFile<'p> {
    pub(crate) fn create(path: &'p Path) -> Result<Self, CliError> {
        let failed = |source| CliError::Output {
            path: path.to_owned(),
            source,
        };
        check_place(path)?;
        let open = match path.exists() && !path.is_file() {
            true => {
                let file = std::fs::OpenOptions::new().write(true).open(path);
                OpenResult::Direct(file.map_err(failed)?)
            }
            false => {
                // As other programs create files: who may read it follows from the user's mask.
                let mode = std::fs::Permissions::from_mode(0o666);
                let file = tempfile::Builder::new()
                    .permissions(mode)
                    .tempfile_in(folder(path));
                OpenResult::Temporary(file.map_err(failed)?)
            }
        };
        Ok(Self { path, open })
    }

    /// The open file.
    pub(crate) fn file(&self) -> &std::fs::File {
        match &self.open {
            OpenResult::Temporary(file) => file.as_file(),
            OpenResult::Direct(file) => file,
        }
    }

    /// Writes the whole result, and puts it at its path.
    pub(crate) fn fill(
        self,
        fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), CliError> {
        let mut buffered = std::io::BufWriter::new(self.file());
        let written = fill(&mut buffered).and_then(|()| buffered.flush());
        written.map_err(|source| CliError::Output {
            path: self.path.to_owned(),
            source,
        })?;
        drop(buffered);
        self.keep()
    }

    /// Puts the result at its path.
    pub(crate) fn keep(self) -> Result<(), CliError> {
        match self.open {
            OpenResult::Direct(_) => Ok(()),
            OpenResult::Temporary(file) => {
                let kept = file.persist(self.path);
                kept.map(drop).map_err(|error| CliError::Output {
                    path: self.path.to_owned(),
                    source: error.error,
                })
            }
        }
    }
}

/// Prints lines. A closed pipe, as in `| head`, is not an error.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Stdout(e)),
        _ => Ok(()),
    }
}

/// Prints one JSON object.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    print(&serde_json::to_string_pretty(value).expect("numbers and strings are always JSON"))
}
