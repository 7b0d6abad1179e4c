//! The end of a task: its group counts it, and the last task of a group fires the continuation.

use everwarp_contract::task::TASK_ARG_FROM_GROUP;
use everwarp_contract::{DevTask, FunctionId, GroupId, TaskParent, TokenId};

use crate::group::Counted;
use crate::observe::Observer;
use crate::run::WorkerContext;
use crate::shared::bump;

impl<'s, O: Observer<'s>> WorkerContext<'s, O> {
    /// Counts the result of a call: it spawned `spawned` tasks into the group, and its task ended or not.
    #[inline]
    pub(crate) fn tally(&mut self, group: GroupId, spawned: u32, ended: bool) {
        if spawned == u32::from(ended) {
            return;
        }
        if !self.credit.is_for(group) {
            self.settle();
            self.credit.open(group);
        }
        let count = &self.shared.group(group).count;
        if spawned > 0 {
            // A task that ended makes room for one that it spawned, without a look at the count.
            return self.credit.spawned(count, spawned - u32::from(ended));
        }
        if self.credit.ended(count) == Counted::Fired {
            self.fire(group);
        }
    }

    /// Returns the credit that the worker holds. Needed before the worker does anything but run tasks of that group.
    pub(crate) fn settle(&mut self) {
        if let Some(group) = self.credit.owes()
            && self.credit.settle(&self.shared.group(group).count) == Counted::Fired
        {
            self.fire(group);
        }
    }

    /// Counts a task that only counts (function `NONE`) as ended.
    pub(crate) fn end(&mut self, parent: TaskParent) {
        match parent {
            TaskParent::Host(token) => self.shared.complete(token, 0),
            TaskParent::Group(group) => {
                if self.shared.group(group).count.change(u32::MAX) == Counted::Fired {
                    self.fire(group);
                }
            }
        }
    }

    /// Runs or queues the continuation of a group that has fired for this worker, and frees the group.
    fn fire(&mut self, group: GroupId) {
        let mut id = group;
        loop {
            let record = self.shared.group(id);
            bump(&self.counters.fired, 1);
            let value = record.count.value();
            // SAFETY: the group fired for this worker.
            let then = unsafe { record.take_then() }.expect("an open group has a continuation");
            self.shared.free_group(&mut self.groups, id);
            match (then.function(), then.parent()) {
                (FunctionId::COMPLETE, _) => {
                    return self.shared.complete(TokenId(then.group), value);
                }
                (FunctionId::NONE, TaskParent::Host(token)) => {
                    return self.shared.complete(token, 0);
                }
                (FunctionId::NONE, TaskParent::Group(outer)) => {
                    if self.shared.group(outer).count.change(u32::MAX) == Counted::Open {
                        return;
                    }
                    id = outer;
                }
                _ => {
                    let collects = then.head & TASK_ARG_FROM_GROUP != 0;
                    return self.push(DevTask {
                        head: then.head & !TASK_ARG_FROM_GROUP,
                        arg: if collects { value } else { then.arg },
                        ..then
                    });
                }
            }
        }
    }
}
