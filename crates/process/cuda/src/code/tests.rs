use std::sync::Arc;

use everwarp_cache::Cache;
use everwarp_process::{HostConfig, ImageFile, Module, NativeImage, StartError, Tier};
use everwarp_runtime::{Frames, Linked};

use super::set::KEPT;
use super::stack::FRAME_THOUGHT;
use super::text::{Entry, dispatch};
use super::*;
use crate::config::STACK_BYTES;
use crate::module::{CompileChoice, Likely};

/// A module that lacks as many functions as possible.
pub(crate) fn lacking_functions(module: &Module, cache: &Cache) -> Arc<LoadedCode> {
    let config = HostConfig {
        tier: Tier::Least,
        ..HostConfig::default()
    };
    let key = CodeKey::of(module, CompileChoice::of(&config));
    let code = CompiledCode::with(module, key, || cache.clone());
    Arc::new(code.expect("it compiles").numbered(0))
}

fn module(name: &str, number: u32) -> Module {
    let text = format!(r#"(module (global i32 (i32.const {number})) (func (export "_start")))"#);
    of_text(name, &text)
}

fn of_text(name: &str, text: &str) -> Module {
    let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
    let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
    Module::new(name, wat.encode().expect("it can be encoded")).expect("it is valid")
}

fn set(modules: &[Module]) -> CodeSet {
    let set = CodeSet::new(modules, CompileChoice::default(), 1024, false, |_| 32);
    set.expect("the modules compile")
}

#[test]
fn equal_modules_are_in_the_image_once() {
    let [a, b] = [1, 2].map(|number| module("m", number));
    let mut set = set(&[a.clone(), b.clone(), module("m", 1)]);
    assert_eq!((set.len(), set.linked().parts.len()), (2, 3));
    let find = |set: &mut CodeSet, module: &Module, contract| {
        let choice = CompileChoice {
            contract,
            ..CompileChoice::default()
        };
        set.find(module, choice).map(|code| code.number)
    };
    assert_eq!(find(&mut set, &a, false), Some(0));
    assert_eq!(find(&mut set, &b, false), Some(1));
    assert_eq!(find(&mut set, &module("m", 2), false), Some(1));
    assert_eq!(find(&mut set, &module("other", 2), false), None);
    assert_eq!(find(&mut set, &b, true), None);
}

#[test]
fn machine_code_of_the_first_modules_is_for_an_image_with_these_alone() {
    let file = ImageFile {
        name: "m".to_owned(),
        module: module("m", 1).bytes().clone(),
        images: vec![NativeImage {
            arch: 90,
            key: "k".to_owned(),
            code: b"machine code".to_vec().into(),
        }],
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("m.ewimg");
    std::fs::write(&path, file.to_bytes()).expect("it is writable");
    // SAFETY: nothing runs the machine code.
    let vouched = unsafe { Module::from_file_precompiled(&path) }.expect("it is whole");
    let mut set = set(&[vouched]);
    let keys = |linked: &Linked| -> Vec<_> {
        let codes = linked.precompiled.iter();
        codes.map(|code| code.key.to_string()).collect()
    };
    assert_eq!(keys(set.linked()), ["k"]);
    assert_eq!(keys(&set.successor(2048)), ["k"]);
    let later = module("later", 2);
    let later = CompiledCode::of(&later, CodeKey::of(&later, CompileChoice::default()));
    let later = later.expect("it compiles").numbered(1);
    set.loaded.push(Arc::new(later));
    assert!(keys(&set.successor(2048)).is_empty());
    let plain = Module::from_file(&path).expect("it is whole");
    assert!(keys(self::set(&[plain]).linked()).is_empty());
}

#[test]
fn unused_modules_are_forgotten_and_their_numbers_used_again() {
    let modules: Vec<_> = (0..KEPT as u32 + 3)
        .map(|number| module("m", number))
        .collect();
    let mut set = set(&modules);
    let used = set.find(&modules[1], CompileChoice::default());
    assert!(used.is_some());
    set.forget_unused();
    assert_eq!(set.len(), KEPT + 1);
    assert!(set.find(&modules[0], CompileChoice::default()).is_none());
    assert!(set.find(&modules[1], CompileChoice::default()).is_some());
    // The image still enters the modules that were forgotten by their numbers.
    let next = |set: &CodeSet| set.free_number().expect("there is room");
    assert_eq!(next(&set), KEPT as u32 + 3);
    let linked = set.successor(1024);
    set.has_image(linked);
    assert_eq!(next(&set), 0);
}

#[test]
fn each_module_has_a_branch_of_its_own() {
    let entry = |number, prefix, roots: Option<&str>| Entry {
        number,
        prefix,
        roots: roots.map(str::to_owned),
    };
    let text = dispatch(
        &[entry(0, "ma_", None), entry(7, "mb_", Some("mb_roots"))],
        false,
    );
    assert!(text.contains("@%p bra $B7;\n  call mb_roots, ();\n$B7:\n"));
    assert!(!text.contains("$B0"));
    for expected in ["ma_enter, (c0", "mb_enter, (c0", "%module, 7;", "$M7:"] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(!text.contains("$M1:"));
}

#[test]
fn the_text_of_a_module_is_the_same_whatever_its_number() {
    let [a, b] = [1, 2].map(|number| module("m", number));
    let text = |modules: &[Module]| {
        let mut set = set(modules);
        let code = set.find(&b, CompileChoice::default());
        let code = code.expect("it is in the set");
        (code.number, Arc::clone(&code.parts[0].ptx))
    };
    let (alone, second) = (
        text(std::slice::from_ref(&b)),
        text(&[a.clone(), b.clone()]),
    );
    assert_eq!((alone.0, second.0), (0, 1));
    assert_eq!(alone.1, second.1);
    // Modules that differ in any way have different names.
    let contract = CompileChoice {
        contract: true,
        ..CompileChoice::default()
    };
    let plain = CompileChoice::default();
    let keys = [
        (&a, plain),
        (&b, plain),
        (&b, contract),
        (&module("n", 2), plain),
    ];
    let prefixes = keys.map(|(module, choice)| CodeKey::of(module, choice).prefix());
    let different: std::collections::BTreeSet<_> = prefixes.iter().collect();
    assert_eq!(different.len(), prefixes.len());
}

#[test]
fn the_stack_grows_with_the_frames_of_functions_that_come() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = r#"(module (func (export "_start") (call 1)) (func (loop (call 1))))"#;
    let code = lacking_functions(&of_text("m", text), &Cache::at(folder.path()));
    let prefix = code.module.prefix.clone();
    let (now, most, depth) = (32 << 10, 64 << 10, 48);
    code.nests(depth);
    let mut set = set(&[]);
    set.linked.stack_bytes = now;
    set.loaded.push(code);
    let stack = |bytes: u32| {
        let own = ["f0", "f1"].map(|name| format!("{prefix}{name}"));
        let frames = [("everwarp_engine", 16), (&*own[0], 64), (&*own[1], bytes)];
        let frames = frames.map(|(name, bytes)| (name.into(), bytes));
        set.stack_for(&frames.into_iter().collect(), most)
    };
    // What stands in for the function is small, and the function is thought to need more.
    let missing = stack_use(&Frames::default(), &set.loaded).bytes(depth);
    assert!(missing > u64::from(depth * FRAME_THOUGHT), "{missing}");
    assert_eq!(stack(16).expect("it is enough"), now);
    let grown = stack(1000).expect("there may be more");
    assert!((48_000..=most).contains(&grown), "{grown}");
    let error = stack(2000).expect_err("there may not be so much");
    assert!(
        matches!(error, StartError::Stack { least: 48, .. }),
        "{error}"
    );
}

#[test]
fn an_engine_starts_with_the_stack_that_its_host_will_ask_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = r#"(module (func (export "_start") (call 1)) (func (loop (call 1))))"#;
    let code = lacking_functions(&of_text("m", text), &Cache::at(folder.path()));
    let name = format!("{}f1", code.module.prefix);
    let frames = |bytes| [(&*name, bytes)].map(|(name, bytes)| (name.into(), bytes));
    let [small, large] = [16, 1000].map(|bytes| frames(bytes).into_iter().collect::<Frames>());
    let most = 64 << 10;
    let stack = |frames: &Frames| {
        let mut set = set(&[]);
        set.linked.stack_bytes = STACK_BYTES;
        set.loaded.push(Arc::clone(&code));
        set.expect_stack(None, most);
        let rule = set.linked.stack_rule.clone().expect("there is one");
        set.started(frames);
        assert!(set.linked.stack_rule.is_none() && Arc::strong_count(&code) == 2);
        assert_eq!(set.stack_bytes(), rule.bytes(frames).max(STACK_BYTES));
        let calls = stack_use(frames, &set.loaded);
        assert_eq!(rule.bytes(frames), stack_wanted(&calls, None, most));
        set.stack_bytes()
    };
    assert_eq!(stack(&small), STACK_BYTES);
    assert!((STACK_BYTES + 1..=most).contains(&stack(&large)));
}

