//! Residency on a GPU: one engine of a process has it, because the driver waits for the resident grid in most calls that a
//! second start or end needs, and so would wait for ever.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use everwarp_engine::EngineError;
use everwarp_engine::sync::{ignore_poison, lock};

use crate::device::CudaDevice;

/// How long a start waits for an engine that is ending, whose last handle a thread may still hold.
const PATIENCE: Duration = Duration::from_secs(2);

/// The devices that have a resident of this process.
static TAKEN: Mutex<BTreeMap<i32, Holder>> = Mutex::new(BTreeMap::new());
static GIVEN_BACK: Condvar = Condvar::new();

/// What is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// An engine.
    Engine,
    /// The grid of an engine that has ended, which the engine could not park.
    Grid,
}

/// The right of an engine to its device, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Residency {
    device: i32,
}

impl Residency {
    /// Takes a device.
    pub(crate) fn take(device: &CudaDevice) -> Result<Self, EngineError> {
        let taken = Self::take_within(device.context.device, PATIENCE);
        taken.map_err(|holder| match holder {
            Holder::Engine => EngineError::Occupied {
                device: device.name().to_owned(),
            },
            Holder::Grid => EngineError::Lost {
                reason: format!(
                    "an earlier engine of this process did not leave {}; start a new process",
                    device.name()
                ),
            },
        })
    }

    fn take_within(device: i32, patience: Duration) -> Result<Self, Holder> {
        let end = Instant::now() + patience;
        let mut taken = lock(&TAKEN);
        while let Some(&holder) = taken.get(&device) {
            let left = end.saturating_duration_since(Instant::now());
            if holder == Holder::Grid || left.is_zero() {
                return Err(holder);
            }
            taken = ignore_poison(GIVEN_BACK.wait_timeout(taken, left)).0;
        }
        taken.insert(device, Holder::Engine);
        Ok(Self { device })
    }

    /// The engine ends, and its grid stays.
    pub(crate) fn lose(&self) {
        lock(&TAKEN).insert(self.device, Holder::Grid);
        GIVEN_BACK.notify_all();
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        let mut taken = lock(&TAKEN);
        if taken.get(&self.device) == Some(&Holder::Engine) {
            taken.remove(&self.device);
        }
        GIVEN_BACK.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::ZERO;

    #[test]
    fn each_device_has_one_resident() {
        let first = Residency::take_within(-1, NO_TIME).expect("nothing has it");
        let other = Residency::take_within(-2, NO_TIME).expect("it is another device");
        let taken = |device| Residency::take_within(device, NO_TIME).err();
        assert_eq!(taken(-1), Some(Holder::Engine));
        drop(other);
        assert_eq!(taken(-1), Some(Holder::Engine));
        drop(first);
        assert_eq!(taken(-1), None);
    }

    #[test]
    fn a_start_waits_for_an_engine_that_is_ending() {
        let first = Residency::take_within(-3, NO_TIME).expect("nothing has it");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Residency::take_within(-3, Duration::from_secs(60)));
            drop(first);
            assert!(second.join().expect("it does not panic").is_ok());
        });
    }

    #[test]
    fn a_grid_that_stays_has_its_device_for_ever() {
        let first = Residency::take_within(-4, NO_TIME).expect("nothing has it");
        first.lose();
        drop(first);
        // Without waiting.
        let second = Residency::take_within(-4, Duration::from_secs(3600));
        assert_eq!(second.err(), Some(Holder::Grid));
    }
}
