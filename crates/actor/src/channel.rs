//! Channels: bounded queues of typed values between actors, native tasks and the host.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_contract::DevType;
use everwarp_contract::layout::type_number;

use crate::error::ActorError;
use crate::message::{MAX_ASK_WORDS, Message};
use crate::post::Post;
use crate::side::{Receiving, Sending, Side, TypeNumber, ValueType, Words};
use crate::sync::Condvar;
use crate::system::ActorSystem;

/// The most bytes of a channel's value.
pub const MAX_VALUE_BYTES: usize = MAX_ASK_WORDS * 8;

crate::number::number! {
    /// A channel of a system. Numbers are not used again.
    ChannelId
}

pub(crate) fn type_of<T: DevType + 'static>() -> ValueType {
    const {
        assert!(
            size_of::<T>() <= MAX_VALUE_BYTES,
            "a channel's value has up to 32 bytes"
        )
    };
    ValueType {
        id: Some(TypeId::of::<T>()),
        number: TypeNumber::Of(type_number::<T>),
        name: std::any::type_name::<T>(),
        words: size_of::<T>().div_ceil(8),
    }
}
pub(crate) fn words_of<T: DevType>(value: &T) -> Words {
    let mut bytes = [0; MAX_VALUE_BYTES];
    // SAFETY: a `DevType` has no padding, so every byte is initialised.
    let own = unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) };
    bytes[..own.len()].copy_from_slice(own);
    std::array::from_fn(|i| {
        let word = bytes[8 * i..].first_chunk().expect("eight bytes");
        u64::from_ne_bytes(*word)
    })
}
fn value_of<T: DevType>(words: &Words) -> T {
    Message::of_reply(words, 0).value()
}

/// What sending has ended with, where nothing waits.
pub(crate) fn sent<T>(channel: ChannelId, sending: Sending) -> Result<(), ActorError> {
    match sending {
        Sending::Sent => Ok(()),
        Sending::Full | Sending::Waits => Err(ActorError::ChannelFull { channel }),
        Sending::Closed => Err(ActorError::ChannelClosed { channel }),
        Sending::Wrong(carries) => Err(wrong::<T>(channel, carries)),
    }
}
pub(crate) fn received<T: DevType>(
    channel: ChannelId,
    receiving: Receiving,
) -> Result<T, ActorError> {
    match receiving {
        Receiving::Value(words) => Ok(value_of(&words)),
        Receiving::Empty | Receiving::Waits => Err(ActorError::ChannelEmpty { channel }),
        Receiving::Closed => Err(ActorError::ChannelClosed { channel }),
        Receiving::Wrong(carries) => Err(wrong::<T>(channel, carries)),
    }
}
pub(crate) fn wrong<T>(channel: ChannelId, carries: &'static str) -> ActorError {
    ActorError::WrongValue {
        channel,
        carries,
        given: std::any::type_name::<T>(),
    }
}

/// What the handles of a channel share.
struct Inner {
    side: Arc<Side>,
    post: Post,
    id: ChannelId,
    capacity: usize,
    changed: Arc<Condvar>,
    patience: Duration,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.side.close_channel(self.id.0);
        // This may be a thread of the engine.
        self.side.kick();
    }
}

