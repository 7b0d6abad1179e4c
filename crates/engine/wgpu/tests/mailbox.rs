//! A twin of mailboxes and turns of actors (`device/actor/mailbox.wgsl`, `device/actor/turn.wgsl`), function for function, under
//! a memory in which only exchanges are ordered: a store reaches other workgroups at any time up to the end of the dispatch,
//! and a load may return any value that the word has had since this workgroup last looked. Within a workgroup a barrier
//! orders what its invocations have stored; within a step nothing does.
//!
//! An access is one step, and steps of all invocations come in random order. Loads are not late themselves, so what a cell's
//! bit depends on when it is given back is not shown here. Backpressure is left out.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// A turn is near wherever the actor's last turn was.
    AnyWorkgroup,
    /// A turn is near also if another message was linked first.
    NotFirst,
    /// A turn reads links of its own dispatch.
    NewLinks,
    /// The link to the oldest cell is stored, not added.
    StoredHead,
    /// A cell is given back before its words have arrived.
    NotArrived,
    /// An invocation goes on with a near turn while others run.
    NotAlone,
    /// The word does not say who ran the last turn.
    NotMine,
    /// A slot is given back in the dispatch in which its actor ended.
    EarlySlot,
}

const WORKGROUPS: usize = 3;
const LANES: usize = 2;
const SLOTS: u32 = 4;
const CELLS: u32 = 31;
/// Tasks that an invocation runs in a row.
const CHAIN: u32 = 3;
/// Messages of a run.
const MESSAGES: usize = 60;

// Words of a slot, and of a cell.
const MAIL: u32 = 0;
const TAIL: u32 = 1;
const HEAD: u32 = 2;
const GENERATION: u32 = 3;
const FRONT: u32 = 4;
const STATE: u32 = 5;
const SLOT: u32 = 6;
const NEXT: u32 = 0;
const CONTENT: u32 = 1;
const CHECK: u32 = 2;
const CELL: u32 = 3;
const FIRST_CELL: u32 = SLOTS * SLOT;
const FREE_SLOTS: u32 = FIRST_CELL + CELLS * CELL;
const FREE_CELLS: u32 = FREE_SLOTS + 1;
const WORDS: usize = FREE_CELLS as usize + 1;

// `mail`: the count, flags, two bits of the generation, the workgroup.
const COUNT: u32 = 0xff;
const BUSY: u32 = 1 << 8;
const LIVE: u32 = 1 << 9;
const ENDS: u32 = 1 << 10;
const GENERATION_SHIFT: u32 = 12;
const WORKGROUP_SHIFT: u32 = 14;
/// A link: the lower bits are the cell plus one, those above the dispatch, modulo 8.
const LINK_SHIFT: u32 = 16;
const SPENT: u32 = 1 << 31;

/// What an agent, a workgroup or one of its invocations, has stored, and how much it has seen.
struct View {
    stored: Vec<Option<u32>>,
    seen: Vec<usize>,
}

impl View {
    fn new() -> Self {
        Self {
            stored: vec![None; WORDS],
            seen: vec![0; WORDS],
        }
    }
}

struct Memory {
    /// The values that each word has had in this dispatch.
    words: Vec<Vec<u32>>,
    workgroups: Vec<View>,
    lanes: Vec<Vec<View>>,
}

