//! Values between actors and processes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everwarp::actor::{ActorConfig, ActorError, ActorProgram, ActorSystem, ChannelId, Kind};
use everwarp::process::{Bridge, BridgeError, Command, Host, Module};
use everwarp::{Device, Engine, Select};

const LONG: Duration = Duration::from_secs(20);

/// Receives messages by its handle 0 and sends them by its handle 1, with the first byte one higher, until handle 0 is closed.
const ECHO: &str = include_str!("../../process/cuda/tests/modules/echo.wat");

/// An actor that receives numbers from the channel in word 0 until it is closed.
fn system(got: &Arc<Mutex<Vec<u64>>>) -> (Engine, ActorSystem) {
    let got = got.clone();
    let kind = Kind::closure("collector", 8, move |actor, message| {
        let own: &mut [u8; 8] = (&mut actor.state_bytes()[..8]).try_into().expect("8 bytes");
        if !message.is_reply() {
            *own = message.word(0).to_ne_bytes();
        } else if message.failure().is_some() {
            return;
        } else {
            got.lock().expect("no panic").push(message.value());
        }
        let channel = ChannelId::from_bits(u64::from_ne_bytes(*own));
        actor.receive_on::<u64>(channel, 0);
    });
    let program = ActorProgram::closures("bridged", vec![kind]);
    let device = Device::open(Select::Cpu).expect("the device opens");
    let engine = device.engine().program(program.program()).start();
    let engine = engine.expect("the engine starts");
    let system = ActorSystem::start(&engine, &program, ActorConfig::default());
    (engine, system.expect("the system starts"))
}
fn processes() -> (Host, Module) {
    let device = Device::open(Select::Cpu).expect("the device opens");
    let bytes = wat::parse_str(ECHO).expect("it is a module");
    let echo = Module::new("echo", bytes).expect("it loads");
    let host = Host::builder(&device).module(&echo).start();
    (host.expect("the host starts"), echo)
}

#[test]
fn values_go_from_the_host_through_a_process_to_an_actor() {
    let got = Arc::default();
    let (_engine, system) = system(&got);
    let (host, echo) = processes();
    let jobs = system.channel::<u64>(4).expect("the CPU engine");
    let results = system.channel::<u64>(4).expect("the CPU engine");
    let (to, from) = host.channel(2, 8).expect("there is room");
    let (back, answers) = host.channel(2, 8).expect("there is room");
    let mut command = Command::new(&host, &echo);
    let process = command.end(from.end()).end(back.end()).spawn();
    let process = process.expect("it starts");
    drop((command, from, back));
    let sends = Bridge::to_processes(jobs.clone(), to);
    let receives = Bridge::from_processes(answers, results.clone());
    let collector = system.launch(0).expect("there is room");
    let words = [results.id().bits()];
    system.tell(collector, 0, &words).expect("it lives");
    for n in 0..200 {
        jobs.send_within(&(256 * n), LONG).expect("it is carried");
    }
    jobs.close().expect("it runs");
    assert_eq!(sends.finish().expect("it carries"), 200);
    assert_eq!(receives.finish().expect("it carries"), 200);
    assert!(process.wait().expect("it runs").success());
    let begin = Instant::now();
    while got.lock().expect("no panic").len() < 200 {
        assert!(begin.elapsed() < LONG, "values are missing");
        std::thread::yield_now();
    }
    let got = got.lock().expect("no panic");
    assert!(got.iter().copied().eq((0..200).map(|n| 256 * n + 1)));
    // The end of the processes is the end of the channel.
    let closed = results.send(&1).expect_err("it is closed");
    assert!(
        matches!(closed, ActorError::ChannelClosed { .. }),
        "{closed}"
    );
}

#[test]
fn message_of_another_size_ends_the_bridge_with_an_error() {
    let (_engine, system) = system(&Arc::default());
    let (host, _echo) = processes();
    let results = system.channel::<u64>(4).expect("the CPU engine");
    let (sender, receiver) = host.channel(2, 16).expect("there is room");
    let bridge = Bridge::from_processes(receiver, results.clone());
    sender.send(&[1; 8]).expect("it is open");
    sender.send(&[1; 9]).expect("it is open");
    let error = bridge.finish().expect_err("it is no value");
    assert!(
        matches!(
            error,
            BridgeError::Size {
                given: 9,
                expected: 8
            }
        ),
        "{error}"
    );
    assert_eq!(
        results.receive().expect("it is there"),
        0x0101_0101_0101_0101
    );
    let closed = results.receive().expect_err("it is closed");
    assert!(
        matches!(closed, ActorError::ChannelClosed { .. }),
        "{closed}"
    );
}

#[test]
fn dropped_bridge_ends_while_both_sides_wait() {
    let (_engine, system) = system(&Arc::default());
    let (host, _echo) = processes();
    let channel = system.channel::<u64>(1).expect("the CPU engine");
    let (sender, receiver) = host.channel(1, 8).expect("there is room");
    // No process receives: the bridge waits with the second value, and the host with more.
    let bridge = Bridge::to_processes(channel.clone(), sender);
    for n in 0..3 {
        channel.send_within(&n, LONG).expect("there is room");
    }
    drop(bridge);
    assert_eq!(
        receiver.receive().expect("it is there"),
        0_u64.to_ne_bytes()
    );
    // A bridge to processes that are gone closes the channel.
    let (sender, receiver) = host.channel(1, 8).expect("there is room");
    drop(receiver);
    let bridge = Bridge::to_processes(channel.clone(), sender);
    bridge.finish().expect("it ends");
    let closed = channel.send(&1).expect_err("it is closed");
    assert!(
        matches!(closed, ActorError::ChannelClosed { .. }),
        "{closed}"
    );
}
