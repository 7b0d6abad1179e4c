//! What the example guests need of WASI preview 1, without `std`.
//!
//! An ordinary program is built for `wasm32-wasip1` and uses `std`; nothing in everwarp needs this crate. It
//! is here because the guests are meant to run by the hundred thousand: without `std`, a module takes a few
//! kilobytes of code and one or two pages of memory. It also shows how little a guest needs from a host.
//!
//! A program is `#![no_std]`, `#![no_main]`, and names its main function with [`start!`]. A panic prints its
//! message and its place to standard error and traps.

#![no_std]

extern crate alloc;

mod errno;
mod file;
mod heap;
mod input;
mod print;
mod process;
mod raw;

pub use errno::Errno;
pub use file::{Entry, File, Kind, open, read_dir};
pub use input::Input;
#[doc(hidden)]
pub use print::print as __print;
pub use print::{Stream, line, write_all};
pub use process::{args, environ, exit, monotonic, random};

/// Makes a function without parameters and results the entry of the module.
#[macro_export]
macro_rules! start {
    ($main:path) => {
        /// The entry that WASI gives a command.
        // SAFETY: WASI reserves the name for this, and a module has one entry.
        #[unsafe(no_mangle)]
        pub extern "C" fn _start() {
            $main();
        }
    };
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    eprintln!("{info}");
    core::arch::wasm32::unreachable()
}
