//! Payloads: values of any size whose ownership moves with a message. A cell has a payload's number; the value is in a
//! table of the system's side until a handler takes it out. Rules:
//! 1. A number is in one message. Passing the message on gives the payload another number.
//! 2. The value is dropped with its message: after the handler, when the message is a dead letter, when what an atomic
//!    kind's handler sent is undone, or with the system.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use everwarp_contract::actor::MESSAGE_PAYLOAD;
use everwarp_runtime::{Buffer, Element, Engine, EngineMark};

use crate::context::ActorCx;
use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::Message;
use crate::sync::Ordering;
use crate::system::{ActorSystem, Tell};
use crate::table::Cell;

/// The most words of a message with a payload.
pub const MAX_PAYLOAD_WORDS: usize = 3;

/// A value, and the name of its type.
struct Payload {
    value: Box<dyn Any + Send>,
    name: &'static str,
}

/// The payloads of a system that are in messages.
#[derive(Default)]
pub(crate) struct Payloads {
    last: AtomicU64,
    /// The engine on which the actors run; none if they are simulated.
    engine: OnceLock<EngineMark>,
    all: Mutex<HashMap<u64, Payload>>,
}

impl fmt::Debug for Payloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Payloads").field(&self.all().len()).finish()
    }
}

impl Payloads {
    /// No panic leaves the table wrong.
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Payload>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The actors run on this engine.
    pub(crate) fn run_on(&self, engine: &Engine) {
        self.engine.get_or_init(|| engine.mark());
    }
    /// Whether a buffer is memory of an engine on which the actors do not run.
    fn is_strange<T: Element>(&self, buffer: &Buffer<T>) -> bool {
        let own = self.engine.get();
        own.is_some_and(|engine| !buffer.is_marked(engine))
    }
    /// Numbers have 32 bits, because a message has a length next to them.
    fn put(&self, payload: Payload) -> u64 {
        let mut all = self.all();
        loop {
            let number = 1 + self.last.fetch_add(1, Ordering::Relaxed) % u64::from(u32::MAX);
            if let Entry::Vacant(place) = all.entry(number) {
                place.insert(payload);
                return number;
            }
        }
    }
    fn add<P: Send + 'static>(&self, value: P) -> u64 {
        self.put(Payload {
            value: Box::new(value),
            name: std::any::type_name::<P>(),
        })
    }
    /// Takes a payload out, if it has this type.
    fn take<P: 'static>(&self, number: u64) -> Result<P, ActorError> {
        let mut all = self.all();
        let payload = all.remove(&number).ok_or(ActorError::NoPayload)?;
        let Payload { value, name } = payload;
        match value.downcast::<P>() {
            Ok(value) => Ok(*value),
            Err(value) => {
                all.insert(number, Payload { value, name });
                Err(ActorError::WrongPayload {
                    carries: name,
                    given: std::any::type_name::<P>(),
                })
            }
        }
    }
    /// Gives a payload to another message. None if a handler has taken it out.
    fn pass_on(&self, number: u64) -> Option<u64> {
        let payload = self.all().remove(&number);
        payload.map(|payload| self.put(payload))
    }
    /// A message has ended: so does its payload.
    pub(crate) fn end(&self, message: &Message) {
        if message.has_payload() {
            // It may do something when it is dropped, so the lock is not held.
            let payload = self.all().remove(&message.payload());
            drop(payload);
        }
    }
    /// The system ends.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.all());
        drop(all);
    }
}

impl Message {
    /// Whether a payload came with it; a handler may have taken that out.
    pub fn has_payload(&self) -> bool {
        self.head & MESSAGE_PAYLOAD != 0
    }
    fn payload(&self) -> u64 {
        self.words[MAX_PAYLOAD_WORDS] & NUMBER
    }
}

/// The number of a payload in its word.
const NUMBER: u64 = u32::MAX as u64;

/// What handlers on a GPU reach of a payload: how many elements there are, and where.
#[derive(Clone, Copy, Default)]
struct Elements {
    length: u32,
    address: u64,
}

impl Elements {
    fn of<T: Element>(buffer: &Buffer<T>) -> Self {
        Self {
            length: u32::try_from(buffer.len()).expect("the caller's buffer is shorter"),
            address: buffer.ptr().address(),
        }
    }
    /// The last words of a message with a payload of this number.
    fn words(self, number: u64) -> [u64; 2] {
        [number | u64::from(self.length) << 32, self.address]
    }
}

