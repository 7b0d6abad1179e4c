//! NVRTC: found and opened at run time, in three floors (raw symbols, results, [`Nvrtc`]).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use everwarp_assembler::toolkit::{self, Surroundings, Wanted};
use libloading::Library;

use crate::image::Source;
use crate::link::MAX_REGISTERS;

/// The names that the system's loader is asked for.
const NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// The variable that names the library itself.
const VARIABLE: &str = "EVERWARP_NVRTC";

/// The NVRTC libraries in a folder, newest first.
fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let mut list = toolkit::newest_first(folder, "libnvrtc.so");
    list.retain(|p| !p.to_string_lossy().contains(".alt."));
    list
}

/// Why a source could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcError {
    /// NVRTC is not installed.
    #[error(
        "NVRTC was not found (looked for {looked}): install the CUDA toolkit or the Python package \
         nvidia-cuda-nvrtc, or set EVERWARP_NVRTC to the path of libnvrtc.so"
    )]
    NotFound {
        /// Where it was looked for.
        looked: String,
    },
    /// The file named by `EVERWARP_NVRTC` cannot be used.
    #[error("EVERWARP_NVRTC names {path}, which cannot be opened: {reason}")]
    BadPath {
        /// The path given.
        path: PathBuf,
        /// The loader's word.
        reason: String,
    },
    /// A library that the caller or the search names cannot be opened.
    #[error("{path} cannot be opened as NVRTC: {reason}")]
    CannotOpen {
        /// The path, or the bare name that the loader was asked for.
        path: PathBuf,
        /// The loader's word.
        reason: String,
    },
    /// The library lacks a function.
    #[error("{path} is no usable NVRTC: it lacks {symbol}; install NVRTC 12 or later")]
    MissingSymbol {
        /// The library.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
    },
    /// A call failed.
    #[error("{call} failed: {name} ({code}); NVRTC's log:\n{log}")]
    Failed {
        /// NVRTC's function.
        call: &'static str,
        /// Its error code.
        code: i32,
        /// The code's name.
        name: String,
        /// The compilation log, if there is one.
        log: String,
    },
}

/// A compiled image and what the compiler said.
#[derive(Clone, Debug)]
pub struct Cubin {
    /// The machine code, as the driver loads it.
    pub image: Vec<u8>,
    /// The compiler's log; with `--ptxas-options=-v` it states registers, stack and spills.
    pub log: String,
}

type Program = *mut c_void;

macro_rules! raw {
    ($($field:ident: $symbol:literal fn($($arg:ty),*);)*) => {
        /// The raw floor: NVRTC's functions as they are. All return an error code.
        struct Raw { $($field: unsafe extern "C" fn($($arg),*) -> c_int,)* error_name: unsafe extern "C" fn(c_int) -> *const c_char, _library: Library }
        impl Raw {
            fn load(library: Library, path: &Path) -> Result<Self, NvrtcError> {
                let missing = |symbol| NvrtcError::MissingSymbol { path: path.to_owned(), symbol };
                // SAFETY: the names and signatures are those of NVRTC's public header, the same since 11.2.
                unsafe {
                    Ok(Self {
                        $($field: *library.get::<unsafe extern "C" fn($($arg),*) -> c_int>($symbol).map_err(|_| missing(name($symbol)))?,)*
                        error_name: *library.get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"nvrtcGetErrorString\0").map_err(|_| missing("nvrtcGetErrorString"))?,
                        _library: library,
                    })
                }
            }
        }
    };
}
raw! {
    version: b"nvrtcVersion\0" fn(*mut c_int, *mut c_int);
    create: b"nvrtcCreateProgram\0" fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    destroy: b"nvrtcDestroyProgram\0" fn(*mut Program);
    compile: b"nvrtcCompileProgram\0" fn(Program, c_int, *const *const c_char);
    log_size: b"nvrtcGetProgramLogSize\0" fn(Program, *mut usize);
    log: b"nvrtcGetProgramLog\0" fn(Program, *mut c_char);
    cubin_size: b"nvrtcGetCUBINSize\0" fn(Program, *mut usize);
    cubin: b"nvrtcGetCUBIN\0" fn(Program, *mut c_char);
}

