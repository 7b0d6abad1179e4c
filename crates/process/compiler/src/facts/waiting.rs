//! The functions of an image that waiting and notifying call.

use crate::error::CompileError;
use crate::facts::module::Module;
use crate::facts::module::Waiting;
use crate::facts::options::{CompileOptions, ProvidedImport, provided};
use crate::facts::types::{FunctionType, ValueType};

/// The module of [`WAIT`] and [`NOTIFY`] among [`CompileOptions::provided_imports`].
///
/// A module with a shared memory calls them as if it imported them, because only a host knows how an instance
/// that waits gives up its thread, and how it gets one again. Both are device code
/// ([`Provider::Device`](crate::Provider::Device)).
///
/// * `wait(address: i64, expected: i64, timeout: i64, bytes: i32) -> i32` is called by `memory.atomic.wait32` and
///   `wait64`. The address is the device's, of a value of 4 or 8 bytes that was checked and is aligned; it is the
///   same for all who share the memory. The value must be compared with `expected` (of 4 bytes the lower half
///   counts) in one step with beginning to wait, as far as `notify` can tell. The timeout is in nanoseconds,
///   negative for none. It answers 0 for a notification, 1 if the value was another one, 2 if the time is over.
///   To wait it suspends, and is called again with the same arguments: see "Suspension" in the crate's
///   documentation.
/// * `notify(address: i64, count: i32) -> i32` wakes at most so many (unsigned) of those who wait at the address,
///   the longest waiting first, and answers how many.
///
/// Without them a wait for a value that is as expected, unless its timeout is 0, is a
/// [`TrapKind::UnlinkedImport`](crate::TrapKind::UnlinkedImport), because nobody could end it; and a notification finds
/// nobody.
pub const WAITING: &str = "memory.atomic";
/// The function that a thread waits in; see [`WAITING`].
pub const WAIT: &str = "wait";
/// The function that wakes others; see [`WAITING`].
pub const NOTIFY: &str = "notify";

/// Adds the functions that are provided behind the module's own, if it may call them.
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
