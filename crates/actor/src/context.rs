//! The running actor, as its handler on the CPU engine sees it. `ew::Actor` in `actor/actor.cuh` has the same methods with
//! the same meaning.

use std::sync::Arc;

use everwarp_contract::actor::{
    ACTOR_FAULT_CELLS, ACTOR_FAULT_SENDS, DEAD_ENDED, DEAD_FAILED, DEAD_NO_REPLY, MESSAGE_ASK,
    MESSAGE_DEADLINE, MESSAGE_FAILED, MESSAGE_HOST, MESSAGE_PAYLOAD, MESSAGE_REPLY,
};
use everwarp_contract::{DevActors, GroupId, Layout};
use everwarp_runtime::TaskCx;

use crate::chain::Chain;
use crate::ending::Ending;
use crate::failures::FailureLog;
use crate::far::Far;
use crate::id::ActorId;
use crate::mailbox::{Sent, Signal, Signalled};
use crate::message::{DeadReason, MAX_ASK_WORDS, MAX_WORDS, Message};
use crate::neighbours::Neighbours;
use crate::notes::{FAILED, KNOWN, NEWS, SUPERVISED};
use crate::pool::Pool;
use crate::program::Builtin;
use crate::restarts::Restarts;
use crate::side::{COURIER, DeadLetter, KeptAsk, Op, Side, Sides};
use crate::sync::Ordering;
use crate::table::{Cell, Table};
use crate::turn::{Turn, TurnHost};
use crate::undo::{Held, Undo};

/// The task that runs turns, and the room that it has for others.
pub(crate) struct TaskHost<'t> {
    pub(crate) task: &'t mut dyn TaskCx,
    pub(crate) system: DevActors,
    /// Turns that the task may still queue.
    pub(crate) room: u32,
    /// Turns that the task may run itself.
    pub(crate) chain: Chain,
    /// Turns that one message may cause, with those at the end of a turn.
    pub(crate) needs: u32,
    /// Those of the program; none in a task of the host, which needs them not.
    pub(crate) sides: Option<&'t Sides>,
    /// Of a closure that runs for an actor of a GPU.
    pub(crate) far: Option<&'t Far>,
}

