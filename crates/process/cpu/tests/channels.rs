//! Channels and children: the modules are those of the GPU's tests, and so is what they must do.

mod common;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use common::{captured, stdout};
use everwarp_process_cpu::{
    ChannelError, Config, Host, Listing, Pid, Program, Reason, SpawnError, Stage,
};

const ECHO: &str = include_str!("../../cuda/tests/modules/echo.wat");
const FAMILY: &str = include_str!("../../cuda/tests/modules/family.wat");
const FORGE: &str = include_str!("../../cuda/tests/modules/forge.wat");

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

fn load(text: &str) -> Program {
    let bytes = wat::parse_str(text).expect("the text is right");
    Program::load(&bytes).expect("the module is right")
}

/// A host of few threads: what waits must not hold them.
fn host(threads: usize) -> Host {
    Host::start(NonZeroUsize::new(threads)).expect("a host starts")
}

fn family(mode: &str) -> Config {
    Config {
        args: vec!["family".to_owned(), mode.to_owned()],
        ..captured()
    }
}

fn reason(host: &Host, pid: Pid) -> Reason {
    host.wait(pid).expect("the pid is fresh").reason
}

#[test]
fn what_the_host_sends_comes_back_in_order() {
    let (echo, host) = (load(ECHO), host(1));
    let (requests, from) = host.channel(3, 64).expect("it is possible");
    let (to, answers) = host.channel(2, 64).expect("it is possible");
    let config = Config {
        ends: vec![from.end(), to.end()],
        ..captured()
    };
    let pid = host.spawn(&echo, config).expect("it begins");
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
    assert_eq!(reason(&host, pid), Reason::Normal(0));
    assert_eq!(answers.receive(), Err(ChannelError::Closed));
}

#[test]
fn a_kill_closes_what_a_process_had() {
    let (echo, host) = (load(ECHO), host(1));
    let (requests, from) = host.channel(1, 64).expect("it is possible");
    let (to, answers) = host.channel(1, 64).expect("it is possible");
    let config = Config {
        ends: vec![from.end(), to.end()],
        ..captured()
    };
    let pid = host.spawn(&echo, config.clone()).expect("it begins");
    drop((from, to));
    requests.send(b"a").expect("it is open");
    assert_eq!(answers.receive_timeout(PATIENCE), Ok(b"b".to_vec()));
    host.kill(pid).expect("the pid is fresh");
    assert_eq!(reason(&host, pid), Reason::Killed);
    // The configuration still has ends of its own.
    assert_eq!(answers.try_receive(), Err(ChannelError::Again));
    drop(config);
    assert_eq!(answers.receive(), Err(ChannelError::Closed));
    assert_eq!(requests.send(b"c"), Err(ChannelError::Closed));
}

#[test]
fn a_process_that_never_starts_holds_nothing_open() {
    let host = host(1);
    let busy = host.spawn(&load(FAMILY), family("h")).expect("it begins");
    let (to, answers) = host.channel(1, 8).expect("it is possible");
    let config = Config {
        ends: vec![answers.end(), to.end()],
        ..captured()
    };
    let queued = host.spawn(&load(ECHO), config).expect("it begins");
    drop(to);
    assert_eq!(answers.try_receive(), Err(ChannelError::Again));
    host.kill(queued).expect("the pid is fresh");
    assert_eq!(answers.receive(), Err(ChannelError::Closed));
    assert_eq!(reason(&host, queued), Reason::Killed);
    host.kill(busy).expect("the pid is fresh");
    assert_eq!(reason(&host, busy), Reason::Killed);
}

#[test]
fn whatever_a_process_says_nothing_but_an_error_comes_of_it() {
    let (forge, host) = (load(FORGE), host(1));
    let (to, from) = host.channel(2, 16).expect("it is possible");
    let config = Config {
        ends: vec![to.end(), from.end()],
        ..captured()
    };
    drop((to, from));
    let pid = host.spawn(&forge, config).expect("it begins");
    assert_eq!(reason(&host, pid), Reason::Normal(0));
    let (to, _from) = host.channel(2, 16).expect("it is possible");
    let config = Config {
        ends: vec![to.end(); 33],
        ..captured()
    };
    assert!(matches!(
        host.spawn(&forge, config),
        Err(SpawnError::Ends { ends: 33, most: 32 })
    ));
    assert!(matches!(
        host.channel(1, 4097).map(drop),
        Err(ChannelError::Size)
    ));
}

#[test]
fn parents_and_children_share_few_threads() {
    let (program, host) = (load(FAMILY), host(2));
    let pairs = (0..20).map(|_| host.spawn(&program, family("p")).expect("it begins"));
    for pid in pairs.collect::<Vec<_>>() {
        assert_eq!(reason(&host, pid), Reason::Normal(500));
    }
    let series = host.spawn(&program, family("s")).expect("it begins");
    assert_eq!(reason(&host, series), Reason::Normal(0));
    assert!(host.list().is_empty());
}

