//! Files of native tasks: reads of pages, with and without the page cache, next to threads of the host alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everwarp::Engine;
use everwarp::files::FilesError;
use everwarp_programs::RunError;
use everwarp_programs::reads::{self, PAGE, Reads, Sizes, Way, choice, word};

use super::failed;
use crate::bench::experiment::Context;
use crate::bench::stats::{Role, Row};
use crate::error::CliError;

/// Rounds of each way after one that warms up, and how long all of them may take together.
const ROUNDS: usize = 15;
const BUDGET: Duration = Duration::from_secs(20);
/// Bytes of a read in order by threads of the host.
const PIECE: u64 = 256 << 10;
/// Reads whose time is measured one by one.
const SINGLE: u32 = 5000;
/// Tasks that read in the background.
const BACKGROUND: u32 = 64;
const SEED: u32 = 7;

/// The sizes that fit an engine.
struct Fit {
    /// Bytes of a file that does not fit into the cache, and of one that does.
    large: u64,
    small: u64,
    /// Slots with a page each in flight, and their steps.
    slots: u32,
    steps: u32,
    /// Tasks that read words, and the words of each.
    words: (u32, u32),
    /// Tasks that read pages that are there, and the pages of each.
    pages: (u32, u32),
}

impl Fit {
    fn of(cx: &Context<'_>) -> Self {
        match cx.is_cuda() {
            true => Self {
                large: 2 << 30,
                small: 256 << 20,
                slots: 4096,
                steps: 32,
                words: (1 << 18, 512),
                pages: (1 << 14, 64),
            },
            false => Self {
                large: 256 << 20,
                small: 32 << 20,
                slots: 256,
                steps: 128,
                words: (256, 4096),
                pages: (256, 128),
            },
        }
    }
}

fn files(error: FilesError) -> CliError {
    RunError::from(error).into()
}

fn generate(bytes: u64) -> Result<File, CliError> {
    reads::generate(bytes).map_err(failed("the file"))
}

/// Threads of the host: as many as serve files.
pub(super) fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.clamp(2, 8)
}

/// Runs ways in turns, each for a time in seconds and whether it was right, which `right` collects.
pub(super) fn in_turns<const N: usize>(
    mut ways: [&mut dyn FnMut() -> Result<(f64, bool), CliError>; N],
) -> Result<[(Vec<f64>, bool); N], CliError> {
    let begin = Instant::now();
    let mut all = std::array::from_fn(|_| (Vec::new(), true));
    for round in 0..=ROUNDS {
        for (way, (times, right)) in ways.iter_mut().zip(&mut all) {
            let (seconds, is_right) = way()?;
            *right &= is_right;
            // The first round warms up.
            if round > 0 {
                times.push(seconds);
            }
        }
        if round >= 3 && begin.elapsed() > BUDGET {
            break;
        }
    }
    Ok(all)
}

fn round(reads: &Reads, engine: &Engine, way: Way) -> Result<(f64, bool), CliError> {
    let round = reads.round(engine, way).map_err(files)?;
    Ok((round.seconds, round.right))
}

