//! The conformance suite: the same cases for every engine, each in a child process with a time limit.
//!
//! `cargo test -p everwarp-programs --test conformance -- cuda` runs the cases on one engine. Without a GPU, its cases
//! are reported as ignored.

#[path = "conformance/actor_broker.rs"]
mod actor_broker;
#[path = "conformance/actor_faults.rs"]
mod actor_faults;
#[path = "conformance/actor_groups.rs"]
mod actor_groups;
#[path = "conformance/actor_hosts.rs"]
mod actor_hosts;
#[path = "conformance/actor_payloads.rs"]
mod actor_payloads;
#[path = "conformance/actor_services.rs"]
mod actor_services;
#[path = "conformance/actor_shapes.rs"]
mod actor_shapes;
#[path = "conformance/actors.rs"]
mod actors;
#[path = "conformance/durability.rs"]
mod durability;
#[path = "conformance/epochs.rs"]
mod epochs;
#[path = "conformance/errors.rs"]
mod errors;
#[path = "conformance/events.rs"]
mod events;
#[path = "conformance/files.rs"]
mod files;
#[path = "conformance/handles.rs"]
mod handles;
#[path = "conformance/heap.rs"]
mod heap;
#[path = "conformance/heap_tasks.rs"]
mod heap_tasks;
#[path = "conformance/losses.rs"]
mod losses;
#[path = "conformance/module_actors.rs"]
mod module_actors;
mod modules;
#[path = "conformance/pages.rs"]
mod pages;
#[path = "conformance/programs.rs"]
mod programs;
#[path = "conformance/ring_kernels.rs"]
mod ring_kernels;
#[path = "modules/ring.rs"]
mod ring_module;
#[path = "conformance/socket_faults.rs"]
mod socket_faults;
#[path = "conformance/sockets.rs"]
mod sockets;
#[path = "conformance/submissions.rs"]
mod submissions;
#[path = "conformance/support.rs"]
mod support;
#[path = "conformance/tasks.rs"]
mod tasks;
#[path = "conformance/timers.rs"]
mod timers;

use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use everwarp::Select;
use everwarp_testkit::{Needed, needs_gpu};
use libtest_mimic::{Arguments, Failed, Trial};
use support::Case;

/// The variable that makes a child run one case.
const CHILD: &str = "EVERWARP_CONFORMANCE_CASE";

/// The time after which a case has hung; `EVERWARP_CASE_LIMIT_S` sets another.
fn limit() -> Duration {
    let Ok(text) = std::env::var("EVERWARP_CASE_LIMIT_S") else {
        return Duration::from_secs(120);
    };
    let seconds = text.parse().unwrap_or_else(|_| {
        eprintln!("EVERWARP_CASE_LIMIT_S is `{text}`: give whole seconds, or unset it");
        std::process::exit(2)
    });
    Duration::from_secs(seconds)
}

fn all() -> impl Iterator<Item = &'static Case> {
    let files = [
        programs::ALL,
        programs::ONLY_WGPU,
        actors::ALL,
        actors::ONLY_WGPU,
        actor_broker::ALL,
        actor_broker::CHANNELS,
        actor_faults::ALL,
        actor_groups::ALL,
        actor_hosts::ALL,
        actor_payloads::ALL,
        actor_services::ALL,
        actor_shapes::ALL,
        module_actors::ALL,
        tasks::ALL,
        submissions::ALL,
        epochs::ALL,
        errors::ALL,
        files::ALL,
        files::REFUSED,
        pages::ALL,
        ring_kernels::ALL,
        durability::ALL,
        events::ALL,
        sockets::ALL,
        socket_faults::ALL,
        timers::ALL,
        handles::ALL,
        heap::ALL,
        heap_tasks::ALL,
        losses::ALL,
    ];
    files.into_iter().flatten()
}

