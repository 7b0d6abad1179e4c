//! Actors whose handlers are modules, on the CPU engine.

use everwarp_actor::{
    ActorConfig, ActorError, ActorId, ActorProgram, ActorSystem, DeadReason, FieldType, Tell, Value,
};
use everwarp_handler::{ActorModule, program_of};
use everwarp_runtime::{Device, Engine, Select};

/// Adds numbers; `burst` sends them on one by one; the other messages break rules.
const NODE: &str = r#"(module
  (@custom "everwarp.actor" "sends 4\nfuel 100000\nmailbox 100\nmessage add n:u64\nmessage sum -> sum:u64\n")
  (import "everwarp:tell" "add" (func $add (param i64 i64)))
  (import "everwarp:tell" "burst" (func $again (param i64 i64 i64)))
  (import "everwarp:try_tell" "add" (func $try_add (param i64 i64) (result i32)))
  (import "everwarp:ask" "sum" (func $ask_sum (param i64 i32)))
  (import "everwarp:spawn" "node" (func $spawn (result i64)))
  (import "everwarp:actor" "self" (func $self (result i64)))
  (import "everwarp:actor" "forward" (func $forward (param i64)))
  (import "everwarp:actor" "fail" (func $fail))
  (import "everwarp:actor" "stop" (func $stop))
  (memory (export "memory") 64 64 (pagesize 1))
  (data (i32.const 40) "\07")
  (global $dirty (mut i32) (i32.const 0))
  (func $more (param i32 i64)
    (i64.store (local.get 0) (i64.add (i64.load (local.get 0)) (local.get 1))))
  (func (export "on.add") (param i64) (call $more (i32.const 0) (local.get 0)))
  (func (export "on.sum") (result i64) (i64.load (i32.const 0)))
  (func (export "on.burst") (param $to i64) (param $left i64)
    (if (i64.eqz (local.get $left)) (then (return)))
    (call $add (local.get $to) (local.get $left))
    (call $again (call $self) (local.get $to) (i64.sub (local.get $left) (i64.const 1))))
  (func (export "on.collect") (param $from i64) (call $ask_sum (local.get $from) (i32.const -5)))
  (func (export "reply.sum") (param $number i32) (param $sum i64)
    (if (i32.ne (local.get $number) (i32.const -5)) (then unreachable))
    (call $more (i32.const 0) (local.get $sum)))
  (func (export "failed.sum") (param $number i32) (param $reason i32)
    (if (i32.ne (local.get $number) (i32.const -5)) (then unreachable))
    (call $more (i32.const 8) (i64.add (i64.const 100) (i64.extend_i32_u (local.get $reason)))))
  (func (export "on.errors") (result i64 i32)
    (i64.load (i32.const 8)) (i32.load8_u (i32.const 40)))
  (func (export "on.pass") (param i64) (result i64)
    (if (i64.eq (local.get 0) (call $self)) (then (return (i64.load (i32.const 0)))))
    (call $forward (local.get 0))
    (i64.const -1))
  (func (export "on.trap") (i64.store (i32.const 0) (i64.const -1)) (global.set $dirty (i32.const 1)) unreachable)
  (func (export "on.spin") (loop (br 0)))
  (func (export "on.beyond") (drop (i64.load (i32.const 60))))
  (func (export "on.deep") (call $deep))
  (func $deep (call $deep) (call $deep))
  (func (export "on.fail") (call $fail))
  (func (export "on.stop") (call $stop))
  (func (export "on.grow") (result i32 i32) (memory.grow (i32.const 1)) (memory.size))
  (func (export "on.dirty") (result i32) (global.get $dirty) (global.set $dirty (i32.const 9)))
  (func (export "on.family") (param i64) (result i64)
    (local $child i64)
    (local.set $child (call $spawn))
    (call $add (local.get $child) (local.get 0))
    (local.get $child))
  (func (export "on.storm") (param i64)
    (loop (call $add (local.get 0) (i64.const 1)) (br 0)))
  (func (export "on.types") (param i32 i64 f32 f64) (result i32 i64 f32 f64)
    (local.get 0) (local.get 1) (f32.neg (local.get 2)) (f64.neg (local.get 3))))"#;

/// Handles `add` only, and has no memory.
const DEAF: &str = r#"(module (func (export "on.add") (param i64)))"#;

