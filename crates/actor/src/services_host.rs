//! The same as in `services.rs`, for the host.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use everwarp_contract::DevActorControl;
use everwarp_runtime::EngineKind;

use crate::context::table;
use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::{MAX_ASK_WORDS, Message};
use crate::notes::{KNOWN, SUPERVISED};
use crate::side::{DeadLetters, GroupId, GroupStats, Member, Monitor, Supervision, TimerId};
use crate::system::{ActorSystem, Local, Port};

impl ActorSystem {
    pub(crate) fn local(&self, what: &'static str) -> Result<&Local, ActorError> {
        self.local.as_ref().ok_or_else(|| match self.engine.kind() {
            engine @ EngineKind::Wgpu => ActorError::NotOnEngine {
                engine,
                what: what.to_owned(),
            },
            _ => ActorError::NoServices {
                what,
                program: self.program.clone(),
            },
        })
    }
    /// The port, which `knows` needs on a GPU.
    pub(crate) fn gate(&self, local: &Local) -> Result<Option<MutexGuard<'_, Port>>, ActorError> {
        if local.pump.is_none() {
            return Ok(None);
        }
        // A thread that holds the port may wait for the handler.
        Self::may_wait(
            "what an ActorSystem does about monitors, links, names, keys, timers and groups",
        )?;
        Ok(Some(self.port()))
    }
    /// Makes the end of an actor known.
    pub(crate) fn knows(local: &Local, actor: ActorId, notes: u32) -> bool {
        match &local.pump {
            Some(pump) => pump.reach().note(actor, notes),
            // The tables live as long as the system, whose `Local` this is.
            None => table(&local.tables).note_for(actor, notes),
        }
    }

    /// Subscribes to dead letters. Up to `most` wait for the subscriber; those that come when it is full are lost, and
    /// counted.
    ///
    /// # Errors
    /// [`ActorError::NoServices`].
    ///
    /// # Panics
    /// `most` is 0.
    pub fn dead_letters(&self, most: usize) -> Result<DeadLetters, ActorError> {
        assert!(
            most > 0,
            "a subscription has room for one dead letter at least"
        );
        let local = self.local("subscriptions to dead letters")?;
        if local.pump.is_some() {
            let letters = std::mem::offset_of!(DevActorControl, letters);
            self.control.write_at(letters / 8, &[1])?;
        }
        Ok(local.side.dead_letters.add(most))
    }
    /// Monitors an actor. A restart is no end.
    ///
    /// # Errors
    /// [`ActorError::NoServices`].
    pub fn monitor(&self, actor: ActorId) -> Result<Monitor, ActorError> {
        let local = self.local("monitors")?;
        let _port = self.gate(local)?;
        let know = |id| Self::knows(local, id, KNOWN);
        Ok(local.side.monitor_from_host(actor, know))
    }
    /// Links two actors: when one of them fails or is killed, the other one is killed.
    ///
    /// # Errors
    /// [`ActorError::NoServices`]; [`ActorError::Gone`] if one of them does not live.
    pub fn link(&self, one: ActorId, other: ActorId) -> Result<(), ActorError> {
        let local = self.local("links")?;
        let _port = self.gate(local)?;
        for actor in [one, other] {
            if !Self::knows(local, actor, KNOWN) {
                return Err(ActorError::Gone { actor });
            }
        }
        let know = |id| Self::knows(local, id, KNOWN);
        match local.side.link(one, other, know) {
            true => Ok(()),
            false => Err(ActorError::Gone { actor: other }),
        }
    }
    /// Ends a link.
    ///
    /// # Errors
    /// [`ActorError::NoServices`].
    pub fn unlink(&self, one: ActorId, other: ActorId) -> Result<(), ActorError> {
        self.local("links")?.side.unlink(one, other);
        Ok(())
    }

    /// Gives an actor a name, which it keeps until it ends.
    ///
    /// # Errors
    /// [`ActorError::NameTaken`], [`ActorError::Gone`] or [`ActorError::NoServices`].
    pub fn register(&self, name: &str, actor: ActorId) -> Result<(), ActorError> {
        let local = self.local("names")?;
        let _port = self.gate(local)?;
        let know = |id| Self::knows(local, id, KNOWN);
        let registered = local.side.register(name, actor, know);
        registered.map_err(|why| ActorError::not_named(why, name, actor))
    }
    /// Takes a name away. Returns the actor that had it; none if there was none.
    ///
    /// # Errors
    /// [`ActorError::NoServices`].
    pub fn unregister(&self, name: &str) -> Result<ActorId, ActorError> {
        Ok(self.local("names")?.side.unregister(name))
    }
    /// The actor with a name; none if there is none.
    ///
    /// # Errors
    /// [`ActorError::NoServices`].
    pub fn lookup(&self, name: &str) -> Result<ActorId, ActorError> {
        Ok(self.local("names")?.side.lookup(name))
    }
    /// The actor of a kind with a key. The first use of the key launches it, and so does the first after it has ended.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), or [`ActorError::NoServices`].
    pub fn at(&self, kind: u32, key: u64) -> Result<ActorId, ActorError> {
        let local = self.local("keys")?;
        if let Some(actor) = local.side.known_at(kind, key) {
            return Ok(actor);
        }
        // It is launched before the lock is taken, which turns need. Of two, one is not used.
        let launched = self.launch(kind)?;
        let know = |id| Self::knows(local, id, KNOWN);
        let port = self.gate(local)?;
        let actor = local.side.at(kind, key, || launched, know);
        drop(port);
        if actor != launched {
            self.kill(&[launched])?;
        }
        Ok(actor)
    }
    /// Sends a message to the actor of a kind with a key, which is launched if it does not live.
    ///
    /// # Errors
    /// As [`at`](Self::at) and [`tell`](Self::tell).
    pub fn tell_at(
        &self,
        kind: u32,
        key: u64,
        tag: u8,
        words: &[u64],
    ) -> Result<ActorId, ActorError> {
        let begin = Instant::now();
        loop {
            let actor = self.at(kind, key)?;
            match self.tell(actor, tag, words) {
                // It ends, and its key is about to be free.
                Err(ActorError::Gone { .. }) if begin.elapsed() < self.config.patience => {
                    std::thread::yield_now();
                }
                other => return other.map(|()| actor),
            }
        }
    }

    /// Sends an actor a message after a time, never before. It overtakes messages in the mailbox.
    ///
    /// # Errors
    /// [`ActorError::Gone`] or [`ActorError::NoServices`].
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn after(
        &self,
        to: ActorId,
        time: Duration,
        tag: u8,
        words: &[u64],
    ) -> Result<TimerId, ActorError> {
        self.timer(to, time, false, tag, words)
    }
    /// Sends an actor a message each time that a period has passed, until the timer is cancelled or the actor ends. A
    /// message that would come while the last one is not handled yet is left out.
    ///
    /// # Errors
    /// [`ActorError::Gone`] or [`ActorError::NoServices`].
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn every(
        &self,
        to: ActorId,
        period: Duration,
        tag: u8,
        words: &[u64],
    ) -> Result<TimerId, ActorError> {
        self.timer(to, period, true, tag, words)
    }
    fn timer(
        &self,
        to: ActorId,
        time: Duration,
        repeats: bool,
        tag: u8,
        words: &[u64],
    ) -> Result<TimerId, ActorError> {
        let local = self.local("timers")?;
        let _port = self.gate(local)?;
        let message = Message::new(ActorId::NONE, tag, words, MAX_ASK_WORDS);
        let know = |id| Self::knows(local, id, KNOWN);
        match local.side.timer(to, time, repeats, message, know) {
            TimerId::NONE => Err(ActorError::Gone { actor: to }),
            timer => Ok(timer),
        }
    }
    /// Cancels a timer. Returns whether a message was still to come; it does not come any more.
    ///
    /// # Errors
    /// [`ActorError::NoServices`].
    pub fn cancel(&self, timer: TimerId) -> Result<bool, ActorError> {
        Ok(self.local("timers")?.side.cancel(timer))
    }

    /// Supervises actors and groups.
    ///
    /// # Errors
    /// [`ActorError::Gone`], [`ActorError::Supervised`] or [`ActorError::NoGroup`] for a member;
    /// [`ActorError::NoServices`].
    pub fn supervise(
        &self,
        supervision: Supervision,
        members: &[Member],
    ) -> Result<GroupId, ActorError> {
        let local = self.local("supervised groups")?;
        let _port = self.gate(local)?;
        let know = |id| Self::knows(local, id, KNOWN | SUPERVISED);
        let group = local.side.supervise(supervision, members, know);
        group.map_err(ActorError::not_supervised)
    }
    /// How often members of a group were restarted, and whether it has ended.
    ///
    /// # Errors
    /// [`ActorError::NoGroup`] or [`ActorError::NoServices`].
    pub fn group(&self, group: GroupId) -> Result<GroupStats, ActorError> {
        let stats = self.local("supervised groups")?.side.group(group);
        stats.ok_or(ActorError::NoGroup { group })
    }
    /// Ends a group: its members are killed, the last one first, and are not restarted.
    ///
    /// # Errors
    /// [`ActorError::NoGroup`], [`ActorError::NoServices`], or the engine failed.
    pub fn end_group(&self, group: GroupId) -> Result<(), ActorError> {
        let local = self.local("supervised groups")?;
        if !local.side.end_group(group) {
            return Err(ActorError::NoGroup { group });
        }
        Ok(local.post.carry(&local.side)?)
    }
}
