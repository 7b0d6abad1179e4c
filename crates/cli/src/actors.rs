//! `everwarp actors`: lists the actors of running engines, describes one, and gives it orders.

use everwarp_telemetry::control::{Answer, Request};
use everwarp_telemetry::registry::Order;
use everwarp_telemetry::view::{ActorRow, SystemView};
use serde::Serialize;

use crate::control::{ControlError, Folder, chosen, list, look, programs, request};
use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct ActorsArgs {
    /// Describe this actor, with the bytes of its state: SLOT.GENERATION, as the list shows it.
    #[arg(value_name = "ACTOR", value_parser = actor)]
    actor: Option<String>,
    /// Show only the actors of the program with this process id.
    #[arg(long, value_name = "N")]
    engine: Option<u32>,
    /// The system, if a program has several.
    #[arg(long, value_name = "N")]
    system: Option<u32>,
    /// The largest number of actors to show of each system: those that have handled the most messages.
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: u32,
    /// Let the actor keep its messages and handle none.
    #[arg(long, requires = "actor", conflicts_with_all = ["activate", "stop", "kill"])]
    deactivate: bool,
    /// Let the actor handle messages again.
    #[arg(long, requires = "actor", conflicts_with_all = ["stop", "kill"])]
    activate: bool,
    /// End the actor when it has handled the messages that wait.
    #[arg(long, requires = "actor", conflicts_with = "kill")]
    stop: bool,
    /// End the actor now.
    #[arg(long, requires = "actor")]
    kill: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn actor(text: &str) -> Result<String, String> {
    let parts = text.split_once('.');
    match parts.is_some_and(|(slot, generation)| {
        slot.parse::<u32>().is_ok() && generation.parse::<u32>().is_ok()
    }) {
        true => Ok(text.to_owned()),
        false => Err("an actor is SLOT.GENERATION, for example 7.1".to_owned()),
    }
}

/// The output of `actors --json`.
#[derive(Debug, Serialize)]
struct ActorsReport {
    systems: Vec<SystemOf>,
}

/// A system, and the program that has it.
#[derive(Debug, Serialize)]
struct SystemOf {
    os_pid: u32,
    #[serde(flatten)]
    system: SystemView,
}

/// `everwarp actors`.
pub(crate) fn actors(args: &ActorsArgs) -> Result<(), CliError> {
    let folder = Folder::of_user();
    let all = programs(&folder)?;
    if all.is_empty() {
        return Err(ControlError::NoEngine.into());
    }
    let most = if args.actor.is_some() { 0 } else { args.most };
    let mut systems = Vec::new();
    for os_pid in chosen(all, args.engine)? {
        let program = look(&folder, os_pid, most)?;
        let own = program.into_iter().flat_map(|program| program.systems);
        let own = own.filter(|system| args.system.is_none_or(|number| number == system.number));
        systems.extend(own.map(|system| SystemOf { os_pid, system }));
    }
    match &args.actor {
        Some(id) => one(args, &folder, &systems, id),
        None if args.json => print_json(&ActorsReport { systems }),
        None => print(&describe(&systems)),
    }
}

fn order(args: &ActorsArgs) -> Option<Order> {
    let orders = [
        (args.deactivate, Order::Deactivate),
        (args.activate, Order::Activate),
        (args.stop, Order::Stop),
        (args.kill, Order::Kill),
    ];
    orders
        .into_iter()
        .find_map(|(given, order)| given.then_some(order))
}

/// Describes one actor, or gives it an order.
fn one(args: &ActorsArgs, folder: &Folder, systems: &[SystemOf], id: &str) -> Result<(), CliError> {
    let system = match systems {
        [] => return Err(ControlError::NoActors.into()),
        [system] => system,
        several => {
            let known: Vec<u32> = several.iter().map(|system| system.os_pid).collect();
            return Err(ControlError::WhichSystem {
                known: list(&known),
            }
            .into());
        }
    };
    let (os_pid, source) = (system.os_pid, Some(system.system.number));
    let missing = || ControlError::NoActor {
        engine: os_pid,
        id: id.to_owned(),
    };
    if let Some(order) = order(args) {
        let order = Request::Order {
            source,
            target: id.to_owned(),
            order,
        };
        return match request(folder, os_pid, &order)? {
            Some(Answer::Done) => Ok(()),
            Some(Answer::NoTarget) | None => Err(missing().into()),
            Some(_) => Err(ControlError::OtherAnswer { engine: os_pid }.into()),
        };
    }
    let asked = Request::Actor {
        source,
        id: id.to_owned(),
    };
    match request(folder, os_pid, &asked)? {
        Some(Answer::Actor(actor)) if args.json => print_json(&actor),
        Some(Answer::Actor(actor)) => print(&describe_one(&actor)),
        Some(Answer::NoTarget) | None => Err(missing().into()),
        Some(_) => Err(ControlError::OtherAnswer { engine: os_pid }.into()),
    }
}

fn describe_one(actor: &ActorRow) -> String {
    let parent = actor.parent.as_deref().unwrap_or("the host");
    let content = actor.content.as_deref().unwrap_or_default();
    let lines: Vec<_> = content
        .as_bytes()
        .chunks(64)
        .map(|part| String::from_utf8_lossy(part))
        .collect();
    format!(
        "actor {} of kind {}: {}\n  launched by {parent}, {} messages wait, {} handled\n  state: {}",
        actor.id,
        actor.kind,
        actor.state,
        actor.waiting,
        actor.handled,
        lines.join("\n         ")
    )
}

fn describe(systems: &[SystemOf]) -> String {
    if systems.is_empty() {
        return "no engine has actors".to_owned();
    }
    let mut text = Vec::new();
    for SystemOf { os_pid, system } in systems {
        text.push(format!(
            "program {os_pid}, system {}: {} on {}, {} of {} actors live: {}",
            system.number,
            system.program,
            system.engine,
            system.live,
            system.limit,
            system.health.state
        ));
        for kind in &system.kinds {
            let reason = match kind.health.reason.is_empty() {
                true => String::new(),
                false => format!(": {}", kind.health.reason),
            };
            text.push(format!(
                "  kind {}: {} live, {} busy, {} messages wait, {} handled{reason}",
                kind.kind, kind.live, kind.busy, kind.waiting, kind.handled
            ));
        }
        if !system.actors.is_empty() {
            let (actor, kind, waiting, handled) = ("ACTOR", "KIND", "WAITING", "HANDLED");
            text.push(format!(
                "{actor:>14}  {kind:<16} {waiting:>8} {handled:>12}  STATE"
            ));
        }
        for a in &system.actors {
            text.push(format!(
                "{:>14}  {:<16} {:>8} {:>12}  {}",
                a.id, a.kind, a.waiting, a.handled, a.state
            ));
        }
    }
    text.join("\n")
}