impl Memory {
    fn new() -> Self {
        let mut words = vec![vec![0]; WORDS];
        words[FREE_SLOTS as usize] = vec![(1 << SLOTS) - 1];
        words[FREE_CELLS as usize] = vec![(1 << CELLS) - 1];
        Self {
            words,
            workgroups: (0..WORKGROUPS).map(|_| View::new()).collect(),
            lanes: (0..WORKGROUPS)
                .map(|_| (0..LANES).map(|_| View::new()).collect())
                .collect(),
        }
    }
    /// A store of the workgroup, then one of its invocation, reach all.
    fn arrive(&mut self, workgroup: usize, lane: Option<usize>, word: usize) {
        let whole = &mut self.workgroups[workgroup];
        if let Some(value) = whole.stored[word].take() {
            self.words[word].push(value);
            whole.seen[word] = self.words[word].len() - 1;
        }
        let Some(lane) = lane else { return };
        let own = &mut self.lanes[workgroup][lane];
        if let Some(value) = own.stored[word].take() {
            self.words[word].push(value);
            own.seen[word] = self.words[word].len() - 1;
        }
    }
    fn barrier(&mut self, workgroup: usize) {
        let whole = &mut self.workgroups[workgroup];
        for own in &mut self.lanes[workgroup] {
            for word in 0..WORDS {
                if let Some(value) = own.stored[word].take() {
                    whole.stored[word] = Some(value);
                }
                whole.seen[word] = whole.seen[word].max(own.seen[word]);
            }
        }
    }
    /// The end of a dispatch.
    fn settle(&mut self, random: &Random) {
        for workgroup in 0..WORKGROUPS {
            self.barrier(workgroup);
        }
        for word in 0..WORDS {
            let first = random.below(WORKGROUPS);
            for i in 0..WORKGROUPS {
                self.arrive((first + i) % WORKGROUPS, None, word);
            }
            let last = *self.words[word].last().expect("there is a value");
            self.words[word] = vec![last];
            let views = self.workgroups.iter_mut();
            for view in views.chain(self.lanes.iter_mut().flatten()) {
                view.seen[word] = 0;
            }
        }
    }
}

struct Random(Cell<u64>);