/// Reads by threads of the host alone. `piece` is the size of a read, at random or in order.
fn looped(file: &File, sizes: &Sizes, piece: u64, in_order: bool) -> Result<(f64, bool), CliError> {
    let threads = threads();
    let all = u64::from(sizes.slots) * u64::from(sizes.steps) * PAGE / piece;
    let (next, right) = (AtomicU64::new(0), AtomicBool::new(true));
    let pieces = sizes.bytes / piece;
    let begin = Instant::now();
    let work = || -> std::io::Result<()> {
        let mut buffer = vec![0; piece as usize];
        let is_word = |bytes: &[u8], number| bytes == word(number).to_le_bytes();
        loop {
            // A thread takes some at a time, so that they do not compete for the number.
            let first = next.fetch_add(16, Ordering::Relaxed);
            if first >= all {
                return Ok(());
            }
            for at in first..all.min(first + 16) {
                let number = match in_order {
                    true => at % pieces,
                    false => choice(SEED, at as u32, 1, pieces),
                };
                file.read_exact_at(&mut buffer, number * piece)?;
                for page in (0..piece).step_by(PAGE as usize) {
                    let bytes = &buffer[page as usize..][..PAGE as usize];
                    let first = (number * piece + page) / 8;
                    let last = first + PAGE / 8 - 1;
                    if !is_word(&bytes[..8], first) || !is_word(&bytes[PAGE as usize - 8..], last) {
                        right.store(false, Ordering::Relaxed);
                    }
                }
            }
        }
    };
    let ended: std::io::Result<()> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|t| t.join().expect("no thread panics"))
    });
    ended.map_err(failed("loop"))?;
    Ok((begin.elapsed().as_secs_f64(), right.into_inner()))
}

fn start(cx: &Context<'_>) -> Result<Engine, CliError> {
    Ok(cx.device.engine().program(&reads::PROGRAM).start()?)
}

fn row(
    cx: &Context<'_>,
    (role, what): (Role, String),
    (unit, units): (&str, f64),
    (times, right): (Vec<f64>, bool),
) -> Row {
    Row::new(&what, unit, units, times)
        .case(cx.part)
        .role(role)
        .verified(right)
}
fn emit(
    cx: &Context<'_>,
    (name, role, what): (&str, Role, String),
    units: (&str, f64),
    measured: (Vec<f64>, bool),
) -> Result<(), CliError> {
    cx.emit_as(name, row(cx, (role, what), units, measured))
}
/// The row of what tasks read, with the counters of all rounds.
fn emit_counted(
    cx: &Context<'_>,
    (name, reads, what): (&str, &Reads, String),
    units: (&str, f64),
    measured: (Vec<f64>, bool),
) -> Result<(), CliError> {
    let (own, pages) = (reads.stats().map_err(files)?, reads.page_stats());
    let each = |all: u64, parts: u64| all as f64 / parts.max(1) as f64;
    let row = row(cx, (Role::Ours, what), units, measured)
        .raw("requests", own.served as f64)
        .raw("requests_each_take", each(own.served, own.takes))
        .raw("lone_reads", own.lone_reads as f64)
        .raw("refused", own.refused as f64)
        .raw("queued_most", own.queued_most as f64)
        .raw("copies", own.copies as f64)
        .raw("copies_each_batch", each(own.copies, own.copy_batches))
        .raw("copy_wait_s", own.copy_wait.as_secs_f64())
        .raw("missed", pages.missed as f64)
        .raw("pages_each_read", each(pages.read, pages.runs))
        .raw("evicted", pages.evicted as f64)
        .raw("orders", pages.orders as f64)
        .raw("orders_each_batch", each(pages.orders, pages.order_batches))
        .raw("misses_each_turn", each(pages.missed, own.page_turns))
        .raw("order_wait_s", own.order_wait.as_secs_f64())
        .raw("lock_wait_s", own.lock_wait.as_secs_f64());
    cx.emit_as(name, row)
}

fn rival(cx: &Context<'_>, name: &str) -> String {
    format!("{name} ({})", cx.part)
}

