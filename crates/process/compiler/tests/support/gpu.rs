//! A CUDA device as a machine: each module is a separate image, and each call is a launch.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;

use cudarc::driver::{result, sys};

use super::cubins::{self, Cubin};
use super::machine::{Images, Machine};

/// Turns a driver's error into words.
fn said<T>(what: &str, result: Result<T, result::DriverError>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e}"))
}

/// The name of the first CUDA device, or why there is none.
pub(crate) fn device_name() -> Result<String, String> {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err("the NVIDIA driver is not installed (no libcuda.so.1)".to_owned());
    }
    said("cuInit", result::init())?;
    let device = said("cuDeviceGet", result::device::get(0))?;
    said("cuDeviceGetName", result::device::get_name(device))
}

/// Statistics of a device's work.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) modules: u64,
    /// The number of modules that the driver had to compile.
    pub(crate) compiled: u64,
    pub(crate) launches: u64,
    /// The largest stack that a thread needed, in bytes.
    pub(crate) stack: usize,
    /// The smallest depth of nested calls that a module was granted.
    pub(crate) depth: u32,
}

/// The largest stack of a thread, in bytes. The driver reserves it for every thread that can be resident on the
/// device: 132 x 2,048 threads on an H200, so this size takes 33 GiB.
const STACK: usize = 128 << 10;

/// The first CUDA device. It is meant for short-lived processes: it frees nothing.
pub(crate) struct Gpu {
    images: Images,
    kernels: HashMap<String, sys::CUfunction>,
    cubins: Option<PathBuf>,
    linked: bool,
    pub(crate) work: Work,
}

impl Gpu {
    /// Opens the device for this thread. Machine code is taken from the folder if it contains the image.
    pub(crate) fn open(cubins: Option<PathBuf>) -> Result<Self, String> {
        device_name()?;
        let device = said("cuDeviceGet", result::device::get(0))?;
        // SAFETY: the device is the driver's; the context is never released.
        let made = unsafe {
            result::primary_ctx::retain(device).and_then(|c| result::ctx::set_current(c))
        };
        said("the context", made)?;
        Ok(Self {
            images: Images::default(),
            kernels: HashMap::new(),
            cubins,
            linked: false,
            work: Work {
                depth: u32::MAX,
                ..Work::default()
            },
        })
    }

    /// Links each image, as the engine links a process's module into its own image: ptxas then generates different
    /// code, with larger frames. When it compiles a whole program, ptxas crashes with a segmentation fault (driver
    /// 580) if it folds away a square root in a function that calls itself, which sometimes occurs in generated
    /// modules.
    pub(crate) fn linking(mut self) -> Self {
        self.linked = true;
        self
    }

    /// Grants each thread a stack for calls of this depth, by the formula in the crate's documentation, or for the
    /// depth that the largest stack allows. Returns the granted depth.
    fn grant_stack(&mut self, frame: u32, depth: u32) -> Result<u32, String> {
        let frame = frame as usize;
        let most = (STACK / frame.max(1)).saturating_sub(3) / 2;
        let depth = depth.min(u32::try_from(most).unwrap_or(u32::MAX));
        let needed = (2 * depth as usize + 3) * frame;
        if needed > STACK {
            return Err(format!("a frame of {frame} bytes"));
        }
        self.work.depth = self.work.depth.min(depth);
        self.work.stack = self.work.stack.max(needed);
        let limit = sys::CUlimit::CU_LIMIT_STACK_SIZE;
        if needed <= said("the stack", result::ctx::get_limit(limit))? {
            return Ok(depth);
        }
        said("the stack", result::ctx::set_limit(limit, needed))?;
        let granted = said("the stack", result::ctx::get_limit(limit))?;
        if granted < needed {
            return Err(format!("a stack of {granted} bytes, not {needed}"));
        }
        Ok(depth)
    }
}

/// Lets the driver compile an image, as a whole program or to be linked. Returns the module and its largest frame.
fn compile(ptx: &str, linked: bool) -> Result<(sys::CUmodule, u32), String> {
    use sys::CUjit_option as Option;
    let text = CString::new(ptx).map_err(|e| e.to_string())?;
    let (mut info, mut errors) = (vec![0u8; 1 << 20], vec![0u8; 1 << 16]);
    let mut names = [
        Option::CU_JIT_LOG_VERBOSE,
        Option::CU_JIT_INFO_LOG_BUFFER,
        Option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        Option::CU_JIT_ERROR_LOG_BUFFER,
        Option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    // The driver takes these numbers in place of pointers.
    let mut values: [*mut c_void; 5] = [
        std::ptr::without_provenance_mut(1),
        info.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(info.len() - 1),
        errors.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(errors.len() - 1),
    ];
    let count = names.len() as u32;
    let (names, values) = (names.as_mut_ptr(), values.as_mut_ptr());
    let mut module = std::ptr::null_mut();
    // SAFETY: the text is terminated; there are `count` names and values, of the types that the driver requires; each
    // buffer has one byte more, a zero, than the length that the driver receives.
    let loaded = unsafe {
        if linked {
            link(&text, count, names, values)
        } else {
            let text = text.as_ptr().cast();
            sys::cuModuleLoadDataEx(&raw mut module, text, count, names, values)
                .result()
                .map(|()| module)
        }
    };
    let log = |bytes: &[u8]| match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::new(),
    };
    let module = said("the image", loaded).map_err(|e| format!("{e}: {}", log(&errors)))?;
    let info = log(&info);
    let frame = cubins::largest_frame(&info);
    let frame = frame.ok_or(
        "the driver reported no frame size, because the image came from its cache: set CUDA_CACHE_DISABLE=1",
    )?;
    Ok((module, frame))
}

