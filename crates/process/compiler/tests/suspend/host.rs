//! A host whose imported functions suspend. The image has a PTX function for each import, which follows a schedule in
//! the machine's memory; outside the image a driver resumes the calls.

use core::mem::offset_of;
use std::fmt::Write;

use everwarp_compiler::{
    CallState, DevInstance, DevSuspension, FunctionType, KILL_INTERVAL, SUSPENDED, ValueType, YIELD,
};

use crate::support::instance::{Process, Trapped};
use crate::support::machine::SharedMachine;

/// When to suspend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// The module is compiled so that imports can suspend it.
    pub(crate) suspendable: bool,
    /// The module is compiled so that it can be preempted at every safepoint.
    pub(crate) preempt: bool,
    /// Each call of an import is suspended fewer times than this, at random.
    pub(crate) suspensions_below: u32,
    /// The number of safepoints between two preemptions of the instance; 0 if it is never preempted.
    pub(crate) every: u64,
    /// The instance is preempted by its slice instead of its kill word.
    pub(crate) by_slice: bool,
    pub(crate) seed: u64,
    /// How deep calls nest on the stack, if they may nest deeper than that.
    pub(crate) deep: Option<u32>,
    /// Which functions images have, if not all of them.
    pub(crate) lazy: Option<Lazy>,
    /// From which length on functions are divided.
    pub(crate) divide: Option<usize>,
}

/// Which functions the images of an instance have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lazy {
    /// At first none; each image has the missing function in addition to those of the one before.
    Grows,
    /// The same, with all that direct calls lead to from the missing function.
    WithCallees,
    /// Each image has the missing function and others at random.
    Changes,
}

/// Nothing is suspended, and the module is compiled without the ability to suspend.
pub(crate) const NEVER: Schedule = Schedule {
    suspendable: false,
    preempt: false,
    suspensions_below: 1,
    every: 0,
    by_slice: false,
    seed: 1,
    deep: None,
    lazy: None,
    divide: None,
};

// Offsets in the control record, where the functions in the image keep their state, and the record's size.
const RANDOM: usize = 0;
const BELOW: usize = 8;
const PENDING: usize = 12;
const FAULT: usize = 16;
const HASH: usize = 24;
const REQUEST: usize = 32;
const CONTROL_BYTES: usize = 256;

