//! What a missing page costs the pager alone, with one thread: tasks miss random pages of a file of eight times the cache, and reads and
//! orders are answered at once.
//!
//! ```sh
//! cargo run --release -p everwarp-pages --example pager_cost
//! ```

use std::collections::VecDeque;
use std::time::Instant;

use everwarp_contract::pages::PAGE_GONE;
use everwarp_pages::{Pager, Run, Shape};

const FRAMES: u32 = 1 << 16;
const PAGES: u64 = 8 * FRAMES as u64;
/// Tasks that miss a page at a time, and how many of them come together.
const TASKS: u64 = 4096;
const TOGETHER: u64 = 181;
const MISSES: u64 = 2_000_000;
/// The most orders that are on their way at a time.
const ORDERS: usize = 1024;

/// As much as the host knows of a task that waits.
type Waiter = [u32; 6];

/// Marsaglia's xorshift.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 20
}

fn main() {
    let mut pager: Pager<Waiter, ()> = Pager::new(Shape {
        frames: FRAMES,
        page_bits: 12,
        words: PAGES,
        ahead: 0,
        shorter: 1,
    });
    let (file, _) = pager.add(PAGES << 12, 0, false).expect("there are words");
    let mut seed = 1;
    for round in 0..4 {
        let (mut missed, mut done) = (0, 0);
        let mut reads: VecDeque<Run> = VecDeque::new();
        let begin = Instant::now();
        while done < MISSES {
            let room = (TASKS - (missed - done)).min(MISSES - missed);
            let count = room.min(TOGETHER);
            for _ in 0..count {
                let page = random(&mut seed) % PAGES;
                pager.miss(file, page, [page as u32; 6]);
            }
            missed += count;
            let step = pager.step();
            done += step.done.len() as u64;
            reads.extend(step.reads);
            for _ in 0..TOGETHER {
                if let Some(run) = reads.pop_front() {
                    let bytes = run.bytes;
                    pager.read_done(run, bytes, None, 1);
                }
            }
            if pager.has_orders() {
                let answers = vec![u64::from(PAGE_GONE); pager.orders(ORDERS).len()];
                pager.answered(&answers);
            }
        }
        let each = begin.elapsed().as_nanos() as f64 / MISSES as f64;
        println!("round {round}: {each:.0} ns for each miss");
    }
}
