//! Images and additions without a GPU: to compile them ahead, to test and to measure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_cache::Cache;
use everwarp_process::{HostConfig, Module, StartError, Tier};
use everwarp_runtime::{Addition, Image};

use crate::code::joining;
use crate::code::supplied::addition;
use crate::code::{CodeKey, CodeSet, CompiledCode};
use crate::config::STACK_BYTES;
use crate::module::CompileChoice;
use crate::partial::Batch;
use crate::program;

/// The image that a host of these modules starts, to compile it without a GPU.
///
/// # Errors
/// [`StartError`]: a module is refused.
#[doc(hidden)]
pub fn image(modules: &[Module], contract: bool) -> Result<Image, StartError> {
    let choice = CompileChoice {
        contract,
        ..CompileChoice::default()
    };
    let code = CodeSet::new(modules, choice, STACK_BYTES, false, |_| 32)?;
    Ok(Image {
        linked: code.linked().clone(),
        ..Image::of(vec![&program::PROGRAM])
    })
}

/// The image of a module with as few functions as possible, and with these batches of others, to compile it without a
/// GPU. `cache` is where earlier programs have noted what was asked for.
///
/// # Errors
/// [`StartError`]: the module is refused.
#[doc(hidden)]
pub fn image_lacking_functions(
    module: &Module,
    batches: &[BTreeSet<u32>],
    cache: &Cache,
) -> Result<Image, StartError> {
    let config = HostConfig {
        tier: Tier::Least,
        ..HostConfig::default()
    };
    let key = CodeKey::of(module, CompileChoice::of(&config));
    let mut set = CodeSet::new(&[], key.choice, STACK_BYTES, false, |_| 32)?;
    let code = CompiledCode::with(module, key, || cache.clone())?.numbered(0);
    for functions in batches {
        if let Some(partial) = &code.partial {
            partial.add(Batch {
                part: partial.part(functions),
                functions: functions.clone(),
            });
            partial.keep();
        }
    }
    set.loaded.push(Arc::new(code));
    Ok(Image {
        linked: set.successor(STACK_BYTES),
        ..Image::of(vec![&program::PROGRAM])
    })
}

/// These batches of the functions that are left out of a module's image, as code that is loaded next to it: to compile it without a
/// GPU. `None` if it cannot be loaded so.
///
/// # Errors
/// [`StartError`]: the module is refused.
#[doc(hidden)]
pub fn addition_to(
    module: &Module,
    batches: &[BTreeSet<u32>],
) -> Result<Option<Addition>, StartError> {
    let config = HostConfig {
        tier: Tier::Least,
        ..HostConfig::default()
    };
    let key = CodeKey::of(module, CompileChoice::of(&config));
    let cache = || Cache::at("/nonexistent".as_ref());
    let code = Arc::new(CompiledCode::with(module, key, cache)?.numbered(0));
    let Some(partial) = &code.partial else {
        return Ok(None);
    };
    let batch = |functions| {
        Some((
            &*code,
            functions,
            partial.part(functions),
            partial.apart(functions)?,
        ))
    };
    let batches: Option<Vec<_>> = batches.iter().map(batch).collect();
    Ok(batches.map(addition))
}

/// An image with these modules in which others can come, and one more module as code that is loaded next to it: to compile both without a
/// GPU. `None` if the module can only come in an image.
///
/// # Errors
/// [`StartError`]: a module is refused.
#[doc(hidden)]
pub fn image_and_module_next_to_it(
    modules: &[Module],
    later: &Module,
    tier: Tier,
) -> Result<(Image, Option<Addition>), StartError> {
    let config = HostConfig {
        tier,
        ..HostConfig::default()
    };
    let set = CodeSet::new(modules, CompileChoice::default(), STACK_BYTES, true, |_| 32)?;
    let image = Image {
        linked: set.linked().clone(),
        ..Image::of(vec![&program::PROGRAM])
    };
    let choice = set.choice_of_later(CompileChoice::of(&config));
    let key = CodeKey::of(later, choice);
    let cache = || Cache::at("/nonexistent".as_ref());
    let code = CompiledCode::with(later, key, cache)?.numbered(set.free_number()?);
    Ok((image, joining::addition(&[Arc::new(code)])))
}

/// What it takes to have the functions of a module come while processes run, for measurements without a GPU.
#[doc(hidden)]
#[derive(Debug)]
pub struct BatchTimes {
    /// To translate the module and to take it apart.
    pub translating: Duration,
    /// Bytes of text of the first functions, and of what stands in for the others.
    pub first_bytes: [usize; 2],
    /// Of each batch the number of its functions, the bytes of its text, and the time to write that.
    pub batches: Vec<(usize, usize, Duration)>,
}

/// Translates a module as for [`Tier::Lazy`], and writes all its batches. `None` if it is so small that nothing is left out.
///
/// # Errors
/// [`StartError`]: the module is refused.
#[doc(hidden)]
pub fn batch_times(module: &Module) -> Result<Option<BatchTimes>, StartError> {
    let config = HostConfig {
        tier: Tier::Lazy,
        ..HostConfig::default()
    };
    let choice = CompileChoice::of(&config).for_module(module);
    // As if a rehearsal had shown no calls.
    let key = CodeKey::with(module, choice, Arc::default());
    let begin = Instant::now();
    // Nothing is noted in the user's cache.
    let code = CompiledCode::with(module, key, || Cache::at("/nonexistent".as_ref()))?;
    let translating = begin.elapsed();
    let Some(partial) = &code.partial else {
        return Ok(None);
    };
    let batch = |functions: &BTreeSet<u32>| {
        let begin = Instant::now();
        let part = partial.part(functions);
        (functions.len(), part.ptx.len(), begin.elapsed())
    };
    let bytes = |n: usize| code.parts.get(n).map_or(0, |part| part.ptx.len());
    Ok(Some(BatchTimes {
        translating,
        first_bytes: [bytes(0), bytes(1)],
        batches: partial.lists().map(batch).collect(),
    }))
}
