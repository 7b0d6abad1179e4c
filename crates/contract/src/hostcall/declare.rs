//! How the table of host calls is declared: [`host_calls!`] and the types that its rows are made of.

use core::fmt;

/// A file descriptor of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fd(pub u32);

impl fmt::Display for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A type that an argument of a host call can have. Each argument travels as a word of 64 bits.
pub trait Argument: Sized {
    /// The type's name in the reference.
    const NAME: &'static str;
    /// The type's name in CUDA C++.
    const DEVICE: &'static str;
    /// The value of a word; `None` if the type does not hold it.
    fn of_word(word: u64) -> Option<Self>;
    /// The word for a value: narrow types are zero-extended.
    fn word(self) -> u64;
}

impl Argument for u32 {
    const NAME: &'static str = "u32";
    const DEVICE: &'static str = "u32";
    fn of_word(word: u64) -> Option<Self> {
        Self::try_from(word).ok()
    }
    fn word(self) -> u64 {
        self.into()
    }
}

impl Argument for u64 {
    const NAME: &'static str = "u64";
    const DEVICE: &'static str = "u64";
    fn of_word(word: u64) -> Option<Self> {
        Some(word)
    }
    fn word(self) -> u64 {
        self
    }
}

impl Argument for i64 {
    const NAME: &'static str = "i64";
    const DEVICE: &'static str = "i64";
    fn of_word(word: u64) -> Option<Self> {
        Some(word.cast_signed())
    }
    fn word(self) -> u64 {
        self.cast_unsigned()
    }
}

impl Argument for Fd {
    const NAME: &'static str = "fd";
    const DEVICE: &'static str = "u32";
    fn of_word(word: u64) -> Option<Self> {
        u32::of_word(word).map(Self)
    }
    fn word(self) -> u64 {
        self.0.into()
    }
}

/// What a call sends along as its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    Nothing,
    /// Any bytes.
    Bytes,
    /// A path: UTF-8 without a NUL at its end.
    Path,
    /// Two paths, the second one directly after the first. An argument has the length of the first.
    TwoPaths,
    /// `subscription`s of WASI, 48 bytes each.
    Subscriptions,
}

/// What the answer of a call that succeeded brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but success.
    Nothing,
    /// These values.
    Values(&'static str),
    /// These bytes as the reply, and their number as the first value.
    Bytes(&'static str),
    /// A structure as the reply, as WASI lays it out in memory.
    Record(&'static str),
    /// `event`s of WASI as the reply, 32 bytes each, and their number as the first value.
    Events,
    /// A datagram as the reply, and its sender's address as the values.
    Datagram,
    /// Addresses as the reply, 24 bytes each, and their number as the first value.
    Addresses,
    /// The arguments as values, and the payload as the reply.
    Echo,
}

/// What a call may wait for before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The call is answered as soon as it has been served.
    Never,
    /// Standard input, or bytes of a peer, that have not come yet.
    ForInput,
    /// The peer of a connection: until it connects, sends, or has taken earlier bytes.
    ForPeer,
    /// A time, standard input, or a socket.
    ForEvents,
    /// Other processes that close files, so that there is room to open one.
    ForRoom,
    /// A server of names.
    ForName,
    /// The compiler and an exchange of the image.
    ForFunction,
}

/// An argument, as the table describes it.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentDescription {
    /// Its name.
    pub name: &'static str,
    /// Its type's name in the reference.
    pub type_name: &'static str,
    /// Its type's name in CUDA C++.
    pub device_type: &'static str,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CallDescription {
    /// The name, such as `FD_READ`.
    pub name: &'static str,
    /// The name of its variant of [`HostCall`](super::HostCall) and of its struct in CUDA C++, such as `FdRead`.
    pub variant: &'static str,
    /// The number in an entry of the ring.
    pub number: u32,
    /// What the call does: lines of text. Each line begins with a space.
    pub about: &'static [&'static str],
    /// The arguments in order.
    pub arguments: &'static [ArgumentDescription],
    /// What the call sends along.
    pub payload: Payload,
    /// What the answer brings back.
    pub answer: Answer,
    /// What the call may wait for.
    pub waits: Waits,
}

/// An entry that is no call of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCall {
    /// No call has this number.
    Unknown {
        /// The number.
        number: u32,
    },
    /// An argument of this call does not fit its type.
    Argument {
        /// The call's number.
        number: u32,
    },
}

/// Declares the host calls, once for both sides.
///
/// A row is `NAME = number, Variant(argument: type, …), sends Payload, gets Answer, waits Waits;` after its doc
/// comment. All rows together generate the numbers, the enum with its checked decoder, and the descriptions from which
/// the device's structs and the reference are written.
macro_rules! host_calls {
    ($(
        $(#[doc = $about:literal])+
        $name:ident = $number:literal, $variant:ident($($argument:ident: $type:ty),*),
            sends $payload:ident, gets $answer:ident $(($what:literal))?, waits $waits:ident;
    )+) => {
        /// The numbers of the calls in entries of the ring.
        pub mod number {
            $($(#[doc = $about])+ pub const $name: u32 = $number;)+
        }

        /// A call with its arguments, payload apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the arguments' names and types say what they are")]
        pub enum HostCall {
            $($(#[doc = $about])+ $variant { $($argument: $type),* },)+
        }

        /// All calls, in the order of their numbers.
        pub const CALLS: &[CallDescription] = &[$(CallDescription {
            name: stringify!($name),
            variant: stringify!($variant),
            number: $number,
            about: &[$($about),+],
            arguments: &[$(ArgumentDescription {
                name: stringify!($argument),
                type_name: <$type as Argument>::NAME,
                device_type: <$type as Argument>::DEVICE,
            }),*],
            payload: Payload::$payload,
            answer: Answer::$answer $(($what))?,
            waits: Waits::$waits,
        }),+];

        impl HostCall {
            /// The call with this number and these words as arguments. Words beyond the call's arguments mean nothing.
            ///
            /// # Errors
            /// There is no such call, or an argument does not fit its type.
            pub fn decode(number: u32, words: [u64; ARGUMENTS_MOST]) -> Result<Self, BadCall> {
                match number {
                    $($number => {
                        let mut words = words.into_iter();
                        let bad = BadCall::Argument { number };
                        let _ = (&mut words, bad);
                        Ok(Self::$variant {
                            $($argument: words.next().and_then(<$type as Argument>::of_word).ok_or(bad)?),*
                        })
                    })+
                    _ => Err(BadCall::Unknown { number }),
                }
            }

            /// The number of the call.
            pub const fn number(&self) -> u32 {
                match self {
                    $(Self::$variant { .. } => $number,)+
                }
            }

            /// The arguments as words, followed by zeros.
            pub fn words(&self) -> [u64; ARGUMENTS_MOST] {
                let mut words = [0; ARGUMENTS_MOST];
                match *self {
                    $(Self::$variant { $($argument),* } => {
                        let of_call: &[u64] = &[$(<$type as Argument>::word($argument)),*];
                        words[..of_call.len()].copy_from_slice(of_call);
                    })+
                }
                words
            }

            /// What the call may wait for.
            pub const fn waits(&self) -> Waits {
                match self {
                    $(Self::$variant { .. } => Waits::$waits,)+
                }
            }
        }
    };
}
pub(super) use host_calls;
