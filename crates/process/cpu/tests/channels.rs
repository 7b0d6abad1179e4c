//! Channels and children. The modules and their expected behaviour are those of the GPU's tests.

mod common;

use std::time::{Duration, Instant};

use common::{Given, TestHost, captured, module, stdout};
use everwarp_process::{
    ChannelEnd, ChannelError, ExitStatus, Listing, Module, Pid, ProcessEngine, SpawnError, Stage,
};

const ECHO: &str = include_str!("../../cuda/tests/modules/echo.wat");
const FAMILY: &str = include_str!("../../cuda/tests/modules/family.wat");
const FORGE: &str = include_str!("../../cuda/tests/modules/forge.wat");

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn load(text: &str) -> Module {
    module(text)
}

/// A host of few threads, which waiting processes must not hold.
fn host(threads: usize) -> TestHost {
    TestHost::start(threads)
}

fn family(mode: &str) -> Given {
    captured().args(&["family", mode])
}

/// A process that is given these channel ends.
fn with_ends(ends: Vec<ChannelEnd>) -> Given {
    let mut given = captured();
    given.grants.ends = ends;
    given
}

fn status(host: &TestHost, pid: Pid) -> ExitStatus {
    host.wait(pid).status
}

#[test]
fn messages_come_back_in_order() {
    let (echo, host) = (load(ECHO), host(1));
    let (requests, from) = host.channel(3, 64);
    let (to, answers) = host.channel(2, 64);
    let config = with_ends(vec![from.end(), to.end()]);
    let pid = host.spawn(&echo, config);
    drop((from, to));
    for n in 1..=64u8 {
        let message: Vec<u8> = (0..n).map(|k| n.wrapping_mul(k + 1)).collect();
        requests.send(&message).expect("it is open");
        let mut expected = message;
        expected[0] = expected[0].wrapping_add(1);
        assert_eq!(answers.receive_timeout(PATIENCE), Ok(expected));
    }
    assert_eq!(requests.try_send(&[0; 65]), Err(ChannelError::Size));
    assert_eq!(answers.try_receive(), Err(ChannelError::Again));
    assert_eq!(
        answers.receive_timeout(Duration::from_millis(2)),
        Err(ChannelError::Again)
    );
    drop(requests);
    assert_eq!(status(&host, pid), ExitStatus::Exited(0));
    assert_eq!(answers.receive(), Err(ChannelError::Closed));
}

#[test]
fn kill_closes_the_channel_ends_of_a_process() {
    let (echo, host) = (load(ECHO), host(1));
    let (requests, from) = host.channel(1, 64);
    let (to, answers) = host.channel(1, 64);
    let config = with_ends(vec![from.end(), to.end()]);
    let pid = host.spawn(&echo, config.clone());
    drop((from, to));
    requests.send(b"a").expect("it is open");
    assert_eq!(answers.receive_timeout(PATIENCE), Ok(b"b".to_vec()));
    host.kill(pid);
    assert_eq!(status(&host, pid), ExitStatus::Killed);
    // The grants still have ends of their own.
    assert_eq!(answers.try_receive(), Err(ChannelError::Again));
    drop(config);
    assert_eq!(answers.receive(), Err(ChannelError::Closed));
    assert_eq!(requests.send(b"c"), Err(ChannelError::Closed));
}

#[test]
fn process_that_never_starts_holds_no_channel_open() {
    let host = host(1);
    let busy = host.spawn(&load(FAMILY), family("h"));
    let (to, answers) = host.channel(1, 8);
    let config = with_ends(vec![answers.end(), to.end()]);
    let queued = host.spawn(&load(ECHO), config);
    drop(to);
    assert_eq!(answers.try_receive(), Err(ChannelError::Again));
    host.kill(queued);
    assert_eq!(answers.receive(), Err(ChannelError::Closed));
    assert_eq!(status(&host, queued), ExitStatus::Killed);
    host.kill(busy);
    assert_eq!(status(&host, busy), ExitStatus::Killed);
}

#[test]
fn forged_handles_and_pointers_are_errors() {
    let (forge, host) = (load(FORGE), host(1));
    let (to, from) = host.channel(2, 16);
    let config = with_ends(vec![to.end(), from.end()]);
    drop((to, from));
    let pid = host.spawn(&forge, config);
    assert_eq!(status(&host, pid), ExitStatus::Exited(0));
    let (to, _from) = host.channel(2, 16);
    let config = with_ends(vec![to.end(); 33]);
    assert!(matches!(
        host.try_spawn(&forge, config),
        Err(SpawnError::Ends { ends: 33, most: 32 })
    ));
    assert!(matches!(
        host.engine.channel(1, 4097).map(drop),
        Err(ChannelError::Size)
    ));
    let (foreign, _from) = TestHost::start(1).channel(2, 16);
    let refused = host.try_spawn(&forge, with_ends(vec![foreign.end()]));
    assert!(matches!(refused, Err(SpawnError::ForeignEnd)));
}

