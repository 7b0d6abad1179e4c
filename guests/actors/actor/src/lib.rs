//! The interface of actors for modules in Rust, which need neither `std` nor an allocator. `docs/actor-modules.md` says what
//! each part means.
//!
//! ```ignore
//! use core::cell::Cell;
//! use everwarp_guest_actor::{Actor, Own, actor};
//!
//! static SUM: Own<Cell<u64>> = Own(Cell::new(0));
//!
//! actor! {
//!     "mailbox 256";
//!     tell deposit(amount: u64);
//!     on add(n: u64) { SUM.set(SUM.get() + n); }
//!     on flush(to: Actor) { deposit(to, SUM.take()); }
//!     on sum() -> u64 { SUM.get() }
//! }
//! ```

#![no_std]

use core::ops::Deref;

/// An actor's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Actor(pub u64);

impl Actor {
    /// No actor: the host as a sender, or an actor for which there was no room.
    pub const NONE: Self = Self(0);
}

/// An ask that this actor keeps; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Kept(pub u64);

/// A timer of this actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Timer(pub u64);

impl Timer {
    /// No timer.
    pub const NONE: Self = Self(0);

    /// Cancels the timer. Returns whether a message was still to come, which does not come any more.
    pub fn cancel(self) -> bool {
        raw::cancel(self) != 0
    }
}

/// A variable of this actor alone: `static COUNT: Own<Cell<u32>>`.
#[derive(Debug)]
pub struct Own<T>(pub T);

// SAFETY: a handler is the only code that runs in its memory, and without the feature there are no threads.
#[cfg(not(target_feature = "atomics"))]
unsafe impl<T> Sync for Own<T> {}

impl<T> Deref for Own<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Why an ask has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Reason {
    /// The receiver does not live.
    Gone,
    /// It ended before it handled the message.
    Ended,
    /// It handled the message without a reply.
    NoReply,
    /// It failed.
    Failed,
    /// It keeps its latest messages only.
    Dropped,
    /// There was no reply within the time.
    Timeout,
}

impl Reason {
    /// The reason with this number.
    pub const fn of(number: i32) -> Self {
        match number {
            0 => Self::Gone,
            1 => Self::Ended,
            2 => Self::NoReply,
            4 => Self::Dropped,
            5 => Self::Timeout,
            _ => Self::Failed,
        }
    }
}

mod raw {
    use crate::{Actor, Kept, Timer};

    #[link(wasm_import_module = "everwarp:actor")]
    unsafe extern "C" {
        #[link_name = "self"]
        pub(crate) safe fn own() -> Actor;
        pub(crate) safe fn sender() -> Actor;
        pub(crate) safe fn parent() -> Actor;
        pub(crate) safe fn asked() -> i32;
        pub(crate) safe fn forward(to: Actor);
        pub(crate) safe fn keep() -> Kept;
        pub(crate) safe fn stop();
        pub(crate) safe fn stop_actor(actor: Actor);
        pub(crate) safe fn kill(actor: Actor);
        pub(crate) safe fn cancel(timer: Timer) -> i32;
        pub(crate) safe fn fail() -> !;
        pub(crate) safe fn random() -> u64;
        pub(crate) safe fn now() -> u64;
    }
}

/// The id of this actor.
pub fn own() -> Actor {
    raw::own()
}
/// The sender of the message.
pub fn sender() -> Actor {
    raw::sender()
}
/// The actor that launched this one.
pub fn parent() -> Actor {
    raw::parent()
}
/// Whether the sender wants a reply.
pub fn asked() -> bool {
    raw::asked() != 0
}
/// Passes the message on, with its sender.
pub fn forward(to: Actor) {
    raw::forward(to);
}
/// Keeps the ask that is being handled, for a later reply; none if the message is no ask. The handler's result is dropped.
pub fn keep() -> Kept {
    raw::keep()
}
/// Ends this actor after this message.
pub fn stop() {
    raw::stop();
}
/// Ends an actor once it has handled its messages.
pub fn stop_actor(actor: Actor) {
    raw::stop_actor(actor);
}
/// Ends an actor now.
pub fn kill(actor: Actor) {
    raw::kill(actor);
}
/// Fails this actor.
pub fn fail() -> ! {
    raw::fail()
}
/// 64 random bits.
pub fn random() -> u64 {
    raw::random()
}
/// Nanoseconds of a clock that never goes back.
pub fn now() -> u64 {
    raw::now()
}

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// The bytes of a line of the description.
#[doc(hidden)]
pub const fn line<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(text.as_bytes());
    bytes
}

