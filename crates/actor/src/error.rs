//! Errors of actors.

use std::borrow::Cow;
use std::time::Duration;

use everwarp_runtime::{EngineKind, Error};

use crate::channel::ChannelId;
use crate::id::ActorId;
use crate::message::DeadReason;
use crate::side::{GroupId, NotNamed, NotSupervised};

/// A mailbox when the pool of messages was exhausted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongMailbox {
    /// The actor.
    pub actor: ActorId,
    /// The name of its kind.
    pub kind: String,
    /// Messages that wait for it.
    pub waiting: u32,
}

/// An error of actors. The message says how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActorError {
    /// The engine failed or ended.
    #[error(transparent)]
    Engine(#[from] Error),
    /// Actors on this engine do not have this yet.
    #[error(
        "actors on the engine `{engine}` cannot have {what} yet: start the engine with Select::Cpu or Select::Cuda, or use \
         --engine cpu or --engine cuda"
    )]
    NotOnEngine {
        /// The engine.
        engine: EngineKind,
        /// What they cannot have.
        what: String,
    },
    /// The mailbox is full.
    #[error("the mailbox of {actor:?} is full: wait, or give its kind a larger one")]
    Full {
        /// The receiver.
        actor: ActorId,
    },
    /// The actor does not live.
    #[error("{actor:?} does not live: it has ended, or belongs to another system")]
    Gone {
        /// The receiver.
        actor: ActorId,
    },
    /// An ask ended without a reply.
    #[error("the ask has no reply: {reason}")]
    NoReply {
        /// Why.
        reason: DeadReason,
    },
    /// An ask took too long. A later reply is dropped.
    #[error("no reply within {after:?}; a later one is dropped")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// Too many asks wait for their replies.
    #[error(
        "{limit} asks of the host wait for their replies: wait for one, or raise ActorConfig::asks"
    )]
    TooManyAsks {
        /// The limit.
        limit: u32,
    },
    /// There is no slot for an actor.
    #[error(
        "there is room for {limit} actors, and all are there: raise ActorConfig::actors, or end some"
    )]
    TooManyActors {
        /// The limit.
        limit: u32,
    },
    /// There is no cell for a message. The engine has ended.
    #[error(
        "all {limit} messages are in use: {longest}; raise ActorConfig::messages, or give kinds shorter mailboxes"
    )]
    OutOfMessages {
        /// The limit.
        limit: u32,
        /// The longest mailboxes.
        mailboxes: Vec<LongMailbox>,
        /// The same in words.
        longest: String,
    },
    /// A handler sent more messages than its kind declares. The engine has ended.
    #[error(
        "the handler of kind `{kind}` sent more than the {sends} messages that it declares: raise `sends`"
    )]
    TooManySends {
        /// The kind.
        kind: String,
        /// The number that it declares.
        sends: u16,
    },
    /// A handler on a GPU keeps an ask, and its kind does not say so. The engine has ended.
    #[error("the handler of kind `{kind}` keeps asks: declare the kind with .keeps()")]
    KeepsUndeclared {
        /// The kind.
        kind: String,
    },
    /// The closure of an actor of the host panicked. The engine has ended.
    #[error(
        "the closure of an actor of the host panicked, which ends the engine: let it call `fail` instead"
    )]
    HostPanicked,
    /// A limit of the configuration cannot work.
    #[error("{what} must be {rule}, not {value}")]
    Config {
        /// The limit.
        what: &'static str,
        /// The rule it breaks.
        rule: String,
        /// The value given.
        value: u64,
    },
    /// The program has no such kind.
    #[error("the program `{program}` has {kinds} kinds, and no number {kind}")]
    NoKind {
        /// The program.
        program: String,
        /// How many kinds it has.
        kinds: u32,
        /// The number given.
        kind: u32,
    },
    /// A kind has what only the CPU engine has so far.
    #[error(
        "the kind `{kind}` runs on the CPU engine only so far, because {why}: start the engine with Select::Cpu"
    )]
    KindOnCpuOnly {
        /// The kind.
        kind: String,
        /// What it has.
        why: Cow<'static, str>,
    },
    /// On a GPU, the program has to say that it uses this.
    #[error(
        "{what} on a GPU need a kind of the program `{program}` that is declared with .services()"
    )]
    NoServices {
        /// What was asked for.
        what: &'static str,
        /// The program.
        program: String,
    },
    /// A buffer that is no memory of the engine on which the actors run.
    #[error("the buffer belongs to another engine: make it with the engine of the actors")]
    OtherEngine,
    /// The channel holds as many values as it can.
    #[error("{channel:?} is full: wait, or give it a larger capacity")]
    ChannelFull {
        /// The channel.
        channel: ChannelId,
    },
    /// The channel holds no value.
    #[error("{channel:?} is empty: wait for a value")]
    ChannelEmpty {
        /// The channel.
        channel: ChannelId,
    },
    /// The channel is closed, or belongs to another system.
    #[error(
        "{channel:?} is closed, because its last handle was dropped or it was closed: keep a handle"
    )]
    ChannelClosed {
        /// The channel.
        channel: ChannelId,
    },
    /// The channel carries values of another type.
    #[error("{}", wrong_value(*channel, carries, Some(given)))]
    WrongValue {
        /// The channel.
        channel: ChannelId,
        /// The type of its values.
        carries: &'static str,
        /// The type that was used.
        given: &'static str,
    },
    /// The message has no payload, or a handler has taken it out.
    #[error(
        "the message has no payload, or it was taken out before: send it with tell_with, and open it once"
    )]
    NoPayload,
    /// The payload of a message has another type.
    #[error("the payload is of the type `{carries}`, not `{given}`: open it as that type")]
    WrongPayload {
        /// Its type.
        carries: &'static str,
        /// The type that was asked for.
        given: &'static str,
    },
    /// Another actor has the name.
    #[error("the name `{name}` is taken by {holder:?}: unregister it first, or choose another")]
    NameTaken {
        /// The name.
        name: String,
        /// The actor that has it.
        holder: ActorId,
    },
    /// The actor is a member of another group, or twice of this one.
    #[error("{actor:?} is a member of a supervised group already: an actor is a member of one")]
    Supervised {
        /// The actor.
        actor: ActorId,
    },
    /// There is no such group, or it cannot be a member.
    #[error("{group:?} does not exist, has ended, or is a member of another group already")]
    NoGroup {
        /// The group.
        group: GroupId,
    },
    /// A handler has called something that waits for other actors.
    #[error(
        "a handler called {call}, which would wait for turns of other actors while its own goes on: use \
         the methods of ActorCx in handlers"
    )]
    InHandler {
        /// What it has called.
        call: &'static str,
    },
    /// The kind is not one of the host.
    #[error(
        "kind {kind} has a handler of its own: declare a kind with Kind::host for actors of the host"
    )]
    NotHostKind {
        /// The kind.
        kind: u32,
    },
    /// A handler has ended a simulated system.
    #[error(
        "a handler sent more messages than its kind declares, which ends the system: raise `sends`"
    )]
    SimulationEnded,
    /// The program has no kind with this name.
    #[error("the program `{program}` has no kind called `{name}`; it has {known}")]
    NoKindNamed {
        /// The program.
        program: String,
        /// The name given.
        name: String,
        /// The names that it has.
        known: String,
    },
    /// The program has no message with this name.
    #[error(
        "no kind of the program `{program}` handles a message called `{name}`; they handle {known}"
    )]
    NoMessage {
        /// The program.
        program: String,
        /// The name given.
        name: String,
        /// The names that it has.
        known: String,
    },
    /// Values do not have the types of a message's fields.
    #[error("the values given are ({given}), but the message is {message}")]
    WrongFields {
        /// The message with its fields.
        message: String,
        /// The types of the values.
        given: String,
    },
}

/// What is wrong with a value of another type than those of its channel. A handler on a GPU has no name for the type given.
pub(crate) fn wrong_value(channel: ChannelId, carries: &str, given: Option<&str>) -> String {
    let given = given.map_or(String::new(), |given| format!(", not `{given}`"));
    format!("{channel:?} carries values of the type `{carries}`{given}: use that type")
}

impl ActorError {
    pub(crate) fn not_named(why: NotNamed, name: &str, actor: ActorId) -> Self {
        match why {
            NotNamed::Taken(holder) => Self::NameTaken {
                name: name.to_owned(),
                holder,
            },
            NotNamed::Gone => Self::Gone { actor },
        }
    }
    pub(crate) fn not_supervised(why: NotSupervised) -> Self {
        match why {
            NotSupervised::Gone(actor) => Self::Gone { actor },
            NotSupervised::Actor(actor) => Self::Supervised { actor },
            NotSupervised::Group(group) => Self::NoGroup { group },
        }
    }
}