impl Random {
    fn next(&self) -> u64 {
        let z = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(z);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn one_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A turn, and when it was made: a dispatch, or `None` if it is near.
#[derive(Clone, Copy, Debug)]
struct Task {
    slot: u32,
    when: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Id {
    slot: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waits,
    Handled,
    Dead,
}

/// What is checked, which invocations do not read.
#[derive(Default)]
struct Record {
    /// Of each message: its receiver, its sender, and what became of it.
    messages: Vec<(Id, Option<Id>, Fate)>,
    /// The last message of each sender to each receiver that was handled.
    last: HashMap<(Option<Id>, Id), usize>,
    handled: HashMap<Id, u32>,
    /// All actors so far, and how many live.
    ids: Vec<Id>,
    near: usize,
    chained: usize,
}

struct World {
    mutant: Mutant,
    random: Random,
    memory: RefCell<Memory>,
    record: RefCell<Record>,
    dispatch: Cell<u32>,
    /// Tasks that wait in each workgroup, and those of the running step.
    tasks: RefCell<Vec<Vec<Task>>>,
    made: RefCell<Vec<Vec<Task>>>,
    /// The first rule that was seen to be broken.
    broken: RefCell<Option<String>>,
}

struct Step(bool);

impl Future for Step {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// An invocation.
struct Lane<'w> {
    world: &'w World,
    workgroup: usize,
    lane: usize,
    alone: bool,
    next: Cell<Option<Task>>,
}

impl World {
    fn breaks(&self, what: String) {
        self.broken.borrow_mut().get_or_insert(what);
    }
}

impl Lane<'_> {
    async fn load(&self, word: u32) -> u32 {
        Step(false).await;
        let word = word as usize;
        let memory = &mut *self.world.memory.borrow_mut();
        let whole = &memory.workgroups[self.workgroup];
        let own = &mut memory.lanes[self.workgroup][self.lane];
        if let Some(value) = own.stored[word].or(whole.stored[word]) {
            return value;
        }
        let first = own.seen[word].max(whole.seen[word]);
        let last = memory.words[word].len();
        own.seen[word] = first + self.world.random.below(last - first);
        memory.words[word][own.seen[word]]
    }
    async fn store(&self, word: u32, value: u32) {
        Step(false).await;
        let memory = &mut *self.world.memory.borrow_mut();
        memory.lanes[self.workgroup][self.lane].stored[word as usize] = Some(value);
    }
    async fn exchange(&self, word: u32, by: impl Fn(u32) -> u32) -> u32 {
        Step(false).await;
        let word = word as usize;
        let memory = &mut *self.world.memory.borrow_mut();
        memory.arrive(self.workgroup, Some(self.lane), word);
        let before = *memory.words[word].last().expect("there is a value");
        memory.words[word].push(by(before));
        memory.lanes[self.workgroup][self.lane].seen[word] = memory.words[word].len() - 1;
        before
    }
    /// Returns what was there.
    async fn compare(&self, word: u32, expected: u32, new: u32) -> u32 {
        let by = |now| if now == expected { new } else { now };
        self.exchange(word, by).await
    }

    fn mine(&self, mail: u32) -> u32 {
        if self.world.mutant == Mutant::NotMine {
            return mail;
        }
        mail & ((1 << WORKGROUP_SHIFT) - 1) | (self.workgroup as u32) << WORKGROUP_SHIFT
    }
    fn lives(mail: u32, generation: u32) -> bool {
        mail & LIVE != 0 && (mail >> GENERATION_SHIFT ^ generation) & 3 == 0
    }
    fn link_of(&self, cell: u32) -> u32 {
        (self.world.dispatch.get() & 7) << LINK_SHIFT | (cell + 1)
    }
    fn is_new(&self, link: u32) -> bool {
        self.world.mutant != Mutant::NewLinks && link >> LINK_SHIFT == self.world.dispatch.get() & 7
    }

    /// `act_take`.
    async fn take(&self, bits: u32) -> Option<u32> {
        let mut seen = self.load(bits).await;
        while seen != 0 {
            let place = seen.trailing_zeros();
            seen = self.exchange(bits, |now| now & !(1 << place)).await;
            if seen >> place & 1 != 0 {
                return Some(place);
            }
        }
        None
    }
    /// `act_give`.
    async fn give(&self, bits: u32, number: u32) {
        let before = self.exchange(bits, |now| now | 1 << number).await;
        if before >> number & 1 != 0 {
            self.world.breaks(format!("{number} is given back twice"));
        }
    }
    /// `act_arrived`.
    async fn arrived(&self, cell: u32) {
        if self.world.mutant == Mutant::NotArrived {
            return;
        }
        for word in 0..CELL {
            self.exchange(FIRST_CELL + cell * CELL + word, |now| now)
                .await;
        }
    }

    /// `act_accept` and `act_link`: a message with this number.
    async fn send(&self, to: Id, from: Option<Id>) {
        let slot = to.slot * SLOT;
        if self.load(slot + GENERATION).await != to.generation {
            return;
        }
        let mut seen = self.load(slot + MAIL).await;
        let near = loop {
            if !Self::lives(seen, to.generation) || seen & ENDS != 0 {
                return;
            }
            let now = self.compare(slot + MAIL, seen, (seen + 1) | BUSY).await;
            if now == seen {
                let mine = self.mine(seen) == seen || self.world.mutant == Mutant::AnyWorkgroup;
                break (seen & BUSY == 0).then_some(seen & COUNT == 0 && mine);
            }
            seen = now;
        };
        // There are more cells than messages that wait.
        let Some(cell) = self.take(FREE_CELLS).await else {
            self.world.breaks("there is no cell".into());
            return;
        };
        let number = {
            let record = &mut *self.world.record.borrow_mut();
            record.messages.push((to, from, Fate::Waits));
            record.messages.len() - 1
        };
        let at = FIRST_CELL + cell * CELL;
        self.store(at + CONTENT, number as u32).await;
        self.store(at + CHECK, !number as u32).await;
        let before = self.exchange(slot + TAIL, |_| cell + 1).await;
        let link = self.link_of(cell);
        match before {
            0 if self.world.mutant == Mutant::StoredHead => self.store(slot + HEAD, link).await,
            0 => drop(
                self.exchange(slot + HEAD, |now| now.wrapping_add(link))
                    .await,
            ),
            _ => {
                let next = FIRST_CELL + (before - 1) * CELL + NEXT;
                self.exchange(next, |now| now.wrapping_add(link)).await;
            }
        }
        if let Some(near) = near {
            let first = before == 0 || self.world.mutant == Mutant::NotFirst;
            self.turn_of(to.slot, near && first);
        }
    }
    /// `act_turn_of`.
    fn turn_of(&self, slot: u32, near: bool) {
        let when = (!near).then(|| self.world.dispatch.get());
        let task = Task { slot, when };
        let alone = self.alone || self.world.mutant == Mutant::NotAlone;
        if near && alone && self.next.get().is_none() {
            self.next.set(Some(task));
            return;
        }
        self.world.made.borrow_mut()[self.workgroup].push(task);
    }

    /// `act_launch`.
    async fn launch(&self) -> Option<Id> {
        let slot = self.take(FREE_SLOTS).await?;
        let at = slot * SLOT;
        let generation = self.load(at + GENERATION).await.max(1);
        self.store(at + STATE, 0).await;
        self.store(at + GENERATION, generation).await;
        self.store(at + FRONT, 0).await;
        let mail = self.mine(generation << GENERATION_SHIFT & 3 << GENERATION_SHIFT);
        self.store(at + MAIL, mail | LIVE).await;
        let id = Id { slot, generation };
        self.world.record.borrow_mut().ids.push(id);
        Some(id)
    }

    /// `act_take_message`: the message's number.
    async fn take_message(&self, slot: u32, front: &mut u32, near: &mut bool) -> Option<u32> {
        let mut written = false;
        if *front == 0 {
            let link = self.load(slot + HEAD).await;
            if link == 0 || (self.is_new(link) && !*near) {
                return None;
            }
            written = self.is_new(link);
            *front = link & ((1 << LINK_SHIFT) - 1);
            match self.world.mutant {
                Mutant::StoredHead => self.store(slot + HEAD, 0).await,
                _ => drop(
                    self.exchange(slot + HEAD, |now| now.wrapping_sub(link))
                        .await,
                ),
            }
        }
        *near = false;
        if *front & SPENT != 0 {
            let spent = (*front & !SPENT) - 1;
            let word = FIRST_CELL + spent * CELL + NEXT;
            let next = self.load(word).await;
            if next == 0 || self.is_new(next) {
                return None;
            }
            *front = next & ((1 << LINK_SHIFT) - 1);
            self.exchange(word, |now| now.wrapping_sub(next)).await;
            self.give(FREE_CELLS, spent).await;
        }
        let cell = match front.checked_sub(1) {
            Some(cell) if cell < CELLS => cell,
            _ => {
                self.world.breaks("a link to no cell".into());
                return None;
            }
        };
        let at = FIRST_CELL + cell * CELL;
        if written {
            self.arrived(cell).await;
        }
        let content = self.load(at + CONTENT).await;
        let check = self.load(at + CHECK).await;
        if check != !content {
            self.world.breaks("parts of two messages".into());
        }
        let link = self.load(at + NEXT).await;
        if link == 0 {
            if self.compare(slot + TAIL, cell + 1, 0).await == cell + 1 {
                *front = 0;
                self.give(FREE_CELLS, cell).await;
                return Some(content);
            }
        } else if !self.is_new(link) {
            *front = link & ((1 << LINK_SHIFT) - 1);
            self.exchange(at + NEXT, |now| now.wrapping_sub(link)).await;
            self.give(FREE_CELLS, cell).await;
            return Some(content);
        }
        *front |= SPENT;
        Some(content)
    }

    /// The handler: returns whether the actor ends.
    async fn handle(&self, id: Id, number: u32) -> bool {
        let world = self.world;
        let count = self.load(id.slot * SLOT + STATE).await;
        self.store(id.slot * SLOT + STATE, count + 1).await;
        {
            let record = &mut *world.record.borrow_mut();
            let Some(message) = record.messages.get_mut(number as usize) else {
                world.breaks(format!("message {number} was not sent"));
                return false;
            };
            let (to, from, fate) = *message;
            if to != id || fate != Fate::Waits {
                world.breaks(format!(
                    "{id:?} handles message {number} of {to:?}: {fate:?}"
                ));
            }
            message.2 = Fate::Handled;
            let last = record.last.entry((from, id)).or_default();
            if (number as usize) < *last {
                world.breaks(format!("message {number} comes after {last}"));
            }
            *last = number as usize;
            let handled = record.handled.entry(id).or_default();
            if count != *handled {
                world.breaks(format!(
                    "{id:?} has handled {handled} messages, not {count}"
                ));
            }
            *handled += 1;
        }
        let mut sends = world.random.below(3);
        if world.random.one_in(6)
            && let Some(child) = self.launch().await
        {
            self.send(child, Some(id)).await;
            sends = 1;
        }
        for _ in 0..sends {
            let to = {
                let record = world.record.borrow();
                if record.messages.len() > MESSAGES {
                    break;
                }
                // One of the youngest, which may have ended.
                let first = record.ids.len().saturating_sub(SLOTS as usize + 1);
                record.ids[first + world.random.below(record.ids.len() - first)]
            };
            self.send(to, Some(id)).await;
        }
        world.random.one_in(8)
    }

    /// `act_begin` to `act_end`.
    async fn turn(&self, task: Task) {
        let at = task.slot * SLOT;
        let generation = self.load(at + GENERATION).await;
        if self.load(at + MAIL).await & LIVE == 0 {
            return self.give(FREE_SLOTS, task.slot).await;
        }
        let id = Id {
            slot: task.slot,
            generation,
        };
        let mut front = self.load(at + FRONT).await;
        let mut near = task.when.is_none();
        let mut ends = self.load(at + MAIL).await & ENDS != 0;
        let mut handled = 0;
        while handled < 3 {
            let taken = self.take_message(at, &mut front, &mut near).await;
            let Some(number) = taken else { break };
            handled += 1;
            if !ends {
                ends = self.handle(id, number).await;
            } else if let Some(message) = self
                .world
                .record
                .borrow_mut()
                .messages
                .get_mut(number as usize)
            {
                if message.2 != Fate::Waits || message.0 != id {
                    self.world
                        .breaks(format!("message {number} is dead at {id:?}"));
                }
                message.2 = Fate::Dead;
            }
            if self.world.broken.borrow().is_some() {
                return;
            }
        }
        self.store(at + FRONT, front).await;
        if ends {
            self.exchange(at + MAIL, |now| now | ENDS).await;
        }
        let mut seen = self.load(at + MAIL).await;
        let (again, ended) = loop {
            let mut next = seen.wrapping_sub(handled);
            let again = next & COUNT != 0;
            let ended = !again && seen & ENDS != 0;
            if ended {
                next = self.mine((generation + 1) << GENERATION_SHIFT & 3 << GENERATION_SHIFT);
            } else if !again {
                next = self.mine(next & !BUSY);
            }
            let now = self.compare(at + MAIL, seen, next).await;
            if now == seen {
                break (again, ended);
            }
            seen = now;
        };
        if ended {
            self.store(at + GENERATION, generation + 1).await;
            if self.world.mutant == Mutant::EarlySlot {
                return self.give(FREE_SLOTS, task.slot).await;
            }
        }
        if again || ended {
            self.turn_of(task.slot, false);
        }
    }
    /// A task, and those that follow.
    async fn run(self, task: Task) {
        let mut task = task;
        for _ in 0..CHAIN {
            self.turn(task).await;
            match self.next.take() {
                Some(next) => task = next,
                None => return,
            }
            self.world.record.borrow_mut().chained += 1;
        }
        self.world.made.borrow_mut()[self.workgroup].push(task);
    }
}

type Running<'w> = Vec<(usize, Pin<Box<dyn Future<Output = ()> + 'w>>)>;

/// Starts the next step of a workgroup. Returns whether there is one.
fn step<'w>(world: &'w World, workgroup: usize, running: &mut Running<'w>) -> bool {
    world.memory.borrow_mut().barrier(workgroup);
    let tasks = &mut world.tasks.borrow_mut()[workgroup];
    tasks.append(&mut world.made.borrow_mut()[workgroup]);
    let early = |task: &Task| task.when == Some(world.dispatch.get());
    let most = 1 + world.random.below(LANES);
    let mut chosen = Vec::new();
    tasks.retain(|task| {
        let takes = chosen.len() < most && !early(task);
        if takes {
            chosen.push(*task);
        }
        !takes
    });
    for (lane, &task) in chosen.iter().enumerate() {
        if task.when.is_none() {
            world.record.borrow_mut().near += 1;
        }
        let lane = Lane {
            world,
            workgroup,
            lane,
            alone: chosen.len() == 1,
            next: Cell::new(None),
        };
        running.push((workgroup, Box::pin(lane.run(task))));
    }
    !chosen.is_empty()
}

