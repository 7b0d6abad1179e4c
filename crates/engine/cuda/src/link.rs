//! Linking by the driver: relocatable code with machine code of parts, with PTX that the driver assembles, or with a library.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;

use cudarc::driver::sys;
use everwarp_contract::device::{BLOCK_THREADS, BLOCKS_PER_SM};
use everwarp_engine::{EngineError, Linked};

use crate::driver::check;

/// Registers of a multiprocessor, on every architecture that is supported.
const REGISTERS: u32 = 65_536;
/// The registers that the kernel's launch bounds leave each thread. A function that took more could not be called:
/// the linker gives the kernel as many registers as the neediest of its callees.
pub const MAX_REGISTERS: u32 = REGISTERS / (BLOCK_THREADS * BLOCKS_PER_SM);
const LOG_BYTES: usize = 64 << 10;
/// `CU_JIT_SPLIT_COMPILE`: how many threads assemble. It is younger than the interface that the bindings are of.
const JIT_SPLIT_COMPILE: u32 = 34;

/// The buffer for the driver's error messages.
struct Log(Vec<u8>);

impl Log {
    fn text(&self) -> String {
        let end = self.0.iter().position(|&b| b == 0);
        let text = String::from_utf8_lossy(&self.0[..end.unwrap_or(self.0.len())]);
        text.trim_end().to_owned()
    }
}

/// A link in progress.
struct Link {
    state: sys::CUlinkState,
    /// The driver keeps the address of its bytes, which do not move.
    log: Log,
}

impl Link {
    /// A link that assembles on all cores, or on one where the driver is too old to know of the option.
    fn new() -> Result<Self, EngineError> {
        Self::create(true).or_else(|_| Self::create(false))
    }

    fn create(on_all_cores: bool) -> Result<Self, EngineError> {
        use sys::CUjit_option as O;
        let mut log = Log(vec![0; LOG_BYTES]);
        let mut options = [
            O::CU_JIT_MAX_REGISTERS as u32,
            O::CU_JIT_ERROR_LOG_BUFFER as u32,
            O::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as u32,
            JIT_SPLIT_COMPILE,
        ];
        // The driver takes numbers in the place of pointers.
        let mut values = [
            MAX_REGISTERS as usize as *mut c_void,
            log.0.as_mut_ptr().cast(),
            LOG_BYTES as *mut c_void,
            // As many threads as there are cores.
            std::ptr::null_mut(),
        ];
        let count = options.len() - usize::from(!on_all_cores);
        let mut state = std::ptr::null_mut();
        // SAFETY: the arrays have the stated length or more, and an option is a number of this size; the log lives as
        // long as the link.
        let created = unsafe {
            sys::cuLinkCreate_v2(
                count as u32,
                options.as_mut_ptr().cast(),
                values.as_mut_ptr(),
                &raw mut state,
            )
        };
        check("cuLinkCreate", created)?;
        Ok(Self { state, log })
    }

    fn failed(
        &self,
        part: &str,
        call: &'static str,
        result: sys::CUresult,
    ) -> Result<(), EngineError> {
        match check(call, result) {
            Err(EngineError::Driver { call, code, name }) => Err(EngineError::Link {
                part: part.to_owned(),
                call,
                code,
                name,
                log: self.log.text(),
            }),
            other => other,
        }
    }

    /// Adds the engine's, or a benchmark's, own relocatable code.
    fn add_unit(&self, unit: &[u8]) -> Result<(), EngineError> {
        let kind = sys::CUjitInputType::CU_JIT_INPUT_CUBIN;
        let name = "the kernels' own code";
        self.add(kind, name, unit.as_ptr().cast(), unit.len())
    }

    /// Adds the machine code of modules.
    fn add_objects(&self, objects: &[&Vec<u8>]) -> Result<(), EngineError> {
        let kind = sys::CUjitInputType::CU_JIT_INPUT_CUBIN;
        objects
            .iter()
            .try_for_each(|object| self.add(kind, "a module", object.as_ptr().cast(), object.len()))
    }

    /// The linked machine code.
    fn complete(&self) -> Result<Vec<u8>, EngineError> {
        let (mut image, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: the out-pointers are valid; the image that they receive belongs to the link and is copied before it ends.
        unsafe {
            let done = sys::cuLinkComplete(self.state, &raw mut image, &raw mut size);
            self.failed("the image", "cuLinkComplete", done)?;
            Ok(std::slice::from_raw_parts(image.cast::<u8>(), size).to_owned())
        }
    }

    fn add(
        &self,
        kind: sys::CUjitInputType,
        name: &str,
        data: *const c_void,
        len: usize,
    ) -> Result<(), EngineError> {
        let label = CString::new(name.replace('\0', " ")).expect("NULs were replaced");
        let label: *const c_char = label.as_ptr();
        // SAFETY: `data` is `len` bytes long, which the driver only reads, before it returns.
        let added = unsafe {
            sys::cuLinkAddData_v2(
                self.state,
                kind,
                data.cast_mut(),
                len,
                label,
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        self.failed(name, "cuLinkAddData", added)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: created by `new` and destroyed once.
        unsafe { sys::cuLinkDestroy(self.state) };
    }
}

/// Links the machine code of an image's unit with that of its parts. A context must be current, and nothing may be
/// resident in it.
pub(crate) fn link_objects(unit: &[u8], objects: &[&Vec<u8>]) -> Result<Vec<u8>, EngineError> {
    let link = Link::new()?;
    link.add_unit(unit)?;
    link.add_objects(objects)?;
    link.complete()
}

/// Links machine code that is loaded next to an image. A context must be current.
pub(crate) fn link_alone(objects: &[&Vec<u8>]) -> Result<Vec<u8>, EngineError> {
    let link = Link::new()?;
    link.add_objects(objects)?;
    link.complete()
}

/// Links the machine code of an image's unit with its parts, which the driver assembles in this process. A context must be
/// current, and nothing may be resident in it.
pub(crate) fn assemble_and_link(unit: &[u8], linked: &Linked) -> Result<Vec<u8>, EngineError> {
    use sys::CUjitInputType as T;
    let link = Link::new()?;
    link.add_unit(unit)?;
    for part in &linked.parts {
        let text = CString::new(part.ptx.as_bytes()).expect("emitted text holds no NUL");
        let bytes = text.as_bytes_with_nul();
        link.add(
            T::CU_JIT_INPUT_PTX,
            &part.name,
            bytes.as_ptr().cast(),
            bytes.len(),
        )?;
    }
    link.complete()
}

/// Links machine code with a library of a toolkit. A context must be current, and nothing may be resident in it.
pub(crate) fn link_library(unit: &[u8], library: &Path) -> Result<Vec<u8>, EngineError> {
    let link = Link::new()?;
    link.add_unit(unit)?;
    let name = library.display().to_string();
    let path = CString::new(library.as_os_str().as_encoded_bytes()).expect("paths hold no NUL");
    // SAFETY: a path that the driver reads before it returns; no options.
    let added = unsafe {
        sys::cuLinkAddFile_v2(
            link.state,
            sys::CUjitInputType::CU_JIT_INPUT_LIBRARY,
            path.as_ptr(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    link.failed(&name, "cuLinkAddFile", added)?;
    link.complete()
}
