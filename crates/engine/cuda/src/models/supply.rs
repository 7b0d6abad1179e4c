//! Model of how processes get functions that their image lacks: the twin of `crates/process/cuda/src/wishes.rs`, of its threads
//! in `crates/process/cuda/src/supply.rs`, and of the requests that wait in `crates/process/hostcalls/src/waits.rs`.
//!
//! A process that calls such a function is suspended and asks the host. Assemblers assemble batches of functions, those that were
//! asked for first; the supplier exchanges the image for one with all that is assembled, and lets the services ask again for all
//! requests that wait. The rules:
//!
//! 1. One lock guards how far each batch is and what is wanted. A request that does not find its function present or unavailable
//!    leaves it wanted under the same lock.
//! 2. A function is present when the image with it runs.
//! 3. The supplier and the assemblers sleep under the lock under which they have seen that there is nothing for them to do. A
//!    request that leaves a function wanted wakes both; an assembler that is done with a batch, whether it could be had or not, wakes
//!    the supplier.
//! 4. Services ask again after functions have become present or unavailable. A request that begins to wait is asked for once more
//!    under the lock of those that wait.
//!
//! A batch is one function here, and one assembler stands for all.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::{Tally, explore_within};

/// The rules that a mutant breaks.
#[derive(Clone, Copy)]
struct Rules {
    /// A function is present after the exchange.
    exchanges_first: bool,
    /// The supplier sleeps under the lock.
    supplier_sleeps_locked: bool,
    /// The assembler sleeps under the lock.
    assembler_sleeps_locked: bool,
    /// A request that begins to wait is asked for once more.
    asks_again: bool,
    /// Services ask again after functions have become present, not before.
    tells_last: bool,
    /// Services ask again after a function has become unavailable.
    tells_failures: bool,
    /// An assembler that is done with a batch wakes the supplier.
    wakes_supplier: bool,
    /// So does one that could not assemble it.
    wakes_after_failure: bool,
}

const AS_WRITTEN: Rules = Rules {
    exchanges_first: true,
    supplier_sleeps_locked: true,
    assembler_sleeps_locked: true,
    asks_again: true,
    tells_last: true,
    tells_failures: true,
    wakes_supplier: true,
    wakes_after_failure: true,
};

/// A function that cannot be assembled.
const BAD: u32 = 2;
/// A function that may be assembled although no process asks for it.
const IDLE: u32 = 3;

/// What a request learns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Present,
    Unavailable,
    Awaited,
}

/// Functions, as bits.
#[derive(Default)]
struct Books {
    wanted: u32,
    /// A thread assembles them, or has done so.
    taken: u32,
    /// Assembled, or not to be had.
    done: u32,
    unavailable: u32,
    present: u32,
    /// Functions that are assembled although no process asks for them.
    idle: u32,
    /// Processes that have not ended.
    processes: usize,
}

impl Books {
    /// `Batches::ask`: says as well whether the function has not been wanted before.
    fn ask(&mut self, function: u32) -> (Answer, bool) {
        let function = 1 << function;
        if self.present & function != 0 {
            return (Answer::Present, false);
        }
        if self.unavailable & function != 0 {
            return (Answer::Unavailable, false);
        }
        let new = self.wanted & function == 0;
        self.wanted |= function;
        (Answer::Awaited, new)
    }

    /// `Batches::take`.
    fn take(&mut self) -> Option<u32> {
        let asked = self.wanted & !self.taken;
        let all = if asked == 0 {
            self.idle & !self.taken
        } else {
            asked
        };
        let function = (all != 0).then(|| all.trailing_zeros())?;
        self.taken |= 1 << function;
        Some(function)
    }

    /// Functions that are assembled and that the image lacks.
    fn ready(&self) -> u32 {
        self.done & !self.unavailable & !self.present
    }

    /// `Batches::is_due`, where each function is enough for an exchange when nothing that processes wait for is to come.
    fn is_due(&self) -> bool {
        self.wanted & self.ready() != 0 && self.wanted & !self.done == 0
    }
}

/// The requests that wait, in a service.
#[derive(Default)]
struct Waits {
    /// The function that each process waits for.
    waiting: [Option<u32>; 2],
    /// Processes that were answered, as bits.
    answered: u32,
}

