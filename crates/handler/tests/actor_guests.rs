//! The guests of `guests/actors`: the same account in Rust, in C and in text, and the chapter that shows them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everwarp_actor::{ActorConfig, ActorSystem, Value};
use everwarp_handler::{ActorModule, program_of};
use everwarp_runtime::{Device, Select};
use sha2::{Digest, Sha256};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
fn chapter() -> String {
    let path = top().join("docs/actor-modules.md");
    std::fs::read_to_string(path).expect("the chapter is there")
}
/// The blocks of code of the chapter in a language.
fn blocks(language: &str) -> Vec<String> {
    let chapter = chapter();
    let begin = format!("```{language}\n");
    let parts = chapter.split(&begin).skip(1);
    parts
        .map(|part| part.split("```").next().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn modules_are_built_from_the_sources_that_are_there() {
    let folder = top().join("guests/actors");
    let list = std::fs::read_to_string(folder.join("built/SOURCES")).expect("the list is there");
    for line in list.lines() {
        let (hash, name) = line.split_once("  ").expect("a hash and a name");
        let bytes = std::fs::read(folder.join(name)).expect("a listed source is there");
        let digest = Sha256::digest(bytes);
        let now: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(now, hash, "{name} has changed: run guests/actors/build");
    }
    for name in [
        "account.c",
        "everwarp_actor.h",
        "actor/src/lib.rs",
        "account/src/lib.rs",
        "member/src/lib.rs",
        "metronome.c",
        "metronome/src/lib.rs",
    ] {
        assert!(
            list.contains(&format!("  {name}\n")),
            "{name} is not listed"
        );
    }
}

#[test]
fn chapter_shows_the_guests_as_they_are() {
    for (language, file) in [
        ("rust,ignore", "guests/actors/account/src/lib.rs"),
        ("c", "guests/actors/account.c"),
    ] {
        let source = std::fs::read_to_string(top().join(file)).expect("it is there");
        assert!(blocks(language).contains(&source), "{file}");
    }
}

fn built(name: &str) -> Vec<u8> {
    let path = top().join("guests/actors/built").join(name);
    std::fs::read(path).expect("it is built")
}

#[test]
fn metronomes_in_rust_and_c_have_timers_and_ask_within_a_time() {
    let modules = ["metronome.wasm", "metronome_c.wasm"]
        .map(|name| ActorModule::new(name, built(name)).expect("it is a kind"));
    let program = program_of("orchestra", &modules).expect("they agree about the messages");
    let device = Device::open(Select::Cpu).expect("it opens");
    let engine = device.engine().program(program.program());
    let engine = engine.start().expect("it starts");
    let system = ActorSystem::start(&engine, &program, ActorConfig::default()).expect("it starts");
    let tell = |actor, name: &str, values: &[Value]| {
        system.tell_named(actor, name, values).expect("it lives");
        system.settle().expect("it settles");
    };
    let until = |actor, name: &str, wanted: Value| {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let found = system.ask_named(actor, name, &[]).expect("it lives");
            if found == [wanted] {
                return;
            }
            assert!(Instant::now() < end, "{name} is {found:?}, not {wanted:?}");
            std::thread::yield_now();
        }
    };
    let hour = Value::U64(3_600_000_000_000);
    for kind in 0..2 {
        let actor = system.launch(kind).expect("there is room");
        let other = system.launch(1 - kind).expect("there is room");
        tell(actor, "begin", &[Value::U64(1_000_000), Value::U64(5)]);
        until(actor, "ticks", Value::U32(3));
        tell(actor, "once", &[Value::U64(1), Value::U64(100)]);
        until(actor, "sum", Value::U64(115));
        tell(other, "listen", &[Value::Actor(actor), hour]);
        until(other, "heard", Value::U32(4));
        system.deactivate(&[actor]).expect("it lives");
        tell(other, "listen", &[Value::Actor(actor), Value::U64(1)]);
        until(other, "heard", Value::U32(1005));
        system.activate(&[actor]).expect("it lives");
    }
    assert_eq!(system.failures().1, 0);
}

#[test]
fn accounts_in_rust_c_and_text_pay_each_other() {
    let text = blocks("wat").remove(0);
    let text = wat::parse_str(text).expect("it is WebAssembly text");
    // In text the fields have no names, and their types are those of WebAssembly.
    let named = |name: &str, bytes: Vec<u8>| ActorModule::new(name, bytes).expect("it is a kind");
    let modules = [
        named("rust", built("account.wasm")),
        named("c", built("account_c.wasm")),
        named("text", text),
    ];
    let program = program_of("bank", &modules).expect("they agree about the messages");
    assert!(program.kinds[0].state_bytes <= 64, "the stack is scratch");
    let device = Device::open(Select::Cpu).expect("it opens");
    let engine = device.engine().program(program.program());
    let engine = engine.start().expect("it starts");
    let bank = ActorSystem::start(&engine, &program, ActorConfig::default()).expect("it starts");
    let accounts: Vec<_> = (0..300)
        .map(|i| bank.launch(i % 3).expect("there is room"))
        .collect();
    for account in &accounts {
        bank.tell_named(*account, "deposit", &[Value::U64(1000)])
            .expect("it lives");
    }
    let mut expected = vec![1000; accounts.len()];
    for (i, account) in accounts.iter().enumerate() {
        for k in 1..10 {
            let (to, amount) = ((i * 7 + k * 31) % accounts.len(), (i % 5 + k) as u64);
            expected[i] -= amount;
            expected[to] += amount;
            let pay = [Value::Actor(accounts[to]), Value::U64(amount)];
            bank.tell_named(*account, "pay", &pay).expect("it lives");
        }
    }
    bank.settle().expect("it settles");
    let left = |account| match bank.ask_named(account, "balance", &[]) {
        Ok(values) => match values[..] {
            [Value::U64(left)] => left,
            _ => panic!("{values:?}"),
        },
        Err(error) => panic!("{error}"),
    };
    let balances: Vec<u64> = accounts.iter().map(|account| left(*account)).collect();
    assert_eq!(balances, expected);
    // Those with a check refuse to pay what they do not have, and fail.
    for account in &accounts[..2] {
        let pay = [Value::Actor(accounts[5]), Value::U64(1_000_000)];
        bank.tell_named(*account, "pay", &pay).expect("it lives");
    }
    bank.settle().expect("it settles");
    let (failures, count) = bank.failures();
    assert_eq!(count, 2);
    assert!(
        failures.iter().all(|f| f.reason.contains("`fail`")),
        "{failures:?}"
    );
}
