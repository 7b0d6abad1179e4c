//! ractor, on tokio with all cores.

use std::time::Instant;

use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, RpcReplyPort, call};

use crate::node::{Address, Msg, Node, done};
use crate::rows::System;

struct Member;

/// An address.
#[derive(Clone)]
pub struct Link(ActorRef<Msg<Link>>);

impl Address for Link {
    fn tell(&self, message: Msg<Self>) {
        // Actors that have ended at the end of a case need no messages.
        let _ = self.0.send_message(message);
    }
    fn spawn_child(node: Node<Self>, _: u32) -> Self {
        let spawned = ActorRuntime::spawn_instant(None, Member, node);
        Self(spawned.expect("it has no name").0)
    }
}

impl Actor for Member {
    type Msg = Msg<Link>;
    type State = Node<Link>;
    type Arguments = Node<Link>;
    async fn pre_start(
        &self,
        _: ActorRef<Msg<Link>>,
        node: Node<Link>,
    ) -> Result<Node<Link>, ActorProcessingErr> {
        Ok(node)
    }
    async fn handle(
        &self,
        own: ActorRef<Msg<Link>>,
        message: Msg<Link>,
        node: &mut Node<Link>,
    ) -> Result<(), ActorProcessingErr> {
        if node.handle(|| Link(own.clone()), message) {
            own.stop(None);
        }
        Ok(())
    }
}

struct Asked;
pub struct Question(RpcReplyPort<u64>);
impl Actor for Asked {
    type Msg = Question;
    type State = u64;
    type Arguments = ();
    async fn pre_start(&self, _: ActorRef<Question>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }
    async fn handle(
        &self,
        _: ActorRef<Question>,
        Question(port): Question,
        count: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        *count += 1;
        port.send(*count)?;
        Ok(())
    }
}

struct Asker;
pub struct Ask(u64);
impl Actor for Asker {
    type Msg = Ask;
    type State = ActorRef<Question>;
    type Arguments = ActorRef<Question>;
    async fn pre_start(
        &self,
        _: ActorRef<Ask>,
        asked: ActorRef<Question>,
    ) -> Result<ActorRef<Question>, ActorProcessingErr> {
        Ok(asked)
    }
    async fn handle(
        &self,
        _: ActorRef<Ask>,
        Ask(n): Ask,
        asked: &mut ActorRef<Question>,
    ) -> Result<(), ActorProcessingErr> {
        for i in 1..=n {
            let reply = call!(asked, Question)?;
            assert!(reply >= i);
        }
        done(1);
        Ok(())
    }
}

/// The runtime.
pub struct Ractor(tokio::runtime::Runtime);

/// Two actors; the first asks the second.
pub struct Pair(ActorRef<Ask>, ActorRef<Question>);

impl System for Ractor {
    type Link = Link;
    type Pair = Pair;
    const NAME: &'static str = "ractor";
    fn start(threads: usize) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let builder = builder.worker_threads(threads).enable_time();
        Self(builder.build().expect("it starts"))
    }
    fn spawn(&self, node: Node<Link>) -> Link {
        let _entered = self.0.enter();
        Link::spawn_child(node, 0)
    }
    fn pair(&self) -> Pair {
        let _entered = self.0.enter();
        let (asked, _) = ActorRuntime::spawn_instant(None, Asked, ()).expect("it has no name");
        let asker = ActorRuntime::spawn_instant(None, Asker, asked.clone());
        Pair(asker.expect("it has no name").0, asked)
    }
    fn ask(&self, pair: &Pair, n: u64) {
        assert!(pair.0.send_message(Ask(n)).is_ok());
    }
    fn ask_from_host(&self, pair: &Pair, n: u64) -> Vec<f64> {
        self.0.block_on(async {
            let mut times = Vec::new();
            for i in 1..=n {
                let begin = Instant::now();
                let reply = call!(pair.1, Question).expect("it lives");
                times.push(begin.elapsed().as_secs_f64());
                assert_eq!(reply, i);
            }
            times
        })
    }
    fn end(&self, pair: Pair) {
        pair.0.stop(None);
        pair.1.stop(None);
    }
}
