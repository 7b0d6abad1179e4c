//! Tests instances that share a memory: concurrent atomic accesses by many threads, growth, waiting and notifying.
//! They run on the interpreter, whose threads take turns at random, or on the first CUDA device with
//! `EVERWARP_MACHINE=cuda CUDA_CACHE_DISABLE=1 cargo test -p everwarp-compiler --test threads -- --test-threads 1`.

mod support;

use core::mem::offset_of;

use everwarp_compiler::{
    CallState, CompileError, CompileOptions, Compiled, DevInstance, Export, InstanceLimits, Limits,
    Link, PAGE, PTX_HEAD, SharedMemory, TrapKind, compile,
};
use support::encode;
use support::instance::{Process, Trapped};
use support::machine::{SharedMachine, chosen};
use support::waiting;

const LIMITS: InstanceLimits = InstanceLimits {
    memory_pages: 4,
    table_elements: 16,
    fuel: 1 << 40,
    depth: 20,
};

/// The initial and the largest number of pages of the shared memory.
const PAGES: (u64, u64) = (1, 3);

/// Provides the memory.
struct Host(SharedMemory);

impl Link for Host {
    fn memory(&self, _: &str, _: &str) -> Option<Limits> {
        let (min, max, shared) = (PAGES.0, Some(PAGES.1), true);
        Some(Limits { min, max, shared })
    }
    fn shared_memory(&self, _: &str, _: &str) -> Option<SharedMemory> {
        Some(self.0)
    }
}

/// Instances of one module that share a memory.
struct Team {
    compiled: &'static Compiled,
    machine: SharedMachine,
    memory: SharedMemory,
    members: Vec<Process>,
    /// The address of the record of waiters.
    record: u64,
}

impl Team {
    /// The module imports its memory. With `waiting` the functions for wait and notify are linked.
    fn new(text: &str, members: u32, waiting: bool) -> Self {
        let bytes = encode(text);
        let mut options = CompileOptions {
            threads: true,
            ..CompileOptions::default()
        };
        if waiting {
            options.suspendable = true;
            options.provided_imports = waiting::provided();
        }
        let compiled = compile(&bytes, &options).expect("the module is supported");
        let compiled: &'static Compiled = Box::leak(Box::new(compiled));
        let machine = chosen();
        let (memory, record, ptx) = {
            let mut machine = machine.borrow_mut();
            let at = machine.allocate(&[], PAGES.1 * PAGE + 8);
            let memory = at.expect("memory can be allocated");
            let length = memory + PAGES.1 * PAGE;
            let stored = machine.write(length, &(PAGES.0 * PAGE).to_le_bytes());
            stored.expect("the memory is allocated");
            let record = machine.allocate(&[], waiting::RECORD_BYTES);
            let record = record.expect("memory can be allocated");
            let functions = waiting::functions(record);
            let own = compiled.ptx.lines();
            let own = own.filter(|l| !l.starts_with(".extern") && !PTX_HEAD.contains(l));
            let own = own.fold(String::new(), |text, line| text + line + "\n");
            let linked = if waiting { functions } else { String::new() };
            let ptx = format!("{PTX_HEAD}{linked}{own}");
            (SharedMemory { memory, length }, record, ptx)
        };
        let depth = machine
            .borrow_mut()
            .load("", &ptx, &[], LIMITS.depth)
            .expect("the machine accepts the emitted text");
        let limits = InstanceLimits { depth, ..LIMITS };
        let initial = compiled.instantiate(&Host(memory), &limits);
        let initial = initial.expect("its memory is provided");
        assert_eq!(
            initial.memory_limit, 0,
            "the instance has no memory of its own"
        );
        let member =
            |_| Process::new(compiled, &machine, "", &initial).expect("memory can be allocated");
        Self {
            compiled,
            members: (0..members).map(member).collect(),
            machine,
            memory,
            record,
        }
    }

    fn function(&self, name: &str) -> u32 {
        match self.compiled.export(name) {
            Some(Export::Function(f)) => f,
            _ => panic!("no function {name}"),
        }
    }

    /// Calls a function in one member.
    fn call(&mut self, member: usize, name: &str, args: &[u64]) -> Result<Vec<u64>, Trapped> {
        let function = self.function(name);
        let called = self.members[member].call(function, args);
        called.expect("the machine reports no error")
    }

