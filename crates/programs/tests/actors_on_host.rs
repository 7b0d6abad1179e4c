//! The device code of actors, compiled as C++ and run on the host: lanes in random schedules, with an audit of all messages
//! and slots after each scenario, and lanes as threads under ThreadSanitizer. The tests need a C++ compiler but no GPU.
//! Without one they are reported as ignored.
//!
//! `actors_on_host/block.cuh` stands in for the headers of the engine; everything in `actor` is the source of the images.
//! `world.h` is what runs there, and each program has a file with its scenarios.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use everwarp::actor::{ActorProgram, Kind};
use everwarp::cuda::image::source;
use everwarp_contract::actor::{
    ACTOR_EVENTS, ACTOR_SHARDS, KEPT_BYTES, MAIL_COUNT_MAX, TELL_MORE, TELL_ROWS,
};
use everwarp_programs::actor_broker::BROKERS;
use everwarp_programs::actor_faults::FAULTS;
use everwarp_programs::actor_groups::GROUPS;
use everwarp_programs::actor_probe::PROBE;
use everwarp_programs::actor_services::{PARTS, SERVICES};
use everwarp_programs::actor_shapes::SHAPES;
use everwarp_programs::{actor_broker, actor_groups, actor_services};
use everwarp_runtime::{Image, Shape, identifier};
use everwarp_testkit::{Needed, cases};
use libtest_mimic::{Arguments, Failed, Trial};

mod modules;
#[path = "actors_on_host/modules.rs"]
mod on_host;

use on_host::{
    every_operator_of_a_module_computes_the_same, generated_modules_compute_the_same,
    guests_of_rust_and_c_compute_the_same, imports_of_modules_do_the_same,
    modules_keep_asks_and_timers_the_same,
};

const COMPILER: &str = "c++";
const LIMIT: Duration = Duration::from_secs(300);

/// A test, with the folder that it writes to.
type HostCase = fn(&Path) -> Result<(), Failed>;

/// The scenarios of the programs.
const PROBE_CPP: &str = include_str!("actors_on_host/actor_probe.cpp");
const FAULTS_CPP: &str = include_str!("actors_on_host/actor_faults.cpp");
const SERVICES_CPP: &str = include_str!("actors_on_host/actor_services.cpp");
const GROUPS_CPP: &str = include_str!("actors_on_host/actor_groups.cpp");
const PARTS_CPP: &str = include_str!("actors_on_host/actor_parts.cpp");
const BROKER_CPP: &str = include_str!("actors_on_host/actor_broker.cpp");
const KEEPERS_CPP: &str = include_str!("actors_on_host/keepers.cpp");
const SHAPES_CPP: &str = include_str!("actors_on_host/actor_shapes.cpp");
const POOL_CPP: &str = include_str!("actors_on_host/pool.cpp");

const ALL: &[(&str, HostCase)] = cases![
    random_schedules_lose_no_message_and_no_slot,
    random_schedules_restart_and_undo_what_fails,
    random_schedules_lose_neither_events_nor_news,
    random_schedules_lend_actors_of_the_host_to_it,
    random_schedules_send_each_value_of_a_channel_once,
    random_schedules_hold_members_of_groups_until_the_host_decides,
    random_schedules_of_warps_lose_no_message_and_keep_their_order,
    random_schedules_of_warps_lose_neither_events_nor_news,
    random_schedules_of_warps_hold_members_of_groups_until_the_host_decides,
    random_schedules_of_warps_send_each_value_and_end_each_payload_once,
    random_schedules_keep_each_free_number_in_one_hand,
    random_schedules_tell_messages_apart_by_their_cells,
    news_that_no_call_has_sent_are_noticed,
    messages_that_are_traced_again_are_noticed,
    lanes_that_are_threads_have_no_data_race,
    stack_of_free_numbers_without_a_count_is_noticed,
    list_of_free_slots_that_others_have_changed_is_noticed,
    lane_that_leaves_its_warp_early_is_noticed,
    turn_that_goes_on_without_room_is_noticed,
    uninitialized_list_of_free_cells_is_noticed,
    undone_handler_whose_state_stays_is_noticed,
    undone_reply_whose_words_stay_is_noticed,
    restart_that_keeps_the_state_is_noticed,
    full_ring_that_drops_events_is_noticed,
    task_that_takes_another_bell_is_noticed,
    event_that_overtakes_the_outbox_is_noticed,
    end_that_is_not_reported_is_noticed,
    timer_whose_number_is_not_read_is_noticed,
    turn_that_goes_idle_with_news_is_noticed,
    activated_actor_that_does_not_look_at_its_news_is_noticed,
    news_for_the_slots_last_actor_are_noticed,
    news_that_come_back_in_another_order_are_noticed,
    turn_that_handles_what_it_lends_is_noticed,
    lent_actor_that_is_not_counted_is_noticed,
    list_that_the_host_does_not_see_is_noticed,
    sender_that_is_not_woken_by_the_host_is_noticed,
    reply_that_does_not_wait_for_the_outbox_is_noticed,
    stopped_actor_that_goes_on_is_noticed,
    held_member_that_is_not_counted_is_noticed,
    held_member_that_finds_no_place_in_the_ring_is_noticed,
    member_that_ends_without_a_decision_is_noticed,
    member_that_goes_on_before_the_decision_is_noticed,
    reset_that_keeps_the_state_is_noticed,
    message_that_is_handled_again_once_too_often_is_noticed,
    every_operator_of_a_module_computes_the_same,
    generated_modules_compute_the_same,
    imports_of_modules_do_the_same,
    modules_keep_asks_and_timers_the_same,
    guests_of_rust_and_c_compute_the_same,
    random_schedules_end_each_ask_that_is_kept,
    warp_that_reads_on_behind_its_handler_is_noticed,
    messages_of_lanes_to_one_receiver_side_by_side_are_noticed,
    messages_of_lanes_that_overtake_the_outbox_are_noticed,
    undone_call_whose_state_stays_is_noticed,
    undone_call_whose_messages_leave_is_noticed,
    free_cells_of_lanes_without_those_at_hand_are_noticed,
    dead_letters_of_lanes_that_are_not_shown_are_noticed,
    reply_of_a_lane_that_does_not_wait_for_the_host_is_noticed,
    full_ring_that_mutes_an_actor_of_warp_shape_is_noticed,
    news_that_a_call_leaves_behind_are_noticed,
    failed_call_that_is_not_marked_is_noticed,
    failed_call_whose_undone_replies_stay_is_noticed,
    undone_payloads_of_lanes_that_stay_are_noticed,
    kept_asks_that_do_not_end_with_their_actor_are_noticed,
    asks_that_a_restart_forgets_are_noticed,
    asks_that_a_member_forgets_when_it_goes_on_are_noticed,
    undone_reply_to_a_kept_ask_is_noticed,
    undone_timers_that_stay_are_noticed,
    timer_that_fires_after_it_was_cancelled_is_noticed,
    timers_that_stay_when_their_actor_ends_are_noticed,
    value_whose_handling_is_not_told_is_noticed,
    lists_outside_of_the_state_are_noticed,
    payload_that_ends_although_it_was_passed_on_is_noticed,
    payload_of_a_dead_letter_that_stays_is_noticed,
    undone_payload_that_stays_is_noticed,
    messages_that_find_no_room_and_do_not_go_back_are_noticed,
    sender_that_is_woken_twice_is_noticed,
    rows_that_two_tasks_deliver_are_noticed,
    rows_that_no_task_delivers_are_noticed,
    rows_that_overtake_one_that_does_not_fit_are_noticed,
    task_that_forgets_what_does_not_fit_is_noticed,
    messages_of_a_run_without_links_are_noticed,
];

