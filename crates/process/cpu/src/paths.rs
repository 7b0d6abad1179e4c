//! Calls on paths that wasmtime answers otherwise than the system does.

use wasmtime::{AsContextMut, Caller, Extern, Linker, Result};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{WasiSnapshotPreview1, path_remove_directory};
use wiggle::{GuestMemory, GuestPtr};

use crate::program::WASI;
use crate::run::Guest;

/// The length of a path without slashes at its end, unless it is nothing else.
fn without_slashes(memory: &GuestMemory<'_>, path: u32, length: u32) -> u32 {
    let byte = |at: u32| memory.read(GuestPtr::<u8>::new(path.checked_add(at)?)).ok();
    let name = (0..length).rev().find(|&at| byte(at) != Some(b'/'));
    name.map_or(length, |last| last + 1)
}

/// Removes a directory, also one whose path has slashes at its end, as `rmdir` does: the library takes them for a `.`
/// in the directory, which cannot be removed.
async fn remove(mut caller: Caller<'_, Guest>, fd: u32, path: u32, length: u32) -> Result<i32> {
    let exported = caller.get_export("memory");
    let fuel = caller.as_context_mut().hostcall_fuel();
    let shared;
    let (mut memory, guest) = match exported {
        Some(Extern::Memory(memory)) => {
            let (bytes, guest) = memory.data_and_store_mut(&mut caller);
            (GuestMemory::Unshared(bytes), guest)
        }
        Some(Extern::SharedMemory(memory)) => {
            shared = memory;
            (GuestMemory::Shared(shared.data()), caller.data_mut())
        }
        _ => wasmtime::bail!("the module exports no memory"),
    };
    // How much the library may copy for this call.
    let wasi = guest.wasi.get();
    wasi.set_hostcall_fuel(fuel);
    let length = without_slashes(&memory, path, length);
    let [fd, path, length] = [fd, path, length].map(u32::cast_signed);
    path_remove_directory(wasi, &mut memory, fd, path, length).await
}

/// Puts them in the place of the library's.
pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    linker.func_wrap_async(
        WASI,
        "path_remove_directory",
        |caller, (fd, path, length)| Box::new(remove(caller, fd, path, length)),
    )?;
    Ok(())
}