/// A way to run cases: on an engine, with settings.
struct Way {
    /// The first part of the names of its cases.
    name: &'static str,
    engine: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

const fn plain(engine: &'static str) -> Way {
    Way {
        name: engine,
        engine,
        settings: &[],
    }
}

/// Files, timers and sockets are also used with faults that programs must not notice, and files and the page cache without an io_uring, and
/// by way of an arena that is so small that reads wait for room. The wgpu engine also runs with workgroups that leave early, with the driver's calls checked, and on a device that is lost.
const WAYS: [Way; 13] = [
    plain("cpu"),
    Way {
        settings: &[("EVERWARP_FILE_FAULTS", "20261123")],
        name: "cpu_faulted",
        engine: "cpu",
    },
    Way {
        settings: &[("EVERWARP_IO", "threads")],
        name: "cpu_threads",
        engine: "cpu",
    },
    Way {
        settings: &[("EVERWARP_FILE_ARENA", "65536")],
        name: "cpu_arena",
        engine: "cpu",
    },
    Way {
        settings: &[
            ("EVERWARP_FILE_ARENA", "65536"),
            ("EVERWARP_FILE_FAULTS", "20261128"),
            ("EVERWARP_IO", "threads"),
        ],
        name: "cpu_arena_faulted",
        engine: "cpu",
    },
    plain("cuda"),
    Way {
        settings: &[("EVERWARP_FILE_ARENA", "65536")],
        name: "cuda_arena",
        engine: "cuda",
    },
    Way {
        settings: &[("EVERWARP_IO", "threads")],
        name: "cuda_threads",
        engine: "cuda",
    },
    Way {
        settings: &[("EVERWARP_FILE_FAULTS", "20261123")],
        name: "cuda_faulted",
        engine: "cuda",
    },
    plain("wgpu"),
    Way {
        settings: &[("EVERWARP_WGPU_STRESS", "20261123")],
        name: "wgpu_stressed",
        engine: "wgpu",
    },
    Way {
        settings: &[("EVERWARP_WGPU_VALIDATION", "1")],
        name: "wgpu_validated",
        engine: "wgpu",
    },
    Way {
        settings: &[("EVERWARP_WGPU_LOSE", "20")],
        name: "wgpu_lost",
        engine: "wgpu",
    },
];

/// Cases under validation, which is slow: every call of the driver that the engine makes is in one of them.
const VALIDATED: [&str; 5] = [
    "bfs_equals_the_reference",
    "exchanges_its_image_under_load",
    "heap_mistakes_are_reported",
    "pieces_arrive_in_order",
    "urgent_work_overtakes",
];

/// Cases with workgroups that leave early, unless the variable EVERWARP_ALL_CASES is set: those in which they leave most work to others.
const STRESSED: [&str; 16] = [
    "every_program_equals_its_reference",
    "fib_is_right_and_counts_every_call",
    "block_tree",
    "pairs_run_in_order",
    "ranges_are_covered_once",
    "actor_handles_each_message_once",
    "messages_of_one_sender_to_one_actor_keep_their_order",
    "every_ask_of_an_actor_ends",
    "actors_that_end_amid_messages_lose_none_uncounted",
    "actors_survive_epochs",
    "wide_fan_joins_before_its_continuation",
    "joins_under_load",
    "batches_run_every_task_once",
    "swaps_under_load",
    "heap_random_operations",
    "parks_and_resumes_with_other_sizes",
];

/// Whether a case is run this way: the cases of the heap's kernels are for CUDA, and actors on wgpu have no services.
fn concerns(way: &Way, case: &str) -> bool {
    let is_of = |cases: &[Case]| cases.iter().any(|c| c.0 == case);
    let not_wgpu = [
        actor_broker::ALL,
        actor_broker::CHANNELS,
        actor_groups::ALL,
        actor_hosts::ALL,
        actor_payloads::ALL,
        actor_services::ALL,
        actor_shapes::ALL,
        module_actors::ALL,
        ring_kernels::ALL,
        heap::ALL,
    ];
    let served = [
        events::ALL,
        files::ALL,
        pages::ALL,
        timers::ALL,
        sockets::ALL,
    ];
    let only_wgpu = [actors::ONLY_WGPU, programs::ONLY_WGPU];
    if only_wgpu.into_iter().any(is_of) && way.engine != "wgpu" {
        return false;
    }
    match way.name {
        "wgpu_lost" => return is_of(losses::ALL),
        "wgpu_validated" => return VALIDATED.contains(&case),
        "wgpu_stressed" if std::env::var_os("EVERWARP_ALL_CASES").is_none() => {
            return STRESSED.contains(&case);
        }
        "cpu_threads" | "cuda_threads" | "cpu_arena" | "cpu_arena_faulted" | "cuda_arena" => {
            return [files::ALL, pages::ALL].into_iter().any(is_of);
        }
        "cpu_faulted" | "cuda_faulted" => return served.into_iter().any(is_of),
        _ if is_of(losses::ALL) => return false,
        _ if served.into_iter().any(is_of) => return way.engine != "wgpu",
        _ if is_of(socket_faults::ALL) => return way.engine != "wgpu",
        _ if is_of(durability::ALL) => return way.engine == "cpu",
        _ if is_of(files::REFUSED) => return way.engine == "wgpu",
        _ => {}
    }
    match way.engine {
        "cuda" => true,
        "wgpu" => !not_wgpu.into_iter().any(is_of),
        _ => !is_of(heap::ALL),
    }
}

fn main() {
    if let Ok(name) = std::env::var(CHILD) {
        let (engine, case) = name.split_once("::").expect("engine::case");
        let select = engine.parse().expect("an engine");
        let case = all().find(|c| c.0 == case).expect("a case");
        case.1(select);
        return;
    }
    // A wrong limit is reported before all cases.
    limit();
    let gpu = needs_gpu(&everwarp::Device::open(Select::Cuda));
    let opened = everwarp::Device::open(Select::Wgpu);
    let software = (opened.as_ref().ok())
        .and_then(everwarp::Device::adapter)
        .is_some_and(|adapter| adapter.facts().software);
    let adapter = Needed::look("an adapter of wgpu", &opened);
    // The cases open it themselves.
    drop(opened);
    let known = |case: &&str| all().any(|c| c.0 == *case);
    assert!(VALIDATED.iter().chain(&STRESSED).all(known), "they exist");
    // What sets the adapter up for tests also says where the layers are.
    let named = ["VK_LAYER_PATH", "VK_ADD_LAYER_PATH"];
    let folder = named.into_iter().find_map(std::env::var_os);
    let folder = folder.ok_or("VK_LAYER_PATH is not set");
    let layers = Needed::look("Vulkan's validation layers", &folder);
    let mut trials = Vec::new();
    for way in &WAYS {
        for (case, _) in all().filter(|c| concerns(way, c.0)) {
            let name = format!("{}::{case}", way.name);
            // A GPU holds one resident engine, and an engine on the CPU uses all cores. But an adapter in software compiles a
            // case's image on one core for most of its time.
            let alone = way.engine != "wgpu" || !software;
            let trial = Trial::test(name, move || {
                let _turn = Turn::take(alone);
                run_child(way, case)
            });
            trials.push(match way.engine {
                "cuda" => gpu.trial(trial),
                "wgpu" if way.name == "wgpu_validated" => layers.trial(adapter.trial(trial)),
                "wgpu" => adapter.trial(trial),
                _ => trial,
            });
        }
    }
    let mut args = Arguments::from_args();
    // Turns say which cases run together.
    args.test_threads = Some(2);
    libtest_mimic::run(&args, trials).exit();
}

/// The right to run a case, next to others or alone.
enum Turn {
    Alone(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'static, ()>),
    Together(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'static, ()>),
}

impl Turn {
    fn take(alone: bool) -> Self {
        static TURNS: RwLock<()> = RwLock::new(());
        // A case that fails panics in a process of its own.
        match alone {
            true => Self::Alone(TURNS.write().unwrap_or_else(PoisonError::into_inner)),
            false => Self::Together(TURNS.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

fn run_child(way: &Way, case: &str) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(CHILD, format!("{}::{case}", way.engine));
    command.envs(way.settings.iter().copied());
    // Cases count descriptors, and no other program looks at their engines.
    command.env("EVERWARP_CONTROL", "off");
    // A driver in software compiles an image of all programs for a minute where others use the cores, too.
    let times = if way.engine == "wgpu" { 3 } else { 1 };
    let finished = everwarp_testkit::run(&mut command, limit() * times)?;
    let errors = String::from_utf8_lossy(&finished.stderr).into_owned();
    finished.success()?;
    // Layers report what is wrong, and the call goes on.
    if errors.contains("everwarp: wgpu:") {
        return Err(errors.into());
    }
    Ok(())
}
