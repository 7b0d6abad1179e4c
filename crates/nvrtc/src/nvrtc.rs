//! The safe floor.

use std::ffi::{CString, c_int};
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::error::NvrtcError;
use crate::find;
use crate::raw::{self, Missing, Raw};
use crate::result::{self, Call, CallError, Program};
use crate::unit::{Arch, Cubin, Part, Unit};

/// An opened NVRTC. It can be shared among threads, and opening it twice costs little.
///
/// The library stays loaded until the process ends: NVIDIA does not promise that it can be unloaded while
/// threads that have called it live on.
pub struct Nvrtc {
    raw: Raw,
    version: (u32, u32),
    path: PathBuf,
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc")
            .field("version", &self.version)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Nvrtc {
    /// Opens the library that `EVERWARP_NVRTC` names. If it is not set, the first usable one of: the loader's
    /// (`libnvrtc.so`, `.13`, `.12`), `/usr/local/cuda*`, `CUDA_HOME`, `CUDA_PATH`, and the Python packages of
    /// `VIRTUAL_ENV`.
    ///
    /// # Errors
    /// [`NvrtcError::Named`] if the variable names something unusable; [`NvrtcError::NotFound`] with every
    /// place and its fault otherwise.
    pub fn open() -> Result<Self, NvrtcError> {
        find::open(&find::Surroundings::of_process())
    }

    /// Opens the library at a path, and the builtins library that belongs to it.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn open_at(path: &Path) -> Result<Self, NvrtcError> {
        // An absolute path, as the loader would search its own folders for a bare name.
        let path = std::path::absolute(path).map_err(|_| NvrtcError::NoFile {
            path: path.to_owned(),
        })?;
        if !path.is_file() {
            return Err(NvrtcError::NoFile { path });
        }
        Self::load(path)
    }

    /// Opens a path, or a name for the loader to resolve.
    pub(crate) fn load(path: PathBuf) -> Result<Self, NvrtcError> {
        // SAFETY: NVRTC's initialisers have no requirements. A foreign library under its name is the
        // installer's choice, as with every dynamic library.
        let library = match unsafe { Library::new(&path) } {
            Ok(library) => library,
            Err(source) => return Err(NvrtcError::Load { path, source }),
        };
        // SAFETY: the names are NVRTC's own; the library is leaked as soon as they are all there.
        let raw = match unsafe { Raw::load(&library) } {
            Ok(raw) => raw,
            Err(Missing(symbol, source)) => {
                return Err(NvrtcError::Symbol {
                    path,
                    symbol,
                    source,
                });
            }
        };
        std::mem::forget(library);
        let version = result::version(&raw)?;
        let path = raw::file_of(raw.version as *const _).unwrap_or(path);
        load_builtins(&path, version)?;
        Ok(Self { raw, version, path })
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The library's file. Where the loader cannot tell (Windows), the name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The architectures it can compile for, ascending; 90 stands for `sm_90`.
    ///
    /// # Errors
    /// [`NvrtcError::Call`], which would be a defect of NVRTC.
    pub fn supported_archs(&self) -> Result<Vec<u32>, NvrtcError> {
        let mut archs = result::supported_archs(&self.raw)?;
        archs.sort_unstable();
        Ok(archs)
    }

    /// Compiles a unit to machine code. Takes from a tenth of a second to seconds.
    ///
    /// # Errors
    /// [`NvrtcError::Compile`] with the log if the unit is at fault; [`NvrtcError::Architecture`] if this NVRTC
    /// does not know the GPU.
    pub fn compile(&self, unit: &Unit<'_>, arch: Arch) -> Result<Cubin, NvrtcError> {
        let supported = self.supported_archs()?;
        if !supported.contains(&arch.0) {
            return Err(NvrtcError::Architecture {
                arch,
                version: self.version,
                supported,
            });
        }
        let c = |text: &str, part| {
            CString::new(text).map_err(|_| NvrtcError::Nul {
                unit: unit.name.to_owned(),
                part,
            })
        };
        let (name, source) = (c(unit.name, Part::Name)?, c(unit.source, Part::Source)?);
        let header = |(i, &(name, text)): (usize, &(&str, &str))| {
            Ok((c(name, Part::HeaderName(i))?, c(text, Part::HeaderText(i))?))
        };
        let headers = unit
            .headers
            .iter()
            .enumerate()
            .map(header)
            .collect::<Result<Vec<_>, NvrtcError>>()?;
        let option = |(i, option): (usize, &String)| c(option, Part::Option(i));
        let options = unit.all_options(arch);
        let options = options
            .iter()
            .enumerate()
            .map(option)
            .collect::<Result<Vec<_>, _>>()?;
        let count = headers.len().max(options.len());
        if c_int::try_from(count).is_err() {
            return Err(NvrtcError::TooMany {
                unit: unit.name.to_owned(),
                count,
            });
        }

        let program = Program::create(&self.raw, &name, &source, &headers)?;
        let compiled = program.compile(&options);
        let log = program.log()?;
        match compiled {
            Ok(()) => Ok(Cubin {
                image: program.cubin()?,
                log,
            }),
            Err(CallError {
                call: Call::CompileProgram,
                code,
            }) => Err(NvrtcError::Compile {
                unit: unit.name.to_owned(),
                arch,
                code,
                log,
            }),
            Err(other) => Err(other.into()),
        }
    }
}

/// Loads `libnvrtc-builtins`, which NVRTC opens by its bare name when it first compiles.
///
/// The Python package's NVRTC has no run path, so that this fails for it. Loaded here by path, the library
/// answers to its bare name from then on.
fn load_builtins(nvrtc: &Path, version: (u32, u32)) -> Result<(), NvrtcError> {
    if cfg!(windows) {
        return Ok(()); // Named and searched otherwise; not supported by more than this.
    }
    let name = if cfg!(target_os = "macos") {
        "libnvrtc-builtins.dylib".to_owned()
    } else {
        format!("libnvrtc-builtins.so.{}.{}", version.0, version.1)
    };
    let beside = nvrtc.with_file_name(&name);
    let target = if beside.is_file() {
        beside.into_os_string()
    } else {
        name.clone().into()
    };
    // SAFETY: a library of tables, whose initialisers have no requirements.
    match unsafe { Library::new(target) } {
        Ok(library) => std::mem::forget(library),
        Err(source) => {
            return Err(NvrtcError::Builtins {
                path: nvrtc.to_owned(),
                name,
                source,
            });
        }
    }
    Ok(())
}