/// A symbol for a message: as it is looked up, without the zero byte at its end.
fn name(symbol: &'static [u8]) -> &'static str {
    let text = symbol.strip_suffix(&[0]).unwrap_or(symbol);
    std::str::from_utf8(text).unwrap_or("a symbol that is not text")
}

/// An opened NVRTC.
pub struct Nvrtc {
    raw: Raw,
    path: PathBuf,
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nvrtc")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A search for a usable library, with the places and libraries it has seen.
#[derive(Default)]
struct Search {
    looked: Vec<String>,
    /// The first library that was there but is of no use: says more than that none was found.
    unusable: Option<NvrtcError>,
}

impl Search {
    fn try_open(&mut self, path: &Path, is_file: bool) -> Option<Nvrtc> {
        match Nvrtc::open_at(path) {
            Ok(nvrtc) => return Some(nvrtc),
            // A bare name that the loader does not know is the usual case.
            Err(NvrtcError::CannotOpen { .. }) if !is_file => {}
            Err(e) => drop(self.unusable.get_or_insert(e)),
        }
        None
    }
    fn names(&mut self) -> Option<Nvrtc> {
        self.looked.extend(NAMES.map(str::to_owned));
        let mut names = NAMES.iter();
        names.find_map(|name| self.try_open(Path::new(name), false))
    }
    fn folders(&mut self, folders: Vec<PathBuf>) -> Option<Nvrtc> {
        folders.into_iter().find_map(|folder| {
            self.looked.push(folder.display().to_string());
            let files = in_folder(&folder);
            files.iter().find_map(|file| self.try_open(file, true))
        })
    }
    fn failed(self) -> NvrtcError {
        self.unusable.unwrap_or_else(|| NvrtcError::NotFound {
            looked: self.looked.join(", "),
        })
    }
}

/// A file of a CUDA toolkit's library folders, in the order in which NVRTC is looked for.
pub(crate) fn toolkit_file(name: &str) -> Option<PathBuf> {
    let here = Surroundings::here();
    let named = here.named(Wanted::Library).into_iter();
    let mut folders = named.chain(here.installed(Wanted::Library));
    folders.find_map(|f| Some(f.join(name)).filter(|f| f.is_file()))
}

impl Nvrtc {
    /// Opens the library that `EVERWARP_NVRTC` names, or the first usable one of: the toolkits that
    /// `CUDA_HOME` and `CUDA_PATH` name, the Python package in `VIRTUAL_ENV`, what the system's loader
    /// finds, the toolkits below `/usr/local` and `/opt`, and the Python package where `python3` has it.
    ///
    /// # Errors
    /// There is none, or `EVERWARP_NVRTC` names something else.
    pub fn open() -> Result<Self, NvrtcError> {
        if let Some(path) = toolkit::setting(std::env::var_os(VARIABLE)) {
            return Self::open_named(&path);
        }
        let mut search = Search::default();
        let here = Surroundings::here();
        let mut found = search.folders(here.named(Wanted::Library));
        found = found.or_else(|| search.names());
        found = found.or_else(|| search.folders(here.installed(Wanted::Library)));
        found = found.or_else(|| search.folders(toolkit::python(Wanted::Library)));
        found.ok_or_else(|| search.failed())
    }

    /// Opens the library that `EVERWARP_NVRTC` names; an error names the variable.
    fn open_named(path: &Path) -> Result<Self, NvrtcError> {
        Self::open_at(path).map_err(|e| match e {
            NvrtcError::CannotOpen { path, reason } => NvrtcError::BadPath { path, reason },
            other => other,
        })
    }

    /// Opens the library at a path.
    ///
    /// # Errors
    /// It cannot be opened, or is no NVRTC.
    pub fn open_at(path: &Path) -> Result<Self, NvrtcError> {
        // NVRTC opens its builtins by their bare name. Builtins that are open already are found in any folder.
        if let Some(folder) = path.parent() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name.starts_with("libnvrtc-builtins.so.") {
                    // SAFETY: a data library of NVIDIA's without initialisers of note.
                    if let Ok(library) = unsafe { Library::new(entry.path()) } {
                        std::mem::forget(library);
                    }
                }
            }
        }
        // SAFETY: loading NVRTC runs its initialisers, which have no requirements.
        let library = unsafe { Library::new(path) }.map_err(|e| NvrtcError::CannotOpen {
            path: path.to_owned(),
            reason: e.to_string(),
        })?;
        Ok(Self {
            raw: Raw::load(library, path)?,
            path: path.to_owned(),
        })
    }

    /// The library's path, or its bare name if the loader found it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version.
    pub fn version(&self) -> Result<(u32, u32), NvrtcError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: valid out-pointers.
        let code = unsafe { (self.raw.version)(&raw mut major, &raw mut minor) };
        self.check("nvrtcVersion", code, None)?;
        Ok((major as u32, minor as u32))
    }

    /// Compiles a unit with its headers (include name, text) for an architecture, 90 meaning `sm_90`.
    pub fn compile(
        &self,
        unit: &str,
        headers: &[(String, String)],
        arch: u32,
    ) -> Result<Cubin, NvrtcError> {
        self.compile_with(unit, headers, &options(arch, false))
    }

    /// Compiles a unit, relocatable or not as it says.
    pub fn compile_source(&self, source: &Source, arch: u32) -> Result<Cubin, NvrtcError> {
        let options = options(arch, source.relocatable);
        self.compile_with(&source.unit, &source.headers, &options)
    }

    fn compile_with(
        &self,
        unit: &str,
        headers: &[(String, String)],
        options: &[String],
    ) -> Result<Cubin, NvrtcError> {
        let c = |s: &str| CString::new(s.replace('\0', " ")).expect("NULs were replaced");
        let unit = c(unit);
        let (names, texts): (Vec<_>, Vec<_>) = headers.iter().map(|(n, t)| (c(n), c(t))).unzip();
        let names: Vec<_> = names.iter().map(|n| n.as_ptr()).collect();
        let texts: Vec<_> = texts.iter().map(|t| t.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        let created = {
            let (texts, names) = (texts.as_ptr(), names.as_ptr());
            // SAFETY: all pointers are to terminated strings that outlive the call.
            unsafe {
                (self.raw.create)(
                    &raw mut program,
                    unit.as_ptr(),
                    c"everwarp.cu".as_ptr(),
                    headers.len() as c_int,
                    texts,
                    names,
                )
            }
        };
        self.check("nvrtcCreateProgram", created, None)?;
        let result = self.compile_program(program, options);
        // SAFETY: created above and destroyed once.
        unsafe { (self.raw.destroy)(&raw mut program) };
        result
    }

    fn compile_program(&self, program: Program, options: &[String]) -> Result<Cubin, NvrtcError> {
        let options: Vec<_> = options
            .iter()
            .map(|o| CString::new(o.as_str()).expect("options hold no NUL"))
            .collect();
        let options: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: `program` is live; the options outlive the call.
        let compiled =
            unsafe { (self.raw.compile)(program, options.len() as c_int, options.as_ptr()) };
        let mut size = 0;
        // SAFETY: `program` is live; buffers have the size that NVRTC states.
        let log = unsafe {
            (self.raw.log_size)(program, &raw mut size);
            let mut log = vec![0u8; size.max(1)];
            (self.raw.log)(program, log.as_mut_ptr().cast());
            String::from_utf8_lossy(&log)
                .trim_end_matches('\0')
                .trim_end()
                .to_owned()
        };
        self.check("nvrtcCompileProgram", compiled, Some(&log))?;
        // SAFETY: as above.
        let image = unsafe {
            self.check(
                "nvrtcGetCUBINSize",
                (self.raw.cubin_size)(program, &raw mut size),
                Some(&log),
            )?;
            let mut image = vec![0u8; size];
            self.check(
                "nvrtcGetCUBIN",
                (self.raw.cubin)(program, image.as_mut_ptr().cast()),
                Some(&log),
            )?;
            image
        };
        Ok(Cubin { image, log })
    }

    fn check(&self, call: &'static str, code: c_int, log: Option<&str>) -> Result<(), NvrtcError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC returns a static, terminated string for any code.
        let name = unsafe { CStr::from_ptr((self.raw.error_name)(code)) }
            .to_string_lossy()
            .into_owned();
        Err(NvrtcError::Failed {
            call,
            code,
            name,
            log: log.unwrap_or("(none)").to_owned(),
        })
    }
}

