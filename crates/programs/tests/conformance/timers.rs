//! Timers of native tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp::files::{FileErrno, Files, FilesConfig, FilesError};
use everwarp::{Device, Engine, EngineKind, Error, Select};
use everwarp_programs::file_probe::{self, DevFileStep, MANY, Op, Script};
use everwarp_programs::naps::{self, Sleepers};
use everwarp_testkit::cases;

use crate::files::{Results, chain, files, run, script, start};
use crate::support::{Case, least_size, random, wait_until};

pub(crate) const ALL: &[Case] = cases![
    timers_end_sleeps_no_sooner_than_asked,
    timers_with_a_period_lose_no_tick,
    timers_are_cancelled,
    timers_have_one_waiter_at_a_time,
    timers_leave_an_idle_engine_alone,
    timers_outlast_a_park,
    timers_that_find_no_room_are_refused,
    timers_of_dropped_files_are_cancelled,
    timers_in_great_numbers_end_once_each,
    timers_end_late_and_never_early,
    requests_that_end_before_their_task_count,
];

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;

fn config(timers: u32) -> FilesConfig {
    FilesConfig {
        timers,
        ..FilesConfig::default()
    }
}

fn sleep(nanos: u64) -> DevFileStep {
    DevFileStep::new(Op::Sleep, 0, nanos, 0, 0)
}

fn timer(after: u64, period: u64) -> DevFileStep {
    DevFileStep::new(Op::Timer, 0, after, period, 0)
}

fn tick() -> DevFileStep {
    DevFileStep::new(Op::Tick, 0, 0, 0, 0)
}

fn close() -> DevFileStep {
    DevFileStep::new(Op::Close, 0, 0, 0, 0)
}

/// A script that is ready to run on files with timers.
fn timed(engine: &Engine, steps: &[DevFileStep]) -> (Arc<Files>, Script) {
    let files = files(engine, config(100_000));
    let script = script(engine, &files, steps);
    (files, script)
}

/// Waits until `count` requests are on their way.
fn in_flight(files: &Files, count: u64) {
    wait_until("the requests are on their way", || {
        files.stats().expect("there are counters").in_flight == count
    });
}

fn open(files: &Files) -> usize {
    files.stats().expect("there are counters").open
}

fn results(script: &Script) -> Results {
    script.results().expect("they can be read")
}

fn timers_end_sleeps_no_sooner_than_asked(select: Select) {
    let engine = start(select);
    let (_files, script) = timed(&engine, &chain(&[sleep(3 * MS), sleep(0), sleep(5 * MS)]));
    let begin = Instant::now();
    assert_eq!(run(&engine, &script, 1), vec![Some(Ok(0)); 3]);
    assert!(begin.elapsed() >= Duration::from_millis(8));
}

fn timers_with_a_period_lose_no_tick(select: Select) {
    let engine = start(select);
    let mut steps = vec![timer(2 * MS, MS)];
    // While it sleeps, ten periods and more go by.
    steps.extend([tick().of(0), tick().of(0), sleep(12 * MS), tick().of(0)]);
    steps.extend([tick().of(0), close().of(0), tick().of(0)]);
    let (files, script) = timed(&engine, &chain(&steps));
    let begin = Instant::now();
    let results = run(&engine, &script, 1);
    let elapsed = begin.elapsed().as_millis() as u64;
    let count = |step: usize| match results[step] {
        Some(Ok(count)) => u64::from(count),
        other => panic!("step {step}: {other:?}"),
    };
    let ticks = [1, 2, 4, 5].map(count);
    assert!(ticks.iter().all(|&ticks| ticks >= 1), "{ticks:?}");
    assert!(ticks[2] >= 11, "{ticks:?}");
    // The first comes after 2 ms, the others after 1 ms each.
    assert!(
        ticks.iter().sum::<u64>() < elapsed,
        "{ticks:?}, {elapsed} ms"
    );
    assert_eq!(results[6..], [Some(Ok(0)), Some(Err(FileErrno::BADF))]);
    assert_eq!(open(&files), 0);
}

/// A task goes on to make requests when those before have ended, and the tasks that follow them. All of them belong to its
/// submission, which ends when the last has ended.
fn requests_that_end_before_their_task_count(select: Select) {
    let engine = start(select);
    let steps: Vec<_> = (0..u64::from(MANY))
        .map(|at| match at % 2 {
            0 => sleep(0),
            _ => DevFileStep::new(Op::Linger, 0, at - 1, 0, 0),
        })
        .collect();
    let (files, script) = timed(&engine, &steps);
    assert_eq!(
        run(&engine, &script, MANY),
        vec![Some(Ok(0)); MANY as usize]
    );
    for _ in 0..3 {
        let mut pending = script.submit(&engine, 0, MANY).expect("there is room");
        assert_eq!(pending.wait().expect("it runs").value, u64::from(MANY));
        assert_eq!(files.stats().expect("there are counters").in_flight, 0);
    }
}

