//! The options of programs, as data: the command builds its flags and its help from them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::input::InputError;

/// One option of a program: `--name VALUE`, or a switch `--name`.
#[derive(Debug)]
pub struct ProgramOption {
    /// Its name, with the two dashes.
    pub flag: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The kind of its value.
    pub kind: OptionKind,
    /// The flag of an option that cannot be given together with this one.
    pub excludes: Option<&'static str>,
}

/// The kind of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Nothing: it is given or not.
    Switch,
    /// A number.
    Number {
        /// The value without the option.
        default: u32,
        /// The largest value.
        most: u32,
    },
    /// A text of this form.
    Text(&'static str),
    /// The path of a file.
    File,
}

/// The value of an option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A switch.
    Given,
    /// A number.
    Number(u32),
    /// A text.
    Text(String),
    /// A path.
    File(PathBuf),
}

impl ProgramOption {
    const fn new(flag: &'static str, about: &'static str, kind: OptionKind) -> Self {
        Self {
            flag,
            about,
            kind,
            excludes: None,
        }
    }
    /// An option that is given or not.
    pub const fn switch(flag: &'static str, about: &'static str) -> Self {
        Self::new(flag, about, OptionKind::Switch)
    }
    /// A number, with the value that it has when it is not given.
    pub const fn number(flag: &'static str, about: &'static str, default: u32) -> Self {
        let most = u32::MAX;
        Self::new(flag, about, OptionKind::Number { default, most })
    }
    /// A text, described by a word such as `SPEC`.
    pub const fn text(flag: &'static str, about: &'static str, form: &'static str) -> Self {
        Self::new(flag, about, OptionKind::Text(form))
    }
    /// The path of a file.
    pub const fn file(flag: &'static str, about: &'static str) -> Self {
        Self::new(flag, about, OptionKind::File)
    }
    /// The same number with a largest value.
    ///
    /// # Panics
    /// The option does not take a number.
    pub const fn at_most(self, most: u32) -> Self {
        let OptionKind::Number { default, .. } = self.kind else {
            panic!("only a number has a largest value");
        };
        let kind = OptionKind::Number { default, most };
        Self { kind, ..self }
    }
    /// The same option, which cannot be given together with another.
    pub const fn excludes(self, flag: &'static str) -> Self {
        Self {
            excludes: Some(flag),
            ..self
        }
    }
    /// The word for the value in help texts; none for a switch.
    pub const fn metavariable(&self) -> Option<&'static str> {
        match self.kind {
            OptionKind::Switch => None,
            OptionKind::Number { .. } => Some("N"),
            OptionKind::Text(form) => Some(form),
            OptionKind::File => Some("FILE"),
        }
    }
    /// Reads a value. Whether a number is too large is checked when it is used, so that the error can name the option.
    ///
    /// # Errors
    /// The text is not a number, or the option takes no value.
    pub fn parse(&self, text: &str) -> Result<OptionValue, String> {
        match self.kind {
            OptionKind::Switch => Err(format!("{} takes no value", self.flag)),
            OptionKind::Number { .. } => text
                .parse()
                .map(OptionValue::Number)
                .map_err(|e: std::num::ParseIntError| e.to_string()),
            OptionKind::Text(_) => Ok(OptionValue::Text(text.to_owned())),
            OptionKind::File => Ok(OptionValue::File(PathBuf::from(text))),
        }
    }
}

/// The options that were given to a program.
#[derive(Clone, Debug, Default)]
pub struct OptionValues {
    given: BTreeMap<&'static str, OptionValue>,
    /// Files that are open, by the option that names them.
    open: BTreeMap<&'static str, Arc<File>>,
}

impl OptionValues {
    /// Sets an option.
    pub fn set(&mut self, option: &ProgramOption, value: OptionValue) {
        self.given.insert(option.flag, value);
    }
    /// Gives the open file of an option whose value is its path. It is used instead of the path.
    pub fn set_open(&mut self, option: &ProgramOption, file: File) {
        self.open.insert(option.flag, Arc::new(file));
    }
    /// The open file of an option, if it was given.
    pub fn open(&self, option: &ProgramOption) -> Option<&Arc<File>> {
        self.open.get(option.flag)
    }
    /// The options that were given, by their flags.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &OptionValue)> {
        self.given.iter().map(|(flag, value)| (*flag, value))
    }
    /// Whether a switch was given.
    pub fn is_given(&self, option: &ProgramOption) -> bool {
        self.given.contains_key(option.flag)
    }
    /// A number: as given, or its default.
    ///
    /// # Errors
    /// It is larger than the option allows.
    pub fn number(&self, option: &ProgramOption) -> Result<u32, InputError> {
        let OptionKind::Number { default, most } = option.kind else {
            return Ok(0);
        };
        match self.given.get(option.flag) {
            Some(&OptionValue::Number(value)) if value > most => Err(InputError::Value {
                option: option.flag,
                rule: format!("at most {most}"),
                value: value.into(),
            }),
            Some(&OptionValue::Number(value)) => Ok(value),
            _ => Ok(default),
        }
    }
    /// A number that is not 0.
    ///
    /// # Errors
    /// As [`number`](Self::number), or it is 0.
    pub fn at_least_one(&self, option: &ProgramOption) -> Result<u32, InputError> {
        match self.number(option)? {
            0 => Err(InputError::Value {
                option: option.flag,
                rule: "at least 1".into(),
                value: 0,
            }),
            value => Ok(value),
        }
    }
    /// A text, if it was given.
    pub fn text(&self, option: &ProgramOption) -> Option<&str> {
        match self.given.get(option.flag) {
            Some(OptionValue::Text(text)) => Some(text),
            _ => None,
        }
    }
    /// A path, if it was given.
    pub fn file(&self, option: &ProgramOption) -> Option<&Path> {
        match self.given.get(option.flag) {
            Some(OptionValue::File(path)) => Some(path),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: ProgramOption = ProgramOption::number("--n", "A number", 25).at_most(47);

    fn number(text: &str) -> Result<u32, InputError> {
        let mut values = OptionValues::default();
        values.set(&N, N.parse(text).expect("it is a number"));
        values.number(&N)
    }

    #[test]
    fn a_number_has_a_default_and_a_largest_value() {
        assert_eq!(OptionValues::default().number(&N).ok(), Some(25));
        assert_eq!(number("47").ok(), Some(47));
        let error = number("48").expect_err("it is too large").to_string();
        assert_eq!(error, "`--n` must be at most 47, not 48");
    }

    #[test]
    fn a_value_of_the_wrong_form_is_refused() {
        assert!(N.parse("x").is_err() && N.parse("-1").is_err());
        let switch = ProgramOption::switch("--s", "A switch");
        assert!(switch.parse("1").is_err());
    }
}