/// One dispatch: steps of all workgroups, in random order.
fn dispatch(world: &World) {
    world.dispatch.set(world.dispatch.get() + 1);
    let mut running: Running<'_> = Vec::new();
    let mut leaves = [false; WORKGROUPS];
    let mut context = Context::from_waker(Waker::noop());
    loop {
        for (workgroup, left) in leaves.iter_mut().enumerate() {
            let idle = running.iter().all(|(of, _)| *of != workgroup);
            if idle && !*left {
                *left = world.random.one_in(8) || !step(world, workgroup, &mut running);
            }
        }
        if running.is_empty() || world.broken.borrow().is_some() {
            break;
        }
        let chosen = world.random.below(running.len());
        if running[chosen].1.as_mut().poll(&mut context).is_ready() {
            drop(running.remove(chosen));
        }
        // Some store arrives.
        if world.random.one_in(4) {
            let workgroup = world.random.below(WORKGROUPS);
            let lane = world.random.one_in(2).then(|| world.random.below(LANES));
            let word = world.random.below(WORDS);
            world.memory.borrow_mut().arrive(workgroup, lane, word);
        }
    }
    drop(running);
    world.memory.borrow_mut().settle(&world.random);
    // Work is shared.
    let (mut tasks, mut made) = (world.tasks.borrow_mut(), world.made.borrow_mut());
    for from in 0..WORKGROUPS {
        let mut new = std::mem::take(&mut made[from]);
        tasks[from].append(&mut new);
        if world.random.one_in(3) && !tasks[from].is_empty() {
            let task = tasks[from].remove(0);
            tasks[world.random.below(WORKGROUPS)].push(task);
        }
    }
}

