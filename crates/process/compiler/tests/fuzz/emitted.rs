//! Runs the compiler's code, without suspensions or suspended and resumed repeatedly.

use core::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_compiler::{
    CallState, CompileError, CompileOptions, Compiled, DevInstance, DevSuspension, Export,
    InstanceLimits, InstantiateError, NoImports, PAGE, TrapKind, UNIT, UNIT_STRIDE, ValueType,
    compile,
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
}

impl Way {
    fn of(seed: u64) -> Self {
        match seed % 4 {
            0 => Self::Suspendable,
            1 => Self::Plain,
            _ => Self::Preempted((seed / 4 % 23) as i64 + 1),
        }
    }

    /// Makes the instance suspend itself once it has spent the fuel for [`Way::Preempted`].
    fn prepare(self, process: &Process) -> Result<(), String> {
        let Self::Preempted(every) = self else {
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
                _ => return Err(format!("{state:?} after {ended:?}")),
            }
            self.prepare(process)?;
            // A resumed call ignores its arguments.
            ended = process.call(function, &[!0; 8])?;
        }
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
) -> Result<Result<Process, TrapKind>, String> {
    let limits = InstanceLimits { depth, ..LIMITS };
    let initial = match compiled.instantiate(&NoImports, &limits) {
        Ok(initial) => initial,
        Err(InstantiateError::Trap { trap, .. }) => return Ok(Err(trap)),
        Err(e) => return Err(e.to_string()),
    };
    let mut process = Process::new(compiled, machine, "", &initial)?;
    if let Some(start) = compiled.start()
        && let Err(trapped) = way.call(&mut process, start, &[])?
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
        interleaved: seed / 4 % 2 == 1,
        // A third of them, so short that something can be divided.
        divide: seed
            .is_multiple_of(3)
            .then_some(150 + (seed / 3 % 8) as usize * 200),
        ..CompileOptions::default()
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
        .load("", &compiled.ptx, &[], levels * LIMITS.depth);
    let depth = loaded?;
    let function = |(name, export)| match export {
        Export::Function(f) => Some((name, f)),
        _ => None,
    };
    let functions: Vec<(&str, u32)> = compiled.exports().filter_map(function).collect();
    let (order, mut random) = order(seed, functions.len());
    let (mut lives, mut order) = (Vec::new(), order.into_iter().peekable());
    while order.peek().is_some() {
        let mut seen = Seen::default();
        let mut process = match instantiate(compiled, &machine, depth, way)? {
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
            let result = match way.call(&mut process, function, &args)? {
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
    match depth < levels * LIMITS.depth && lives.iter().any(Seen::has_exhausted_its_stack) {
        true => Err(Failure::Refused(
            "calls that nest deeper than the machine's stack".to_owned(),
        )),
        false => Ok(lives),
    }
}
