//! Actors of a running engine, as other programs see them and give them orders.

use everwarp::actor::{ActorConfig, ActorProgram, ActorSystem, Kind};
use everwarp::telemetry::{HealthState, SystemView, view};
use everwarp::{Device, Select};
use everwarp_telemetry::registry::{Order, actor, order};

const ADD: u8 = 1;
const GET: u8 = 2;

fn system() -> SystemView {
    let mut systems = view(10).systems;
    assert_eq!(systems.len(), 1);
    systems.remove(0)
}

#[test]
fn actors_are_listed_described_and_given_orders() -> Result<(), Box<dyn std::error::Error>> {
    let kind = Kind::closure("counter", 16, |actor, message| match message.tag() {
        ADD => {
            let state = actor.state_bytes();
            let sum = u64::from_le_bytes(state[..8].try_into().expect("eight bytes"));
            let sum = sum + message.word(0);
            state[..8].copy_from_slice(&sum.to_le_bytes());
        }
        _ => {
            let bytes = actor.state_bytes()[..8].try_into().expect("eight bytes");
            actor.reply(GET, &[u64::from_le_bytes(bytes)]);
        }
    });
    let program = ActorProgram::closures("counters", vec![kind]);
    let device = Device::open(Select::Cpu)?;
    everwarp::telemetry::measure();
    let engine = device.engine().program(program.program()).start()?;
    let actors = ActorSystem::start(&engine, &program, ActorConfig::default())?;
    let ids = actors.launch_all(0, 3)?;
    for _ in 0..5 {
        actors.tell(ids[1], ADD, &[0x21])?;
    }
    assert_eq!(actors.ask(ids[1], GET, &[])?.words(), [5 * 0x21]);
    actors.settle()?;

    let shown = system();
    assert_eq!((shown.program.as_str(), shown.live), ("counters", 3));
    let kind = &shown.kinds[0];
    assert_eq!(
        (kind.kind.as_str(), kind.live, kind.handled, kind.waiting),
        ("counter", 3, 6, 0)
    );
    assert_eq!(kind.health.state, HealthState::Ok);
    assert!(kind.handling.as_ref().is_some_and(|times| times.count > 0));
    assert_eq!(shown.ask.map(|asks| asks.count), Some(1));
    // The actor with the most messages comes first.
    let hottest = &shown.actors[0];
    assert_eq!((hottest.handled, hottest.state.as_str()), (6, "idle"));
    let described = actor(Some(shown.number), &hottest.id)?.expect("it lives");
    let content = described.content.expect("it was asked for");
    assert!(content.starts_with("a500000000000000"), "{content}");

    assert!(order(Some(shown.number), &hottest.id, Order::Deactivate)?);
    actors.tell(ids[1], ADD, &[1])?;
    let kind = &system().kinds[0];
    assert_eq!((kind.deactivated, kind.waiting), (1, 1));
    assert_eq!(kind.health.state, HealthState::Degraded);
    assert!(
        kind.health.reason.contains("1 actors are deactivated"),
        "{}",
        kind.health.reason
    );
    assert!(order(Some(shown.number), &hottest.id, Order::Activate)?);
    assert_eq!(actors.ask(ids[1], GET, &[])?.words(), [5 * 0x21 + 1]);

    assert!(order(Some(shown.number), &hottest.id, Order::Kill)?);
    actors.settle()?;
    assert_eq!(system().live, 2);
    assert!(
        !order(Some(shown.number), &hottest.id, Order::Kill)?,
        "it does not live"
    );
    assert!(actor(Some(shown.number), &hottest.id)?.is_none());
    for wrong in ["", "1", "x.y", "-1.1", "4294967295.1", "1.4294967295"] {
        assert!(!order(Some(shown.number), wrong, Order::Kill)?, "{wrong}");
    }
    drop(actors);
    assert!(view(10).systems.is_empty());
    Ok(())
}
