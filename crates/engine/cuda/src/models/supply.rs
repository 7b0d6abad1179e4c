//! Model of how processes will get functions that their image lacks: the protocol of decision 212, which is not built yet.
//! So far it is the twin of no device source.
//!
//! A process that calls such a function is suspended and asks the host. One thread for each module, the supplier, takes all
//! functions that are wanted, compiles them, exchanges the image, and only then answers those that wait. The rules:
//!
//! 1. One lock guards the set of present functions, the set of wanted ones, and the list of waiting processes. A process
//!    begins to wait under the lock under which it has seen that the function is not present.
//! 2. The supplier empties the set of wanted functions before it compiles, so that later wishes are for the next round.
//! 3. A function is present when the image with it runs.
//! 4. The supplier sleeps under the lock under which it has seen that nothing is wanted.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::{Tally, explore};

/// The rules that a mutant breaks.
#[derive(Clone, Copy)]
struct Rules {
    /// A process looks at what is present under the lock.
    looks: bool,
    /// What is wanted is taken before it is compiled.
    takes_first: bool,
    /// A function is present after the exchange.
    exchanges_first: bool,
    /// The supplier sleeps under the lock.
    sleeps_locked: bool,
}

const AS_WRITTEN: Rules = Rules {
    looks: true,
    takes_first: true,
    exchanges_first: true,
    sleeps_locked: true,
};

#[derive(Default)]
struct Books {
    /// Functions, as bits.
    present: u32,
    wanted: u32,
    /// The processes that wait, as bits, for each function.
    waiting: [u32; 2],
    /// Processes that were answered, as bits.
    answered: u32,
    /// Processes that have not ended.
    processes: usize,
}

struct Module {
    rules: Rules,
    books: Mutex<Books>,
    /// Something is wanted, or no process is left.
    asked: Condvar,
    answered: Condvar,
    /// The functions of the image that runs, as bits.
    image: AtomicU32,
    called: Tally,
}

impl Module {
    /// A process calls a function.
    fn process(&self, number: u32, function: u32) {
        while self.image.load(Acquire) & 1 << function == 0 {
            self.ask(number, function);
            let has = self.image.load(Acquire) & 1 << function != 0;
            assert!(has, "answered too early");
        }
        self.called.arrived(number);
        let mut books = self.books.lock().expect("no thread panics");
        books.processes -= 1;
        self.asked.notify_one();
    }

    /// The host has the request of a process that was suspended, and answers it some time.
    fn ask(&self, number: u32, function: u32) {
        let mut books = self.books.lock().expect("no thread panics");
        if self.rules.looks && books.present & 1 << function != 0 {
            return;
        }
        books.wanted |= 1 << function;
        books.waiting[function as usize] |= 1 << number;
        self.asked.notify_one();
        while books.answered & 1 << number == 0 {
            books = self.answered.wait(books).expect("no thread panics");
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
            if books.wanted == 0 {
                return;
            }
            let batch = books.wanted & !books.present;
            if self.rules.takes_first {
                books.wanted = 0;
            }
            if !self.rules.exchanges_first {
                self.deliver(&mut books, batch);
            }
            drop(books);
            // It compiles, and the image is exchanged.
            if batch != 0 {
                self.image.fetch_or(batch, Release);
            }
            let mut books = self.books.lock().expect("no thread panics");
            if !self.rules.takes_first {
                books.wanted = 0;
            }
            self.deliver(&mut books, batch);
        }
    }

    /// Answers those that wait for these functions.
    fn deliver(&self, books: &mut Books, batch: u32) {
        books.present |= batch;
        for function in 0..2 {
            if batch & 1 << function != 0 {
                let waiting = std::mem::take(&mut books.waiting[function]);
                books.answered |= waiting;
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
fn mutant_that_does_not_look_waits_for_what_is_there() {
    let looks = false;
    processes_call(
        [0, 0],
        Rules {
            looks,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_forgets_what_is_wanted_while_it_compiles_loses_a_wish() {
    let takes_first = false;
    processes_call(
        [0, 1],
        Rules {
            takes_first,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "answered too early")]
fn mutant_that_answers_before_the_exchange_is_found() {
    let exchanges_first = false;
    processes_call(
        [0, 0],
        Rules {
            exchanges_first,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_sleeps_outside_the_lock_misses_a_wish() {
    let sleeps_locked = false;
    processes_call(
        [0, 0],
        Rules {
            sleeps_locked,
            ..AS_WRITTEN
        },
    );
}