/// Marks the message in a cell as one with a payload.
fn attach(cell: &Cell, words: [u64; 2]) {
    let head = cell.head.load(Ordering::Relaxed);
    cell.head.store(head | MESSAGE_PAYLOAD, Ordering::Relaxed);
    for (to, word) in cell.words[MAX_PAYLOAD_WORDS..].iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

/// A message that was not sent, and its payload.
pub struct Refused<P> {
    /// Why.
    pub error: ActorError,
    /// The payload; none if the engine has failed and the actor had it by then.
    pub payload: Option<P>,
}

impl<P> fmt::Debug for Refused<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refused").field(&self.error).finish()
    }
}
impl<P> fmt::Display for Refused<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
impl<P> std::error::Error for Refused<P> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
impl<P> From<Refused<P>> for ActorError {
    fn from(refused: Refused<P>) -> Self {
        refused.error
    }
}

impl ActorSystem {
    /// Sends a message with a payload, as [`tell`](Self::tell): a value of any size, which is not copied, and which the
    /// handler takes out with [`ActorCx::open`]. It is dropped with its message. On a GPU, handlers pass it on, and actors of the
    /// host open it; see [`tell_buffer`](Self::tell_buffer).
    ///
    /// ```
    /// use everwarp_actor::{ActorProgram, ActorSystem, Kind};
    /// use everwarp_runtime::{Device, Select};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (done, results) = std::sync::mpsc::channel();
    /// let done = std::sync::Mutex::new(done);
    /// let kind = Kind::closure("sorter", 8, move |actor, _| {
    ///     let mut numbers: Vec<u32> = actor.open().expect("it has a payload");
    ///     numbers.sort_unstable();
    ///     done.lock().expect("no panic").send(numbers).expect("main waits");
    /// });
    /// let program = ActorProgram::closures("sorters", vec![kind]);
    /// let device = Device::open(Select::Cpu)?;
    /// let engine = device.engine().program(program.program()).start()?;
    /// let system = ActorSystem::start(&engine, &program, Default::default())?;
    /// let sorter = system.launch(0)?;
    /// system.tell_with(sorter, 0, &[], vec![3_u32, 1, 2])?;
    /// assert_eq!(results.recv()?, [1, 2, 3]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`tell`](Self::tell), or [`ActorError::NoServices`] or [`ActorError::NotOnEngine`], with the payload.
    ///
    /// # Panics
    /// There are more than [`MAX_PAYLOAD_WORDS`] words.
    pub fn tell_with<P: Send + 'static>(
        &self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        payload: P,
    ) -> Result<(), Refused<P>> {
        self.tell_payload(to, tag, words, payload, Elements::default())
    }
    /// Sends a message with a buffer of the engine, as [`tell_with`](Self::tell_with). Handlers on a GPU read and write its elements
    /// in place: `m.data<T>()` and `m.length()` in CUDA C++. Others [`open`](ActorCx::open) a `Buffer<T>`. The buffer is free again
    /// when it is dropped.
    ///
    /// # Errors
    /// As [`tell_with`](Self::tell_with), or [`ActorError::OtherEngine`], with the buffer.
    ///
    /// # Panics
    /// There are more than [`MAX_PAYLOAD_WORDS`] words, or the buffer has 2^32 elements or more.
    pub fn tell_buffer<T: Element + Send + 'static>(
        &self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        buffer: Buffer<T>,
    ) -> Result<(), Box<Refused<Buffer<T>>>> {
        if !buffer.is_of(&self.engine) {
            return Err(Box::new(Refused {
                error: ActorError::OtherEngine,
                payload: Some(buffer),
            }));
        }
        let elements = Elements::of(&buffer);
        let told = self.tell_payload(to, tag, words, buffer, elements);
        told.map_err(Box::new)
    }
    fn tell_payload<P: Send + 'static>(
        &self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        payload: P,
        elements: Elements,
    ) -> Result<(), Refused<P>> {
        let side = match self.local("messages with payloads") {
            Ok(local) => &local.side,
            Err(error) => {
                let payload = Some(payload);
                return Err(Refused { error, payload });
            }
        };
        let mut tell = Tell::new(to, tag, words);
        let number = side.payloads.add(payload);
        tell.attach(
            Message::head_of(tag, words.len(), MAX_PAYLOAD_WORDS) | MESSAGE_PAYLOAD,
            elements.words(number),
        );
        self.tell_all(&[tell]).map_err(|error| Refused {
            error,
            payload: side.payloads.take(number).ok(),
        })
    }
}