#[test]
fn killed_children_and_orphans_end() {
    let (program, host) = (load(FAMILY), host(1));
    for mode in ["k", "x"] {
        let pid = host.spawn(&program, family(mode)).expect("it begins");
        assert_eq!(reason(&host, pid), Reason::Normal(0), "{mode}");
    }
    assert!(host.list().is_empty());
}

/// Lists processes until that is what is expected of them.
fn until<T>(host: &Host, expected: impl Fn(&Listing) -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        let listing = host.processes(usize::MAX);
        match expected(&listing) {
            Some(found) => return found,
            None => assert!(begin.elapsed() < PATIENCE, "{listing:?}"),
        }
    }
}

#[test]
fn children_are_listed_with_their_parents_and_killed_by_name() {
    let host = host(6);
    let root = host.spawn(&load(FAMILY), family("n")).expect("it begins");
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
        host.kill(pid).expect("the pid is fresh");
        until(&host, |listing| {
            let mut rows = listing.rows.iter();
            rows.any(|row| row.pid == pid && row.stage == ended("killed"))
                .then_some(())
        });
    }
    let other = Pid::new(loops.slot(), loops.generation() + 1);
    assert!(host.kill(other).is_err(), "nobody has this name");
    host.kill(loops).expect("the pid is fresh");
    assert_eq!(reason(&host, root), Reason::Normal(43));
    assert_eq!(host.processes(usize::MAX).total(), 0);
    assert!(host.kill(loops).is_err(), "it has been waited for");
}

#[test]
fn a_family_that_is_loaded_late_finds_others_and_is_found() {
    let (program, host) = (load(FAMILY), host(2));
    let named = |name: &str| Config {
        args: ["family", "y", name].map(str::to_owned).to_vec(),
        ..captured()
    };
    let endless = host.spawn(&program, family("b")).expect("it begins");
    let early = host.spawn(&program, named("late")).expect("it begins");
    assert_eq!(reason(&host, early), Reason::Normal(107), "no such name");
    let bytes = wat::parse_str(FAMILY).expect("the text is right");
    let (late, _) = host.load(&bytes).expect("the module is right");
    host.name("late", &late);
    host.name("early", &program);
    for (program, name) in [(&program, "late"), (&late, "early"), (&late, "")] {
        let pid = host.spawn(program, named(name)).expect("it begins");
        assert_eq!(reason(&host, pid), Reason::Normal(0), "{name}");
    }
    for (mode, code) in [("p", 500), ("s", 0), ("k", 0)] {
        let pid = host.spawn(&late, family(mode)).expect("it begins");
        assert_eq!(reason(&host, pid), Reason::Normal(code), "{mode}");
    }
    host.kill(endless).expect("the pid is fresh");
    assert_eq!(reason(&host, endless), Reason::Killed);
}

#[test]
fn children_write_to_their_ancestors_output() {
    let host = host(1);
    let pid = host.spawn(&load(FAMILY), family("o")).expect("it begins");
    let exit = host.wait(pid).expect("the pid is fresh");
    assert_eq!(exit.reason, Reason::Normal(0));
    assert_eq!(stdout(&exit), "child\nchild\nchild\nparent\n");
}

#[test]
fn a_bomb_is_refused_and_its_death_takes_all_of_it_along() {
    let (program, host) = (load(FAMILY), host(2));
    let bomb = host.spawn(&program, family("b")).expect("it begins");
    for _ in 0..3 {
        let pair = host.spawn(&program, family("p")).expect("it begins");
        assert_eq!(reason(&host, pair), Reason::Normal(500));
    }
    host.kill(bomb).expect("the pid is fresh");
    assert_eq!(reason(&host, bomb), Reason::Killed);
    assert!(host.list().is_empty());
}

#[test]
fn a_child_is_paid_from_its_parents_fuel() {
    let (program, host) = (load(FAMILY), host(1));
    let spend = |fuel| {
        let config = Config {
            fuel: Some(fuel),
            ..family("s")
        };
        let pid = host.spawn(&program, config).expect("it begins");
        host.wait(pid).expect("the pid is fresh")
    };
    let enough = spend(10_000_000);
    assert_eq!(enough.reason, Reason::Normal(0));
    // Its children's share is in it: each calls a few dozen instructions.
    assert!(enough.fuel_used > 50_000, "{}", enough.fuel_used);
    let short = spend(enough.fuel_used / 2).reason;
    assert!(short != Reason::Normal(0), "{short}");
}
