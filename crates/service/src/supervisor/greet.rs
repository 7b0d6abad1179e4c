//! A connection until it is passed on, and operators to their end.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use everwarp_engine::EngineKind;

use super::engines::{controls, has_gpu, pass_on};
use super::{Event, Shared, Stop};
use crate::control::{Answer, Question, StatusHead, ToChild};
use crate::hello::{self, ClientHello, HIGHEST, LOWEST, Purpose, Refusal, Wanted};
use crate::log::{Level, log};
use crate::protocol::body;
use crate::wire::codec::decoded;
use crate::wire::socket::{FrameReceiver, FrameSender};

/// How long a client may take for its first message.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// How long an engine may take for an answer. To read the records of 65,536 processes on a GPU takes about a second.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Greets a client, and serves or passes it on.
pub(super) fn greet(shared: &Arc<Shared>, mut stream: UnixStream) {
    if let Err(error) = hello::check_peer(&stream) {
        log(Level::Warn, &format!("a client is turned away: {error}"));
        return;
    }
    let peer = rustix::net::sockopt::socket_peercred(&stream);
    let client = peer.map_or(0, |peer| peer.pid.as_raw_nonzero().get() as u32);
    let hello = match ClientHello::receive(&mut stream, HELLO_TIME) {
        Ok(hello) => hello,
        // It has gone, or only looked whether the service is up.
        Err(_) => return,
    };
    let refuse = |mut stream: UnixStream, why, text: &str| {
        log(Level::Debug, &format!("client {client} is refused: {text}"));
        drop(hello::refuse(&mut stream, why, text));
    };
    let Some(hello) = hello else {
        let text =
            "this is the socket of an everwarp service, and the message is none of its clients'";
        return refuse(stream, Refusal::Garbled, text);
    };
    let Some(version) = hello.version() else {
        let text = format!(
            "it speaks the versions {LOWEST} to {HIGHEST} of its protocol, and this program {} to {}: use the same \
             release of both, or restart the service with `everwarp down` and `everwarp up`",
            hello.lowest, hello.highest
        );
        return refuse(stream, Refusal::Version, &text);
    };
    if hello.purpose == Purpose::Operator {
        if hello::welcome(&mut stream, version, EngineKind::Cpu).is_ok() {
            operate(shared, stream);
        }
        return;
    }
    if shared.state().stopping {
        return refuse(stream, Refusal::Stopping, "it ends");
    }
    let kind = match hello.wanted {
        Wanted::Cpu => EngineKind::Cpu,
        Wanted::Cuda => EngineKind::Cuda,
        Wanted::Any => match has_gpu(shared) {
            true => EngineKind::Cuda,
            false => EngineKind::Cpu,
        },
    };
    if let Err((stream, reason)) = pass_on(shared, kind, client, version, stream) {
        let why = match shared.state().stopping {
            true => Refusal::Stopping,
            false => Refusal::Engine,
        };
        refuse(stream, why, &reason);
    }
}

/// Answers an operator until it has gone.
fn operate(shared: &Arc<Shared>, stream: UnixStream) {
    let socket = Arc::new(stream.into());
    let sender = FrameSender::new(Arc::clone(&socket));
    let mut receiver = FrameReceiver::new(socket);
    while let Ok(Some(frame)) = receiver.receive() {
        let send = |answer: Answer| sender.send(&body(&answer), &[]);
        let question = match decoded(&frame.body) {
            Ok(question) => question,
            Err(error) => {
                let reason = error.to_string();
                drop(send(Answer::Refused { reason }));
                return;
            }
        };
        let answered = match question {
            Question::Status => status(shared, &send),
            Question::Down { now } => {
                down(shared, now);
                send(Answer::End)
            }
            question => ask_children(shared, &question, &send),
        };
        if answered.is_err() {
            return;
        }
        if question_ends(&frame.body) {
            return;
        }
    }
}

/// Whether nothing follows this question: the service must not wait for its operator.
fn question_ends(body: &[u8]) -> bool {
    matches!(decoded(body), Ok(Question::Down { .. }))
}

type Send<'s> = dyn Fn(Answer) -> std::io::Result<()> + 's;

fn status(shared: &Shared, send: &Send<'_>) -> std::io::Result<()> {
    let (status, engines) = {
        let state = shared.state();
        let status = StatusHead {
            os_pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            age_ms: shared.begin.elapsed().as_millis() as u64,
            stopping: state.stopping,
            idle_exit_ms: shared.idle_exit.map(|time| time.as_millis() as u64),
        };
        let engines: Vec<_> = state.engines.iter().map(|entry| entry.head()).collect();
        (status, engines)
    };
    send(Answer::Status { status })?;
    for engine in engines {
        send(Answer::Engine { engine })?;
    }
    send(Answer::End)
}

/// Lets the service end. Returns when its children have ended; if clients keep it, when it has let go of its socket.
fn down(shared: &Shared, now: bool) {
    let stop = match now {
        true => Stop::Now,
        false => Stop::WhenIdle,
    };
    let mut state = shared.state();
    state.leaving += 1;
    shared.event(Event::Stop(stop));
    loop {
        let serves = state.engines.iter().any(|engine| engine.clients > 0);
        if state.ended || (state.released && serves && !now) {
            break;
        }
        state = shared.wait(state);
    }
    state.leaving -= 1;
}

/// Asks all engines, and passes their answers on.
fn ask_children(shared: &Shared, question: &Question, send: &Send<'_>) -> std::io::Result<()> {
    let (answers, received) = channel();
    let (number, controls) = {
        let mut state = shared.state();
        let number = state.next_answer;
        state.next_answer = number.wrapping_add(1);
        state.answers.insert(number, answers);
        (number, controls(&state))
    };
    let mut sent = Ok(());
    for control in controls {
        let question = question.clone();
        if control
            .send(&body(&ToChild::Ask { number, question }), &[])
            .is_err()
        {
            // It ends, and its clients with it.
            continue;
        }
        loop {
            match received.recv_timeout(ANSWER_TIME) {
                Ok(Answer::End) => break,
                Ok(answer) => sent = sent.and_then(|()| send(answer)),
                Err(_) => {
                    let reason = "an engine does not answer".to_owned();
                    sent = sent.and_then(|()| send(Answer::Refused { reason }));
                    break;
                }
            }
        }
    }
    shared.state().answers.remove(&number);
    sent?;
    send(Answer::End)
}