fn program() -> ActorProgram {
    let module = |name: &str, text: &str| {
        let bytes = wat::parse_str(text).expect("it is WebAssembly text");
        ActorModule::new(name, bytes).expect("it is a kind")
    };
    program_of("test", &[module("node", NODE), module("deaf", DEAF)]).expect("they fit")
}

fn start(program: &ActorProgram) -> (Engine, ActorSystem) {
    let device = Device::open(Select::Cpu).expect("it opens");
    let builder = device.engine().program(program.program());
    let engine = builder.start().expect("it starts");
    let system = ActorSystem::start(&engine, program, ActorConfig::default()).expect("it starts");
    (engine, system)
}

fn launch(system: &ActorSystem) -> ActorId {
    system.launch_named("node").expect("there is room")
}
fn sum(system: &ActorSystem, actor: ActorId) -> u64 {
    match system.ask_named(actor, "sum", &[]).expect("it lives")[..] {
        [Value::U64(sum)] => sum,
        ref other => panic!("{other:?}"),
    }
}
fn tell(system: &ActorSystem, actor: ActorId, message: &str, values: &[Value]) {
    system.tell_named(actor, message, values).expect("it lives");
    system.settle().expect("it settles");
}

#[test]
fn every_actor_has_a_memory_of_its_own() {
    let program = program();
    let (_engine, system) = start(&program);
    let node = program.kind("node").expect("there is one");
    let add = program.message("add").expect("there is one").tag;
    let actors = system.launch_all(node, 5000).expect("there is room");
    let tells: Vec<_> = (0..10_u64)
        .flat_map(|round| {
            actors
                .iter()
                .map(move |a| Tell::new(*a, add, &[round * a.bits()]))
        })
        .collect();
    system.tell_all(&tells).expect("all live");
    let stats = system.settle().expect("it settles");
    assert_eq!(stats.dead, [0; 5]);
    for actor in actors.into_iter().step_by(97) {
        assert_eq!(sum(&system, actor), actor.bits().wrapping_mul(45));
    }
}

#[test]
fn messages_have_names_and_types() {
    let program = program();
    let (_engine, system) = start(&program);
    let actor = launch(&system);
    let add = program.message("add").expect("there is one");
    assert_eq!(add.to_string(), "add(n: u64)");
    assert_eq!(add.fields[0].ty, FieldType::U64);
    let types = [
        Value::I32(-7),
        Value::I64(i64::MIN),
        Value::F32(1.5),
        Value::F64(-2.5),
    ];
    let back = system.ask_named(actor, "types", &types).expect("it lives");
    assert_eq!(
        back,
        [types[0], types[1], Value::F32(-1.5), Value::F64(2.5)]
    );
    let wrong = system.tell_named(actor, "add", &[Value::I64(1)]);
    assert!(
        matches!(&wrong, Err(ActorError::WrongFields { message, given }) if message == "add(n: u64)" && given == "i64"),
        "{wrong:?}"
    );
    let unknown = system
        .tell_named(actor, "subtract", &[])
        .expect_err("there is none");
    assert!(unknown.to_string().contains("`add`"), "{unknown}");
    let kind = system.launch_named("tree").expect_err("there is none");
    assert!(kind.to_string().contains("`deaf`, `node`"), "{kind}");
}

#[test]
fn messages_asks_and_launches_among_modules_arrive() {
    let program = program();
    let (_engine, system) = start(&program);
    let [one, two] = [launch(&system), launch(&system)];
    tell(
        &system,
        one,
        "burst",
        &[Value::I64(two.bits() as i64), Value::I64(300)],
    );
    assert_eq!(sum(&system, two), 300 * 301 / 2);
    tell(&system, one, "collect", &[Value::I64(two.bits() as i64)]);
    assert_eq!(sum(&system, one), 300 * 301 / 2);
    // The reply comes from the actor to which it was forwarded.
    let pass = program.message("pass").expect("there is one");
    let reply = system.ask(one, pass.tag, &[two.bits()]);
    assert_eq!(reply.expect("it is forwarded").words(), [300 * 301 / 2]);
    let child = system
        .ask_named(one, "family", &[Value::I64(5)])
        .expect("it lives");
    let [Value::I64(child)] = child[..] else {
        panic!("{child:?}")
    };
    system.settle().expect("it settles");
    assert_eq!(sum(&system, ActorId::from_bits(child as u64)), 5);
}