/// A thread's shard of the pools: threads that run at the same time have different ones.
pub(crate) fn shard() -> u32 {
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    std::thread_local! {
        static SHARD: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    SHARD.with(|&shard| shard)
}

std::thread_local! {
    /// Whether this thread runs a handler, which must not wait for other actors.
    static HANDLES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
/// Whether this thread runs a handler.
pub(crate) fn handles() -> bool {
    HANDLES.get()
}
/// Marks this thread as one that runs handlers, or no longer.
pub(crate) fn set_handles(handles: bool) {
    HANDLES.set(handles);
}

/// The parameters of the task's instance.
pub(crate) fn system(task: &dyn TaskCx) -> DevActors {
    // SAFETY: all functions of a program of actors run with these parameters.
    *unsafe { task.params::<DevActors>() }
}

/// The tables of a system on the CPU engine.
pub(crate) fn table<'t>(system: &DevActors) -> Table<'t> {
    use everwarp_contract::actor::ACTOR_SHARDS;
    /// # Safety
    /// - The memory holds `len` values, lives as long as the running task, and is only accessed atomically.
    unsafe fn slice<'t, T>(address: u64, len: u32) -> &'t [T] {
        // SAFETY: the caller vouches.
        unsafe { std::slice::from_raw_parts(address as *const T, len as usize) }
    }
    // SAFETY: `ActorSystem` allocates the tables in these sizes, and keeps them until its tasks have ended. The layouts are
    // compared in `table.rs`.
    unsafe {
        Table {
            slots: slice(system.slots.address(), system.slot_limit),
            cells: slice(system.cells.address(), system.cell_limit),
            shards: slice(system.shards.address(), 2 * ACTOR_SHARDS),
            control: &slice(system.control.address(), 1)[0],
        }
    }
}

/// A record of messages between host and actors.
pub(crate) fn record<'t>(base: u64, index: u32) -> &'t Cell {
    // SAFETY: the host names records of its own tables only, which live as long as the running task.
    unsafe { &*(base as *const Cell).add(index as usize) }
}

/// Copies a message, but for its link.
pub(crate) fn copy(from: &Cell, to: &Cell) {
    to.head
        .store(from.head.load(Ordering::Relaxed), Ordering::Relaxed);
    to.from
        .store(from.from.load(Ordering::Relaxed), Ordering::Relaxed);
    to.to
        .store(from.to.load(Ordering::Relaxed), Ordering::Relaxed);
    for (from, to) in from.words.iter().zip(&to.words) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl TaskHost<'_> {
    /// Queues a task in a group that is held.
    fn spawn_held(&mut self, group: u32, function: u32, arg: u64) {
        self.room = self.room.saturating_sub(1);
        self.task.spawn_held(GroupId(group), function, 0, arg);
    }
    pub(crate) fn builtin(&self, builtin: Builtin) -> u32 {
        self.system.kinds + builtin as u32
    }
}

impl TaskHost<'_> {
    /// The next turn that the task runs itself, if it may.
    pub(crate) fn next_turn(&mut self) -> Option<u32> {
        // One place more for the sender that is woken when the turn begins.
        if self.room < self.needs || !self.task.may_go_on(self.chain.len()) {
            return None;
        }
        let slot = self.chain.take()?;
        self.room += 1;
        Some(slot)
    }
    /// Queues turns of neighbours as one task.
    pub(crate) fn queue_neighbours(&mut self, some: Neighbours) {
        self.queue(some.kind().into(), some.arg());
    }
    /// Keeps a place for the task of neighbours that this one does not run; without room for it they are queued now.
    pub(crate) fn hold_neighbours(&mut self, some: Neighbours) -> Option<Neighbours> {
        if some.len() == 0 {
            return None;
        }
        // One place more for the sender that is woken when the turn begins.
        if self.room < self.needs + 2 {
            self.queue_neighbours(some);
            return None;
        }
        self.room -= 1;
        Some(some)
    }
    /// The next of the neighbours, if the task may run it. The last one gives their place back.
    pub(crate) fn next_neighbour(&mut self, some: &mut Option<Neighbours>) -> Option<u32> {
        let rest = some.as_mut()?;
        let goes_on = self.chain.len() == 0 && self.room > self.needs;
        if !goes_on || !self.task.may_go_on(rest.len()) {
            return None;
        }
        let slot = rest.take();
        if rest.len() == 0 {
            *some = None;
            self.room += 1;
        }
        slot
    }
    /// Queues the neighbours that the task does not run.
    pub(crate) fn queue_held(&mut self, some: Option<Neighbours>) {
        if let Some(some) = some {
            self.room += 1;
            self.queue_neighbours(some);
        }
    }
    /// Queues the turns that the task does not run itself.
    pub(crate) fn queue_rest(&mut self) {
        self.chain.close();
        while let Some(slot) = self.chain.next() {
            self.room += 1;
            self.activate(slot);
        }
    }
    /// What the host keeps for the system; none when the system ends.
    pub(crate) fn side(&self) -> Option<Arc<Side>> {
        self.sides?.get(self.system.side)
    }
    /// Queues a courier, if there is something for it to do and there is none.
    pub(crate) fn post(&mut self, side: &Side) {
        if let Some(far) = self.far {
            return far.wake();
        }
        if side.wants_courier() {
            self.queue(0, u64::from(COURIER) << 32);
        }
    }
    /// Queues a task among the turns.
    fn queue(&mut self, function: u32, arg: u64) {
        let world = table(&self.system).control.world.load(Ordering::Relaxed) as u32;
        self.room = self.room.saturating_sub(1);
        if self.task.task().group == world {
            self.task.spawn(function, 0, arg);
        } else {
            self.task.spawn_into(GroupId(world), function, 0, arg);
        }
    }
    /// The courier: does what is to be done to actors, as far as there is room for their turns.
    pub(crate) fn carry(&mut self) {
        const MOST: u32 = 64;
        let Some(side) = self.side() else { return };
        let table = table(&self.system);
        for _ in 0..MOST {
            if self.room <= 1 {
                break;
            }
            let Some((actor, op)) = side.next_op() else {
                return;
            };
            let signalled = match op {
                Op::News => table.announce(actor, NEWS),
                Op::Kill => table.signal(actor, Signal::Kill),
                Op::Resume => table.signal(actor, Signal::Resume),
                Op::Lost { cell, reason } => {
                    self.lose(&side, actor, cell, reason);
                    continue;
                }
            };
            match (signalled, op) {
                (Signalled::Activate, _) => self.activate(actor.slot()),
                (Signalled::Gone, Op::News) => side.forget(actor),
                _ => {}
            }
        }
        self.queue(0, u64::from(COURIER) << 32);
    }
    /// An ask ends whose actor has kept it and does not know it any more. An asker that is an actor has that as news.
    fn lose(&mut self, side: &Side, owner: ActorId, cell: u32, reason: u32) {
        let table = table(&self.system);
        let message = &table.cells[cell as usize];
        table.control.dead[reason as usize].fetch_add(1, Ordering::Relaxed);
        self.dead(owner, message, reason);
        let flags = message.head.load(Ordering::Relaxed) & (MESSAGE_HOST | MESSAGE_DEADLINE);
        let head = flags | MESSAGE_REPLY | MESSAGE_FAILED | reason;
        message.head.store(head, Ordering::Relaxed);
        let from = message.from.load(Ordering::Relaxed);
        if head & MESSAGE_HOST != 0 {
            self.reply_to_host(&table, from, cell);
        } else {
            let mut end = message_in(message);
            end.from = owner.bits();
            if give_answer(&mut end, Some(side)) {
                side.tell(ActorId::from_bits(from), end);
            }
        }
        table.give(Pool::Cells, shard(), cell, cell);
    }
    /// The state of the actor in a slot.
    ///
    /// # Safety
    /// - The caller is the turn that runs, or the slot has no actor.
    pub(crate) unsafe fn state_of<'s>(&self, slot: u32) -> &'s mut [u8] {
        let bytes = self.system.state_bytes as usize;
        let at = self.system.states.address() + u64::from(slot) * bytes as u64;
        // SAFETY: each slot has a state of this size; the caller vouches that only it touches it.
        unsafe { std::slice::from_raw_parts_mut(at as *mut u8, bytes) }
    }
}

impl TurnHost for TaskHost<'_> {
    fn activate(&mut self, slot: u32) {
        let table = table(&self.system);
        let kind = table.slots[slot as usize].meta.load(Ordering::Relaxed) as u16;
        // A turn that the task runs itself has a place among those that it may queue, since it may still queue it.
        match self.room > 0 && self.chain.add(kind, slot) {
            true => self.room -= 1,
            false => self.queue(kind.into(), slot.into()),
        }
    }
    fn has_room(&self) -> bool {
        self.room >= self.needs
    }
    fn reply_to_host(&mut self, table: &Table<'_>, from: u64, cell: u32) {
        if let Some(far) = self.far {
            return far.reply_to_host(table, cell);
        }
        let (group, index) = (from as u32, (from >> 32) as u32);
        copy(
            &table.cells[cell as usize],
            record(self.system.replies.address(), index),
        );
        let value = self.builtin(Builtin::Value);
        self.spawn_held(group, value, 0);
    }
    fn out_of_cells(&mut self) {
        self.task.fault(ACTOR_FAULT_CELLS.into());
    }
    fn dead(&mut self, to: ActorId, message: &Cell, reason: u32) {
        if let Some(side) = self.side() {
            let message = message_in(message);
            side.payloads.end(&message);
            side.dead_letters.send(DeadLetter {
                reason: DeadReason::of(reason),
                to,
                message,
            });
        }
    }
    fn revives(&mut self, actor: ActorId, ending: Ending) -> bool {
        let revives = self.side().is_some_and(|side| side.revives(actor, ending));
        if revives {
            let slot = &table(&self.system).slots[actor.slot() as usize];
            slot.notes.fetch_and(!FAILED, Ordering::Relaxed);
            slot.again.store(0, Ordering::Relaxed);
            // SAFETY: the turn that runs calls this.
            unsafe { self.state_of(actor.slot()) }.fill(0);
        }
        revives
    }
    fn ended(&mut self, actor: ActorId, ending: Ending, revived: bool) {
        let Some(side) = self.side() else { return };
        match revived {
            true => {
                side.revived(actor);
                side.lose_kept(actor, DEAD_ENDED);
            }
            false => side.ended(actor, ending),
        }
        self.post(&side);
    }
}

