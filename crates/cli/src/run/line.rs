//! The words of a command line: the program's name, the options, and what follows `--`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::OnceLock;

use everwarp_programs::REGISTRY;

use super::options::{MODULE, Target};
use crate::error::CliError;

/// The word for the arguments of a module among the options.
const ARGS: &str = "-- ARGS";

/// A command line after `everwarp run`.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The program's name: the first word that is neither an option nor an option's value.
    pub(super) program: Option<String>,
    /// All other words.
    pub(super) rest: Vec<OsString>,
    /// The options that were given.
    given: Vec<String>,
}

/// An option of any program.
#[derive(Debug, Default)]
struct KnownOption {
    takes_value: bool,
    /// The programs that take it.
    programs: Vec<&'static str>,
}

/// All options of all programs and of modules. A command line without options does not need them.
fn known() -> &'static BTreeMap<String, KnownOption> {
    static KNOWN: OnceLock<BTreeMap<String, KnownOption>> = OnceLock::new();
    KNOWN.get_or_init(find_known)
}

fn find_known() -> BTreeMap<String, KnownOption> {
    let natives = REGISTRY.map(|entry| (entry.name(), Target::Native(entry)));
    let mut known = BTreeMap::<String, KnownOption>::new();
    for (name, target) in natives
        .into_iter()
        .chain([(MODULE, Target::Module(MODULE))])
    {
        for argument in target.command().get_arguments() {
            let flag = match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => ARGS.to_owned(),
            };
            let option = known.entry(flag).or_default();
            // A value that has to follow `=` is no word of its own.
            option.takes_value =
                argument.get_action().takes_values() && !argument.is_require_equals_set();
            option.programs.push(name);
        }
    }
    known
}

impl Line {
    /// Finds the program's name among the words.
    pub(super) fn split(words: Vec<OsString>) -> Self {
        let mut line = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            if text == "--" {
                line.given.push(ARGS.to_owned());
                line.rest.push(word);
                break;
            }
            if !text.starts_with('-') && line.program.is_none() {
                line.program = Some(text);
                continue;
            }
            line.rest.push(word);
            let flag = text.split('=').next().unwrap_or_default();
            if !flag.starts_with("--") {
                continue;
            }
            line.given.push(flag.to_owned());
            if known().get(&text).is_some_and(|option| option.takes_value) {
                line.rest.extend(words.next());
            }
        }
        line.rest.extend(words);
        line
    }

    /// Checks that the options apply to the program. An option that no program takes is left to clap, which knows
    /// what looks like it.
    pub(super) fn check(&self, target: &Target<'_>) -> Result<(), CliError> {
        let name = match target {
            Target::Native(program) => program.name(),
            Target::Module(_) => MODULE,
        };
        for flag in &self.given {
            if let Some(option) = known().get(flag)
                && !option.programs.contains(&name)
            {
                let applies = option.programs.iter().map(|&name| match name {
                    MODULE => "WebAssembly modules",
                    name => name,
                });
                return Err(CliError::NotApplicable {
                    option: flag.clone(),
                    program: target.name().to_owned(),
                    applies: listed(&applies.collect::<Vec<_>>()),
                });
            }
        }
        Ok(())
    }
}

/// Names as a sentence lists them.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(words: &[&str]) -> Line {
        Line::split(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn the_program_is_found_wherever_it_is() {
        for words in [
            &["bfs", "--engine", "cpu", "--verify"][..],
            &["--engine", "cpu", "bfs", "--verify"],
            &["--verify", "--engine=cpu", "bfs"],
            &["--generate", "x.wasm", "bfs"],
        ] {
            assert_eq!(split(words).program.as_deref(), Some("bfs"), "{words:?}");
        }
        assert_eq!(split(&["--help"]).program, None);
        assert_eq!(split(&["--engine", "bfs"]).program, None);
        let module = split(&["--tag", "x.wasm", "--env", "A=1", "--", "bfs", "--n"]);
        assert_eq!(module.program.as_deref(), Some("x.wasm"));
        assert_eq!(module.rest, ["--tag", "--env", "A=1", "--", "bfs", "--n"]);
        assert_eq!(module.given, ["--tag", "--env", "-- ARGS"]);
    }

    #[test]
    fn an_option_of_another_program_is_named_with_the_programs_that_take_it() {
        let error = |words: &[&str]| {
            let line = split(words);
            let name = line.program.clone().expect("there is a program");
            let target = Target::find(&name).expect("it is known");
            line.check(&target).expect_err("it does not apply")
        };
        let applies = |error| match error {
            CliError::NotApplicable {
                option, applies, ..
            } => (option, applies),
            other => panic!("{other}"),
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            applies(error(&["fib", "--source", "1"])),
            pair("--source", "bfs")
        );
        assert_eq!(
            applies(error(&["fib", "--graph=x"])),
            pair("--graph", "bfs, pagerank and gather")
        );
        assert_eq!(
            applies(error(&["fib", "--tag"])),
            pair("--tag", "WebAssembly modules")
        );
        assert_eq!(
            applies(error(&["fib", "--", "x"])),
            pair("-- ARGS", "WebAssembly modules")
        );
        let (option, programs) = applies(error(&["x.wasm", "--verify"]));
        assert_eq!(option, "--verify");
        for entry in REGISTRY {
            assert!(programs.contains(entry.name()), "{programs}");
        }
    }
}