fn main() {
    let args = Arguments::from_args();
    let found = Command::new(COMPILER).arg("--version").output();
    let needed = Needed::look("a C++ compiler", &found);
    // Each wrong change of the device's code takes a compiler some seconds. Every third is enough for a change of something else.
    let all = std::env::var_os("EVERWARP_ALL_CASES").is_some();
    let is_change = |name: &str| name.ends_with("_noticed");
    let mut changes = 0;
    let trials = ALL.iter().map(|&(name, case)| {
        let test = move || case(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        changes += u32::from(is_change(name));
        let left_out = !all && is_change(name) && changes % 3 != 0;
        needed.trial(Trial::test(name, test).with_ignored_flag(left_out))
    });
    libtest_mimic::run(&args, trials.collect()).exit();
}

fn random_schedules_lose_no_message_and_no_slot(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    run(&compile(folder, &["-O1"])?, 1, 400)
}

fn random_schedules_restart_and_undo_what_fails(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &FAULTS, FAULTS_CPP)?;
    run(&compile(folder, &["-O1"])?, 1, 400)
}

fn random_schedules_lose_neither_events_nor_news(folder: &Path) -> Result<(), Failed> {
    for (name, places) in [("few", 8), ("many", ACTOR_EVENTS)] {
        let folder = folder.join(name);
        write_services(&folder, places)?;
        run(&compile(&folder, &["-O1"])?, 1, 400)?;
    }
    Ok(())
}

fn random_schedules_send_each_value_of_a_channel_once(folder: &Path) -> Result<(), Failed> {
    for (name, places) in [("few", 8), ("many", ACTOR_EVENTS)] {
        let folder = folder.join(name);
        write_broker(&folder, places)?;
        run(&compile(&folder, &["-O1"])?, 1, 400)?;
    }
    Ok(())
}

fn random_schedules_lend_actors_of_the_host_to_it(folder: &Path) -> Result<(), Failed> {
    for (name, places) in [("few", 8), ("many", ACTOR_EVENTS)] {
        let folder = folder.join(name);
        write_parts(&folder, places)?;
        run(&compile(&folder, &["-O1"])?, 1, 400)?;
    }
    Ok(())
}

fn random_schedules_hold_members_of_groups_until_the_host_decides(
    folder: &Path,
) -> Result<(), Failed> {
    for (name, places) in [("few", 8), ("many", ACTOR_EVENTS)] {
        let folder = folder.join(name);
        write_groups(&folder, places)?;
        run(&compile(&folder, &["-O1"])?, 1, 400)?;
    }
    Ok(())
}

/// A warp here has four lanes, so that a call has up to four messages, and a block has one warp.
fn random_schedules_of_warps_lose_no_message_and_keep_their_order(
    folder: &Path,
) -> Result<(), Failed> {
    write_sources(folder, &SHAPES, SHAPES_CPP)?;
    run(&compile(folder, &["-O1"])?, 1, 400)
}

