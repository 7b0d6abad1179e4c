//! Modules as handlers: programs of them with what a host does, and the lines that this leads to.
//!
//! The CPU engine runs modules by wasmtime, and is what others are compared with: the device source that is compiled for the
//! host (`actors_on_host`), and GPUs (`conformance`).

use std::fmt::Write;

use everwarp::actor::{
    ActorConfig, ActorError, ActorId, ActorModule, ActorProgram, ActorSystem, DeadReason,
    program_of,
};
use everwarp::{Device, Select};

mod generate;

use generate::{Ty, edges, operators};

/// Asks of each generated module.
const ASKS: u64 = 40;

/// A random number (xorshift).
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// What the host does, in order.
#[derive(Debug)]
pub(crate) enum Step {
    Launch(usize),
    Ask(usize, &'static str, Vec<u64>),
    Tell(usize, &'static str, Vec<Word>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Number(u64),
    /// The id of an actor.
    Actor(usize),
}
use Word::{Actor, Number};

/// A program of modules, and what is done with it.
pub(crate) struct Play {
    pub(crate) program: ActorProgram,
    pub(crate) steps: Vec<Step>,
}

fn module(name: &str, text: &str) -> ActorModule {
    let bytes = wat::parse_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    ActorModule::new(name, bytes).unwrap_or_else(|e| panic!("{e}\n{text}"))
}
fn program(name: &str, modules: &[ActorModule]) -> ActorProgram {
    program_of(name, modules).expect("they fit")
}

impl Play {
    /// The lines that the steps lead to: replies, and then why actors failed.
    pub(crate) fn on(&self, select: Select) -> Vec<String> {
        let device = Device::open(select).expect("the device opens");
        let mut builder = device.engine().program(self.program.program());
        if select == Select::Cpu {
            builder = builder.size(1);
        }
        let engine = builder.start().expect("the engine starts");
        let system = ActorSystem::start(&engine, &self.program, ActorConfig::default());
        let system = system.expect("the system starts");
        let tag = |message: &str| self.program.message(message).expect("there is one").tag;
        let mut actors: Vec<ActorId> = Vec::new();
        let mut lines = Vec::new();
        for step in &self.steps {
            match step {
                Step::Launch(kind) => {
                    actors.push(system.launch(*kind as u32).expect("there is room"))
                }
                Step::Ask(actor, message, words) => {
                    lines.push(match system.ask(actors[*actor], tag(message), words) {
                        Ok(reply) => {
                            let words = reply.words().iter().map(|w| format!("{w:x}"));
                            words.collect::<Vec<_>>().join(" ")
                        }
                        Err(
                            ActorError::Gone { .. }
                            | ActorError::NoReply {
                                reason: DeadReason::Gone,
                            },
                        ) => "gone".to_owned(),
                        Err(ActorError::NoReply { reason }) => format!("failed {}", reason as u32),
                        Err(other) => panic!("{step:?}: {other}"),
                    });
                }
                Step::Tell(actor, message, words) => {
                    let words: Vec<u64> = words
                        .iter()
                        .map(|word| match word {
                            Number(number) => *number,
                            Actor(actor) => actors[*actor].bits(),
                        })
                        .collect();
                    let told = system.tell(actors[*actor], tag(message), &words);
                    told.expect("it lives");
                    system.settle().expect("it settles");
                }
            }
        }
        system.settle().expect("it settles");
        lines.extend(
            system
                .failures()
                .0
                .into_iter()
                .map(|failure| failure.reason),
        );
        lines
    }

    /// Compares lines with those of the CPU engine, which it returns.
    ///
    /// # Panics
    /// They differ.
    pub(crate) fn compare(&self, got: &[String]) -> Vec<String> {
        let wanted = self.on(Select::Cpu);
        if let Some(at) = wanted
            .iter()
            .zip(got)
            .position(|(wanted, got)| wanted != got)
        {
            let mut asks = self
                .steps
                .iter()
                .filter(|step| matches!(step, Step::Ask(..)));
            let step = asks.nth(at);
            panic!(
                "line {at}, {step:?}: {} on the CPU engine, {} here",
                wanted[at], got[at]
            );
        }
        assert_eq!(wanted.len(), got.len(), "lines");
        wanted
    }
}

/// Each numeric operator with operands at which it behaves in another way.
pub(crate) fn every_operator() -> Play {
    let all = operators();
    let mut text =
        String::from("(module (@custom \"everwarp.actor\" \"restarts 4000000 1000\\n\")\n");
    let mut steps = vec![Step::Launch(0)];
    let names: Vec<&'static str> = all.iter().map(|(name, ..)| &*name.clone().leak()).collect();
    for (name, (_, takes, gives)) in names.iter().zip(&all) {
        let params: Vec<_> = takes.iter().map(|ty| ty.name()).collect();
        let gets: String = (0..takes.len())
            .map(|n| format!("(local.get {n})"))
            .collect();
        writeln!(
            text,
            "(func (export \"on.{name}\") (param {}) (result {}) ({name} {gets}))",
            params.join(" "),
            gives.name()
        )
        .expect("a string takes it");
        for a in edges(takes[0]) {
            match takes.get(1) {
                None => steps.push(Step::Ask(0, name, vec![a])),
                Some(&second) => {
                    let seconds = edges(second).into_iter();
                    steps.extend(seconds.map(|b| Step::Ask(0, name, vec![a, b])));
                }
            }
        }
    }
    text.push(')');
    Play {
        program: program("operators", &[module("all", &text)]),
        steps,
    }
}
/// Checks the lines of [`every_operator`].
pub(crate) fn check_operators(lines: &[String]) {
    let failed = lines
        .iter()
        .filter(|line| line.starts_with("failed"))
        .count();
    assert!(
        lines.len() > 10_000 && failed > 100,
        "{} lines, {failed} failures",
        lines.len()
    );
}

/// A program of `modules` generated modules.
pub(crate) fn generated(number: u64, modules: u64) -> Play {
    let mut seed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let all: Vec<_> = (0..modules)
        .map(|n| module(&format!("kind {n}"), &generate::module(&mut seed)))
        .collect();
    let mut steps = Vec::new();
    for kind in 0..modules as usize {
        steps.push(Step::Launch(kind));
        for _ in 0..ASKS {
            let words = Ty::ALL.iter().map(|&ty| {
                let edges = edges(ty);
                match random(&mut seed) % 2 {
                    0 => edges[random(&mut seed) as usize % edges.len()],
                    _ if matches!(ty, Ty::I32 | Ty::F32) => random(&mut seed) & 0xffff_ffff,
                    _ => random(&mut seed),
                }
            });
            steps.push(Step::Ask(kind, "go", words.collect()));
            steps.push(Step::Ask(kind, "state", Vec::new()));
        }
    }
    Play {
        program: program("generated modules", &all),
        steps,
    }
}
/// How many of the lines are results, failures, and reasons that are about fuel.
pub(crate) fn counts(lines: &[String]) -> [usize; 3] {
    let count = |holds: fn(&str) -> bool| lines.iter().filter(|line| holds(line)).count();
    [
        count(|line| line.split(' ').count() == 4),
        count(|line| line.starts_with("failed")),
        count(|line| line.contains("fuel")),
    ]
}

/// What modules import, and the ways in which they fail.
pub(crate) fn imports() -> Play {
    let node = module("node", include_str!("node.wat"));
    let deaf = module("deaf", "(module (func (export \"on.add\") (param i64)))");
    let ask = |actor, message, words: &[u64]| Step::Ask(actor, message, words.to_vec());
    let tell = |actor, message, words: &[Word]| Step::Tell(actor, message, words.to_vec());
    let steps = vec![
        Step::Launch(0),
        Step::Launch(0),
        Step::Launch(1),
        tell(0, "add", &[Number(5)]),
        tell(0, "burst", &[Actor(1), Number(10)]),
        ask(1, "sum", &[]),
        tell(1, "collect", &[Actor(0)]),
        ask(1, "sum", &[]),
        ask(
            1,
            "types",
            &[7, 1 << 63, 0x3fc0_0000, 0xc004_0000_0000_0000],
        ),
        ask(1, "grow", &[]),
        ask(1, "dirty", &[]),
        ask(1, "dirty", &[]),
        ask(1, "errors", &[]),
        ask(1, "asked", &[]),
        ask(1, "clock", &[]),
        tell(1, "pass_to", &[Actor(0)]),
        ask(1, "sum", &[]),
        // The actor is not there, or does not handle the message.
        tell(1, "collect", &[Number(0x7_0000_0009)]),
        ask(1, "errors", &[]),
        tell(1, "collect", &[Actor(2)]),
        ask(1, "sum", &[]),
        tell(1, "storm", &[Actor(0)]),
        ask(0, "sum", &[]),
        tell(0, "family", &[]),
        ask(0, "sum", &[]),
        ask(0, "trap", &[]),
        ask(0, "sum", &[]),
        ask(0, "spin", &[]),
        ask(0, "beyond", &[]),
        ask(0, "fail", &[]),
        ask(0, "stop", &[]),
        ask(0, "sum", &[]),
        tell(1, "end", &[Actor(1)]),
        ask(1, "sum", &[]),
    ];
    Play {
        program: program("imports", &[node, deaf]),
        steps,
    }
}

/// What modules keep, and what is wrong about that: results of each import, and the reasons of failures.
pub(crate) fn keeping() -> Play {
    let keeping = module("keeping", include_str!("keeping.wat"));
    // One that ends when it fails: the ask that it has just kept has failed, and not ended with it.
    let frail = module(
        "frail",
        "(module (import \"everwarp:actor\" \"keep\" (func $keep (result i64)))
           (func (export \"on.frail\") (result i64) (drop (call $keep)) unreachable))",
    );
    let ask = |actor, message, words: &[u64]| Step::Ask(actor, message, words.to_vec());
    let tell = |actor, message, words: &[Word]| Step::Tell(actor, message, words.to_vec());
    let mut steps = vec![
        Step::Launch(0),
        Step::Launch(0),
        Step::Launch(1),
        ask(2, "frail", &[]),
        // One asks the other, which replies later, once.
        tell(1, "ask_for", &[Actor(0)]),
        ask(1, "got", &[]),
        ask(0, "give", &[41]),
        ask(1, "got", &[]),
        ask(0, "give", &[42]),
        ask(0, "other", &[]),
        tell(0, "told", &[]),
        ask(0, "stored", &[]),
        ask(0, "cancels", &[]),
        // An ask that is kept ends with its actor's restart.
        tell(1, "ask_for", &[Actor(0)]),
        tell(0, "wrong", &[]),
        ask(1, "got", &[]),
        ask(0, "early", &[]),
        ask(0, "early_ask", &[]),
        // Timers stay when their actor begins anew.
        ask(0, "timers", &[60]),
        ask(0, "fail", &[]),
        ask(0, "timers", &[5]),
        ask(0, "cancels", &[]),
    ];
    // One ask more than an actor keeps: all of them end.
    steps.extend((0..26).map(|_| tell(1, "fill", &[Actor(0)])));
    steps.push(ask(1, "lost", &[]));
    Play {
        program: program("keeping", &[keeping, frail]),
        steps,
    }
}
/// Checks the lines of [`keeping`].
pub(crate) fn check_keeping(lines: &[String]) {
    let starts = [
        "failed 3", "0", "1 0 0", "29", "0 0 0", "40", "64", "1 0 0", "0", "failed 3", "failed 3",
        "failed 2", "failed 3", "failed 3", "failed 3", "401",
    ];
    assert_eq!(lines[..starts.len()], starts, "{lines:?}");
    for part in [
        "it replies to `other`, and the ask that it has kept is another message, in `wrong_reply`",
        "a time is not negative, in `early`",
        "a time is not negative, in `early_ask`",
        "it has 64 timers that are still to come, which is the limit: cancel some first, in `sets`",
        "it keeps 1024 asks, which is the limit: reply to some first, in `keeps_one`",
    ] {
        assert!(lines.iter().any(|line| line == part), "{part}: {lines:?}");
    }
}

/// Three kinds of one module that keep asks and have timers: one ends when it fails, one begins anew, and one is atomic.
pub(crate) fn keepers() -> ActorProgram {
    let text = include_str!("keeper.wat");
    let kinds = [
        ("plain", "", "unreachable"),
        ("anew", "restarts 1000000 1000", "nop"),
        (
            "atomic",
            "restarts 1000000 1000\\natomic\\nretries 1",
            "unreachable",
        ),
    ];
    let modules = kinds.map(|(name, description, strict)| {
        let custom = format!("(module (@custom \"everwarp.actor\" \"{description}\")");
        let text = text.replacen("(module", &custom, 1);
        module(name, &text.replace("STRICT", strict))
    });
    program("keepers", &modules)
}

/// The guests of Rust and C.
pub(crate) fn guests() -> [Play; 2] {
    let rust = &include_bytes!("../../../../guests/actors/built/account.wasm")[..];
    let c = &include_bytes!("../../../../guests/actors/built/account_c.wasm")[..];
    [("rust", rust), ("c", c)].map(|(name, bytes)| Play {
        program: program(
            name,
            &[ActorModule::new("account", bytes).expect("it is a kind")],
        ),
        steps: vec![
            Step::Launch(0),
            Step::Launch(0),
            Step::Tell(0, "deposit", vec![Number(100)]),
            Step::Tell(0, "pay", vec![Actor(1), Number(30)]),
            Step::Ask(0, "balance", Vec::new()),
            Step::Ask(1, "balance", Vec::new()),
            Step::Tell(1, "pay", vec![Actor(0), Number(31)]),
            Step::Ask(1, "balance", Vec::new()),
        ],
    })
}
