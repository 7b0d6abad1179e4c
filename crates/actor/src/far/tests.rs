//! Closures of actors of the host, with a GPU that a test plays.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use everwarp_contract::actor::{
    ACTOR_FAULT_PANIC, ACTOR_FAULT_SENDS, MESSAGE_ASK, MESSAGE_HOST, MESSAGE_NEWS, MESSAGE_PAYLOAD,
    MESSAGE_RESET, MESSAGE_TICK, MESSAGE_TIMER, NOTE_SUPERVISED,
};

use super::run::Runner;
use super::threads::Loan;
use super::wire::{Back, Taken};
use super::*;
use crate::context::ActorCx;
use crate::program::{ActorProgram, Kind};
use crate::side::{Clock, Member, Policy, Side, Sides, Strategy, Supervision};

const ADA: ActorId = ActorId::new(1, 1);
const BOB: ActorId = ActorId::new(2, 1);
const GONE: ActorId = ActorId::new(3, 1);

/// What reached the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    Items(Vec<(u32, u64, u64)>),
    Back(Back, Vec<(u32, u64, u64)>),
    Woke,
}

/// A GPU on which all but one actor live, and where Bob's mailbox has room for some messages.
#[derive(Default)]
struct World {
    taken: Taken,
    room: usize,
    did: Vec<Did>,
}

struct Played(Rc<RefCell<World>>);

/// The item's kind, its receiver or cell, and its first word.
fn short(item: &DevMessage) -> (u32, u64, u64) {
    let whom = match item.next {
        ITEM_REPLY => item.from,
        _ => item.to,
    };
    (item.next, whom, item.words[0])
}

impl Wire for Played {
    fn take(&mut self, _: u32) -> Result<Taken, Error> {
        Ok(std::mem::take(&mut self.0.borrow_mut().taken))
    }
    fn give_back(&mut self, back: Back, items: &[DevMessage]) -> Result<(), Error> {
        let items = items.iter().map(short).collect();
        self.0.borrow_mut().did.push(Did::Back(back, items));
        Ok(())
    }
    fn act(&mut self, items: &mut [DevMessage], stops: bool) -> Result<(), Error> {
        let world = &mut *self.0.borrow_mut();
        let mut done = Vec::new();
        for item in items {
            done.push(short(item));
            let sends = item.next == ITEM_SEND;
            item.next = match item.to == GONE.bits() {
                true => TELL_GONE,
                false if sends && item.to == BOB.bits() && world.room == 0 => TELL_FULL,
                false => TELL_DELIVERED,
            };
            if sends && item.next == TELL_DELIVERED && item.to == BOB.bits() {
                world.room -= 1;
            }
            if stops && item.next == TELL_FULL {
                break;
            }
        }
        world.did.push(Did::Items(done));
        Ok(())
    }
    fn wake(&mut self) -> Result<(), Error> {
        self.0.borrow_mut().did.push(Did::Woke);
        Ok(())
    }
}

fn message(tag: u8, words: &[u64], cell: u32) -> DevMessage {
    let message = Message::new(BOB, tag, words, 5);
    DevMessage {
        next: cell,
        head: message.head,
        from: message.from,
        words: message.words,
        ..DevMessage::ZERO
    }
}
fn ask(cell: u32) -> DevMessage {
    let mut ask = message(1, &[7], cell);
    ask.head |= MESSAGE_ASK;
    ask
}