struct Module {
    rules: Rules,
    books: Mutex<Books>,
    /// There may be something to assemble.
    absent: Condvar,
    /// An exchange may be due.
    due: Condvar,
    waits: Mutex<Waits>,
    answered: Condvar,
    /// The functions of the image that runs, as bits.
    image: AtomicU32,
    called: Tally,
}

impl Module {
    /// A process calls a function.
    fn process(&self, number: u32, function: u32) {
        while self.image.load(Acquire) & 1 << function == 0 {
            if self.request(number, function) == Answer::Unavailable {
                assert_eq!(function, BAD, "refused without a reason");
                break;
            }
            let has = self.image.load(Acquire) & 1 << function != 0;
            assert!(has, "answered too early");
        }
        self.called.arrived(number);
        let mut books = self.books.lock().expect("no thread panics");
        books.processes -= 1;
        // The threads end with the last process, and no end of another one may wake them.
        if books.processes == 0 {
            self.absent.notify_one();
            self.due.notify_one();
        }
    }

    /// `Wishes::ask`.
    fn ask(&self, function: u32) -> Answer {
        let mut books = self.books.lock().expect("no thread panics");
        let (answer, new) = books.ask(function);
        if new {
            self.absent.notify_one();
            self.due.notify_one();
        }
        answer
    }

    /// The service serves a request, and answers it some time.
    fn request(&self, number: u32, function: u32) -> Answer {
        let answer = self.ask(function);
        if answer != Answer::Awaited {
            return answer;
        }
        let mut waits = self.waits.lock().expect("no thread panics");
        if self.rules.asks_again {
            let answer = self.ask(function);
            if answer != Answer::Awaited {
                return answer;
            }
        }
        waits.waiting[number as usize] = Some(function);
        while waits.answered & 1 << number == 0 {
            waits = self.answered.wait(waits).expect("no thread panics");
        }
        drop(waits);
        self.ask(function)
    }

    /// A thread that assembles.
    fn assembler(&self) {
        loop {
            let mut books = self.books.lock().expect("no thread panics");
            let mut taken = books.take();
            if !self.rules.assembler_sleeps_locked && taken.is_none() {
                drop(books);
                books = self.books.lock().expect("no thread panics");
                books = self.absent.wait(books).expect("no thread panics");
                taken = books.take();
            }
            while taken.is_none() && books.processes > 0 {
                books = self.absent.wait(books).expect("no thread panics");
                taken = books.take();
            }
            let Some(function) = taken else {
                return;
            };
            drop(books);
            // It is assembled.
            let mut books = self.books.lock().expect("no thread panics");
            books.done |= 1 << function;
            let failed = function == BAD;
            if failed {
                books.unavailable |= 1 << function;
                books.wanted &= !(1 << function);
            }
            let wakes = match failed {
                true => self.rules.wakes_after_failure,
                false => self.rules.wakes_supplier,
            };
            if wakes {
                self.due.notify_one();
            }
            drop(books);
            if failed && self.rules.tells_failures {
                self.tell();
            }
        }
    }

    /// The thread that exchanges the image.
    fn supplier(&self) {
        loop {
            let mut books = self.books.lock().expect("no thread panics");
            if !self.rules.supplier_sleeps_locked && !books.is_due() {
                drop(books);
                books = self.books.lock().expect("no thread panics");
                books = self.due.wait(books).expect("no thread panics");
            }
            while !books.is_due() && books.processes > 0 {
                books = self.due.wait(books).expect("no thread panics");
            }
            if !books.is_due() {
                return;
            }
            let batch = books.ready();
            drop(books);
            if !self.rules.tells_last {
                self.tell();
            }
            if !self.rules.exchanges_first {
                self.deliver(batch);
            }
            // The image is exchanged.
            self.image.fetch_or(batch, Release);
            if self.rules.exchanges_first {
                self.deliver(batch);
            }
        }
    }

    /// `Wishes::deliver`.
    fn deliver(&self, batch: u32) {
        let mut books = self.books.lock().expect("no thread panics");
        books.present |= batch;
        books.wanted &= !batch;
        drop(books);
        if self.rules.tells_last {
            self.tell();
        }
    }

