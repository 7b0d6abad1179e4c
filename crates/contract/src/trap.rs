//! The traps with which compiled code ends a process: the numbers that device code writes, and their texts.

macro_rules! traps {
    ($($(#[$meta:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// The reason why the code of a process ended it. Numbers are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum TrapKind { $($(#[$meta])* $name = $code),* }

        impl TrapKind {
            /// The trap with this number, as an instance's header holds it.
            pub const fn from_code(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
            /// A short text; the one of the WebAssembly specification where it has one.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

traps! {
    /// An `unreachable` instruction.
    Unreachable = 1, "unreachable";
    /// An integer was divided by zero.
    DivideByZero = 2, "integer divide by zero";
    /// A quotient or a converted number does not fit.
    IntegerOverflow = 3, "integer overflow";
    /// A NaN was converted to an integer.
    InvalidConversion = 4, "invalid conversion to integer";
    /// An access reaches beyond the memory's length, or beyond a data segment.
    MemoryOutOfBounds = 5, "out of bounds memory access";
    /// An access reaches beyond a table's length, or beyond an element segment.
    TableOutOfBounds = 6, "out of bounds table access";
    /// An indirect call through an index beyond the table.
    UndefinedElement = 7, "undefined element";
    /// An indirect call through a null reference.
    UninitializedElement = 8, "uninitialized element";
    /// An indirect call of a function of another type.
    IndirectCallTypeMismatch = 9, "indirect call type mismatch";
    /// Calls nest deeper than the instance's header allows.
    StackExhausted = 10, "call stack exhausted";
    /// All fuel is spent.
    OutOfFuel = 11, "out of fuel";
    /// The kill word was set.
    Killed = 12, "killed";
    /// A function was called that is not linked, or a wait began that could never end.
    UnlinkedImport = 13, "unlinked import";
    /// The address of an atomic access is not a multiple of the access's size.
    UnalignedAtomic = 14, "unaligned atomic";
    /// A wait in a memory that is not shared.
    ExpectedSharedMemory = 15, "expected shared memory";
    /// A host call could not be carried out at all, such as one by a module that exports no memory.
    HostCall = 16, "host call failed";
    /// A function was called that the image of a GPU did not have, and that could not be compiled or assembled.
    NotCompiled = 17, "function could not be compiled";
}

impl core::fmt::Display for TrapKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}
