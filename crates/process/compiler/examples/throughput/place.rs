//! The two sides on the device: their memory, and kernels that are ready for launch.

use std::error::Error;
use std::ffi::{CStr, CString, c_void};
use std::time::Instant;

use cudarc::driver::{result, sys};
use everwarp_compiler::{
    Addresses, CompileOptions, Compiled, Export, INTERLEAVED, InstanceLimits, NoImports, PAGE,
    UNIT, compile,
};

use crate::rewrite::{Part, without};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) const THREADS_PER_BLOCK: u32 = 128;

/// The number of registers that a thread may use, so that three blocks fit on a multiprocessor. Code that needs more
/// registers gains less from them than from the third block.
const MOST_REGISTERS: usize = 168;

/// A kernel with its parameters, each a number of 4 or 8 bytes.
pub(crate) struct Launch {
    kernel: sys::CUfunction,
    params: Vec<u64>,
    grid: u32,
}

impl Launch {
    fn new(image: &[u8], name: &str, params: Vec<u64>, grid: u32) -> Result<Self> {
        let mut options = [sys::CUjit_option::CU_JIT_MAX_REGISTERS];
        // The driver takes this number in place of a pointer.
        let mut values: [*mut c_void; 1] = [std::ptr::without_provenance_mut(MOST_REGISTERS)];
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is complete, or text that ends with a zero; there is one option with its number; the
        // module is never unloaded.
        let kernel = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                image.as_ptr().cast(),
                1,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
            .result()?;
            result::module::get_function(module, CString::new(name)?)?
        };
        Ok(Self {
            kernel,
            params,
            grid,
        })
    }

    /// Assembles code separately and links it, as a process's module becomes a part of the engine's image. ptxas then
    /// treats calls differently than in a whole program.
    fn linked(text: &CStr) -> Result<Vec<u8>> {
        let kind = sys::CUjitInputType::CU_JIT_INPUT_PTX;
        let mut option = [sys::CUjit_option::CU_JIT_MAX_REGISTERS];
        let mut value: [*mut c_void; 1] = [std::ptr::without_provenance_mut(MOST_REGISTERS)];
        let mut state = std::ptr::null_mut();
        let (mut image, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: there is one option with its number, and both outlive the link state; the text's length includes its
        // zero; the state owns the image, which is copied before the state is destroyed.
        unsafe {
            sys::cuLinkCreate_v2(1, option.as_mut_ptr(), value.as_mut_ptr(), &raw mut state)
                .result()?;
            let (data, length) = (text.as_ptr().cast_mut().cast(), text.count_bytes() + 1);
            sys::cuLinkAddData_v2(
                state,
                kind,
                data,
                length,
                c"guest".as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
            .result()?;
            sys::cuLinkComplete(state, &raw mut image, &raw mut bytes).result()?;
            let code = std::slice::from_raw_parts(image.cast::<u8>(), bytes).to_vec();
            sys::cuLinkDestroy(state).result()?;
            Ok(code)
        }
    }

    /// The time in seconds from the launch until the kernel has finished.
    pub(crate) fn run(&mut self) -> Result<f64> {
        // The numbers are little-endian, so the first 4 of 8 bytes are the number of 4 bytes.
        let params = self.params.iter_mut().map(|p| (p as *mut u64).cast());
        let mut params: Vec<*mut c_void> = params.collect();
        let (grid, block) = ((self.grid, 1, 1), (THREADS_PER_BLOCK, 1, 1));
        let begin = Instant::now();
        // SAFETY: the kernel is loaded, and has these parameters.
        unsafe {
            result::launch_kernel(
                self.kernel,
                grid,
                block,
                0,
                std::ptr::null_mut(),
                &mut params,
            )?;
        }
        result::ctx::synchronize()?;
        Ok(begin.elapsed().as_secs_f64())
    }

    pub(crate) fn registers(&self) -> Result<i32> {
        let what = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: the kernel is loaded.
        Ok(unsafe { result::function::get_function_attribute(self.kernel, what) }?)
    }
}

/// Allocates device memory that begins with these bytes and is zero after them. It is never freed.
pub(crate) fn device(bytes: &[u8], length: usize) -> Result<u64> {
    // SAFETY: no other code uses the new allocation, and the bytes fit.
    unsafe {
        let at = result::malloc_sync(length.max(bytes.len()))?;
        result::memset_d8_sync(at, 0, length)?;
        if !bytes.is_empty() {
            result::memcpy_htod_sync(at, bytes)?;
        }
        Ok(at)
    }
}

pub(crate) fn little(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// The layout of the instances' memories.
#[derive(Clone, Copy)]
enum Layout {
    /// Each memory is contiguous, and one follows the other.
    Apart,
    /// The memories of a warp alternate unit by unit, so that lanes with the same address access neighbouring units.
    Interleaved,
}

/// The device memory that both sides use.
pub(crate) struct Place {
    pub(crate) threads: u32,
    /// A page for each thread, for contiguous memories of instances.
    pub(crate) apart: u64,
    /// A page for each thread, for interleaved memories of instances.
    pub(crate) interleaved: u64,
    /// A page for each thread, for the native side.
    pub(crate) native: u64,
    pub(crate) results: u64,
}

impl Place {
    pub(crate) fn answers(&self) -> Result<Vec<u64>> {
        let mut answers = vec![0; self.threads as usize];
        // SAFETY: no kernel is running; there is one result for each thread.
        unsafe {
            result::memcpy_dtoh_sync(&mut answers, self.results)?;
            result::memset_d8_sync(self.results, 0, 8 * answers.len())?;
        }
        Ok(answers)
    }

    /// The address of an instance's memory.
    fn instance(&self, index: u64, layout: Layout) -> u64 {
        match layout {
            Layout::Apart => self.apart + index * PAGE,
            Layout::Interleaved => {
                let (group, lane) = (index / INTERLEAVED, index % INTERLEAVED);
                self.interleaved + group * INTERLEAVED * PAGE + lane * UNIT
            }
        }
    }

    /// Copies the initial contents of an instance's memory to the memories of all instances.
    fn begin(&self, memory: &[u8], layout: Layout) -> Result<()> {
        if memory.is_empty() {
            return Ok(());
        }
        let mut bytes = memory.to_vec();
        let step = match layout {
            Layout::Apart => 1,
            Layout::Interleaved => {
                bytes.resize(bytes.len().next_multiple_of(UNIT as usize), 0);
                let units = bytes.chunks(UNIT as usize);
                bytes = units.flat_map(|u| u.repeat(INTERLEAVED as usize)).collect();
                INTERLEAVED as usize
            }
        };
        // Each copy doubles the number of filled memories.
        let stride = PAGE as usize * step;
        let (first, all) = (
            self.instance(0, layout),
            PAGE as usize * self.threads as usize,
        );
        // SAFETY: no kernel is running; an instance has a page, and a warp has 32 pages.
        unsafe {
            result::memcpy_htod_sync(first, &bytes)?;
            let mut done = stride;
            while done < all {
                let more = done.min(all - done);
                result::memcpy_dtod_sync(first + done as u64, first, more)?;
                done += more;
            }
        }
        Ok(())
    }

    /// The launches of the guest, with an instance in each thread: unchanged; without each part of its semantics;
    /// without all of them; then complete with interleaved memories, as a process, and both; then contracted.
    pub(crate) fn guest(&self, wasm: &[u8], name: &str, args: u64) -> Result<Vec<Launch>> {
        let compiled = compile(wasm, &CompileOptions::default())?;
        let each = Part::ALL.iter().map(std::slice::from_ref);
        let all = [&[][..]].into_iter().chain(each).chain([&Part::ALL[..]]);
        let list = self.instances(&compiled, Layout::Apart)?;
        let texts = all.map(|parts| without(&compiled.ptx, parts));
        let launches = texts.map(|ptx| self.launch(&compiled, &ptx, list, (name, args), false));
        let mut launches = launches.collect::<Result<Vec<_>>>()?;
        for (layout, process, contract) in [
            (Layout::Interleaved, false, false),
            (Layout::Apart, true, false),
            (Layout::Interleaved, true, false),
            (Layout::Apart, false, true),
        ] {
            let options = CompileOptions {
                interleaved: matches!(layout, Layout::Interleaved),
                preempt: process,
                contract,
                ..CompileOptions::default()
            };
            let compiled = compile(wasm, &options)?;
            let list = self.instances(&compiled, layout)?;
            launches.push(self.launch(&compiled, &compiled.ptx, list, (name, args), process)?);
        }
        Ok(launches)
    }

    /// A launch of a compiled module's code, changed or not, for the instances of a list; linked, or as a whole
    /// program.
    fn launch(
        &self,
        compiled: &Compiled,
        ptx: &str,
        list: u64,
        (name, args): (&str, u64),
        linked: bool,
    ) -> Result<Launch> {
        let Some(Export::Function(function)) = compiled.export(name) else {
            return Err(format!("no function {name}").into());
        };
        let entry = u64::from(compiled.entry(function).ok_or("no entry")?);
        let count = u64::from(self.threads);
        let params = vec![list, count, entry, args, self.results, 16, 8];
        let ptx = CString::new(ptx)?;
        let grid = self.threads / THREADS_PER_BLOCK;
        if linked {
            return Launch::new(&Launch::linked(&ptx)?, "run", params, grid);
        }
        Launch::new(ptx.as_bytes_with_nul(), "run", params, grid)
    }

    /// The launches of the guest with PTX from files. Each file was derived from the compiler's PTX for these options.
    pub(crate) fn given(
        &self,
        wasm: &[u8],
        options: &CompileOptions,
        texts: &[String],
        (name, args): (&str, u64),
    ) -> Result<Vec<Launch>> {
        let compiled = compile(wasm, options)?;
        let list = self.instances(&compiled, Layout::Apart)?;
        let launches = texts
            .iter()
            .map(|ptx| self.launch(&compiled, ptx, list, (name, args), options.preempt));
        launches.collect()
    }

    /// Makes the blocks and memories of a guest's instances. Returns the address of the list of blocks.
    fn instances(&self, compiled: &Compiled, layout: Layout) -> Result<u64> {
        let limits = InstanceLimits {
            memory_pages: 1,
            table_elements: 16,
            fuel: i64::MAX,
            depth: 16,
        };
        let initial = compiled.instantiate(&NoImports, &limits)?;
        self.begin(&initial.memory, layout)?;
        let data = compiled.module_data();
        let module_data = device(&data, data.len() + 16)?;
        let stride = initial.block_bytes().next_multiple_of(16);
        let threads = self.threads as usize;
        // The driver aligns allocations to 256 bytes, so the blocks are aligned to 16.
        let blocks = device(&[], stride * threads)?;
        let mut bytes = vec![0; stride * threads];
        for (i, to) in bytes.chunks_exact_mut(stride).enumerate() {
            let block = initial.block(Addresses {
                block: blocks + (i * stride) as u64,
                memory: self.instance(i as u64, layout),
                module_data,
            });
            to[..block.len()].copy_from_slice(&block);
        }
        // SAFETY: no kernel is running, and the allocation has this size.
        unsafe { result::memcpy_htod_sync(blocks, &bytes)? };
        let list = little((0..threads).map(|i| blocks + (i * stride) as u64));
        device(&list, list.len())
    }

    pub(crate) fn native(&self, cubin: &[u8], name: &str, args: u64) -> Result<Launch> {
        let params = vec![
            self.native,
            PAGE,
            u64::from(self.threads),
            args,
            self.results,
        ];
        let grid = self.threads / THREADS_PER_BLOCK;
        Launch::new(cubin, &format!("native_{name}"), params, grid)
    }
}