#[test]
fn fault_fails_one_actor_and_says_why() {
    let program = program();
    let (_engine, system) = start(&program);
    let others: Vec<_> = (0..64).map(|_| launch(&system)).collect();
    for (message, part) in [
        ("trap", "unreachable"),
        ("spin", "fuel"),
        ("beyond", "out of bounds"),
        ("deep", "call stack exhausted"),
        ("fail", "`fail`"),
        ("storm", "`sends`"),
    ] {
        let actor = launch(&system);
        system
            .tell_named(actor, "add", &[Value::U64(1)])
            .expect("it lives");
        let values = match message {
            "storm" => vec![Value::I64(others[0].bits() as i64)],
            _ => vec![],
        };
        tell(&system, actor, message, &values);
        let gone = system.ask_named(actor, "sum", &[]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
        let (failures, _) = system.failures();
        let last = failures.last().expect("it failed");
        assert_eq!(last.actor, actor);
        assert_eq!(last.tag, program.message(message).expect("known").tag);
        assert!(last.reason.contains(part), "{message}: {}", last.reason);
    }
    assert_eq!(system.failures().1, 6);
    // What was sent before the fault is sent, as many as are declared.
    assert_eq!(sum(&system, others[0]), 4);
    for other in &others[1..] {
        assert_eq!(sum(&system, *other), 0, "it has nothing of the others");
    }
    // An ask to an actor that traps ends, and so does an ask of an actor.
    let asker = launch(&system);
    let dead = launch(&system);
    let trap = program.message("trap").expect("known").tag;
    let ended = system.ask(dead, trap, &[]);
    assert!(
        matches!(
            ended,
            Err(ActorError::NoReply {
                reason: DeadReason::Failed
            })
        ),
        "{ended:?}"
    );
    system.settle().expect("it settles");
    tell(&system, asker, "collect", &[Value::I64(dead.bits() as i64)]);
    let errors = system.ask_named(asker, "errors", &[]).expect("it lives");
    assert_eq!(
        errors,
        [Value::I64(100), Value::I32(7)],
        "gone; and its data is there"
    );
}

#[test]
fn nothing_but_the_memory_outlives_a_message() {
    let program = program();
    let (_engine, system) = start(&program);
    let actor = launch(&system);
    for _ in 0..2 {
        let dirty = system.ask_named(actor, "dirty", &[]).expect("it lives");
        assert_eq!(dirty, [Value::I32(0)]);
    }
    let grown = system.ask_named(actor, "grow", &[]).expect("it lives");
    assert_eq!(grown, [Value::I32(-1), Value::I32(64)]);
    tell(&system, actor, "stop", &[]);
    let gone = system.ask_named(actor, "sum", &[]);
    assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
}

#[test]
fn message_that_a_kind_does_not_handle_fails_it() {
    let program = program();
    let (_engine, system) = start(&program);
    let deaf = system.launch_named("deaf").expect("there is room");
    tell(&system, deaf, "add", &[Value::U64(1)]);
    let ended = system.ask_named(deaf, "sum", &[]);
    assert!(
        matches!(
            ended,
            Err(ActorError::NoReply {
                reason: DeadReason::Failed
            })
        ),
        "{ended:?}"
    );
    let (failures, _) = system.failures();
    assert!(
        failures[0]
            .reason
            .contains("does not handle the message sum"),
        "{failures:?}"
    );
}

#[test]
fn scratch_is_not_part_of_the_state() {
    let text = r#"(module
      (@custom "everwarp.actor" "scratch 32")
      (memory (export "memory") 40 40 (pagesize 1))
      (func (export "_initialize") (i64.store (i32.const 32) (i64.const 1000)))
      (func (export "on.add") (param i64)
        (i64.store (i32.const 0) (local.get 0))
        (i64.store (i32.const 32) (i64.add (i64.load (i32.const 32)) (i64.load (i32.const 0)))))
      (func (export "on.sum") (result i64) (i64.load (i32.const 32))))"#;
    let bytes = wat::parse_str(text).expect("it is WebAssembly text");
    let module = ActorModule::new("kept", bytes).expect("it is a kind");
    let program = program_of("scratch", &[module]).expect("it fits");
    assert_eq!(program.kinds[0].state_bytes, 16 + 8);
    let (_engine, system) = start(&program);
    let [one, two] = [(); 2].map(|()| system.launch_named("kept").expect("there is room"));
    for actor in [one, two, one] {
        tell(&system, actor, "add", &[Value::I64(1)]);
    }
    let sums = [one, two].map(|a| system.ask_named(a, "sum", &[]).expect("it lives")[0]);
    assert_eq!(sums, [Value::I64(1002), Value::I64(1001)]);
}

