use everwarp_pages::{OrderKind, Pager, Shape};
use std::time::Instant;
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
struct W([u64; 8]);
fn main() {
    let shape = Shape {
        frames: 65536,
        page_bits: 12,
        words: 524_288 + 64,
        ahead: 0,
        shorter: 1,
    };
    let mut pager: Pager<W, u32> = Pager::new(shape);
    let (file, first) = pager.add(524_288 << 12, 0, false).unwrap();
    let mut seed = 1u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) % 524_288
    };
    for round in 0..3 {
        let begin = Instant::now();
        let (mut asked, mut done, mut reads) = (0u64, 0u64, std::collections::VecDeque::new());
        let (mut tm, mut tr, mut to, mut ts) = (0u128, 0, 0, 0);
        let all = 2_000_000;
        while done < all {
            let t = Instant::now();
            let mut n = 0;
            while asked < all && asked - done < 4096 && n < 181 {
                let page = random();
                pager.miss(file, page, W([first + page; 8]));
                asked += 1;
                n += 1;
            }
            tm += t.elapsed().as_nanos();
            let t = Instant::now();
            let step = pager.step();
            done += step.done.len() as u64;
            reads.extend(step.reads);
            ts += t.elapsed().as_nanos();
            let t = Instant::now();
            for _ in 0..181 {
                if let Some(run) = reads.pop_front() {
                    let b = run.bytes;
                    pager.read_done(run, b, None, 1);
                }
            }
            tr += t.elapsed().as_nanos();
            let t = Instant::now();
            if pager.has_orders() && (reads.is_empty() || n == 0 || asked % 5 == 0) {
                let answers: Vec<u64> = pager
                    .orders(1024)
                    .iter()
                    .map(|o| match o.kind {
                        OrderKind::Evict(_) => 0,
                        _ => 0,
                    })
                    .collect();
                pager.answered(&answers);
            }
            to += t.elapsed().as_nanos();
        }
        let s = pager.stats();
        println!(
            "{round}: {:.0} ns a page; miss {} step {} read {} orders {}; {s:?}",
            begin.elapsed().as_nanos() as f64 / all as f64,
            tm / all as u128,
            ts / all as u128,
            tr / all as u128,
            to / all as u128
        );
    }
}
