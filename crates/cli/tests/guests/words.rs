//! `words`, compared with a plain count.

use std::fmt::Write;
use std::path::Path;

use everwarp_testkit::cases;

use crate::{Case, Ended, ONE_PAGE, data, run};

/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    words_of_a_directory_equal_a_plain_count,
    words_of_files_and_of_standard_input,
    words_reports_unreadable_files_and_counts_the_rest
];

/// Lines, words and bytes.
fn count(bytes: &[u8]) -> [usize; 3] {
    let words = bytes
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty());
    let lines = bytes.iter().filter(|b| **b == b'\n');
    [lines.count(), words.count(), bytes.len()]
}

/// A folder with files of many lengths. Some end within a word or at the end of a piece that the guest reads, and their
/// names do not fit in one reply of the host.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let word = |n: usize| &b"a bb\tccc\ndddd \n eeeee"[..n % 22];
    for n in 0..150 {
        let length = [0, 1, 5, 4095, 4096, 4097, 8192, 10_000][n % 8];
        let bytes: Vec<u8> = (n..).flat_map(word).copied().take(length).collect();
        let name = match n {
            0..130 => format!("a file with a rather long name {n:03}.txt"),
            130..140 => format!("inner/{n}"),
            _ => format!("inner/deep/er/{n}"),
        };
        files.push((name, bytes));
    }
    for (name, bytes) in &files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("the folder is writable");
    }
    files
}

/// One line for each file, and one for all.
fn report(files: &[(String, Vec<u8>)]) -> String {
    let (mut text, mut total) = (String::new(), [0; 3]);
    for (name, bytes) in files {
        let [lines, words, length] = count(bytes);
        writeln!(text, "{lines} {words} {length} /data/{name}").expect("a string takes all");
        total = [total[0] + lines, total[1] + words, total[2] + length];
    }
    let [lines, words, length] = total;
    text + &format!("{lines} {words} {length} total\n")
}

fn words_of_a_directory_equal_a_plain_count() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut files = files(folder.path());
    // A folder's name sorts among the names of the files in the same folder.
    files.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
    let given = data(folder.path());
    let options = ["--dir", &given, "--memory", ONE_PAGE];
    let ended = run("words", &options, &["/data"], b"");
    assert_eq!(ended, Ended::new(0, &report(&files), ""));
}

fn words_of_files_and_of_standard_input() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = files(folder.path());
    let given = data(folder.path());
    let three = [files[5].clone(), files[149].clone(), files[3].clone()];
    let paths = three.each_ref().map(|(name, _)| format!("/data/{name}"));
    let args = paths.each_ref().map(String::as_str);
    let ended = run("words", &["--dir", &given], &args, b"");
    assert_eq!(ended, Ended::new(0, &report(&three), ""));

    let input = &files[7].1.repeat(30);
    let [lines, words, length] = count(input);
    let out = format!("{lines} {words} {length} -\n");
    assert_eq!(run("words", &[], &[], input), Ended::new(0, &out, ""));
}

fn words_reports_unreadable_files_and_counts_the_rest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("there"), "one two\n").expect("the folder is writable");
    let given = data(folder.path());
    let args = [
        "/data/none",
        "/data/there",
        "/etc/passwd",
        "/data/../outside",
    ];
    let ended = run("words", &["--dir", &given], &args, b"");
    let err = "words: /data/none: no such file or directory\n\
               words: /etc/passwd: not beneath a directory that this process was given\n\
               words: /data/../outside: not permitted\n";
    assert_eq!(ended, Ended::new(1, "1 2 8 /data/there\n", err));
}
