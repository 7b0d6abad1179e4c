//! Actors: state, a mailbox and a handler, a million at a time on one engine.
//!
//! A *kind* of actor has a state and a handler; [`actors!`] declares the kinds of a program. An [`ActorSystem`] runs them
//! on an engine: the host launches actors, sends them messages and asks them, and they do the same among themselves,
//! without the host. The chapter on actors in the book has the promises. Actors run on the CPU engine and on CUDA.
//!
//! A kind may also be a WebAssembly module: `ActorModule` and `program_of` make a program of them at run time, with messages
//! that have names and typed fields. The book's chapter on such modules is their interface.
//!
//! ```
//! use everwarp::actor::{ActorCx, ActorError, ActorSystem, Message, actors};
//! use everwarp::{Device, Select, dev_struct};
//!
//! dev_struct! {
//!     /// An account.
//!     pub struct DevAccount: align 8, size 8 {
//!         /// Its balance.
//!         pub balance: u64,
//!     }
//! }
//!
//! actors! {
//!     static BANK: bank() {
//!         ACCOUNT: lane(account: DevAccount).sends(1),
//!     }
//! }
//!
//! const DEPOSIT: u8 = 1;
//! const PAY: u8 = 2;
//! const BALANCE: u8 = 3;
//!
//! fn account(actor: &mut ActorCx<'_, '_, '_>, message: &Message) {
//!     let balance = actor.state::<DevAccount>().balance;
//!     match message.tag() {
//!         DEPOSIT => actor.state::<DevAccount>().balance += message.word(0),
//!         // Word 0 is the amount, word 1 the receiver.
//!         PAY if balance >= message.word(0) => {
//!             actor.state::<DevAccount>().balance -= message.word(0);
//!             let to = everwarp::actor::ActorId::from_bits(message.word(1));
//!             actor.tell(to, DEPOSIT, &[message.word(0)]);
//!         }
//!         PAY => {}
//!         BALANCE => {
//!             actor.reply(BALANCE, &[balance]);
//!         }
//!         _ => actor.fail(),
//!     }
//! }
//!
//! # fn main() -> Result<(), ActorError> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(BANK.program()).start()?;
//! let bank = ActorSystem::start(&engine, &BANK, Default::default())?;
//! let (ada, bob) = (bank.launch(ACCOUNT)?, bank.launch(ACCOUNT)?);
//! bank.tell(ada, DEPOSIT, &[100])?;
//! bank.tell(ada, PAY, &[30, bob.bits()])?;
//! bank.settle()?;
//! assert_eq!(bank.ask(ada, BALANCE, &[])?.word(0), 70);
//! assert_eq!(bank.ask(bob, BALANCE, &[])?.word(0), 30);
//! # Ok(()) }
//! ```

pub use everwarp_actor::{
    ActorConfig, ActorCx, ActorError, ActorId, ActorProgram, ActorStats, ActorSystem, AskId, Asked,
    BatchClosure, BatchFn, Channel, ChannelId, Column, DeadLetter, DeadLetters, DeadReason, Ending,
    Failure, Faults, Field, FieldType, GroupId, GroupStats, Handler, HandlerClosure, HandlerFn,
    Inlet, KeptAsk, Kind, LongMailbox, MAX_ASK_WORDS, MAX_PAYLOAD_WORDS, MAX_VALUE_BYTES,
    MAX_WORDS, Member, Message, MessageType, Monitor, Outlet, Policy, Refused, Restarts,
    Simulation, Slow, Strategy, Supervision, Tell, TimerId, Topic, Value, actors,
};
#[doc(hidden)] // for tests of device source
pub use everwarp_actor::{DeviceHandler, FailedModule};
#[cfg(feature = "process")]
pub use everwarp_handler::{ActorModule, ModuleError, program_of, program_with};
