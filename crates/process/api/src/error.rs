//! The errors of modules, hosts and processes, on every engine.

use std::path::PathBuf;
use std::time::Duration;

/// Why a module cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The module's file cannot be read.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// The kind of the system's error.
        kind: std::io::ErrorKind,
        /// The system's message.
        message: String,
    },
    /// A file of a module with its images is of no use.
    #[error(
        "this file of a module with its images cannot be read, because {reason}: make it again with `everwarp compile MODULE.wasm \
         --output FILE.ewimg`"
    )]
    ImageFile {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The bytes are not a WebAssembly module.
    #[error("this is no WebAssembly module: {found}")]
    NotAModule {
        /// What the bytes are, and what to do.
        found: String,
    },
    /// The module needs a part of WebAssembly that everwarp does not have.
    #[error(
        "at offset {offset:#x} the module uses {feature}, which everwarp does not run: {advice}"
    )]
    Unsupported {
        /// The offset in the bytes.
        offset: usize,
        /// The proposal, by its usual name.
        feature: String,
        /// What to do instead, such as a compiler flag.
        advice: String,
    },
    /// The bytes are not valid.
    #[error("the module is not valid at offset {offset:#x}: {message}")]
    Invalid {
        /// The offset in the bytes.
        offset: usize,
        /// What is wrong there.
        message: String,
    },
    /// The module imports something that no engine provides.
    #[error("at offset {offset:#x} the module imports `{}.{}`, which everwarp does not provide{advice}", module.escape_debug(), name.escape_debug())]
    UnknownImport {
        /// The offset in the bytes.
        offset: usize,
        /// The module that the import names.
        module: String,
        /// The imported name.
        name: String,
        /// What to do, with the separator before it; empty if no advice is known.
        advice: &'static str,
    },
    /// The module imports a provided function with another type.
    #[error("at offset {offset:#x} the module imports `{}.{}` with another type than it has", module.escape_debug(), name.escape_debug())]
    ImportType {
        /// The offset in the bytes.
        offset: usize,
        /// The module that the import names.
        module: String,
        /// The imported name.
        name: String,
    },
    /// The module exports no function `_start` without parameters and results.
    #[error("the module is no command: it exports no function `_start` () -> ()")]
    NoEntry,
    /// The module is valid, but the engine's compiler refuses it.
    #[error("the module cannot be compiled: {0}")]
    Compile(String),
    /// Compiling the module took longer than it may, where the compiler is limited.
    #[error(
        "compiling the module takes more than {} s, the limit of the service: divide its largest functions, or run it with --alone",
        limit.as_secs()
    )]
    CompileTime {
        /// The limit.
        limit: std::time::Duration,
    },
    /// Compiling the module took more memory than it may, where the compiler is limited.
    #[error(
        "compiling the module takes more than {limit} bytes of memory, the limit of the service: divide its largest functions, \
         or run it with --alone"
    )]
    CompileMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// The module compiles, and what it starts with does not fit its own memory or tables, or the limits of a process.
    #[error("the module cannot be instantiated: {0}")]
    Instantiate(String),
}