/// A bounded channel of values of one type, between actors, native tasks and the host. Each value reaches one receiver,
/// and those of one sender arrive in order. Receivers, and senders when the channel is full, are served in the order in
/// which they came. The channel is closed when its last handle is dropped; values that it holds are still received.
///
/// Actors use it by its [`id`](Self::id): see [`ActorCx::receive_on`](crate::ActorCx::receive_on). Native tasks of the CPU engine use
/// [`try_send`](Self::try_send), and are submitted by [`receive_then`](Self::receive_then), which works with tasks of any
/// engine.
///
/// ```
/// use everwarp_actor::{ActorProgram, ActorSystem, ChannelId, Kind};
/// use everwarp_runtime::{Device, Select};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Doubles what it receives from the channel in word 0, and sends it on the one in word 1.
/// let kind = Kind::closure("double", 16, |actor, message| {
///     if !message.is_reply() {
///         let channels = [message.word(0), message.word(1)].map(u64::to_ne_bytes);
///         actor.state_bytes()[..16].copy_from_slice(channels.as_flattened());
///     }
///     let word = |at: usize, state: &[u8]| {
///         ChannelId::from_bits(u64::from_ne_bytes(state[at..at + 8].try_into().expect("8 bytes")))
///     };
///     let (from, to) = (word(0, actor.state_bytes()), word(8, actor.state_bytes()));
///     if message.is_reply() && message.ask() == 1 {
///         match message.failure() {
///             None => drop(actor.send_on(to, &(2 * message.value::<u64>()), 2)),
///             Some(_) => actor.stop(), // the channel is closed and empty
///         }
///     } else {
///         // The first value, or the next one once the last was sent.
///         actor.receive_on::<u64>(from, 1);
///     }
/// });
/// let program = ActorProgram::closures("doubles", vec![kind]);
/// let device = Device::open(Select::Cpu)?;
/// let engine = device.engine().program(program.program()).start()?;
/// let system = ActorSystem::start(&engine, &program, Default::default())?;
///
/// let (numbers, doubles) = (system.channel::<u64>(4)?, system.channel::<u64>(1)?);
/// let actor = system.launch(0)?;
/// system.tell(actor, 0, &[numbers.id().bits(), doubles.id().bits()])?;
/// for number in 1..=4 {
///     numbers.send(&number)?;
/// }
/// for number in 1..=4 {
///     assert_eq!(doubles.receive()?, 2 * number);
/// }
/// # Ok(()) }
/// ```
pub struct Channel<T> {
    inner: Arc<Inner>,
    carries: PhantomData<fn() -> T>,
}

impl<T> Clone for Channel<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            carries: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel").field(&self.inner.id).finish()
    }
}

