//! Monitors and links, and what follows when an actor ends.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use everwarp_contract::actor::DEAD_ENDED;

use crate::ending::Ending;
use crate::id::ActorId;
use crate::message::Message;

use super::channels::After;
use super::{Op, Side, State};

/// What is notified when an actor ends.
#[derive(Debug)]
pub(super) enum Watcher {
    /// An actor, with its number for this monitor.
    Actor(ActorId, u64),
    /// The host.
    Host(Sender<Ending>),
}

/// A monitor of the host.
#[derive(Debug)]
pub struct Monitor(Receiver<Ending>);

impl Monitor {
    /// How the actor has ended; none if it lives after this time, or if this has returned the ending already.
    pub fn ended_within(&self, timeout: Duration) -> Option<Ending> {
        self.0.recv_timeout(timeout).ok()
    }
}

impl State {
    fn down(&mut self, watcher: Watcher, actor: ActorId, ending: Ending) {
        match watcher {
            Watcher::Actor(watcher, number) => {
                self.tell(watcher, Message::of_down(actor, ending, number));
            }
            // The host may have dropped the monitor.
            Watcher::Host(sender) => drop(sender.send(ending)),
        }
    }
    /// Takes the monitors of one actor from another.
    fn unwatch(&mut self, target: ActorId, watcher: ActorId) -> bool {
        let Some(record) = self.records.get_mut(&target) else {
            return false;
        };
        let before = record.watchers.len();
        let others = |w: &Watcher| !matches!(w, Watcher::Actor(id, _) if *id == watcher);
        record.watchers.retain(others);
        record.watchers.len() < before
    }
}

impl Side {
    /// Lets `watcher` be notified when `target` ends. `know` makes the end of an actor known, and returns whether it lives.
    fn watch(&self, watcher: Watcher, target: ActorId, know: impl FnOnce(ActorId) -> bool) {
        // The lock is held, so that the end is not reported in between.
        let mut state = self.state();
        if !know(target) {
            state.down(watcher, target, Ending::Unknown);
            return;
        }
        if let Watcher::Actor(watcher, _) = watcher {
            state.record(watcher).watches.push(target);
        }
        state.record(target).watchers.push(watcher);
    }
    pub(crate) fn monitor(
        &self,
        watcher: ActorId,
        number: u64,
        target: ActorId,
        know: impl FnOnce(ActorId) -> bool,
    ) {
        self.watch(Watcher::Actor(watcher, number), target, know);
    }
    pub(crate) fn monitor_from_host(
        &self,
        target: ActorId,
        know: impl FnOnce(ActorId) -> bool,
    ) -> Monitor {
        let (sender, receiver) = channel();
        self.watch(Watcher::Host(sender), target, know);
        Monitor(receiver)
    }
    /// Ends the monitors of `watcher` on `target`. Returns whether there was one.
    pub(crate) fn demonitor(&self, watcher: ActorId, target: ActorId) -> bool {
        let mut state = self.state();
        state.record(watcher).watches.retain(|id| *id != target);
        // A message that is not handled yet goes, too.
        let news = &mut state.record(watcher).news;
        news.retain(
            |listed| !matches!(&listed.news, super::News::Message(m) if m.is_down_of(target)),
        );
        state.unwatch(target, watcher)
    }

    /// Links two actors. Returns whether both live.
    pub(crate) fn link(
        &self,
        one: ActorId,
        other: ActorId,
        know: impl Fn(ActorId) -> bool,
    ) -> bool {
        let mut state = self.state();
        if !know(one) || !know(other) {
            return false;
        }
        for (from, to) in [(one, other), (other, one)] {
            let links = &mut state.record(from).links;
            if !links.contains(&to) {
                links.push(to);
            }
        }
        true
    }
    /// Ends a link.
    pub(crate) fn unlink(&self, one: ActorId, other: ActorId) {
        let mut state = self.state();
        for (from, to) in [(one, other), (other, one)] {
            if let Some(record) = state.records.get_mut(&from) {
                record.links.retain(|id| *id != to);
            }
        }
    }

    /// An actor has ended.
    pub(crate) fn ended(&self, actor: ActorId, ending: Ending) {
        let mut state = self.state();
        let Some(mut record) = state.records.remove(&actor) else {
            return;
        };
        let news = record.all_news();
        record.timers.iter().for_each(|t| state.timers.remove(*t));
        state.lose(actor, &record.kept, DEAD_ENDED);
        state.names.remove(&record.names, record.key);
        if let Some(group) = record.group {
            state.member_ended(group, actor);
        }
        for watcher in record.watchers {
            state.down(watcher, actor, ending);
        }
        for target in record.watches {
            state.unwatch(target, actor);
        }
        for other in record.links {
            if let Some(linked) = state.records.get_mut(&other) {
                linked.links.retain(|id| *id != actor);
                if ending.is_abnormal() {
                    state.ops.push_back((other, Op::Kill));
                }
            }
        }
        let mut after = After::default();
        state.leave_channels(actor, &record.channels);
        state.bring_back(news, &mut after);
        // A closure may do something when it is dropped.
        drop(state);
        after.run();
        drop(record.part);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::side::Clock;

    /// Between the moment in which an actor does not live any more and the report of its end, news for it come.
    #[test]
    fn news_for_an_actor_that_has_just_ended_do_not_end_its_monitors() {
        let side = Side::new(Clock::Virtual(AtomicU64::new(0)));
        let (actor, known) = (ActorId::new(3, 1), |_| true);
        let monitor = side.monitor_from_host(actor, known);
        side.tell(actor, Message::EMPTY);
        side.forget(actor);
        assert!(monitor.ended_within(Duration::ZERO).is_none());
        side.ended(actor, Ending::Killed);
        assert_eq!(monitor.ended_within(Duration::ZERO), Some(Ending::Killed));
        // Nothing is kept of an actor that no party waits for.
        side.tell(actor, Message::EMPTY);
        side.forget(actor);
        assert!(side.state().records.is_empty());
    }
}
