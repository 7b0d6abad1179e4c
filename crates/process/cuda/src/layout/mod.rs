//! The layouts that host and device share: records of processes (`process`), of what processes are to each other
//! (`family`) and of threads (`thread`), and what the host reads in them (`snapshot`).
//!
//! The records refer to each other by typed addresses, so the files of this folder name each other's types. They import
//! nothing else of this crate.

pub(crate) mod family;
pub(crate) mod process;
pub(crate) mod snapshot;
pub(crate) mod thread;

use everwarp_compiler::{DevDeep, DevInstance, DevSharing, DevSuspension, DevTable};
use everwarp_runtime::Layout;

pub(crate) use process::{DevProcessTable, START_PROCESSES};

/// Writes everything that the device sources of processes read.
pub(crate) fn write_structs(out: &mut dyn everwarp_contract::DeviceText) -> core::fmt::Result {
    process::write_consts(out)?;
    family::write_consts(out)?;
    thread::write_consts(out)?;
    writeln!(out, "struct DevProcessTable;\nstruct DevWorld;")?;
    thread::write_structs(out)?;
    DevInstance::write_struct(out)?;
    DevTable::write_struct(out)?;
    DevSuspension::write_struct(out)?;
    DevDeep::write_struct(out)?;
    DevSharing::write_struct(out)?;
    process::write_structs(out)?;
    family::write_structs(out)
}
