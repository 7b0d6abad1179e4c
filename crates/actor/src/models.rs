//! Loom models of the mailbox protocol: the real turns, in every interleaving of a few steps. Each model also runs with
//! one rule broken, and must notice.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use loom::sync::{Arc, Mutex};
use loom::thread;

use everwarp_contract::actor::{DEAD_ENDED, DEAD_GONE};

use crate::credits::Credits;
use crate::ending::Ending;
use crate::id::ActorId;
use crate::mail::Mail;
use crate::mailbox::{Sent, Signal, Signalled};
use crate::message::{MAX_WORDS, Message};
use crate::mutant::{BROKEN, Mutant};
use crate::notes::NEWS;
use crate::pool::Pool;
use crate::side::{Clock, Op, Side, Taken};
use crate::sync::Ordering;
use crate::table::{Cell, Control, Shard, Slot, Table};
use crate::turn::{self, Takes, TurnHost, Work};

mod channels;
mod credits;
mod processes;

/// A handler for all actors of a model: it may send the message on.
type Handler = fn(&Table<'_>, ActorId) -> Option<ActorId>;

struct World {
    slots: Vec<Slot>,
    cells: Vec<Cell>,
    shards: Vec<Shard>,
    control: Control,
    /// Queued turns, and how often each was queued while one of the same actor was there.
    turns: Mutex<VecDeque<u32>>,
    /// Messages handled: receiver and content.
    handled: Mutex<Vec<(ActorId, u64)>>,
    /// News that wait for the actor in slot 0, and those that it has handled.
    news: Mutex<(u32, u32)>,
    /// Ends of actors that were reported.
    ended: Mutex<Vec<ActorId>>,
    handler: Handler,
    /// Of a model with channels: what the host keeps for its actors.
    side: Option<Side>,
    /// Of a model with a stream to the host: what its only actor puts messages into.
    outlet: Option<Credits>,
}

impl World {
    fn new(slots: usize, cells: usize, handler: Handler) -> Self {
        Self {
            side: None,
            outlet: None,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            cells: (0..cells).map(|_| Cell::default()).collect(),
            shards: (0..2).map(|_| Shard::default()).collect(),
            control: Control::default(),
            turns: Mutex::new(VecDeque::new()),
            handled: Mutex::new(Vec::new()),
            news: Mutex::new((0, 0)),
            ended: Mutex::new(Vec::new()),
            handler,
        }
    }
    fn table(&self) -> Table<'_> {
        Table {
            slots: &self.slots,
            cells: &self.cells,
            shards: &self.shards,
            control: &self.control,
        }
    }
    fn launch(&self, bound: u16) -> ActorId {
        let launched = self.table().launch(0, 0, bound, ActorId::NONE, |_| {});
        launched.expect("there is a slot")
    }
    /// A message from outside, with its content.
    fn cell(&self, content: u64) -> u32 {
        let cell = self.table().take(Pool::Cells, 0).expect("there is a cell");
        self.cells[cell as usize].words[0].store(content, Ordering::Relaxed);
        cell
    }
    fn tell(&self, to: ActorId, content: u64) -> Sent {
        let sent = self.table().send(to, self.cell(content));
        if sent == Sent::Activate {
            self.queue(to.slot());
        }
        sent
    }
    /// Messages from outside in an outbox, all to one actor.
    fn outbox(&self, to: ActorId, contents: &[u64]) -> u32 {
        contents.iter().rev().fold(0, |next, content| {
            let cell = self.cell(*content);
            let message = &self.cells[cell as usize];
            message.to.store(to.bits(), Ordering::Relaxed);
            message.next.store(next, Ordering::Relaxed);
            cell + 1
        })
    }
    /// Returns what is left of the outbox.
    fn send_outbox(&self, to: ActorId, outbox: u32) -> u32 {
        let (sent, left) = self.table().send_outbox(to, outbox);
        if sent == Sent::Activate {
            self.queue(to.slot());
        }
        left
    }
    fn signal(&self, to: ActorId, signal: Signal) {
        if self.table().signal(to, signal) == Signalled::Activate {
            self.queue(to.slot());
        }
    }
    fn queue(&self, slot: u32) {
        let mut turns = self.turns.lock().unwrap();
        assert!(!turns.contains(&slot), "two turns of one actor are queued");
        turns.push_back(slot);
    }
    /// Runs a queued turn. Returns whether there was one.
    fn step(&self) -> bool {
        let Some(slot) = self.turns.lock().unwrap().pop_front() else {
            return false;
        };
        let mut host = Host { world: self };
        turn::run(
            self.table(),
            slot,
            0,
            Takes::EACH,
            &mut host,
            |turn, host, work| {
                let Work::Message(cell) = work else {
                    if let Some(side) = &self.side {
                        let none_left = || {
                            turn.slot.notes.fetch_and(!NEWS, Ordering::Relaxed);
                        };
                        if let Taken::Message(message, _) = side.take_news(turn.id, none_left) {
                            let value = (turn.id, message.words[0]);
                            self.handled.lock().unwrap().push(value);
                        }
                        return;
                    }
                    let mut news = self.news.lock().unwrap();
                    if news.0 > 0 {
                        *news = (news.0 - 1, news.1 + 1);
                    }
                    if news.0 == 0 {
                        turn.slot.notes.fetch_and(!NEWS, Ordering::Relaxed);
                    }
                    return;
                };
                let content = self.cells[cell as usize].words[0].load(Ordering::Relaxed);
                self.handled.lock().unwrap().push((turn.id, content));
                if let Some(outlet) = &self.outlet {
                    let message = Message::new(ActorId::NONE, 0, &[content], MAX_WORDS);
                    outlet.put(message, || {
                        // As `ActorCx::pause`.
                        let _ = turn.table.signal(turn.id, Signal::Pause);
                        turn.pauses = true;
                    });
                }
                match (self.handler)(&turn.table, turn.id) {
                    Some(to) => turn.deliver(host, to, cell),
                    None => turn.free(cell),
                }
            },
        );
        true
    }
    fn settle(&self) {
        while self.step() {}
    }
    /// What the courier does; see `TaskHost::carry`.
    fn carry(&self) {
        let side = self.side.as_ref().expect("the model has channels");
        while let Some((actor, op)) = side.next_op() {
            assert_eq!(op, Op::News, "no model has others");
            match self.table().announce(actor, NEWS) {
                Signalled::Activate => self.queue(actor.slot()),
                Signalled::Gone => side.forget(actor),
                _ => {}
            }
        }
    }
    fn handled(&self) -> usize {
        self.handled.lock().unwrap().len()
    }
    fn dead(&self) -> u64 {
        let dead = |reason: u32| self.control.dead[reason as usize].load(Ordering::Relaxed);
        dead(DEAD_GONE) + dead(DEAD_ENDED)
    }
}