/// A PTX function that completes a request after it has suspended its caller a number of times. Its result depends on
/// all earlier requests. It reports a fault if a request changes while it is pending.
pub(crate) fn provider(symbol: &str, ty: &FunctionType, control: u64) -> String {
    let ptx = |ty: &ValueType| if ty.is_wide() { "b64" } else { "b32" };
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes text");
    // A vector is four numbers of 32 bits.
    let parts = |types: &[ValueType]| -> Vec<ValueType> {
        let each = types.iter();
        each.flat_map(|&ty| std::iter::repeat_n(ty, ty.parts()))
            .collect()
    };
    let (given, results) = (parts(&ty.params), parts(&ty.results));
    let params: String = (given.iter().enumerate())
        .map(|(i, ty)| format!(", .param .{} a{i}", ptx(ty)))
        .collect();
    let slots: usize = ty.results.iter().map(|ty| ty.slots()).sum();
    let bytes = 8 + 8 * slots;
    line(format!(
        ".visible .func (.param .align 8 .b8 ret[{bytes}]) {symbol} (.param .b64 inst, .param .b64 fuel, .param .b32 depth{params})\n{{"
    ));
    line(
        "  .reg .b64 %fuel, %c, %t, %h, %d<16>;\n  .reg .b32 %n, %m, %r;\n  .reg .pred %p;".into(),
    );
    line("  ld.param.b64 %fuel, [fuel];".into());
    line(format!("  mov.b64 %c, {control};"));
    for (i, ty) in given.iter().enumerate() {
        if ty.is_wide() {
            line(format!("  ld.param.b64 %d{i}, [a{i}];"));
        } else {
            line(format!(
                "  ld.param.b32 %r, [a{i}];\n  cvt.u64.u32 %d{i}, %r;"
            ));
        }
    }
    let fuel = given.len();
    line(format!("  mov.b64 %d{fuel}, %fuel;"));
    line(format!("  ld.global.b32 %n, [%c+{PENDING}];"));
    line("  setp.ne.s32 %p, %n, 0;\n  @%p bra $again;".into());
    for i in 0..=fuel {
        line(format!("  st.global.b64 [%c+{}], %d{i};", REQUEST + 8 * i));
    }
    line(format!("  ld.global.b64 %t, [%c+{RANDOM}];"));
    line(
        "  mul.lo.s64 %t, %t, 6364136223846793005;\n  add.s64 %t, %t, 1442695040888963407;".into(),
    );
    line(format!("  st.global.b64 [%c+{RANDOM}], %t;"));
    line(format!(
        "  shr.u64 %t, %t, 40;\n  cvt.u32.u64 %n, %t;\n  ld.global.b32 %m, [%c+{BELOW}];\n  rem.u32 %n, %n, %m;"
    ));
    line("  bra $decide;\n$again:".into());
    for i in 0..=fuel {
        line(format!("  ld.global.b64 %t, [%c+{}];", REQUEST + 8 * i));
        line(format!("  setp.ne.s64 %p, %t, %d{i};\n  @%p bra $fault;"));
    }
    line("  add.s32 %n, %n, -1;\n$decide:".into());
    line(format!("  st.global.b32 [%c+{PENDING}], %n;"));
    line("  setp.eq.s32 %p, %n, 0;\n  @%p bra $answer;".into());
    line(format!("  mov.b64 %fuel, {SUSPENDED};"));
    line("  st.param.b64 [ret], %fuel;\n  ret;\n$fault:\n  mov.b32 %r, 1;".into());
    line(format!("  st.global.b32 [%c+{FAULT}], %r;\n$answer:"));
    line(format!("  ld.global.b64 %h, [%c+{HASH}];"));
    for i in 0..fuel {
        line(format!(
            "  mul.lo.s64 %h, %h, 1099511628211;\n  xor.b64 %h, %h, %d{i};\n  add.s64 %h, %h, 12345;"
        ));
    }
    line("  mul.lo.s64 %h, %h, 1099511628211;\n  add.s64 %h, %h, 7;".into());
    line(format!(
        "  st.global.b64 [%c+{HASH}], %h;\n  st.param.b64 [ret], %fuel;"
    ));
    let mut at = 8;
    for (i, ty) in results.iter().enumerate() {
        // The lower bits of such a hash repeat after a short period.
        line(format!(
            "  shr.u64 %t, %h, 29;\n  xor.b64 %t, %t, %h;\n  add.s64 %t, %t, {i};"
        ));
        match ty {
            // Only compiled code makes function references.
            ValueType::FuncRef => line("  mov.b64 %t, 0;".into()),
            ValueType::ExternRef => line("  or.b64 %t, %t, 1;".into()),
            _ => {}
        }
        if ty.is_wide() {
            line(format!("  st.param.b64 [ret+{at}], %t;"));
        } else {
            line(format!(
                "  cvt.u32.u64 %r, %t;\n  st.param.b32 [ret+{at}], %r;"
            ));
        }
        at += if *ty == ValueType::V128 { 4 } else { 8 };
    }
    line("  ret;\n}".into());
    out
}

/// Compiled text without the declarations of externally linked functions, which the interpreter does not know.
pub(crate) fn without_externs(ptx: &str) -> String {
    let lines = ptx.lines().filter(|l| !l.starts_with(".extern"));
    lines.fold(String::new(), |text, line| text + line + "\n")
}

/// Stores the lowest `bytes` bytes of a number.
pub(crate) fn store(process: &Process, at: u64, bytes: usize, number: u64) {
    let mut machine = process.machine.borrow_mut();
    let stored = machine.write(at, &number.to_le_bytes()[..bytes]);
    stored.expect("the address is allocated");
}

/// The control record in the machine's memory, and the driver that resumes its instances.
pub(crate) struct Host {
    pub(crate) control: u64,
    pub(crate) schedule: Schedule,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) ended: Result<Vec<u64>, Trapped>,
    pub(crate) spent: i64,
}

/// The fuel at the start of a call that is to be preempted: a multiple of the interval, so that the kill word is read
/// once `every` more units have been spent.
const PLENTY: i64 = 1 << 50;

