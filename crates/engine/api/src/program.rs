//! Programs: named sets of task functions, each with device source and a CPU twin.

use everwarp_contract::device::{CHUNK_TASKS, LOCAL_TASKS};

use crate::{EngineError, TwinFn};

/// How many threads run one task together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One thread; a warp takes up to 32 tasks of one function at once.
    Lane,
    /// One warp of 32 threads.
    Warp,
    /// One block of 256 threads.
    Block,
}

/// The order in which a worker takes the tasks that it has made itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Newest first: the memory that divide-and-conquer needs stays proportional to its depth.
    DepthFirst,
    /// Oldest first: traversals meet vertices in nearly breadth-first order.
    BreadthFirst,
}

/// The most that [`Function::max_spawn`] may be: a warp's queue holds 511 tasks, so that a call
/// always finds room in an empty one, and with functions that spawn up to 15 all 32 lanes do.
pub const MAX_SPAWN: u16 = 128;

// Before a call, a GPU's worker spills its queue until one chunk is left (`admit` in warp/batch.cuh; block/mode.cuh
// keeps four more places). The call must then have room. And a whole warp of calls that spawn up to 15 tasks each must
// have room in an empty queue.
const _: () = assert!(MAX_SPAWN as u32 + CHUNK_TASKS + 4 <= LOCAL_TASKS);
const _: () = assert!(CHUNK_TASKS * 15 < LOCAL_TASKS);

/// One task function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name: the device function, the CPU twin and the message in an error carry it.
    pub name: &'static str,
    /// How many threads run one task.
    pub shape: Shape,
    /// In which order its tasks are taken.
    pub order: Order,
    /// The most tasks that one call spawns, children of a fork included. The engine runs a call only
    /// when there is room for that many, so overflow is impossible and need not be handled.
    /// At most [`MAX_SPAWN`].
    pub max_spawn: u16,
    /// Whether a call may fork: open a group with a continuation.
    pub forks: bool,
    /// Whether a call may spawn into its own group. Roots of such functions get a counting group.
    pub spawns: bool,
    /// Whether a GPU engine calls the function instead of making it part of the scheduler's loop: for long
    /// warp-shaped functions, because their code and registers would burden all others. No effect on other shapes.
    pub outlined: bool,
    /// The CPU twin.
    pub twin: TwinFn,
}

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name; device functions are called `name_function`.
    pub name: &'static str,
    /// Its functions; a function's number is its index here.
    pub functions: &'static [Function],
    /// Its device source: CUDA C++ that defines `name_function` for each function.
    pub device_source: &'static str,
    /// Writes the device struct of its parameters (a `dev_struct!`), as `Layout::write_struct` does.
    pub write_params: fn(&mut dyn core::fmt::Write) -> core::fmt::Result,
    /// The device name of that struct.
    pub params_name: &'static str,
}

impl Program {
    /// Checks that an engine can run the functions as they are declared.
    ///
    /// # Errors
    /// [`EngineError::MaxSpawn`].
    pub fn check(&self) -> Result<(), EngineError> {
        match self.functions.iter().find(|f| f.max_spawn > MAX_SPAWN) {
            None => Ok(()),
            Some(function) => Err(EngineError::MaxSpawn {
                program: self.name,
                function: function.name,
                value: function.max_spawn,
                limit: MAX_SPAWN,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;

    const fn spawning(name: &'static str, most: u16) -> Function {
        Function::lane(name, |_| {}).spawns(most)
    }
    const fn program(name: &'static str, functions: &'static [Function]) -> Program {
        Program {
            name,
            functions,
            device_source: "",
            write_params: |_| Ok(()),
            params_name: "",
        }
    }
    static FITS: Program = program("fits", &[spawning("a", 0), spawning("b", MAX_SPAWN)]);
    static WIDE: Program = program("wide", &[spawning("a", 0), spawning("b", MAX_SPAWN + 1)]);

    #[test]
    fn function_that_spawns_too_many_is_named_in_the_error() {
        let image = Image::of;
        image(vec![&FITS]).check().expect("it is at the limit");
        let error = image(vec![&FITS, &WIDE]).check().expect_err("above it");
        let text = error.to_string();
        for part in ["`b`", "`wide`", "129", "128"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
