//! What modules import: WASI preview 1, `everwarp:gpu`, `everwarp:net`, and what modules with threads use.

mod arguments;
mod descriptors;
mod files;
mod gpu;
mod net;
mod poll;
mod sockets;
mod threads;
mod waiting;
mod wasi;

use std::future::Future;

use wasmtime::{Engine, Linker, Result};

use crate::guest::Guest;

/// An import that is being carried out.
type HostCall<'a, T> = Box<dyn Future<Output = Result<T>> + Send + 'a>;

/// A linker with everything that a module may import, with or without threads.
pub(crate) fn linker(engine: &Engine, with_threads: bool) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    wasi::add(&mut linker)?;
    gpu::add(&mut linker)?;
    net::add(&mut linker)?;
    if with_threads {
        // Calls that may wait for long replace WASI's own.
        linker.allow_shadowing(true);
        waiting::add(&mut linker)?;
        threads::add(&mut linker)?;
    }
    Ok(linker)
}
