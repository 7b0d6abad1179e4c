//! The thread that keeps pages: it carries orders out where only tasks of the door reach the words of pages, takes events to the pager
//! that others have passed on, and looks whether tasks wait for frames in vain.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use everwarp_contract::files::FILE_DOOR_ORDERS;
use everwarp_contract::pages::{
    PAGE_ORDER_DROP, PAGE_ORDER_EVICT, PAGE_ORDER_FILL, PAGE_ORDER_TAKE, PAGE_ORDER_WRITTEN,
};
use everwarp_contract::{DevPageOrder, Layout};
use everwarp_pages::{CachedFile, Eviction, Order, OrderKind};
use everwarp_runtime::{DevTask, Error, Pending};

use crate::cache::{Brain, Cache, ORDER, Ticket};
use crate::desk::PageEvents;
use crate::errno::FileErrno;
use crate::port::Port;
use crate::server::Server;
use crate::table_words::words_of;

/// Orders that one task of the door carries out: one for each lane of its warp.
const ORDERS_EACH: usize = 32;
/// After how many turns in a row this thread hands completions over, too.
const TURNS: usize = 8;
/// The first and the longest pause before the clock's hand goes round again for tasks that wait for frames.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// Orders that are on their way to tasks of the door and back.
#[derive(Debug)]
struct Carried {
    pending: Pending,
    count: usize,
    begin: Instant,
}

/// What the thread remembers between two looks.
#[derive(Debug)]
struct Keeping {
    /// Has no sender any more when what tasks have written is in the files, once all else is over.
    last: Option<Receiver<Result<(), FileErrno>>>,
    /// How long tasks that wait for frames in vain wait for the next round of the clock's hand, if there are such tasks.
    pause: Option<Duration>,
}

