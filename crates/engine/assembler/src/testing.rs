//! Programs for this crate's tests.

use std::io::Write;
use std::path::Path;

use crate::tools::Tool;

/// ptxas, as `.ci/install-ptxas` installs it or as the system has it. In CI it must be there.
pub(crate) fn ptxas() -> Option<Tool> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = top.join("target/ptxas/nvidia/cu13/bin/ptxas");
    let found = match path.exists() {
        true => Ok(Tool {
            path,
            version: "installed".to_owned(),
        }),
        false => Tool::ptxas(),
    };
    match found {
        Ok(tool) => Some(tool),
        Err(e) if std::env::var_os("CI").is_some() => panic!("CI assembles: {e}"),
        Err(e) => {
            // Not eprintln!, because the harness hides its output when a test passes.
            let written = writeln!(std::io::stderr(), "skipped: {e}; or run .ci/install-ptxas");
            written.expect("stderr takes a line");
            None
        }
    }
}

/// A script in the place of ptxas, with `$in`, `$out` and a folder `$D` of its own.
#[cfg(unix)]
pub(crate) fn fake_ptxas(folder: &Path, script: &str) -> Tool {
    use std::process::{Command, Stdio};
    let own = folder.join("own");
    std::fs::create_dir(&own).expect("it is writable");
    let text = format!(
        "#!/bin/sh\nD={}\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\nin=$1\n{script}\n",
        own.display()
    );
    let path = folder.join("ptxas");
    // Another process writes the file. If this one did, a child that another test starts at this moment would have it open
    // for writing, and the system would refuse to run it.
    let mut writer = Command::new("sh");
    writer
        .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
        .arg(&path);
    let mut writer = writer.stdin(Stdio::piped()).spawn().expect("sh runs");
    let mut input = writer.stdin.take().expect("it is a pipe");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    assert!(writer.wait().expect("it ends").success());
    Tool {
        path,
        version: "none".to_owned(),
    }
}