#[test]
fn restarted_actor_begins_anew_unless_it_is_atomic() {
    let text = |line: &str| {
        format!(
            r#"(module
              (@custom "everwarp.actor" "{line}")
              (import "everwarp:tell" "add" (func $add (param i64 i64)))
              (memory (export "memory") 8 8 (pagesize 1))
              (data (i32.const 0) "\64")
              (func (export "on.add") (param i64)
                (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (local.get 0))))
              (func (export "on.sum") (result i64) (i64.load (i32.const 0)))
              (func (export "on.bad") (param i64) (call $add (local.get 0) (i64.const 1)) unreachable))"#
        )
    };
    let module = |name: &str, line: &str| {
        let bytes = wat::parse_str(text(line)).expect("it is WebAssembly text");
        ActorModule::new(name, bytes).expect("it is a kind")
    };
    let modules = [
        module("anew", "restarts 2 1000"),
        module("atomic", "atomic\\nrestarts 2 1000"),
    ];
    let program = program_of("restarts", &modules).expect("they fit");
    let (_engine, system) = start(&program);
    let other = system.launch_named("anew").expect("there is room");
    for (kind, sum, sent) in [("anew", 100, 1), ("atomic", 105, 1)] {
        let actor = system.launch_named(kind).expect("there is room");
        tell(&system, actor, "add", &[Value::I64(5)]);
        tell(&system, actor, "bad", &[Value::I64(other.bits() as i64)]);
        let left = |a| system.ask_named(a, "sum", &[]).expect("it lives")[0];
        assert_eq!(left(actor), Value::I64(sum), "{kind}");
        // What an atomic handler has sent is not sent.
        assert_eq!(left(other), Value::I64(100 + sent), "{kind}");
        for _ in 0..2 {
            tell(&system, actor, "bad", &[Value::I64(0)]);
        }
        let gone = system.ask_named(actor, "sum", &[]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
    }
}

#[test]
fn messages_are_handled_again_and_the_latest_are_kept_if_the_description_says_so() {
    let text = r#"(module
      (@custom "everwarp.actor" "mailbox 3\nsends 1\nretries 2\nrestarts 100 1000\nlatest\n")
      (import "everwarp:tell" "count" (func $count (param i64)))
      (memory (export "memory") 8 8 (pagesize 1))
      (func (export "on.count") (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (i64.const 1))))
      (func (export "on.fails") (param i64) (call $count (local.get 0)) unreachable)
      (func (export "on.read") (result i64) (i64.load (i32.const 0)))
      (func (export "on.missed") (param i64)
        (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (i64.mul (i64.const 100) (local.get 0))))))"#;
    let module =
        ActorModule::new("own", wat::parse_str(text).expect("it is text")).expect("it is right");
    let host = everwarp_actor::Kind::host("host");
    let program = everwarp_handler::program_with("more", std::slice::from_ref(&module), vec![host])
        .expect("they fit");
    let (_engine, system) = start(&program);
    let [failing, counter] = [(); 2].map(|()| system.launch(0).expect("there is room"));
    tell(
        &system,
        failing,
        "fails",
        &[Value::I64(counter.bits() as i64)],
    );
    system.settle().expect("it settles");
    let read = |actor| system.ask_named(actor, "read", &[]).expect("it replies");
    assert_eq!(read(counter), [Value::I64(3)], "once, and twice more");
    system.deactivate(&[counter]).expect("it lives");
    for _ in 0..10 {
        tell(&system, counter, "count", &[]);
    }
    system.activate(&[counter]).expect("it lives");
    system.settle().expect("it settles");
    assert_eq!(read(counter), [Value::I64(6)], "the three latest");
    // The other kind is for topics, whose subscribers are notified of what they have missed.
    let topic = system.topic(1).expect("it is of the host");
    topic.subscribe(counter, everwarp_actor::Slow::Misses);
    tell(&system, topic.id(), "count", &[]);
    system.settle().expect("it settles");
    assert_eq!(read(counter), [Value::I64(7)]);
    let twice =
        everwarp_handler::program_with("more", &[module], vec![everwarp_actor::Kind::host("own")]);
    let error = twice.expect_err("one name").to_string();
    assert!(error.contains("two kinds are called `own`"), "{error}");
}