/// Why a host did not start, or did not load a module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A module was refused.
    #[error("{module}: {source}")]
    Load {
        /// The module's name.
        module: String,
        /// The reason.
        source: LoadError,
    },
    /// An option was given that the engine does not have.
    #[error("the {engine} engine has no option `{option}`: leave it out, or use another engine")]
    Option {
        /// The option's name in [`HostConfig`](crate::HostConfig).
        option: &'static str,
        /// The engine that was started.
        engine: everwarp_engine::EngineKind,
    },
    /// The module starts with more memory than its processes may have.
    #[error(
        "{module} starts with {needs} bytes of memory, and the limit is {limit}: give it at least what it starts with"
    )]
    Memory {
        /// The module's name.
        module: String,
        /// The bytes of linear memory and tables at the start.
        needs: u64,
        /// The limit given.
        limit: u64,
    },
    /// The device has no room for a single process.
    #[error(
        "a process of {module} needs {needs} bytes of device memory, and {budget} are left: set a lower memory limit"
    )]
    Budget {
        /// The module's name.
        module: String,
        /// The bytes that one process needs.
        needs: u64,
        /// The bytes that are left.
        budget: u64,
    },
    /// The stack is too small for the functions of the modules.
    #[error(
        "calls nest {depth} deep on a stack of {stack} bytes, and at least {least} are needed: set a stack of {needed} bytes"
    )]
    Stack {
        /// The stack of each thread, in bytes.
        stack: u32,
        /// The depth of calls that fits.
        depth: u32,
        /// The least depth.
        least: u32,
        /// The stack that the least depth needs, in bytes.
        needed: u64,
    },
    /// There are no places left for a module that is loaded later.
    #[error(
        "{places} places were asked for, including those for children and threads, and {spare} are left for modules \
         that are loaded later: start the host with more `spare_places`"
    )]
    Spare {
        /// How many places the module needs.
        places: u64,
        /// How many places are left.
        spare: u32,
    },
    /// The host cannot have another module.
    #[error("a host has at most {most} modules, and has them already")]
    Modules {
        /// How many it can have.
        most: usize,
    },
    /// A service has refused, for this reason.
    #[error("{0}")]
    Service(String),
    /// The device's engine did not start, or failed.
    #[error(transparent)]
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// The operating system refused a request.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The host has not loaded the module.
    #[error(
        "the host has not loaded the module {module:?}: pass it to `HostBuilder::module` or `Host::load`"
    )]
    NotLoaded {
        /// The module's name.
        module: String,
    },
    /// The host has no module with this id.
    #[error("this host has no module {0}")]
    UnknownModule(crate::ModuleId),
    /// An argument or a variable contains a zero byte, which C strings cannot hold.
    #[error("{what:?} contains a zero byte")]
    ZeroByte {
        /// The argument or variable.
        what: String,
    },
    /// Arguments, environment or standard input are too long.
    #[error(
        "arguments and environment, or standard input, take {bytes} bytes, and less than 2^31 are allowed"
    )]
    TooLong {
        /// Their length.
        bytes: usize,
    },
    /// A directory cannot be opened.
    #[error("the directory {path} cannot be opened: {source}")]
    Directory {
        /// Its path on the host.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The fuel is 0, or more than an engine can count.
    #[error("the fuel must be from 1 to 2^63 - 1, not {fuel}")]
    Fuel {
        /// The limit that was given.
        fuel: u64,
    },
    /// The process would get more channel ends than it may have.
    #[error(
        "{ends} ends of channels were given, and a process can have {most}; a process of a module that was loaded \
         before any module that imports `everwarp:gpu` can have none"
    )]
    Ends {
        /// How many ends were given.
        ends: usize,
        /// How many a process may have.
        most: usize,
    },
    /// A channel end of another host was given.
    #[error(
        "an end of a channel belongs to the host that made it, and was given to a process of another one"
    )]
    ForeignEnd,
    /// Every pid of the host is in use.
    #[error("the host has no free pids: wait for some of its processes")]
    Full,
    /// A service has refused, for this reason.
    #[error("{0}")]
    Service(String),
    /// The engine refused, or has failed.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Why a host did not carry out a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The process did not exit in time; it keeps running.
    #[error("the process has not ended after {after:?}")]
    Timeout {
        /// How long the caller waited.
        after: Duration,
    },
    /// The pid names no process: it has been waited for, or it never existed.
    #[error("{0} names no process of this host: it may have been waited for already")]
    UnknownPid(crate::Pid),
    /// The engine refused the call, such as for lack of memory. It keeps running.
    #[error("the engine refused: {reason}")]
    Engine {
        /// The reason, and what to do.
        reason: String,
    },
    /// The engine has failed.
    #[error("the engine has ended: {reason}")]
    Lost {
        /// The reason.
        reason: String,
    },
}
