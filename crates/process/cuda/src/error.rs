//! What can go wrong before a process runs.

use everwarp_compiler::{CompileError, InstantiateError};

/// Why a module cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is no module, or uses what is not supported.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// It imports something that no engine provides.
    #[error("at offset {offset:#x} the module imports `{module}.{name}`, which nobody provides")]
    UnknownImport {
        /// Where in the bytes.
        offset: usize,
        /// The module that it is imported from.
        module: String,
        /// The imported name.
        name: String,
    },
    /// It imports something that is provided, as something else.
    #[error(
        "at offset {offset:#x} the module imports `{module}.{name}` with another type than it has"
    )]
    ImportType {
        /// Where in the bytes.
        offset: usize,
        /// The module that it is imported from.
        module: String,
        /// The imported name.
        name: String,
    },
    /// It is a library.
    #[error("the module is no command: it exports no function `_start` () -> ()")]
    NoEntry,
}

/// Why a host did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A module did not compile.
    #[error("{module}: {source}")]
    Load {
        /// The module.
        module: String,
        /// What is wrong with it.
        source: LoadError,
    },
    /// A module cannot be instantiated.
    #[error("{module}: {source}")]
    Instantiate {
        /// The module.
        module: String,
        /// What is wrong with it.
        source: InstantiateError,
    },
    /// The engine did not start, or refused memory.
    #[error(transparent)]
    Engine(#[from] everwarp_runtime::Error),
    /// The stack is too small for the functions of the image.
    #[error(
        "a stack of {stack} bytes a thread holds calls {depth} deep, because the largest frame among the modules' \
         functions has {frame} bytes, and at least {least} are needed: ask for a larger stack"
    )]
    Stack {
        /// The stack.
        stack: u32,
        /// The largest frame.
        frame: u32,
        /// The depth that follows.
        depth: u32,
        /// The least depth.
        least: u32,
    },
    /// Not even one process fits the budget.
    #[error(
        "a process of {module} needs {needs} bytes of device memory, and {budget} are to be had: ask for less memory"
    )]
    Budget {
        /// The module.
        module: String,
        /// What one place takes.
        needs: u64,
        /// What there is.
        budget: u64,
    },
    /// The memory asked for is less than what the module starts with.
    #[error("{module} starts with {needs} bytes of memory, and the limit is {limit}")]
    Memory {
        /// The module.
        module: String,
        /// What it starts with.
        needs: u64,
        /// The limit given.
        limit: u64,
    },
    /// A module that comes later finds no places.
    #[error(
        "{places} places were asked for, those for children and threads included, and {spare} are left for modules \
         that are loaded later: start the host with more `spare_places`"
    )]
    Spare {
        /// How many were asked for, those for children and threads included.
        places: u64,
        /// How many are left.
        spare: u32,
    },
    /// An image has a number for each module, and none is left.
    #[error("a host has {most} modules at most, which are there already")]
    Modules {
        /// How many there can be.
        most: usize,
    },
    /// The engine has no ring for calls of the host.
    #[error("the engine serves no host calls: only an engine on a GPU does")]
    NoRing,
    /// The system gave no thread or no random bytes.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
}

/// Why a process was not begun.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// An argument or a variable that C strings cannot hold.
    #[error("{what:?} contains a zero byte")]
    ZeroByte {
        /// The argument or variable.
        what: String,
    },
    /// Its arguments and environment are too long.
    #[error("arguments and environment take {bytes} bytes, and at most 2^31 are allowed")]
    TooLong {
        /// How long they are.
        bytes: usize,
    },
    /// Processes are numbered in 32 bits.
    #[error("more than 2^32 - 1 processes cannot be spawned together")]
    TooMany,
    /// The fuel is not a number that the engine can count down from.
    #[error("the fuel must be from 1 to 2^63 - 1, not {fuel}")]
    Fuel {
        /// What was given.
        fuel: u64,
    },
    /// More ends of channels than a process of this host may have.
    #[error(
        "{ends} ends of channels, where a process can have {most}; one of a module that was there before any that \
         imports `everwarp:gpu` can have none"
    )]
    Ends {
        /// How many were given.
        ends: usize,
        /// How many there may be.
        most: usize,
    },
    /// The engine refused, or has ended.
    #[error(transparent)]
    Engine(#[from] everwarp_runtime::Error),
}