struct Host<'w> {
    world: &'w World,
}
impl TurnHost for Host<'_> {
    fn activate(&mut self, slot: u32) {
        self.world.queue(slot);
    }
    fn has_room(&self) -> bool {
        true
    }
    fn reply_to_host(&mut self, _: &Table<'_>, _: u64, _: u32) {
        unreachable!("no model asks from the host");
    }
    fn out_of_cells(&mut self) {
        panic!("the model has enough cells");
    }
    fn ended(&mut self, actor: ActorId, ending: Ending, _: bool) {
        if let Some(side) = &self.world.side {
            side.ended(actor, ending);
        }
        self.world.ended.lock().unwrap().push(actor);
    }
}

/// Runs a model as it is, which must hold, and with a rule broken, which must fail.
fn holds_and_notices(mutant: Mutant, model: fn()) {
    holds_and_notices_within(2, mutant, model);
}
/// The same with another number of preemptions.
fn holds_and_notices_within(preemptions: usize, mutant: Mutant, model: fn()) {
    let explore = move || {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    };
    explore();
    BROKEN.set(Some(mutant));
    let noticed = catch_unwind(AssertUnwindSafe(explore)).is_err();
    BROKEN.set(None);
    assert!(noticed, "the model does not notice {mutant:?}");
}

#[test]
fn push_against_going_idle_loses_no_message() {
    holds_and_notices(Mutant::IdleUnseen, || {
        let world = Arc::new(World::new(1, 4, |_, _| None));
        let actor = world.launch(4);
        assert_eq!(world.tell(actor, 1), Sent::Activate);
        let other = world.clone();
        let sender = thread::spawn(move || {
            assert_ne!(other.tell(actor, 2), Sent::Full);
        });
        world.step();
        sender.join().unwrap();
        world.settle();
        assert_eq!(world.handled(), 2);
    });
}

/// Not a rule of its own, but what the first one promises: two senders, and the order of each.
#[test]
fn messages_of_one_sender_keep_their_order() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let world = Arc::new(World::new(1, 8, |_, _| None));
        let actor = world.launch(8);
        let other = world.clone();
        let sender = thread::spawn(move || {
            let _ = other.tell(actor, 10);
            let _ = other.tell(actor, 11);
        });
        let _ = world.tell(actor, 20);
        world.step();
        let _ = world.tell(actor, 21);
        sender.join().unwrap();
        world.settle();
        let handled = world.handled.lock().unwrap();
        for sender in [1, 2] {
            let of: Vec<_> = handled
                .iter()
                .map(|h| h.1)
                .filter(|c| c / 10 == sender)
                .collect();
            assert_eq!(of, [10 * sender, 10 * sender + 1]);
        }
    });
}