/// Runs the scenarios of services with actors of warp and of block shape, and with rings of few and of many places.
fn run_wide(folder: &Path, programs: [&ActorProgram; 2], scenarios: &str) -> Result<(), Failed> {
    for program in programs {
        for places in [8, ACTOR_EVENTS] {
            let folder = folder.join(format!("{}_{places}", program.name));
            write_sources(&folder, program, scenarios)?;
            shorten_ring(&folder, places)?;
            run(&compile(&folder, &["-O1"])?, 1, 400)?;
        }
    }
    Ok(())
}

fn random_schedules_of_warps_lose_neither_events_nor_news(folder: &Path) -> Result<(), Failed> {
    let programs: [&ActorProgram; 2] = [&actor_services::WARPS, &actor_services::BLOCKS];
    run_wide(folder, programs, SERVICES_CPP)
}

fn random_schedules_of_warps_hold_members_of_groups_until_the_host_decides(
    folder: &Path,
) -> Result<(), Failed> {
    let programs: [&ActorProgram; 2] = [&actor_groups::WARPS, &actor_groups::BLOCKS];
    run_wide(folder, programs, GROUPS_CPP)
}

/// Together with actors of lane shape that keep asks.
fn random_schedules_of_warps_send_each_value_and_end_each_payload_once(
    folder: &Path,
) -> Result<(), Failed> {
    let programs: [&ActorProgram; 2] = [&actor_broker::WARPS, &actor_broker::BLOCKS];
    run_wide(folder, programs, BROKER_CPP)
}

fn random_schedules_keep_each_free_number_in_one_hand(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, POOL_CPP)?;
    run(&compile(folder, &["-O1"])?, 1, 400)
}

/// Writes the sources of scenarios with services, whose ring for the host has this many places.
type Sources = fn(&Path, u32) -> Result<(), Failed>;

/// Runs schedules of all scenarios without services, and of these with services.
fn run_all(
    folder: &Path,
    flags: &[&str],
    scenarios: u64,
    with_services: &[(&str, Sources)],
) -> Result<(), Failed> {
    for (name, program, texts) in [
        ("probe", &PROBE, PROBE_CPP),
        ("faults", &FAULTS, FAULTS_CPP),
        ("shapes", &SHAPES, SHAPES_CPP),
    ] {
        let folder = folder.join(name);
        write_sources(&folder, program, texts)?;
        run(&compile(&folder, flags)?, 1, scenarios)?;
    }
    for (name, write) in with_services {
        let folder = folder.join(name);
        write(&folder, 8)?;
        run(&compile(&folder, flags)?, 1, scenarios)?;
    }
    Ok(())
}

/// What a trace knows a message by, which its sender and the turn that handles it know without a word from each other.
fn random_schedules_tell_messages_apart_by_their_cells(folder: &Path) -> Result<(), Failed> {
    let with_services: [(_, Sources); 6] = [
        ("services", write_services),
        ("parts", write_parts),
        ("groups", write_groups),
        ("broker", write_broker),
        ("services of warps", write_wide_services),
        ("groups of warps", write_wide_groups),
    ];
    run_all(folder, &["-O1", "-DTRACED"], 200, &with_services)
}

/// News, such as the message of a timer, are sent in a cell, too.
fn news_that_no_call_has_sent_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_services(folder, 8)?;
    let traces = "  trace_sends(s->cells + cell);\n";
    is_noticed_when_traced(folder, "news.cuh", traces, "")
}

/// A message whose handler has failed is handled again when the host lets its actor go on.
fn messages_that_are_traced_again_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_groups(folder, 8)?;
    let right = "trace_takes(left != K::retries ? nullptr : a.cells + at)";
    is_noticed_when_traced(folder, "turn.cuh", right, "trace_takes(a.cells + at)")
}

/// A stack whose first number came back is not the same as before.
fn stack_of_free_numbers_without_a_count_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, POOL_CPP)?;
    let right =
        "u64 now = compare_exchange(head, seen, ((seen >> 32) + 1) << 32 | link, acq_rel, gpu);";
    let wrong = "u64 now = compare_exchange(head, seen, seen >> 32 << 32 | link, acq_rel, gpu);";
    let file = folder.join("everwarp/actor/mailbox.cuh");
    let text = std::fs::read_to_string(&file)?;
    let put = "((seen >> 32) + 1) << 32 | (first + 1)";
    assert!(text.contains(put), "`{put}` has another form now");
    std::fs::write(&file, text.replace(put, "seen >> 32 << 32 | (first + 1)"))?;
    is_noticed(folder, "mailbox.cuh", right, wrong, 400)
}

/// The links of a list are read before it is taken.
fn list_of_free_slots_that_others_have_changed_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, POOL_CPP)?;
    let right =
        "u64 now = compare_exchange(head, seen, ((seen >> 32) + 1) << 32 | rest, acq_rel, gpu);";
    let wrong = "u64 now = seen; exchange(head, ((seen >> 32) + 1) << 32 | rest, acq_rel, gpu);";
    is_noticed(folder, "mailbox.cuh", right, wrong, 400)
}

/// Lanes that ran together look together how many go on.
fn lane_that_leaves_its_warp_early_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    is_noticed(
        folder,
        "turn.cuh",
        "if (!more) continue;",
        "if (!more) break;",
        40,
    )
}