/// One read at a time, from the request to the task that goes on.
pub(super) fn one(cx: &Context<'_>) -> Result<(), CliError> {
    let fit = Fit::of(cx);
    let file = generate(fit.small)?;
    let engine = start(cx)?;
    let sizes = Sizes {
        bytes: fit.small,
        cache: 0,
        ahead: 0,
        slots: 1,
        steps: SINGLE,
        copy: false,
    };
    let reads = Reads::new(&engine, &file, sizes, SEED).map_err(files)?;
    let mut right = true;
    for _ in 0..2 {
        right &= round(&reads, &engine, Way::Direct)?.1;
    }
    let took = reads.took_s().map_err(files)?;
    let what = format!(
        "a read of 4 KiB from the host's cache, from the request to the task that goes on; {}",
        reads.backend()
    );
    let ours = (cx.part, &reads, what);
    emit_counted(cx, ours, ("read", 1.0), (took, right))?;
    let mut buffer = vec![0; PAGE as usize];
    let mut took = Vec::new();
    let mut right = true;
    for step in 0..2 * SINGLE {
        let page = choice(SEED, 0, step, fit.small / PAGE);
        let begin = Instant::now();
        file.read_exact_at(&mut buffer, page * PAGE)
            .map_err(failed("loop"))?;
        took.push(begin.elapsed().as_secs_f64());
        right &= buffer[..8] == word(page * PAGE / 8).to_le_bytes();
    }
    let took = took.split_off(SINGLE as usize);
    let what = "the same read by a thread of the host, with a plain call".to_owned();
    let name = rival(cx, "loop");
    emit(cx, (&name, Role::Rival, what), ("read", 1.0), (took, right))
}

/// Reads that someone waits for, without and with reads in the background.
pub(super) fn background(cx: &Context<'_>) -> Result<(), CliError> {
    let fit = Fit::of(cx);
    let file = generate(fit.large)?;
    let engine = start(cx)?;
    let sizes = Sizes {
        bytes: fit.large,
        cache: 0,
        ahead: 0,
        slots: BACKGROUND + 1,
        steps: SINGLE,
        copy: false,
    };
    let reads = Reads::new(&engine, &file, sizes, SEED).map_err(files)?;
    let mut rows = Vec::new();
    for others in [0, BACKGROUND] {
        // The first one warms up.
        let mut measured = (Vec::new(), true, true);
        for _ in 0..2 {
            measured = reads.with_load(&engine, others).map_err(files)?;
        }
        rows.push((others, measured));
    }
    for (others, (took, right, lasted)) in rows {
        let next_to = match others {
            0 => "nothing else is read".to_owned(),
            others => format!("{others} tasks read random pages in the background"),
        };
        let what = format!(
            "a read of 4 KiB that someone waits for, to the task that goes on, while {next_to}; {}",
            reads.backend()
        );
        let name = match others {
            0 => format!("{} (alone)", cx.part),
            _ => cx.part.to_owned(),
        };
        let role = if others == 0 { Role::Rival } else { Role::Ours };
        emit(
            cx,
            (&name, role, what),
            ("read", 1.0),
            (took, right && lasted),
        )?;
    }
    Ok(())
}

/// Random pages of a file of eight times the cache.
pub(super) fn random(cx: &Context<'_>) -> Result<(), CliError> {
    let fit = Fit::of(cx);
    let file = generate(fit.large)?;
    let engine = start(cx)?;
    let sizes = Sizes {
        bytes: fit.large,
        cache: fit.large / 8,
        ahead: 0,
        slots: fit.slots,
        steps: fit.steps,
        copy: false,
    };
    let cached = Reads::new(&engine, &file, sizes, SEED).map_err(files)?;
    let without = Sizes { cache: 0, ..sizes };
    let direct = Reads::new(&engine, &file, without, SEED).map_err(files)?;
    let mut read = Vec::new();
    let mut through = || {
        let before = cached.page_stats().read;
        let round = round(&cached, &engine, Way::Cached)?;
        read.push(cached.page_stats().read - before);
        Ok(round)
    };
    let [ours, directly, plainly] = in_turns([
        &mut through,
        &mut || round(&direct, &engine, Way::Direct),
        &mut || looped(&file, &sizes, PAGE, false),
    ])?;
    // The pages that were there already are not counted.
    let misses = read[1..].iter().sum::<u64>() as f64 / (read.len() - 1) as f64;
    let all = f64::from(fit.slots) * f64::from(fit.steps);
    let (mib, cache) = (fit.large >> 20, fit.large >> 23);
    let what = format!(
        "random pages of a file of {mib} MiB through a page cache of {cache} MiB, {} tasks; {}",
        fit.slots,
        cached.backend()
    );
    emit_counted(cx, (cx.part, &cached, what), ("page", misses), ours)?;
    let what = format!(
        "random reads of 4 KiB of a file of {mib} MiB into buffers, {} tasks; {}",
        fit.slots,
        direct.backend()
    );
    let name = format!("{} (buffers)", cx.part);
    emit_counted(cx, (&name, &direct, what), ("page", all), directly)?;
    let what = format!("the same reads by {} threads of the host", threads());
    let name = rival(cx, "loop");
    emit(cx, (&name, Role::Rival, what), ("page", all), plainly)
}

