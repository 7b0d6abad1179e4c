//! Compares the speed of compiled WebAssembly on a GPU with the same algorithm in CUDA C++: many threads, each with
//! one instance. The script `run` in this folder builds both sides; `throughput FOLDER [PROGRAM...]` measures the
//! builds.
//!
//! Both sides have their words at the same distances in memory, so that only the code differs: the words of an
//! instance are contiguous, and so are the words of a native thread, although a CUDA programmer would interleave them.
//! A separate column shows the gain of interleaving for a guest.

mod place;
mod rewrite;

use std::path::Path;

use cudarc::driver::{result, sys};
use everwarp_compiler::{CompileOptions, PAGE, compile};
use place::{Launch, Place, Result, THREADS_PER_BLOCK, device, little};

/// Programs, and the amount of work of each thread.
const PROGRAMS: [(&str, u64); 9] = [
    ("mix", 20_000),
    ("table", 2_000),
    ("sha256", 64),
    ("sort", 1_024),
    ("collatz", 200),
    ("nbody", 1_000),
    ("parse", 1_000),
    ("bfs", 4),
    ("vm", 8),
];
const RUNS: usize = 3;
/// The number of native builds. The guest's builds follow them.
const NATIVES: usize = 3;
/// The number of the guest's last builds: interleaved; built and linked as a process; both; and contracted.
const KINDS: usize = 4;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Whether two results are the same except for the effect of rounding a product and a sum only once.
fn alike(a: u64, b: u64) -> bool {
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    a == b || (x - y).abs() <= 1e-6 * x.abs().max(y.abs())
}

/// The time of each side in milliseconds. All sides must give the same results; only those in `contracted` may differ
/// in the last bits, because they round a product and a sum only once.
fn measure(place: &Place, sides: &mut [Launch], contracted: &[usize]) -> Result<Vec<f64>> {
    let mut answers = Vec::new();
    for side in sides.iter_mut() {
        side.run()?;
        answers.push(place.answers()?);
    }
    let exact = (0..sides.len()).find(|i| !contracted.contains(i));
    let exact = &answers[exact.ok_or("no side is exact")?];
    for (i, other) in answers.iter().enumerate() {
        let same = |&(a, b): &(&u64, &u64)| match contracted.contains(&i) {
            true => alike(*a, *b),
            false => a == b,
        };
        let mut pairs = other.iter().zip(exact).enumerate();
        if let Some((thread, (own, first))) = pairs.find(|(_, pair)| !same(pair)) {
            return Err(format!("side {i} has {own:#x} in thread {thread}, not {first:#x}").into());
        }
    }
    let mut times = vec![Vec::new(); sides.len()];
    for _ in 0..RUNS {
        for (side, times) in sides.iter_mut().zip(&mut times) {
            times.push(1e3 * side.run()?);
        }
    }
    Ok(times.into_iter().map(median).collect())
}