/// An outbox of three messages and another sender meet at a mailbox with room for two.
#[test]
fn outbox_leaves_in_order_as_far_as_there_is_room() {
    holds_and_notices(Mutant::BoundUnseen, || {
        let world = Arc::new(World::new(1, 8, |_, _| None));
        let receiver = world.launch(2);
        let outbox = world.outbox(receiver, &[10, 11, 12]);
        let other = world.clone();
        let sender = thread::spawn(move || other.send_outbox(receiver, outbox));
        let told = world.tell(receiver, 20) != Sent::Full;
        let mut left = sender.join().unwrap();
        let waiting = Mail(world.slots[0].mail.load(Ordering::Relaxed)).count();
        assert!(waiting <= 2, "{waiting} messages wait");
        world.settle();
        while left != 0 {
            left = world.send_outbox(receiver, left);
            world.settle();
        }
        assert_eq!(world.handled(), 3 + usize::from(told));
        let handled = world.handled.lock().unwrap();
        let of_outbox: Vec<_> = handled.iter().map(|h| h.1).filter(|c| *c < 20).collect();
        assert_eq!(of_outbox, [10, 11, 12]);
    });
}

#[test]
fn message_to_a_stopping_actor_is_handled_or_refused() {
    holds_and_notices(Mutant::EndsWithMessages, || {
        let world = Arc::new(World::new(1, 4, |_, _| None));
        let actor = world.launch(4);
        let other = world.clone();
        assert_eq!(world.tell(actor, 1), Sent::Activate);
        let sender = thread::spawn(move || {
            let sent = other.tell(actor, 2);
            other.signal(actor, Signal::Stop);
            u64::from(sent != Sent::Gone)
        });
        world.step();
        let accepted = 1 + sender.join().unwrap();
        world.settle();
        assert_eq!(world.handled() as u64 + world.dead(), accepted);
        assert_eq!(world.tell(actor, 2), Sent::Gone, "it has ended");
    });
}

#[test]
fn kill_turns_messages_into_dead_letters_once() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let world = Arc::new(World::new(1, 4, |_, _| None));
        let actor = world.launch(4);
        assert_eq!(world.tell(actor, 1), Sent::Activate);
        let other = world.clone();
        let killer = thread::spawn(move || other.signal(actor, Signal::Kill));
        world.step();
        killer.join().unwrap();
        world.settle();
        assert_eq!(world.handled() as u64 + world.dead(), 1);
        assert_eq!(world.tell(actor, 2), Sent::Gone);
    });
}

/// The actor in slot 1 sends on to the one in slot 0.
fn to_the_first(table: &Table<'_>, id: ActorId) -> Option<ActorId> {
    (id.slot() != 0).then(|| ActorId::new(0, generation(table, 0)))
}
fn generation(table: &Table<'_>, slot: usize) -> u32 {
    crate::mailbox::generation_of(table.slots[slot].meta.load(Ordering::Relaxed))
}

/// Two senders and a receiver with room for one message: both may be muted at a time, and both are woken.
#[test]
fn muted_senders_are_woken() {
    holds_and_notices(Mutant::RoomUnseen, || {
        let world = Arc::new(World::new(3, 8, to_the_first));
        let receiver = world.launch(1);
        let senders = [world.launch(2), world.launch(2)];
        assert_eq!(world.tell(receiver, 0), Sent::Activate);
        // The receiver's turn is kept back, so that it is full when the senders run.
        let turn = world
            .turns
            .lock()
            .unwrap()
            .pop_front()
            .expect("it was queued");
        for (i, sender) in senders.into_iter().enumerate() {
            assert_eq!(world.tell(sender, 1 + i as u64), Sent::Activate);
        }
        world.step();
        world.step();
        // Now the first sender is about to be muted.
        world.step();
        world.queue(turn);
        let other = world.clone();
        let thread = thread::spawn(move || while other.step() {});
        world.settle();
        thread.join().unwrap();
        world.settle();
        assert_eq!(world.handled(), 5);
    });
}

/// The actors of slots 0 and 1 send their first message on to each other.
fn to_each_other(table: &Table<'_>, id: ActorId) -> Option<ActorId> {
    let other = 1 - id.slot();
    let done = table.slots[id.slot() as usize]
        .handled
        .load(Ordering::Relaxed);
    (done == 0).then(|| ActorId::new(other, generation(table, other as usize)))
}

