//! Asks whose replies an event loop waits for. A worker that replies wakes the loop through a socket, once for all replies
//! that the loop has not taken yet; no thread waits for a reply.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use everwarp::actor::{ActorError, ActorId, Asked, MAX_ASK_WORDS, Message};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::actors::{ActorSystem, Held, reply_error};

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

/// An ask that has not ended. It does not keep the system alive, whose end ends it.
struct Open {
    asked: Asked,
    waker: Waker,
    held: Arc<Held>,
    /// The future of Python that gets the reply.
    future: Py<PyAny>,
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

/// A future of Python with the word of its reply, or its exception. Neither: the mailbox was full, and the ask was not sent.
type Ended = (Py<PyAny>, Option<u64>, Option<PyErr>);

/// What an ask has ended with.
fn ended(
    future: Py<PyAny>,
    held: &Held,
    actor: ActorId,
    reply: Result<Message, ActorError>,
) -> Ended {
    match reply {
        Ok(reply) => (future, Some(reply.word(0)), None),
        Err(ActorError::Full { .. }) => (future, None, None),
        Err(error) => {
            let error = match held.get() {
                Ok(running) => reply_error(&running, actor, &error),
                Err(closed) => closed,
            };
            (future, None, Some(error))
        }
    }
}

/// An ask as Python has it.
struct Ask {
    future: Py<PyAny>,
    actor: ActorId,
    words: [u64; MAX_ASK_WORDS],
    count: usize,
}

impl Ask {
    fn of(object: Bound<'_, PyAny>) -> PyResult<Self> {
        let actor: u64 = object.getattr("actor")?.extract()?;
        let given: Vec<u64> = object.getattr("words")?.extract()?;
        let mut words = [0; MAX_ASK_WORDS];
        let count = given.len();
        let Some(fields) = words.get_mut(..count) else {
            return Err(PyValueError::new_err("an ask has too many fields"));
        };
        fields.copy_from_slice(&given);
        Ok(Self {
            future: object.unbind(),
            actor: ActorId::from_bits(actor),
            words,
            count,
        })
    }
}

impl Asks {
    /// Asks an actor, and waits for `spin` at once. Returns what it has ended with, if it has; or gives the future back if
    /// there is no room for an ask.
    fn send(
        &self,
        ask: Ask,
        running: &crate::actors::Running,
        held: &Arc<Held>,
        tag: u8,
        spin: Duration,
    ) -> Result<Option<Ended>, Py<PyAny>> {
        let Ask { future, actor, .. } = ask;
        let sent = running
            .system
            .ask_later(actor, tag, &ask.words[..ask.count]);
        let mut asked = match sent {
            Ok(asked) => asked,
            Err(ActorError::TooManyAsks { .. }) => return Err(future),
            Err(error) => return Ok(Some(ended(future, held, actor, Err(error)))),
        };
        let begin = Instant::now();
        while !spin.is_zero() && begin.elapsed() < spin {
            if let Some(reply) = asked.try_reply() {
                return Ok(Some(ended(future, held, actor, reply)));
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
                Ok(Some(ended(future, held, actor, reply)))
            }
            Poll::Pending => {
                let open = Open {
                    asked,
                    waker,
                    held: held.clone(),
                    future,
                };
                table.open.insert(number, open);
                Ok(None)
            }
        }
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
    /// Sends asks of one message, in their order, as long as there is room. Returns how many were taken, and those of them
    /// that have ended already. A single one is waited for at once, for a moment.
    fn start(
        &self,
        py: Python<'_>,
        system: &ActorSystem,
        message: &str,
        asks: &Bound<'_, PyList>,
    ) -> PyResult<(usize, Vec<Ended>)> {
        let running = system.running()?;
        if *running.settling() > 0 {
            return Ok((0, Vec::new()));
        }
        let tag = running.system.message(message);
        let tag = tag.map_err(|error| crate::actors::actor_error(&running, &error))?;
        let (tag, held) = (tag.tag, Arc::new(Held::of(&running)));
        let asks = asks.iter().map(Ask::of).collect::<PyResult<Vec<_>>>()?;
        let alone = asks.len() == 1 && lock(&self.table).open.is_empty();
        let spin = if alone { AT_ONCE } else { Duration::ZERO };
        Ok(py.detach(|| {
            let (mut taken, mut all) = (0, Vec::new());
            for ask in asks {
                match self.send(ask, &running, &held, tag, spin) {
                    Ok(ended) => all.extend(ended),
                    Err(_) => break,
                }
                taken += 1;
            }
            (taken, all)
        }))
    }
    /// The futures of asks that have not ended.
    fn futures(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let table = lock(&self.table);
        let open = table.open.values();
        open.map(|open| open.future.clone_ref(py)).collect()
    }
    /// The asks that have ended since the last call.
    fn take(&self, py: Python<'_>) -> Vec<Ended> {
        py.detach(|| {
            // First, so that an ask that ends from now on rings again.
            self.shared.bell.silence();
            let done = std::mem::take(&mut *lock(&self.shared.done));
            let mut all = Vec::with_capacity(done.len());
            let mut table = lock(&self.table);
            for number in done {
                let Some(mut open) = table.open.remove(&number) else {
                    continue;
                };
                let mut cx = Context::from_waker(&open.waker);
                let Poll::Ready(reply) = Pin::new(&mut open.asked).poll(&mut cx) else {
                    // It will wake the loop again.
                    table.open.insert(number, open);
                    continue;
                };
                let Open {
                    asked,
                    held,
                    future,
                    ..
                } = open;
                all.push(ended(future, &held, asked.to(), reply));
            }
            all
        })
    }
    /// Drops asks whose futures are done: their time is over, or their task was cancelled. Replies that come later are
    /// dropped.
    fn sweep(&self, py: Python<'_>) -> PyResult<()> {
        let future = |(number, open): (&u64, &Open)| (*number, open.future.clone_ref(py));
        let all: Vec<_> = lock(&self.table).open.iter().map(future).collect();
        for (number, future) in all {
            if future.bind(py).call_method0("done")?.is_truthy()? {
                let open = lock(&self.table).open.remove(&number);
                py.detach(|| drop(open));
            }
        }
        Ok(())
    }
}
