//! Supervised groups: which actors are restarted when one of them fails or ends.

use std::time::Duration;

use everwarp_contract::actor::HELD_FAILS;

use crate::ending::Ending;
use crate::id::ActorId;
use crate::restarts::Restarts;

use super::{News, Op, Side, State};

/// A supervised group of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub(crate) usize);

/// Which members are restarted when one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// That one.
    OneForOne,
    /// All of them.
    OneForAll,
    /// That one and those after it.
    RestForOne,
}

/// When a member is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// However it ends.
    Permanent,
    /// When it fails or is killed.
    Transient,
    /// Never.
    Temporary,
}

/// A member of a group: an actor, or a group that was made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// An actor.
    Actor(ActorId, Policy),
    /// A group. When it has used up its restarts, it is restarted as a whole, as if it were a member that had failed.
    Group(GroupId),
}

/// How a group is supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervision {
    /// Which members are restarted.
    pub strategy: Strategy,
    /// How often. Once more ends the group: its members are killed, unless the group is a member of another one.
    pub restarts: Restarts,
}

impl Supervision {
    /// Supervision with up to `most` restarts within a time.
    pub const fn new(strategy: Strategy, most: u32, within: Duration) -> Self {
        Self {
            strategy,
            restarts: Restarts { most, within },
        }
    }
}

/// The state of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// How often a member failed or ended and was restarted; the others that were restarted with it do not count.
    pub restarts: u64,
    /// Members that live.
    pub members: usize,
    /// The group has used up its restarts, and its members were killed.
    pub ended: bool,
}

#[derive(Debug)]
struct Group {
    supervision: Supervision,
    again: u64,
    members: Vec<Member>,
    parent: Option<GroupId>,
    stats: GroupStats,
}

#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

/// Why a GPU holds an actor of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Its handler has failed, and its kind does not restart it.
    Fails,
    /// It would end.
    Ends(Ending),
}

impl Held {
    /// Word 0 of the event.
    pub(crate) fn of(word: u64) -> Self {
        match word {
            0..3 => Self::Ends(Ending::ALL[word as usize]),
            // No GPU writes another one than this.
            _ => Self::Fails,
        }
    }
}

const _: () = assert!(HELD_FAILS == 3, "the endings come before it");

/// Why a group was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSupervised {
    /// This actor does not live.
    Gone(ActorId),
    /// This actor belongs to a group.
    Actor(ActorId),
    /// This group does not exist, or belongs to another.
    Group(GroupId),
}

impl State {
    fn group(&mut self, group: GroupId) -> &mut Group {
        &mut self.groups.0[group.0]
    }
    fn policy(&mut self, actor: ActorId) -> Option<(GroupId, Policy)> {
        let group = self.records.get(&actor)?.group?;
        let member = |m: &Member| match *m {
            Member::Actor(id, policy) if id == actor => Some(policy),
            _ => None,
        };
        let policy = self.group(group).members.iter().find_map(member)?;
        Some((group, policy))
    }
    pub(super) fn member_ended(&mut self, group: GroupId, actor: ActorId) {
        let members = &mut self.group(group).members;
        members.retain(|m| !matches!(m, Member::Actor(id, _) if *id == actor));
    }

    /// A member of a group is restarted: those that are restarted with it. `own` is the actor that restarts itself.
    /// Returns false if the group has used up its restarts, and ends.
    fn restart(&mut self, group: GroupId, cause: Member, own: ActorId, now: u32) -> bool {
        let all = self.group(group);
        if all.stats.ended {
            return false;
        }
        let Some(again) = all.supervision.restarts.next_at(all.again, now) else {
            return self.escalate(group, own, now);
        };
        all.again = again;
        all.stats.restarts += 1;
        let same = |m: &Member| match (*m, cause) {
            (Member::Actor(one, _), Member::Actor(other, _)) => one == other,
            (Member::Group(one), Member::Group(other)) => one == other,
            _ => false,
        };
        let at = all.members.iter().position(same).unwrap_or(0);
        let last = match all.supervision.strategy {
            Strategy::OneForOne => (at + 1).min(all.members.len()),
            Strategy::OneForAll | Strategy::RestForOne => all.members.len(),
        };
        let first = match all.supervision.strategy {
            Strategy::OneForAll => 0,
            Strategy::OneForOne | Strategy::RestForOne => at,
        };
        let restarted: Vec<Member> = all.members[first..last].to_vec();
        for member in restarted {
            self.reset(member, own);
        }
        true
    }
    fn reset(&mut self, member: Member, own: ActorId) {
        match member {
            Member::Actor(actor, _) if actor == own => {}
            Member::Actor(actor, _) => self.push(actor, News::Reset),
            Member::Group(group) => {
                self.group(group).again = 0;
                for member in self.group(group).members.clone() {
                    self.reset(member, own);
                }
            }
        }
    }
    /// A group has used up its restarts.
    fn escalate(&mut self, group: GroupId, own: ActorId, now: u32) -> bool {
        if let Some(parent) = self.group(group).parent
            && self.restart(parent, Member::Group(group), own, now)
        {
            // Also what the parent's strategy has not restarted already.
            return true;
        }
        self.end(group);
        false
    }
    /// Kills the members of a group, the last one first.
    fn end(&mut self, group: GroupId) {
        let all = self.group(group);
        if std::mem::replace(&mut all.stats.ended, true) {
            return;
        }
        for member in all.members.clone().into_iter().rev() {
            match member {
                Member::Actor(actor, _) => self.ops.push_back((actor, Op::Kill)),
                Member::Group(group) => self.end(group),
            }
        }
    }
}