    /// Calls the same function in all members at the same time. Each member passes its number after these arguments.
    fn call_all(&mut self, name: &str, args: &[u64]) {
        let entry = self
            .compiled
            .entry(self.function(name))
            .expect("the function has an entry");
        let count = self.members.len() as u32;
        let blocks = self.members.iter().flat_map(|m| m.block.to_le_bytes());
        let blocks: Vec<_> = blocks.collect();
        let each = (0..u64::from(count)).flat_map(|i| args.iter().copied().chain([i]));
        let values: Vec<_> = each.flat_map(u64::to_le_bytes).collect();
        let stride = 8 * (args.len() as u32 + 1);
        let mut machine = self.machine.borrow_mut();
        let mut allocate = |bytes: &[u8]| {
            let at = machine.allocate(bytes, bytes.len() as u64);
            at.expect("memory can be allocated").to_le_bytes().to_vec()
        };
        let (blocks, values) = (allocate(&blocks), allocate(&values));
        let results = allocate(&vec![0; 8 * count as usize]);
        let params = [
            blocks,
            count.to_le_bytes().to_vec(),
            entry.to_le_bytes().to_vec(),
            values,
            results,
            stride.to_le_bytes().to_vec(),
            8u32.to_le_bytes().to_vec(),
        ];
        machine
            .run_many("", &params, count)
            .expect("the machine reports no error");
        for member in &self.members {
            let at = member.block + offset_of!(DevInstance, trap) as u64;
            let trap = machine.number(at, 4).expect("the header is allocated");
            assert_eq!(TrapKind::from_code(trap as u32), None);
        }
    }

    /// Reads a number from the shared memory.
    fn number(&self, at: u64, bytes: usize) -> u64 {
        let mut machine = self.machine.borrow_mut();
        let number = machine.number(self.memory.memory + at, bytes);
        number.expect("the memory is allocated")
    }

    fn state(&self, member: usize) -> Option<CallState> {
        let at = self.members[member].block + offset_of!(DevInstance, state) as u64;
        let mut machine = self.machine.borrow_mut();
        let state = machine.number(at, 4).expect("the header is allocated");
        CallState::from_code(state as u32)
    }
}

/// Adjacent counters of every width; bits that each member flips once in a round; and a number that an 8-bit lock
/// protects. The totals reveal a lost increment, and an exchange that changed neighbouring bytes.
const COUNT: &str = r#"(module
  (import "host" "m" (memory 1 3 shared))
  (func (export "count") (param $rounds i32) (param $me i32)
    (loop $again
      (drop (i32.atomic.rmw8.add_u (i32.const 1) (i32.const 3)))
      (drop (i64.atomic.rmw8.sub_u (i32.const 2) (i64.const 5)))
      (drop (i32.atomic.rmw16.add_u (i32.const 4) (i32.const 7)))
      (drop (i64.atomic.rmw16.sub_u (i32.const 6) (i64.const 9)))
      (drop (i32.atomic.rmw.add (i32.const 8) (i32.const 11)))
      (drop (i64.atomic.rmw32.sub_u (i32.const 12) (i64.const 13)))
      (drop (i64.atomic.rmw.add (i32.const 16) (i64.const 0x1_0000_0001)))
      (drop (i32.atomic.rmw8.xor_u (i32.const 3) (i32.const 0x41)))
      (drop (i32.atomic.rmw16.xor_u (i32.const 24) (i32.const 0x8001)))
      (drop (i32.atomic.rmw8.or_u (i32.const 26) (i32.shl (i32.const 1) (i32.and (local.get $me) (i32.const 7)))))
      (drop (i32.atomic.rmw8.and_u (i32.const 27) (i32.xor (i32.const -1) (i32.const 4))))
      ;; Exchanges until it was the one.
      (loop $mine
        (br_if $mine (i32.ne (i32.const 0)
          (i32.atomic.rmw8.cmpxchg_u (i32.const 33) (i32.const 0x700) (i32.const 1)))))
      (i64.store (i32.const 40) (i64.add (i64.load (i32.const 40)) (i64.const 1)))
      (i32.atomic.store8 (i32.const 33) (i32.const 0))
      (br_if $again (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))))))"#;

