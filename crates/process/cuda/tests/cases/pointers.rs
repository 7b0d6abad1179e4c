//! Host calls with bad pointers, lengths and counts: they fail as on the CPU engine, and do nothing.

use everwarp_process::{Directory, ExitStatus, ProcessEngine};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::load::{load_config, module, report};
use super::{config, same, spawn, text, wait};

#[path = "../../../cpu/tests/bad_calls/mod.rs"]
mod bad_calls;

pub(super) fn bad_pointers_are_errors_and_do_nothing(host: &CudaProcesses) -> Result<(), Failed> {
    let wat = bad_calls::calls(r#"(memory (export "memory") 1)"#, bad_calls::CALLS);
    let loaded = host.load(&module("bad-calls", &wat), &load_config(1, 0, 0, 1 << 16))?;
    report(&loaded);
    let folder = tempfile::tempdir()?;
    let directory = Directory::open(folder.path(), "/data")?;
    let mut launch = config(&[]).granted(|grants| grants.directories = vec![directory]);
    launch.env = vec![("KEY", "value")];
    let pid = spawn(host, loaded.id, &launch)?;
    let exit = wait(host, pid)?;
    if let ExitStatus::Exited(code @ 1000..) = exit.status {
        let call = bad_calls::CALLS[code as usize - 1000];
        return Err(format!("{call:?} returned something else").into());
    }
    same(exit.status, ExitStatus::Exited(0))?;
    same(text(&exit.stdout).as_str(), "")?;
    same(std::fs::read_dir(folder.path())?.count(), 0)
}
