//! Actors: their slots, their messages, and the pools of both. The protocol is described in `docs/actors.md`.
//!
//! `mail`, the word on which senders, the running actor and signals meet, from the lowest bit: the newest cell of the
//! mailbox plus one (28), the number of messages that were accepted and not handled (12), flags (8), the lower bits of
//! the generation (16).
//!
//! An actor's id: slot (28), generation (28), node (8; 0 until there is more than one).

use crate::layout::DevPtr;

crate::dev_consts! {
    /// Writes the constants of actors as CUDA C++.
    pub fn write_consts;
    /// `mail`: width of the cell's number.
    pub const MAIL_CELL_BITS = 28;
    /// `mail`: first bit of the number of messages.
    pub const MAIL_COUNT_SHIFT = 28;
    /// The largest bound of a mailbox.
    pub const MAIL_COUNT_MAX = 0xfff;
    /// `mail`: first bit of the flags.
    pub const MAIL_FLAG_SHIFT = 40;
    /// `mail`: first bit of the generation.
    pub const MAIL_GENERATION_SHIFT = 48;
    /// Flag: the slot holds an actor.
    pub const MAIL_LIVE = 1;
    /// Flag: a turn of the actor is queued or runs, or the actor is muted.
    pub const MAIL_BUSY = 2;
    /// Flag: the actor ends when its mailbox is empty, and accepts no more.
    pub const MAIL_STOP = 4;
    /// Flag: the actor ends now; its messages become dead letters.
    pub const MAIL_KILL = 8;
    /// Flag: a muted sender waits for room in the mailbox.
    pub const MAIL_WAIT = 16;
    /// Flag: the actor keeps its messages and handles none.
    pub const MAIL_PAUSED = 32;
    /// Flag: the actor is muted: it runs again when a mailbox has room, or when another actor waits for it.
    pub const MAIL_MUTED = 64;
    /// Flag: the actor is in a list of waiting senders.
    pub const MAIL_LISTED = 128;
    /// An id: first bit of the generation.
    pub const ACTOR_GENERATION_SHIFT = 28;
    /// An id: first bit of the node.
    pub const ACTOR_NODE_SHIFT = 56;
    /// The last generation of a slot. A slot that reaches it is not used again.
    pub const ACTOR_GENERATION_MAX = 0x0fff_ffff;
    /// 64-bit words of a message.
    pub const MESSAGE_WORDS = 5;
    /// `DevMessage::head`: first bit of the number of words (7).
    pub const MESSAGE_WORDS_SHIFT = 8;
    /// `DevMessage::head`: a payload comes with it. The fourth word has its number and, in the upper half, how many elements a
    /// GPU finds at the address in the fifth.
    pub const MESSAGE_PAYLOAD = 1 << 15;
    /// `DevMessage::head`: the sender wants a reply.
    pub const MESSAGE_ASK = 1 << 16;
    /// `DevMessage::head`: it is a reply.
    pub const MESSAGE_REPLY = 1 << 17;
    /// `DevMessage::head`: the asker is the host; `from` is a group and the index of a reply record.
    pub const MESSAGE_HOST = 1 << 18;
    /// `DevMessage::head`: the ask failed, and the tag is the reason.
    pub const MESSAGE_FAILED = 1 << 19;
    /// `DevMessage::head`: the ask has a deadline, and its last word is a number of the host's. CPU engine only.
    pub const MESSAGE_DEADLINE = 1 << 20;
    /// `DevMessage::head`: a timer sent it. CPU engine only.
    pub const MESSAGE_TIMER = 1 << 21;
    /// `DevMessage::head`: an actor has ended that the receiver monitors. CPU engine only.
    pub const MESSAGE_DOWN = 1 << 22;
    /// `DevMessage::head`: a topic says how many messages the receiver has missed. Not on wgpu.
    pub const MESSAGE_MISSED = 1 << 23;
    /// `DevMessage::head` in a cell: it overtakes the mailbox, and is not counted there. GPUs only.
    pub const MESSAGE_NEWS = 1 << 24;
    /// The same: a periodic timer sent it, and waits until it is handled.
    pub const MESSAGE_TICK = 1 << 25;
    /// The same: it is a value of a channel, which goes back to the channel if its actor ends before.
    pub const MESSAGE_VALUE = 1 << 26;
    /// The same: no message, but the group of the actor restarts it.
    pub const MESSAGE_RESET = 1 << 27;
    /// `DevMessage::head` in a mailbox: its handler has failed, and it is handled again if the host lets the actor go on. The
    /// receiver's place has how often after that. GPUs only.
    pub const MESSAGE_AGAIN = 1 << 28;
    /// `DevMessage::head` of an ask that an actor has kept and lost: the actor would have ended, and began anew. GPUs only.
    pub const KEPT_ENDED = 1 << 28;
    /// `DevMessage::head` of a cell that an actor keeps: it is not kept any more once the handler has returned. GPUs only.
    pub const KEPT_MARKED = 1 << 29;
    /// The same of an ask: its actor began anew and does not know it any more.
    pub const KEPT_LOST = 1 << 30;
    /// The same: it was shown as a dead letter.
    pub const KEPT_SHOWN = 1 << 31;
    /// `DevMessage::head` of an event, which is a message to the host: first bit of its number (8). GPUs only.
    pub const EVENT_SHIFT = 24;
    /// An actor (`to`) has ended; word 0 says how.
    pub const EVENT_ENDED = 1;
    /// An actor (`from`) asks with a deadline: words are a number of the GPU's, the actor's own, and the time in nanoseconds.
    pub const EVENT_ASKS = 2;
    /// An ask with a deadline has ended: a reply to `to`, whose last word is the GPU's number.
    pub const EVENT_ANSWER = 3;
    /// An actor (`from`) wants a message after a time: words are the time, a number of the GPU's, and up to three. A
    /// fourth is in `to`.
    pub const EVENT_AFTER = 4;
    /// The same each time that a period has passed.
    pub const EVENT_EVERY = 5;
    /// Cancels the timer with this number of the GPU's.
    pub const EVENT_CANCEL = 6;
    /// An actor (`from`) monitors another one (word 0); word 1 is its number for that.
    pub const EVENT_MONITOR = 7;
    /// Ends the monitors on another one (word 0).
    pub const EVENT_DEMONITOR = 8;
    /// Links an actor (`from`) with another one (word 0).
    pub const EVENT_LINK = 9;
    /// Ends a link.
    pub const EVENT_UNLINK = 10;
    /// An actor is about to handle the message of a periodic timer, whose last word this is: the next one may come.
    pub const EVENT_TICK = 11;
    /// An actor of the host (`from`), of the kind in word 0, has messages: the host handles them, and gives the actor back.
    pub const EVENT_LENT = 12;
    /// An actor of a supervised group (`from`) is held: it would end as word 0 says, or its handler has failed (`HELD_FAILS`).
    /// The host says whether it goes on.
    pub const EVENT_HELD = 13;
    /// Why an actor is held, next to how it would end: its handler has failed, and its kind does not restart it.
    pub const HELD_FAILS = 3;
    /// An actor (`from`) sends a value on a channel: words are the channel with the number of the value's type in the upper
    /// half, the actor's own number, and up to three words of the value. The fourth is in `to`.
    pub const EVENT_SENDS = 14;
    /// An actor (`from`) receives on a channel: words are the channel, as above, and the actor's own number.
    pub const EVENT_RECEIVES = 15;
    /// A dead letter to `to`; its reason is added.
    pub const EVENT_LETTER = 16;
    /// An actor (`from`) is about to handle a value of a channel.
    pub const EVENT_VALUE = 24;
    /// An actor (`from`) closes the channel in word 0.
    pub const EVENT_CLOSES = 25;
    /// A message was handled, and its payload ends. The words are those of the message.
    pub const EVENT_PAYLOAD = 26;
    /// Events that wait for the host at most; a power of two.
    pub const ACTOR_EVENTS = 4096;
    /// Events that the host takes at a time.
    pub const ACTOR_EVENTS_STEP = 256;
    /// `DevActor::notes`: the actor has failed.
    pub const NOTE_FAILED = 1;
    /// The host keeps something about the actor, and wants to know when it ends.
    pub const NOTE_KNOWN = 2;
    /// Messages wait that are not in the mailbox.
    pub const NOTE_NEWS = 4;
    /// The actor belongs to a supervised group.
    pub const NOTE_SUPERVISED = 8;
    /// Width of the notes; on a GPU the newest of the news follows, plus one.
    pub const NOTE_BITS = 4;
    /// The actor to which a message was sent does not live.
    pub const DEAD_GONE = 0;
    /// The actor ended before it handled the message.
    pub const DEAD_ENDED = 1;
    /// The actor handled an ask without a reply.
    pub const DEAD_NO_REPLY = 2;
    /// The actor failed while it handled the message.
    pub const DEAD_FAILED = 3;
    /// How many reasons are counted next to each other.
    pub const DEAD_REASONS = 4;
    /// The kind keeps its latest messages only.
    pub const DEAD_DROPPED = 4;
    /// The ask had a deadline, which has passed. CPU engine only.
    pub const DEAD_TIMEOUT = 5;
    /// Stacks that free cells and free slots are spread over.
    pub const ACTOR_SHARDS = 1024;
    /// Stacks from one to the next where one looks for a free number. It is odd, so that one comes to all of them. Neighbours are
    /// those of one warp, which may have taken all that theirs have.
    pub const ACTOR_SHARD_STEP = 633;
    /// 64-bit words from one stack's head to the next.
    pub const ACTOR_SHARD_STRIDE = 4;
    /// Stacks of free cells begin here (times `ACTOR_SHARDS`).
    pub const ACTOR_CELLS = 0;
    /// Stacks of free slots.
    pub const ACTOR_SLOTS = 1;
    /// Detail of the program fault that ends an engine whose pool of message cells is exhausted.
    pub const ACTOR_FAULT_CELLS = 0xac70_0001;
    /// The same of a handler that sends more than its kind declares.
    pub const ACTOR_FAULT_SENDS = 0xac70_0002;
    /// The same of a handler that keeps asks though its kind does not say so.
    pub const ACTOR_FAULT_KEEPS = 0xac70_0004;
    /// The same of a closure that panicked.
    pub const ACTOR_FAULT_PANIC = 0xac70_0003;
    /// Status of a message from the host: it was delivered.
    pub const TELL_DELIVERED = 0;
    /// The mailbox was full.
    pub const TELL_FULL = 1;
    /// The actor does not live.
    pub const TELL_GONE = 2;
    /// Messages of the host that a task of CUDA delivers, with those that follow to the last one's actor.
    pub const TELL_ROWS = 64;
    /// Warps of these that it delivers; another task goes on.
    pub const TELL_MORE = 8;
    /// Status of an ask of the host: its record has the reply. GPUs only.
    pub const ASK_ANSWERED = 3;
    /// Records of a region of `DevActors::parts`: a header, messages that the host handles, and items of what it does.
    pub const PART_RECORDS = 256;
    /// The first record of a message.
    pub const PART_MESSAGE = 1;
    /// The most messages of a mailbox that the host takes at a time.
    pub const PART_MESSAGES = 32;
    /// The first record of an item.
    pub const PART_ITEM = 64;
    /// The most items at a time.
    pub const PART_ITEMS = 192;
    /// `DevMessage::next` of an item: a message.
    pub const ITEM_SEND = 8;
    /// A reply to the ask in cell `from`.
    pub const ITEM_REPLY = 9;
    /// The ask in cell `from` is passed on.
    pub const ITEM_FORWARD = 10;
    /// A message that overtakes the mailbox.
    pub const ITEM_NEWS = 11;
    /// Sets the notes in `head`, or none: does the actor live?
    pub const ITEM_NOTE = 12;
    /// Sends the signal in `head`.
    pub const ITEM_SIGNAL = 13;
    /// Launches an actor of the kind in `head`, whose id is `to` then. `from` is its parent.
    pub const ITEM_LAUNCH = 14;
    /// The ask in cell `from`, which an actor has kept, ends with the reason in `head`. The item has the ask then; if an actor
    /// has asked, the host tells it.
    pub const ITEM_END = 15;
    /// An actor that is held accepts messages again: it would have ended, and goes on.
    pub const ITEM_REVIVE = 16;
    /// An actor that is held gets its next turn: it begins anew if the head has `HELD_GOES_ON`, and ends otherwise. The rest
    /// of the head is word 0 of its event.
    pub const ITEM_HELD = 17;
    /// See [`ITEM_HELD`].
    pub const HELD_GOES_ON = 256;
    /// An actor of the host comes back: it ends.
    pub const PART_STOPS = 1;
    /// It has failed.
    pub const PART_FAILED = 2;
    /// The next message that it handles is an empty one.
    pub const PART_GOES_ON = 4;
    /// Reasons of failures of modules that are kept for each system.
    pub const ACTOR_FAILURES = 64;
    /// Why a module's handler failed: it executed `unreachable`.
    pub const MODULE_UNREACHABLE = 1;
    /// It used up its fuel.
    pub const MODULE_FUEL = 2;
    /// It accessed memory beyond its end.
    pub const MODULE_MEMORY = 3;
    /// It divided an integer by zero.
    pub const MODULE_DIVISION = 4;
    /// The result of an operation on integers, or of a conversion, has no place.
    pub const MODULE_OVERFLOW = 5;
    /// It converted a NaN to an integer.
    pub const MODULE_CONVERSION = 6;
    /// It called an element beyond the end of a table.
    pub const MODULE_TABLE = 7;
    /// It called an element of a table that is null.
    pub const MODULE_NULL = 8;
    /// It called an element of a table with another type.
    pub const MODULE_SIGNATURE = 9;
    /// It called `fail`.
    pub const MODULE_FAIL = 10;
    /// It sent more than its description declares.
    pub const MODULE_SENDS = 11;
    /// It does not handle the message.
    pub const MODULE_UNHANDLED = 12;
    /// An ask ended without a reply, and it does not export `failed` for it.
    pub const MODULE_UNANSWERED = 13;
    /// It gave a time that is negative.
    pub const MODULE_TIME = 14;
    /// It has as many timers as it may have.
    pub const MODULE_TIMERS = 15;
    /// It keeps as many asks as it may keep.
    pub const MODULE_KEPT = 16;
    /// It replied to a kept ask of another message; the tag of the reply is in the upper bits.
    pub const MODULE_REPLY = 17;
    /// Bytes of a state, after the actor's own, in which a native kind has its lists of kept asks and timers. GPUs only.
    pub const KEPT_BYTES = 16;
    /// The most asks that an actor of a native kind keeps there.
    pub const KEPT_ASKS_MOST = 0xffff;
    /// The most timers of such an actor.
    pub const KEPT_TIMERS_MOST = 0xff;
    /// The most timers of an actor whose handler is a module.
    pub const MODULE_TIMERS_MOST = 64;
    /// The most asks that such an actor keeps.
    pub const MODULE_KEPT_MOST = 1024;
}