impl Side {
    fn milliseconds(&self) -> u32 {
        (self.clock.now() / 1_000_000) as u32
    }

    /// Supervises members. `know` makes the end of an actor known, and returns whether it lives.
    pub(crate) fn supervise(
        &self,
        supervision: Supervision,
        members: &[Member],
        know: impl Fn(ActorId) -> bool,
    ) -> Result<GroupId, NotSupervised> {
        let mut state = self.state();
        let id = GroupId(state.groups.0.len());
        for (i, member) in members.iter().enumerate() {
            let twice = members[..i].contains(member);
            match *member {
                Member::Actor(actor, _) if !know(actor) => return Err(NotSupervised::Gone(actor)),
                Member::Actor(actor, _) => {
                    let record = state.records.get(&actor);
                    if twice || record.is_some_and(|record| record.group.is_some()) {
                        return Err(NotSupervised::Actor(actor));
                    }
                }
                Member::Group(group) => {
                    let found = state.groups.0.get(group.0);
                    if twice || found.is_none_or(|g| g.parent.is_some() || g.stats.ended) {
                        return Err(NotSupervised::Group(group));
                    }
                }
            }
        }
        for member in members {
            match *member {
                Member::Actor(actor, _) => state.record(actor).group = Some(id),
                Member::Group(group) => state.group(group).parent = Some(id),
            }
        }
        state.groups.0.push(Group {
            supervision,
            again: 0,
            members: members.to_vec(),
            parent: None,
            stats: GroupStats::default(),
        });
        Ok(id)
    }
    /// The state of a group.
    pub(crate) fn group(&self, group: GroupId) -> Option<GroupStats> {
        let state = self.state();
        let group = state.groups.0.get(group.0)?;
        Some(GroupStats {
            members: group.members.len(),
            ..group.stats
        })
    }
    /// Ends a group: its members are killed, and not restarted. Returns false if there is no such group.
    pub(crate) fn end_group(&self, group: GroupId) -> bool {
        let mut state = self.state();
        let found = group.0 < state.groups.0.len();
        if found {
            state.end(group);
        }
        found
    }

    /// The handler of a supervised actor has failed. Returns whether it is restarted.
    pub(crate) fn restarts(&self, actor: ActorId) -> bool {
        let now = self.milliseconds();
        let mut state = self.state();
        match state.policy(actor) {
            None | Some((_, Policy::Temporary)) => false,
            Some((group, policy)) => state.restart(group, Member::Actor(actor, policy), actor, now),
        }
    }
    /// Whether a supervised actor that has ended goes on instead.
    pub(crate) fn revives(&self, actor: ActorId, ending: Ending) -> bool {
        let mut state = self.state();
        let policy = state.policy(actor);
        let Some((group, policy)) = policy.filter(|_| !state.closed) else {
            return false;
        };
        // A failure that the group did not restart has ended the group.
        let wanted = match policy {
            Policy::Permanent => true,
            Policy::Transient => ending.is_abnormal(),
            Policy::Temporary => false,
        };
        wanted && !state.group(group).stats.ended
    }
    /// A GPU holds an actor that would end like this, or whose handler has failed. Returns whether it begins anew, which is
    /// what its turn on the CPU engine decides in two steps.
    pub(crate) fn goes_on(&self, actor: ActorId, held: Held) -> bool {
        match held {
            Held::Fails => self.restarts(actor),
            Held::Ends(ending) => {
                let revives = self.revives(actor, ending);
                if revives {
                    self.revived(actor);
                }
                revives
            }
        }
    }
    /// Whether there are groups.
    pub(crate) fn has_groups(&self) -> bool {
        !self.state().groups.0.is_empty()
    }
    /// It goes on. Its restart counts.
    pub(crate) fn revived(&self, actor: ActorId) {
        let now = self.milliseconds();
        let mut state = self.state();
        if let Some((group, policy)) = state.policy(actor) {
            state.restart(group, Member::Actor(actor, policy), actor, now);
        }
    }
}