impl<T: DevType + Send + 'static> Channel<T> {
    /// Its number, by which actors use it.
    pub fn id(&self) -> ChannelId {
        self.inner.id
    }
    /// How many values it holds at most.
    pub fn capacity(&self) -> usize {
        self.inner.capacity
    }
    /// How many values it holds.
    pub fn len(&self) -> usize {
        self.inner.side.channel_length(self.inner.id.0)
    }
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Closes it: no more values are sent, and waiting senders and receivers end with
    /// [`ActorError::ChannelClosed`]. What it holds is still received.
    ///
    /// # Errors
    /// The engine has failed.
    pub fn close(&self) -> Result<(), ActorError> {
        self.inner.side.close_channel(self.inner.id.0);
        Ok(self.inner.post.carry(&self.inner.side)?)
    }

    /// Sends a value; waits while the channel is full, up to
    /// [`ActorConfig::patience`](crate::ActorConfig::patience). A handler must not wait: it uses
    /// [`try_send`](Self::try_send).
    ///
    /// # Errors
    /// [`ActorError::ChannelFull`] when the time is over, [`ActorError::ChannelClosed`], [`ActorError::InHandler`].
    pub fn send(&self, value: &T) -> Result<(), ActorError> {
        self.send_within(value, self.inner.patience)
    }
    /// Sends a value; waits up to a time while the channel is full.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_within(&self, value: &T, wait: Duration) -> Result<(), ActorError> {
        ActorSystem::may_wait("Channel::send")?;
        let Inner {
            side,
            post,
            id,
            changed,
            ..
        } = &*self.inner;
        let until = Instant::now().checked_add(wait);
        let mut carried = Ok(());
        let to = (id.0, type_of::<T>());
        let sending = side.send_until(to, words_of(value), changed, until, || {
            carried = post.carry(side);
        });
        carried?;
        sent::<T>(*id, sending)
    }
    /// Sends a value if there is room, or a receiver. It never waits, so that tasks and handlers may call it.
    ///
    /// # Errors
    /// [`ActorError::ChannelFull`] or [`ActorError::ChannelClosed`].
    pub fn try_send(&self, value: &T) -> Result<(), ActorError> {
        let Inner { side, id, .. } = &*self.inner;
        let sending = side.try_send((id.0, type_of::<T>()), words_of(value));
        side.kick();
        sent::<T>(*id, sending)
    }

    /// Receives a value; waits while the channel is empty, up to
    /// [`ActorConfig::patience`](crate::ActorConfig::patience). A handler must not wait: it uses
    /// [`ActorCx::receive_on`](crate::ActorCx::receive_on).
    ///
    /// # Errors
    /// [`ActorError::ChannelEmpty`] when the time is over; [`ActorError::ChannelClosed`] when it is closed and empty;
    /// [`ActorError::InHandler`].
    pub fn receive(&self) -> Result<T, ActorError> {
        self.receive_within(self.inner.patience)
    }
    /// Receives a value; waits up to a time while the channel is empty.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_within(&self, wait: Duration) -> Result<T, ActorError> {
        ActorSystem::may_wait("Channel::receive")?;
        let Inner {
            side,
            post,
            id,
            changed,
            ..
        } = &*self.inner;
        let until = Instant::now().checked_add(wait);
        let mut carried = Ok(());
        let from = (id.0, type_of::<T>());
        let receiving = side.receive_until(from, changed, until, || {
            carried = post.carry(side);
        });
        // A value that was received is not lost with the engine.
        match receiving {
            Receiving::Value(words) => Ok(value_of(&words)),
            other => carried.map_err(ActorError::from).and(received(*id, other)),
        }
    }
    /// Receives a value if there is one. It never waits, so that tasks and handlers may call it.
    ///
    /// # Errors
    /// [`ActorError::ChannelEmpty`], or [`ActorError::ChannelClosed`] when it is closed and empty.
    pub fn try_receive(&self) -> Result<T, ActorError> {
        let Inner { side, id, .. } = &*self.inner;
        let receiving = side.try_receive((id.0, type_of::<T>()));
        side.kick();
        received(*id, receiving)
    }
    /// Receives a value by continuation: `then` runs with it once there is one, or with none when the channel is closed and
    /// empty. It runs in the thread that sends, or in this one, and must neither wait nor use this channel's methods that
    /// wait. It may submit a native task with the value:
    ///
    /// ```
    /// use everwarp_actor::{ActorProgram, ActorSystem, Kind};
    /// use everwarp_runtime::{
    ///     DevNone, Device, Function, Params, Program, ProgramRef, Select, Shape, Twin,
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let square = Twin::new(|task| task.report_add(task.arg() * task.arg()));
    /// let tasks = ProgramRef::from(Program {
    ///     name: "tasks".into(),
    ///     functions: vec![Function::shaped(Shape::Lane, "square".into(), square)].into(),
    ///     device_source: "".into(),
    ///     wgsl_source: "".into(),
    ///     params: Params::of::<DevNone>(),
    /// });
    /// let actors = ActorProgram::closures("actors", vec![Kind::host("host")]);
    /// let device = Device::open(Select::Cpu)?;
    /// let engine = device.engine().program(actors.program()).program(tasks.clone()).start()?;
    /// let system = ActorSystem::start(&engine, &actors, Default::default())?;
    ///
    /// let numbers = system.channel::<u64>(8)?;
    /// let (done, results) = std::sync::mpsc::channel();
    /// let (own, squares) = (engine.clone(), engine.plain_instance(tasks)?);
    /// numbers.receive_then(move |number| {
    ///     let number = number.expect("the channel is open");
    ///     let pending = own.submit(squares.task(0).arg(number));
    ///     done.send(pending).expect("main waits");
    /// })?;
    /// numbers.send(&7)?;
    /// assert_eq!(results.recv()??.wait()?.value, 49);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// None so far; the engine may be asked in the future.
    pub fn receive_then(
        &self,
        then: impl FnOnce(Option<T>) + Send + 'static,
    ) -> Result<(), ActorError> {
        let Inner { side, id, .. } = &*self.inner;
        let call = Box::new(move |words: Option<Words>| then(words.as_ref().map(value_of)));
        let received = side.receive_then((id.0, type_of::<T>()), call);
        side.kick();
        received.map_err(|carries| wrong::<T>(*id, carries))
    }
}

impl ActorSystem {
    /// A channel that holds up to `capacity` values. Handlers on a GPU use it if their program says
    /// [`Kind::services`](crate::Kind::services).
    ///
    /// # Errors
    /// [`ActorError::NoServices`] or [`ActorError::NotOnEngine`].
    ///
    /// # Panics
    /// `capacity` is 0.
    pub fn channel<T: DevType + Send + 'static>(
        &self,
        capacity: usize,
    ) -> Result<Channel<T>, ActorError> {
        assert!(capacity > 0, "a channel has room for one value at least");
        let local = self.local("typed channels")?;
        let (number, changed) = local.side.open_channel(type_of::<T>(), capacity);
        let inner = Inner {
            side: local.side.clone(),
            post: local.post.clone(),
            id: ChannelId(number),
            capacity,
            changed,
            patience: self.config.patience,
        };
        Ok(Channel {
            inner: Arc::new(inner),
            carries: PhantomData,
        })
    }
}
