//! Compiles programs in C with the header and runs them with the shared library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder of the shared library, which cargo builds next to this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let deps = test.parent().expect("it is in a folder");
    // `cargo build` leaves a copy above, which may be older.
    let folders = [deps, deps.parent().expect("deps is in a folder")];
    let found = folders
        .into_iter()
        .find(|f| f.join("libeverwarp_c.so").exists());
    found
        .expect("cargo builds the library with its tests")
        .to_owned()
}

/// Compiles a program, and returns its path.
pub(crate) fn compile(name: &str, compiler: &str, flags: &[&str], into: &Path) -> PathBuf {
    let program = into.join(format!("{name}-{compiler}"));
    let done = Command::new(compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"])
        .arg(format!("-I{HERE}/include"))
        .arg(format!("{HERE}/c/{name}.c"))
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", library().display()))
        .arg("-leverwarp_c")
        .output()
        .unwrap_or_else(|e| panic!("{compiler}: {e}; install a C compiler"));
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    program
}

/// Runs a program. Everything that is reachable at its end is no leak; what is not, is one.
pub(crate) fn run(program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).args(args);
    command.env("LD_LIBRARY_PATH", library());
    command.output().expect("timeout runs it")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the example of actors on an engine and checks what it computes. Returns its line that says where they ran.
pub(crate) fn moves_money(program: &Path, account: &str, engine: &str) -> String {
    let done = run(program, &[account, "1000", engine]);
    let lines = text(&done.stdout);
    assert!(done.status.success(), "{lines}{}", text(&done.stderr));
    let [place, sums, failure] = lines.lines().collect::<Vec<_>>()[..] else {
        panic!("three lines: {lines}")
    };
    assert_eq!(sums, "1000 accounts with 100000 in all; number 1 has 99");
    let wanted = "status 9; 1 failure of number 0: it called `fail`";
    assert!(failure.starts_with(wanted), "{failure}");
    place.to_owned()
}