/// Compiles a text separately, links it and loads it.
///
/// # Safety
/// As many options as the count says, with their values, must live as long as the link.
unsafe fn link(
    text: &CStr,
    count: u32,
    names: *mut sys::CUjit_option,
    values: *mut *mut c_void,
) -> Result<sys::CUmodule, result::DriverError> {
    let kind = sys::CUjitInputType::CU_JIT_INPUT_PTX;
    let (data, bytes) = (text.as_ptr().cast_mut().cast(), text.count_bytes() + 1);
    let (mut state, mut code, mut size) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    let (name, none) = (c"image".as_ptr(), std::ptr::null_mut());
    // SAFETY: the caller vouches for the options, and the text's length includes its zero; the link state owns the
    // code, which is loaded before the state is destroyed.
    unsafe {
        sys::cuLinkCreate_v2(count, names, values, &raw mut state).result()?;
        let nothing = std::ptr::null_mut();
        sys::cuLinkAddData_v2(state, kind, data, bytes, name, 0, none, nothing).result()?;
        sys::cuLinkComplete(state, &raw mut code, &raw mut size).result()?;
        let module = result::module::load_data(code)?;
        sys::cuLinkDestroy(state).result()?;
        Ok(module)
    }
}

impl Machine for Gpu {
    fn load(
        &mut self,
        prefix: &str,
        ptx: &str,
        calls: &[String],
        depth: u32,
    ) -> Result<u32, String> {
        let image = self.images.add(prefix, ptx, calls)?;
        let kept = self.cubins.as_ref().and_then(|f| cubins::find(f, &image));
        let (module, frame) = match kept {
            Some(Cubin { code, frame }) => {
                // SAFETY: the file is a complete image, which the assembler wrote.
                let module = unsafe { result::module::load_data(code.as_ptr().cast()) };
                (said("cuModuleLoadData", module)?, frame)
            }
            None => {
                self.work.compiled += 1;
                compile(&image, self.linked)?
            }
        };
        self.work.modules += 1;
        let depth = self.grant_stack(frame, depth)?;
        let name = CString::new(format!("{prefix}run")).map_err(|e| e.to_string())?;
        // SAFETY: the module is loaded and is never unloaded.
        let kernel = unsafe { result::module::get_function(module, name) };
        let kernel = said("cuModuleGetFunction", kernel)?;
        self.kernels.insert(prefix.to_owned(), kernel);
        Ok(depth)
    }

    fn allocate(&mut self, bytes: &[u8], length: u64) -> Result<u64, String> {
        let length = (length as usize).max(16);
        // SAFETY: no other code uses the new allocation, and it has room for the bytes.
        let at = unsafe {
            let at = said("cuMemAlloc", result::malloc_sync(length))?;
            said("cuMemsetD8", result::memset_d8_sync(at, 0, length))?;
            at
        };
        self.write(at, bytes)?;
        Ok(at)
    }

    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), String> {
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: no kernel is running; the driver refuses what is not allocated.
        said("a copy from the device", unsafe {
            result::memcpy_dtoh_sync(to, at)
        })
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: as above.
        said("a copy to the device", unsafe {
            result::memcpy_htod_sync(at, bytes)
        })
    }

    fn run_many(&mut self, prefix: &str, params: &[Vec<u8>], threads: u32) -> Result<(), String> {
        let kernel = *self.kernels.get(prefix).ok_or("no such module")?;
        let mut params: Vec<*mut c_void> = (params.iter())
            .map(|p| p.as_ptr().cast_mut().cast())
            .collect();
        self.work.launches += 1;
        // One block for each warp, so that threads run on different multiprocessors. In the kernel, threads without an
        // instance do nothing.
        let grid = (threads.div_ceil(32), 1, 1);
        let (block, stream) = ((threads.min(32), 1, 1), std::ptr::null_mut());
        // SAFETY: the kernel is loaded; the parameters have its types, and the launch copies them.
        let launched =
            unsafe { result::launch_kernel(kernel, grid, block, 0, stream, &mut params) };
        said("the launch", launched)?;
        said("the kernel", result::ctx::synchronize())
    }
}