impl Host {
    pub(crate) fn new(machine: &SharedMachine, schedule: Schedule) -> Self {
        const { assert!((PLENTY as u64).is_multiple_of(KILL_INTERVAL)) };
        let mut record = vec![0; CONTROL_BYTES];
        record[RANDOM..RANDOM + 8].copy_from_slice(&schedule.seed.to_le_bytes());
        record[BELOW..BELOW + 4].copy_from_slice(&schedule.suspensions_below.to_le_bytes());
        let length = record.len() as u64;
        let control = machine.borrow_mut().allocate(&record, length);
        Self {
            control: control.expect("the record can be allocated"),
            schedule,
        }
    }

    fn word(&self, process: &Process, at: usize) -> u64 {
        let mut machine = process.machine.borrow_mut();
        let loaded = machine.number(self.control + at as u64, 4);
        loaded.expect("the record is allocated")
    }

    /// Lets the pending request complete when it is repeated.
    pub(crate) fn answer(&self, process: &Process) {
        assert!(self.word(process, PENDING) > 0, "nothing is pending");
        self.set_pending(process, 1);
    }

    /// Forgets the pending request of an abandoned call.
    pub(crate) fn forget(&self, process: &Process) {
        self.set_pending(process, 0);
    }

    fn set_pending(&self, process: &Process, times: u64) {
        store(process, self.control + PENDING as u64, 4, times);
    }

    /// A hash of all requests.
    pub(crate) fn asked(&self, process: &Process) -> u64 {
        let mut machine = process.machine.borrow_mut();
        let loaded = machine.number(self.control + HASH as u64, 8);
        loaded.expect("the record is allocated")
    }

    fn state(process: &Process) -> CallState {
        let at = process.block + offset_of!(DevInstance, state) as u64;
        let code = process.machine.borrow_mut().number(at, 4);
        CallState::from_code(code.expect("the header is allocated") as u32).expect("a known state")
    }

    fn set_fuel(process: &Process, fuel: i64) {
        let at = process.block + offset_of!(DevInstance, fuel) as u64;
        store(process, at, 8, fuel as u64);
    }

    /// Asks an instance to yield at its next check: by the kill word, or by a slice of one check.
    pub(crate) fn ask_to_yield(&self, process: &Process) {
        let (kill, slice) = if self.schedule.by_slice {
            (0, 1)
        } else {
            (YIELD, 0)
        };
        let at = process.block + offset_of!(DevInstance, kill) as u64;
        store(process, at, 4, kill.into());
        let record = process.compiled.layout.suspension;
        let record = record.expect("the module is compiled to be preempted");
        let at = process.block + (record + offset_of!(DevSuspension, slice)) as u64;
        store(process, at, 4, slice);
    }

    /// Returns the fuel with which an instance continues after `times` preemptions. A call that runs for long is
    /// preempted less often, because otherwise the suite would take minutes.
    fn prepare(&self, process: &mut Process, times: u32) -> i64 {
        if self.schedule.every > 0 {
            self.ask_to_yield(process);
            let every = (self.schedule.every as i64) << (times / 64).min(32);
            Self::set_fuel(process, PLENTY + every);
        }
        process.fuel()
    }

    /// Calls a function and resumes it until it returns or traps. Adds its suspensions to `suspensions`.
    pub(crate) fn call(
        &self,
        process: &mut Process,
        function: u32,
        args: &[u64],
        suspensions: &mut Suspensions,
        mut provide: impl FnMut(&mut Process) -> Result<(), String>,
    ) -> Result<Outcome, String> {
        let (mut fuel_before, mut spent, mut times) = (self.prepare(process, 0), 0, 0);
        let mut ended = process.call(function, args)?;
        loop {
            match Self::state(process) {
                CallState::Ended => break,
                CallState::Waiting => suspensions.waited += 1,
                CallState::Missing => {
                    suspensions.missing += 1;
                    provide(process)?;
                }
                CallState::Preempted => {
                    suspensions.preempted += 1;
                    spent += fuel_before - process.fuel();
                    times += 1;
                    fuel_before = self.prepare(process, times);
                }
            }
            if ended.is_err() {
                return Err("a suspended call reported a trap".to_owned());
            }
            // A resumed call ignores its arguments.
            ended = process.call(function, &[!0; 8])?;
        }
        if self.word(process, FAULT) != 0 {
            return Err("a request changed while it was pending".to_owned());
        }
        spent += fuel_before - process.fuel();
        Ok(Outcome { ended, spent })
    }
}

/// The number of suspensions, by their cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Suspensions {
    pub(crate) waited: u64,
    pub(crate) preempted: u64,
    /// By the lack of a function.
    pub(crate) missing: u64,
}
