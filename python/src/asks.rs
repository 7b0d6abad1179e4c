//! Asks whose replies an event loop waits for. A worker that replies wakes the loop through a socket, once for all replies
//! that the loop has not taken yet; no thread waits for a reply.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use everwarp::actor::{ActorError, ActorId, Asked, Message};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::actors::{ActorSystem, Running, first_word, row, words};

/// How long an ask is waited for at once: most actors reply sooner, and a loop takes longer to wake up.
const AT_ONCE: Duration = Duration::from_micros(8);

/// The two ends of the way on which the loop is woken.
#[cfg(unix)]
mod bell {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    pub(super) struct Bell(UnixStream, UnixStream);
    impl Bell {
        pub(super) fn new() -> std::io::Result<Self> {
            let (one, other) = UnixStream::pair()?;
            one.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            Ok(Self(one, other))
        }
        pub(super) fn descriptor(&self) -> i32 {
            self.0.as_raw_fd()
        }
        pub(super) fn ring(&self) {
            // A full socket wakes the loop as well.
            let _ = (&self.1).write(&[1]);
        }
        pub(super) fn silence(&self) {
            let mut rings = [0; 64];
            while matches!((&self.0).read(&mut rings), Ok(1..)) {}
        }
    }
}
#[cfg(not(unix))]
mod bell {
    pub(super) struct Bell;
    impl Bell {
        pub(super) fn new() -> std::io::Result<Self> {
            Err(std::io::ErrorKind::Unsupported.into())
        }
        pub(super) fn descriptor(&self) -> i32 {
            -1
        }
        pub(super) fn ring(&self) {}
        pub(super) fn silence(&self) {}
    }
}

struct Shared {
    bell: bell::Bell,
    /// Numbers of asks that have ended.
    done: Mutex<Vec<u64>>,
}

/// Wakes the loop for one ask.
struct Waits {
    shared: Weak<Shared>,
    number: u64,
}
impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let first = {
            let mut done = lock(&shared.done);
            done.push(self.number);
            done.len() == 1
        };
        if first {
            shared.bell.ring();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks that have not ended, by their numbers. Fields are dropped in this order: a system may end with its last ask.
struct Open {
    asked: Asked,
    waker: Waker,
    running: Arc<Running>,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Open>,
}

/// The asks of one event loop.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct Asks {
    shared: Arc<Shared>,
    table: Mutex<Table>,
}

/// The first word of a reply; nothing if the mailbox was full, and the ask was not sent.
fn reply_of(
    running: &Running,
    actor: ActorId,
    reply: Result<Message, ActorError>,
) -> PyResult<Option<u64>> {
    match reply {
        Err(ActorError::Full { .. } | ActorError::TooManyAsks { .. }) => Ok(None),
        reply => first_word(running, actor, reply).map(Some),
    }
}

#[pymethods]
impl Asks {
    #[new]
    fn new() -> PyResult<Self> {
        let bell = bell::Bell::new();
        let bell = bell.map_err(|e| PyOSError::new_err(format!("no socket for replies: {e}")))?;
        Ok(Self {
            shared: Arc::new(Shared {
                bell,
                done: Mutex::default(),
            }),
            table: Mutex::default(),
        })
    }
    /// The descriptor that can be read when asks have ended.
    fn fileno(&self) -> i32 {
        self.shared.bell.descriptor()
    }
    /// Asks one actor. Returns the number of the ask and nothing; or 0 and its reply. 0 and nothing: it was not sent,
    /// because it would have had to wait.
    fn start(
        &self,
        py: Python<'_>,
        system: &ActorSystem,
        actor: u64,
        message: &str,
        columns: Vec<PyBuffer<u64>>,
    ) -> PyResult<(u64, Option<u64>)> {
        let running = system.running()?;
        let columns = words(py, &columns)?;
        py.detach(|| {
            if *running.settling() > 0 {
                return Ok((0, None));
            }
            let (row, fields) = row(&columns, 0);
            let sent = running.system.message(message).map(|message| message.tag);
            let actor = ActorId::from_bits(actor);
            let sent = sent.and_then(|tag| running.system.ask_later(actor, tag, &row[..fields]));
            let mut asked = match sent {
                Ok(asked) => asked,
                Err(error) => return Ok((0, reply_of(&running, actor, Err(error))?)),
            };
            let begin = Instant::now();
            // Not while others wait, which such a wait would keep from theirs.
            while lock(&self.table).open.is_empty() && begin.elapsed() < AT_ONCE {
                if let Some(reply) = asked.try_reply() {
                    return Ok((0, reply_of(&running, actor, reply)?));
                }
                std::hint::spin_loop();
            }
            let mut table = lock(&self.table);
            table.next += 1;
            let number = table.next;
            let waits = Waits {
                shared: Arc::downgrade(&self.shared),
                number,
            };
            let waker = Waker::from(Arc::new(waits));
            match Pin::new(&mut asked).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(reply) => {
                    drop(table);
                    Ok((0, reply_of(&running, actor, reply)?))
                }
                Poll::Pending => {
                    let open = Open {
                        asked,
                        waker,
                        running,
                    };
                    table.open.insert(number, open);
                    Ok((number, None))
                }
            }
        })
    }
    /// The asks that have ended since the last call: their numbers, and their replies or errors.
    fn take(&self, py: Python<'_>) -> Vec<(u64, Option<u64>, Option<PyErr>)> {
        py.detach(|| {
            // Before the list is taken: what comes later rings again.
            self.shared.bell.silence();
            let done = std::mem::take(&mut *lock(&self.shared.done));
            let mut ended = Vec::with_capacity(done.len());
            for number in done {
                let Some(mut open) = lock(&self.table).open.remove(&number) else {
                    continue;
                };
                let mut cx = Context::from_waker(&open.waker);
                let Poll::Ready(reply) = Pin::new(&mut open.asked).poll(&mut cx) else {
                    // It will wake the loop again.
                    lock(&self.table).open.insert(number, open);
                    continue;
                };
                match reply_of(&open.running, open.asked.to(), reply) {
                    Ok(word) => ended.push((number, word, None)),
                    Err(error) => ended.push((number, None, Some(error))),
                }
            }
            ended
        })
    }
    /// Gives an ask up; its reply is dropped.
    fn forget(&self, py: Python<'_>, number: u64) {
        py.detach(|| {
            let open = lock(&self.table).open.remove(&number);
            drop(open);
        });
    }
}
