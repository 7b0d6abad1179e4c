//! The lowest floor: NVRTC's functions as they are, and the one of the loader's that finds files.
//!
//! Names and signatures are those of `nvrtc.h`; those used here are the same from CUDA 11.2 to 13.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

/// `nvrtcProgram`, an opaque pointer.
pub(crate) type Handle = *mut c_void;

/// A missing function, and the loader's word on it.
pub(crate) struct Missing(pub(crate) &'static str, pub(crate) libloading::Error);

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($arg:ty),*) -> $ret:ty;)*) => {
        /// The functions' addresses.
        #[derive(Clone, Copy)]
        pub(crate) struct Raw {
            $($(#[$doc])* pub(crate) $field: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Raw {
            /// Looks every function up.
            ///
            /// # Safety
            /// - A symbol of `library` that has one of NVRTC's names has the signature that `nvrtc.h` gives it.
            /// - `library` is never unloaded, as the addresses outlive the borrow.
            pub(crate) unsafe fn load(library: &Library) -> Result<Self, Missing> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the caller vouches for the signature.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) -> $ret>($symbol)
                        };
                        *found.map_err(|e| Missing($symbol, e))?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// A code's name: a static string, for any code.
    error_string = "nvrtcGetErrorString": fn(c_int) -> *const c_char;
    /// Major, minor.
    version = "nvrtcVersion": fn(*mut c_int, *mut c_int) -> c_int;
    /// How many architectures `archs` writes.
    num_archs = "nvrtcGetNumSupportedArchs": fn(*mut c_int) -> c_int;
    /// The architectures, 90 for `sm_90`.
    archs = "nvrtcGetSupportedArchs": fn(*mut c_int) -> c_int;
    /// Program, source, name, number of headers, their texts, their names. It copies the strings.
    create = "nvrtcCreateProgram":
        fn(*mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
    /// Frees the program and clears the handle.
    destroy = "nvrtcDestroyProgram": fn(*mut Handle) -> c_int;
    /// Number of options, options.
    compile = "nvrtcCompileProgram": fn(Handle, c_int, *const *const c_char) -> c_int;
    /// Bytes that `log` writes, with the terminator.
    log_size = "nvrtcGetProgramLogSize": fn(Handle, *mut usize) -> c_int;
    /// The log, terminated.
    log = "nvrtcGetProgramLog": fn(Handle, *mut c_char) -> c_int;
    /// Bytes that `cubin` writes.
    cubin_size = "nvrtcGetCUBINSize": fn(Handle, *mut usize) -> c_int;
    /// The machine code.
    cubin = "nvrtcGetCUBIN": fn(Handle, *mut c_char) -> c_int;
}

/// The file that an address of a loaded library comes from; `None` where the loader cannot tell.
#[cfg(unix)]
pub(crate) fn file_of(address: *const c_void) -> Option<std::path::PathBuf> {
    use std::ffi::CStr;
    use std::os::unix::ffi::OsStrExt;

    /// `Dl_info` of `dlfcn.h`.
    #[repr(C)]
    struct Info {
        file: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        symbol_address: *mut c_void,
    }
    type DlAddr = unsafe extern "C" fn(*const c_void, *mut Info) -> c_int;

    let this: Library = libloading::os::unix::Library::this().into();
    // SAFETY: `dladdr` has this signature in the C libraries of Linux, macOS and the BSDs.
    let dladdr = unsafe { this.get::<DlAddr>("dladdr") }.ok()?;
    let null: *mut c_void = std::ptr::null_mut();
    let mut info = Info {
        file: null.cast(),
        base: null,
        symbol: null.cast(),
        symbol_address: null,
    };
    // SAFETY: `info` is writable; any address may be asked about.
    if unsafe { dladdr(address, &raw mut info) } == 0 || info.file.is_null() {
        return None;
    }
    // SAFETY: the loader's own terminated string, which lives as long as the library is loaded.
    let file = unsafe { CStr::from_ptr(info.file) };
    std::path::absolute(std::ffi::OsStr::from_bytes(file.to_bytes())).ok()
}

/// Other systems: the loader is not asked.
#[cfg(not(unix))]
pub(crate) fn file_of(_address: *const c_void) -> Option<std::path::PathBuf> {
    None
}