#[test]
fn parents_and_children_share_few_threads() {
    let (program, host) = (load(FAMILY), host(2));
    let pairs = (0..20).map(|_| host.spawn(&program, family("p")));
    for pid in pairs.collect::<Vec<_>>() {
        assert_eq!(status(&host, pid), ExitStatus::Exited(500));
    }
    let series = host.spawn(&program, family("s"));
    assert_eq!(status(&host, series), ExitStatus::Exited(0));
    assert_eq!(host.list().total(), 0);
}

#[test]
fn killed_children_and_orphans_end() {
    let (program, host) = (load(FAMILY), host(1));
    for mode in ["k", "x"] {
        let pid = host.spawn(&program, family(mode));
        assert_eq!(status(&host, pid), ExitStatus::Exited(0), "{mode}");
    }
    assert_eq!(host.list().total(), 0);
}

/// Lists processes until that is what is expected of them.
fn until<T>(host: &TestHost, expected: impl Fn(&Listing) -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        let listing = host.list();
        match expected(&listing) {
            Some(found) => return found,
            None => assert!(begin.elapsed() < PATIENCE, "{listing:?}"),
        }
    }
}

#[test]
fn children_are_listed_with_their_parents_and_killed_by_name() {
    let host = host(6);
    let root = host.spawn(&load(FAMILY), family("n"));
    let ended = |code: &str| Stage::Ended(code.to_owned());
    let (loops, waits) = until(&host, |listing| {
        let of = |parent| listing.rows.iter().filter(move |row| row.parent == parent);
        let parent = of(Some(root)).next()?.pid;
        let pids = |stage: Stage| -> Vec<Pid> {
            let rows = of(Some(parent)).filter(|row| row.stage == stage);
            rows.map(|row| row.pid).collect()
        };
        let (loops, waits) = (pids(Stage::Running), pids(Stage::Calling));
        let all = of(None).map(|row| row.pid).eq([root])
            && (loops.len(), waits.len()) == (1, 2)
            && pids(ended("exit code 3")).len() == 1
            && (listing.running, listing.waiting, listing.ended) == (5, 0, 1);
        all.then(|| (loops[0], waits))
    });
    for pid in waits {
        host.kill(pid);
        until(&host, |listing| {
            let mut rows = listing.rows.iter();
            rows.any(|row| row.pid == pid && row.stage == ended("killed"))
                .then_some(())
        });
    }
    let other = Pid::new(loops.slot(), loops.generation() + 1);
    assert!(!host.kill(other), "no process has this pid");
    host.kill(loops);
    assert_eq!(status(&host, root), ExitStatus::Exited(43));
    assert_eq!(host.list().total(), 0);
    assert!(!host.kill(loops), "it has been waited for");
}

#[test]
fn late_module_can_spawn_others_and_be_spawned() {
    let host = host(2);
    let bytes = load(FAMILY).bytes().clone();
    let [early, late] = ["early", "late"]
        .map(|name| Module::new(name, bytes.clone()).expect("the module is right"));
    let spawning = |name: &str| captured().args(&["family", "y", name]);
    let endless = host.spawn(&early, family("b"));
    let too_early = host.spawn(&early, spawning("late"));
    assert_eq!(
        status(&host, too_early),
        ExitStatus::Exited(107),
        "no such name"
    );
    host.load(&late, &captured().load);
    for (module, name) in [(&early, "late"), (&late, "early"), (&late, "")] {
        let pid = host.spawn(module, spawning(name));
        assert_eq!(status(&host, pid), ExitStatus::Exited(0), "{name}");
    }
    for (mode, code) in [("p", 500), ("s", 0), ("k", 0)] {
        let pid = host.spawn(&late, family(mode));
        assert_eq!(status(&host, pid), ExitStatus::Exited(code), "{mode}");
    }
    host.kill(endless);
    assert_eq!(status(&host, endless), ExitStatus::Killed);
}

#[test]
fn children_write_to_their_first_ancestors_output() {
    let host = host(1);
    let pid = host.spawn(&load(FAMILY), family("o"));
    let exit = host.wait(pid);
    assert_eq!(exit.status, ExitStatus::Exited(0));
    assert_eq!(stdout(&exit), "child\nchild\nchild\nparent\n");
}

#[test]
fn process_bomb_is_limited_and_ends_with_its_first_process() {
    let (program, host) = (load(FAMILY), host(2));
    let bomb = host.spawn(&program, family("b"));
    for _ in 0..3 {
        let pair = host.spawn(&program, family("p"));
        assert_eq!(status(&host, pair), ExitStatus::Exited(500));
    }
    host.kill(bomb);
    assert_eq!(status(&host, bomb), ExitStatus::Killed);
    assert_eq!(host.list().total(), 0);
}

#[test]
fn child_gets_half_of_its_parents_fuel() {
    let (program, host) = (load(FAMILY), host(1));
    let spend = |fuel| {
        let pid = host.spawn(&program, family("s").fuel(fuel));
        host.wait(pid)
    };
    let enough = spend(10_000_000);
    assert_eq!(enough.status, ExitStatus::Exited(0));
    // The children's share is in it: each calls a few dozen instructions.
    let used = enough.fuel_used.expect("it was counted");
    assert!(used > 50_000, "{used}");
    let short = spend(used / 2).status;
    assert!(short != ExitStatus::Exited(0), "{short}");
}
