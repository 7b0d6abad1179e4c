//! The compiler from WebAssembly to PTX.
mod abi;
mod body;
mod compile;
mod error;
mod image;
mod indirect;
mod instantiate;
mod layout;
mod module;
mod names;
mod types;

pub use abi::{DevInstance, DevTable, KILL_INTERVAL, PAGE, Trap};
pub use compile::{CompileOptions, Compiled, PTX_HEAD, compile, compile_part};
pub use error::{CompileError, InstantiateError};
pub use instantiate::{Addresses, Initial, InstanceLimits, Link, NoImports};
pub use layout::InstanceLayout;
pub use module::{Export, Import, ImportKind, Limits};
pub use types::{FunctionType, ValueType};
