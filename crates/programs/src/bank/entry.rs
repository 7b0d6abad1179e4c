//! The registry's entry of `bank`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{BANK, Books, House, MONEY};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Bank;

const ACCOUNTS: ProgramOption =
    ProgramOption::number("--accounts", "How many accounts", 10_000).at_most(1_000_000);
const TELLERS: ProgramOption =
    ProgramOption::number("--tellers", "How many tellers move money at a time", 1000)
        .at_most(1_000_000);
const TRANSFERS: ProgramOption =
    ProgramOption::number("--transfers", "How many transfers", 1_000_000);
const RISK: ProgramOption =
    ProgramOption::number("--risk", "How often of 1,000 times a handler fails", 10).at_most(1000);
const KILLS: ProgramOption =
    ProgramOption::number("--kills", "How many accounts are killed meanwhile", 100);

impl NativeProgram for Bank {
    type Input = [u32; 5];
    type Output = Books;
    const ABOUT: &'static str =
        "transfers between accounts that fail and are killed; no money is lost";
    const OPTIONS: &'static [ProgramOption] = &[ACCOUNTS, TELLERS, TRANSFERS, RISK, KILLS];
    const EXAMPLE: &'static [(&'static str, &'static str)] = &[
        ("--accounts", "100"),
        ("--tellers", "20"),
        ("--transfers", "5000"),
        ("--kills", "5"),
    ];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        BANK.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 5], InputError> {
        Ok([
            options.at_least_one(&ACCOUNTS)?,
            options.at_least_one(&TELLERS)?,
            options.number(&TRANSFERS)?,
            options.number(&RISK)?,
            options.number(&KILLS)?,
        ])
    }
    fn run(
        &self,
        engine: &Engine,
        &[accounts, tellers, transfers, risk, kills]: &[u32; 5],
    ) -> Result<(Books, Duration), RunError> {
        let house = House::new(engine, accounts, tellers, risk)?;
        let begin = Instant::now();
        let books = house.run(transfers, kills)?;
        Ok((books, begin.elapsed()))
    }
    /// The money and the transfers are known beforehand; how often handlers fail is not.
    fn reference(&self, &[accounts, _, transfers, risk, kills]: &[u32; 5]) -> Books {
        Books {
            in_accounts: u64::from(accounts) * MONEY,
            with_tellers: 0,
            transfers: transfers.into(),
            restarts: u64::from(risk != 0 && transfers > 100_000 / risk.max(1)),
            killed: kills.min(accounts).into(),
        }
    }
    fn compare(&self, output: &Books, expected: &Books) -> Result<(), String> {
        let sum = output.in_accounts + output.with_tellers;
        let right = sum == expected.in_accounts
            && output.transfers == expected.transfers
            && output.restarts >= expected.restarts
            && output.killed == expected.killed;
        match right {
            true => Ok(()),
            false => Err(format!("{output:?} instead of {expected:?}")),
        }
    }
    fn facts(&self, _: &[u32; 5], output: &Books) -> Facts {
        Facts {
            result: Some(output.in_accounts + output.with_tellers),
            ..Facts::default()
        }
    }
}
