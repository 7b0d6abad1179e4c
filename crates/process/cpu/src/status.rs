//! The exit status of a process, from the error with which wasmtime ends its code.

use everwarp_process::{ExitStatus, Trap, TrapKind};
use wasmtime::WasmBacktrace;

use crate::facts::ModuleFacts;

/// `proc_exit`, on its way out of the guest.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub(crate) struct ProcExit(pub(crate) u32);

fn kind(trap: wasmtime::Trap) -> Option<TrapKind> {
    use wasmtime::Trap as T;
    Some(match trap {
        T::UnreachableCodeReached => TrapKind::Unreachable,
        T::IntegerDivisionByZero => TrapKind::DivideByZero,
        T::IntegerOverflow => TrapKind::IntegerOverflow,
        T::BadConversionToInteger => TrapKind::InvalidConversion,
        T::MemoryOutOfBounds => TrapKind::MemoryOutOfBounds,
        T::TableOutOfBounds => TrapKind::TableOutOfBounds,
        T::IndirectCallToNull => TrapKind::UninitializedElement,
        T::BadSignature => TrapKind::IndirectCallTypeMismatch,
        T::HeapMisaligned => TrapKind::UnalignedAtomic,
        T::AtomicWaitNonSharedMemory => TrapKind::ExpectedSharedMemory,
        T::StackOverflow => TrapKind::StackExhausted,
        _ => return None,
    })
}

/// The status of a process whose code has ended with this error. `started` says whether its instance was made.
pub(crate) fn exit_status(
    error: &wasmtime::Error,
    started: bool,
    facts: &ModuleFacts,
) -> ExitStatus {
    if let Some(ProcExit(code)) = error.downcast_ref() {
        return ExitStatus::Exited(*code);
    }
    let frames = error.downcast_ref().map(WasmBacktrace::frames);
    let function = frames.and_then(|frames| frames.first()).map(|frame| {
        let number = || format!("function {}", facts.original_number(frame.func_index()));
        frame.func_name().map_or_else(number, str::to_owned)
    });
    let trap = error.downcast_ref::<wasmtime::Trap>().copied();
    let (kind, message) = match (trap, trap.and_then(kind)) {
        (Some(wasmtime::Trap::OutOfFuel), _) => return ExitStatus::OutOfFuel,
        (Some(wasmtime::Trap::Interrupt), _) => return ExitStatus::Killed,
        (_, Some(kind)) => (kind, String::new()),
        // Imports and types were checked when the module was loaded, so what fails before the first instruction is the
        // allocation of its memory.
        (None, _) if !started && function.is_none() => {
            return ExitStatus::OutOfMemory {
                needs: facts.start_bytes,
            };
        }
        _ => (TrapKind::HostCall, error.root_cause().to_string()),
    };
    ExitStatus::Trapped(Trap {
        kind,
        function,
        message,
    })
}

#[cfg(test)]
mod tests {
    use everwarp_process::Module;

    use super::*;

    fn facts(text: &str) -> ModuleFacts {
        let bytes = wat::parse_str(text).expect("the text is right");
        let module = Module::new("m", bytes).expect("the module is right");
        ModuleFacts::read(&module).expect("the module is right")
    }

    #[test]
    fn memory_that_is_not_available_at_the_start_is_named_with_its_size() {
        let facts = facts(r#"(module (memory 3) (table 10 funcref) (func (export "_start")))"#);
        let refused = || wasmtime::Error::msg("mmap failed");
        let needs = (3 << 16) + 80;
        let status = exit_status(&refused(), false, &facts);
        assert_eq!(status, ExitStatus::OutOfMemory { needs });
        assert!(status.to_string().contains("196688 bytes"), "{status}");
        let later = exit_status(&refused(), true, &facts).to_string();
        assert_eq!(later, "trap: host call failed: mmap failed");
    }
}
