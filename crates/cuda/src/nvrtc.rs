//! NVRTC: found and opened at run time, in three floors (raw symbols, results, [`Nvrtc`]).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

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
                        $($field: *library.get::<unsafe extern "C" fn($($arg),*) -> c_int>($symbol).map_err(|_| missing(stringify!($field)))?,)*
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

/// Libraries in a folder whose name starts as NVRTC's does.
fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            name.starts_with("libnvrtc.so") && !name.contains("alt")
        })
        .collect();
    found.sort();
    found.reverse();
    found
}

/// Where NVRTC is looked for when nothing names it, in this order.
fn candidates() -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]
        .map(PathBuf::from)
        .to_vec();
    let mut roots: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"]
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .collect();
    roots.extend(
        [
            "/usr/local/cuda",
            "/usr/local/cuda-13.0",
            "/usr/local/cuda-12.9",
            "/opt/cuda",
        ]
        .map(PathBuf::from),
    );
    for root in roots {
        for folder in ["lib64", "lib", "targets/x86_64-linux/lib"] {
            list.extend(in_folder(&root.join(folder)));
        }
    }
    if let Some(venv) = std::env::var_os("VIRTUAL_ENV") {
        for python in std::fs::read_dir(Path::new(&venv).join("lib"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let nvidia = python.path().join("site-packages/nvidia");
            for package in std::fs::read_dir(nvidia).into_iter().flatten().flatten() {
                list.extend(in_folder(&package.path().join("lib")));
            }
        }
    }
    list
}

impl Nvrtc {
    /// Opens the library that `EVERWARP_NVRTC` names, or the first one found in the usual places.
    pub fn open() -> Result<Self, NvrtcError> {
        if let Some(path) = std::env::var_os("EVERWARP_NVRTC") {
            return Self::open_at(Path::new(&path));
        }
        let candidates = candidates();
        for path in &candidates {
            match Self::open_at(path) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(NvrtcError::BadPath { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let looked = candidates
            .iter()
            .map(|p| p.display().to_string())
            .collect::<Vec<_>>()
            .join(", ");
        Err(NvrtcError::NotFound { looked })
    }

    /// Opens the library at a path.
    pub fn open_at(path: &Path) -> Result<Self, NvrtcError> {
        // NVRTC opens its builtins by bare name; opened before, they are found wherever they lie.
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
        let library = unsafe { Library::new(path) }.map_err(|e| NvrtcError::BadPath {
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
        let result = self.compile_program(program, arch);
        // SAFETY: created above and destroyed once.
        unsafe { (self.raw.destroy)(&raw mut program) };
        result
    }

    fn compile_program(&self, program: Program, arch: u32) -> Result<Cubin, NvrtcError> {
        let options = options(arch).map(|o| CString::new(o).expect("options hold no NUL"));
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
        // SAFETY: NVRTC answers any code with a static, terminated string.
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
pub fn options(arch: u32) -> [String; 4] {
    [
        format!("--gpu-architecture=sm_{arch}"),
        "--std=c++20".to_owned(),
        "-lineinfo".to_owned(),
        "--ptxas-options=-v".to_owned(),
    ]
}
