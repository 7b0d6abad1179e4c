//! How processes exit.

use everwarp_contract::errno as e;
use everwarp_contract::hostcall::number;
use everwarp_hostcalls::{Captured, Config, ExitReason, ExitReport, Output};
use everwarp_process::Pid;

use crate::world::World;

#[test]
fn every_reason_is_reported_and_the_slot_is_free_again() {
    let (world, process) = World::with_process();
    process.fails(e::ERRNO_INVAL, number::EXIT, &[5], "");
    process.fails(e::ERRNO_INVAL, number::EXIT, &[0, 1 << 32], "");
    process.get(number::EXIT, &[0, 7], "");
    process.fails(e::ERRNO_SRCH, number::EXIT, &[0, 7], "");
    process.fails(e::ERRNO_SRCH, number::FD_WRITE, &[1], "too late");
    let trap = ExitReason::Trap {
        kind: 4,
        function: 5,
        offset: 6,
    };
    let mut reasons = vec![(1, ExitReason::Normal(7), 0)];
    for (generation, (args, reason)) in (2..).zip([
        ([1, 9, 4, 5, 6, 77], trap),
        ([2, 0, 0, 0, 0, 77], ExitReason::Killed),
        ([3, 0, 0, 0, 0, 77], ExitReason::OutOfFuel),
        ([4, 0, 0, 0, 0, 77], ExitReason::OutOfMemory),
    ]) {
        world
            .open(1, generation, world.config())
            .get(number::EXIT, &args, "");
        reasons.push((generation, reason, 77));
    }
    let told = world.told.exits(reasons.len());
    let expected = reasons.into_iter().map(|(generation, reason, fuel_left)| {
        let exit = ExitReport {
            reason,
            fuel_left,
            stdout: None,
            stderr: None,
        };
        (Pid::new(1, generation), exit)
    });
    assert_eq!(told, expected.collect::<Vec<_>>());
    assert_eq!(world.stdout.text(), "");
}

#[test]
fn an_exit_writes_the_output_that_comes_with_it() {
    let (world, process) = World::with_process();
    process.get(number::OUTPUT, &[1], "first, ");
    process.fails(e::ERRNO_INVAL, number::EXIT, &[5], "refused");
    process.get(number::EXIT, &[0, 0], "and last");
    assert_eq!(world.stdout.text(), "first, and last");
    let config = Config {
        stdout: Output::Capture { limit: 5 },
        ..Config::default()
    };
    world
        .open(2, 1, config)
        .get(number::EXIT, &[0, 0], "too long");
    let told = world.told.exits(2);
    let captured = Captured {
        bytes: b"too l".to_vec(),
        refused: true,
    };
    assert_eq!(told[1].1.stdout, Some(captured));
}

#[test]
fn captured_output_comes_with_the_exit() {
    let (world, _) = World::with_process();
    let config = Config {
        stdout: Output::Capture { limit: 10 },
        stderr: Output::Capture { limit: 10 },
        ..Config::default()
    };
    let process = world.open(2, 9, config);
    process.get(number::FD_WRITE, &[1], "0123456");
    process.get(number::OUTPUT, &[2], "0123456789");
    process.fails(e::ERRNO_NOSPC, number::FD_WRITE, &[1], "789abc");
    process.fails(e::ERRNO_INVAL, number::OUTPUT, &[3], "x");
    let exit = world
        .service
        .close(Pid::new(2, 9), ExitReason::Killed)
        .expect("it is there");
    let captured = |refused: bool| {
        let bytes = b"0123456789".to_vec();
        Some(Captured { bytes, refused })
    };
    let expected = ExitReport {
        reason: ExitReason::Killed,
        fuel_left: 0,
        stdout: captured(true),
        stderr: captured(false),
    };
    assert_eq!(exit, expected);
    assert_eq!(
        world.service.close(Pid::new(2, 9), ExitReason::Killed),
        None
    );
    assert_eq!(
        world.service.close(Pid::new(1, 9), ExitReason::Killed),
        None,
        "that is another generation"
    );
    assert_eq!(
        world
            .service
            .close(Pid::new(u32::MAX, 9), ExitReason::Killed),
        None
    );
}

#[test]
fn an_exit_closes_all_files() {
    let (world, process) = World::with_process();
    let open = || {
        let links = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten();
        let root = world.root.path().join("beneath");
        links
            .filter_map(|link| std::fs::read_link(link.path()).ok())
            .filter(|path| path.starts_with(&root) && *path != root)
            .count()
    };
    for index in 0..20 {
        process.create(&format!("file-{index}"));
    }
    assert_eq!(open(), 20);
    process.get(number::EXIT, &[0, 0], "");
    assert_eq!(open(), 0);
}

#[test]
fn captured_output_counts_for_all_processes_until_it_is_given_back() {
    let (world, budgets) = World::with_output_budget(15);
    let capture = || Config {
        stdout: Output::Capture { limit: 10 },
        ..Config::default()
    };
    let first = world.open(1, 1, capture());
    first.get(number::FD_WRITE, &[1], "01234567");
    // The limit of the stream comes first: what it refuses is not taken from the budget.
    first.fails(e::ERRNO_NOSPC, number::FD_WRITE, &[1], "89abc");
    let second = world.open(2, 1, capture());
    second.fails(e::ERRNO_NOSPC, number::FD_WRITE, &[1], "01234567");
    // One that has never called writes with its exit.
    let third = world.open(3, 1, capture());
    third.get(number::EXIT, &[0, 0], "x");
    first.get(number::EXIT, &[0, 0], "");
    second.get(number::EXIT, &[0, 0], "");
    let captured = |bytes: &[u8]| {
        let bytes = bytes.to_vec();
        Some(Captured {
            bytes,
            refused: true,
        })
    };
    let mut told = world.told.exits(3);
    told.sort_by_key(|(pid, _)| pid.slot());
    let told: Vec<_> = told.into_iter().map(|(_, exit)| exit.stdout).collect();
    let expected = [captured(b"0123456789"), captured(b"01234"), captured(b"")];
    assert_eq!(told, expected);
    budgets.output.give(10);
    let fourth = world.open(1, 2, capture());
    fourth.get(number::FD_WRITE, &[1], "0123456789");
    fourth.fails(e::ERRNO_NOSPC, number::FD_WRITE, &[1], "a");
}