/// The options of every compilation; they are part of the cache's key.
pub fn options(arch: u32, relocatable: bool) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture=sm_{arch}"),
        "--std=c++20".to_owned(),
        "-lineinfo".to_owned(),
        "--ptxas-options=-v".to_owned(),
    ];
    if relocatable {
        options.push("--relocatable-device-code=true".to_owned());
        // The kernel has launch bounds. The functions that compiled modules call have none, and must not need more
        // registers than the kernel has. With this limit the kernel itself does not spill.
        options.push(format!("--maxrregcount={}", MAX_REGISTERS / 4 * 3));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_variable_only_if_it_named_the_library() {
        let path = Path::new("/nonexistent/libnvrtc.so.13");
        let named = Nvrtc::open_named(path)
            .expect_err("it is not there")
            .to_string();
        assert!(
            named.starts_with("EVERWARP_NVRTC names /nonexistent/"),
            "{named}"
        );
        let given = Nvrtc::open_at(path)
            .expect_err("it is not there")
            .to_string();
        assert!(
            given.starts_with("/nonexistent/libnvrtc.so.13 cannot be opened"),
            "{given}"
        );
        assert!(!given.contains("EVERWARP_NVRTC"), "{given}");
    }

    #[test]
    fn the_alternative_library_is_not_taken() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in [
            "libnvrtc.alt.so.13",
            "libnvrtc.so.13",
            "libnvrtc-builtins.so.13.0",
        ] {
            std::fs::write(folder.path().join(name), b"").expect("it is writable");
        }
        let expected = [folder.path().join("libnvrtc.so.13")];
        assert_eq!(in_folder(folder.path()), expected);
    }

    #[test]
    fn missing_symbol_is_named_as_nvrtc_names_it() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux shows what is mapped");
        let library = maps
            .lines()
            .filter_map(|line| line.split_whitespace().last())
            .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
            .expect("this program is linked with a C library");
        let error = Nvrtc::open_at(Path::new(library)).expect_err("a C library is no NVRTC");
        let text = error.to_string();
        assert!(text.contains("it lacks nvrtcVersion;"), "{text}");
    }

    #[test]
    fn failed_search_lists_its_places_or_the_unusable_library() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut search = Search::default();
        assert!(search.folders(vec![folder.path().to_owned()]).is_none());
        let text = search.failed().to_string();
        assert!(
            text.contains(&folder.path().display().to_string()),
            "{text}"
        );
        assert!(text.contains("nvidia-cuda-nvrtc"), "{text}");

        std::fs::write(folder.path().join("libnvrtc.so.13"), b"no library").expect("writable");
        let mut search = Search::default();
        assert!(search.folders(vec![folder.path().to_owned()]).is_none());
        let text = search.failed().to_string();
        assert!(text.contains("libnvrtc.so.13 cannot be opened"), "{text}");
    }
}