/// Pages in order.
pub(super) fn in_order(cx: &Context<'_>) -> Result<(), CliError> {
    let fit = Fit::of(cx);
    let file = generate(fit.large)?;
    let engine = start(cx)?;
    // A file has 32 streams at a time that are read ahead.
    let slots = 16;
    let sizes = Sizes {
        bytes: fit.large,
        cache: fit.large / 8,
        ahead: PIECE as u32,
        slots,
        steps: (fit.large / PAGE) as u32 / slots,
        copy: false,
    };
    let cached = Reads::new(&engine, &file, sizes, SEED).map_err(files)?;
    let [ours, plainly] = in_turns([
        &mut || round(&cached, &engine, Way::CachedInOrder),
        &mut || looped(&file, &sizes, PIECE, true),
    ])?;
    let bytes = fit.large as f64;
    let (mib, cache) = (fit.large >> 20, fit.large >> 23);
    let what = format!(
        "a file of {mib} MiB in order through a page cache of {cache} MiB, {slots} parts at a time; {}",
        cached.backend()
    );
    emit_counted(cx, (cx.part, &cached, what), ("byte", bytes), ours)?;
    let what = format!(
        "the same by {} threads of the host, {} KiB at a time",
        threads(),
        PIECE >> 10
    );
    let name = rival(cx, "loop");
    emit(cx, (&name, Role::Rival, what), ("byte", bytes), plainly)
}

/// Pages that are in the cache, next to the same reads of a buffer.
pub(super) fn hits(cx: &Context<'_>) -> Result<(), CliError> {
    let fit = Fit::of(cx);
    let file = generate(fit.small)?;
    let engine = start(cx)?;
    let mib = fit.small >> 20;
    for (name, (slots, steps), ways, unit, what) in [
        (
            cx.part.to_owned(),
            fit.pages,
            [Way::Pages, Way::PlainPages],
            "page",
            "random pages, every word of each",
        ),
        (
            format!("{} (words)", cx.part),
            fit.words,
            [Way::Words, Way::PlainWords],
            "read",
            "random words of 8 bytes",
        ),
    ] {
        let sizes = Sizes {
            bytes: fit.small,
            cache: fit.small,
            ahead: 0,
            slots,
            steps,
            copy: true,
        };
        let reads = Reads::new(&engine, &file, sizes, SEED).map_err(files)?;
        let [ours, plainly] = in_turns([&mut || round(&reads, &engine, ways[0]), &mut || {
            round(&reads, &engine, ways[1])
        }])?;
        let units = f64::from(slots) * f64::from(steps);
        let each = format!("{slots} tasks with {steps} each");
        let text = format!("{what} of {mib} MiB that are all in the page cache, {each}");
        let row = Row::new(&text, unit, units, ours.0)
            .case(&name)
            .verified(ours.1);
        cx.emit_as(&name, row)?;
        let text = format!("{what} of a plain buffer of {mib} MiB, {each}");
        let row = Row::new(&text, unit, units, plainly.0)
            .case(&name)
            .role(Role::Rival)
            .verified(plainly.1);
        cx.emit_as(&format!("buffer ({name})"), row)?;
    }
    Ok(())
}
