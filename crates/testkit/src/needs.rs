//! Tests that need something which a machine may not have.

use std::fmt::Display;

use libtest_mimic::{Arguments, Trial};

/// Lists what this machine may lack, separated by commas. If it is set, tests that need anything else that is missing end
/// with an error: CI lists there what it does not run.
const MAY_LACK: &str = "EVERWARP_MAY_LACK";

/// Whether something is there that tests need. Without it the tests are reported as `ignored`, never as `ok`.
#[derive(Clone, Copy, Debug)]
#[must_use = "tests are ignored only if they ask"]
pub struct Needed {
    present: bool,
}

impl Needed {
    /// Looks at the result of opening `what`. If it failed, the reason is written to standard error once. Where
    /// `EVERWARP_MAY_LACK` is set and does not list it, the process ends with an error.
    pub fn look<T, E: Display>(what: &str, opened: &Result<T, E>) -> Self {
        if let Err(reason) = opened {
            let listed = std::env::var(MAY_LACK);
            if listed.is_ok_and(|list| !lists(&list, what)) {
                eprintln!("{MAY_LACK} does not list `{what}`, which is missing: {reason}");
                std::process::exit(1);
            }
            eprintln!("the tests that need {what} are ignored: {reason}");
        }
        Self {
            present: opened.is_ok(),
        }
    }
    /// A test that needs it.
    pub fn trial(self, trial: Trial) -> Trial {
        // A flag that the trial already has is kept.
        match self.present {
            true => trial,
            false => trial.with_ignored_flag(true),
        }
    }
}

fn lists(list: &str, what: &str) -> bool {
    list.split(',').any(|one| one.trim() == what)
}

/// Runs cases that need a GPU, one at a time: each has the GPU for itself. Without one they are reported as ignored. `device` is the
/// result of opening the device.
pub fn run_on_gpu<T, E: Display>(device: &Result<T, E>, cases: &[(&'static str, fn())]) -> ! {
    let gpu = needs_gpu(device);
    let trials = cases.iter().map(|&(name, case)| {
        let run = move || {
            case();
            Ok(())
        };
        gpu.trial(Trial::test(name, run))
    });
    let args = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    libtest_mimic::run(&args, trials.collect()).exit()
}

/// Whether the GPU's tests can run: `device` is the result of opening the device.
pub fn needs_gpu<T, E: Display>(device: &Result<T, E>) -> Needed {
    Needed::look("a GPU", device)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many tests of each outcome there are when one test needs a GPU: run, ignored.
    fn counts(device: &Result<(), &str>) -> (u64, u64) {
        let trial = needs_gpu(device).trial(Trial::test("on_a_gpu", || Ok(())));
        let conclusion = libtest_mimic::run(&libtest_mimic::Arguments::default(), vec![trial]);
        (conclusion.num_passed, conclusion.num_ignored)
    }

    #[test]
    fn a_list_names_what_may_be_missing() {
        assert!(lists("zsh, a GPU", "a GPU"));
        assert!(!lists("zsh,a GPU", "GPU") && !lists("", "zsh"));
    }

    #[test]
    fn a_test_without_its_gpu_is_ignored_and_not_ok() {
        assert_eq!(counts(&Err("no driver")), (0, 1));
        assert_eq!(counts(&Ok(())), (1, 0));
    }
}
