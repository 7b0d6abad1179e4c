//! Showing a part of this program to others.

use std::sync::Weak;

use crate::registry::{Entry, Source, add};

/// Shows a source until it is dropped.
#[derive(Debug)]
#[must_use = "the source is not shown any more when this is dropped"]
pub struct Registration {
    // The fields are dropped in this order: the socket goes when nothing is left to be shown.
    _entry: Entry,
    #[cfg(unix)]
    _socket: Option<crate::control::Socket>,
}

/// Shows a source from now on. The first one opens the control socket, unless the program does not want one or it cannot
/// be: an engine runs all the same.
pub fn register(source: Weak<dyn Source>) -> Registration {
    Registration {
        _entry: add(source),
        #[cfg(unix)]
        _socket: crate::control::socket().ok(),
    }
}
