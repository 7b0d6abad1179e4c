//! `ew_options`: what all processes of a call get.

use std::ffi::c_char;

use everwarp::process::{Command, Directory, Input, Output, SpawnError, StartWriter};

use crate::status::Failure;
use crate::{slice, text};

/// The text that stands for the number of a process in arguments and values of variables, as in the command.
const NUMBER: &str = "{instance}";
/// How many bytes are kept of each stream unless the caller says otherwise.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// A directory, as in the header.
#[derive(Debug)]
#[repr(C)]
pub struct Dir {
    path: *const c_char,
    guest: *const c_char,
    read_only: u32,
}

/// The options, as in the header.
#[derive(Debug)]
#[repr(C)]
pub struct Options {
    args: *const *const c_char,
    arg_count: usize,
    env: *const *const c_char,
    env_count: usize,
    dirs: *const Dir,
    dir_count: usize,
    input: *const u8,
    input_bytes: usize,
    fuel: u64,
    memory: u64,
    output_limit: u64,
}

/// The options, copied from C.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    args: Vec<String>,
    env: Vec<(String, String)>,
    dirs: Vec<Directory>,
    input: Vec<u8>,
    pub(crate) fuel: Option<u64>,
    pub(crate) memory: Option<u64>,
    limit: usize,
}

impl Granted {
    /// Copies options.
    ///
    /// # Safety
    /// - `options` is null or points to options whose pointers are as the header says.
    pub(crate) unsafe fn copy(options: *const Options) -> Result<Self, Failure> {
        let limit = OUTPUT_LIMIT as usize;
        // SAFETY: the caller vouches for it.
        let Some(options) = (unsafe { options.as_ref() }) else {
            return Ok(Self {
                limit,
                ..Self::default()
            });
        };
        let some = |number: u64| Some(number).filter(|number| *number != 0);
        // SAFETY: the caller vouches for the arrays.
        let (args, env, dirs, input) = unsafe {
            (
                slice(options.args, options.arg_count, "args")?,
                slice(options.env, options.env_count, "env")?,
                slice(options.dirs, options.dir_count, "dirs")?,
                slice(options.input, options.input_bytes, "input")?,
            )
        };
        let texts = |texts: &[*const c_char], what| -> Result<Vec<String>, Failure> {
            // SAFETY: the caller vouches for the texts.
            let copied = texts.iter().map(|t| unsafe { text(*t, what) });
            copied.collect()
        };
        let variable = |variable: String| match variable.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Failure::argument(format!(
                "the variable {variable:?} is not of the form NAME=VALUE"
            ))),
        };
        let directory = |dir: &Dir| -> Result<Directory, Failure> {
            // SAFETY: the caller vouches for both.
            let (path, guest) = unsafe { (text(dir.path, "path")?, text(dir.guest, "guest")?) };
            let opened = Directory::open(&path, guest).map_err(|source| SpawnError::Directory {
                path: path.into(),
                source,
            })?;
            Ok(opened.read_only(dir.read_only != 0))
        };
        Ok(Self {
            args: texts(args, "an argument")?,
            env: texts(env, "a variable")?
                .into_iter()
                .map(variable)
                .collect::<Result<_, _>>()?,
            dirs: dirs.iter().map(directory).collect::<Result<_, _>>()?,
            input: input.to_vec(),
            fuel: some(options.fuel),
            memory: some(options.memory),
            limit: some(options.output_limit).unwrap_or(OUTPUT_LIMIT) as usize,
        })
    }

    /// Grants what all processes have in common.
    pub(crate) fn grant(&mut self, command: &mut Command) {
        let limit = self.limit;
        command
            .stdout(Output::Capture { limit })
            .stderr(Output::Capture { limit });
        command.stdin(Input::Bytes(std::mem::take(&mut self.input).into()));
        for directory in self.dirs.drain(..) {
            command.directory(directory);
        }
        if let Some(fuel) = self.fuel {
            command.fuel(fuel);
        }
    }

    /// Writes what the process with this number gets.
    pub(crate) fn write(&self, number: u32, start: &mut dyn StartWriter) {
        let digits = number.to_string();
        for arg in &self.args {
            start.arg(&[&arg.replace(NUMBER, &digits)]);
        }
        for (name, value) in &self.env {
            start.variable(name, &[&value.replace(NUMBER, &digits)]);
        }
    }
}
