//! Bad use: one clear error each.

use std::sync::{Arc, OnceLock};

use everwarp_actor::{ActorProgram, Kind};

use crate::support::{ADD, GET, counters, system};

/// The handler would wait for its own turn.
#[test]
fn handler_that_waits_for_actors_is_refused() {
    let own = Arc::new(OnceLock::<Arc<everwarp_actor::ActorSystem>>::new());
    let known = own.clone();
    let kind = Kind::closure("waits", 8, move |actor, _| {
        let system = known.get().expect("it is set");
        let id = actor.id();
        let errors = [
            system.ask(id, GET, &[]).map(drop),
            system.tell(id, ADD, &[]),
            system.try_tell(id, ADD, &[]),
            system.launch(0).map(drop),
            system.settle().map(drop),
            system.kill(&[id]).map(drop),
        ];
        let refused = |e: &Result<(), everwarp_actor::ActorError>| {
            e.as_ref()
                .is_err_and(|e| e.to_string().contains("methods of ActorCx"))
        };
        let count = errors.iter().filter(|e| refused(e)).count();
        actor.reply(GET, &[count as u64]);
    });
    let (_engine, system) = system(vec![kind]);
    let system = Arc::new(system);
    assert!(own.set(system.clone()).is_ok());
    let actor = system.launch(0).expect("there is room");
    assert_eq!(system.ask(actor, GET, &[]).expect("it replies").word(0), 6);
}

#[test]
#[should_panic(expected = "has a bound of 0: give it 1 to 4095")]
fn bound_of_zero_is_refused() {
    ActorProgram::closures("zero", vec![counters("counter").mailbox(0)]).program();
}

#[test]
#[should_panic(expected = "the program `twice` has two kinds called `counter`")]
fn kind_that_is_there_twice_is_refused() {
    ActorProgram::closures("twice", vec![counters("counter"), counters("counter")]).program();
}
