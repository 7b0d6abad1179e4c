//! Values on their way between messages and WebAssembly, and the actor that a running handler belongs to.

use everwarp_actor::ActorCx;
use wasmtime::ValRaw;

use crate::interface::Plain;

/// The value of a parameter or a result for a word of a message.
pub(crate) fn raw_of(ty: Plain, word: u64) -> ValRaw {
    match ty {
        Plain::I32 => ValRaw::i32(word as i32),
        Plain::I64 => ValRaw::i64(word as i64),
        Plain::F32 => ValRaw::f32(word as u32),
        Plain::F64 => ValRaw::f64(word),
    }
}
/// The word of a message for such a value. Narrow values have zeros in their upper half.
pub(crate) fn word_of(ty: Plain, raw: ValRaw) -> u64 {
    match ty {
        Plain::I32 => raw.get_i32() as u32 as u64,
        Plain::I64 => raw.get_i64() as u64,
        Plain::F32 => raw.get_f32().into(),
        Plain::F64 => raw.get_f64(),
    }
}

type Running = ActorCx<'static, 'static, 'static>;

/// The data of a store: the actor whose handler runs, and the most bytes that a memory may have.
pub(crate) struct Guest {
    actor: *mut Running,
    pub(crate) memory_limit: usize,
    random: u64,
}

// SAFETY: a guest and its store stay in the thread that made them (they are in a thread's local variable). The pointer is
// set only while a handler runs, in that same thread.
unsafe impl Send for Guest {}

impl Guest {
    pub(crate) fn new(memory_limit: u32) -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self {
            actor: std::ptr::null_mut(),
            memory_limit: memory_limit as usize,
            random: RandomState::new().hash_one(0),
        }
    }
    /// A handler of this actor is about to run. [`leave`](Self::leave) follows before the actor is used again.
    pub(crate) fn enter(&mut self, actor: &mut ActorCx<'_, '_, '_>) {
        self.actor = std::ptr::from_mut(actor).cast();
    }
    /// The handler has returned.
    pub(crate) fn leave(&mut self) {
        self.actor = std::ptr::null_mut();
    }
    /// The running actor; none while a module is instantiated.
    pub(crate) fn actor(&mut self) -> Option<&mut Running> {
        // SAFETY: the pointer comes from the `&mut ActorCx` that `enter` borrowed. Its owner does nothing with it until
        // `leave`. Imports run one at a time, and keep the reference no longer than their borrow of the guest.
        unsafe { self.actor.as_mut() }
    }
    /// A random number: SplitMix64 with a seed from the system (Steele, Lea and Flood, 2014).
    pub(crate) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

impl wasmtime::ResourceLimiter for Guest {
    /// The memory has its first size for ever, so that every actor has a place for it.
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= self.memory_limit)
    }
    fn table_growing(
        &mut self,
        current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(current == 0)
    }
}