/// Lends Ada with these messages to a closure. What reached the GPU, and the side.
fn lend_of(
    kind: Kind,
    taken: Taken,
    room: usize,
    closure: impl FnMut(&mut ActorCx<'_, '_, '_>, &Message) + Send + 'static,
) -> (Vec<Did>, Arc<Side>) {
    let program = ActorProgram::closures("hosts", vec![kind]);
    let side = Arc::new(Side::new(Clock::Virtual(AtomicU64::new(0))));
    let sides = Arc::new(Sides::default());
    let number = sides.add(&side);
    side.set_part(ADA, Box::new(closure));
    let world = Rc::new(RefCell::new(World {
        taken,
        room,
        did: Vec::new(),
    }));
    let mut runner = Runner {
        far: Far::new(Box::new(Played(world.clone())), 1),
        memory: memory::Memory::new(),
        lent: Arc::new(Lent {
            kinds: program.lent(),
            sides,
            side: number,
            user: vec![0; 2],
        }),
    };
    let loan = Loan {
        actor: ADA,
        kind: 0,
    };
    runner.run(loan).expect("the GPU is there");
    let did = world.borrow().did.clone();
    (did, side)
}
fn lend(
    messages: &[DevMessage],
    room: usize,
    closure: impl FnMut(&mut ActorCx<'_, '_, '_>, &Message) + Send + 'static,
) -> Vec<Did> {
    let taken = Taken {
        messages: messages.to_vec(),
        ..Taken::default()
    };
    lend_of(Kind::host("host"), taken, room, closure).0
}
fn back(handled: u32) -> Back {
    Back {
        actor: ADA,
        handled,
        ..Back::default()
    }
}

#[test]
fn what_a_closure_sends_comes_back_in_its_order_with_replies_to_the_asks() {
    let messages = [message(2, &[1], 70), ask(71), ask(72), ask(73)];
    let mut number = 0;
    let did = lend(&messages, 0, move |actor, message| {
        number += 1;
        actor.tell(BOB, 9, &[10 * number]);
        match number {
            2 => drop(actor.reply(3, &[33])),
            3 => actor.forward(GONE),
            _ => {}
        }
        actor.tell(BOB, 9, &[10 * number + 1]);
        assert_eq!((message.from(), actor.id()), (BOB, ADA));
    });
    let bob = BOB.bits();
    let sends = |word| (ITEM_SEND, bob, word);
    let items = vec![
        sends(10),
        sends(11),
        sends(20),
        (ITEM_REPLY, 71, 33),
        sends(21),
        sends(30),
        (ITEM_FORWARD, GONE.bits(), 7),
        sends(31),
        sends(40),
        sends(41),
        // That it has no reply is known when the closure has returned.
        (ITEM_REPLY, 73, 7),
    ];
    let expected = Back {
        counts: [1, 0, 0],
        ..back(4)
    };
    assert_eq!(did, [Did::Back(expected, items)]);
}

#[test]
fn ask_of_the_host_is_replied_to_and_one_that_is_kept_is_not() {
    let mut asked = ask(71);
    asked.head |= MESSAGE_HOST;
    let taken = Taken {
        messages: vec![asked, asked, message(2, &[], 5)],
        ..Taken::default()
    };
    let (mut kept, mut number) = (crate::KeptAsk::NONE, 0);
    let (did, side) = lend_of(Kind::host("host"), taken, 0, move |actor, _| {
        number += 1;
        match number {
            1 => assert!(actor.reply(3, &[1])),
            2 => kept = actor.keep(),
            _ => assert!(actor.reply_kept(kept, 3, &[2]) && !actor.reply_kept(kept, 3, &[3])),
        }
    });
    let items = vec![(ITEM_REPLY, 71, 1), (ITEM_REPLY, 71, 2)];
    let knows = vec![(ITEM_NOTE, ADA.bits(), 0)];
    assert_eq!(did, [Did::Items(knows), Did::Back(back(3), items)]);
    assert_eq!(side.kept_by(ADA), 0);
}

#[test]
fn message_that_must_not_wait_goes_behind_those_before_it() {
    let messages = [message(2, &[], 70)];
    let did = lend(&messages, 2, |actor, _| {
        actor.tell(BOB, 9, &[1]);
        assert!(actor.try_tell(BOB, 9, &[2]));
        assert!(!actor.try_tell(BOB, 9, &[3]), "it is full");
        // It becomes a dead letter.
        assert!(actor.try_tell(GONE, 9, &[4]));
        actor.tell(BOB, 9, &[5]);
        assert!(!actor.try_tell(BOB, 9, &[6]), "an earlier one waits");
    });
    let (bob, gone) = (BOB.bits(), GONE.bits());
    let one = |to, word| Did::Items(vec![(ITEM_SEND, to, word)]);
    let expected = [
        one(bob, 1),
        one(bob, 2),
        one(bob, 3),
        one(gone, 4),
        Did::Items(vec![(ITEM_SEND, gone, 4), (ITEM_SEND, bob, 5)]),
        Did::Back(back(1), vec![(ITEM_SEND, gone, 4), (ITEM_SEND, bob, 5)]),
    ];
    assert_eq!(did, expected);
}

#[test]
fn actor_that_pauses_goes_on_or_stops_keeps_its_other_messages() {
    let messages = [message(2, &[1], 70), message(2, &[2], 71)];
    let did = lend(&messages, 0, |actor, _| actor.pause());
    let pauses = Did::Items(vec![(ITEM_SIGNAL, ADA.bits(), 0)]);
    assert_eq!(did, [pauses, Did::Back(back(1), vec![])]);
    let did = lend(&messages, 0, |actor, _| actor.go_on());
    let expected = Back {
        goes_on: true,
        ..back(1)
    };
    assert_eq!(did, [Did::Back(expected, vec![])]);
    let did = lend(&messages, 0, |actor, _| actor.stop());
    let expected = Back {
        stops: true,
        ..back(1)
    };
    assert_eq!(did, [Did::Back(expected, vec![])]);
    let did = lend(&messages, 0, |actor, _| actor.fail());
    let expected = Back {
        stops: true,
        failed: true,
        counts: [0, 1, 0],
        ..back(1)
    };
    assert_eq!(did, [Did::Back(expected, vec![])]);
}

#[test]
fn payload_of_a_closure_goes_with_its_message_and_is_opened_when_it_comes_back() {
    let mut returned = message(2, &[6], 71);
    returned.head |= MESSAGE_PAYLOAD;
    // The number of the first payload.
    returned.words[3] = 1;
    let messages = [message(2, &[], 70), returned, returned];
    let mut number = 0;
    let did = lend(&messages, 0, move |actor, message| {
        number += 1;
        match number {
            1 => actor.tell_with(BOB, 1, &[5], vec![7_u32]),
            2 => assert_eq!(actor.open::<Vec<u32>>().ok(), Some(vec![7])),
            // It has one owner.
            _ => assert!(message.has_payload() && actor.open::<Vec<u32>>().is_err()),
        }
    });
    let items = vec![(ITEM_SEND, BOB.bits(), 5)];
    assert_eq!(did, [Did::Back(back(3), items)]);
}

#[test]
fn group_restarts_a_closure_that_fails_and_resets_are_no_messages() {
    let mut reset = message(0, &[], 0);
    reset.head = MESSAGE_NEWS | MESSAGE_RESET;
    let taken = Taken {
        news: true,
        messages: vec![reset, message(2, &[], 70), message(3, &[], 71)],
        notes: NOTE_SUPERVISED,
        ..Taken::default()
    };
    let (did, side) = lend_of(
        Kind::host("host"),
        taken,
        0,
        |actor, message| match message.tag() {
            2 => {
                let supervision = Supervision::new(Strategy::OneForAll, 1, Duration::from_secs(1));
                let members = [ADA, BOB].map(|id| Member::Actor(id, Policy::Permanent));
                let group = actor.supervise(supervision, &members);
                group.expect("both live");
            }
            _ => actor.fail(),
        },
    );
    let expected = Back {
        counts: [0, 1, 2],
        ..back(2)
    };
    let knows = |id: ActorId| Did::Items(vec![(ITEM_NOTE, id.bits(), 0)]);
    let expected = [
        knows(ADA),
        knows(BOB),
        Did::Back(expected, vec![]),
        // The other member begins anew, too.
        Did::Woke,
    ];
    assert_eq!(did, expected);
    let (reset, _) = side.send_news(BOB).expect("it is to begin anew");
    assert_eq!(reset, Message::OF_RESET);
}

#[test]
fn news_are_no_messages_of_the_mailbox_and_a_timer_has_its_number() {
    let mut tick = message(8, &[], 0);
    tick.head |= MESSAGE_NEWS | MESSAGE_TICK | MESSAGE_TIMER;
    tick.words[4] = OF_HOST | 6;
    let taken = Taken {
        news: true,
        messages: vec![tick, message(2, &[], 70)],
        ..Taken::default()
    };
    let mut seen = Vec::new();
    let (did, side) = lend_of(Kind::host("host"), taken, 0, move |actor, message| {
        seen.push(message.timer().map(|timer| timer.bits()));
        if seen.len() == 2 {
            assert_eq!(seen, [Some(6), None]);
            actor.after(Duration::from_secs(1), 8, &[]);
            actor.monitor(GONE, 5);
        }
    });
    let knows = |id: ActorId| Did::Items(vec![(ITEM_NOTE, id.bits(), 0)]);
    let expected = [
        knows(ADA),
        knows(ADA),
        knows(GONE),
        Did::Back(back(1), vec![]),
        // The monitor's message is to be sent.
        Did::Woke,
    ];
    assert_eq!(did, expected);
    assert!(side.has_ops());
}

#[test]
fn restarted_actor_begins_anew_and_its_undone_messages_do_not_leave() {
    let kind = Kind::host("host")
        .atomic()
        .restarts(1, Duration::from_secs(3600));
    let taken = Taken {
        messages: vec![
            message(2, &[], 70),
            message(2, &[], 71),
            message(2, &[], 72),
        ],
        ..Taken::default()
    };
    let mut number = 0;
    let (did, _) = lend_of(kind, taken, 0, move |actor, _| {
        number += 1;
        actor.tell(BOB, 9, &[number]);
        actor.state_bytes()[0] += 1;
        if number != 2 {
            actor.fail();
        } else {
            assert_eq!(actor.state_bytes()[0], 1, "the first one was undone");
        }
    });
    let expected = Back {
        stops: true,
        failed: true,
        counts: [0, 2, 1],
        ..back(3)
    };
    let sent = vec![(ITEM_SEND, BOB.bits(), 2)];
    assert_eq!(did, [Did::Back(expected, sent)]);
}

#[test]
fn closure_that_panics_or_sends_too_much_ends_the_engine() {
    let fault = |kind: Kind, closure: fn(&mut ActorCx<'_, '_, '_>, &Message)| {
        let taken = Taken {
            messages: vec![message(2, &[], 70)],
            ..Taken::default()
        };
        match lend_of(kind, taken, 0, closure).0.last() {
            Some(Did::Back(back, _)) => back.fault,
            other => panic!("it does not come back: {other:?}"),
        }
    };
    let panics = fault(Kind::host("host"), |_, _| panic!("as a test wants"));
    assert_eq!(panics, u64::from(ACTOR_FAULT_PANIC));
    let sends = fault(Kind::host("host").sends(1), |actor, _| {
        actor.tell(BOB, 1, &[]);
        actor.tell(BOB, 1, &[]);
    });
    assert_eq!(sends, u64::from(ACTOR_FAULT_SENDS));
}
