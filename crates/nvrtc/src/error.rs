//! What can go wrong between looking for NVRTC and holding a cubin.

use std::fmt;
use std::path::PathBuf;

use crate::result::{CallError, Code};
use crate::unit::{Arch, Part};

/// Why there is no NVRTC, or no cubin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcError {
    /// No place has a usable NVRTC.
    #[error(
        "NVRTC was not found. Install it with `pip install nvidia-cuda-nvrtc` or with the CUDA toolkit, or set \
         EVERWARP_NVRTC to the path of libnvrtc.so. Looked at:{0}"
    )]
    NotFound(Places),
    /// `EVERWARP_NVRTC` is set, and what it names is of no use. Nothing else was tried.
    #[error("EVERWARP_NVRTC is set to `{}`, which cannot be used; correct it or unset it", path.display())]
    Named {
        /// The variable's value.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<NvrtcError>,
    },
    /// There is no file at the path.
    #[error("there is no file at `{}`", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// The dynamic loader refused the library.
    #[error("the dynamic loader cannot open `{}`", path.display())]
    Load {
        /// The library: a path or a name that the loader resolves.
        path: PathBuf,
        /// The loader's word.
        source: libloading::Error,
    },
    /// The library is no NVRTC, or one older than CUDA 11.2.
    #[error("`{}` lacks {symbol}: it is no NVRTC, or too old (CUDA 12 or later is needed)", path.display())]
    Symbol {
        /// The library.
        path: PathBuf,
        /// The function that is missing.
        symbol: &'static str,
        /// The loader's word.
        source: libloading::Error,
    },
    /// NVRTC's second library is missing. Without it, NVRTC opens and then fails at each compilation.
    #[error("`{}` needs {name}, which is neither beside it nor known to the loader; reinstall NVRTC", path.display())]
    Builtins {
        /// NVRTC.
        path: PathBuf,
        /// The file name of the missing library.
        name: String,
        /// The loader's word.
        source: libloading::Error,
    },
    /// This NVRTC does not know the architecture.
    #[error(
        "NVRTC {}.{} cannot compile for {arch}, only for {supported:?}; install a newer NVRTC for a newer GPU",
        version.0, version.1
    )]
    Architecture {
        /// What was asked for.
        arch: Arch,
        /// NVRTC's version.
        version: (u32, u32),
        /// What it knows.
        supported: Vec<u32>,
    },
    /// A NUL byte in the unit; the interface takes C strings.
    #[error("the {part} of unit `{unit}` contains a NUL byte")]
    Nul {
        /// The unit's name.
        unit: String,
        /// Where the byte is.
        part: Part,
    },
    /// More headers or options than the interface can count.
    #[error("unit `{unit}` has {count} headers or options, more than NVRTC can count")]
    TooMany {
        /// The unit's name.
        unit: String,
        /// How many.
        count: usize,
    },
    /// The unit is at fault: the compiler or the assembler rejected it.
    #[error("`{unit}` does not compile for {arch} ({code}):\n{log}")]
    Compile {
        /// The unit's name.
        unit: String,
        /// The architecture.
        arch: Arch,
        /// NVRTC's code.
        code: Code,
        /// NVRTC's log.
        log: String,
    },
    /// NVRTC is at fault: a call that should succeed did not.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The places that were searched, in order.
#[derive(Debug, Default)]
pub struct Places(pub Vec<Place>);

/// One place, and why it gave no NVRTC.
#[derive(Debug)]
pub struct Place {
    /// A library name, a file, or a folder pattern.
    pub name: String,
    /// Why a library found there is unusable; `None` if there was none.
    pub fault: Option<Box<NvrtcError>>,
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in &self.0 {
            write!(f, "\n  {}: ", place.name)?;
            let Some(fault) = &place.fault else {
                write!(f, "nothing there")?;
                continue;
            };
            write!(f, "{fault}")?;
            let mut cause = std::error::Error::source(fault);
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        Ok(())
    }
}
