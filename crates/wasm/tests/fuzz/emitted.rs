//! What the compiler's code does.

use everwarp_wasm::{
    CompileError, CompileOptions, Compiled, DevInstance, Export, InstanceLimits, InstantiateError,
    NoImports, PAGE, Trap, ValueType, compile,
};

use crate::generate::{number, order};
use crate::seen::{Call, Seen};
use crate::support::instance::Process;
use crate::support::machine::{SharedMachine, chosen};

/// More than any generated module can use.
const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 4,
    table_elements: 64,
    fuel: 1 << 30,
    depth: 400,
};

/// Why nothing can be compared.
pub(crate) enum Failure {
    /// The compiler does not support the module.
    Refused(String),
    /// It should work and does not.
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

/// Arguments of these types, drawn as the reference draws them.
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

/// Results as the reference has them: of a reference, whether it is one.
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

/// What an instance is like behind its last call.
fn look(process: &mut Process, seen: &mut Seen) -> Result<(), String> {
    let compiled = process.compiled;
    for (name, export) in compiled.exports() {
        match export {
            Export::Memory if seen.memory.is_empty() => {
                let bytes = process.memory_pages()? * PAGE;
                let at = process.block + core::mem::offset_of!(DevInstance, memory) as u64;
                let mut machine = process.machine.borrow_mut();
                let at = machine.number(at, 8)?;
                seen.memory = vec![0; bytes as usize];
                machine.read(at, &mut seen.memory)?;
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

/// An instance behind its start function, or how it trapped.
fn instantiate(
    compiled: &'static Compiled,
    machine: &SharedMachine,
    depth: u32,
) -> Result<Result<Process, Trap>, String> {
    let limits = InstanceLimits { depth, ..LIMITS };
    let initial = match compiled.instantiate(&NoImports, &limits) {
        Ok(initial) => initial,
        Err(InstantiateError::Trap { trap, .. }) => return Ok(Err(trap)),
        Err(e) => return Err(e.to_string()),
    };
    let mut process = Process::new(compiled, machine, "", &initial)?;
    if let Some(start) = compiled.start()
        && let Err(trapped) = process.call(start, &[])?
    {
        return Ok(Err(trapped.trap));
    }
    Ok(Ok(process))
}

/// The same as the reference does.
pub(crate) fn run(bytes: &[u8], seed: u64) -> Result<Vec<Seen>, Failure> {
    let compiled = compile(bytes, &CompileOptions::default()).map_err(|e| match e {
        CompileError::Unsupported { what, .. } => Failure::Refused(what),
        e => Failure::Broken(e.to_string()),
    })?;
    // Processes keep what they were made from; a fuzzer's end soon.
    let compiled: &'static Compiled = Box::leak(Box::new(compiled));
    let machine = chosen();
    let loaded = machine
        .borrow_mut()
        .load("", &compiled.ptx, &[], LIMITS.depth);
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
        let mut process = match instantiate(compiled, &machine, depth)? {
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
            let result = match process.call(function, &args)? {
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
    Ok(lives)
}
