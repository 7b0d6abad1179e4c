//! actix, with an arbiter for each core. An actor stays with its arbiter.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use actix::prelude::{
    Actor, ActorContext, ActorFutureExt, Addr, Arbiter, ArbiterHandle, AsyncContext, Context,
    Handler, Message, MessageResult, ResponseActFuture, System as ActixSystem, WrapFuture,
};

use crate::node::{Address, Msg, Node, done};
use crate::rows::System;

struct Member(Node<Link>);
impl Actor for Member {
    type Context = Context<Self>;
    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(0);
    }
}

struct Carried(Msg<Link>);
impl Message for Carried {
    type Result = ();
}
impl Handler<Carried> for Member {
    type Result = ();
    fn handle(&mut self, Carried(message): Carried, context: &mut Context<Self>) {
        if self.0.handle(|| Link(context.address()), message) {
            context.stop();
        }
    }
}

/// An address.
#[derive(Clone)]
pub struct Link(Addr<Member>);

static ARBITERS: OnceLock<Vec<ArbiterHandle>> = OnceLock::new();
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn arbiter() -> &'static ArbiterHandle {
    let all = ARBITERS.get().expect("the system has started");
    &all[NEXT.fetch_add(1, Ordering::Relaxed) % all.len()]
}

impl Address for Link {
    fn tell(&self, message: Msg<Self>) {
        self.0.do_send(Carried(message));
    }
    fn spawn_child(node: Node<Self>, depth: u32) -> Self {
        // The upper levels of a tree are spread; the others stay with their parents, which is faster.
        Self(match depth {
            0 | 1 => Member::start_in_arbiter(arbiter(), |_| Member(node)),
            _ => Member(node).start(),
        })
    }
}

#[derive(Default)]
struct Asked(u64);
impl Actor for Asked {
    type Context = Context<Self>;
}
struct Question;
impl Message for Question {
    type Result = u64;
}
impl Handler<Question> for Asked {
    type Result = MessageResult<Question>;
    fn handle(&mut self, _: Question, _: &mut Context<Self>) -> Self::Result {
        self.0 += 1;
        MessageResult(self.0)
    }
}

struct Asker(Addr<Asked>);
impl Actor for Asker {
    type Context = Context<Self>;
}
struct Ask(u64);
impl Message for Ask {
    type Result = ();
}
impl Handler<Ask> for Asker {
    type Result = ResponseActFuture<Self, ()>;
    fn handle(&mut self, Ask(n): Ask, _: &mut Context<Self>) -> Self::Result {
        let asked = self.0.clone();
        let asks = async move {
            for i in 1..=n {
                let reply = asked.send(Question).await.expect("it lives");
                assert!(reply >= i);
            }
        };
        Box::pin(asks.into_actor(self).map(|(), _, _| done(1)))
    }
}

/// The system. actix wants it in the thread that made it.
pub struct Actix(actix::SystemRunner);

/// Two actors; the first asks the second.
pub struct Pair(Addr<Asker>, Addr<Asked>);

impl System for Actix {
    type Link = Link;
    type Pair = Pair;
    const NAME: &'static str = "actix";
    fn start(threads: usize) -> Self {
        let runner = ActixSystem::new();
        let arbiters =
            runner.block_on(async move { (0..threads).map(|_| Arbiter::new().handle()).collect() });
        assert!(ARBITERS.set(arbiters).is_ok(), "one system");
        Self(runner)
    }
    fn spawn(&self, node: Node<Link>) -> Link {
        Link::spawn_child(node, 0)
    }
    fn pair(&self) -> Pair {
        let asked = Asked::start_in_arbiter(arbiter(), |_| Asked(0));
        let other = asked.clone();
        Pair(Asker::start_in_arbiter(arbiter(), |_| Asker(other)), asked)
    }
    fn ask(&self, pair: &Pair, n: u64) {
        pair.0.do_send(Ask(n));
    }
    fn ask_from_host(&self, pair: &Pair, n: u64) -> Vec<f64> {
        self.0.block_on(async {
            let mut times = Vec::new();
            for i in 1..=n {
                let begin = Instant::now();
                let reply = pair.1.send(Question).await.expect("it lives");
                times.push(begin.elapsed().as_secs_f64());
                assert_eq!(reply, i);
            }
            times
        })
    }
    fn end(&self, _: Pair) {
        // They end when their addresses are gone.
    }
}