#[test]
fn no_access_of_any_width_is_lost() {
    let on_device = std::env::var("EVERWARP_MACHINE").is_ok_and(|m| m == "cuda");
    let (members, rounds) = if on_device { (256, 50) } else { (5, 40) };
    let mut team = Team::new(COUNT, members, false);
    team.call_all("count", &[rounds]);
    let all = u64::from(members) * rounds;
    let wrapped = |number: i64, bytes: u32| number as u64 & (u64::MAX >> (64 - 8 * bytes));
    let count = |each: i64, bytes: u32| wrapped(each * all as i64, bytes);
    assert_eq!(team.number(0, 1), 0, "a neighbour");
    assert_eq!(team.number(1, 1), count(3, 1));
    assert_eq!(team.number(2, 1), count(-5, 1));
    assert_eq!(team.number(3, 1), if all % 2 == 0 { 0 } else { 0x41 });
    assert_eq!(team.number(4, 2), count(7, 2));
    assert_eq!(team.number(6, 2), count(-9, 2));
    assert_eq!(team.number(8, 4), count(11, 4));
    assert_eq!(team.number(12, 4), count(-13, 4));
    assert_eq!(team.number(16, 8), count(0x1_0000_0001, 8));
    assert_eq!(team.number(24, 2), if all % 2 == 0 { 0 } else { 0x8001 });
    assert_eq!(team.number(26, 1), (1 << members.min(8)) - 1);
    assert_eq!(team.number(27, 1), 0);
    assert_eq!(team.number(40, 8), all, "the number that the lock protects");
}

const GROW: &str = r#"(module
  (import "host" "m" (memory 1 3 shared))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "size") (result i32) (memory.size))
  (func (export "store") (param i32 i32) (i32.store8 (local.get 0) (local.get 1)))
  (func (export "load") (param i32) (result i32) (i32.atomic.load8_u (local.get 0)))
  (func (export "fill") (param i32 i32) (memory.fill (local.get 0) (local.get 1) (i32.const 4)))
  (func (export "all") (param i32) (drop (memory.grow (i32.const 1)))
    (i32.store8 offset=65535 (local.get 0) (local.get 0))))"#;

#[test]
fn growth_by_one_instance_is_visible_to_all() {
    let mut team = Team::new(GROW, 3, false);
    let beyond = PAGE + 10;
    let trap =
        |outcome: Result<Vec<u64>, Trapped>| outcome.expect_err("the access is out of bounds").trap;
    assert_eq!(
        trap(team.call(0, "store", &[beyond, 1])),
        TrapKind::MemoryOutOfBounds
    );
    assert_eq!(team.call(1, "grow", &[1]), Ok(vec![1]));
    for member in 0..3 {
        // The others read the new length before an access traps, and when they ask for the size.
        let at = beyond + member as u64;
        assert_eq!(team.call(member, "store", &[at, 40 + at]), Ok(vec![]));
        assert_eq!(team.call(2, "load", &[at]), Ok(vec![(40 + at) & 0xff]));
    }
    assert_eq!(team.call(2, "grow", &[2]), Ok(vec![0xffff_ffff]));
    assert_eq!(team.call(2, "grow", &[1]), Ok(vec![2]));
    assert_eq!(team.call(0, "fill", &[2 * PAGE, 7]), Ok(vec![]));
    assert_eq!(team.number(2 * PAGE, 4), 0x0707_0707);
    assert_eq!(team.call(1, "size", &[]), Ok(vec![3]));
    let last = 3 * PAGE - 1;
    assert_eq!(team.call(1, "load", &[last]), Ok(vec![0]));
    assert_eq!(
        trap(team.call(1, "load", &[last + 1])),
        TrapKind::MemoryOutOfBounds
    );
}

#[test]
fn all_instances_may_grow_the_memory_at_the_same_time() {
    let mut team = Team::new(GROW, 4, false);
    team.call_all("all", &[]);
    assert_eq!(team.call(0, "size", &[]), Ok(vec![3]));
    for member in 1..4 {
        assert_eq!(team.number(65_535 + member, 1), member);
    }
}

