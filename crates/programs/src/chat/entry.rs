//! The registry's entry of `chat`.

use std::time::{Duration, Instant};

use everwarp::{Engine, Program};

use super::{CHAT, MEMBERS, Rooms, reference};
use crate::input::{InputError, Progress};
use crate::native::{Facts, NativeProgram, RunError, same_pairs};
use crate::option::{OptionValues, ProgramOption};

/// The entry.
#[derive(Debug)]
pub struct Chat;

const CLIENTS: ProgramOption =
    ProgramOption::number("--clients", "How many clients", 10_000).at_most(1_000_000);
const ROOMS: ProgramOption =
    ProgramOption::number("--rooms", "How many rooms, of 16 members each", 1000).at_most(1_000_000);
const POSTS: ProgramOption =
    ProgramOption::number("--posts", "How often each client posts", 10).at_most(1_000_000);

impl NativeProgram for Chat {
    type Input = [u32; 3];
    /// For each client: the posts that it has read, and their sum.
    type Output = Vec<(u64, u64)>;
    const ABOUT: &'static str = "clients that post to rooms, and rooms that send to all members";
    const OPTIONS: &'static [ProgramOption] = &[CLIENTS, ROOMS, POSTS];
    const EXAMPLE: &'static [(&'static str, &'static str)] =
        &[("--clients", "500"), ("--rooms", "20")];
    const BENCHMARK: bool = true;

    fn program(&self) -> &'static Program {
        CHAT.static_program()
    }

    fn input(&self, options: &OptionValues, _: &mut Progress<'_>) -> Result<[u32; 3], InputError> {
        Ok([
            options.at_least_one(&CLIENTS)?,
            options.at_least_one(&ROOMS)?,
            options.number(&POSTS)?,
        ])
    }
    fn run(
        &self,
        engine: &Engine,
        &[clients, rooms, posts]: &[u32; 3],
    ) -> Result<(Vec<(u64, u64)>, Duration), RunError> {
        let all = Rooms::new(engine, clients, rooms)?;
        let begin = Instant::now();
        let read = all.run(posts)?;
        Ok((read, begin.elapsed()))
    }
    fn reference(&self, &[clients, rooms, posts]: &[u32; 3]) -> Vec<(u64, u64)> {
        reference(clients, rooms, posts)
    }
    fn compare(&self, output: &Vec<(u64, u64)>, expected: &Vec<(u64, u64)>) -> Result<(), String> {
        same_pairs("client", output, expected)
    }
    fn facts(&self, &[clients, _, posts]: &[u32; 3], _: &Vec<(u64, u64)>) -> Facts {
        // Each post is a turn, a message to a room, and one to each member.
        let posts = u64::from(clients) * u64::from(posts);
        Facts {
            result: Some(posts * (2 + MEMBERS)),
            ..Facts::default()
        }
    }
}
