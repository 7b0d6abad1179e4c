//! `naps`: timers in great numbers. Tasks sleep until times of a plan, and note when they wake.

#[path = "naps.rs"]
mod twin;

use std::sync::Arc;
use std::time::Duration;

use everwarp::files::{DevFiles, FILE_DOOR_STEP, Files, FilesConfig, FilesError};
use everwarp::{Buffer, DevPtr, DevTask, Engine, EngineKind, Instance, dev_struct, program};

use twin::{begin, clock, door, woken};

/// The most naps that one task begins.
const MANY: u32 = 60;

dev_struct! {
    /// Parameters of `naps`. Times are nanoseconds of the device's clock.
    pub struct DevNaps: align 16, size 160 {
        /// The files.
        pub files: DevFiles,
        /// When the first nap ends, and how long after it the next one does.
        pub plan: DevPtr<u64>,
        /// When each nap was asked for.
        pub asked: DevPtr<u64>,
        /// When each has ended; 0: it has not.
        pub woken: DevPtr<u64>,
        /// Spelled-out hole.
        pub hole: [u32; 2],
    }
}

program! {
    /// The program.
    pub static PROGRAM: naps(DevNaps), "naps.cu" {
        /// Reports the time of the device's clock.
        CLOCK: lane(clock),
        /// Begins nap `lo`, and as many after it as `hi` says. Without room it tries again.
        BEGIN: lane(begin).spawns(2 * MANY as u16).breadth_first(),
        /// Notes that a nap has ended. Reports 1.
        WOKEN: lane(woken),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// Naps that all have ended, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Naps {
    /// From the start until the last was asked for.
    pub asking_s: f64,
    /// From the end of the first nap that was planned until the last has woken.
    pub waking_s: f64,
    /// How much later each has woken than it was to, the least first. A nap whose time is past when it is asked for was to
    /// wake at once.
    pub late_s: Vec<f64>,
    /// How many woke before their time.
    pub early: usize,
}

/// A place for naps.
#[derive(Debug)]
pub struct Sleepers {
    // The files end before the memory does that tasks use.
    files: Files,
    instance: Arc<Instance>,
    plan: Buffer<u64>,
    asked: Buffer<u64>,
    woken: Buffer<u64>,
    count: u32,
}

impl Sleepers {
    /// Makes room for `count` naps at a time, up to 2^20.
    ///
    /// # Errors
    /// The engine has no timers or no memory left, or does not hold the program.
    pub fn new(engine: &Engine, count: u32) -> Result<Self, FilesError> {
        let config = FilesConfig {
            requests: count.next_power_of_two().clamp(64, 1 << 14),
            timers: count,
            ..FilesConfig::default()
        };
        let files = Files::new(engine, config)?;
        let words = |words| engine.buffer(words);
        let (plan, asked, woken) = (words(2)?, words(count as usize)?, words(count as usize)?);
        let params = DevNaps {
            files: files.tables(),
            plan: plan.ptr(),
            asked: asked.ptr(),
            woken: woken.ptr(),
            hole: [0; 2],
        };
        // SAFETY: the buffers have room for all naps, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            plan,
            asked,
            woken,
            count,
        })
    }
    /// Sleeps all naps: the first ends after `lead`, and each other one `gap` after the one before.
    ///
    /// # Errors
    /// As [`Engine::submit_batch`].
    pub fn sleep(
        &self,
        engine: &Engine,
        lead: Duration,
        gap: Duration,
    ) -> Result<Naps, FilesError> {
        self.woken.write(&vec![0; self.count as usize])?;
        let begin = engine.submit(self.instance.task(CLOCK))?.wait()?.value;
        let (end, gap) = (begin + lead.as_nanos() as u64, gap.as_nanos() as u64);
        self.plan.write(&[end, gap])?;
        let task = |first: u32| {
            let count = MANY.min(self.count - first);
            self.instance.task(BEGIN).args(first, count).build()
        };
        let tasks: Vec<DevTask> = (0..self.count).step_by(MANY as usize).map(task).collect();
        engine.submit_batch(&tasks)?.wait()?;
        let (asked, woken) = (self.asked.read()?, self.woken.read()?);
        let mut naps = Naps {
            asking_s: seconds(begin, asked.iter().copied().max().unwrap_or(begin)),
            waking_s: seconds(end, woken.iter().copied().max().unwrap_or(end)),
            late_s: Vec::with_capacity(asked.len()),
            early: 0,
        };
        for (nap, (&asked, &woken)) in (0_u64..).zip(asked.iter().zip(&woken)) {
            let due = asked.max(end + nap * gap);
            // A GPU's clock is not the host's: some are set to turn 500 millionths faster.
            let slack = match engine.kind() {
                EngineKind::Cpu => 0,
                _ => 1000 + (due - asked) / 1000,
            };
            naps.early += usize::from(woken + slack < due);
            naps.late_s.push(seconds(due, woken));
        }
        naps.late_s.sort_by(f64::total_cmp);
        Ok(naps)
    }
    /// How many naps are being slept.
    ///
    /// # Errors
    /// The engine's memory cannot be read.
    pub fn asleep(&self) -> Result<u64, FilesError> {
        Ok(self.files.stats()?.in_flight)
    }
}

fn seconds(from: u64, to: u64) -> f64 {
    (to as f64 - from as f64) * 1e-9
}
