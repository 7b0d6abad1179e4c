//! `bank`: tellers move money between accounts while handlers of accounts fail and accounts are killed. No money is lost or
//! made: what is in all accounts, those that have ended included, and what tellers could not pay out is what there was.
//!
//! An account changes its balance first and fails afterwards, with a given probability. Its kind is atomic, so the change is
//! undone, and the actor is restarted. A teller asks one account to withdraw and another one to deposit; where the second
//! ask fails, it asks the first one to take the money back, and keeps the money if that fails, too.

mod entry;
#[path = "bank.rs"]
mod twin;

use std::time::Duration;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, Tell, actors};
use everwarp::{Buffer, DevPtr, Engine, dev_struct};

use crate::mix;
use twin::{account, teller};

pub use entry::Bank;

dev_struct! {
    /// Parameters of `bank`.
    pub struct DevBank: align 16, size 32 {
        /// The ids of the accounts.
        pub accounts: DevPtr<u64>,
        /// How many there are.
        pub count: u64,
        /// The probability that an account's handler fails, in 2^-32.
        pub risk: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

dev_struct! {
    /// The state of an account, and of a teller.
    pub struct DevBankActor: align 16, size 64 {
        /// The money in the account, or with the teller for good.
        pub money: u64,
        /// Messages that have changed the account, or transfers that have ended.
        pub done: u64,
        /// Transfers that the teller has yet to begin.
        pub left: u64,
        /// The transfer's source.
        pub source: u64,
        /// The transfer's destination.
        pub to: u64,
        /// The amount.
        pub amount: u64,
        /// The seed of the teller's next transfer.
        pub seed: u64,
        /// The step of the transfer: `WITHDRAW`, `DEPOSIT` or `REFUND`.
        pub step: u64,
    }
}

actors! {
    /// The program.
    pub static BANK: bank(DevBank), "../mix.cu", "bank.cu"; wgsl "bank.wgsl" {
        /// Keeps money.
        ACCOUNT: lane(account: DevBankActor)
            .mailbox(64)
            .sends(0)
            .atomic()
            .restarts(u32::MAX, Duration::from_secs(1)),
        /// Moves it, one transfer after the other.
        TELLER: lane(teller: DevBankActor).mailbox(8).sends(2),
    }
}

/// To an account: word 0 is its money. To a teller: words 0 and 1 are its transfers and its seed.
const OPEN: u8 = 1;
/// To an account: it pays word 0 out, or replies 0 if it has less. Word 1 is a random number.
const WITHDRAW: u8 = 2;
/// To an account: it takes word 0.
const DEPOSIT: u8 = 3;
/// The same, of money that it has paid out.
const REFUND: u8 = 4;

/// The money of each account at the beginning.
pub(crate) const MONEY: u64 = 1000;

/// A bank.
#[derive(Debug)]
pub struct House {
    system: ActorSystem,
    accounts: Vec<ActorId>,
    tellers: Vec<ActorId>,
    _table: Buffer<u64>,
}

/// What a bank has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    /// Money in accounts, those that have ended included.
    pub in_accounts: u64,
    /// Money that tellers could not pay to anyone.
    pub with_tellers: u64,
    /// Transfers that have ended, successful or not.
    pub transfers: u64,
    /// How often a handler failed.
    pub restarts: u64,
    /// How many accounts were killed.
    pub killed: u64,
}

impl House {
    /// Prepares accounts, whose handlers fail `risk` times of a thousand, and tellers.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(
        engine: &Engine,
        accounts: u32,
        tellers: u32,
        risk: u32,
    ) -> Result<Self, ActorError> {
        let config = ActorConfig {
            actors: accounts + tellers,
            messages: 8 * (accounts + tellers) + 4096,
            ..ActorConfig::default()
        };
        let table = engine.buffer(accounts as usize)?;
        let params = DevBank {
            accounts: table.ptr(),
            count: accounts.into(),
            risk: (u64::from(risk) << 32) / 1000,
            reserved: 0,
        };
        // SAFETY: the table has an id for each account, which are written before the first message, and is dropped after
        // the system.
        let system = unsafe { ActorSystem::start_with(engine, &BANK, &params, config) }?;
        let accounts = system.launch_all(ACCOUNT, accounts as usize)?;
        let tellers = system.launch_all(TELLER, tellers as usize)?;
        table.write(&accounts.iter().map(|id| id.bits()).collect::<Vec<_>>())?;
        let open = accounts.iter().map(|&a| Tell::new(a, OPEN, &[MONEY]));
        system.tell_all(&open.collect::<Vec<_>>())?;
        system.settle()?;
        Ok(Self {
            system,
            accounts,
            tellers,
            _table: table,
        })
    }
    /// Makes transfers, evenly over all tellers, and kills `kills` accounts meanwhile.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, transfers: u32, kills: u32) -> Result<Books, ActorError> {
        let tellers = self.tellers.len() as u64;
        let part = |i: u64| u64::from(transfers) * i / tellers;
        let turns: Vec<_> = (0..)
            .zip(&self.tellers)
            .map(|(i, &teller)| Tell::new(teller, OPEN, &[part(i + 1) - part(i), mix(i)]))
            .collect();
        self.system.tell_all(&turns)?;
        // One after the other, so that transfers go on in between.
        let step = self.accounts.len() / (kills.max(1) as usize);
        let victims = self.accounts.iter().step_by(step.max(1));
        let mut killed = 0;
        for victim in victims.take(kills as usize) {
            killed += 1 - self.system.kill(&[*victim])?;
        }
        let stats = self.system.settle()?;
        let accounts: Vec<DevBankActor> = self.system.states(&self.accounts)?;
        let tellers: Vec<DevBankActor> = self.system.states(&self.tellers)?;
        Ok(Books {
            in_accounts: accounts.iter().map(|a| a.money).sum(),
            with_tellers: tellers.iter().map(|t| t.money).sum(),
            transfers: tellers.iter().map(|t| t.done).sum(),
            restarts: stats.restarts,
            killed,
        })
    }
}
