//! A new native program: device source, its CPU twin and a table, written, registered and run with this crate alone.

use everwarp::{Device, Error, Select, TaskCx, program};
use everwarp_testkit::needs_gpu;
use libtest_mimic::{Arguments, Failed, Trial};

program! {
    /// Counts prime numbers by halving a range.
    static PRIMES: primes(), "native_program.cu" {
        /// Argument: the first number in the lower half, the count in the upper. Adds the number of primes.
        COUNT: lane(count).spawns(2),
    }
}

/// The argument for a range.
fn range(first: u32, count: u32) -> u64 {
    u64::from(count) << 32 | u64::from(first)
}

fn is_prime(n: u32) -> bool {
    n >= 2
        && (2..)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d))
}

/// The CPU twin of `primes_count`.
fn count(task: &mut dyn TaskCx) {
    let (first, count) = (task.lo(), task.hi());
    if count > 16 {
        let half = count / 2;
        task.spawn(COUNT, 0, range(first, half));
        task.spawn(COUNT, 0, range(first + half, count - half));
        return;
    }
    let found = (first..first + count).filter(|&n| is_prime(n)).count();
    task.report_add(found as u64);
}

/// Runs the program as a user of this crate does.
fn primes_below(device: &Device, n: u32) -> Result<u64, Error> {
    let engine = device.engine().program(&PRIMES).start()?;
    let primes = engine.plain_instance(&PRIMES)?;
    Ok(engine.run(primes.task(COUNT).arg(range(0, n)))?.value)
}

fn counts_primes(select: Select) -> Result<(), Failed> {
    let device = Device::open(select)?;
    for (n, expected) in [(0, 0), (3, 1), (100, 25), (100_000, 9592)] {
        let found = primes_below(&device, n)?;
        if found != expected {
            return Err(format!("{found} primes below {n}, not {expected}").into());
        }
    }
    Ok(())
}

fn main() {
    let gpu = needs_gpu(&Device::open(Select::Cuda));
    let tests = vec![
        Trial::test("counts_primes_on_the_cpu", || counts_primes(Select::Cpu)),
        gpu.trial(Trial::test("counts_primes_on_a_gpu", || {
            counts_primes(Select::Cuda)
        })),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit()
}
