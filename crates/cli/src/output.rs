//! Writing results: files that appear whole or not at all, and lines on standard output.

use std::io::Write;
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
    let failed = |source| CliError::Output {
        path: path.to_owned(),
        source,
    };
    check_place(path)?;
    // A device or a pipe cannot be replaced by a rename, so it is written directly.
    if path.exists() && !path.is_file() {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(failed)?;
        return fill(&mut file).map_err(failed);
    }
    let mut file = tempfile::NamedTempFile::new_in(folder(path)).map_err(failed)?;
    {
        let mut buffered = std::io::BufWriter::new(&mut file);
        fill(&mut buffered)
            .and_then(|()| buffered.flush())
            .map_err(failed)?;
    }
    file.persist(path).map(drop).map_err(|e| failed(e.error))
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