const WAIT: &str = r#"(module
  (import "host" "m" (memory 1 3 shared))
  (func $wait (export "wait32") (param i32 i32 i64) (result i32)
    (memory.atomic.wait32 (local.get 0) (local.get 1) (local.get 2)))
  (func (export "wait64") (param i32 i64 i64) (result i32) (local i64)
    (local.set 3 (i64.const 77))
    (i32.add (i32.wrap_i64 (local.get 3))
      (memory.atomic.wait64 offset=8 (local.get 0) (local.get 1) (local.get 2))))
  (func (export "deep") (param i32 i32 i64) (result i32)
    (i32.mul (i32.const 10)
      (call $wait (local.get 0) (local.get 1) (local.get 2))))
  (func (export "notify") (param i32 i32) (result i32)
    (memory.atomic.notify (local.get 0) (local.get 1))))"#;

#[test]
fn a_waiter_gives_up_its_thread_until_it_is_notified() {
    let mut team = Team::new(WAIT, 4, true);
    let forever = u64::MAX;
    assert_eq!(team.call(0, "wait32", &[64, 5, forever]), Ok(vec![1]));
    assert_eq!(team.state(0), Some(CallState::Ended));
    for (member, name, args) in [
        (0, "deep", [64, 0, forever]),
        (1, "wait64", [56, 0, forever]),
        (2, "wait32", [128, 0, 1000]),
    ] {
        // A call that waits writes no result.
        let _ = team.call(member, name, &args);
        assert_eq!(team.state(member), Some(CallState::Waiting), "{name}");
    }
    // A waiter that is resumed too early keeps waiting.
    let _ = team.call(0, "deep", &[]);
    assert_eq!(team.state(0), Some(CallState::Waiting));
    assert_eq!(team.call(3, "notify", &[64, 0]), Ok(vec![0]));
    assert_eq!(team.call(3, "notify", &[32, 9]), Ok(vec![0]));
    assert_eq!(team.call(3, "notify", &[64, 9]), Ok(vec![2]));
    assert_eq!(team.call(3, "notify", &[64, 9]), Ok(vec![0]));
    assert_eq!(team.call(0, "deep", &[]), Ok(vec![0]));
    assert_eq!(team.state(0), Some(CallState::Ended));
    assert_eq!(team.call(1, "wait64", &[]), Ok(vec![77]));
    let _ = team.call(2, "wait32", &[]);
    assert_eq!(team.state(2), Some(CallState::Waiting));
    // The timeout of the third waiter expires.
    let became = waiting::became(team.record, 2);
    let stored = team.machine.borrow_mut().write(became, &3u32.to_le_bytes());
    stored.expect("the record is allocated");
    assert_eq!(team.call(2, "wait32", &[]), Ok(vec![2]));
    assert_eq!(team.state(2), Some(CallState::Ended));
    let unaligned = team.call(3, "wait64", &[4, 0, 0]);
    assert_eq!(
        unaligned.expect_err("the address is not aligned").trap,
        TrapKind::UnalignedAtomic
    );
    let beyond = team.call(3, "notify", &[3 * PAGE, 1]);
    assert_eq!(
        beyond.expect_err("the access is out of bounds").trap,
        TrapKind::MemoryOutOfBounds
    );
}

#[test]
fn threads_are_refused_unless_the_options_allow_them() {
    for (text, what) in [
        ("(module (memory 1 1 shared))", "a shared memory"),
        (
            "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))",
            "I32AtomicLoad",
        ),
        (
            "(module (memory 1) (func unreachable atomic.fence))",
            "AtomicFence",
        ),
    ] {
        let bytes = encode(text);
        match compile(&bytes, &CompileOptions::default()) {
            Err(CompileError::Unsupported { what: found, .. }) => {
                assert!(found.contains(what), "{found}");
            }
            other => panic!("{text}: {:?}", other.map(|_| ())),
        }
    }
}

#[test]
fn a_wait_traps_if_the_host_provides_no_wait_function() {
    let mut team = Team::new(WAIT, 1, false);
    assert_eq!(team.call(0, "wait32", &[64, 5, 1]), Ok(vec![1]));
    assert_eq!(team.call(0, "wait32", &[64, 0, 0]), Ok(vec![2]));
    assert_eq!(team.call(0, "wait64", &[64, 0, 0]), Ok(vec![79]));
    let trapped = team.call(0, "wait32", &[64, 0, 1]);
    assert_eq!(
        trapped.expect_err("no function provides the wait").trap,
        TrapKind::UnlinkedImport
    );
    assert_eq!(team.call(0, "notify", &[64, 1]), Ok(vec![0]));
}