impl Server {
    /// Keeps pages until all is over. If the engine ends, so does everything.
    pub(crate) fn keep_pages(&self, port: &Port) {
        let Some(cache) = &self.cache else { return };
        if self.keep(cache, port).is_err() {
            self.abandon();
        }
    }
    fn keep(&self, cache: &Cache, port: &Port) -> Result<(), Error> {
        let mut keeping = Keeping {
            last: None,
            pause: None,
        };
        let mut carried: Option<Carried> = None;
        // Whether this thread is the one that takes events to the pager, and whether it has found nothing to do.
        let (mut gives, mut idle) = (false, false);
        let mut turns = 0_usize;
        loop {
            if self.is_lost() {
                return Err(Error::Stopped);
            }
            // While it waits for answers, others may pass events on.
            let stays = || !self.is_lost() && !cache.is_passed();
            let (back, rested) = match &mut carried {
                Some(sent) if idle || sent.pending.is_done() => {
                    (sent.pending.wait_lasting(stays)?.is_some(), false)
                }
                None if idle => (false, !cache.sleep(keeping.pause)),
                _ => (false, false),
            };
            let answers = match carried.take_if(|_| back) {
                Some(sent) => Some(self.answers(cache, &sent)?),
                None => None,
            };
            let (orders, events, looks) = {
                let mut desk = cache.desk();
                desk.events.add(answers.map(PageEvents::Answered));
                let events = match gives {
                    true => desk.events.next(),
                    false => cache.take_over(&mut desk).or_else(|| desk.events.begin()),
                };
                let looks = std::mem::take(&mut desk.look) || rested;
                (desk.orders.take(), events, looks)
            };
            gives = events.is_some();
            turns = if gives { turns + 1 } else { 0 };
            idle = orders.is_none() && events.is_none() && !looks;
            if let Some(orders) = orders {
                carried = Some(self.carry(cache, port, &orders)?);
            }
            if let Some(events) = events {
                self.turn(cache, events);
            }
            if looks && self.look(cache, &mut keeping) {
                return Ok(());
            }
            // Between two turns, threads that read hand over what has ended; it would keep this one from the pager.
            if turns.is_multiple_of(TURNS) {
                self.deliver();
            }
        }
    }
    /// Looks whether all is over, and then has everything written back; and whether tasks wait for frames in vain. Returns whether all
    /// is written back.
    fn look(&self, cache: &Cache, keeping: &mut Keeping) -> bool {
        let over = {
            let work = self.work();
            work.closing && work.in_flight == 0
        };
        if over && keeping.last.is_none() {
            let (sender, receiver) = channel();
            self.change(cache, |brain| {
                let files: Vec<CachedFile> = brain.files.keys().copied().collect();
                for file in files {
                    brain.pager.flush(file, Ticket::Host(sender.clone()));
                }
            });
            keeping.last = Some(receiver);
        }
        if let Some(ends) = &keeping.last {
            // Every flush has a sender until it has ended.
            ends.try_iter().for_each(drop);
            if ends.try_recv() == Err(TryRecvError::Disconnected) {
                self.work().written_back = true;
                self.ring_all();
                return true;
            }
        }
        let before = keeping.pause.take();
        if before.is_some() {
            // Tasks may have released pages meanwhile.
            self.change(cache, |brain| brain.pager.retry());
        }
        keeping.pause = self.change(cache, |brain| {
            let pause = pause_of(cache, brain, before);
            brain.pausing = pause.is_some();
            pause
        });
        false
    }
    /// Lets tasks of the door carry out orders.
    fn carry(&self, cache: &Cache, port: &Port, orders: &[Order]) -> Result<Carried, Error> {
        let mut words = Vec::with_capacity(orders.len() * ORDER);
        for order in orders {
            words.extend_from_slice(&words_of::<ORDER>(record(order).bytes()));
        }
        cache.orders.write_at(0, &words)?;
        let task = |at: usize| {
            let count = ORDERS_EACH.min(orders.len() - at);
            let task = port.task(FILE_DOOR_ORDERS);
            task.args(at as u32, count as u32).build()
        };
        let tasks: Vec<DevTask> = (0..orders.len()).step_by(ORDERS_EACH).map(task).collect();
        Ok(Carried {
            begin: Instant::now(),
            pending: self.engine.submit_batch(&tasks)?,
            count: orders.len(),
        })
    }
    /// The answers to orders that were carried out.
    fn answers(&self, cache: &Cache, carried: &Carried) -> Result<Vec<u64>, Error> {
        self.counters.order_wait.add_since(carried.begin);
        let mut words = vec![0; carried.count * ORDER];
        cache.orders.read_at(0, &mut words)?;
        let answer = |words: &[u64]| words[ORDER - 1];
        Ok(words.chunks_exact(ORDER).map(answer).collect())
    }
}

/// How long tasks wait that wait for frames in vain, if there are such tasks; `before` is their last pause. After the cache's patience they
/// fail.
fn pause_of(cache: &Cache, brain: &mut Brain, before: Option<Duration>) -> Option<Duration> {
    if !brain.pager.starves() {
        return None;
    }
    let evicted = brain.pager.stats().evicted;
    match brain.starving {
        Some((since, then)) if then == evicted => {
            if since.elapsed() >= cache.patience {
                brain.pager.give_up();
                return None;
            }
            let next = before.map_or(PAUSES.0, |pause| 2 * pause);
            Some(next.min(PAUSES.1))
        }
        _ => {
            brain.starving = Some((Instant::now(), evicted));
            Some(PAUSES.0)
        }
    }
}

/// An order as the door reads it.
pub(crate) fn record(order: &Order) -> DevPageOrder {
    let (op, value) = match order.kind {
        OrderKind::Fill(bits) => (PAGE_ORDER_FILL, bits),
        OrderKind::Evict(Eviction::Clock) => (PAGE_ORDER_EVICT, 0),
        OrderKind::Evict(Eviction::Drop) => (PAGE_ORDER_DROP, 0),
        OrderKind::Evict(Eviction::Discard) => (PAGE_ORDER_DROP, 1),
        OrderKind::Take => (PAGE_ORDER_TAKE, 0),
        OrderKind::Written(failed) => (PAGE_ORDER_WRITTEN, failed),
    };
    DevPageOrder {
        op,
        frame: order.frame,
        page: order.word,
        value,
    }
}

// The answer is the last word.
const _: () = assert!(std::mem::offset_of!(DevPageOrder, value) == 8 * (ORDER - 1));
