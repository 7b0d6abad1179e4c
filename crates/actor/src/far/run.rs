//! What a thread does with an actor that it is lent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use everwarp_contract::actor::{
    ACTOR_FAULT_PANIC, ACTOR_FAULT_SENDS, DEAD_FAILED, DEAD_NO_REPLY, EVENT_SHIFT, MESSAGE_RESET,
    MESSAGE_TICK, MESSAGE_TIMER, MESSAGE_VALUE, PART_ITEMS,
};
use everwarp_contract::{
    DevActors, DevMessage, DevPtr, DevTask, DevType, FunctionId, GroupId, InstanceId, Priority,
};
use everwarp_runtime::{Error, TaskCx};

use super::memory::{Memory, Own};
use super::threads::Loan;
use super::wire::{Back, Taken};
use super::{Far, OF_HOST};
use crate::chain::Chain;
use crate::context::{TaskHost, set_handles, write_message};
use crate::message::{MAX_ASK_WORDS, Message};
use crate::notes::FAILED;
use crate::program::Turns;
use crate::side::{Sides, TimerId};
use crate::sync::Ordering;
use crate::turn::Turn;

/// The kinds of a system whose actors the host is lent, and what is kept for the system.
#[derive(Debug)]
pub(crate) struct Lent {
    /// By number; none for other kinds.
    pub(crate) kinds: Vec<Option<Turns>>,
    pub(crate) sides: Arc<Sides>,
    /// The number of the system's side among them.
    pub(crate) side: u64,
    /// The parameters of the program.
    pub(crate) user: Vec<u64>,
}

/// A thread's own.
pub(super) struct Runner {
    pub(super) far: Far,
    pub(super) memory: Memory,
    pub(super) lent: Arc<Lent>,
}