    /// The service asks again for all requests that wait.
    fn tell(&self) {
        let mut waits = self.waits.lock().expect("no thread panics");
        for number in 0..2 {
            let waiting = waits.waiting[number];
            if waiting.is_some_and(|function| self.ask(function) != Answer::Awaited) {
                waits.waiting[number] = None;
                waits.answered |= 1 << number;
            }
        }
        self.answered.notify_all();
    }
}

/// Two processes call these functions.
fn processes_call(functions: [u32; 2], rules: Rules) {
    run(functions, 0, rules);
}

/// Processes call these functions, while others are assembled that no process asks for.
fn run<const N: usize>(functions: [u32; N], idle: u32, rules: Rules) {
    explore_within(2, move || {
        let module = Arc::new(Module {
            rules,
            books: Mutex::new(Books {
                processes: functions.len(),
                idle,
                ..Books::default()
            }),
            absent: Condvar::new(),
            due: Condvar::new(),
            waits: Mutex::new(Waits::default()),
            answered: Condvar::new(),
            image: AtomicU32::new(0),
            called: Tally::new(functions.len()),
        });
        let threads: [fn(&Module); 2] = [Module::assembler, Module::supplier];
        let threads = threads.map(|run| {
            let module = Arc::clone(&module);
            thread::spawn(move || run(&module))
        });
        let others: Vec<_> = (1..N)
            .map(|number| {
                let module = Arc::clone(&module);
                thread::spawn(move || module.process(number as u32, functions[number]))
            })
            .collect();
        module.process(0, functions[0]);
        for other in others {
            other.join().expect("the process ends");
        }
        for thread in threads {
            thread.join().expect("the thread ends");
        }
        module.called.assert_all();
    });
}

#[test]
fn processes_get_the_functions_that_they_call() {
    processes_call([0, 1], AS_WRITTEN);
    processes_call([0, 0], AS_WRITTEN);
}

#[test]
fn functions_that_no_process_asks_for_come_with_those_that_one_does() {
    run([0], 1 << IDLE, AS_WRITTEN);
}

#[test]
fn processes_learn_that_a_function_cannot_be_had() {
    processes_call([0, BAD], AS_WRITTEN);
    processes_call([BAD, BAD], AS_WRITTEN);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_does_not_ask_again_waits_for_what_is_there() {
    let asks_again = false;
    let rules = Rules {
        asks_again,
        ..AS_WRITTEN
    };
    processes_call([0, 0], rules);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_tells_before_functions_are_present_leaves_requests_waiting() {
    let tells_last = false;
    let rules = Rules {
        tells_last,
        ..AS_WRITTEN
    };
    processes_call([0, 1], rules);
}

#[test]
#[should_panic(expected = "answered too early")]
fn mutant_that_answers_before_the_exchange_is_found() {
    let exchanges_first = false;
    let rules = Rules {
        exchanges_first,
        ..AS_WRITTEN
    };
    processes_call([0, 0], rules);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_whose_supplier_sleeps_outside_the_lock_misses_a_batch() {
    let supplier_sleeps_locked = false;
    let rules = Rules {
        supplier_sleeps_locked,
        ..AS_WRITTEN
    };
    processes_call([0, 0], rules);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_whose_assembler_sleeps_outside_the_lock_misses_a_wish() {
    let assembler_sleeps_locked = false;
    let rules = Rules {
        assembler_sleeps_locked,
        ..AS_WRITTEN
    };
    processes_call([0, 0], rules);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_whose_assembler_does_not_wake_the_supplier_leaves_requests_waiting() {
    let wakes_supplier = false;
    let rules = Rules {
        wakes_supplier,
        ..AS_WRITTEN
    };
    processes_call([0, 0], rules);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_does_not_wake_the_supplier_after_a_failure_leaves_others_waiting() {
    let wakes_after_failure = false;
    let rules = Rules {
        wakes_after_failure,
        ..AS_WRITTEN
    };
    processes_call([0, BAD], rules);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_does_not_tell_of_failures_leaves_requests_waiting() {
    let tells_failures = false;
    let rules = Rules {
        tells_failures,
        ..AS_WRITTEN
    };
    processes_call([BAD, BAD], rules);
}