/// What makes the ends of actors known: the tables, or the way to those of a GPU.
#[derive(Clone, Copy)]
pub(crate) struct Knows<'t, 'h> {
    table: Table<'t>,
    far: Option<&'h Far>,
}

impl Knows<'_, '_> {
    /// Sets notes of an actor that want no turn. Returns whether it lives.
    pub(crate) fn note_for(self, actor: ActorId, notes: u32) -> bool {
        match self.far {
            Some(far) => far.note(actor, notes),
            None => self.table.note_for(actor, notes),
        }
    }
    /// Makes the end of an actor known. Returns whether it lives.
    pub(crate) fn know(self, actor: ActorId) -> bool {
        match self.far {
            Some(far) => far.note(actor, KNOWN),
            None => self.table.know(actor),
        }
    }
}

/// Gives a message that ends an ask with a deadline the asker's own number. Returns false if the deadline has passed.
pub(crate) fn give_answer(message: &mut Message, side: Option<&Side>) -> bool {
    if message.ends_deadline() {
        let last = &mut message.words[MAX_ASK_WORDS];
        match side.and_then(|side| side.answer(*last)) {
            Some(number) => *last = number,
            None => return false,
        }
    }
    true
}

/// The message in a cell.
#[inline]
pub(crate) fn message_in(cell: &Cell) -> Message {
    Message {
        head: cell.head.load(Ordering::Relaxed),
        from: cell.from.load(Ordering::Relaxed),
        words: std::array::from_fn(|i| cell.words[i].load(Ordering::Relaxed)),
    }
}