/// Messages leave an outbox together, as far as there is room for them.
fn messages_that_find_no_room_and_do_not_go_back_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    is_noticed(folder, "mailbox.cuh", "outbox = at;", "", 400)
}

/// A turn wakes several senders, and leaves the others to the last of them.
fn sender_that_is_woken_twice_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    let right = "store(link, 0, relaxed, gpu);\n  return actor_wake(slots, rest);";
    let wrong = "return actor_wake(slots, rest);";
    is_noticed(folder, "mailbox.cuh", right, wrong, 400)
}

/// A run of messages of the host belongs to the task that has its first row.
fn rows_that_two_tasks_deliver_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    let right = "bool skips = first != 0 && !goes_on,";
    is_noticed(folder, "tell.cuh", right, "bool skips = false,", 400)
}
fn rows_that_no_task_delivers_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    let right = "if (row >= rows || (behind && skips)) break;";
    let wrong = "if (row >= rows || (behind && !goes_on)) break;";
    is_noticed(folder, "tell.cuh", right, wrong, 400)
}
/// A message that does not fit keeps those after it back, also in the next warp of rows and in the next task.
fn rows_that_overtake_one_that_does_not_fit_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    let right = "const bool sends = mine && !(stays && lane < alike);";
    is_noticed(folder, "tell.cuh", right, "const bool sends = mine;", 400)
}
fn task_that_forgets_what_does_not_fit_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    let right = "TELL_GOES_ON | (stays ? TELL_STAYS : 0)";
    is_noticed(folder, "tell.cuh", right, "TELL_GOES_ON", 2000)
}
fn messages_of_a_run_without_links_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    let right = "if (sends && !begins) store";
    is_noticed(folder, "tell.cuh", right, "if (false) store", 400)
}

/// A turn that has less room than one message needs could queue more turns than there is room for.
fn turn_that_goes_on_without_room_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &FAULTS, FAULTS_CPP)?;
    let right = "a.room >= a.needs && (done == 0";
    is_noticed(folder, "turn.cuh", right, "(done == 0", 400)
}

fn lanes_that_are_threads_have_no_data_race(folder: &Path) -> Result<(), Failed> {
    // A fence that orders an ask's end before its count, which ThreadSanitizer does not know.
    let flags = ["-O1", "-DTHREADS", "-fsanitize=thread", "-Wno-tsan"];
    let with_services: [(_, Sources); 3] = [
        ("parts", write_parts),
        ("groups", write_groups),
        ("services", write_services),
    ];
    run_all(folder, &flags, 60, &with_services)
}

/// The scenarios notice the defect that made actors wrong on GPUs at first.
fn uninitialized_list_of_free_cells_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &PROBE, PROBE_CPP)?;
    let right = "spare_first(0)";
    is_noticed(folder, "actor.cuh", right, "spare_first(1)", 4)
}

fn undone_handler_whose_state_stays_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &FAULTS, FAULTS_CPP)?;
    let right = "actor_remember(&a.system, a.number, K::state, true);";
    is_noticed(folder, "turn.cuh", right, "", 40)
}

fn undone_reply_whose_words_stay_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &FAULTS, FAULTS_CPP)?;
    let right = "if (kept != NONE && replied)";
    is_noticed(folder, "actor.cuh", right, "if (false)", 40)
}

fn restart_that_keeps_the_state_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &FAULTS, FAULTS_CPP)?;
    let right = "K::atomic ? 0 : K::state";
    is_noticed(folder, "turn.cuh", right, "0", 40)
}

fn full_ring_that_drops_events_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (group == REPORT_FULL) return false;";
    let wrong = "if (group == REPORT_FULL) return true;";
    is_noticed_of_services(folder, "actor.cuh", right, wrong)
}

/// The first scenarios found this one.
fn task_that_takes_another_bell_is_noticed(folder: &Path) -> Result<(), Failed> {
    let own = "(u64)group + 1";
    let right = format!("compare_exchange(&c->bell, {own}, (u64)0, acq_rel, gpu) == {own}");
    let wrong = "exchange(&c->bell, (u64)0, acq_rel, gpu) != 0";
    is_noticed_of_services(folder, "host.cuh", &right, wrong)
}

fn event_that_overtakes_the_outbox_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "void report(u64 to, u32 at) { keep(to, at); }";
    let early =
        "store(&cells[at].to, to, relaxed, gpu); if (reported(at)) free(at); else keep(to, at);";
    let wrong = format!("void report(u64 to, u32 at) {{ {early} }}");
    is_noticed_of_services(folder, "actor.cuh", right, &wrong)
}

fn end_that_is_not_reported_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "else a.turn(fn_of(a.t.task.head), a.number, TURN_REPORTS | ending << 8);";
    is_noticed_of_services(folder, "turn.cuh", right, "else actor_retire(a);")
}

/// Periodic timers on an H200 found this one, since their message has one word.
fn timer_whose_number_is_not_read_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "MESSAGE_ASK | MESSAGE_REPLY | MESSAGE_TIMER";
    let wrong = "MESSAGE_ASK | MESSAGE_REPLY";
    is_noticed_of_services(folder, "actor.cuh", right, wrong)
}

