//! Twin of `Channel::retry_blocking`, `Channel::put`, `Queue::take` and the end's `drop` of
//! `crates/process/cpu/src/channel.rs`, for a channel of one message between threads of the host. (Processes wait with a
//! notification that is kept for them; those on a GPU are in `crates/engine/cuda/src/models/channel.rs`.)

use std::sync::Arc;

use super::*;
use crate::sync::{Condvar, MutexGuard};

#[derive(Default)]
struct Queue {
    message: Option<u64>,
    /// Whether the side is open, on which messages are sent.
    open: bool,
}

struct Channel {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// The rule that the mutant breaks: the lock is held from a look to the wait.
    waits_late: bool,
}

/// Why an attempt has failed.
#[derive(Debug, PartialEq, Eq)]
enum Failed {
    Again,
    Closed,
}

impl Channel {
    fn open(waits_late: bool) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(Queue {
                message: None,
                open: true,
            }),
            changed: Condvar::new(),
            waits_late,
        })
    }
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap()
    }
    fn retry<T>(&self, attempt: impl Fn(&mut Queue) -> Result<T, Failed>) -> Result<T, Failed> {
        let mut queue = self.queue();
        loop {
            match attempt(&mut queue) {
                Err(Failed::Again) => {}
                decided => return decided,
            }
            if self.waits_late {
                drop(queue);
                queue = self.queue();
            }
            queue = self.changed.wait(queue).unwrap();
        }
    }
    fn send(&self, value: u64) {
        let sent = self.retry(|queue| match queue.message {
            Some(_) => Err(Failed::Again),
            None => {
                queue.message = Some(value);
                Ok(())
            }
        });
        assert_eq!(sent, Ok(()));
        self.changed.notify_all();
    }
    fn receive(&self) -> Result<u64, Failed> {
        let received = self.retry(|queue| match queue.open {
            true => queue.message.take().ok_or(Failed::Again),
            false => queue.message.take().ok_or(Failed::Closed),
        });
        if received.is_ok() {
            self.changed.notify_all();
        }
        received
    }
    fn close(&self) {
        self.queue().open = false;
        self.changed.notify_all();
    }
}

/// The sender and the receiver both wait, and the end of the sender ends the receiver's last wait.
fn in_order(waits_late: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let channel = Channel::open(waits_late);
        let other = channel.clone();
        let sender = thread::spawn(move || {
            other.send(1);
            other.send(2);
            other.close();
        });
        assert_eq!(channel.receive(), Ok(1));
        assert_eq!(channel.receive(), Ok(2));
        assert_eq!(channel.receive(), Err(Failed::Closed));
        sender.join().unwrap();
    });
}

#[test]
fn threads_of_the_host_need_not_look_again_and_again() {
    in_order(false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_that_gives_the_lock_back_before_it_waits_is_forgotten() {
    in_order(true);
}