/// Writes a message to a cell.
pub(crate) fn write_message(cell: &Cell, message: &Message) {
    cell.head.store(message.head, Ordering::Relaxed);
    cell.from.store(message.from, Ordering::Relaxed);
    for (to, word) in cell.words.iter().zip(message.words) {
        to.store(word, Ordering::Relaxed);
    }
}

/// Whether the messages of a call are handled once more.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    Done,
    Again,
}

/// The running actor.
pub struct ActorCx<'c, 't, 'h> {
    pub(crate) turn: &'c mut Turn<'t>,
    pub(crate) host: &'c mut TaskHost<'h>,
    /// The messages that are being handled: one, unless the kind takes several at a time.
    pub(crate) messages: &'c [Message],
    /// The cells of those that are asks and have no reply yet.
    pub(crate) asks: &'c mut [Option<u32>],
    /// Messages, signals and launches that the handler may still make.
    pub(crate) sends: u32,
    pub(crate) failures: &'c FailureLog,
    /// Of an atomic kind.
    pub(crate) undo: Option<Undo>,
    /// Asks that this handler keeps, with their places.
    pub(crate) keeps: Vec<(usize, KeptAsk)>,
}

impl std::fmt::Debug for ActorCx<'_, '_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ActorCx").field(&self.turn.id).finish()
    }
}

impl<'t, 'h> ActorCx<'_, 't, 'h> {
    /// What makes the ends of actors known.
    pub(crate) fn knows(&self) -> Knows<'t, 'h> {
        Knows {
            table: self.turn.table,
            far: self.host.far,
        }
    }
}