fn turn_that_goes_idle_with_news_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (f.finished == FINISHED_IDLE && (load";
    is_noticed_of_services(folder, "turn.cuh", right, "if (false && (load")
}

fn activated_actor_that_does_not_look_at_its_news_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (which == SIGNAL_RESUME && signalled";
    is_noticed_of_services(folder, "host.cuh", right, "if (false && signalled")
}

fn news_for_the_slots_last_actor_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right =
        "bool own = load(&s->cells[at - 1].to, relaxed, gpu) == actor_id(number, generation);";
    is_noticed_of_services(folder, "news.cuh", right, "bool own = true;")
}

fn news_that_come_back_in_another_order_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "u32 list = actor_turn_round(s->cells, news);";
    is_noticed_of_services(folder, "news.cuh", right, "u32 list = news;")
}

fn turn_that_handles_what_it_lends_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "open = open && (ends || a.stopping);";
    is_noticed_of_parts(folder, "turn.cuh", right, "")
}

fn lent_actor_that_is_not_counted_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "add(pending, 1u, relaxed, gpu);";
    is_noticed_of_parts(folder, "lend.cuh", right, "")
}

fn list_that_the_host_does_not_see_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "  store(&slot->front, front, relaxed, gpu);\n  store(&slot->outbox_first";
    is_noticed_of_parts(folder, "lend.cuh", right, "  store(&slot->outbox_first")
}

fn sender_that_is_not_woken_by_the_host_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "return mail_has(seen, MAIL_WAIT) ? actor_release(s->slots, slot) : NONE;";
    is_noticed_of_parts(folder, "part.cuh", right, "return NONE;")
}

fn reply_that_does_not_wait_for_the_outbox_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "u32 outbox = load(&slot->outbox_first, relaxed, gpu);";
    is_noticed_of_parts(folder, "part.cuh", right, "u32 outbox = 0;")
}

fn stopped_actor_that_goes_on_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "fetch_or(&slot->mail, mail_flag(MAIL_KILL), relaxed, gpu);";
    is_noticed_of_parts(folder, "part.cuh", right, "")
}

fn held_member_that_is_not_counted_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "  add(pending, 1u, relaxed, gpu);";
    is_noticed_of_groups(folder, "hold.cuh", right, "")
}

fn held_member_that_finds_no_place_in_the_ring_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (bell == REPORT_DONE) return;";
    let wrong = "if (bell == REPORT_DONE || bell == REPORT_FULL) return;";
    is_noticed_of_groups(folder, "hold.cuh", right, wrong)
}

fn member_that_ends_without_a_decision_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "(load(&slot->notes, relaxed, gpu) & NOTE_SUPERVISED) != 0) {";
    is_noticed_of_groups(folder, "mailbox.cuh", right, "false) {")
}

fn member_that_goes_on_before_the_decision_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if constexpr (K::services) open = open && !a.failed;";
    is_noticed_of_groups(folder, "turn.cuh", right, "")
}

fn reset_that_keeps_the_state_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (resets && clears != RESETS_CLEAR_NOTHING) actor_clear(s, number, clears);";
    is_noticed_of_groups(folder, "news.cuh", right, "")
}

fn message_that_is_handled_again_once_too_often_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "store(&a.cells[at].to, (u64)left, relaxed, gpu);";
    let wrong = "store(&a.cells[at].to, (u64)left + 1, relaxed, gpu);";
    is_noticed_of_groups(folder, "hold.cuh", right, wrong)
}

fn random_schedules_end_each_ask_that_is_kept(folder: &Path) -> Result<(), Failed> {
    for (name, places) in [("few", 8), ("many", ACTOR_EVENTS)] {
        let folder = folder.join(name);
        write_keepers(&folder, places)?;
        run(&compile(&folder, &["-O1", "-fno-strict-aliasing"])?, 1, 400)?;
    }
    // As threads.
    let folder = folder.join("threads");
    write_keepers(&folder, 8)?;
    let flags = ["-O1", "-DTHREADS", "-fsanitize=thread", "-Wno-tsan"];
    run(&compile(&folder, &flags)?, 1, 60)
}

/// The cell of an ask has something else in its place once the handler has replied.
fn warp_that_reads_on_behind_its_handler_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "then = __shfl_sync(ALL, newer, (lane + count) % WARP);";
    let wrong = "then = __shfl_sync(ALL, own != 0 ? (u32)load(&a.cells[own - 1].to, relaxed, gpu) : 0, (lane + count) % WARP);";
    is_noticed_of_shapes(folder, "wide_turn.cuh", right, wrong)
}

fn messages_of_lanes_to_one_receiver_side_by_side_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "(__match_any_sync(ALL, to) & waiting & ((1u << lane) - 1)) == 0 && at != NONE";
    is_noticed_of_shapes(folder, "wide.cuh", right, "at != NONE")
}

fn messages_of_lanes_that_overtake_the_outbox_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "blocked = a.outbox_first != 0;";
    is_noticed_of_shapes(folder, "wide.cuh", right, "blocked = false;")
}

fn undone_call_whose_state_stays_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (undone) wide_remember(&a.system, a.number, K::state, true);";
    is_noticed_of_shapes(folder, "wide_turn.cuh", right, "")
}

fn undone_call_whose_messages_leave_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "wide_let_out(a, lane, undone);";
    is_noticed_of_shapes(
        folder,
        "wide_turn.cuh",
        right,
        "wide_let_out(a, lane, false);",
    )
}