/// Each is about to be muted because the other one is full, and becomes full itself meanwhile.
#[test]
fn two_full_actors_that_send_to_each_other_go_on() {
    holds_and_notices_within(3, Mutant::CircleAllowed, || {
        let world = Arc::new(World::new(2, 8, to_each_other));
        let (one, two) = (world.launch(1), world.launch(1));
        assert_eq!(world.tell(two, 2), Sent::Activate);
        assert_eq!(world.tell(one, 1), Sent::Activate);
        // The second one handles its message, and cannot deliver another one to the first.
        world.step();
        world.turns.lock().unwrap().rotate_right(1);
        let (other, third) = (world.clone(), world.clone());
        let muted = thread::spawn(move || {
            other.step();
        });
        let fills = thread::spawn(move || usize::from(third.tell(one, 4) != Sent::Full));
        let more = usize::from(world.tell(two, 3) != Sent::Full);
        world.step();
        world.step();
        muted.join().unwrap();
        let more = more + fills.join().unwrap();
        world.settle();
        for slot in &world.slots {
            assert_eq!(slot.outbox_first.load(Ordering::Relaxed), 0, "it is stuck");
        }
        assert_eq!(world.handled(), 4 + more);
    });
}

/// A sender is about to be muted when the receiver ends and its slot is used again.
#[test]
fn sender_is_not_lost_when_the_receivers_slot_is_used_again() {
    holds_and_notices(Mutant::ListForgotten, || {
        let world = Arc::new(World::new(2, 8, to_the_first));
        let receiver = world.launch(1);
        let sender = world.launch(2);
        assert_eq!(world.tell(receiver, 0), Sent::Activate);
        let kept = world
            .turns
            .lock()
            .unwrap()
            .pop_front()
            .expect("it was queued");
        assert_eq!(world.tell(sender, 1), Sent::Activate);
        world.step();
        let other = world.clone();
        let thread = thread::spawn(move || {
            other.step();
        });
        world.signal(receiver, Signal::Kill);
        let mut host = Host { world: &world };
        turn::run(world.table(), kept, 0, Takes::EACH, &mut host, |_, _, _| {
            unreachable!("it is killed")
        });
        let next = world.table().launch(0, 0, 1, ActorId::NONE, |_| {});
        thread.join().unwrap();
        world.settle();
        assert_eq!(
            world.slots[1].outbox_first.load(Ordering::Relaxed),
            0,
            "it is stuck"
        );
        assert_eq!(
            world.dead(),
            2,
            "both messages were to the actor that was killed"
        );
        if let Some(next) = next {
            assert_ne!(next, receiver);
        }
    });
}

/// News come while the turn goes idle.
#[test]
fn news_against_going_idle_are_handled() {
    holds_and_notices(Mutant::NewsUnseen, || {
        let world = Arc::new(World::new(1, 4, |_, _| None));
        let actor = world.launch(4);
        assert_eq!(world.tell(actor, 1), Sent::Activate);
        let other = world.clone();
        let author = thread::spawn(move || {
            other.news.lock().unwrap().0 += 1;
            if other.table().announce(actor, NEWS) == Signalled::Activate {
                other.queue(actor.slot());
            }
        });
        world.step();
        author.join().unwrap();
        world.settle();
        assert_eq!((world.handled(), *world.news.lock().unwrap()), (1, (0, 1)));
    });
}

/// News of a deactivated actor wait until it is activated, which happens at the same time.
#[test]
fn news_of_an_actor_that_is_activated_are_handled() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let world = Arc::new(World::new(1, 4, |_, _| None));
        let actor = world.launch(4);
        world.signal(actor, Signal::Pause);
        let other = world.clone();
        let author = thread::spawn(move || {
            other.news.lock().unwrap().0 += 1;
            if other.table().announce(actor, NEWS) == Signalled::Activate {
                other.queue(actor.slot());
            }
        });
        world.signal(actor, Signal::Resume);
        author.join().unwrap();
        world.settle();
        assert_eq!(*world.news.lock().unwrap(), (0, 1));
    });
}

/// A monitor, a name or a link is made while the actor ends: either the end is reported, or the author learns it.
#[test]
fn end_is_reported_or_seen() {
    holds_and_notices(Mutant::EndUnseen, || {
        let world = Arc::new(World::new(1, 4, |_, _| None));
        let actor = world.launch(4);
        world.signal(actor, Signal::Kill);
        let other = world.clone();
        let author = thread::spawn(move || other.table().know(actor));
        world.step();
        let known = author.join().unwrap();
        world.settle();
        let reported = world.ended.lock().unwrap().len();
        assert!(reported <= 1);
        assert!(!known || reported == 1, "no one learns that it has ended");
    });
}
