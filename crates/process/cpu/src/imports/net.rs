//! The imports of `everwarp:net`; `guests/NET.md` says what they promise.

use everwarp_contract::errno;
use everwarp_process::net::{LaunchError, MODULE, read_launch};
use everwarp_process::sockets::errno_of;
use wasmtime::{Caller, Linker, Result};
use wiggle::GuestPtr;

use super::arguments::{Argument, U32, refused};
use super::sockets::with_memory;
use crate::guest::Guest;
use crate::numbers::{Numbered, OpenSocket, SocketKind};

/// The bytes of a name and variables together: as many as a GPU's host call holds.
const LAUNCH_BYTES: usize = 8192;

type LaunchArguments = (i32, i32, i32, i32, i32);

fn launch(mut caller: Caller<'_, Guest>, arguments: LaunchArguments) -> Result<i32> {
    let (name, name_length, variables, variables_length, to) = arguments;
    let checked = [
        Argument::Result(to, U32),
        Argument::Bytes(name, name_length),
        Argument::Bytes(variables, variables_length),
    ];
    if let Some(errno) = with_memory(&mut caller, |memory| refused(memory, &checked))? {
        return Ok(errno);
    }
    if name_length as u32 as usize + variables_length as u32 as usize > LAUNCH_BYTES {
        return Ok(errno::ERRNO_NOBUFS as i32);
    }
    let numbers = caller.data().numbers.clone();
    let Some((numbers, launcher)) = numbers.and_then(|numbers| {
        let launcher = numbers.launcher.clone()?;
        Some((numbers, launcher))
    }) else {
        return Ok(errno::ERRNO_NOTCAPABLE as i32);
    };
    let part = |at: i32, length: i32| GuestPtr::<[u8]>::new((at as u32, length as u32));
    let read = with_memory(&mut caller, |memory| -> Result<_> {
        let name = memory.to_vec(part(name, name_length))?;
        let variables = memory.to_vec(part(variables, variables_length))?;
        Ok(read_launch(&name, &variables))
    })??;
    let Some((name, variables)) = read else {
        return Ok(errno::ERRNO_INVAL as i32);
    };
    if !numbers.has_room() {
        return Ok(errno::ERRNO_MFILE as i32);
    }
    let connection = match launcher.launch(&name, variables) {
        Ok(connection) => connection,
        Err(LaunchError::Unknown) => return Ok(errno::ERRNO_NOENT as i32),
        Err(LaunchError::System(error)) => return Ok(errno_of(&error) as i32),
    };
    let open = OpenSocket::new(SocketKind::Connection(connection), false);
    let number = numbers.insert(Numbered::Socket(open));
    let place = GuestPtr::<u32>::new(to as u32);
    with_memory(&mut caller, |memory| memory.write(place, number))??;
    Ok(0)
}

/// Adds the imports.
pub(super) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    linker.func_wrap(
        MODULE,
        "launch",
        |caller: Caller<'_, Guest>, a: i32, b: i32, c: i32, d: i32, e: i32| -> Result<i32> {
            launch(caller, (a, b, c, d, e))
        },
    )?;
    Ok(())
}