// The header, an actor's news and the messages of a mailbox come before the items.
const _: () = assert!(PART_MESSAGE + 1 + PART_MESSAGES <= PART_ITEM);
const _: () = assert!(PART_ITEM + PART_ITEMS <= PART_RECORDS);
// The newest of the news is next to the notes.
const _: () = assert!(NOTE_BITS + MAIL_CELL_BITS == 32);
// An index fits the link of a cell, and an id's parts fill it.
const _: () =
    assert!(MAIL_CELL_BITS == MAIL_COUNT_SHIFT && MAIL_CELL_BITS == ACTOR_GENERATION_SHIFT);
const _: () = assert!(2 * ACTOR_GENERATION_SHIFT == ACTOR_NODE_SHIFT);
const _: () = assert!(1 << (MAIL_FLAG_SHIFT - MAIL_COUNT_SHIFT) == MAIL_COUNT_MAX + 1);
const _: () = assert!(1 << (MAIL_GENERATION_SHIFT - MAIL_FLAG_SHIFT) == 2 * MAIL_LISTED);

crate::dev_struct! {
    /// An actor. Senders and signals touch `mail` and `waiters`; all else belongs to the turn that runs.
    pub struct DevActor: align 64, size 64 {
        /// The word on which all meet; see the module.
        pub mail: u64,
        /// The kind: the number of its turn function in the program.
        pub kind: u16,
        /// The mailbox's bound.
        pub bound: u16,
        /// The generation.
        pub generation: u32,
        /// The oldest message that was taken out of `mail` and not handled, plus one.
        pub front: u32,
        /// The last of the muted senders that wait for room here: its slot plus one.
        pub waiters: u32,
        /// The oldest message that could not be delivered, plus one.
        pub outbox_first: u32,
        /// The newest one.
        pub outbox_last: u32,
        /// The next actor in the list of waiting senders that this actor is in, plus one.
        pub wait_next: u32,
        /// Notes, and on a GPU the list of news.
        pub notes: u32,
        /// Messages handled.
        pub handled: u64,
        /// The id of the actor that launched it; 0 for the host.
        pub parent: u64,
        /// Its restarts within the time that its kind allows them for (lower half), and when that time began, in
        /// milliseconds (upper half).
        pub again: u64,
    }
}