fn free_cells_of_lanes_without_those_at_hand_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "above != 0 ? next + 1 : rest, relaxed";
    is_noticed_of_shapes(
        folder,
        "wide.cuh",
        right,
        "above != 0 ? next + 1 : 0, relaxed",
    )
}

fn dead_letters_of_lanes_that_are_not_shown_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_wide_services(folder, 8)?;
    let right = "|| (reason != NONE && a.shows())";
    is_noticed(folder, "wide.cuh", right, "", 400)
}

/// The host knows whether a reply comes before the deadline of its ask.
fn reply_of_a_lane_that_does_not_wait_for_the_host_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_wide_services(folder, 8)?;
    let right = "(reply & MESSAGE_DEADLINE) != 0 ? reply | EVENT_ANSWER << EVENT_SHIFT : reply";
    is_noticed(folder, "wide.cuh", right, "reply", 400)
}

fn full_ring_that_mutes_an_actor_of_warp_shape_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_wide_services(folder, 8)?;
    let right = "if (K::services && blocks == HOST_FULL) {";
    is_noticed(folder, "wide_turn.cuh", right, "if (false) {", 400)
}

fn news_that_a_call_leaves_behind_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_wide_services(folder, 8)?;
    let right = "else actor_return_news(&system, a.number, news);";
    is_noticed(folder, "wide_turn.cuh", right, "", 400)
}

/// The messages of a call that has failed are handled again together, and as often as their kind says.
fn failed_call_that_is_not_marked_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_wide_groups(folder, 8)?;
    is_noticed(
        folder,
        "wide_turn.cuh",
        "head | MESSAGE_AGAIN,",
        "head,",
        400,
    )
}

fn failed_call_whose_undone_replies_stay_is_noticed(folder: &Path) -> Result<(), Failed> {
    write_wide_groups(folder, 8)?;
    let right = "if (back != kept) actor_copy(a.cells, kept, back);";
    is_noticed(folder, "wide_turn.cuh", right, "", 400)
}

fn undone_payloads_of_lanes_that_stay_are_noticed(folder: &Path) -> Result<(), Failed> {
    write_sources(folder, &actor_broker::WARPS, BROKER_CPP)?;
    shorten_ring(folder, 8)?;
    let right = "store(&a.cells[a.payload_cell].head, a.message.head, relaxed, gpu);";
    is_noticed(folder, "wide.cuh", right, "", 400)
}

/// The sources of `actor_services` with actors of warp shape, with a ring of this many places.
fn write_wide_services(folder: &Path, places: u32) -> Result<(), Failed> {
    write_sources(folder, &actor_services::WARPS, SERVICES_CPP)?;
    shorten_ring(folder, places)
}
/// The same of `actor_groups`.
fn write_wide_groups(folder: &Path, places: u32) -> Result<(), Failed> {
    write_sources(folder, &actor_groups::WARPS, GROUPS_CPP)?;
    shorten_ring(folder, places)
}

fn kept_asks_that_do_not_end_with_their_actor_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (!kept_end_all(a, true)) {";
    is_noticed_of_keepers(folder, "turn.cuh", right, "if (false) {")
}

fn asks_that_a_restart_forgets_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "kept_lose(a.cells, a.list_words(), lists, KEPT_LOST);";
    is_noticed_of_keepers(folder, "turn.cuh", right, "{}")
}

fn asks_that_a_member_forgets_when_it_goes_on_are_noticed(folder: &Path) -> Result<(), Failed> {
    let marks = "fails ? KEPT_LOST : KEPT_LOST | KEPT_ENDED";
    let right = format!("if (clears != 0) kept_lose(a.cells, a.list_words(), lists, {marks});");
    is_noticed_of_keepers(folder, "hold.cuh", &right, "")
}

fn undone_reply_to_a_kept_ask_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "store(head, load(head, relaxed, gpu) & ~KEPT_MARKED, relaxed, gpu);";
    is_noticed_of_keepers(folder, "kept.cuh", right, "")
}

fn undone_timers_that_stay_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "actor_give_cells(&a.system, kept_undo(a.cells, a.list_words(), lists));";
    let wrong = "kept_undo(a.cells, a.list_words(), lists);";
    is_noticed_of_keepers(folder, "turn.cuh", right, wrong)
}

fn timer_that_fires_after_it_was_cancelled_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if (found == 0) return false;";
    is_noticed_of_keepers(folder, "kept.cuh", right, "if (found == 0) return true;")
}

fn timers_that_stay_when_their_actor_ends_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "actor_give_cells(&a.system, kept_clear_timers(a.list_words()));";
    is_noticed_of_keepers(folder, "turn.cuh", right, "")
}

fn is_noticed_of_keepers(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
) -> Result<(), Failed> {
    write_keepers(folder, 8)?;
    is_noticed(folder, header, right, wrong, 400)
}

fn value_whose_handling_is_not_told_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "if ((a.message.head & (MESSAGE_TICK | MESSAGE_VALUE)) != 0) a.tick();";
    is_noticed_of_broker(folder, "turn.cuh", right, "")
}

fn lists_outside_of_the_state_are_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "K::services, K::lists, K::lists_at);";
    is_noticed_of_broker(
        folder,
        "turn.cuh",
        right,
        "K::services, K::lists, K::state);",
    )
}