impl ActorCx<'_, '_, '_> {
    /// The actor's id.
    pub fn id(&self) -> ActorId {
        self.turn.id
    }
    /// The actor that launched this one; none if the host did.
    pub fn parent(&self) -> ActorId {
        ActorId::from_bits(self.turn.slot.parent.load(Ordering::Relaxed))
    }
    /// The sender of the message that is being handled, which is the first one of several; none if it is the host.
    pub fn sender(&self) -> ActorId {
        self.messages[0].from()
    }
    /// Whether the message that is being handled wants a reply, and has none yet.
    pub fn is_asked(&self) -> bool {
        self.is_asked_at(0)
    }
    /// The same of the message in this place of several.
    ///
    /// # Panics
    /// There is no such message.
    pub fn is_asked_at(&self, place: usize) -> bool {
        self.asks[place].is_some()
    }
    /// The actor's state. It begins with zeros.
    ///
    /// # Panics
    /// `S` has not the size of the kind's state.
    pub fn state<S: Layout>(&mut self) -> &mut S {
        let system = &self.host.system;
        assert!(
            size_of::<S>() <= system.state_bytes as usize,
            "the kind was declared with another state"
        );
        let offset = u64::from(self.turn.number) * u64::from(system.state_bytes);
        // SAFETY: the slot has a state of this size, aligned to 16; every bit pattern is a value; and only the turn that
        // runs, which this one is, touches it.
        unsafe { &mut *((system.states.address() + offset) as *mut S) }
    }
    /// The bytes of the actor's state: at least as many as its kind declares, and a multiple of 16. They begin with zeros.
    pub fn state_bytes(&mut self) -> &mut [u8] {
        // SAFETY: this is the turn that runs.
        unsafe { self.host.state_of(self.turn.number) }
    }
    /// How many messages and signals the handler may still send.
    pub fn sends_left(&self) -> u32 {
        self.sends
    }
    /// The parameters that the system was started with.
    ///
    /// # Safety
    /// - The system was started with parameters of this type.
    pub unsafe fn params<P: Layout>(&self) -> &P {
        // SAFETY: the caller vouches for the type; the host writes the parameters before any actor runs.
        unsafe { &*(self.host.system.user.address() as *const P) }
    }

    /// Counts something that may cause a turn. Too much of it ends the engine.
    pub(crate) fn spend(&mut self) -> bool {
        if self.sends == 0 {
            self.host.task.fault(ACTOR_FAULT_SENDS.into());
            return false;
        }
        self.sends -= 1;
        true
    }
    pub(crate) fn write(&mut self, head: u32, words: &[u64], last: Option<u64>) -> Option<u32> {
        let cell = self.turn.cell(self.host)?;
        let message = &self.turn.table.cells[cell as usize];
        message.head.store(head, Ordering::Relaxed);
        message.from.store(self.turn.id.bits(), Ordering::Relaxed);
        for (to, word) in message.words.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
        if let Some(last) = last {
            message.words[MAX_ASK_WORDS].store(last, Ordering::Relaxed);
        }
        Some(cell)
    }
    /// Sends a message. If the mailbox is full, the message waits here, and this actor handles no further ones until it is
    /// delivered.
    pub fn tell(&mut self, to: ActorId, tag: u8, words: &[u64]) {
        let head = Message::head_of(tag, words.len(), MAX_WORDS);
        if self.spend()
            && let Some(cell) = self.write(head, words, None)
        {
            self.send(to, cell);
        }
    }
    /// Sends a message, or keeps it until the handler of an atomic kind has returned.
    pub(crate) fn send(&mut self, to: ActorId, cell: u32) {
        match &mut self.undo {
            Some(undo) => undo.sends.push((Held::Tell(to), cell)),
            None => self.turn.deliver(self.host, to, cell),
        }
    }
    /// Sends a message unless the mailbox is full, or an earlier message of this actor still waits. Returns whether it was
    /// sent: to an actor that does not live it becomes a dead letter. A handler of an atomic kind sends it at once, and a
    /// failure does not take it back.
    #[must_use]
    pub fn try_tell(&mut self, to: ActorId, tag: u8, words: &[u64]) -> bool {
        let head = Message::head_of(tag, words.len(), MAX_WORDS);
        if !self.spend() || self.is_blocked() {
            return false;
        }
        let Some(cell) = self.write(head, words, None) else {
            return false;
        };
        self.try_send(to, cell)
    }
    /// Whether an earlier message waits, as far as the actor knows: one that the host is lent learns it when it sends.
    fn is_blocked(&self) -> bool {
        self.host.far.is_none() && self.turn.is_blocked()
    }
    fn try_send(&mut self, to: ActorId, cell: u32) -> bool {
        let message = &self.turn.table.cells[cell as usize];
        message.to.store(to.bits(), Ordering::Relaxed);
        if let Some(far) = self.host.far {
            return far.try_send(self.turn, cell);
        }
        match self.turn.table.send(to, cell) {
            Sent::Delivered => {}
            Sent::Activate => self.host.activate(to.slot()),
            Sent::Gone => self.turn.gone(self.host, cell),
            Sent::Full => {
                self.turn.free(cell);
                return false;
            }
        }
        true
    }
    /// Passes a message on, with its sender. One that does not wait is not sent where [`try_tell`](Self::try_tell) would not
    /// send it.
    pub(crate) fn relay(&mut self, to: ActorId, message: &Message, waits: bool) -> bool {
        if !waits && self.is_blocked() || !self.spend() {
            return false;
        }
        let head = crate::streams::plain(message.head);
        let Some(cell) = self.write(head, &message.words, None) else {
            return false;
        };
        let from = &self.turn.table.cells[cell as usize].from;
        from.store(message.from().bits(), Ordering::Relaxed);
        if waits {
            self.send(to, cell);
            return true;
        }
        self.try_send(to, cell)
    }
    /// Which of some actors live.
    pub(crate) fn living(&self, actors: &[ActorId]) -> Vec<bool> {
        if let Some(far) = self.host.far {
            return far.living(actors);
        }
        let table = &self.turn.table;
        let lives = |&actor: &ActorId| {
            table.named(actor).is_some_and(|slot| {
                let mail = crate::mail::Mail(slot.mail.load(Ordering::Acquire));
                Table::lives(slot, mail, actor)
            })
        };
        actors.iter().map(lives).collect()
    }
    /// This actor handles nothing more until it is activated.
    pub(crate) fn pause(&mut self) {
        let id = self.turn.id;
        match self.host.far {
            Some(far) => far.signal(self.turn, id, Signal::Pause),
            // It is busy, so that no turn has to be queued.
            None => drop(self.turn.table.signal(id, Signal::Pause)),
        }
        self.turn.pauses = true;
    }
    /// The next message that this actor handles is an empty one.
    pub(crate) fn go_on(&mut self) {
        if let Some(far) = self.host.far {
            return far.go_on();
        }
        if let Some(side) = self.host.side() {
            side.tell_own(self.turn.id, Message::new(ActorId::NONE, 0, &[], 0));
            self.turn.slot.notes.fetch_or(NEWS, Ordering::Relaxed);
        }
    }
    /// Notifies a subscriber of this topic that it has missed messages.
    pub(crate) fn notify(&mut self, subscriber: ActorId, missed: u64) {
        if let Some(far) = self.host.far {
            return far.news(subscriber, &crate::streams::of_missed(self.turn.id, missed));
        }
        if let Some(side) = self.host.side() {
            side.tell(subscriber, crate::streams::of_missed(self.turn.id, missed));
            self.host.post(&side);
        }
    }
    /// Runs the closure of an actor of the host.
    pub(crate) fn run_part(&mut self, message: &Message) {
        let part = self.host.side().and_then(|side| side.part(self.turn.id));
        match part {
            Some(part) => part.run(self, message),
            None => self.fail_because("it is an actor of the host, which launch_host launches"),
        }
    }
    /// Sends a message that wants a reply. The reply, or the reason why there is none, comes as a message whose
    /// [`ask`](Message::ask) is `number`.
    pub fn ask(&mut self, to: ActorId, tag: u8, words: &[u64], number: u64) {
        let head = Message::head_of(tag, words.len(), MAX_ASK_WORDS) | MESSAGE_ASK;
        if self.spend()
            && let Some(cell) = self.write(head, words, Some(number))
        {
            self.send(to, cell);
        }
    }
    /// Replies to the ask that is being handled. Returns false, and does nothing, if the message is not an ask or has a
    /// reply already.
    pub fn reply(&mut self, tag: u8, words: &[u64]) -> bool {
        self.reply_to(0, tag, words)
    }
    /// Replies to the ask in this place of several that are being handled. Returns false as [`reply`](Self::reply) does.
    ///
    /// # Panics
    /// There is no such message.
    pub fn reply_to(&mut self, place: usize, tag: u8, words: &[u64]) -> bool {
        let head = Message::head_of(tag, words.len(), MAX_ASK_WORDS) | MESSAGE_REPLY;
        let Some(cell) = self.asks[place].take() else {
            return false;
        };
        let message = &self.turn.table.cells[cell as usize];
        let flags = message.head.load(Ordering::Relaxed) & (MESSAGE_HOST | MESSAGE_DEADLINE);
        message.head.store(head | flags, Ordering::Relaxed);
        for (to, word) in message.words.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
        match &mut self.undo {
            Some(undo) => undo.sends.push((Held::Reply(place), cell)),
            None => self.turn.reply_with(self.host, cell),
        }
        true
    }
    /// Passes the message on that is being handled, with its sender. The receiver replies to an ask.
    pub fn forward(&mut self, to: ActorId) {
        self.forward_at(0, to);
    }
    /// Passes the message in this place of several on, as [`forward`](Self::forward) does.
    ///
    /// # Panics
    /// There is no such message.
    pub fn forward_at(&mut self, place: usize, to: ActorId) {
        let Message { head, from, words } = self.messages[place];
        if !self.spend() {
            return;
        }
        if let Some(cell) = self.asks[place].take() {
            return match &mut self.undo {
                Some(undo) => undo.sends.push((Held::Forward(to, place), cell)),
                None => self.turn.deliver(self.host, to, cell),
            };
        }
        let plain = head & 0xffff & !MESSAGE_PAYLOAD;
        if let Some(cell) = self.write(plain, &words, None) {
            self.turn.table.cells[cell as usize]
                .from
                .store(from, Ordering::Relaxed);
            self.pass_payload(place, cell);
            self.send(to, cell);
        }
    }
    /// Launches an actor of another or the same kind, with an empty mailbox and a state of zeros.
    /// [`ActorId::NONE`] when there is no slot, which is counted.
    pub fn launch(&mut self, kind: u32) -> ActorId {
        let parent = self.turn.id;
        if let Some(far) = self.host.far {
            assert!(
                kind < self.host.system.kinds,
                "the program has no kind {kind}"
            );
            return far.launch(kind, parent);
        }
        launch(self.host, self.turn.shard, kind, parent)
    }
    fn signal(&mut self, to: ActorId, signal: Signal) {
        if !self.spend() {
            return;
        }
        if let Some(far) = self.host.far {
            return far.signal(self.turn, to, signal);
        }
        if self.turn.table.signal(to, signal) == Signalled::Activate {
            self.host.activate(to.slot());
        }
    }
    /// Ends an actor once it has handled what is in its mailbox.
    pub fn stop_later(&mut self, actor: ActorId) {
        self.signal(actor, Signal::Stop);
    }
    /// Ends an actor; its messages become dead letters.
    pub fn kill(&mut self, actor: ActorId) {
        self.signal(actor, Signal::Kill);
    }
    /// Ends this actor after the message that is being handled.
    pub fn stop(&mut self) {
        self.turn.stopping = true;
    }
    /// The actor has failed: an ask ends with [`DeadReason::Failed`](crate::DeadReason), and the actor ends after this
    /// message unless its kind [restarts](crate::Kind::restarts) it. Of several messages that are being handled, all fail.
    pub fn fail(&mut self) {
        self.turn.slot.notes.fetch_or(FAILED, Ordering::Relaxed);
    }
    /// As [`fail`](Self::fail), with a reason that [`ActorSystem::failures`](crate::ActorSystem::failures) returns.
    pub fn fail_because(&mut self, reason: &str) {
        let tag = self.messages[0].tag();
        let control = self.host.system.control.address();
        let system = self.host.far.map_or(control, |far| far.key);
        self.failures.add(system, self.turn.id, tag, reason);
        self.fail();
    }
    /// The handler is about to run.
    pub(crate) fn begin(&mut self) {
        if let Some(mut undo) = self.undo.take() {
            undo.state.extend_from_slice(self.state_bytes());
            self.undo = Some(undo);
        }
    }
    /// The handler has returned. `again`: if it has failed, its messages may be handled once more.
    #[inline]
    pub(crate) fn end(&mut self, restarts: Restarts, again: bool) -> Retry {
        let notes = self.turn.slot.notes.load(Ordering::Relaxed);
        let nothing = notes & FAILED == 0
            && self.undo.is_none()
            && self.asks.iter().all(Option::is_none)
            && !self.messages.iter().any(Message::has_payload);
        match nothing {
            true => Retry::Done,
            false => self.settle(notes, restarts, again),
        }
    }
    /// What there is to do after a handler that has failed, was asked, is of an atomic kind or has had a payload.
    fn settle(&mut self, notes: u32, restarts: Restarts, again: bool) -> Retry {
        let failed = notes & FAILED != 0;
        let undo = self.undo.take();
        let atomic = undo.is_some();
        if let Some(undo) = undo {
            match failed {
                true => self.take_back(undo),
                false => self.let_out(undo),
            }
        }
        if failed {
            self.keep_nothing();
        }
        let goes_on = failed && self.goes_on(restarts, notes, atomic);
        if goes_on && again && !self.turn.stopping {
            return Retry::Again;
        }
        for place in 0..self.asks.len() {
            match (self.asks[place].take(), failed) {
                (Some(cell), true) => self.turn.dead_letter(self.host, cell, DEAD_FAILED),
                (Some(cell), false) => self.turn.dead_letter(self.host, cell, DEAD_NO_REPLY),
                (None, true) => self.fails(place),
                (None, false) => {}
            }
        }
        self.turn.stopping |= failed && !goes_on;
        self.end_payloads();
        Retry::Done
    }
    /// The message in this place, which is no ask any more, is a dead letter.
    fn fails(&mut self, place: usize) {
        self.turn.count_dead(DEAD_FAILED);
        if let Some(side) = self.host.side() {
            side.dead_letters.send(DeadLetter {
                reason: DeadReason::Failed,
                to: self.turn.id,
                message: self.messages[place],
            });
        }
    }
    /// Whether the actor that has failed goes on, by its kind or by its group. Its first state is there then, unless the
    /// failed handler was undone.
    fn goes_on(&mut self, restarts: Restarts, notes: u32, undone: bool) -> bool {
        let slot = self.turn.slot;
        match restarts.next(slot.again.load(Ordering::Relaxed)) {
            Some(again) => slot.again.store(again, Ordering::Relaxed),
            None => {
                let side = (notes & SUPERVISED != 0)
                    .then(|| self.host.side())
                    .flatten();
                let Some(side) = side else { return false };
                let restarts = side.restarts(self.turn.id);
                // Others of the group, also when they are killed.
                self.host.post(&side);
                if !restarts {
                    return false;
                }
                slot.again.store(0, Ordering::Relaxed);
            }
        }
        slot.notes.fetch_and(!FAILED, Ordering::Relaxed);
        self.restart(undone);
        true
    }
    /// The actor begins anew.
    pub(crate) fn restart(&mut self, undone: bool) {
        let restarts = &self.turn.table.control.restarts;
        restarts.fetch_add(1, Ordering::Relaxed);
        if undone {
            return;
        }
        self.state_bytes().fill(0);
        // With the state it has lost the asks that it keeps.
        let known = self.turn.slot.notes.load(Ordering::Relaxed) & KNOWN != 0;
        if let Some(side) = known.then(|| self.host.side()).flatten() {
            side.lose_kept(self.turn.id, DEAD_FAILED);
            self.host.post(&side);
        }
    }
    /// Sends what the handler of an atomic kind has sent.
    fn let_out(&mut self, mut undo: Undo) {
        for (held, cell) in undo.sends.drain(..) {
            match held {
                Held::Reply(_) | Held::Kept(..) => self.turn.reply_with(self.host, cell),
                Held::Tell(to) | Held::Forward(to, _) => self.turn.deliver(self.host, to, cell),
            }
        }
        undo.put_back();
    }
    /// The handler of an atomic kind has done nothing.
    fn take_back(&mut self, mut undo: Undo) {
        let state = std::mem::take(&mut undo.state);
        self.state_bytes().copy_from_slice(&state);
        undo.state = state;
        for (held, cell) in undo.sends.drain(..) {
            match held {
                Held::Kept(kept, place) => self.keep_again(kept, cell, &undo.kept[place]),
                Held::Tell(_) => {
                    self.forget_deadline(cell);
                    self.undo_payload(cell);
                    self.turn.free(cell);
                }
                Held::Reply(place) => {
                    self.restore(cell, &self.messages[place]);
                    self.asks[place] = Some(cell);
                }
                Held::Forward(_, place) => self.asks[place] = Some(cell),
            }
        }
        undo.put_back();
    }
    /// The ask in a cell is as it was before the reply, since it may be handled again and passed on then. Its sender and its
    /// last word are still there.
    pub(crate) fn restore(&self, cell: u32, message: &Message) {
        let cell = &self.turn.table.cells[cell as usize];
        cell.head.store(message.head, Ordering::Relaxed);
        let words = &message.words[..MAX_ASK_WORDS];
        for (to, word) in cell.words.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
    }
}

/// Launches an actor.
pub(crate) fn launch(host: &TaskHost<'_>, shard: u32, kind: u32, parent: ActorId) -> ActorId {
    let (system, table) = (host.system, table(&host.system));
    assert!(kind < system.kinds, "the program has no kind {kind}");
    if table.control.closing.load(Ordering::Relaxed) != 0 {
        return ActorId::NONE;
    }
    // SAFETY: there is a bound for each kind, and none is written while actors run.
    let bound = unsafe { *(system.bounds.address() as *const u16).add(kind as usize) };
    let clear = |slot: u32| {
        let bytes = system.state_bytes as usize;
        let at = system.states.address() + u64::from(slot) * bytes as u64;
        // SAFETY: the state of a slot that no actor has.
        unsafe { std::ptr::write_bytes(at as *mut u8, 0, bytes) };
    };
    let launched = table.launch(shard, kind as u16, bound, parent, clear);
    launched.unwrap_or_else(|| {
        table
            .control
            .launch_refusals
            .fetch_add(1, Ordering::Relaxed);
        ActorId::NONE
    })
}