#[test]
fn retries_that_an_engine_has_no_room_for_are_refused() {
    for (line, fits) in [
        ("sends 123", true),
        ("sends 3\\nretries 30", true),
        ("sends 3\\nretries 31", false),
    ] {
        let text =
            format!(r#"(module (@custom "everwarp.actor" "{line}\n") (func (export "on.f")))"#);
        let module = ActorModule::new("own", wat::parse_str(text).expect("it is text"));
        match module {
            Ok(module) => {
                assert!(fits, "{line}");
                start(&program_of("fits", &[module]).expect("it is right"));
            }
            Err(error) => {
                let error = error.to_string();
                assert!(
                    !fits && error.contains("lower `retries` or `sends`"),
                    "{error}"
                );
            }
        }
    }
}

/// Sets timers, and asks with a deadline.
const CLOCK: &str = r#"(module
  (@custom "everwarp.actor" "message begin nanos:i64\nmessage ask to:actor nanos:i64\nmessage cancel timer:u64 -> found:bool\n")
  (import "everwarp:every" "tick" (func $every (param i64 i64) (result i64)))
  (import "everwarp:after" "tick" (func $after (param i64 i64) (result i64)))
  (import "everwarp:ask_within" "ticks" (func $ask (param i64 i32 i64)))
  (import "everwarp:actor" "cancel" (func $cancel (param i64) (result i32)))
  (memory (export "memory") 32 32 (pagesize 1))
  (func (export "on.begin") (param i64) (i64.store (i32.const 8) (call $every (local.get 0) (i64.const 5))))
  (func (export "on.tick") (param i64)
    (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (local.get 0)))
    (if (i64.eq (i64.load (i32.const 0)) (i64.const 15))
      (then (i32.store (i32.const 16) (call $cancel (i64.load (i32.const 8)))))))
  (func (export "on.ticks") (result i64) (i64.load (i32.const 0)))
  (func (export "on.state") (result i64 i64 i32)
    (i64.load (i32.const 0)) (i64.load (i32.const 8)) (i32.load (i32.const 16)))
  (func (export "on.cancel") (param i64) (result i32) (call $cancel (local.get 0)))
  (func (export "on.ask") (param i64 i64) (call $ask (local.get 0) (i32.const 3) (local.get 1)))
  (func (export "reply.ticks") (param i32 i64) (i32.store (i32.const 16) (i32.const 100)))
  (func (export "failed.ticks") (param i32 i32) (i32.store (i32.const 16) (local.get 1)))
  (func (export "on.many")
    (loop (drop (call $after (i64.const 3600000000000) (i64.const 1))) (br 0))))"#;

#[test]
fn modules_have_timers_and_deadlines() {
    let bytes = wat::parse_str(CLOCK).expect("it is WebAssembly text");
    let module = ActorModule::new("clock", bytes).expect("it is a kind");
    let program = program_of("clocks", &[module]).expect("it fits");
    let (_engine, system) = start(&program);
    let launch = || system.launch_named("clock").expect("there is room");
    let state = |actor| system.ask_named(actor, "state", &[]).expect("it lives");
    let until = |actor, holds: &dyn Fn(&[Value]) -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !holds(&state(actor)) {
            assert!(std::time::Instant::now() < end, "{:?}", state(actor));
            std::thread::yield_now();
        }
    };
    // Three ticks, and the handler of the third one cancels the timer.
    let clock = launch();
    tell(&system, clock, "begin", &[Value::I64(1_000_000)]);
    until(clock, &|state| state[2] == Value::I32(1));
    assert_eq!(state(clock)[0], Value::I64(15));

    // A timer belongs to its actor.
    let (other, hour) = (launch(), 3_600_000_000_000);
    tell(&system, other, "begin", &[Value::I64(hour)]);
    let Value::I64(timer) = state(other)[1] else {
        panic!("{:?}", state(other));
    };
    let cancel = |actor| {
        let timer = Value::U64(timer as u64);
        system
            .ask_named(actor, "cancel", &[timer])
            .expect("it lives")
    };
    assert_eq!(cancel(clock), [Value::Bool(false)]);
    assert_eq!(cancel(other), [Value::Bool(true)]);
    assert_eq!(cancel(other), [Value::Bool(false)]);

    // An ask within a time gets its reply, or the reason that the time has passed.
    let ask = |nanos| {
        tell(
            &system,
            clock,
            "ask",
            &[Value::Actor(other), Value::I64(nanos)],
        )
    };
    ask(hour);
    until(clock, &|state| state[2] == Value::I32(100));
    system.deactivate(&[other]).expect("it lives");
    ask(1);
    until(clock, &|state| state[2] == Value::I32(5));

    // More timers than an actor may have, and a time before now, fail it.
    for (message, values, why) in [
        ("many", &[][..], "64 timers"),
        ("begin", &[Value::I64(-1)][..], "not negative"),
    ] {
        let actor = launch();
        tell(&system, actor, message, values);
        let gone = system.ask_named(actor, "state", &[]);
        assert!(matches!(gone, Err(ActorError::Gone { .. })), "{gone:?}");
        let (failures, _) = system.failures();
        assert!(
            failures.iter().any(|f| f.reason.contains(why)),
            "{failures:?}"
        );
    }
}

