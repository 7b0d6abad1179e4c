//! Programs of actors: kinds, and the program of tasks that is made from them.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write;
use std::slice::{from_mut, from_ref};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use everwarp_contract::actor::{KEPT_BYTES, MAIL_COUNT_MAX, MESSAGE_ASK, TELL_MORE, TELL_ROWS};
use everwarp_contract::{DevActors, Layout, Wgsl};
use everwarp_runtime::{
    Declaration, Function, MAX_SPAWN, Params, Program, ProgramRef, Shape, Twin, identifier,
    turn_name,
};
use everwarp_telemetry::recorder::{cell_key, handling};

use crate::builtin;
use crate::chain::Chain;
use crate::context::{
    ActorCx, Retry, TaskHost, give_answer, message_in, set_handles, shard, system, table,
};
use crate::device::DeviceHandler;
use crate::failures::FailureLog;
use crate::message::Message;
use crate::neighbours::Neighbours;
use crate::notes::NEWS;
use crate::restarts::Restarts;
use crate::side::{COURIER, Sides, Taken};
use crate::sync::Ordering;
use crate::turn::{self, MOST_AT_ONCE, Takes, Turn, Work};
use crate::typed::MessageType;
use crate::undo::Undo;

/// A handler on the CPU engine that is a plain function.
pub type HandlerFn = fn(&mut ActorCx<'_, '_, '_>, &Message);
/// A handler on the CPU engine that carries a state of its own, for kinds that become known only at run time.
pub type HandlerClosure = dyn Fn(&mut ActorCx<'_, '_, '_>, &Message) + Send + Sync;
/// As [`HandlerFn`], of a kind of warp or block shape: it handles 1 to 32 messages in one call.
pub type BatchFn = fn(&mut ActorCx<'_, '_, '_>, &[Message]);
/// As [`HandlerClosure`], with several messages in one call.
pub type BatchClosure = dyn Fn(&mut ActorCx<'_, '_, '_>, &[Message]) + Send + Sync;

/// A handler on the CPU engine.
#[derive(Clone)]
pub enum Handler {
    /// A plain function.
    Function(HandlerFn),
    /// A closure.
    Closure(Arc<HandlerClosure>),
    /// A plain function that handles several messages in one call.
    Batch(BatchFn),
    /// A closure that does.
    BatchClosure(Arc<BatchClosure>),
}

impl Handler {
    fn call(&self, actor: &mut ActorCx<'_, '_, '_>, messages: &[Message]) {
        match self {
            Self::Function(handler) => handler(actor, &messages[0]),
            Self::Closure(handler) => handler(actor, &messages[0]),
            Self::Batch(handler) => handler(actor, messages),
            Self::BatchClosure(handler) => handler(actor, messages),
        }
    }
    /// The most messages of a call.
    const fn at_once(&self) -> u32 {
        match self {
            Self::Function(_) | Self::Closure(_) => 1,
            Self::Batch(_) | Self::BatchClosure(_) => MOST_AT_ONCE,
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

/// A kind of actor: its handler, its state and the limits of both.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name: the device function is called `program_name`.
    pub name: Cow<'static, str>,
    /// The most messages that wait in a mailbox; 1 to 4,095.
    pub bound: u16,
    /// How many threads of a GPU run its handler.
    pub shape: Shape,
    /// The most messages and signals that the handler sends in one call, which is for one message unless the shape is warp
    /// or block. Replies are not among them.
    pub sends: u16,
    /// The device struct of its state.
    pub state: Params,
    /// The size of that struct in bytes.
    pub state_bytes: u32,
    /// Its handler on the CPU engine.
    pub handler: Handler,
    /// What follows when its handler fails.
    pub restarts: Restarts,
    /// Whether a failed handler leaves neither changes of the state nor messages.
    pub atomic: bool,
    /// How often a message is handled again when its handler fails and the actor goes on.
    pub retries: u16,
    /// Whether a turn takes the latest messages only, and drops the others.
    pub keeps_latest: bool,
    /// Whether it is for actors of the host.
    pub is_host: bool,
    /// Whether actors of the program can use on a GPU what is next to messages.
    pub services: bool,
    /// Whether its actors keep asks, and know their timers, on a GPU.
    pub keeps: bool,
    /// Device structs that its handler uses next to its state.
    pub carries: &'static [Params],
    /// The messages that it handles, if they have names. Tags alone are enough for a native kind.
    pub messages: Cow<'static, [MessageType]>,
    /// Of a kind that is made at run time: its handler for GPUs, or why it has none.
    device: Result<Option<Arc<DeviceHandler>>, Cow<'static, str>>,
}

/// The bound of a mailbox unless a kind says otherwise.
const BOUND: u16 = 64;

impl Kind {
    /// A kind whose handler runs in one thread for each actor. It sends nothing, and has the usual bound.
    pub const fn lane(name: &'static str, state: Params, bytes: usize, handler: HandlerFn) -> Self {
        let handler = Handler::Function(handler);
        Self::new(
            Cow::Borrowed(name),
            Shape::Lane,
            state,
            bytes as u32,
            handler,
        )
    }
    /// A kind whose handler handles up to 32 messages of an actor in one call, in their order, with a warp of threads. So an
    /// actor that many send to is not one thread's work. One call fails, is undone and is retried as a whole. The CPU engine
    /// and CUDA run it, but CUDA not if it says [`keeps`](Self::keeps); wgpu does not yet.
    pub const fn warp(name: &'static str, state: Params, bytes: usize, handler: BatchFn) -> Self {
        let handler = Handler::Batch(handler);
        Self::new(
            Cow::Borrowed(name),
            Shape::Warp,
            state,
            bytes as u32,
            handler,
        )
    }
    /// As [`warp`](Self::warp), with a block of threads.
    pub const fn block(name: &'static str, state: Params, bytes: usize, handler: BatchFn) -> Self {
        let mut kind = Self::warp(name, state, bytes, handler);
        kind.shape = Shape::Block;
        kind
    }
    const fn new(
        name: Cow<'static, str>,
        shape: Shape,
        state: Params,
        state_bytes: u32,
        handler: Handler,
    ) -> Self {
        Self {
            name,
            bound: BOUND,
            shape,
            sends: 0,
            state,
            state_bytes,
            handler,
            restarts: Restarts::NEVER,
            atomic: false,
            retries: 0,
            keeps_latest: false,
            is_host: false,
            services: false,
            keeps: false,
            carries: &[],
            messages: Cow::Borrowed(&[]),
            device: Ok(None),
        }
    }
    /// A kind that is made at run time: its handler carries a state of its own, and its actors have `bytes` bytes of
    /// state, without a struct that describes them.
    pub fn closure(
        name: impl Into<Cow<'static, str>>,
        bytes: u32,
        handler: impl Fn(&mut ActorCx<'_, '_, '_>, &Message) + Send + Sync + 'static,
    ) -> Self {
        let none = Params::of::<everwarp_runtime::DevNone>();
        let handler = Handler::Closure(Arc::new(handler));
        Self::new(name.into(), Shape::Lane, none, bytes, handler)
    }
    /// As [`closure`](Self::closure), with up to 32 messages in one call, as [`warp`](Self::warp) has them.
    pub fn batch_closure(
        name: impl Into<Cow<'static, str>>,
        bytes: u32,
        handler: impl Fn(&mut ActorCx<'_, '_, '_>, &[Message]) + Send + Sync + 'static,
    ) -> Self {
        let none = Params::of::<everwarp_runtime::DevNone>();
        let handler = Handler::BatchClosure(Arc::new(handler));
        Self::new(name.into(), Shape::Warp, none, bytes, handler)
    }
    /// A kind for actors of the host: [`ActorSystem::launch_host`](crate::ActorSystem::launch_host) and its streams and
    /// topics launch them, each with a closure of its own. A program with one has what [`services`](Self::services) gives.
    pub fn host(name: impl Into<Cow<'static, str>>) -> Self {
        let mut kind = Self::closure(name, 0, |actor, message| actor.run_part(message));
        kind.is_host = true;
        kind.sends(crate::streams::SENDS)
    }
    /// Restarts an actor that fails: its state begins anew (that of an [`atomic`](Self::atomic) kind stays as it was before
    /// the message), and its id and its mailbox stay. An actor that fails more than `most` times within `within` ends.
    pub const fn restarts(mut self, most: u32, within: Duration) -> Self {
        self.restarts = Restarts { most, within };
        self
    }
    /// Undoes what a failed handler has done: its changes of the state, and its messages, asks and reply. Launches and
    /// signals are not undone. Each message then costs a copy of the state.
    pub const fn atomic(mut self) -> Self {
        self.atomic = true;
        self
    }
    /// A message whose handler fails is handled again, up to `most` times, if the actor goes on: by
    /// [`restarts`](Self::restarts), or because its group restarts it. It counts as failed after the last time only.
    pub const fn retries(mut self, most: u16) -> Self {
        self.retries = most;
        self
    }
    /// The mailbox keeps the latest messages, as many as its bound: when a turn begins and more wait, the oldest are
    /// dropped, and counted as dead letters with [`DeadReason::Dropped`](crate::DeadReason). Senders are muted only when
    /// 4,095 messages wait.
    pub const fn keep_latest(mut self) -> Self {
        self.keeps_latest = true;
        self
    }
    /// Lets all actors of the program have deadlines, timers, monitors, links, names, keys and groups on a GPU, and lets the
    /// host subscribe to their dead letters there: each turn then looks for such messages, too. The CPU engine has them without.
    pub const fn services(mut self) -> Self {
        self.services = true;
        self
    }
    /// Lets its actors keep asks on a GPU (`Actor::keep`, `Actor::reply_kept`), which takes 16 bytes next to each state there, and
    /// [`services`](Self::services). Its turns know the timers of its actors, too: the message of one that is cancelled does not
    /// come, even if it was on its way. The CPU engine has all that without, and so have modules. On a GPU the kind has lane shape.
    pub const fn keeps(mut self) -> Self {
        self.services = true;
        self.keeps = true;
        self
    }
    /// Declares device structs that its handler uses next to its state: those that its channels carry.
    ///
    /// ```
    /// use everwarp_actor::{ActorCx, Message, actors};
    /// use everwarp_contract::dev_struct;
    /// use everwarp_runtime::{DevNone, Params};
    ///
    /// dev_struct! {
    ///     /// A job.
    ///     pub struct DevJob: align 8, size 8 {
    ///         /// Its number.
    ///         pub number: u64,
    ///     }
    /// }
    /// const JOB: &[Params] = &[Params::of::<DevJob>()];
    /// actors! {
    ///     /// Takes jobs from channels.
    ///     static WORKERS: workers() {
    ///         WORKER: lane(worker: DevNone).carries(JOB),
    ///     }
    /// }
    /// fn worker(_: &mut ActorCx<'_, '_, '_>, _: &Message) {}
    /// assert_eq!(WORKERS.kinds[WORKER as usize].carries.len(), 1);
    /// ```
    pub const fn carries(mut self, structs: &'static [Params]) -> Self {
        self.carries = structs;
        self
    }
    /// The bound that senders see.
    pub(crate) const fn room_for_messages(&self) -> u16 {
        if self.keeps_latest {
            MAIL_COUNT_MAX as u16
        } else {
            self.bound
        }
    }
    /// Sets the bound of its mailboxes.
    pub const fn mailbox(mut self, bound: u16) -> Self {
        self.bound = bound;
        self
    }
    /// Sets how many messages and signals its handler sends for one message.
    pub const fn sends(mut self, most: u16) -> Self {
        self.sends = most;
        self
    }
    /// Names its messages.
    pub fn messages(mut self, messages: impl Into<Cow<'static, [MessageType]>>) -> Self {
        self.messages = messages.into();
        self
    }
    /// Gives a kind that is made at run time its handler for GPUs, or says why it has none.
    pub fn on_device(mut self, device: Result<DeviceHandler, String>) -> Self {
        self.device = device.map(|d| Some(Arc::new(d))).map_err(Cow::Owned);
        self
    }
    /// Its handler for GPUs, if it is made at run time and has one.
    pub fn device(&self) -> Option<&Arc<DeviceHandler>> {
        self.device.as_ref().ok().and_then(Option::as_ref)
    }
    /// Its name, and why a CUDA engine cannot run it yet.
    /// `with_source`: its program has device source.
    pub(crate) fn not_on_cuda(&self, with_source: bool) -> Option<(String, Cow<'static, str>)> {
        let why: Cow<'static, str> = match (&self.handler, &self.device) {
            _ if self.is_host => return None,
            _ if self.keeps && self.is_wide() => {
                "its shape is warp or block, and it says .keeps(): on a GPU kinds of lane shape alone keep asks".into()
            }
            (Handler::Function(_) | Handler::Batch(_), _) if with_source => return None,
            (Handler::Function(_) | Handler::Batch(_), _) => {
                "its program has no device source".into()
            }
            (Handler::BatchClosure(_), Ok(Some(_))) => {
                "its handler is a module that handles several messages in one call".into()
            }
            (_, Ok(Some(_))) => return None,
            (_, Ok(None)) => "its handler is a closure".into(),
            (_, Err(why)) => why.clone(),
        };
        Some((self.name.to_string(), why))
    }
    /// Its name, and why no GPU but through CUDA can run it yet.
    pub(crate) fn needs_cpu(&self) -> Option<(String, Cow<'static, str>)> {
        if let Handler::Closure(_) = &self.handler
            && let Ok(Some(_)) = &self.device
        {
            return Some((self.name.to_string(), "its handler is a module".into()));
        }
        if self.is_host {
            let why = "its actors are the host's, which has no thread for them there";
            return Some((self.name.to_string(), why.into()));
        }
        if let Handler::Batch(_) = &self.handler {
            let why = "its shape is warp or block, and the engine runs lanes only";
            return Some((self.name.to_string(), why.into()));
        }
        // Without WGSL the whole program is refused.
        self.not_on_cuda(true)
    }
    /// The size of its state in the tables.
    pub(crate) fn state_room(&self, on_cpu: bool) -> u32 {
        let bytes = match self.device() {
            Some(device) if !on_cpu => device.state_bytes,
            _ => self.state_bytes,
        };
        let lists = if on_cpu { 0 } else { self.list_bytes() };
        bytes.next_multiple_of(16) + lists
    }
    /// Bytes after the state of a native kind that keeps asks on a GPU.
    fn list_bytes(&self) -> u32 {
        match self.keeps && !self.is_host && self.device().is_none() {
            true => KEPT_BYTES,
            false => 0,
        }
    }
    /// Turns that one message may cause on a GPU: of the receivers, and of the asker, each time that it is handled; with
    /// those at the end of a turn, which are one of a waiting sender and one of the actor itself. An event, which may ring
    /// the host's bell, waits in the outbox until there is room for that, and the last one of an actor comes in the place of
    /// its next turn.
    const fn needs(&self) -> u16 {
        match self.is_host {
            // The host handles its messages: its turns end asks, or write one event.
            true => 6,
            false => self.needs_here() - 1,
        }
    }
    /// Whether a warp or a block of a GPU runs its handler.
    const fn is_wide(&self) -> bool {
        !matches!(self.shape, Shape::Lane)
    }
    /// Turns that one turn may cause. A warp runs 32 turns at once where there are up to 15. A turn of warp or block shape has
    /// room for several calls, and each may end asks of 32 askers.
    const fn room(&self) -> u16 {
        // One more for the sender that is woken when the turn begins.
        let needs = match self.is_host {
            true => self.needs_here(),
            false => self.needs() + 1,
        };
        match needs + 1 {
            room if self.is_wide() && room < MAX_SPAWN => MAX_SPAWN,
            _ if needs < 16 => 15,
            room => room,
        }
    }
    /// Room for turns with which a turn starts on a GPU: for one message, one more for the sender that is woken when the turn
    /// begins, and the place that the engine leaves for a continuation.
    const fn least_room(&self) -> u16 {
        self.needs() + 2
    }
    /// What a turn on a GPU knows about its kind, or about several kinds that share it. Then this is the first one.
    fn write_numbers(&self, out: &mut String, program: &str, turns: &DeviceTurns) -> fmt::Result {
        let Self {
            retries, atomic, ..
        } = self;
        let (name, state) = (identifier(&self.name), turns.state);
        let most = self.restarts.most;
        let (within, keep) = (self.restarts.milliseconds(), self.keep());
        let serves = turns.serves;
        let lists = self.lists(serves);
        let (sends, needs) = match turns.kinds.len() {
            1 => (self.sends.to_string(), self.needs().to_string()),
            _ => {
                let table = format!("{program}_{name}_numbers");
                let rows = turns.rows.iter();
                let rows: Vec<_> = rows.map(|(a, b)| format!("{{{a}, {b}}}")).collect();
                let rows = rows.join(", ");
                writeln!(out, "static __constant__ u32 {table}[][2] = {{{rows}}};")?;
                (format!("{table}[kind][0]"), format!("{table}[kind][1]"))
            }
        };
        writeln!(
            out,
            "struct {program}_{name}_kind {{\n  \
             static __device__ __forceinline__ u32 sends([[maybe_unused]] u32 kind) {{ return {sends}; }}\n  \
             static __device__ __forceinline__ u32 needs([[maybe_unused]] u32 kind) {{ return {needs}; }}\n  \
             static constexpr u32 state = {state}, restarts = {most}u, within = {within}u, retries = {retries}, \
             keep = {keep}, room = {room};\n  \
             static constexpr u32 lists_at = {lists_at};\n  \
             static constexpr bool atomic = {atomic}, services = {serves}, lists = {lists}, lends = {lends};\n}};",
            lends = self.is_host,
            // A module has the words in front of its memory.
            lists_at = match self.list_bytes() {
                0 => 0,
                bytes => state - bytes,
            },
            room = self.room()
        )
    }
    /// Whether its actors keep asks or have timers on a GPU.
    fn lists(&self, serves: bool) -> bool {
        serves && (self.list_bytes() != 0 || self.device().is_some_and(|device| device.lists))
    }
    /// Whether turns of both kinds may be the same code on a GPU: handlers are modules, and only `sends` differs. The turn is
    /// most of what there is to compile.
    fn shares_turns(&self, other: &Self) -> bool {
        let all = |kind: &Self| {
            let restarts = (kind.restarts.most, kind.restarts.milliseconds());
            (
                restarts,
                kind.retries,
                kind.keep(),
                kind.atomic,
                kind.lists(true),
            )
        };
        let modules = self.device().is_some() && other.device().is_some();
        modules && all(self) == all(other)
    }
    /// The same on wgpu.
    fn write_wgsl_numbers(&self, out: &mut Wgsl, program: &str) -> fmt::Result {
        let Self {
            name,
            sends,
            retries,
            atomic,
            ..
        } = self;
        let (needs, words, most) = (self.needs(), self.state_room(false) / 4, self.restarts.most);
        let (within, keep) = (self.restarts.milliseconds(), self.keep());
        writeln!(
            out,
            "fn act_kind_{program}_{name}() {{\n  \
             act_needs = {needs}u; act_may_send = {sends}u; act_state_words = {words}u; act_atomic = {atomic};\n  \
             act_restarts = {most}u; act_within = {within}u; act_retries = {retries}u; act_keep = {keep}u;\n}}"
        )
    }
    /// The most messages that a turn takes; 0 for all.
    const fn keep(&self) -> u32 {
        if self.keeps_latest {
            self.bound as u32
        } else {
            0
        }
    }
    /// As `needs`, on the CPU engine, where a courier may be queued, too.
    const fn needs_here(&self) -> u16 {
        // An ask is replied to once, however often it is handled.
        let more_replies = self.handler.at_once() - 1;
        let each = (self.sends as u32 + 1) * (self.retries as u32 + 1) + 3 + more_replies;
        // More than any engine has room for; the check of the program says so.
        if each > u16::MAX as u32 / 2 {
            u16::MAX / 2
        } else {
            each as u16
        }
    }
}

/// The turns of one kind on a GPU, or of several that share their code.
struct DeviceTurns {
    serves: bool,
    /// The numbers of the kinds.
    kinds: Vec<usize>,
    /// The largest state.
    state: u32,
    /// The sends and needs of all kinds of the program.
    rows: Vec<(u16, u16)>,
}

/// The functions that every program of actors has after those of its kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// Delivers messages of the host: first | count << 32. Reports how many were not delivered. Not on CUDA.
    Tell,
    /// Sends an ask of the host.
    Ask,
    /// Reports its argument.
    Value,
    /// Launches actors of kind `tag`: first | count << 32.
    Launch,
    /// Sends the signal `tag` to actors: first | count << 32.
    Signal,
    /// Opens the group that counts turns.
    Anchor,
    /// Lets that group end when no turn is left.
    Leave,
    /// Ends the actors in slots: first | count << 32.
    Close,
    /// The same as [`Tell`](Self::Tell) on CUDA, of messages that are columns: their header | first row << 32.
    Tells,
    /// The host has taken this many events; ends when there are others. This one and what follows is for GPUs.
    Events,
    /// Reports how many events there are. A GPU queues it.
    #[allow(dead_code, reason = "the host does not submit it")]
    Count,
    /// Ends the host's wait for events.
    Ring,
    /// Gives actors news: first | count << 32.
    News,
    /// Sets the notes `tag` of actors: first | count << 32.
    Note,
    /// Does items for a thread of the host: region | first << 32 | end << 48.
    Do,
    /// Takes messages of the actor in a slot that the host is lent: region | slot << 32. This one and what follows is for
    /// programs with kinds for actors of the host.
    Take,
    /// Gives an actor back: region | items that are done << 32.
    Return,
}

/// A function's name, its twin and how many tasks it spawns at most. All but [`Builtin::Tells`] are of lane shape.
type BuiltinRow = (&'static str, fn(&mut dyn everwarp_runtime::TaskCx), u16);
/// The name of [`Builtin::Tells`].
const TELLS: &str = "host_tells";
static BUILTINS: [BuiltinRow; 17] = [
    ("host_tell", builtin::tell, builtin::STEP as u16 + 1),
    ("host_ask", builtin::ask, 3),
    ("host_value", builtin::value, 0),
    ("host_launch", builtin::launch, 0),
    ("host_signal", builtin::signal, builtin::STEP as u16 + 1),
    ("host_anchor", builtin::anchor, 1),
    ("host_leave", builtin::leave, 1),
    ("host_close", builtin::close, builtin::STEP as u16 + 1),
    (
        TELLS,
        builtin::gpus_only,
        (TELL_ROWS + TELL_MORE) as u16 + 1,
    ),
    ("host_events", builtin::gpus_only, 2),
    ("host_count", builtin::gpus_only, 0),
    ("host_ring", builtin::gpus_only, 1),
    ("host_news", builtin::gpus_only, builtin::STEP as u16 + 1),
    ("host_note", builtin::gpus_only, 0),
    ("host_do", builtin::gpus_only, builtin::STEP as u16 + 1),
    ("host_take", builtin::gpus_only, 0),
    ("host_return", builtin::gpus_only, builtin::STEP as u16 + 3),
];

/// A program of actors. [`actors!`](crate::actors) makes a `static` one; one that becomes known only at run time is a
/// value like any other.
#[derive(Debug)]
pub struct ActorProgram {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its kinds; a kind's number is its index here.
    pub kinds: Cow<'static, [Kind]>,
    /// Its device source: CUDA C++ that defines `name_kind` for each kind.
    pub device_source: Cow<'static, str>,
    /// The same in WGSL, where a handler is a function without parameters; empty if there is none.
    pub wgsl_source: Cow<'static, str>,
    /// Its parameters.
    pub params: Params,
    /// The program of tasks, once it is made.
    program: OnceLock<Arc<Program>>,
    /// Why actors failed.
    failures: OnceLock<Arc<FailureLog>>,
    /// What is kept for its systems on the CPU engine.
    sides: OnceLock<Arc<Sides>>,
}

impl ActorProgram {
    /// A program of these kinds.
    pub const fn new(
        name: Cow<'static, str>,
        kinds: Cow<'static, [Kind]>,
        device_source: Cow<'static, str>,
        wgsl_source: Cow<'static, str>,
        params: Params,
    ) -> Self {
        Self {
            name,
            kinds,
            device_source,
            wgsl_source,
            params,
            program: OnceLock::new(),
            failures: OnceLock::new(),
            sides: OnceLock::new(),
        }
    }

    /// A program of kinds that are made at run time, which the CPU engine runs.
    pub fn closures(name: impl Into<Cow<'static, str>>, kinds: Vec<Kind>) -> Self {
        let none = Params::of::<everwarp_runtime::DevNone>();
        let bare = Cow::Borrowed("");
        Self::new(name.into(), kinds.into(), bare.clone(), bare, none)
    }
    /// The same program with kinds that are made at run time after its own, such as a [`Kind::host`].
    pub fn with_kinds(&self, more: impl IntoIterator<Item = Kind>) -> Self {
        let kinds: Vec<Kind> = self.kinds.iter().cloned().chain(more).collect();
        Self::new(
            self.name.clone(),
            kinds.into(),
            self.device_source.clone(),
            self.wgsl_source.clone(),
            self.params.clone(),
        )
    }
    /// The same program with services, as if a kind were declared with [`Kind::services`]: for programs that do not know at
    /// their start what their host will ask for.
    #[must_use]
    pub fn services(mut self) -> Self {
        let mut kinds = self.kinds.into_owned();
        kinds.iter_mut().for_each(|kind| kind.services = true);
        self.kinds = kinds.into();
        // What was made of it, if anything, was made of the program without.
        self.program = OnceLock::new();
        self
    }
    /// The number of the kind with this name.
    pub fn kind(&self, name: &str) -> Option<u32> {
        let position = self.kinds.iter().position(|kind| kind.name == name);
        position.map(|number| number as u32)
    }
    /// The message with this name.
    pub fn message(&self, name: &str) -> Option<&MessageType> {
        self.messages().find(|message| message.name == name)
    }
    /// The messages of all kinds. Those that several kinds handle come several times.
    pub fn messages(&self) -> impl Iterator<Item = &MessageType> {
        self.kinds.iter().flat_map(|kind| &*kind.messages)
    }
    /// The first kind that CUDA engines cannot run yet, and why.
    pub fn not_on_cuda(&self) -> Option<(String, Cow<'static, str>)> {
        let with_source = !self.device_source.is_empty();
        let mut kinds = self.kinds.iter();
        kinds.find_map(|kind| kind.not_on_cuda(with_source))
    }
    /// The turns of the kinds whose actors a GPU lends to the host.
    pub(crate) fn lent(&self) -> Vec<Option<Turns>> {
        let turns = |kind: &Kind| Turns::of(kind, self.failures().clone());
        let kinds = self.kinds.iter();
        kinds
            .map(|kind| kind.is_host.then(|| turns(kind)))
            .collect()
    }
    pub(crate) fn failures(&self) -> &Arc<FailureLog> {
        self.failures.get_or_init(Arc::default)
    }

    /// Whether actors can use on a GPU what is next to messages.
    pub(crate) fn serves(&self) -> bool {
        self.kinds.iter().any(|kind| kind.services) || self.lends()
    }
    /// Whether it has kinds for actors of the host, and a GPU runs it: then they are lent to the host there.
    pub(crate) fn lends(&self) -> bool {
        self.kinds.iter().any(|kind| kind.is_host) && self.not_on_cuda().is_none()
    }
    /// The functions after those of the kinds: the last ones are for programs that use services, or have actors of the host.
    fn builtins(&self) -> &'static [BuiltinRow] {
        match (self.lends(), self.serves()) {
            (true, _) => &BUILTINS,
            (false, true) => &BUILTINS[..Builtin::Take as usize],
            (false, false) => &BUILTINS[..Builtin::Events as usize],
        }
    }
    pub(crate) fn sides(&self) -> &Arc<Sides> {
        self.sides.get_or_init(Arc::default)
    }

    /// The program of tasks, which an engine is started with.
    ///
    /// # Panics
    /// A kind's bound is not between 1 and 4,095, its handler sends more than an engine has room for, or two kinds have
    /// one name.
    pub fn program(&self) -> ProgramRef {
        self.made().into()
    }
    /// The same of a `static` program.
    ///
    /// # Panics
    /// As [`program`](Self::program).
    pub fn static_program(&'static self) -> &'static Program {
        self.made()
    }
    fn made(&self) -> &Arc<Program> {
        self.program.get_or_init(|| Arc::new(self.make()))
    }

    fn make(&self) -> Program {
        for (i, kind) in self.kinds.iter().enumerate() {
            let twice = self.kinds[..i].iter().any(|other| other.name == kind.name);
            assert!(
                !twice,
                "the program `{}` has two kinds called `{}`: give each its own name",
                self.name, kind.name
            );
            let (name, bound) = (&kind.name, kind.bound);
            assert!(
                (1..=MAIL_COUNT_MAX).contains(&bound.into()),
                "the mailbox of kind `{name}` has a bound of {bound}: give it 1 to {MAIL_COUNT_MAX}"
            );
            let most = u32::from(MAX_SPAWN - 4) - kind.handler.at_once();
            assert!(
                kind.room() <= MAX_SPAWN,
                "the handler of kind `{name}` sends {} messages: send them in several steps, up to {most} at a time",
                kind.sends,
            );
        }
        let turns = self.kinds.iter().map(|kind| {
            let function = turn_function(kind, self.failures().clone(), self.sides().clone());
            let mut kinds = self.kinds.iter();
            match kinds.find(|first| first.shares_turns(kind)) {
                Some(first) if first.name != kind.name => function.shares(turn_name(&first.name)),
                _ => function,
            }
        });
        let builtins = self.builtins().iter().map(|&(name, twin, room)| {
            // A call, because it leaves turns too few registers.
            let function = match name {
                TELLS => Function::warp(name, twin).outlined(),
                _ => Function::lane(name, twin),
            };
            match room {
                0 => function,
                _ => function.spawns(room),
            }
        });
        let mut source = String::new();
        self.write_source(&mut source).expect("a string takes it");
        let mut wgsl = Wgsl::default();
        self.write_wgsl(&mut wgsl)
            .expect("every layout of a program with WGSL has a WGSL form");
        Program {
            name: self.name.clone(),
            functions: turns.chain(builtins).collect(),
            device_source: source.into(),
            wgsl_source: wgsl.0.into(),
            params: Params::of::<DevActors>(),
        }
    }

    /// The device source: the structs, the handlers, and a function for each turn and builtin.
    fn write_source(&self, out: &mut String) -> fmt::Result {
        let program = &*identifier(&self.name);
        let header = if self.serves() { "part" } else { "host" };
        writeln!(out, "#include \"everwarp/actor/{header}.cuh\"")?;
        if self.kinds.iter().any(Kind::is_wide) {
            writeln!(out, "#include \"everwarp/actor/wide_turn.cuh\"")?;
        }
        let states = self.kinds.iter().map(|kind| &kind.state);
        let carried = self.kinds.iter().flat_map(|kind| kind.carries);
        for params in states.chain(carried).chain([&self.params]) {
            params.write_once(out)?;
        }
        writeln!(out, "#line 1 \"{program}.cu\"\n{}", self.device_source)?;
        if self.not_on_cuda().is_some() {
            return self.write_refusals(out);
        }
        let base = format!("FN_{program}_{}", device_turn(&self.kinds[0]));
        for turns in self.device_turns() {
            let kind = &self.kinds[turns.kinds[0]];
            let (state, params) = (&kind.state.name, &self.params.name);
            let (name, turn) = (identifier(&kind.name), device_turn(kind));
            kind.write_numbers(out, program, &turns)?;
            if kind.is_host {
                writeln!(
                    out,
                    "__device__ __forceinline__ void {program}_{turn}(ew::Lane& t, const DevActors& s) {{\n  \
                     ew::actor_turn<{program}_{name}_kind>(t, s, {base}, [](ew::Actor&, const ew::Message&) {{}});\n}}"
                )?;
                continue;
            }
            if kind.device().is_some() {
                let mut cases = String::new();
                for &number in &turns.kinds {
                    let kind = &self.kinds[number];
                    let (name, device) = (identifier(&kind.name), kind.device());
                    writeln!(
                        out,
                        "#include \"everwarp/actor/module.cuh\"\n#line 1 \"{name}.wasm\"\n\
                         namespace {program}_{name}_module {{\n{}}}",
                        device.map_or("", |device| &device.source)
                    )?;
                    let call = format!("{program}_{name}_module::handle(a, {number});");
                    match turns.kinds.len() {
                        1 => write!(cases, "{call}")?,
                        _ => write!(cases, "\n      case {number}: {call} break;")?,
                    }
                }
                if turns.kinds.len() > 1 {
                    cases = format!("switch (a.kind()) {{{cases}\n    }}");
                }
                writeln!(
                    out,
                    "#line 1 \"turns\"\n\
                     __device__ __forceinline__ void {program}_{turn}(ew::Lane& t, const DevActors& s) {{\n  \
                     ew::actor_turn<{program}_{name}_kind>(t, s, {base}, [](ew::Actor& a, const ew::Message&) {{\n    \
                     {cases}\n  }});\n}}"
                )?;
                continue;
            }
            let (task, run, actor, turn_of) = match kind.shape {
                Shape::Lane => ("Lane", "actor_turn", "Actor", "a"),
                Shape::Warp => ("Warp", "actor_turn_wide", "WarpActor", "a.own"),
                Shape::Block => ("Block", "actor_turn_wide", "BlockActor", "a.own"),
            };
            writeln!(
                out,
                "__device__ __forceinline__ void {program}_{turn}(ew::{task}& t, const DevActors& s) {{\n  \
                 ew::{run}<{program}_{name}_kind>(t, s, {base}, [](ew::{actor}& a, const ew::Message& m) {{\n    \
                 {program}_{name}(a, a.template state<{state}>(), m, *(const {params}*){turn_of}.system.user);\n  }});\n}}",
            )?;
        }
        for (name, _, _) in self.builtins() {
            let view = builtin_view(name);
            writeln!(
                out,
                "__device__ __forceinline__ void {program}_{name}(ew::{view}& t, const DevActors& s) {{ \
                 ew::actor_{name}(t, s, {base}); }}"
            )?;
        }
        Ok(())
    }
    /// The turns of each kind, those together that share their code.
    fn device_turns(&self) -> Vec<DeviceTurns> {
        let mut all: Vec<DeviceTurns> = Vec::new();
        for (number, kind) in self.kinds.iter().enumerate() {
            let state = kind.state_room(false);
            let shares = |turns: &&mut DeviceTurns| self.kinds[turns.kinds[0]].shares_turns(kind);
            if let Some(turns) = all.iter_mut().find(shares) {
                turns.kinds.push(number);
                turns.state = turns.state.max(state);
                continue;
            }
            all.push(DeviceTurns {
                serves: self.serves(),
                kinds: vec![number],
                state,
                rows: (self.kinds.iter())
                    .map(|kind| (kind.sends, kind.needs()))
                    .collect(),
            });
        }
        all
    }
    /// The WGSL: the structs, the handlers, and the numbers of the kinds. Empty if the program has none, and
    /// then an engine on wgpu refuses it.
    fn write_wgsl(&self, out: &mut Wgsl) -> fmt::Result {
        if self.wgsl_source.is_empty() || self.kinds.iter().any(|k| k.needs_cpu().is_some()) {
            return Ok(());
        }
        let program = &self.name;
        let states = self.kinds.iter().map(|kind| &kind.state);
        let mut declared = vec![Cow::Borrowed(everwarp_runtime::DevNone::NAME)];
        for params in states.chain([&self.params]) {
            if !declared.contains(&params.name) {
                params.write(out)?;
                declared.push(params.name.clone());
            }
        }
        out.write_str(&self.wgsl_source)?;
        // The image calls the handlers: one function serves all programs, because drivers copy the code of turns for each.
        for kind in &*self.kinds {
            kind.write_wgsl_numbers(out, program)?;
        }
        Ok(())
    }
    /// The functions of a program that a GPU does not run: `ActorSystem::start` says why, which needs a running engine.
    fn write_refusals(&self, out: &mut String) -> fmt::Result {
        let turns = self.kinds.iter().map(|kind| (device_turn(kind), "Lane"));
        let builtins = self.builtins().iter();
        let builtins = builtins.map(|(name, _, _)| ((*name).to_owned(), builtin_view(name)));
        let program = identifier(&self.name);
        for (name, view) in turns.chain(builtins) {
            writeln!(
                out,
                "__device__ __forceinline__ void {program}_{name}(ew::{view}& t, const DevActors&) {{ t.fault(0); }}"
            )?;
        }
        Ok(())
    }
}

/// What the function of a builtin sees in device source.
fn builtin_view(name: &str) -> &'static str {
    match name {
        TELLS => "Warp",
        _ => "Lane",
    }
}

/// The name of a kind's turns in device source.
fn device_turn(kind: &Kind) -> String {
    identifier(&turn_name(&kind.name)).into_owned()
}

/// What the turns of a kind need to know.
#[derive(Debug)]
pub(crate) struct Turns {
    handler: Handler,
    /// Bytes of its actors' states.
    pub(crate) state_bytes: u32,
    sends: u32,
    restarts: Restarts,
    atomic: bool,
    retries: u16,
    takes: Takes,
    failures: Arc<FailureLog>,
}

/// The function of a kind's turns.
fn turn_function(kind: &Kind, failures: Arc<FailureLog>, sides: Arc<Sides>) -> Function {
    let (room, needs) = (kind.room(), kind.needs_here());
    let turns = Turns::of(kind, failures);
    let twin = Twin::new(move |task| {
        let system = system(task);
        let (mut slot, courier, arg) = (task.lo(), task.hi() == COURIER, task.arg());
        let table = table(&system);
        let mut host = TaskHost {
            task,
            system,
            room: room.into(),
            chain: Chain::none(),
            needs: needs.into(),
            sides: Some(&sides),
            far: None,
        };
        if courier {
            return host.carry();
        }
        set_handles(true);
        let shard = shard();
        let kind = table.slots[slot as usize].meta.load(Ordering::Relaxed) as u16;
        host.chain = Chain::of(kind);
        let mut some = Neighbours::from_arg(kind, arg);
        let _first = some.take();
        let mut held = host.hold_neighbours(some);
        loop {
            turn::run(
                table,
                slot,
                shard,
                turns.takes,
                &mut host,
                |turn, host, work| match work {
                    Work::Message(cell) => turns.message(turn, host, cell),
                    Work::Messages(cells) => turns.messages(turn, host, cells),
                    Work::News => turns.news(turn, host),
                },
            );
            let next = host.next_turn();
            match next.or_else(|| host.next_neighbour(&mut held)) {
                Some(next) => slot = next,
                None => break,
            }
        }
        host.queue_rest();
        host.queue_held(held);
        set_handles(false);
    });
    // Oldest first: every actor that has messages gets its turn.
    let function = Function::shaped(kind.shape, turn_name(&kind.name).into(), twin);
    let function = function.spawns(room).breadth_first();
    match kind.is_wide() {
        // A call may need all of its room.
        true => function,
        false => function.starts_with(kind.least_room()),
    }
}

impl Turns {
    fn of(kind: &Kind, failures: Arc<FailureLog>) -> Self {
        Self {
            handler: kind.handler.clone(),
            state_bytes: kind.state_bytes,
            sends: kind.sends.into(),
            restarts: kind.restarts,
            atomic: kind.atomic,
            retries: kind.retries,
            takes: Takes {
                keep: kind.keep(),
                at_once: kind.handler.at_once(),
            },
            failures,
        }
    }
    /// The most messages and replies that follow from one message.
    pub(crate) fn most_items(&self) -> usize {
        (self.sends as usize + 1) * (usize::from(self.retries) + 1)
    }
    fn message(&self, turn: &mut Turn<'_>, host: &mut TaskHost<'_>, cell: u32) {
        let (mut message, mut ask) = (Message::EMPTY, None);
        if take(turn, host, cell, &mut message, &mut ask) {
            let keys = keys(turn, from_ref(&cell));
            self.watched(turn, host, keys, from_ref(&message), from_mut(&mut ask));
        }
    }
    fn messages(&self, turn: &mut Turn<'_>, host: &mut TaskHost<'_>, cells: &[u32]) {
        const MOST: usize = MOST_AT_ONCE as usize;
        let (mut messages, mut asks) = ([Message::EMPTY; MOST], [None; MOST]);
        let (mut count, mut came) = (0, [0; MOST]);
        for &cell in cells {
            came[count] = cell;
            let taken = take(turn, host, cell, &mut messages[count], &mut asks[count]);
            count += usize::from(taken);
        }
        if count > 0 {
            let (messages, asks) = (&messages[..count], &mut asks[..count]);
            let keys = keys(turn, &came[..count]);
            self.watched(turn, host, keys, messages, asks);
        }
    }
    /// Handles messages, and measures that. A trace knows them by these keys.
    fn watched(
        &self,
        turn: &mut Turn<'_>,
        host: &mut TaskHost<'_>,
        keys: impl IntoIterator<Item = u64>,
        messages: &[Message],
        asks: &mut [Option<u32>],
    ) {
        let Some(watched) = handling() else {
            return self.handle(turn, host, messages, asks);
        };
        let begin = watched.begin();
        self.handle(turn, host, messages, asks);
        let function = host.task.task().function().0;
        watched.end(function, begin, messages[0].tag(), keys);
    }
    /// Handles messages, and again if the handler fails and the kind says so.
    pub(crate) fn handle(
        &self,
        turn: &mut Turn<'_>,
        host: &mut TaskHost<'_>,
        messages: &[Message],
        asks: &mut [Option<u32>],
    ) {
        for left in (0..=self.retries).rev() {
            let mut actor = self.actor(turn, host, messages, asks);
            actor.begin();
            self.handler.call(&mut actor, messages);
            if actor.end(self.restarts, left != 0) == Retry::Done {
                return;
            }
        }
    }
    fn actor<'c, 't, 'h>(
        &'c self,
        turn: &'c mut Turn<'t>,
        host: &'c mut TaskHost<'h>,
        messages: &'c [Message],
        asks: &'c mut [Option<u32>],
    ) -> ActorCx<'c, 't, 'h> {
        ActorCx {
            turn,
            host,
            messages,
            asks,
            sends: self.sends,
            failures: &self.failures,
            undo: self.atomic.then(Undo::take),
            keeps: Vec::new(),
        }
    }
    /// Handles the oldest news.
    fn news(&self, turn: &mut Turn<'_>, host: &mut TaskHost<'_>) {
        let (id, slot) = (turn.id, turn.slot);
        let none_left = || {
            slot.notes.fetch_and(!NEWS, Ordering::Relaxed);
        };
        let Some(side) = host.side() else {
            return none_left();
        };
        match side.take_news(id, none_left) {
            Taken::Nothing => {}
            Taken::Message(message, key) => {
                self.watched(turn, host, [key], &[message], &mut [None]);
            }
            Taken::Reset => self.reset(turn, host),
        }
    }
    /// The actor begins anew because its group restarts it.
    pub(crate) fn reset(&self, turn: &mut Turn<'_>, host: &mut TaskHost<'_>) {
        let (none, asks) = ([Message::EMPTY], &mut [None]);
        self.actor(turn, host, &none, asks).restart(false);
    }
}

/// What a trace knows the messages by that came in these cells.
fn keys<'c>(turn: &Turn<'_>, cells: &'c [u32]) -> impl Iterator<Item = u64> + use<'c> {
    let system = std::ptr::from_ref(turn.table.control).addr();
    cells.iter().map(move |&cell| cell_key(system, cell))
}

/// Takes the message out of a cell, and the cell if it is an ask. Returns false for a late reply, which reaches no actor.
#[inline]
fn take(
    turn: &mut Turn<'_>,
    host: &TaskHost<'_>,
    cell: u32,
    message: &mut Message,
    ask: &mut Option<u32>,
) -> bool {
    *message = message_in(&turn.table.cells[cell as usize]);
    let asks = message.head & MESSAGE_ASK != 0;
    *ask = asks.then_some(cell);
    if !asks {
        turn.free(cell);
    }
    !message.ends_deadline() || give_answer(message, host.side().as_deref())
}

/// The declarations that `actors!` makes of its types.
#[doc(hidden)]
pub const fn declared<P: everwarp_contract::Layout>() -> Params {
    Params {
        name: Cow::Borrowed(P::NAME),
        declaration: Declaration::Written(P::write_struct),
    }
}

/// Declares an [`ActorProgram`]: its parameters, its device source, and a table of its kinds. The files after `wgsl`, which
/// follows the device source, hold the handlers in WGSL.
///
/// Each row of the table is a kind: a constant for its number, the name of its handler with the type of its state (a
/// [`dev_struct!`](everwarp_contract::dev_struct)), and its limits. The shape is `lane`, `warp` or `block`, which are
/// functions of [`Kind`]. The handler is a function in scope; the device source defines `program_name`. Without device source only the CPU engine runs the program.
///
/// ```
/// use everwarp_actor::{ActorCx, ActorSystem, Message, actors};
/// use everwarp_contract::dev_struct;
/// use everwarp_runtime::{Device, Select};
///
/// dev_struct! {
///     /// The state of a counter.
///     pub struct DevCounter: align 8, size 8 {
///         /// The sum so far.
///         pub sum: u64,
///     }
/// }
///
/// actors! {
///     /// Counters.
///     pub static COUNTERS: counters() {
///         /// Adds the numbers that it receives, and replies with the sum.
///         COUNTER: lane(counter: DevCounter),
///     }
/// }
///
/// const ADD: u8 = 1;
/// const GET: u8 = 2;
///
/// fn counter(actor: &mut ActorCx<'_, '_, '_>, message: &Message) {
///     let state = actor.state::<DevCounter>();
///     match message.tag() {
///         ADD => state.sum += message.word(0),
///         GET => {
///             let sum = state.sum;
///             actor.reply(GET, &[sum]);
///         }
///         _ => actor.fail(),
///     }
/// }
///
/// # fn main() -> Result<(), everwarp_actor::ActorError> {
/// let device = Device::open(Select::Cpu)?;
/// let engine = device.engine().program(COUNTERS.program()).start()?;
/// let system = ActorSystem::start(&engine, &COUNTERS, Default::default())?;
/// let counter = system.launch(COUNTER)?;
/// for n in 1..=10 {
///     system.tell(counter, ADD, &[n])?;
/// }
/// assert_eq!(system.ask(counter, GET, &[])?.words(), [55]);
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! actors {
    (
        $(#[$meta:meta])*
        $vis:vis static $PROGRAM:ident: $program:ident($($params:ty)?) $(, $source:literal)* $(; wgsl $($wgsl:literal),+)? {
            $(
                $(#[$doc:meta])*
                $NUMBER:ident: $shape:ident($name:ident: $state:ty) $(.$what:ident($($argument:expr),*))*
            ),+ $(,)?
        }
    ) => {
        $crate::program::everwarp_runtime::program!(@numbers [$($NUMBER)+] ($vis) $($(#[$doc])* $NUMBER)+);
        $(#[$meta])*
        $vis static $PROGRAM: $crate::ActorProgram = {
            static KINDS: &[$crate::Kind] = &[$(
                $crate::Kind::$shape(
                    ::core::stringify!($name),
                    $crate::program::declared::<$state>(),
                    ::core::mem::size_of::<$state>(),
                    $name,
                )$(.$what($($argument),*))*
            ),+];
            $crate::ActorProgram::new(
                ::std::borrow::Cow::Borrowed(::core::stringify!($program)),
                ::std::borrow::Cow::Borrowed(KINDS),
                ::std::borrow::Cow::Borrowed(::core::concat!($(::core::include_str!($source)),*)),
                ::std::borrow::Cow::Borrowed(::core::concat!($($(::core::include_str!($wgsl)),+)?)),
                $crate::program::declared::<$crate::actors!(@params $($params)?)>(),
            )
        };
    };
    (@params) => { $crate::program::everwarp_runtime::DevNone };
    (@params $params:ty) => { $params };
}

#[doc(hidden)]
pub use everwarp_runtime;
