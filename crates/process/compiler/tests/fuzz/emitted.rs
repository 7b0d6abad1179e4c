//! Runs the compiler's code, without suspensions or suspended and resumed repeatedly; also with images that lack functions, which are
//! exchanged for others at random, and with frames that move from the stack to memory.

use core::mem::offset_of;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_compiler::{
    CallState, CompileError, CompileOptions, Compiled, DevInstance, DevSuspension, Export,
    InstanceLimits, InstantiateError, NoImports, PAGE, PTX_HEAD, TrapKind, UNIT, UNIT_STRIDE,
    ValueType, compile,
};

use crate::generate::{number, order};
use crate::seen::{Call, Seen};
use crate::support::instance::{Process, Trapped};
use crate::support::machine::{SharedMachine, chosen};

/// Limits that no generated module can reach.
const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 4,
    table_elements: 64,
    fuel: 1 << 30,
    depth: 400,
};

/// The number of all suspensions.
pub(crate) static SUSPENSIONS: AtomicU64 = AtomicU64::new(0);

/// The number of all images that instances have got.
pub(crate) static IMAGES: AtomicU64 = AtomicU64::new(0);

/// After this many images an instance gets one with all functions.
const IMAGES_MOST: u64 = 30;

/// Bytes of memory for frames that the stack does not hold.
const DEEP_BYTES: u64 = 1 << 16;