/// A run from a seed: what was broken, and how many turns were near, and how many followed in an invocation.
fn run(mutant: Mutant, seed: u64) -> (Option<String>, usize, usize) {
    let world = World {
        mutant,
        random: Random(Cell::new(seed)),
        memory: RefCell::new(Memory::new()),
        record: RefCell::default(),
        dispatch: Cell::new(0),
        tasks: RefCell::new(vec![Vec::new(); WORKGROUPS]),
        made: RefCell::new(vec![Vec::new(); WORKGROUPS]),
        broken: RefCell::new(None),
    };
    let finish = |mut future: Pin<Box<dyn Future<Output = ()> + '_>>| {
        let mut context = Context::from_waker(Waker::noop());
        while future.as_mut().poll(&mut context).is_pending() {}
    };
    let host = |workgroup| Lane {
        world: &world,
        workgroup,
        lane: 0,
        alone: false,
        next: Cell::new(None),
    };
    // Two actors, and then messages of the host, between dispatches.
    for workgroup in [0, 1] {
        finish(Box::pin(async {
            host(workgroup).launch().await;
        }));
        world.memory.borrow_mut().settle(&world.random);
    }
    for round in 0..400 {
        if round % 4 == 0 && round < 80 {
            let ids = world.record.borrow().ids.clone();
            let to = ids[world.random.below(ids.len())];
            let workgroup = world.random.below(WORKGROUPS);
            finish(Box::pin(async { host(workgroup).send(to, None).await }));
            let mut made = std::mem::take(&mut world.made.borrow_mut()[workgroup]);
            world.tasks.borrow_mut()[workgroup].append(&mut made);
            world.memory.borrow_mut().settle(&world.random);
        }
        dispatch(&world);
        if world.broken.borrow().is_some() {
            break;
        }
        if round >= 80 && world.tasks.borrow().iter().all(Vec::is_empty) {
            break;
        }
    }
    let record = world.record.borrow();
    if world.broken.borrow().is_none() {
        let waits = record.messages.iter().filter(|m| m.2 == Fate::Waits);
        let lost = waits.count();
        if lost != 0 {
            world.breaks(format!("{lost} messages wait for ever"));
        }
        let free = |bits: u32| world.memory.borrow().words[bits as usize][0].count_ones();
        if free(FREE_CELLS) != CELLS {
            world.breaks(format!("{} cells are free", free(FREE_CELLS)));
        }
    }
    let broken = world.broken.borrow().clone();
    (broken, record.near, record.chained)
}

#[test]
fn no_message_is_lost_or_torn() {
    let (mut near, mut chained) = (0, 0);
    for seed in 0..3000 {
        let (broken, n, c) = run(Mutant::None, seed);
        assert_eq!(broken, None, "seed {seed}");
        near += n;
        chained += c;
    }
    assert!(near > 3000 && chained > 1000, "{near} {chained}");
}

#[test]
fn each_rule_is_needed() {
    for mutant in [
        Mutant::AnyWorkgroup,
        Mutant::NotFirst,
        Mutant::NewLinks,
        Mutant::StoredHead,
        Mutant::NotArrived,
        Mutant::NotAlone,
        Mutant::NotMine,
        Mutant::EarlySlot,
    ] {
        let found = (0..20_000).find_map(|seed| run(mutant, seed).0);
        assert!(found.is_some(), "{mutant:?}");
    }
}
