//! Modules that wasmtime has compiled, from the cache on disk where they are in it.

use std::hash::Hash;
use std::time::{Duration, Instant};

use everwarp_cache::{Cache, Key, Kind};
use everwarp_process::LoadError;
use wasmtime::{Engine, Module};

use crate::child_compiler::{self, Form};

/// A module is kept if compiling it took at least this long. Reading an entry of a small module takes nearly as long as
/// compiling it, and test suites would fill the folder with thousands of them.
const WORTH_KEEPING: Duration = Duration::from_millis(10);

/// Compiles a module, or takes it from the user's cache. An engine with other settings, or of another version of
/// wasmtime, has entries of its own.
pub(crate) fn compiled(
    engine: &Engine,
    form: Form,
    name: &str,
    bytes: &[u8],
) -> Result<Module, LoadError> {
    compiled_in(&Cache::user(), engine, form, name, bytes)
}

fn compiled_in(
    cache: &Cache,
    engine: &Engine,
    form: Form,
    name: &str,
    bytes: &[u8],
) -> Result<Module, LoadError> {
    let failed = |error: wasmtime::Error| LoadError::Compile(format!("{error:#}"));
    let key = key(engine, bytes);
    if let Some(code) = cache.read(Kind::Module, &key) {
        // SAFETY: the cache returns only what a process of this user has written, whole and unchanged: it checks the
        // owner and the permissions of file and folder, and a hash. All that everwarp writes under this kind is the
        // result of `Module::serialize`.
        match unsafe { Module::deserialize(engine, &code) } {
            Ok(module) => return Ok(module),
            // The entry is of no use on this machine, although the key says that it is.
            Err(_) => cache.forget(Kind::Module, &key),
        }
    }
    let keep = |code: &[u8]| {
        if let Err(reason) = cache.write(Kind::Module, &key, name, code) {
            reason.warn();
        }
    };
    if let Some(code) = child_compiler::compile(form, bytes) {
        let code = code?;
        keep(&code);
        // SAFETY: the result of `Module::serialize` in a child of this process that runs the same program, through a pipe that
        // no other process has.
        return unsafe { Module::deserialize(engine, &code) }.map_err(failed);
    }
    let begin = Instant::now();
    let module = Module::from_binary(engine, bytes).map_err(failed)?;
    if begin.elapsed() >= WORTH_KEEPING
        && let Ok(code) = module.serialize()
    {
        keep(&code);
    }
    Ok(module)
}

fn key(engine: &Engine, bytes: &[u8]) -> String {
    let mut key = Key::new();
    engine.precompile_compatibility_hash().hash(&mut key);
    key.with(bytes).text()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::engines::{EnginePair, Metering, Stack};

    /// A module with enough code that it is kept.
    fn large() -> Vec<u8> {
        let mut text = String::from("(module");
        for function in 0..2000 {
            let _ = write!(
                text,
                "(func (export \"f{function}\") (param i32) (result i32) (local i32)
                   (loop (local.set 1 (i32.add (local.get 1) (i32.mul (local.get 0) (i32.const {function}))))
                     (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
                   (local.get 1))"
            );
        }
        wat::parse_str(text + ")").expect("it is a module")
    }

    #[test]
    fn a_module_is_compiled_once_for_each_way_of_metering() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(folder.path());
        let bytes = large();
        let metering = [Metering::EpochOnly, Metering::Fuel];
        let [epoch, fuel] = metering.map(|metering| {
            let pair =
                EnginePair::get(metering, Stack::of(None)).expect("this machine is supported");
            pair.mapped()
        });
        let compile = |engine| {
            let form = Form::Many {
                metering: Metering::Fuel,
                stack: Stack::of(None),
            };
            let module = compiled_in(&cache, engine, form, "large", &bytes).expect("it compiles");
            assert_eq!(module.exports().count(), 2000);
        };
        let labels = || {
            let entries = cache.entries().expect("the folder can be read");
            entries.into_iter().map(|e| e.label).collect::<Vec<_>>()
        };
        compile(epoch);
        assert_eq!(labels(), ["large"]);
        compile(epoch);
        assert_eq!(labels().len(), 1);
        compile(fuel);
        assert_eq!(labels().len(), 2);

        // An entry that wasmtime does not take is replaced.
        let key = key(epoch, &bytes);
        let written = cache.write(Kind::Module, &key, "wrong", b"not what wasmtime wrote");
        written.expect("the folder is writable");
        compile(epoch);
        let code = cache.read(Kind::Module, &key).expect("it was kept again");
        assert!(code.len() > 10_000, "{}", code.len());
    }
}
