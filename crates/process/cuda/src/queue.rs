//! The free places of each module, and the processes that wait for one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::{ModuleId, Pid};

use crate::layout::START_PROCESSES;
use crate::lease::PlaceLease;

/// Processes of a module that are started together: enough that each warp has some, and no more, because the first ones
/// run while the next are made ready.
const BATCH: usize = 1 << 13;
/// Places that are started together mostly belong to one group, whose processes a warp runs side by side.
const GROUP: usize = START_PROCESSES as usize;

/// A process and the place that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) pid: Pid,
    pub(crate) lease: PlaceLease,
}

/// How many processes start at about the same time as a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartWave {
    /// Others that can start now.
    pub(crate) more: usize,
    /// How many there are together, if their number has been announced.
    pub(crate) announced: usize,
}

/// The queue of one module.
#[derive(Debug, Default)]
pub(crate) struct ModuleQueue {
    /// The generation of each place's last process.
    generations: Vec<u32>,
    /// Free places. The place that has been free for longest is taken first, because places that have never been used are
    /// adjacent.
    free: VecDeque<u32>,
    waiting: VecDeque<Pid>,
    /// How many processes are spawned together, while some of them are still to come.
    announced: usize,
}

impl ModuleQueue {
    /// The queue of a module with `count` places, all of them free.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            generations: vec![0; count as usize],
            free: (0..count).collect(),
            ..Self::default()
        }
    }

    /// The queue of a module with places that had processes of these generations last. All are free.
    pub(crate) fn with_generations(generations: Vec<u32>) -> Self {
        Self {
            free: (0..generations.len() as u32).collect(),
            generations,
            ..Self::default()
        }
    }

    /// How many waiting processes have a place.
    fn startable(&self) -> usize {
        self.free.len().min(self.waiting.len())
    }

    fn wave(&self) -> StartWave {
        StartWave {
            more: self.startable(),
            announced: self.announced.min(self.generations.len()),
        }
    }

    /// Whether it is better to wait for further places: nothing can start, or only few of the waiting processes can,
    /// while others run whose places will be free.
    fn is_worth_waiting(&self) -> bool {
        let few = self.free.len() < GROUP && self.free.len() < self.generations.len();
        self.startable() == 0 || few && self.waiting.len() > self.free.len()
    }

    /// Gives places to processes that wait for them.
    fn take_batch(&mut self) -> Vec<Placement> {
        let count = BATCH.min(self.startable());
        let pids = self.waiting.drain(..count);
        let places = self.free.drain(..count);
        let placement = |(pid, place): (Pid, u32)| {
            let generation = &mut self.generations[place as usize];
            *generation = generation.wrapping_add(1).max(1);
            let generation = *generation;
            Placement {
                pid,
                lease: PlaceLease { place, generation },
            }
        };
        pids.zip(places).map(placement).collect()
    }
}

#[derive(Debug, Default)]
struct QueueState {
    queues: Vec<ModuleQueue>,
    stop: bool,
    /// Whether the dispatcher waits to be called.
    dispatcher_waits: bool,
}

impl QueueState {
    fn queue(&mut self, module: ModuleId) -> &mut ModuleQueue {
        &mut self.queues[module.0 as usize]
    }
}

/// The result of the dispatcher's wait.
pub(crate) enum Work {
    /// Some processes can start.
    Ready,
    /// The time is over, and there is nothing to do.
    Nothing,
    /// The host ends.
    Stop,
}

/// The queues of all modules, under one lock. A thread that holds it takes no lock of the process table.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    state: Mutex<QueueState>,
    /// There is work for the dispatcher.
    work: Condvar,
}