impl Tell {
    fn attach(&mut self, head: u32, words: [u64; 2]) {
        self.head = head;
        self.words[MAX_PAYLOAD_WORDS..].copy_from_slice(&words);
    }
}

/// Payloads, for handlers.
impl ActorCx<'_, '_, '_> {
    /// Takes the payload out of the message that is being handled. It belongs to the handler then: one that fails and
    /// handles the message again finds none.
    ///
    /// # Errors
    /// [`ActorError::NoPayload`] if there is none, or it was taken out before; [`ActorError::WrongPayload`] if it is of
    /// another type, and it stays in the message.
    pub fn open<P: 'static>(&mut self) -> Result<P, ActorError> {
        self.open_at(0)
    }
    /// The same for the message in this place of several.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Panics
    /// There is no such message.
    pub fn open_at<P: 'static>(&mut self, place: usize) -> Result<P, ActorError> {
        let message = &self.messages[place];
        if !message.has_payload() {
            return Err(ActorError::NoPayload);
        }
        let side = self.host.side().ok_or(ActorError::NoPayload)?;
        side.payloads.take(message.payload())
    }
    /// Sends a message with a payload, as [`tell`](Self::tell).
    ///
    /// # Panics
    /// There are more than [`MAX_PAYLOAD_WORDS`] words.
    pub fn tell_with<P: Send + 'static>(
        &mut self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        payload: P,
    ) {
        self.tell_payload(to, tag, words, payload, Elements::default());
    }
    /// Sends a message with a buffer, as [`ActorSystem::tell_buffer`]. An actor fails that sends a buffer of another engine than its
    /// own, which is dropped; [`ActorSystem::failures`] has the reason, [`ActorError::OtherEngine`].
    ///
    /// # Panics
    /// There are more than [`MAX_PAYLOAD_WORDS`] words, or the buffer has 2^32 elements or more.
    pub fn tell_buffer<T: Element + Send + 'static>(
        &mut self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        buffer: Buffer<T>,
    ) {
        let side = self.host.side();
        if side.is_some_and(|side| side.payloads.is_strange(&buffer)) {
            return self.fail_because(&ActorError::OtherEngine.to_string());
        }
        let elements = Elements::of(&buffer);
        self.tell_payload(to, tag, words, buffer, elements);
    }
    fn tell_payload<P: Send + 'static>(
        &mut self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        payload: P,
        elements: Elements,
    ) {
        let head = Message::head_of(tag, words.len(), MAX_PAYLOAD_WORDS);
        // The system ends: no message is handled any more.
        let Some(side) = self.host.side() else { return };
        if self.spend()
            && let Some(cell) = self.write(head, words, None)
        {
            let number = side.payloads.add(payload);
            attach(
                &self.turn.table.cells[cell as usize],
                elements.words(number),
            );
            self.send(to, cell);
        }
    }
    /// The message in a cell passes on the payload of the one that is being handled, if it still has it.
    pub(crate) fn pass_payload(&mut self, place: usize, cell: u32) {
        let message = &self.messages[place];
        if message.has_payload()
            && let Some(side) = self.host.side()
            && let Some(number) = side.payloads.pass_on(message.payload())
        {
            let [length, address] = [message.words[MAX_PAYLOAD_WORDS] & !NUMBER, message.words[4]];
            attach(
                &self.turn.table.cells[cell as usize],
                [number | length, address],
            );
        }
    }
    /// Messages were handled: what is left of their payloads is dropped.
    pub(crate) fn end_payloads(&mut self) {
        if self.messages.iter().any(Message::has_payload)
            && let Some(side) = self.host.side()
        {
            self.messages.iter().for_each(|m| side.payloads.end(m));
        }
    }
    /// A message that was not sent is undone.
    pub(crate) fn undo_payload(&mut self, cell: u32) {
        let message = crate::context::message_in(&self.turn.table.cells[cell as usize]);
        if message.has_payload()
            && let Some(side) = self.host.side()
        {
            side.payloads.end(&message);
        }
    }
}