/// Keeps the last ask; `give` replies to it.
const KEEPER: &str = r#"(module
  (import "everwarp:actor" "keep" (func $keep (result i64)))
  (import "everwarp:reply" "take" (func $reply (param i64 i32 f64) (result i32)))
  (import "everwarp:reply" "many" (func $wrong (param i64 i64) (result i32)))
  (memory (export "memory") 8 8 (pagesize 1))
  (func (export "on.take") (result i32 f64)
    (i64.store (i32.const 0) (call $keep)) (i32.const 1) (f64.const 1))
  (func (export "on.give") (param f64) (result i32)
    (call $reply (i64.load (i32.const 0)) (i32.const -7) (local.get 0)))
  (func (export "on.many") (result i64) (drop (call $keep)) (i64.const 0))
  (func (export "on.wrong") (drop (call $wrong (i64.load (i32.const 0)) (i64.const 1)))))"#;

#[test]
fn module_keeps_asks_and_replies_later() {
    let bytes = wat::parse_str(KEEPER).expect("the text is right");
    let module = ActorModule::new("keeper", bytes).expect("it is a kind");
    let program = program_of("keepers", &[module]).expect("the modules agree");
    let device = Device::open(Select::Cpu).expect("the device opens");
    let engine = device.engine().program(program.program()).start();
    let engine = engine.expect("the engine starts");
    let config = ActorConfig {
        asks: 2048,
        ..ActorConfig::default()
    };
    let system = ActorSystem::start(&engine, &program, config).expect("the system starts");
    let tag = |name: &str| program.message(name).expect("there is one").tag;
    let actor = system.launch_named("keeper").expect("there is room");
    let given = |value: f64| system.ask_named(actor, "give", &[Value::F64(value)]);
    assert_eq!(given(1.0).expect("it lives"), [Value::I32(0)]);
    let mut asked = system
        .ask_later(actor, tag("take"), &[])
        .expect("it is sent");
    system.settle().expect("it settles");
    assert!(
        asked.try_reply().is_none(),
        "the result of `take` is dropped"
    );
    assert_eq!(given(2.5).expect("it lives"), [Value::I32(1)]);
    let begin = std::time::Instant::now();
    let reply = loop {
        match asked.try_reply() {
            Some(reply) => break reply.expect("it is replied to"),
            None => assert!(begin.elapsed() < std::time::Duration::from_secs(20)),
        }
        std::thread::yield_now();
    };
    assert_eq!(reply.words(), [u64::from(-7_i32 as u32), 2.5_f64.to_bits()]);
    assert_eq!(given(3.0).expect("it lives"), [Value::I32(0)]);
    // An ask of another message, and too many.
    let _asked = system
        .ask_later(actor, tag("take"), &[])
        .expect("it is sent");
    tell(&system, actor, "wrong", &[]);
    let (failures, _) = system.failures();
    let reason = &failures.last().expect("it has failed").reason;
    assert!(
        reason.contains("the ask that it has kept is another message"),
        "{reason}"
    );
    let many = system.launch_named("keeper").expect("there is room");
    let mut asks = Vec::new();
    for _ in 0..1025 {
        let asked = system.ask_later(many, tag("many"), &[]);
        asks.push(asked.expect("it is sent"));
        // An ask that finds the mailbox full, which holds 64 messages, ends at once.
        if asks.len() % 32 == 0 {
            system.settle().expect("it settles");
        }
    }
    system.settle().expect("it settles");
    let (failures, _) = system.failures();
    let reason = &failures.last().expect("it has failed").reason;
    assert!(
        reason.contains("it keeps 1024 asks, which is the limit"),
        "{reason}"
    );
    drop(asks);
}
