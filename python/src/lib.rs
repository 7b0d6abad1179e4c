//! `everwarp._native`: what the Python package `everwarp` is made of. The names that users call are in `everwarp/*.py`,
//! with their documentation; here is what needs Rust.

mod actors;
mod asks;
mod capsule;
mod channel;
mod engine;
mod errors;
mod exit;
mod groups;
mod memory;
mod module;
mod owner;
mod processes;
mod program;
mod request;
mod ring;
mod services;
mod streams;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::actors::ActorSystem;
    #[pymodule_export]
    use crate::asks::Asks;
    #[pymodule_export]
    use crate::channel::{Receiver, Sender};
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::exit::{Exit, Exits};
    #[pymodule_export]
    use crate::groups::{ActorGroup, supervise};
    #[pymodule_export]
    use crate::memory::{Buffer, View};
    #[pymodule_export]
    use crate::module::Module;
    #[pymodule_export]
    use crate::processes::Processes;
    #[pymodule_export]
    use crate::program::{ProgramResult, bfs, programs, run_program};
    #[pymodule_export]
    use crate::ring::RingKernel;
    #[pymodule_export]
    use crate::services::{
        ActorMonitor, ActorTimer, DeadLetters, dead_letters, link, lookup, monitor, register,
        timer, unregister,
    };
    #[pymodule_export]
    use crate::streams::{ActorInlet, ActorOutlet, ActorTopic, inlet, outlet, topic};

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    /// The version, which is that of every crate.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
