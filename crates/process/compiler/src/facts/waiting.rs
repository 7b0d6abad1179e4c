//! The two functions of an image that wait and notify.

use crate::error::CompileError;
use crate::facts::module::Module;
use crate::facts::module::Waiting;
use crate::facts::options::{CompileOptions, ProvidedImport, provided};
use crate::facts::types::{FunctionType, ValueType};

/// The module of [`WAIT`] and [`NOTIFY`] among [`CompileOptions::provided_imports`].
///
/// A module with a shared memory calls them as if it imported them, because only a host knows how an instance
/// that waits gives up its thread, and how it gets a thread again. Both are device code
/// ([`Provider::Device`](crate::Provider::Device)).
///
/// * `wait(address: i64, expected: i64, timeout: i64, bytes: i32) -> i32` is called by `memory.atomic.wait32` and
///   `wait64`. The address is the device's, of a value of 4 or 8 bytes that was checked and is aligned; it is the
///   same for all instances that share the memory. The value must be compared with `expected` (of 4 bytes the lower half
///   counts) and the wait must begin in one step, as far as `notify` can tell. The timeout is in nanoseconds,
///   negative for none. It returns 0 for a notification, 1 if the value was another one, 2 if the time is over.
///   To wait it suspends, and is called again with the same arguments, as [the crate](crate#suspension)
///   describes.
/// * `notify(address: i64, count: i32) -> i32` wakes up to `count` (unsigned) instances that wait at the address,
///   the longest waiting first, and returns how many it has woken.
///
/// Without them a wait for a value that is as expected, unless its timeout is 0, is a
/// [`TrapKind::UnlinkedImport`](crate::TrapKind::UnlinkedImport), because nothing could end it; and a notification
/// returns 0.
pub const WAITING: &str = "memory.atomic";
/// The name of the function that waits, in the module [`WAITING`].
pub const WAIT: &str = "wait";
/// The name of the function that wakes waiting instances, in the module [`WAITING`].
pub const NOTIFY: &str = "notify";

/// Adds the provided functions after the module's own, if the module may call them.
pub(crate) fn add<'o>(
    module: &mut Module,
    options: &'o CompileOptions,
) -> Result<Vec<&'o ProvidedImport>, CompileError> {
    use ValueType::{I32, I64};
    let mut added = Vec::new();
    if !module.shares_memory() {
        return Ok(added);
    }
    let mut function = |name: &str, params: &[ValueType]| {
        let Some(import) = provided(options, WAITING, name)? else {
            return Ok(None);
        };
        added.push(import);
        let params = params.to_vec();
        let results = vec![I32];
        let ty = module.push_type(FunctionType { params, results });
        let index = module.functions.len() as u32;
        module.functions.push(ty);
        module.names.insert(index, format!("{WAITING}.{name}"));
        Ok::<_, CompileError>(Some(index))
    };
    let wait = function(WAIT, &[I64, I64, I64, I32])?;
    let notify = function(NOTIFY, &[I64, I32])?;
    module.waiting = Waiting { wait, notify };
    Ok(added)
}