fn payload_that_ends_although_it_was_passed_on_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "store(&cells[payload_cell].head, message.head, relaxed, gpu);\n  }";
    is_noticed_of_broker(folder, "actor.cuh", right, "}")
}

fn payload_of_a_dead_letter_that_stays_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right =
        "if (shows() || serves && (load(&cells[at].head, relaxed, gpu) & MESSAGE_PAYLOAD) != 0)";
    is_noticed_of_broker(folder, "actor.cuh", right, "if (shows())")
}

fn undone_payload_that_stays_is_noticed(folder: &Path) -> Result<(), Failed> {
    let right = "message.head |= MESSAGE_PAYLOAD;";
    is_noticed_of_broker(folder, "actor.cuh", right, "")
}

fn is_noticed_of_broker(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
) -> Result<(), Failed> {
    write_broker(folder, 8)?;
    is_noticed(folder, header, right, wrong, 400)
}

/// The sources of `actor_broker`, with a ring of this many places.
fn write_broker(folder: &Path, places: u32) -> Result<(), Failed> {
    write_sources(folder, &BROKERS, BROKER_CPP)?;
    shorten_ring(folder, places)
}

/// The sources of modules that keep asks, with a ring of this many places.
fn write_keepers(folder: &Path, places: u32) -> Result<(), Failed> {
    write_sources(folder, &modules::keepers(), KEEPERS_CPP)?;
    shorten_ring(folder, places)
}

fn is_noticed_of_parts(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
) -> Result<(), Failed> {
    write_parts(folder, 8)?;
    is_noticed(folder, header, right, wrong, 400)
}

fn is_noticed_of_groups(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
) -> Result<(), Failed> {
    write_groups(folder, 8)?;
    is_noticed(folder, header, right, wrong, 400)
}

fn is_noticed_of_services(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
) -> Result<(), Failed> {
    write_services(folder, 8)?;
    is_noticed(folder, header, right, wrong, 400)
}

/// The sources of `actor_services`, with a ring of this many places.
fn write_services(folder: &Path, places: u32) -> Result<(), Failed> {
    write_sources(folder, &SERVICES, SERVICES_CPP)?;
    shorten_ring(folder, places)
}
/// The same with a kind for actors of the host.
fn write_parts(folder: &Path, places: u32) -> Result<(), Failed> {
    write_sources(folder, &PARTS, PARTS_CPP)?;
    shorten_ring(folder, places)
}

/// The sources of `actor_groups`.
fn write_groups(folder: &Path, places: u32) -> Result<(), Failed> {
    write_sources(folder, &GROUPS, GROUPS_CPP)?;
    shorten_ring(folder, places)
}

/// Gives the ring of events of the sources this many places.
fn shorten_ring(folder: &Path, places: u32) -> Result<(), Failed> {
    let contract = folder.join("everwarp/contract.cuh");
    let text = std::fs::read_to_string(&contract)?;
    let right = format!("ACTOR_EVENTS = {ACTOR_EVENTS:#x}u");
    assert!(text.contains(&right), "`{right}` has another form now");
    let wanted = format!("ACTOR_EVENTS = {places:#x}u");
    Ok(std::fs::write(&contract, text.replace(&right, &wanted))?)
}

fn is_noticed_of_shapes(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
) -> Result<(), Failed> {
    write_sources(folder, &SHAPES, SHAPES_CPP)?;
    is_noticed(folder, header, right, wrong, 400)
}

/// Replaces a part of a header that the sources have; the scenarios must not pass.
fn is_noticed(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
    scenarios: u64,
) -> Result<(), Failed> {
    change(folder, header, right, wrong)?;
    // The compiler takes longer than the first scenarios that fail.
    fails(&compile(folder, &["-O0"])?, scenarios)
}

/// The same, where what a trace has about messages is audited.
fn is_noticed_when_traced(
    folder: &Path,
    header: &str,
    right: &str,
    wrong: &str,
) -> Result<(), Failed> {
    change(folder, header, right, wrong)?;
    fails(&compile(folder, &["-O0", "-DTRACED"])?, 400)
}

fn change(folder: &Path, header: &str, right: &str, wrong: &str) -> Result<(), Failed> {
    let file = folder.join("everwarp/actor").join(header);
    let text = std::fs::read_to_string(&file)?;
    assert!(text.contains(right), "`{right}` has another form now");
    Ok(std::fs::write(&file, text.replace(right, wrong))?)
}

fn fails(program: &Path, scenarios: u64) -> Result<(), Failed> {
    match run(program, 1, scenarios) {
        Ok(()) => Err("the scenarios passed".into()),
        Err(_) => Ok(()),
    }
}

