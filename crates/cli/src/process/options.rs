//! The options that only modules take.

use std::collections::BTreeSet;
use std::path::PathBuf;

use everwarp_process::threads::{THREADS, THREADS_MOST};

use crate::error::CliError;

/// The options that only modules take.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of MODULE.wasm")]
pub(crate) struct Options {
    /// How many processes of the module to run. `{instance}` in ARGS and in the values of --env then stands for
    /// the number of each, from 0.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    instances: Option<u32>,
    /// How much each may execute: on the CPU engine in units of about one WebAssembly instruction, on a GPU
    /// in rounds of loops and calls of functions that call.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) fuel: Option<u64>,
    /// How much memory each may have: bytes, or a number with K, M or G behind it (powers of 1,024).
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub(super) memory: Option<u64>,
    /// How many threads each may have at a time beside its first, if the module begins any (at most 1,024). With none
    /// left, the module is told so.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = THREADS)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(THREADS_MOST)))]
    pub(super) threads: u32,
    /// How much stack each thread of a GPU has, which decides how deep calls may nest. It is reserved for every
    /// thread that the GPU can hold.
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub(super) stack: Option<u64>,
    /// On a GPU, interleave the memories of every 32 processes: faster where they run in step, slower where each does
    /// something else.
    #[arg(long)]
    pub(super) interleave: bool,
    /// On a GPU, let a product and a sum be rounded once, as CUDA C++ does unless told otherwise: faster, but results
    /// may differ from those of other engines in their last bits.
    #[arg(long)]
    pub(super) contract: bool,
    /// A directory that each may use, and what it calls it (by default the same).
    #[arg(long, value_name = "HOST[::GUEST]", value_parser = directory)]
    pub(super) dir: Vec<(PathBuf, String)>,
    /// A file whose lines are the standard input of one process each, the first that of the first. Without
    /// --instances there are as many processes as lines.
    #[arg(long, value_name = "FILE")]
    pub(super) stdin_lines: Option<PathBuf>,
    /// A variable of the environment, which is empty otherwise.
    #[arg(long, value_name = "K=V", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Put the process's id before each line of output.
    #[arg(long)]
    pub(super) tag: bool,
    /// Arguments of the module.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Options {
    /// How many processes there are to be, if that is said.
    pub(super) fn instances(&self) -> Option<u32> {
        self.instances
    }

    /// A text as the process with this number gets it. Without --instances it is not touched, so that a single
    /// process gets what was typed.
    fn numbered(&self, text: &str, number: u32) -> String {
        match self.instances {
            Some(_) => text.replace(NUMBER, &number.to_string()),
            None => text.to_owned(),
        }
    }

    /// The arguments of a process, without the program's name.
    pub(super) fn args(&self, number: u32) -> impl Iterator<Item = String> {
        self.args.iter().map(move |arg| self.numbered(arg, number))
    }

    /// The variables of a process.
    pub(super) fn env(&self, number: u32) -> Vec<(String, String)> {
        let variables = self.env.iter();
        variables
            .map(|(name, value)| (name.clone(), self.numbered(value, number)))
            .collect()
    }

    /// The number of a process in digits, if arguments or variables may ask for it.
    pub(super) fn digits(&self, number: u32) -> String {
        match self.instances {
            Some(_) => number.to_string(),
            None => String::new(),
        }
    }

    /// Hands over each argument without the program's name, in parts, for a process whose number in digits is this.
    /// For many processes that takes less than to make texts of their own for each.
    pub(super) fn each_arg(&self, digits: &str, mut each: impl FnMut(&[&str])) {
        for arg in &self.args {
            self.in_parts(arg, digits, &mut each);
        }
    }

    /// The same with each variable's name and value.
    pub(super) fn each_variable(&self, digits: &str, mut each: impl FnMut(&str, &[&str])) {
        for (name, value) in &self.env {
            self.in_parts(value, digits, |parts| each(name, parts));
        }
    }

    /// Mostly there are so few parts that nothing has to be allocated for them.
    fn in_parts(&self, text: &str, digits: &str, each: impl FnOnce(&[&str])) {
        if self.instances.is_none() || !text.contains('{') {
            return each(&[text]);
        }
        let mut pieces = text.split(NUMBER);
        let first = pieces.next().unwrap_or_default();
        match (pieces.next(), pieces.next()) {
            (None, _) => each(&[first]),
            (Some(second), None) => each(&[first, digits, second]),
            (Some(second), Some(third)) => {
                let mut parts = vec![first, digits, second, digits, third];
                pieces.for_each(|piece| parts.extend([digits, piece]));
                each(&parts);
            }
        }
    }

    /// Whether the options go together.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let variables = self.env.iter().map(|(name, _)| name.as_str());
        let directories = self
            .dir
            .iter()
            .map(|(_, guest)| guest.trim_end_matches('/'));
        let twice = |option, name: &str| {
            let name = name.to_owned();
            Err(CliError::Twice { option, name })
        };
        match (repeated(variables), repeated(directories)) {
            (Some(name), _) => twice("--env", name),
            (None, Some(name)) => twice("--dir", name),
            (None, None) => Ok(()),
        }
    }

    /// An option that was given, if any was.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--instances", self.instances.is_some()),
            ("--fuel", self.fuel.is_some()),
            ("--memory", self.memory.is_some()),
            ("--threads", self.threads != THREADS),
            ("--stack", self.stack.is_some()),
            ("--interleave", self.interleave),
            ("--contract", self.contract),
            ("--dir", !self.dir.is_empty()),
            ("--stdin-lines", self.stdin_lines.is_some()),
            ("--env", !self.env.is_empty()),
            ("--tag", self.tag),
            ("-- ARGS", !self.args.is_empty()),
        ];
        given
            .iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| *name)
    }
}

/// What stands for the number of a process.
const NUMBER: &str = "{instance}";

/// The first that was there before.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

fn size(text: &str) -> Result<u64, String> {
    let rule = || format!("`{text}` is no size: use bytes, or a number with K, M or G behind it");
    let shift = match text.bytes().last() {
        Some(b'K' | b'k') => 10,
        Some(b'M' | b'm') => 20,
        Some(b'G' | b'g') => 30,
        _ => 0,
    };
    let digits = &text[..text.len() - usize::from(shift > 0)];
    let number: u64 = digits.parse().map_err(|_| rule())?;
    number.checked_mul(1 << shift).ok_or_else(rule)
}

fn directory(text: &str) -> Result<(PathBuf, String), String> {
    let (host, guest) = text.split_once("::").unwrap_or((text, text));
    match host.is_empty() || guest.is_empty() {
        true => Err("use HOST or HOST::GUEST".to_owned()),
        false => Ok((PathBuf::from(host), guest.to_owned())),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("use NAME=VALUE".to_owned()),
    }
}