#[test]
fn modules_that_cannot_ask_are_whole() {
    let config = HostConfig {
        tier: Tier::Lazy,
        ..HostConfig::default()
    };
    let lazy = CompileChoice::of(&config);
    let plain = module("m", 1);
    assert!(lazy.for_module(&plain).first.is_some());
    // Small modules are whole, and have other names than those that are compiled as a whole in any case.
    let key = CodeKey::with(&plain, lazy, Arc::default());
    let code = CompiledCode::with(&plain, key.clone(), || Cache::at("/nonexistent".as_ref()));
    assert!(code.expect("it compiles").partial.is_none());
    let best = CodeKey::of(&plain, CompileChoice::default());
    assert_ne!(key.prefix(), best.prefix());
    // Without a rehearsal it is one of those.
    assert!(CodeKey::of(&plain, lazy) == best);
    let interleaved = CompileChoice {
        interleaved: true,
        ..lazy
    };
    assert!(interleaved.for_module(&plain).first.is_none());
    let family =
        r#"(module (import "everwarp:gpu" "lane" (func (result i32))) (func (export "_start")))"#;
    assert!(lazy.for_module(&of_text("m", family)).first.is_none());
    let threads =
        r#"(module (import "env" "memory" (memory 1 1 shared)) (func (export "_start")))"#;
    assert!(lazy.for_module(&of_text("m", threads)).first.is_none());
}

