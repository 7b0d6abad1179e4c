//! What goes into a compilation and what comes out.

use std::fmt;

/// One translation unit, complete: NVRTC reads no file for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unit<'a> {
    /// The file name that diagnostics and line information show.
    pub name: &'a str,
    /// The device source.
    pub source: &'a str,
    /// The headers it may include: (name as in the `#include`, text).
    pub headers: &'a [(&'a str, &'a str)],
    /// Further compiler options. They come after those of [`Unit::all_options`].
    pub options: &'a [&'a str],
}

impl Unit<'_> {
    /// Every option that a compilation passes, in order: the fixed ones, then [`Unit::options`].
    ///
    /// `-v` makes the assembler report what each kernel occupies; [`crate::usage()`] reads it.
    /// `--device-as-default-execution-space` is not among them: with it a forgotten `__device__` would
    /// quietly turn a global of the source into device memory instead of being an error.
    pub fn all_options(&self, arch: Arch) -> Vec<String> {
        let fixed = [
            format!("--gpu-architecture={arch}"),
            "--std=c++20".to_owned(),
            "-lineinfo".to_owned(),
            "--ptxas-options=-v".to_owned(),
        ];
        fixed
            .into_iter()
            .chain(self.options.iter().map(|&o| o.to_owned()))
            .collect()
    }
}

/// A real GPU architecture: 90 stands for `sm_90`. Variants with a letter (`sm_90a`) are not covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch(pub u32);

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

/// A compiled unit.
#[derive(Clone, PartialEq, Eq)]
pub struct Cubin {
    /// The machine code, an ELF file as the driver loads it.
    pub image: Vec<u8>,
    /// What the compiler and the assembler said: warnings, and what each kernel occupies.
    pub log: String,
}

impl fmt::Debug for Cubin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cubin")
            .field("image_bytes", &self.image.len())
            .field("log", &self.log)
            .finish()
    }
}

/// A part of a [`Unit`], for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// [`Unit::name`].
    Name,
    /// [`Unit::source`].
    Source,
    /// The name of the header with this index.
    HeaderName(usize),
    /// The text of the header with this index.
    HeaderText(usize),
    /// The option with this index in [`Unit::all_options`].
    Option(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => write!(f, "name"),
            Self::Source => write!(f, "source"),
            Self::HeaderName(i) => write!(f, "name of header {i}"),
            Self::HeaderText(i) => write!(f, "text of header {i}"),
            Self::Option(i) => write!(f, "option {i}"),
        }
    }
}