/// Writes what an image of the program contains, with the engine replaced by `block.cuh`.
fn write_sources(folder: &Path, actors: &ActorProgram, scenarios: &str) -> Result<(), Failed> {
    let image = Image::of(vec![actors.program()]);
    // Few stacks of free numbers: they are used again soon.
    let shards = format!("ACTOR_SHARDS = {ACTOR_SHARDS:#x}u");
    // A task delivers few messages: there are several, and some go on.
    let rows = format!("TELL_ROWS = {TELL_ROWS:#x}u");
    let more = format!("TELL_MORE = {TELL_MORE:#x}u");
    for (name, text) in source(&image).headers {
        let parts = ["everwarp/contract.cuh", "everwarp/actor/", "everwarp/wasm/"];
        if parts.iter().any(|part| name.starts_with(part)) {
            let text = text.replace(&shards, "ACTOR_SHARDS = 0x4u");
            let text = text.replace(&rows, "TELL_ROWS = 0x8u");
            let text = text.replace(&more, "TELL_MORE = 0x2u");
            write(&folder.join(name), &text)?;
        }
    }
    write(
        &folder.join("everwarp/block/block.cuh"),
        include_str!("actors_on_host/block.cuh"),
    )?;
    write(
        &folder.join("everwarp/atomic.cuh"),
        "#include \"everwarp/block/block.cuh\"\n",
    )?;
    // Nothing is measured; what is traced, the world looks at.
    for header in ["measure", "trace"] {
        write(
            &folder.join(format!("everwarp/warp/{header}.cuh")),
            "#include \"everwarp/block/block.cuh\"\n",
        )?;
    }
    write(
        &folder.join("world.h"),
        include_str!("actors_on_host/world.h"),
    )?;
    write(&folder.join("scenarios.cpp"), scenarios)?;
    let kinds = &actors.kinds;
    let bound = |kind: &Kind| match kind.keeps_latest {
        true => MAIL_COUNT_MAX.to_string(),
        false => kind.bound.to_string(),
    };
    let mut unit = String::from("#include \"everwarp/block/block.cuh\"\n");
    let (mut cases, mut wide) = (String::new(), String::from("false"));
    for (id, program, function) in image.functions() {
        let name = format!(
            "{}_{}",
            identifier(&program.name),
            identifier(&function.name)
        );
        writeln!(unit, "constexpr u32 FN_{name} = {id};")?;
        let called = format!("{}_{}", identifier(&program.name), function.device_name());
        let call = match function.shape {
            Shape::Lane => format!("{called}(t, s);"),
            shape => {
                write!(wide, " || fn == FN_{name}")?;
                format!("{{ ew::{shape:?} w{{t, ew::lane_id()}}; {called}(w, s); t = w; }}")
            }
        };
        writeln!(
            cases,
            "    case FN_{name}: t.limit = ew::lanes_room({}, {}); {call} return;",
            function.least_room, function.max_spawn
        )?;
    }
    for program in &image.programs {
        program.params.write_once(&mut unit)?;
        unit.push_str(&program.device_source);
    }
    // Where each state has what its actor keeps: that of a module in front.
    let keeps = |kind: &Kind| match kind.device() {
        Some(device) => device.lists.then_some(0),
        None => kind.keeps.then_some(kind.state_bytes.next_multiple_of(16)),
    };
    if kinds.iter().any(|kind| keeps(kind).is_some()) {
        let keeps = kinds.iter().map(|kind| match keeps(kind) {
            Some(at) => at.to_string(),
            None => "ew::NONE".to_owned(),
        });
        let keeps = keeps.collect::<Vec<_>>().join(", ");
        writeln!(unit, "#define KEEPS {{{keeps}}}")?;
    }
    if kinds.iter().any(|kind| kind.device().is_some()) {
        for message in actors.messages() {
            let (name, tag) = (identifier(&message.name), message.tag);
            // The same each time.
            writeln!(
                unit,
                "#ifndef TAG_{name}\n#define TAG_{name}\nconstexpr u32 tag_{name} = {tag};\n#endif"
            )?;
        }
    }
    writeln!(
        unit,
        "static bool is_wide(u32 fn) {{ return {wide}; }}\n\
         static void dispatch(u32 fn, ew::Lane& t, const DevActors& s) {{\n  switch (fn) {{\n{cases}  }}\n}}\n\
         constexpr u32 FIRST = FN_{}_{}, KINDS = {}, STATE_BYTES = {};\n\
         #define BOUNDS {{{}}}\n#include \"scenarios.cpp\"",
        identifier(&actors.name),
        identifier(&format!("{}_turn", kinds[0].name)),
        kinds.len(),
        kinds
            .iter()
            .map(|kind| kind
                .device()
                .map_or(kind.state_bytes, |device| device.state_bytes)
                .next_multiple_of(16)
                + if kind.keeps { KEPT_BYTES } else { 0 })
            .max()
            .unwrap_or(0),
        kinds.iter().map(bound).collect::<Vec<_>>().join(", "),
    )?;
    write(&folder.join("unit.cpp"), &unit)
}

fn write(path: &Path, text: &str) -> Result<(), Failed> {
    std::fs::create_dir_all(path.parent().expect("it has a folder"))?;
    Ok(std::fs::write(path, text)?)
}

fn compile(folder: &Path, flags: &[&str]) -> Result<PathBuf, Failed> {
    let program = folder.join("lanes");
    let mut command = Command::new(COMPILER);
    command
        .current_dir(folder)
        // The offsets are checked by another compiler's builtin.
        .args(["-std=c++20", "-Dstatic_assert(x...)=", "-w", "-I."])
        .args(flags)
        .args(["-pthread", "unit.cpp", "-o"])
        .arg(&program);
    everwarp_testkit::run(&mut command, LIMIT)?.success()?;
    Ok(program)
}

fn run(program: &Path, seed: u64, scenarios: u64) -> Result<(), Failed> {
    let mut command = Command::new(program);
    command.args([seed.to_string(), scenarios.to_string()]);
    Ok(everwarp_testkit::run(&mut command, LIMIT)?
        .success()
        .map(drop)?)
}
