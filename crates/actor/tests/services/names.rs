use everwarp_actor::{ActorConfig, ActorError, ActorId, Kind};

use crate::support::{ADD, GET, counters, sum, system, system_with};

#[test]
fn name_belongs_to_one_actor_until_it_ends() {
    let (_engine, system) = system(vec![counters("counter")]);
    let [one, other] = [(); 2].map(|()| system.launch(0).expect("there is room"));
    system.register("printer", one).expect("it is free");
    assert_eq!(system.lookup("printer").expect("there are names"), one);
    let taken = system.register("printer", other).expect_err("it is taken");
    assert!(
        matches!(&taken, ActorError::NameTaken { holder, .. } if *holder == one),
        "{taken}"
    );
    assert!(taken.to_string().contains("`printer` is taken"), "{taken}");
    system.kill(&[one]).expect("it runs");
    system.settle().expect("it settles");
    assert_eq!(
        system.lookup("printer").expect("there are names"),
        ActorId::NONE
    );
    system.register("printer", other).expect("it is free again");
    assert_eq!(
        system.unregister("printer").expect("there are names"),
        other
    );
    let gone = system.register("printer", one).expect_err("it has ended");
    assert!(
        matches!(gone, ActorError::Gone { actor } if actor == one),
        "{gone}"
    );
}

#[test]
fn actors_give_and_find_names() {
    const NAME: u8 = 30;
    const SEND: u8 = 31;
    let kind = Kind::closure("named", 8, |actor, message| match message.tag() {
        NAME => {
            let own = actor.id();
            let taken = actor.register("first", own).is_err();
            actor.reply(NAME, &[taken.into()]);
        }
        SEND => {
            let to = actor.lookup("first");
            actor.tell(to, ADD, &[5]);
        }
        _ => crate::support::counter(actor, message),
    });
    let (_engine, system) = system(vec![kind.sends(1)]);
    let actors = system.launch_all(0, 2).expect("there is room");
    let named = |actor| system.ask(actor, NAME, &[]).expect("it replies").word(0);
    assert_eq!((named(actors[0]), named(actors[1])), (0, 1));
    system.tell(actors[1], SEND, &[]).expect("it lives");
    system.settle().expect("it settles");
    assert_eq!(sum(&system, actors[0]), 5);
}

#[test]
fn actor_with_a_key_is_launched_by_the_first_message_and_again_after_its_end() {
    const KEY: u8 = 40;
    const SEND: u8 = 41;
    let kind = Kind::closure("keyed", 8, |actor, message| match message.tag() {
        KEY => {
            let key = actor.key().unwrap_or(u64::MAX);
            actor.reply(KEY, &[key]);
        }
        SEND => {
            let to = actor.at(0, message.word(0));
            actor.tell(to, ADD, &[1]);
        }
        _ => crate::support::counter(actor, message),
    });
    let config = ActorConfig {
        actors: 4,
        ..ActorConfig::default()
    };
    let (_engine, system) = system_with(vec![kind.sends(1)], config);
    let one = system.tell_at(0, 7, ADD, &[10]).expect("there is room");
    assert_eq!(system.tell_at(0, 7, ADD, &[1]).expect("it lives"), one);
    assert_eq!(system.ask(one, KEY, &[]).expect("it replies").word(0), 7);
    let two = system.at(0, 8).expect("there is room");
    // Sent by an actor, to one that lives and to one that does not yet.
    for key in [7, 9] {
        system.tell(two, SEND, &[key]).expect("it lives");
    }
    system.settle().expect("it settles");
    let three = system.at(0, 9).expect("it lives");
    assert_eq!(
        (sum(&system, one), sum(&system, two), sum(&system, three)),
        (12, 0, 1)
    );
    system.kill(&[one]).expect("it runs");
    let again = system.tell_at(0, 7, GET, &[]).expect("there is room");
    assert_ne!(again, one);
    assert_eq!(sum(&system, again), 0);
    // Without a slot: one clear error.
    system.launch(0).expect("there is room for one");
    let full = system.at(0, 100).expect_err("there is no slot");
    assert!(
        matches!(full, ActorError::TooManyActors { limit: 4 }),
        "{full}"
    );
}
