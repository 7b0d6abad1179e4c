use std::time::{Duration, Instant};

use everwarp_actor::{
    ActorConfig, ActorCx, ActorError, ActorId, Column, DeadReason, Kind, Message, Tell,
};

use crate::support::{ADD, FAIL, GET, LONG, Log, counters, sum, system, system_with};

#[test]
fn columns_send_what_single_messages_would() {
    let (_engine, system) = system(vec![counters("counter")]);
    let mut all = system.launch_all(0, 500).expect("there is room");
    all.sort_unstable();
    let amounts: Vec<u64> = (0..500).collect();
    system
        .tell_columns(&all, ADD, &[Column::Each(&amounts)])
        .expect("all live");
    system
        .tell_columns(&all, ADD, &[Column::All(1000)])
        .expect("all live");
    // Another order, and some actors several times.
    let some = [all[3], all[1], all[3], all[0], all[3]];
    let more = [10, 20, 30, 40, 50];
    system
        .tell_columns(&some, ADD, &[Column::Each(&more)])
        .expect("all live");
    system.tell_columns(&[], ADD, &[]).expect("nothing is sent");
    let sums = system.ask_columns(&all, GET, &[], LONG).expect("all reply");
    let mut wanted: Vec<u64> = (1000..1500).collect();
    wanted[3] += 90;
    wanted[1] += 20;
    wanted[0] += 40;
    assert!(
        sums.iter()
            .map(|reply| reply.word(0))
            .eq(wanted.iter().copied())
    );
    let twice = system
        .ask_columns(&[all[3], all[3]], GET, &[], LONG)
        .expect("it replies");
    assert_eq!([twice[0].word(0), twice[1].word(0)], [1093, 1093]);
}

#[test]
fn first_ask_without_a_reply_is_named_and_the_others_are_handled() {
    let (_engine, system) = system(vec![counters("counter")]);
    let mut all = system.launch_all(0, 40).expect("there is room");
    all.sort_unstable();
    system.kill(&all[5..7]).expect("it runs");
    system.settle().expect("it settles");
    let asked = system.ask_columns(&all, GET, &[], LONG);
    let Err((5, ActorError::Gone { actor })) = asked else {
        panic!("{asked:?}")
    };
    assert_eq!(actor, all[5]);
    let asked = system.ask_columns(&all[..5], FAIL, &[], LONG);
    let Err((0, ActorError::NoReply { reason })) = asked else {
        panic!("{asked:?}")
    };
    assert_eq!(reason, DeadReason::Failed);
    let told = system.tell_columns(&all, ADD, &[Column::All(7)]);
    assert!(matches!(told, Err(ActorError::Gone { .. })), "{told:?}");
    for actor in &all[7..] {
        assert_eq!(sum(&system, *actor), 7, "others are sent all the same");
    }
}

#[test]
fn full_mailboxes_delay_columns_and_end_them_in_time() {
    let start = |patience| {
        let config = ActorConfig {
            patience,
            host_messages: 16,
            ..ActorConfig::default()
        };
        system_with(vec![counters("counter").mailbox(2)], config)
    };
    let (_engine, system) = start(LONG);
    let one = system.launch(0).expect("there is room");
    let same: Vec<ActorId> = vec![one; 100];
    let amounts: Vec<u64> = (0..100).collect();
    system
        .tell_columns(&same, ADD, &[Column::Each(&amounts)])
        .expect("it handles them meanwhile");
    assert_eq!(sum(&system, one), 4950);
    let (_engine, system) = start(Duration::from_millis(50));
    let one = system.launch(0).expect("there is room");
    let same = vec![one; 100];
    system.deactivate(&[one]).expect("it lives");
    let told = system.tell_columns(&same, ADD, &[Column::All(1)]);
    assert!(matches!(told, Err(ActorError::Full { .. })), "{told:?}");
    let asked = system.ask_columns(&[one], GET, &[], Duration::from_millis(20));
    assert!(
        matches!(
            asked,
            Err((0, ActorError::Full { .. } | ActorError::Timeout { .. }))
        ),
        "{asked:?}"
    );
    let other = system.launch(0).expect("there is room");
    system.deactivate(&[other]).expect("it lives");
    let asked = system.ask_columns(&[other], GET, &[], Duration::from_millis(20));
    assert!(
        matches!(asked, Err((0, ActorError::Timeout { .. }))),
        "{asked:?}"
    );
    // Its record is free again when it has replied, and the next ask has its own reply.
    system.activate(&[one, other]).expect("both live");
    let asked = system
        .ask_columns(&[one, other], GET, &[], LONG)
        .expect("both reply");
    assert_eq!(asked[0].word(0), 2, "what its mailbox held");
    assert_eq!(asked[1].word(0), 0);
}

/// All handling takes longer than the host is patient.
#[test]
fn host_is_patient_as_long_as_there_is_room_now_and_then() {
    let patience = Duration::from_secs(1);
    let config = ActorConfig {
        patience,
        ..ActorConfig::default()
    };
    let log = Log::default();
    let seen = log.clone();
    let slow = move |actor: &mut ActorCx<'_, '_, '_>, message: &Message| {
        std::thread::sleep(Duration::from_millis(5));
        seen.add(actor, message);
    };
    let slow = Kind::closure("slow", 8, slow).mailbox(3);
    let (_engine, system) = system_with(vec![slow], config);
    let actors = system.launch_all(0, 2).expect("there is room");
    // To both in turns, so that the host puts them in another order.
    let numbers: Vec<u64> = (0..500).collect();
    let tells = numbers
        .iter()
        .map(|&n| Tell::new(actors[n as usize % 2], ADD, &[n]));
    let begin = Instant::now();
    let told = system.tell_all(&tells.collect::<Vec<_>>());
    told.expect("there is room now and then");
    assert!(begin.elapsed() > patience, "it has waited longer than that");
    system.settle().expect("it settles");
    for (first, one) in actors.iter().enumerate() {
        let all = log.all().into_iter();
        let words = all
            .filter(|(actor, _)| actor == one)
            .map(|(_, message)| message.word(0));
        assert!(words.eq(numbers.iter().copied().skip(first).step_by(2)));
    }
}

#[test]
#[should_panic(expected = "a word for each actor")]
fn column_of_another_length_is_refused() {
    let (_engine, system) = system(vec![counters("counter")]);
    let one = system.launch(0).expect("there is room");
    let _ = system.tell_columns(&[one], ADD, &[Column::Each(&[1, 2])]);
}