/// Measures PTX files `PROGRAM.WHAT.ptx` in the folder of `PROGRAM.wasm`, which were written by hand or by another
/// version of the compiler. If a name contains `preempt`, the PTX belongs to instances that can be preempted.
fn variants(place: &Place, folder: &Path) -> Result<()> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?
        .map(|f| Ok(f?.path()))
        .collect::<Result<_>>()?;
    files.retain(|f| f.extension().is_some_and(|e| e == "ptx"));
    files.sort();
    for file in files {
        let name = file.file_stem().and_then(|s| s.to_str()).ok_or("a name")?;
        let (program, what) = name.split_once('.').ok_or("PROGRAM.WHAT.ptx")?;
        let function = program.trim_end_matches("-unrolled");
        let found = PROGRAMS.iter().find(|(name, _)| *name == function);
        let (_, work) = found.ok_or("no such program")?;
        let args = little((0..u64::from(place.threads)).flat_map(|i| [i, *work]));
        let args = device(&args, args.len())?;
        let wasm = std::fs::read(folder.join(format!("{program}.wasm")))?;
        let options = CompileOptions {
            preempt: what.contains("preempt"),
            ..CompileOptions::default()
        };
        let text = std::fs::read_to_string(&file)?;
        let compiled = compile(&wasm, &options)?.ptx;
        let mut sides = place.given(&wasm, &options, &[compiled, text], (function, args))?;
        match measure(place, &mut sides, &[]) {
            Ok(times) => println!(
                "{program:16} {what:24} compiled {:8.3} {:3} given {:8.3} {:3}  {:.3}",
                times[0],
                sides[0].registers()?,
                times[1],
                sides[1].registers()?,
                times[1] / times[0]
            ),
            Err(e) => println!("{program:16} {what:24} failed: {e}"),
        }
    }
    Ok(())
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
        // The stack for functions that call themselves.
        result::ctx::set_limit(sys::CUlimit::CU_LIMIT_STACK_SIZE, 8192)?;
        let what = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        result::device::get_attribute(gpu, what)? as u32
    };
    let threads = multiprocessors * 1024;
    let pages = threads as usize * PAGE as usize;
    let place = Place {
        threads,
        apart: device(&[], pages)?,
        interleaved: device(&[], pages)?,
        native: device(&[], pages)?,
        results: device(&[], 8 * threads as usize)?,
    };
    println!(
        "{}: {threads} threads, {THREADS_PER_BLOCK} a block; median of {RUNS}, milliseconds",
        result::device::get_name(gpu)?
    );
    if std::env::args().nth(2).is_some_and(|a| a == "variants") {
        return variants(&place, folder);
    }
    println!(
        "guest/native: compared with CUDA C++ as nvcc builds it, without contraction, with its arrays in memory\n"
    );
    let head = "program    work build         native   no fma in memory    guest  guest/native";
    let parts = "  | without: bounds alignment     fuel     NaNs      all | interleaved a process, to native      both contracted, to native | registers";
    println!("{head}             {parts}");
    let read = |name: &str| std::fs::read(folder.join(name));
    let cubins = [
        read("native.cubin")?,
        read("native-nofma.cubin")?,
        read("native-memory.cubin")?,
    ];
    let mut failed = false;
    let wanted: Vec<_> = std::env::args().skip(2).collect();
    let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    for (name, work) in PROGRAMS.into_iter().filter(|(name, _)| wanted(name)) {
        let args = little((0..u64::from(threads)).flat_map(|i| [i, work]));
        let args = device(&args, args.len())?;
        for (build, file) in [("rustc", ""), ("unrolled", "-unrolled")] {
            let wasm = read(&format!("{name}{file}.wasm"))?;
            let natives = cubins.iter().map(|c| place.native(c, name, args));
            let mut sides = natives.collect::<Result<Vec<_>>>()?;
            sides.extend(place.guest(&wasm, name, args)?);
            // nvcc contracts in the first native build.
            let contracted = [0, sides.len() - 1];
            let times = match measure(&place, &mut sides, &contracted) {
                Ok(times) => times,
                Err(e) => {
                    println!("{name:8} {work:6} {build:8} failed: {e}");
                    failed = true;
                    continue;
                }
            };
            let guest = times[NATIVES];
            print!("{name:8} {work:6} {build:8}");
            for time in &times[..=NATIVES] {
                print!(" {time:9.3}");
            }
            for native in &times[..NATIVES] {
                print!(" {:7.2}", guest / native);
            }
            print!("  |        ");
            let (parts, kinds) = times[NATIVES + 1..].split_at(times.len() - NATIVES - 1 - KINDS);
            for time in parts {
                print!(" {time:8.3}");
            }
            print!(" |  ");
            let [interleaved, process, both, contracted] = kinds else {
                return Err("another number of kinds".into());
            };
            let to_native = |time: &f64| time / times[0];
            print!(
                " {interleaved:9.3} {process:9.3} {:7.2}",
                to_native(process)
            );
            print!(" {both:9.3} {contracted:9.3} {:7.2}", to_native(contracted));
            let registers = (sides[0].registers()?, sides[NATIVES].registers()?);
            println!(" | {}, {}", registers.0, registers.1);
        }
    }
    match failed {
        true => Err("a program failed".into()),
        false => Ok(()),
    }
}
