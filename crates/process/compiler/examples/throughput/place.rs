//! Both sides on the device: their memory, and kernels that are ready to be launched.

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

/// Registers that a thread may have: three blocks have room on a multiprocessor then. What needs more gains less by
/// them than by the third block.
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
        // A number is passed in the place of a pointer.
        let mut values: [*mut c_void; 1] = [std::ptr::without_provenance_mut(MOST_REGISTERS)];
        let mut module = std::ptr::null_mut();
        // SAFETY: a complete image, or text that ends with a zero; one option with its number; the module is never
        // unloaded.
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

    /// Machine code that is linked, of code that is assembled on its own: so a process's module becomes a part of the
    /// engine's image, and ptxas sees calls otherwise than in a whole program.
    fn linked(text: &CStr) -> Result<Vec<u8>> {
        let kind = sys::CUjitInputType::CU_JIT_INPUT_PTX;
        let mut option = [sys::CUjit_option::CU_JIT_MAX_REGISTERS];
        let mut value: [*mut c_void; 1] = [std::ptr::without_provenance_mut(MOST_REGISTERS)];
        let mut state = std::ptr::null_mut();
        let (mut image, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: one option with its number, which live as long as the state; the text ends with a zero, which counts;
        // the image is the state's, and copied before that is destroyed.
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

    /// Seconds from the launch to the end.
    pub(crate) fn run(&mut self) -> Result<f64> {
        // Little-endian, so that a number of 4 bytes is the beginning of one of 8.
        let params = self.params.iter_mut().map(|p| (p as *mut u64).cast());
        let mut params: Vec<*mut c_void> = params.collect();
        let (grid, block) = ((self.grid, 1, 1), (THREADS_PER_BLOCK, 1, 1));
        let begin = Instant::now();
        // SAFETY: the kernel is loaded, and its parameters are these.
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

/// Device memory that begins with these bytes and is zero beyond. Never freed.
pub(crate) fn device(bytes: &[u8], length: usize) -> Result<u64> {
    // SAFETY: what is new is used by nobody, and the bytes fit.
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

/// How the memories of instances lie.
#[derive(Clone, Copy)]
enum Layout {
    /// Each together, one after the other.
    Apart,
    /// Those of a warp unit by unit, so that lanes which access the same address access neighbours.
    Interleaved,
}

/// What both sides work on.
pub(crate) struct Place {
    pub(crate) threads: u32,
    /// A page for each thread, where instances' memories lie apart.
    pub(crate) apart: u64,
    /// Another, where they are interleaved.
    pub(crate) interleaved: u64,
    /// Another, for the other side.
    pub(crate) native: u64,
    pub(crate) results: u64,
}

impl Place {
    pub(crate) fn answers(&self) -> Result<Vec<u64>> {
        let mut answers = vec![0; self.threads as usize];
        // SAFETY: nothing runs; there is one result for each thread.
        unsafe {
            result::memcpy_dtoh_sync(&mut answers, self.results)?;
            result::memset_d8_sync(self.results, 0, 8 * answers.len())?;
        }
        Ok(answers)
    }

    /// Where an instance's memory begins.
    fn instance(&self, index: u64, layout: Layout) -> u64 {
        match layout {
            Layout::Apart => self.apart + index * PAGE,
            Layout::Interleaved => {
                let (group, lane) = (index / INTERLEAVED, index % INTERLEAVED);
                self.interleaved + group * INTERLEAVED * PAGE + lane * UNIT
            }
        }
    }

    /// Copies what an instance's memory begins with to the memories of all.
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
        // Twice as many with each copy.
        let stride = PAGE as usize * step;
        let (first, all) = (
            self.instance(0, layout),
            PAGE as usize * self.threads as usize,
        );
        // SAFETY: nothing runs; an instance has a page, and a warp has 32.
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

    /// The guest, with an instance in each thread: as it is, without each part of its semantics, without all of
    /// them; then as it is with memories interleaved, as processes have it, and both; then contracted.
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

    /// A launch of code that was made of a compiled module, for the instances of a list; linked, or as one program.
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

    /// The guest with PTX from files, each of which was made from what the compiler gives with these options.
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

    /// Blocks and memories of a guest's instances; the address of the list of blocks.
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
        // The driver's addresses are aligned to 256, so that the blocks are to 16.
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
        // SAFETY: nothing runs; there is as much room.
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