crate::dev_struct! {
    /// A message in its cell.
    pub struct DevMessage: align 64, size 64 {
        /// The next cell of its list, plus one. In a message from the host: its status afterwards.
        pub next: u32,
        /// Tag (8), number of words (7), flags.
        pub head: u32,
        /// The sender's id, or 0; with `MESSAGE_HOST`, where the host's reply goes.
        pub from: u64,
        /// The content. The last word of an ask or a reply belongs to the asker.
        pub words: [u64; 5],
        /// The receiver's id.
        pub to: u64,
    }
}

crate::dev_struct! {
    /// Messages from the host as columns, for CUDA. Columns follow, of `stride` words of 64 bits each: the receivers' ids, those
    /// that `columns` names, and the statuses of 32 bits, which are 0 unless a message was not delivered.
    pub struct DevTells: align 64, size 64 {
        /// How many there are.
        pub rows: u32,
        /// The head of all messages, if heads have no column.
        pub head: u32,
        /// A bit for each word that has a column, and bit `MESSAGE_WORDS` if heads have one, as words of 64 bits.
        pub columns: u32,
        /// An even number.
        pub stride: u32,
        /// Words of all messages, where they have no column.
        pub words: [u64; 5],
        /// Spelled-out hole.
        pub hole0: u64,
    }
}

