//! Why a module cannot be compiled or instantiated.

use everwarp_contract::TrapKind;

/// Why a module was not compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The bytes are not a valid module.
    #[error("the module is not valid at offset {offset:#x}: {message}")]
    Invalid {
        /// Where, in the module's bytes.
        offset: usize,
        /// What the validator says.
        message: String,
    },
    /// The module is valid, but uses a feature that this compiler does not support.
    #[error("at offset {offset:#x} the module uses {what}, which is not supported")]
    Unsupported {
        /// Where, in the module's bytes.
        offset: usize,
        /// What it uses.
        what: String,
    },
    /// The module is larger, in some respect, than this compiler lets a module be.
    #[error(
        "at offset {offset:#x} the module goes beyond a limit of the compiler for GPUs, {most} {what}: use the CPU engine \
         for it"
    )]
    Limit {
        /// Where, in the module's bytes.
        offset: usize,
        /// What is limited.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// An import was to be ignored, but its caller waits for results.
    #[error(
        "the import {module}.{name} cannot be ignored: it has results, so something must answer it"
    )]
    IgnoredImportHasResults {
        /// The module that it is imported from.
        module: String,
        /// The imported name.
        name: String,
    },
    /// An import may suspend its caller, but the module is not compiled for that.
    #[error(
        "the import {module}.{name} may suspend its caller: compile the module with `suspendable`"
    )]
    NotSuspendable {
        /// The module that it is imported from.
        module: String,
        /// The imported name.
        name: String,
    },
}

impl From<wasmparser::Error> for CompileError {
    fn from(e: wasmparser::Error) -> Self {
        Self::Invalid {
            offset: e.offset(),
            message: e.message().to_owned(),
        }
    }
}

/// Why an instance was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstantiateError {
    /// The host provides nothing under an import's name.
    #[error("unknown import {module}.{name}: provide it, or do not run this module")]
    UnknownImport {
        /// The module that it is imported from.
        module: String,
        /// The imported name.
        name: String,
    },
    /// The host provides an item of another type.
    #[error("incompatible import type of {module}.{name}: {reason}")]
    IncompatibleImport {
        /// The module that it is imported from.
        module: String,
        /// The imported name.
        name: String,
        /// What differs.
        reason: String,
    },
    /// The module needs more than the host allows an instance.
    #[error("the module needs {needed} {what} at once, the host allows {allowed}")]
    BeyondLimit {
        /// Of what.
        what: &'static str,
        /// How much the module starts with.
        needed: u64,
        /// What the host's limits allow.
        allowed: u64,
    },
    /// An active segment does not fit.
    #[error("{trap} when segment {segment} was copied")]
    Trap {
        /// The trap.
        trap: TrapKind,
        /// The segment's number in its section.
        segment: usize,
    },
}
