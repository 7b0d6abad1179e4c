//! Arguments, environment, files, standard streams and clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use everwarp_process::{Directory, Input};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{config, normal, run, same, text};

pub(super) fn arguments_and_environment_reach_the_process(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let mut config = config(&["one", ""]);
    config.env = vec![("A", "1"), ("B", "two words")];
    let exit = run(host, "hello", &config)?;
    normal(&exit, 7)?;
    same(
        text(&exit.stdout).as_str(),
        "hello, world\nprogram\0one\0\0",
    )?;
    same(text(&exit.stderr).as_str(), "A=1\0B=two words\0")
}

pub(super) fn files_and_directories_can_be_used(host: &CudaProcesses) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let directory = Directory::open(folder.path(), "/data")?;
    let config = config(&[]).granted(|grants| grants.directories = vec![directory]);
    let exit = run(host, "files", &config)?;
    normal(&exit, 0)?;
    let content = "thirty-three bytes of a small file";
    same(text(&exit.stdout), format!("/data{}", &content[7..]))?;
    let written = std::fs::read_to_string(folder.path().join("moved.txt"))?;
    same(written.as_str(), content)?;
    same(std::fs::read_dir(folder.path())?.count(), 1)
}

pub(super) fn standard_input_is_copied_to_standard_output(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    for length in [0, 1, 2999, 3000, 3001, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let input = Input::Bytes(bytes.clone().into());
        let config = config(&[]).granted(|grants| grants.stdin = input);
        let exit = run(host, "cat", &config)?;
        normal(&exit, 0)?;
        let out = exit.stdout.expect("it was captured").bytes;
        if out != bytes {
            return Err(format!("{length} bytes came back as {} others", out.len()).into());
        }
    }
    Ok(())
}

/// The device reads standard input that a process has of its own, in part or to its end.
pub(super) fn a_process_reads_an_input_of_its_own(host: &CudaProcesses) -> Result<(), Failed> {
    for (module, length) in [
        ("cat", 0),
        ("cat", 1),
        ("cat", 3000),
        ("cat", 100_000),
        ("moves", 0),
        ("moves", 200),
        ("moves", 10_000),
    ] {
        let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut config = config(&[]);
        config.stdin = Some(bytes.clone().into());
        let exit = run(host, module, &config)?;
        normal(&exit, 0)?;
        let out = exit.stdout.expect("it was captured").bytes;
        if out != bytes {
            let got = out.len();
            return Err(format!("{module}: {length} bytes came back as {got} others").into());
        }
    }
    Ok(())
}

pub(super) fn clocks_advance_and_random_bytes_differ(host: &CudaProcesses) -> Result<(), Failed> {
    let mut random = Vec::new();
    for _ in 0..3 {
        let before = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        let exit = run(host, "facts", &config(&[]))?;
        let after = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        normal(&exit, 0)?;
        let bytes = exit.stdout.expect("it was captured").bytes;
        same(bytes.len(), 88)?;
        let word = |i: usize| u64::from_le_bytes(bytes[8 * i..][..8].try_into().expect("8 bytes"));
        // The two clocks may drift apart by this much in an hour.
        let slack = 2_000_000;
        if !(before - slack..=after + slack).contains(&word(0)) {
            return Err(
                format!("the time of day is {} and not {before} to {after}", word(0)).into(),
            );
        }
        let waited = word(2) - word(1);
        if !(20_000_000..10_000_000_000).contains(&waited) {
            return Err(format!("20 ms took {waited} ns").into());
        }
        random.push(bytes[24..].to_vec());
    }
    for (i, bytes) in random.iter().enumerate() {
        let distinct = bytes
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        if distinct < 32 || random[..i].contains(bytes) {
            return Err(format!("that is not random: {bytes:?}").into());
        }
    }
    Ok(())
}

pub(super) fn ten_thousand_lines_keep_their_order(host: &CudaProcesses) -> Result<(), Failed> {
    let exit = run(host, "lines", &config(&[]))?;
    normal(&exit, 0)?;
    let all: String = (0..10_000).map(|n| format!("line {n:04}\n")).collect();
    if text(&exit.stdout) != all {
        return Err("standard output has lost its order".into());
    }
    let marks: String = (1..=10)
        .map(|n| format!("line {:04}\n", n * 1000 - 1))
        .collect();
    same(text(&exit.stderr), marks)
}