crate::dev_struct! {
    /// Words that all actors of a system share.
    pub struct DevActorControl: align 128, size 1792 {
        /// The group that counts the turns.
        pub world: u64,
        /// Not 0 when the system ends: all actors end.
        pub closing: u64,
        /// Asks of the host that were sent or refused.
        pub asked: u64,
        /// Events that have a place in their ring. GPUs only, as what follows.
        pub events_begun: u64,
        /// Events that the host has taken.
        pub events_taken: u64,
        /// The group that is held until there is an event, plus one.
        pub bell: u64,
        /// Not 0 when dead letters are events.
        pub letters: u64,
        /// Deadlines and timers so far.
        pub numbers: u64,
        /// Spelled-out hole.
        pub hole0: [u64; 8],
        /// Cells never used yet start here.
        pub fresh_cells: u32,
        /// Slots never used yet start here.
        pub fresh_slots: u32,
        /// Dead letters by reason.
        pub dead: [u64; 4],
        /// How often a sender was muted.
        pub mutes: u64,
        /// Slots whose generations are used up.
        pub retired: u64,
        /// How often an actor was to be launched and there was no slot.
        pub launch_refusals: u64,
        /// How often a failed actor was restarted.
        pub restarts: u64,
        /// Messages that were dropped because a kind keeps the latest ones only.
        pub dropped: u64,
        /// How many handlers of modules have failed. GPUs only, as what follows.
        pub failed: u64,
        /// Spelled-out hole.
        pub hole1: [u64; 5],
        /// The last `ACTOR_FAILURES` of them, three words for each: the actor; its kind, a tag that the reason is about, the tag of the message and the
        /// reason; the number of the failure, counted from 1, and the function.
        pub failures: [u64; 192],
    }
}