/// Why a module's results cannot be compared.
pub(crate) enum Failure {
    /// The compiler does not support the module.
    Refused(String),
    /// A step that should have succeeded failed.
    Broken(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

fn is_reference(ty: ValueType) -> bool {
    !matches!(
        ty,
        ValueType::I32 | ValueType::I64 | ValueType::F32 | ValueType::F64 | ValueType::V128
    )
}

/// Random arguments of these types, drawn in the same order as in the reference.
fn arguments(types: &[ValueType], random: &mut rand_chacha::ChaCha8Rng) -> Vec<u64> {
    let mut all = Vec::new();
    for ty in types {
        let low = number(random);
        match ty {
            ValueType::I32 => all.push(low & 0xffff_ffff),
            ValueType::F32 => all.push(low >> 32),
            ValueType::V128 => all.extend([low, number(random)]),
            ty if is_reference(*ty) => all.push(0),
            _ => all.push(low),
        }
    }
    all
}

/// The fuel at the start of a call that is to be preempted, without the units up to the preemption. It is a multiple
/// of the interval, so that the slice is read once those units have been spent.
const PLENTY: i64 = 1 << 50;

/// How a module is compiled and called.
#[derive(Clone, Copy)]
enum Way {
    /// The module is compiled as one that cannot be suspended.
    Plain,
    /// The module could be suspended, but never is.
    Suspendable,
    /// The module is suspended each time it has passed this number of safepoints.
    Preempted(i64),
    /// The same, with images that lack functions and are exchanged at some preemptions. Calls nest this deep on the stack; `None`
    /// if they nest no deeper than that.
    Lazy { every: i64, deep: Option<u32> },
}

impl Way {
    fn of(seed: u64) -> Self {
        let every = (seed / 8 % 23) as i64 + 1;
        match seed % 8 {
            0 | 4 => Self::Suspendable,
            1 | 5 => Self::Plain,
            2 | 6 => Self::Preempted(every),
            3 => Self::Lazy { every, deep: None },
            _ => Self::Lazy {
                every,
                deep: Some(8 + (seed / 8 % 5) as u32 * 8),
            },
        }
    }

    /// How deep calls nest on the stack.
    fn depth(self) -> u32 {
        match self {
            Self::Lazy {
                deep: Some(deep), ..
            } => deep,
            _ => LIMITS.depth,
        }
    }

    /// Makes the instance suspend itself once it has spent the fuel for [`Way::Preempted`].
    fn prepare(self, process: &Process) -> Result<(), String> {
        let (Self::Preempted(every) | Self::Lazy { every, .. }) = self else {
            return Ok(());
        };
        let layout = &process.compiled.layout;
        let record = layout.suspension.ok_or("the module cannot be preempted")?;
        let slice = process.block + (record + offset_of!(DevSuspension, slice)) as u64;
        let fuel = process.block + offset_of!(DevInstance, fuel) as u64;
        let mut machine = process.machine.borrow_mut();
        machine.write(slice, &1u32.to_le_bytes())?;
        machine.write(fuel, &(PLENTY + every).to_le_bytes())
    }

    /// Calls a function, and resumes it until it returns or traps.
    fn call(
        self,
        process: &mut Process,
        images: &mut Images,
        function: u32,
        args: &[u64],
    ) -> Result<Result<Vec<u64>, Trapped>, String> {
        self.prepare(process)?;
        let mut ended = process.call(function, args)?;
        loop {
            let at = process.block + offset_of!(DevInstance, state) as u64;
            let state = process.machine.borrow_mut().number(at, 4)?;
            let state = CallState::from_code(state as u32).ok_or("an unknown state")?;
            match (self, state) {
                (_, CallState::Ended) => return Ok(ended),
                (Self::Preempted(_), CallState::Preempted) if ended.is_ok() => {
                    SUSPENSIONS.fetch_add(1, Ordering::Relaxed);
                }
                (Self::Lazy { .. }, CallState::Preempted) if ended.is_ok() => {
                    SUSPENSIONS.fetch_add(1, Ordering::Relaxed);
                    if images.below(4) == 0 {
                        images.exchange(process, None)?;
                    }
                }
                (Self::Lazy { .. }, CallState::Missing) if ended.is_ok() => {
                    let at = process.block + offset_of!(DevInstance, trap_function) as u64;
                    let missing = process.machine.borrow_mut().number(at, 4)? as u32;
                    if !process.compiled.missing().contains(&missing) {
                        return Err(format!("function {missing} is not missing"));
                    }
                    images.exchange(process, Some(missing))?;
                }
                _ => return Err(format!("{state:?} after {ended:?}")),
            }
            self.prepare(process)?;
            // A resumed call ignores its arguments.
            ended = process.call(function, &[!0; 8])?;
        }
    }
}

/// Makes the images of an instance.
struct Images {
    bytes: Vec<u8>,
    options: CompileOptions,
    random: u64,
    made: u64,
    depth: u32,
}

impl Images {
    fn below(&mut self, n: u64) -> u64 {
        // Knuth's linear congruential generator, as in the tests of suspension.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % n
    }

    /// Gives an instance another image: with this function, if one is given, and others at random.
    fn exchange(&mut self, process: &mut Process, function: Option<u32>) -> Result<(), String> {
        let all = 0..process.compiled.function_count();
        self.options.only = Some(match self.made < IMAGES_MOST {
            true => all
                .filter(|f| Some(*f) == function || self.below(3) == 0)
                .collect(),
            false => all.collect(),
        });
        self.made += 1;
        IMAGES.fetch_add(1, Ordering::Relaxed);
        self.options.prefix = format!("image{}_", self.made);
        let compiled = compile(&self.bytes, &self.options).map_err(|e| e.to_string())?;
        let compiled: &'static Compiled = Box::leak(Box::new(compiled));
        let text = compiled.ptx.strip_prefix(PTX_HEAD).ok_or("no head")?;
        let mut machine = process.machine.borrow_mut();
        machine.load(&self.options.prefix, text, &[], self.depth)?;
        drop(machine);
        (process.compiled, process.prefix) = (compiled, self.options.prefix.clone());
        Ok(())
    }
}

/// Results in the form of the reference implementation: for a reference type, whether the value is not null.
fn results(types: &[ValueType], slots: &[u64]) -> Vec<u64> {
    let mut slots = slots.iter().copied();
    let mut all = Vec::new();
    for ty in types {
        let values = slots.by_ref().take(ty.slots());
        all.extend(values.map(|v| match is_reference(*ty) {
            true => u64::from(v != 0),
            false => v,
        }));
    }
    all
}

/// Records the state of an instance after its last call.
fn look(process: &mut Process, seen: &mut Seen) -> Result<(), String> {
    let compiled = process.compiled;
    for (name, export) in compiled.exports() {
        match export {
            Export::Memory if seen.memory.is_empty() => {
                let bytes = process.memory_pages()? * PAGE;
                let at = process.block + offset_of!(DevInstance, memory) as u64;
                let mut machine = process.machine.borrow_mut();
                let at = machine.number(at, 8)?;
                seen.memory = vec![0; bytes as usize];
                if compiled.interleaved() {
                    for (unit, bytes) in (0..).zip(seen.memory.chunks_mut(UNIT as usize)) {
                        machine.read(at + unit * UNIT_STRIDE, bytes)?;
                    }
                } else {
                    machine.read(at, &mut seen.memory)?;
                }
            }
            Export::Global(global) => {
                let (ty, _) = compiled.global_type(global);
                let bits = process.global(global)?;
                let bits = match is_reference(ty) {
                    true => u128::from(bits != 0),
                    false => bits,
                };
                seen.globals.push((name.to_owned(), bits));
            }
            Export::Table(table) => {
                let length = process.table_len(table)?;
                seen.tables.push((name.to_owned(), length));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes an instance and runs its start function. The inner error is its trap.
fn instantiate(
    compiled: &'static Compiled,
    machine: &SharedMachine,
    depth: u32,
    way: Way,
    images: &mut Images,
) -> Result<Result<Process, TrapKind>, String> {
    let limits = InstanceLimits { depth, ..LIMITS };
    let mut initial = match compiled.instantiate(&NoImports, &limits) {
        Ok(initial) => initial,
        Err(InstantiateError::Trap { trap, .. }) => return Ok(Err(trap)),
        Err(e) => return Err(e.to_string()),
    };
    if let Way::Lazy { deep: Some(_), .. } = way
        && compiled.layout.deep.is_some()
    {
        initial.deep_bytes = DEEP_BYTES;
    }
    let mut process = Process::new(compiled, machine, "", &initial)?;
    if let Some(start) = compiled.start()
        && let Err(trapped) = way.call(&mut process, images, start, &[])?
    {
        return Ok(Err(trapped.trap));
    }
    Ok(Ok(process))
}

/// Makes the same calls as the reference.
pub(crate) fn run(bytes: &[u8], seed: u64) -> Result<Vec<Seen>, Failure> {
    let way = Way::of(seed);
    let options = CompileOptions {
        preempt: !matches!(way, Way::Plain),
        // Half of the seeds of every `Way`.
        interleaved: seed / 8 % 2 == 1 && !matches!(way, Way::Lazy { .. }),
        only: matches!(way, Way::Lazy { .. }).then(BTreeSet::new),
        deep: matches!(way, Way::Lazy { deep: Some(_), .. }),
        // A third of them, so short that something can be divided.
        divide: seed
            .is_multiple_of(3)
            .then_some(150 + (seed / 3 % 8) as usize * 200),
        ..CompileOptions::default()
    };
    let mut images = Images {
        bytes: bytes.to_vec(),
        options: options.clone(),
        random: seed,
        made: 0,
        depth: 0,
    };
    let compiled = compile(bytes, &options).map_err(|e| match e {
        CompileError::Unsupported { what, .. } => Failure::Refused(what),
        e => Failure::Broken(e.to_string()),
    })?;
    // A process borrows its module forever; the leak is harmless because a fuzzer is short-lived.
    let compiled: &'static Compiled = Box::leak(Box::new(compiled));
    let machine = chosen();
    // A part takes a level as well, and calls none of the same function.
    let levels = if options.divide.is_some() { 2 } else { 1 };
    let loaded = machine
        .borrow_mut()
        .load("", &compiled.ptx, &[], levels * way.depth());
    let depth = loaded?;
    images.depth = levels * way.depth();
    let function = |(name, export)| match export {
        Export::Function(f) => Some((name, f)),
        _ => None,
    };
    let functions: Vec<(&str, u32)> = compiled.exports().filter_map(function).collect();
    let (order, mut random) = order(seed, functions.len());
    let (mut lives, mut order) = (Vec::new(), order.into_iter().peekable());
    while order.peek().is_some() {
        let mut seen = Seen::default();
        let mut process = match instantiate(compiled, &machine, depth, way, &mut images)? {
            Ok(process) => process,
            Err(trap) => {
                seen.instantiated = Some(trap);
                lives.push(seen);
                break;
            }
        };
        for n in order.by_ref() {
            let (name, function) = functions[n];
            let ty = compiled.function_type(function);
            let args = arguments(&ty.params, &mut random);
            let result = match way.call(&mut process, &mut images, function, &args)? {
                Ok(slots) => Ok(results(&ty.results, &slots)),
                Err(trapped) => Err(trapped.trap),
            };
            let trapped = result.is_err();
            let name = name.to_owned();
            seen.calls.push(Call { name, args, result });
            if trapped {
                break;
            }
        }
        look(&mut process, &mut seen)?;
        lives.push(seen);
    }
    // A GPU's stack may be too small for calls that succeed in the reference.
    let shallow = depth < levels * way.depth();
    // Frames that move to memory count in bytes, and calls of the reference by their number.
    let deep = options.deep;
    match (shallow || deep) && lives.iter().any(Seen::has_exhausted_its_stack) {
        true => Err(Failure::Refused(
            "calls that nest deeper than the machine's stack".to_owned(),
        )),
        false => Ok(lives),
    }
}