impl Queues {
    /// The queues of the modules that a host starts with.
    pub(crate) fn new(queues: Vec<ModuleQueue>) -> Self {
        let state = QueueState {
            queues,
            ..QueueState::default()
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    /// Adds the queue of a module that was loaded.
    pub(crate) fn add(&self, queue: ModuleQueue) {
        self.state().queues.push(queue);
    }

    /// Says how many processes of a module are spawned together, or 0 when all have been. It decides how many a warp
    /// starts side by side.
    pub(crate) fn announce(&self, module: ModuleId, count: usize) {
        self.state().queue(module).announced = count;
    }

    /// Adds processes to a module's queue, and takes those that its caller is to start, as many as have places. `None`
    /// if the dispatcher starts them, because few places are free.
    pub(crate) fn add_waiting(
        &self,
        module: ModuleId,
        pids: &[Pid],
    ) -> Option<(Vec<Placement>, StartWave)> {
        let mut state = self.state();
        let queue = state.queue(module);
        queue.waiting.extend(pids);
        if queue.is_worth_waiting() {
            drop(state);
            self.work.notify_one();
            return None;
        }
        let batch = queue.take_batch();
        let wave = queue.wave();
        drop(state);
        if wave.more > 0 {
            self.work.notify_one();
        }
        Some((batch, wave))
    }

    /// Takes what can start in each module, by the modules' numbers.
    pub(crate) fn take_all(&self) -> Vec<(Vec<Placement>, StartWave)> {
        let mut state = self.state();
        let mut all = Vec::with_capacity(state.queues.len());
        for queue in &mut state.queues {
            let batch = queue.take_batch();
            all.push((batch, queue.wave()));
        }
        all
    }

    /// Whether it is better to wait for further places in each module.
    pub(crate) fn are_worth_waiting(&self) -> bool {
        self.state()
            .queues
            .iter()
            .all(ModuleQueue::is_worth_waiting)
    }

    /// Frees places, and calls the dispatcher if it waits and some process can start.
    pub(crate) fn free(&self, places: impl Iterator<Item = (ModuleId, u32)>) {
        let mut state = self.state();
        for (module, place) in places {
            state.queue(module).free.push_back(place);
        }
        let call = state.dispatcher_waits && state.queues.iter().any(|q| q.startable() > 0);
        drop(state);
        if call {
            self.work.notify_one();
        }
    }

    /// Waits until processes can start, the host ends, or the time is over.
    pub(crate) fn wait_for_work(&self, most: Duration) -> Work {
        let mut state = self.state();
        loop {
            if state.stop {
                return Work::Stop;
            }
            if state.queues.iter().any(|queue| queue.startable() > 0) {
                return Work::Ready;
            }
            state.dispatcher_waits = true;
            let (woken, timeout) = ignore_poison(self.work.wait_timeout(state, most));
            state = woken;
            state.dispatcher_waits = false;
            if timeout.timed_out() {
                return Work::Nothing;
            }
        }
    }

    /// The generations of the last processes of each module's places, by module.
    pub(crate) fn generations(&self) -> Vec<Vec<u32>> {
        let mut state = self.state();
        let queues = state.queues.iter_mut();
        queues
            .map(|queue| std::mem::take(&mut queue.generations))
            .collect()
    }

    /// Ends the dispatcher.
    pub(crate) fn stop(&self) {
        self.state().stop = true;
        self.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pids(count: u32) -> Vec<Pid> {
        (0..count).map(|slot| Pid::new(slot, 1)).collect()
    }

    const MODULE: ModuleId = ModuleId(0);

    #[test]
    fn each_place_has_one_process_at_a_time() {
        let queues = Queues::new(vec![ModuleQueue::new(40)]);
        let (batch, wave) = queues
            .add_waiting(MODULE, &pids(45))
            .expect("places are free");
        assert_eq!((batch.len(), wave.more), (40, 0));
        let first = batch[0].lease;
        assert_eq!((first.place, first.generation), (0, 1));
        queues.free([(MODULE, 0)].into_iter());
        let [(again, _)] = &queues.take_all()[..] else {
            panic!("there is one module");
        };
        let lease = PlaceLease {
            place: 0,
            generation: 2,
        };
        assert_eq!(
            again[..],
            [Placement {
                pid: Pid::new(40, 1),
                lease
            }]
        );
    }

    #[test]
    fn a_few_free_places_are_gathered_by_the_dispatcher() {
        let queues = Queues::new(vec![ModuleQueue::new(40)]);
        queues
            .add_waiting(MODULE, &pids(38))
            .expect("there is room");
        assert!(queues.add_waiting(MODULE, &pids(5)).is_none());
        assert!(queues.are_worth_waiting());
        assert!(matches!(queues.wait_for_work(Duration::ZERO), Work::Ready));
        assert_eq!(queues.take_all()[0].0.len(), 2);
        assert!(matches!(
            queues.wait_for_work(Duration::ZERO),
            Work::Nothing
        ));
        queues.stop();
        assert!(matches!(queues.wait_for_work(Duration::ZERO), Work::Stop));
    }

    #[test]
    fn an_announced_number_is_no_more_than_the_places() {
        let queues = Queues::new(vec![ModuleQueue::new(100)]);
        queues.announce(MODULE, 1000);
        let (batch, wave) = queues
            .add_waiting(MODULE, &pids(64))
            .expect("there is room");
        assert_eq!((batch.len(), wave.announced), (64, 100));
    }
}