impl Runner {
    /// Handles messages of an actor, and gives it back.
    pub(super) fn run(&mut self, loan: Loan) -> Result<(), Error> {
        let taken = self.far.wire.borrow_mut().take(loan.actor.slot())?;
        let mut back = Back {
            actor: loan.actor,
            ..Back::default()
        };
        set_handles(true);
        // The actor comes back in any case, since the group of turns is open until it does.
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle(loan, &taken, &mut back)));
        set_handles(false);
        if handled.is_err() {
            back.fault = ACTOR_FAULT_PANIC.into();
        }
        back.goes_on = self.far.goes_on.take();
        self.far.asks.borrow_mut().clear();
        let items = self.far.sent.take();
        if let Some(error) = self.far.error.take() {
            return Err(error);
        }
        let wire = &mut *self.far.wire.borrow_mut();
        let wakes = self.far.wakes.take();
        if wakes {
            wire.wants();
        }
        wire.give_back(back, &items)?;
        match wakes {
            true => wire.wake(),
            false => Ok(()),
        }
    }

    fn handle(&mut self, loan: Loan, taken: &Taken, back: &mut Back) {
        let Lent {
            kinds,
            sides,
            side,
            user,
        } = &*self.lent;
        let turns = kinds[loan.kind as usize].as_ref();
        let turns = turns.expect("a GPU lends actors of the host only");
        let Some(side_of_system) = sides.get(*side) else {
            // The system ends.
            back.stops = true;
            return;
        };
        let part = side_of_system.part(loan.actor);
        // One that was launched without a closure has nothing to keep.
        let own = part.map(|part| part.own()).unwrap_or_default();
        let Own { state, again } = &mut *own.lock().unwrap_or_else(PoisonError::into_inner);
        state.resize(turns.state_bytes.div_ceil(16).max(1) as usize, 0);
        self.memory.begin(taken.notes, taken.parent, *again);
        let table = self.memory.table();
        let slot = &table.slots[0];
        let system = DevActors {
            states: DevPtr::new(state.as_mut_ptr() as u64),
            state_bytes: 16 * state.len() as u32,
            user: DevPtr::new(user.as_ptr() as u64),
            kinds: kinds.len() as u32,
            side: *side,
            ..DevActors::ZERO
        };
        for (number, record) in taken.messages.iter().enumerate() {
            let (message, news) = (message_of(record), taken.news && number == 0);
            if record.head & MESSAGE_TICK != 0 && news {
                side_of_system.ticked(TimerId(message.ask()));
            }
            if record.head & MESSAGE_VALUE != 0 && news {
                side_of_system.value_handled(loan.actor);
            }
            let mut task = FarTask::default();
            let mut host = TaskHost {
                task: &mut task,
                system,
                room: 0,
                chain: Chain::none(),
                needs: 0,
                sides: Some(sides),
                far: Some(&self.far),
            };
            let mut turn = Turn::far(table, slot, loan.actor);
            let mut asks = [None];
            if message.is_ask() {
                asks[0] = turn.cell(&mut host);
                let cell = asks[0].expect("there are more cells than messages");
                write_message(&table.cells[cell as usize], &message);
                self.far.stands_for(cell, record.next);
            }
            match record.head & MESSAGE_RESET != 0 && news {
                true => turns.reset(&mut turn, &mut host),
                false => turns.handle(&mut turn, &mut host, &[message], &mut asks),
            }
            self.far.drain(&mut turn);
            let (stops, pauses) = (turn.stopping, turn.pauses);
            turn.give_back();
            back.handled += u32::from(!news);
            if let Some(detail) = task.fault {
                // The kind, for the error that says so.
                let kind = u64::from(loan.kind) << 32;
                back.fault = match detail == u64::from(ACTOR_FAULT_SENDS) {
                    true => detail | kind,
                    false => detail,
                };
            }
            back.stops |= stops;
            let room = PART_ITEMS as usize - self.far.sent.borrow().len();
            if stops
                || pauses
                || back.fault != 0
                || self.far.goes_on.get()
                || self.far.error.borrow().is_some()
                || room < turns.most_items()
            {
                break;
            }
        }
        *again = slot.again.load(Ordering::Relaxed);
        back.failed = slot.notes.load(Ordering::Relaxed) & FAILED != 0;
        let dead = |reason: u32| table.control.dead[reason as usize].load(Ordering::Relaxed) as u32;
        let restarts = table.control.restarts.load(Ordering::Relaxed) as u32;
        back.counts = [dead(DEAD_NO_REPLY), dead(DEAD_FAILED), restarts];
    }
}

/// The message that the closure sees.
fn message_of(record: &DevMessage) -> Message {
    let mut message = Message {
        head: record.head & ((1 << EVENT_SHIFT) - 1),
        from: record.from,
        words: record.words,
    };
    if message.head & MESSAGE_TIMER != 0 {
        message.words[MAX_ASK_WORDS] &= !OF_HOST;
    }
    message
}

/// The task of a closure's turn: it can do nothing but end the engine.
#[derive(Default)]
struct FarTask {
    fault: Option<u64>,
}

impl TaskCx for FarTask {
    fn task(&self) -> DevTask {
        let (function, instance) = (FunctionId(0), InstanceId(0));
        DevTask::new(function, instance, 0, Priority::NORMAL, 0)
    }
    fn params_block(&self) -> *const u8 {
        unreachable!("the turn has its parameters")
    }
    fn spawn_at(&mut self, _: Priority, _: u32, _: u8, _: u64) {
        unreachable!("closures queue no turns");
    }
    fn spawn_held_at(&mut self, _: Priority, _: GroupId, _: u32, _: u8, _: u64) {
        unreachable!("closures queue no turns");
    }
    fn spawn_into(&mut self, _: GroupId, _: u32, _: u8, _: u64) {
        unreachable!("closures queue no turns");
    }
    fn fault(&mut self, detail: u64) {
        self.fault.get_or_insert(detail);
    }
    crate::task::turns_use_no_more!();
}