fn timers_are_cancelled(select: Select) {
    let engine = start(select);
    let steps = [timer(HOUR, HOUR), tick().of(0), close().of(0)];
    let (files, script) = timed(&engine, &steps);
    run(&engine, &script, 1);
    assert_eq!(open(&files), 1);
    let mut waiter = script.submit(&engine, 1, 1).expect("there is room");
    in_flight(&files, 1);
    let close = script.submit(&engine, 2, 1).expect("there is room").wait();
    assert_eq!(close.expect("it runs").value, 1);
    assert_eq!(waiter.wait().expect("it is cancelled").value, 1);
    let cancelled = [Some(Err(FileErrno::CANCELED)), Some(Ok(0))];
    assert_eq!(results(&script)[1..], cancelled);
    assert_eq!(open(&files), 0);
}

fn timers_have_one_waiter_at_a_time(select: Select) {
    let engine = start(select);
    let steps = [
        timer(HOUR, 0),
        tick().of(0),
        tick().of(0),
        close().of(0),
        // Once is once.
        timer(MS, 0).then(5),
        tick().of(4).then(6),
        tick().of(4).then(7),
        close().of(4),
    ];
    let (files, script) = timed(&engine, &steps);
    run(&engine, &script, 1);
    let mut first = script.submit(&engine, 1, 1).expect("there is room");
    in_flight(&files, 1);
    let mut second = script.submit(&engine, 2, 1).expect("there is room");
    assert_eq!(second.wait().expect("it ends at once").value, 1);
    let mut last = script.submit(&engine, 3, 1).expect("there is room");
    assert_eq!(last.wait().expect("it closes").value, 1);
    assert_eq!(first.wait().expect("it is cancelled").value, 1);
    let mut once = script.submit(&engine, 4, 1).expect("there is room");
    assert_eq!(once.wait().expect("it ticks").value, 4);
    let results = results(&script);
    let busy = [FileErrno::CANCELED, FileErrno::BUSY].map(|error| Some(Err(error)));
    assert_eq!(results[1..3], busy);
    let once = [Some(Ok(1)), Some(Err(FileErrno::INVAL)), Some(Ok(0))];
    assert_eq!(results[5..], once);
    assert_eq!(open(&files), 0);
}

/// How often the engine's workers were woken so far.
fn wakes_of_workers() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("it has threads");
    let wakes = threads.map(|thread| {
        let thread = thread.expect("a thread").path();
        // A thread may end meanwhile; workers do not.
        let text = |file| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
        let name = text("comm");
        let number = name.trim_end().strip_prefix("everwarp-");
        if number.is_none_or(|number| number.parse::<u32>().is_err()) {
            return None;
        }
        // A wait that ends, or a slice of time that is used up, is a switch.
        let status = text("status");
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let number = |line: &str| line.rsplit('\t').next()?.parse::<u64>().ok();
        Some(switches.filter_map(number).sum::<u64>())
    });
    let wakes: Vec<_> = wakes.flatten().collect();
    assert!(!wakes.is_empty(), "the engine has workers");
    wakes.iter().sum()
}

/// The time that this program has had cores for so far. Linux counts it in hundredths of a second.
fn time_of_cores() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("it can be read");
    // The name before may have spaces.
    let fields = stat.rsplit(')').next().expect("it has a name").split(' ');
    let ticks = fields.skip(12).take(2).map(|field| field.parse::<u64>());
    let ticks: u64 = ticks.map(|ticks| ticks.expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

fn timers_leave_an_idle_engine_alone(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let builder = device.engine().program(&file_probe::PROGRAM).size(2);
    let engine = builder.watchdog(Duration::from_secs(1)).start();
    let engine = engine.expect("it starts");
    let (_files, script) = timed(&engine, &[sleep(4000 * MS)]);
    let mut pending = script.submit(&engine, 0, 1).expect("there is room");
    let short = pending.wait_timeout(Duration::from_millis(300));
    assert!(
        matches!(short, Err(Error::Timeout { .. })),
        "not finished: {short:?}"
    );
    // A GPU's engine is resident, and its host looks at it.
    let wakes = || (engine.kind() == EngineKind::Cpu).then(wakes_of_workers);
    let (begin, before) = (Instant::now(), wakes());
    let cores = time_of_cores();
    // The watchdog's time goes by three times.
    assert_eq!(pending.wait().expect("it is not stuck").value, 1);
    let (waited, after) = (begin.elapsed(), wakes());
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
    // A worker that looked for work once a millisecond would have thousands.
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after - before < 500, "{before} and {after} wakes");
        let cores = time_of_cores() - cores;
        assert!(cores < waited / 20, "{cores:?} of a core in {waited:?}");
    }
}