/// Declares what an actor handles, and what it sends.
///
/// | row | |
/// |---|---|
/// | `"sends 3";` | a line of the description |
/// | `on NAME(FIELD: TYPE, …) { … }` | handles a message; `-> TYPE` before the block if it has a reply |
/// | `reply NAME(number: u32, VALUE: TYPE) { … }` | takes the reply to an ask |
/// | `failed NAME(number: u32, reason: i32) { … }` | learns that an ask has no reply; see [`Reason::of`] |
/// | `tell NAME(FIELD: TYPE, …);` | makes a function `NAME(to, FIELD, …)` that sends the message |
/// | `ask NAME as FUNCTION(FIELD: TYPE, …);` | makes a function `FUNCTION(to, number, FIELD, …)` |
/// | `ask_within NAME as FUNCTION(FIELD: TYPE, …);` | the same with a time: `FUNCTION(to, number, nanos, FIELD, …)` |
/// | `after NAME as FUNCTION(FIELD: TYPE, …);` | makes a function `FUNCTION(nanos, FIELD, …)` that sends this actor a message once |
/// | `every NAME as FUNCTION(FIELD: TYPE, …);` | the same with a period; both return a [`Timer`] |
/// | `reply_kept NAME as FUNCTION(VALUE: TYPE);` | makes a function `FUNCTION(kept, VALUE)` that replies to an ask of [`keep`]; it returns 1 if the ask was kept |
/// | `spawn KIND as FUNCTION;` | makes a function that launches an actor |
///
/// Types are `i32`, `u32`, `i64`, `u64`, `f32`, `f64`, `bool` and [`Actor`].
#[macro_export]
macro_rules! actor {
    () => {};
    ($line:literal; $($rest:tt)*) => {
        const _: () = {
            const TEXT: &str = concat!($line, "\n");
            #[unsafe(link_section = "everwarp.actor")]
            pub static LINE: [u8; TEXT.len()] = $crate::line(TEXT);
        };
        $crate::actor! { $($rest)* }
    };
    (on $name:ident($($field:ident: $ty:ident),* $(,)?) $(-> $reply:ident)? $body:block $($rest:tt)*) => {
        const _: () = {
            #[unsafe(export_name = concat!("on.", stringify!($name)))]
            extern "C" fn handler($($field: $ty),*) $(-> $reply)? $body
        };
        $crate::actor! { @message $name($($field: $ty),*) $($reply)?; $($rest)* }
    };
    (@message $name:ident($($field:ident: $ty:ident),*) $($reply:ident)?; $($rest:tt)*) => {
        const _: () = {
            const TEXT: &str = concat!(
                "message ", stringify!($name), $(" ", stringify!($field), ":", $crate::actor!(@type $ty),)*
                $(" -> value:", $crate::actor!(@type $reply),)? "\n"
            );
            #[unsafe(link_section = "everwarp.actor")]
            pub static LINE: [u8; TEXT.len()] = $crate::line(TEXT);
        };
        $crate::actor! { $($rest)* }
    };
    (@type Actor) => { "actor" };
    (@type $ty:ident) => { stringify!($ty) };
    (reply $name:ident($($field:ident: $ty:ident),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = {
            #[unsafe(export_name = concat!("reply.", stringify!($name)))]
            extern "C" fn handler($($field: $ty),*) $body
        };
        $crate::actor! { $($rest)* }
    };
    (failed $name:ident($($field:ident: $ty:ident),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = {
            #[unsafe(export_name = concat!("failed.", stringify!($name)))]
            extern "C" fn handler($($field: $ty),*) $body
        };
        $crate::actor! { $($rest)* }
    };
    (tell $name:ident($($field:ident: $ty:ident),* $(,)?); $($rest:tt)*) => {
        #[link(wasm_import_module = "everwarp:tell")]
        unsafe extern "C" {
            safe fn $name(to: $crate::Actor, $($field: $ty),*);
        }
        $crate::actor! { $($rest)* }
    };
    (ask $name:ident as $function:ident($($field:ident: $ty:ident),* $(,)?); $($rest:tt)*) => {
        #[link(wasm_import_module = "everwarp:ask")]
        unsafe extern "C" {
            #[link_name = stringify!($name)]
            safe fn $function(to: $crate::Actor, number: u32, $($field: $ty),*);
        }
        $crate::actor! { $($rest)* }
    };
    (ask_within $name:ident as $function:ident($($field:ident: $ty:ident),* $(,)?); $($rest:tt)*) => {
        #[link(wasm_import_module = "everwarp:ask_within")]
        unsafe extern "C" {
            #[link_name = stringify!($name)]
            safe fn $function(to: $crate::Actor, number: u32, nanos: u64, $($field: $ty),*);
        }
        $crate::actor! { $($rest)* }
    };
    (after $name:ident as $function:ident($($field:ident: $ty:ident),* $(,)?); $($rest:tt)*) => {
        #[link(wasm_import_module = "everwarp:after")]
        unsafe extern "C" {
            #[link_name = stringify!($name)]
            safe fn $function(nanos: u64, $($field: $ty),*) -> $crate::Timer;
        }
        $crate::actor! { $($rest)* }
    };
    (every $name:ident as $function:ident($($field:ident: $ty:ident),* $(,)?); $($rest:tt)*) => {
        #[link(wasm_import_module = "everwarp:every")]
        unsafe extern "C" {
            #[link_name = stringify!($name)]
            safe fn $function(nanos: u64, $($field: $ty),*) -> $crate::Timer;
        }
        $crate::actor! { $($rest)* }
    };
    (reply_kept $name:ident as $function:ident($($field:ident: $ty:ident),* $(,)?); $($rest:tt)*) => {
        #[link(wasm_import_module = "everwarp:reply")]
        unsafe extern "C" {
            #[link_name = stringify!($name)]
            safe fn $function(kept: $crate::Kept, $($field: $ty),*) -> i32;
        }
        $crate::actor! { $($rest)* }
    };
    (spawn $kind:ident as $function:ident; $($rest:tt)*) => {
        #[link(wasm_import_module = "everwarp:spawn")]
        unsafe extern "C" {
            #[link_name = stringify!($kind)]
            safe fn $function() -> $crate::Actor;
        }
        $crate::actor! { $($rest)* }
    };
}
