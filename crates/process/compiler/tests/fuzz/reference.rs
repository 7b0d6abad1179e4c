//! Runs modules in wasmtime, the reference implementation.

use std::sync::OnceLock;

use everwarp_compiler::TrapKind;
use rand_chacha::ChaCha8Rng;
use wasmtime::{Config, Engine, ExternType, Func, Instance, Module, Store, Val, ValType};

use crate::generate::{number, order};
use crate::seen::{Call, Seen};

/// The engine makes every NaN canonical, as the compiler does.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = Config::new();
        config.cranelift_nan_canonicalization(true);
        Engine::new(&config).expect("wasmtime supports this machine")
    })
}

fn trap(error: &wasmtime::Error) -> Result<TrapKind, String> {
    use wasmtime::Trap as W;
    Ok(match error.downcast_ref::<W>() {
        Some(W::UnreachableCodeReached) => TrapKind::Unreachable,
        Some(W::IntegerDivisionByZero) => TrapKind::DivideByZero,
        Some(W::IntegerOverflow) => TrapKind::IntegerOverflow,
        Some(W::BadConversionToInteger) => TrapKind::InvalidConversion,
        Some(W::MemoryOutOfBounds) => TrapKind::MemoryOutOfBounds,
        Some(W::TableOutOfBounds) => TrapKind::TableOutOfBounds,
        Some(W::IndirectCallToNull) => TrapKind::UninitializedElement,
        Some(W::BadSignature) => TrapKind::IndirectCallTypeMismatch,
        Some(W::StackOverflow) => TrapKind::StackExhausted,
        _ => return Err(format!("{error:#}")),
    })
}

/// A random value of this type, as wasmtime takes it and as slots.
fn argument(ty: &ValType, random: &mut ChaCha8Rng, slots: &mut Vec<u64>) -> Result<Val, String> {
    let mut slot = |n: u64| {
        slots.push(n);
        n
    };
    let low = number(random);
    Ok(match ty {
        ValType::I32 => Val::I32(slot(low & 0xffff_ffff) as i32),
        ValType::I64 => Val::I64(slot(low) as i64),
        ValType::F32 => Val::F32(slot(low >> 32) as u32),
        ValType::F64 => Val::F64(slot(low)),
        ValType::V128 => {
            let (low, high) = (slot(low), slot(number(random)));
            Val::V128((u128::from(high) << 64 | u128::from(low)).into())
        }
        ValType::Ref(ty) if ty.heap_type().is_func() => {
            slot(0);
            Val::FuncRef(None)
        }
        other => return Err(format!("a parameter of type {other}")),
    })
}

/// The bits of a value; for a reference, whether it is not null.
pub(crate) fn bits(value: &Val) -> Result<u128, String> {
    Ok(match value {
        Val::I32(v) => u128::from(*v as u32),
        Val::I64(v) => u128::from(*v as u64),
        Val::F32(v) => u128::from(*v),
        Val::F64(v) => u128::from(*v),
        Val::V128(v) => v.as_u128(),
        Val::FuncRef(v) => u128::from(v.is_some()),
        other => return Err(format!("the value {other:?}")),
    })
}

fn slots(values: &[Val]) -> Result<Vec<u64>, String> {
    let mut all = Vec::new();
    for value in values {
        let bits = bits(value)?;
        all.push(bits as u64);
        if matches!(value, Val::V128(_)) {
            all.push((bits >> 64) as u64);
        }
    }
    Ok(all)
}

fn call(
    store: &mut Store<()>,
    name: &str,
    f: Func,
    random: &mut ChaCha8Rng,
) -> Result<Call, String> {
    let ty = f.ty(&*store);
    let mut args = Vec::new();
    let values = ty.params().map(|ty| argument(&ty, random, &mut args));
    let values: Vec<_> = values.collect::<Result<_, _>>()?;
    let mut results = vec![Val::I32(0); ty.results().len()];
    let result = match f.call(&mut *store, &values, &mut results) {
        Ok(()) => Ok(slots(&results)?),
        Err(e) => Err(trap(&e)?),
    };
    Ok(Call {
        name: name.to_owned(),
        args,
        result,
    })
}

/// Records the state of an instance after its last call.
fn look(
    store: &mut Store<()>,
    module: &Module,
    instance: &Instance,
    seen: &mut Seen,
) -> Result<(), String> {
    for export in module.exports() {
        let name = export.name();
        let exported = "the module has this export";
        match export.ty() {
            ExternType::Memory(_) => {
                let memory = instance.get_memory(&mut *store, name).expect(exported);
                seen.memory = memory.data(&*store).to_vec();
            }
            ExternType::Global(_) => {
                let global = instance.get_global(&mut *store, name).expect(exported);
                let bits = bits(&global.get(&mut *store))?;
                seen.globals.push((name.to_owned(), bits));
            }
            ExternType::Table(_) => {
                let table = instance.get_table(&mut *store, name).expect(exported);
                seen.tables.push((name.to_owned(), table.size(&*store)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Instantiates a module and calls its functions in the order that the seed determines, in a fresh instance after each
/// trap. An error says why the module cannot be compared.
pub(crate) fn run(bytes: &[u8], seed: u64) -> Result<Vec<Seen>, String> {
    let module = Module::new(engine(), bytes).map_err(|e| {
        let text = e.root_cause().to_string();
        // The message contains the position, which differs between modules.
        match text.contains("requires gc") {
            true => "an external reference".to_owned(),
            false => text,
        }
    })?;
    let exports = module.exports();
    let functions = exports.filter(|e| matches!(e.ty(), ExternType::Func(_)));
    let functions: Vec<_> = functions.map(|e| e.name().to_owned()).collect();
    let (order, mut random) = order(seed, functions.len());
    let (mut lives, mut order) = (Vec::new(), order.into_iter().peekable());
    while order.peek().is_some() {
        let mut store = Store::new(engine(), ());
        let mut seen = Seen::default();
        let instance = match Instance::new(&mut store, &module, &[]) {
            Ok(instance) => instance,
            Err(e) => {
                seen.instantiated = Some(trap(&e)?);
                lives.push(seen);
                break;
            }
        };
        for n in order.by_ref() {
            let f = instance.get_func(&mut store, &functions[n]);
            let f = f.expect("the module has this export");
            let call = call(&mut store, &functions[n], f, &mut random)?;
            let trapped = call.result.is_err();
            seen.calls.push(call);
            if trapped {
                break;
            }
        }
        look(&mut store, &module, &instance, &mut seen)?;
        lives.push(seen);
    }
    Ok(lives)
}
