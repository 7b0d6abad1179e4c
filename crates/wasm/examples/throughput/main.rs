//! How fast compiled WebAssembly is on a GPU beside the same algorithm in CUDA C++: many threads, and in each
//! one instance. `run` beside this file builds both sides; `throughput FOLDER` measures what it has built.
//!
//! Both have their words at the same places in memory, so that what differs is the code: an instance's words
//! lie together, and so do those of a thread on the other side, where a CUDA programmer would interleave them.

mod without;

use std::error::Error;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::time::Instant;

use cudarc::driver::{result, sys};
use everwarp_wasm::{Addresses, CompileOptions, Export, InstanceLimits, NoImports, PAGE, compile};
use without::{Part, without};

/// Programs, and how much each of its threads does.
const PROGRAMS: [(&str, u64); 5] = [
    ("mix", 20_000),
    ("table", 2_000),
    ("sha256", 64),
    ("sort", 1_024),
    ("nbody", 1_000),
];
const THREADS_PER_BLOCK: u32 = 128;
const RUNS: usize = 7;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A kernel with its parameters, each a number of 4 or 8 bytes.
struct Launch {
    kernel: sys::CUfunction,
    params: Vec<u64>,
    grid: u32,
}

impl Launch {
    fn new(image: &[u8], name: &str, params: Vec<u64>, grid: u32) -> Result<Self> {
        // SAFETY: a complete image, or text that ends with a zero; the module is never unloaded.
        let kernel = unsafe {
            let module = result::module::load_data(image.as_ptr().cast())?;
            result::module::get_function(module, CString::new(name)?)?
        };
        Ok(Self {
            kernel,
            params,
            grid,
        })
    }