fn timers_outlast_a_park(select: Select) {
    let engine = start(select);
    // 50 chains of a timer each.
    let steps: Vec<_> = (0..50)
        .flat_map(|chain| {
            let first = chain * 4;
            [
                timer(MS, MS).then(first + 1),
                tick().of(first).then(first + 2),
                sleep(60 * MS).then(first + 3),
                tick().of(first),
            ]
        })
        .collect();
    let (_files, script) = timed(&engine, &steps);
    let tasks: Vec<_> = (0..50).map(|chain| script.task(chain * 4, 1)).collect();
    let mut pending = engine.submit_batch(&tasks).expect("there is room");
    for more in [0, 1, 0] {
        engine.park().expect("it parks");
        std::thread::sleep(Duration::from_millis(25));
        let size = least_size(engine.kind()) + more;
        engine.resume_with(size).expect("it resumes");
    }
    assert_eq!(pending.wait().expect("it runs").value, 200);
    for chain in results(&script).chunks(4) {
        assert!(matches!(chain[1], Some(Ok(1..))), "{chain:?}");
        assert!(matches!(chain[3], Some(Ok(50..))), "{chain:?}");
    }
}

fn timers_that_find_no_room_are_refused(select: Select) {
    let engine = start(select);
    let too_many = Files::new(&engine, config(u32::MAX));
    assert!(matches!(too_many, Err(FilesError::Size { .. })));
    let few = FilesConfig {
        handles: 2,
        ..config(3)
    };
    let files = files(&engine, few);
    let steps = [
        timer(HOUR, 0),
        timer(HOUR, 99_999),
        timer(HOUR, 100_000),
        timer(HOUR, 0),
        sleep(MS),
        sleep(u64::MAX),
        sleep(MS),
    ];
    let script = script(&engine, &files, &steps);
    let mut all = Vec::new();
    for step in 0..7 {
        if step == 5 {
            // It keeps the last room.
            all.push(script.submit(&engine, 5, 1).expect("there is room"));
            in_flight(&files, 1);
            continue;
        }
        let mut done = script.submit(&engine, step, 1).expect("there is room");
        assert_eq!(done.wait().expect("it ends").value, 1);
    }
    let seen = results(&script);
    assert!(matches!(seen[0], Some(Ok(1..))) && matches!(seen[2], Some(Ok(1..))));
    let error = |error| Some(Err(error));
    assert_eq!(seen[1], error(FileErrno::INVAL));
    assert_eq!(seen[3], error(FileErrno::MFILE));
    assert_eq!(seen[4..6], [Some(Ok(0)), None]);
    assert_eq!(seen[6], error(FileErrno::NOBUFS));
    files.close();
    assert_eq!(all[0].wait().expect("it is cancelled").value, 1);
    assert_eq!(results(&script)[5], error(FileErrno::CANCELED));
    assert_eq!(open(&files), 0);
}

fn timers_of_dropped_files_are_cancelled(select: Select) {
    let engine = start(select);
    for round in 0..10 {
        let mut steps: Vec<_> = (0..40).map(|_| sleep(HOUR)).collect();
        steps.extend((0..20).map(|at| timer(HOUR, 0).then(60 + at)));
        steps.extend((0..20).map(|at| tick().of(40 + at)));
        let (files, script) = timed(&engine, &steps);
        let mut pending = script.submit(&engine, 0, 60).expect("there is room");
        if round % 2 == 0 {
            in_flight(&files, 60);
        }
        files.close();
        assert_eq!(pending.wait().expect("all is answered").value, 80);
        let cancelled = Some(Err(FileErrno::CANCELED));
        for (step, result) in results(&script).into_iter().enumerate() {
            let set = (40..60).contains(&step) && matches!(result, Some(Ok(1..)));
            // The tick of a timer that was set before the close, and asked for after it.
            assert!(set || result == cancelled, "{step}: {result:?}");
        }
        let stats = files.stats().expect("there are counters");
        assert_eq!((stats.open, stats.in_flight), (0, 0));
    }
}

fn timers_in_great_numbers_end_once_each(select: Select) {
    let engine = start(select);
    let mut seed = 11;
    // Some of the times are the same.
    let mut nanos = || random(&mut seed) % 100 * MS / 2;
    let steps: Vec<_> = (0..30_000)
        .map(|at| match sleep(nanos()) {
            step if at < 15_000 => step.then(15_000 + at),
            step => step,
        })
        .collect();
    let (files, script) = timed(&engine, &steps);
    let tasks: Vec<_> = (0..250).map(|at| script.task(at * 60, 60)).collect();
    let mut pending = engine.submit_batch(&tasks).expect("there is room");
    assert_eq!(pending.wait().expect("all end").value, 30_000);
    assert_eq!(results(&script), vec![Some(Ok(0)); 30_000]);
    in_flight(&files, 0);
}

fn timers_end_late_and_never_early(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(&naps::PROGRAM).size(2).start();
    let engine = engine.expect("it starts");
    let sleepers = Sleepers::new(&engine, 10_000).expect("there is memory");
    // All at the same time, one after the other, and some that are late when they are asked for.
    for (lead, gap) in [(30, 0), (5, 3), (0, 1)] {
        let naps = sleepers.sleep(
            &engine,
            Duration::from_millis(lead),
            Duration::from_micros(gap),
        );
        let naps = naps.expect("they end");
        assert_eq!((naps.late_s.len(), naps.early), (10_000, 0));
        assert!(naps.asking_s > 0.0 && naps.waking_s > 0.0, "{naps:?}");
        wait_until("none sleeps", || {
            sleepers.asleep().expect("there are counters") == 0
        });
    }
}