crate::dev_struct! {
    /// The parameters of a program of actors.
    pub struct DevActors: align 16, size 128 {
        /// Slots.
        pub slots: DevPtr<DevActor>,
        /// Cells.
        pub cells: DevPtr<DevMessage>,
        /// States: `state_bytes` for each slot. On a GPU, where a kind is atomic, as many follow for the states before a message.
        pub states: DevPtr<u8>,
        /// Heads of the stacks of free cells and slots.
        pub shards: DevPtr<u64>,
        /// Shared words.
        pub control: DevPtr<DevActorControl>,
        /// Messages from the host: records, or on CUDA what `DevTells` says and news, which are records.
        pub tells: DevPtr<DevMessage>,
        /// Replies to the host.
        pub replies: DevPtr<DevMessage>,
        /// Ids of actors that the host launched.
        pub ids: DevPtr<u64>,
        /// The program's own parameters.
        pub user: DevPtr<u64>,
        /// Number of slots.
        pub slot_limit: u32,
        /// Number of cells.
        pub cell_limit: u32,
        /// Bytes of a state, a multiple of 16.
        pub state_bytes: u32,
        /// Number of kinds.
        pub kinds: u32,
        /// Bounds of the mailboxes, by kind.
        pub bounds: DevPtr<u16>,
        /// The number of what the host keeps for the system. CPU engine only.
        pub side: u64,
        /// On a GPU: the ring of events. The link of one is its number in the ring plus one, once it is complete.
        pub events: DevPtr<DevMessage>,
        /// On a GPU, in a program that uses services: a region for the thread that takes events, and in one with kinds for
        /// actors of the host one for each thread that runs their closures.
        pub parts: DevPtr<DevMessage>,
        /// Spelled-out hole.
        pub hole0: u64,
    }
}
