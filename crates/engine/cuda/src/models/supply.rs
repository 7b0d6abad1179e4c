//! Model of how processes get functions that their image lacks: the twin of `crates/process/cuda/src/wishes.rs`, of its supplier
//! in `crates/process/cuda/src/supply.rs`, and of the requests that wait in `crates/process/hostcalls/src/waits.rs`.
//!
//! A process that calls such a function is suspended and asks the host. One thread of an engine, the supplier, takes all
//! functions that are wanted, compiles them, exchanges the image, and lets the services ask again for all requests that wait. The
//! rules:
//!
//! 1. One lock guards what is present and what is wanted. A request that does not find its function present leaves it wanted
//!    under the same lock.
//! 2. A function is present when the image with it runs.
//! 3. The supplier sleeps under the lock under which it has seen that nothing is wanted.
//! 4. Services ask again after functions have become present. A request that begins to wait is asked for once more under the
//!    lock of those that wait.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::{Tally, explore};

/// The rules that a mutant breaks.
#[derive(Clone, Copy)]
struct Rules {
    /// A function is present after the exchange.
    exchanges_first: bool,
    /// The supplier sleeps under the lock.
    sleeps_locked: bool,
    /// A request that begins to wait is asked for once more.
    asks_again: bool,
    /// Services ask again after functions have become present, not before.
    tells_last: bool,
}

const AS_WRITTEN: Rules = Rules {
    exchanges_first: true,
    sleeps_locked: true,
    asks_again: true,
    tells_last: true,
};

#[derive(Default)]
struct Books {
    /// Functions, as bits.
    present: u32,
    wanted: u32,
    /// Processes that have not ended.
    processes: usize,
}

impl Books {
    /// Whether a function is present; otherwise it is wanted from now on.
    fn ask(&mut self, function: u32) -> bool {
        let present = self.present & 1 << function != 0;
        if !present {
            self.wanted |= 1 << function;
        }
        present
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
    /// Something is wanted, or no process is left.
    asked: Condvar,
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
            self.request(number, function);
            let has = self.image.load(Acquire) & 1 << function != 0;
            assert!(has, "answered too early");
        }
        self.called.arrived(number);
        let mut books = self.books.lock().expect("no thread panics");
        books.processes -= 1;
        self.asked.notify_one();
    }

    /// `Wishes::ask`.
    fn ask(&self, function: u32) -> bool {
        let mut books = self.books.lock().expect("no thread panics");
        let present = books.ask(function);
        if !present {
            self.asked.notify_one();
        }
        present
    }

    /// The service serves a request, and answers it some time.
    fn request(&self, number: u32, function: u32) {
        if self.ask(function) {
            return;
        }
        let mut waits = self.waits.lock().expect("no thread panics");
        if self.rules.asks_again && self.ask(function) {
            return;
        }
        waits.waiting[number as usize] = Some(function);
        while waits.answered & 1 << number == 0 {
            waits = self.answered.wait(waits).expect("no thread panics");
        }
    }

    /// The thread that compiles.
    fn supplier(&self) {
        loop {
            let mut books = self.books.lock().expect("no thread panics");
            if !self.rules.sleeps_locked && books.wanted == 0 {
                drop(books);
                books = self.books.lock().expect("no thread panics");
                books = self.asked.wait(books).expect("no thread panics");
            }
            while books.wanted == 0 && books.processes > 0 {
                books = self.asked.wait(books).expect("no thread panics");
            }
            let batch = std::mem::take(&mut books.wanted);
            if batch == 0 {
                return;
            }
            drop(books);
            if !self.rules.tells_last {
                self.tell();
            }
            if !self.rules.exchanges_first {
                self.deliver(batch);
            }
            // It compiles, and the image is exchanged.
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
            if waiting.is_some_and(|function| self.ask(function)) {
                waits.waiting[number] = None;
                waits.answered |= 1 << number;
            }
        }
        self.answered.notify_all();
    }
}

/// Two processes call these functions.
fn processes_call(functions: [u32; 2], rules: Rules) {
    explore(move || {
        let module = Arc::new(Module {
            rules,
            books: Mutex::new(Books {
                processes: functions.len(),
                ..Books::default()
            }),
            asked: Condvar::new(),
            waits: Mutex::new(Waits::default()),
            answered: Condvar::new(),
            image: AtomicU32::new(0),
            called: Tally::new(functions.len()),
        });
        let supplier = Arc::clone(&module);
        let supplier = thread::spawn(move || supplier.supplier());
        let first = Arc::clone(&module);
        let first = thread::spawn(move || first.process(0, functions[0]));
        module.process(1, functions[1]);
        first.join().expect("the process ends");
        supplier.join().expect("the supplier ends");
        module.called.assert_all();
    });
}

#[test]
fn processes_get_the_functions_that_they_call() {
    processes_call([0, 1], AS_WRITTEN);
    processes_call([0, 0], AS_WRITTEN);
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
fn mutant_that_sleeps_outside_the_lock_misses_a_wish() {
    let sleeps_locked = false;
    let rules = Rules {
        sleeps_locked,
        ..AS_WRITTEN
    };
    processes_call([0, 0], rules);
}