    /// Seconds from the launch to the end.
    fn run(&mut self) -> Result<f64> {
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

    fn registers(&self) -> Result<i32> {
        let what = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: the kernel is loaded.
        Ok(unsafe { result::function::get_function_attribute(self.kernel, what) }?)
    }
}

/// Device memory that begins with these bytes and is zero beyond. Never freed.
fn device(bytes: &[u8], length: usize) -> Result<u64> {
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

fn little(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// What both sides work on.
struct Place {
    threads: u32,
    memory: u64,
    results: u64,
}

impl Place {
    fn answers(&self) -> Result<Vec<u64>> {
        let mut answers = vec![0; self.threads as usize];
        // SAFETY: nothing runs; there is one result for each thread.
        unsafe {
            result::memcpy_dtoh_sync(&mut answers, self.results)?;
            result::memset_d8_sync(self.results, 0, 8 * answers.len())?;
        }
        Ok(answers)
    }

    /// The guest, with an instance in each thread: as it is, without each part of its semantics, and without
    /// all of them.
    fn guest(&self, wasm: &[u8], name: &str, args: u64) -> Result<Vec<Launch>> {
        let compiled = compile(wasm, &CompileOptions::default())?;
        let Some(Export::Function(function)) = compiled.export(name) else {
            return Err(format!("no function {name}").into());
        };
        let limits = InstanceLimits {
            memory_pages: 1,
            table_elements: 16,
            fuel: i64::MAX,
            depth: 16,
        };
        let initial = compiled.instantiate(&NoImports, &limits)?;
        let data = compiled.module_data();
        let module_data = device(&data, data.len() + 16)?;
        let stride = initial.block_bytes().next_multiple_of(16) as u64;
        // The driver's addresses are aligned to 256, so that the blocks are to 16.
        let blocks = device(&[], stride as usize * self.threads as usize)?;
        let mut bytes = vec![0; stride as usize * self.threads as usize];
        for (i, to) in bytes.chunks_exact_mut(stride as usize).enumerate() {
            let at = Addresses {
                block: blocks + i as u64 * stride,
                memory: self.memory + i as u64 * PAGE,
                module_data,
            };
            let block = initial.block(at);
            to[..block.len()].copy_from_slice(&block);
            if !initial.memory.is_empty() {
                // SAFETY: nothing runs; an instance's memory is as long as a page.
                unsafe { result::memcpy_htod_sync(at.memory, &initial.memory)? };
            }
        }
        // SAFETY: nothing runs; there is as much room.
        unsafe { result::memcpy_htod_sync(blocks, &bytes)? };
        let list = little((0..u64::from(self.threads)).map(|i| blocks + i * stride));
        let list = device(&list, list.len())?;
        let entry = compiled.entry(function).ok_or("no entry")?;
        let (count, entry) = (u64::from(self.threads), u64::from(entry));
        let params = vec![list, count, entry, args, self.results, 16, 8];
        let grid = self.threads / THREADS_PER_BLOCK;
        let each = Part::ALL.iter().map(std::slice::from_ref);
        let all = [&[][..]].into_iter().chain(each).chain([&Part::ALL[..]]);
        all.map(|parts| {
            let ptx = CString::new(without(&compiled.ptx, parts))?;
            Launch::new(ptx.as_bytes_with_nul(), "run", params.clone(), grid)
        })
        .collect()
    }

    fn native(&self, cubin: &[u8], name: &str, args: u64) -> Result<Launch> {
        let params = vec![
            self.memory,
            PAGE,
            u64::from(self.threads),
            args,
            self.results,
        ];
        let grid = self.threads / THREADS_PER_BLOCK;
        Launch::new(cubin, &format!("native_{name}"), params, grid)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .ok_or("usage: throughput FOLDER")?;
    let folder = Path::new(&folder);
    result::init()?;
    let gpu = result::device::get(0)?;
    // SAFETY: the device is the driver's; the context is never released.
    let multiprocessors = unsafe {
        result::ctx::set_current(result::primary_ctx::retain(gpu)?)?;
        let what = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        result::device::get_attribute(gpu, what)? as u32
    };
    let threads = multiprocessors * 1024;
    let place = Place {
        threads,
        memory: device(&[], threads as usize * PAGE as usize)?,
        results: device(&[], 8 * threads as usize)?,
    };
    println!(
        "{}: {threads} threads, {THREADS_PER_BLOCK} a block; median of {RUNS}, milliseconds",
        result::device::get_name(gpu)?
    );
    println!(
        "                                                                 guest / native  the guest without..."
    );
    println!(
        "program     work    native    no fma     guest   ratio  to no fma    bounds alignment      fuel      NaNs       all  registers"
    );
    let contracted = std::fs::read(folder.join("native.cubin"))?;
    let uncontracted = std::fs::read(folder.join("native-nofma.cubin"))?;
    for (name, work) in PROGRAMS {
        let args = little((0..u64::from(threads)).flat_map(|i| [i, work]));
        let args = device(&args, args.len())?;
        let wasm = std::fs::read(folder.join(format!("{name}.wasm")))?;
        let mut sides = vec![
            place.native(&contracted, name, args)?,
            place.native(&uncontracted, name, args)?,
        ];
        sides.extend(place.guest(&wasm, name, args)?);
        let mut answers = Vec::new();
        for side in &mut sides {
            side.run()?;
            answers.push(place.answers()?);
        }
        // The guest's arithmetic is not contracted, so the first side may differ in the last bits.
        if answers[1..].iter().any(|a| *a != answers[1]) {
            return Err(format!("{name}: the sides have different answers").into());
        }
        let mut times = vec![Vec::new(); sides.len()];
        for _ in 0..RUNS {
            for (side, times) in sides.iter_mut().zip(&mut times) {
                times.push(1e3 * side.run()?);
            }
        }
        let times: Vec<f64> = times.into_iter().map(median).collect();
        let (ratio, exact) = (times[2] / times[0], times[2] / times[1]);
        print!(
            "{name:8} {work:7} {:9.3} {:9.3} {:9.3}",
            times[0], times[1], times[2]
        );
        print!(" {ratio:7.2} {exact:10.2}");
        for time in &times[3..] {
            print!(" {time:9.3}");
        }
        println!("  {}, {}", sides[0].registers()?, sides[2].registers()?);
    }
    Ok(())
}
