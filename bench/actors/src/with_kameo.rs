//! kameo, on tokio with all cores.

use std::time::Instant;

use kameo::actor::Spawn;
use kameo::mailbox;
use kameo::prelude::{Actor, ActorRef, Context, Message};

use crate::node::{Address, Msg, Node, done};
use crate::rows::System;

#[derive(Actor)]
pub struct Member(Node<Link>);

/// An address.
#[derive(Clone)]
pub struct Link(ActorRef<Member>);

impl Address for Link {
    fn tell(&self, message: Msg<Self>) {
        // Actors that have ended at the end of a case need no messages.
        let _ = self.0.tell(message).try_send();
    }
    fn spawn_child(node: Node<Self>, _: u32) -> Self {
        Self(Member::spawn_with_mailbox(
            Member(node),
            mailbox::unbounded(),
        ))
    }
}

impl Message<Msg<Link>> for Member {
    type Reply = ();
    async fn handle(&mut self, message: Msg<Link>, context: &mut Context<Self, ()>) {
        if self.0.handle(|| Link(context.actor_ref().clone()), message) {
            context.actor_ref().kill();
        }
    }
}

#[derive(Actor, Default)]
struct Asked(u64);
struct Question;
impl Message<Question> for Asked {
    type Reply = u64;
    async fn handle(&mut self, _: Question, _: &mut Context<Self, u64>) -> u64 {
        self.0 += 1;
        self.0
    }
}

#[derive(Actor)]
struct Asker(ActorRef<Asked>);
struct Ask(u64);
impl Message<Ask> for Asker {
    type Reply = ();
    async fn handle(&mut self, Ask(n): Ask, _: &mut Context<Self, ()>) {
        for i in 1..=n {
            let reply = self.0.ask(Question).await.expect("it lives");
            assert!(reply >= i);
        }
        done(1);
    }
}

/// The runtime.
pub struct Kameo(tokio::runtime::Runtime);

/// Two actors; the first asks the second.
pub struct Pair(ActorRef<Asker>, ActorRef<Asked>);

impl System for Kameo {
    type Link = Link;
    type Pair = Pair;
    const NAME: &'static str = "kameo";
    fn start(threads: usize) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Self(builder.worker_threads(threads).build().expect("it starts"))
    }
    fn spawn(&self, node: Node<Link>) -> Link {
        let _entered = self.0.enter();
        Link::spawn_child(node, 0)
    }
    fn pair(&self) -> Pair {
        let _entered = self.0.enter();
        let asked = Asked::spawn_with_mailbox(Asked(0), mailbox::unbounded());
        let asker = Asker::spawn_with_mailbox(Asker(asked.clone()), mailbox::unbounded());
        Pair(asker, asked)
    }
    fn ask(&self, pair: &Pair, n: u64) {
        pair.0.tell(Ask(n)).try_send().expect("it lives");
    }
    fn ask_from_host(&self, pair: &Pair, n: u64) -> Vec<f64> {
        self.0.block_on(async {
            let mut times = Vec::new();
            for i in 1..=n {
                let begin = Instant::now();
                let reply = pair.1.ask(Question).await.expect("it lives");
                times.push(begin.elapsed().as_secs_f64());
                assert_eq!(reply, i);
            }
            times
        })
    }
    fn end(&self, pair: Pair) {
        pair.0.kill();
        pair.1.kill();
    }
}