#[test]
fn code_with_more_functions_serves_processes_that_need_fewer() {
    let lazy = CompileChoice::of(&HostConfig {
        tier: Tier::Lazy,
        ..HostConfig::default()
    });
    let least = CompileChoice::of(&HostConfig {
        tier: Tier::Least,
        ..HostConfig::default()
    });
    let likely = |functions: &[u32]| {
        let functions = functions.iter().copied().collect();
        Arc::new(Likely {
            functions,
            ..Likely::default()
        })
    };
    let plain = module("m", 1);
    let key = |choice, functions| CodeKey::with(&plain, choice, likely(functions));
    let best = key(CompileChoice::default(), &[]);
    let (some, others) = (key(lazy, &[1]), key(lazy, &[2]));
    assert!(best.serves(&some) && some.serves(&others) && some.serves(&some));
    assert!(!some.serves(&best) && best.serves(&best));
    // Tests ask for as few functions as possible.
    let few = key(least, &[]);
    assert!(few.serves(&few) && !best.serves(&few) && !some.serves(&few) && !few.serves(&some));
    let contract = CompileChoice {
        contract: true,
        ..lazy
    };
    assert!(!best.serves(&key(contract, &[1])) && !some.serves(&key(contract, &[1])));
    for other in [module("m", 2), module("n", 1)] {
        let other = CodeKey::with(&other, lazy, likely(&[1]));
        assert!(!some.serves(&other) && !best.serves(&other));
    }
}

#[test]
fn frames_of_other_modules_do_not_count() {
    let mut set = set(&[module("a", 1), module("b", 2)]);
    let [a, b] = [module("a", 1), module("b", 2)].map(|module| {
        set.find(&module, CompileChoice::default())
            .expect("it is there")
    });
    let [of_a, of_b] =
        [(&a, "f1"), (&b, "f3")].map(|(code, name)| format!("{}{name}", code.module.prefix));
    let frames = [("everwarp_engine", 64), (&*of_a, 96), (&*of_b, 400)];
    let frames: Frames = frames
        .map(|(name, bytes)| (name.into(), bytes))
        .into_iter()
        .collect();
    let bytes = |codes: &[Arc<LoadedCode>]| stack_use(&frames, codes).bytes(0);
    assert_eq!(bytes(&[]), (12 * 64_u64).next_multiple_of(1024));
    assert_eq!(bytes(&[a]), (12 * 64 + 2 * 96_u64).next_multiple_of(1024));
}
