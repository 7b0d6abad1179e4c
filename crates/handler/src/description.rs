//! The section `everwarp.actor`: lines of text that say what the code of a module cannot say.

use everwarp_actor::{Field, FieldType};

use crate::error::ModuleError;

/// The name of the custom section. A module may have several, which are read one after the other.
pub(crate) const SECTION: &str = "everwarp.actor";
/// The most messages that a handler sends for one message, and the most times that a message is handled again: so that an
/// engine has room for the turns that may follow.
const SENDS: u64 = 123;
const RETRIES: u64 = 123;

/// The content of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// The most messages that wait.
    pub(crate) mailbox: u16,
    /// The most messages and signals that a handler sends for one message.
    pub(crate) sends: u16,
    /// Fuel for one message.
    pub(crate) fuel: u64,
    /// Bytes at the beginning of the memory that are not part of the state.
    pub(crate) scratch: u32,
    /// The most restarts, within that number of seconds.
    pub(crate) restarts: (u32, u32),
    /// Whether a failed handler leaves no messages.
    pub(crate) atomic: bool,
    /// How often a message is handled again when its handler fails and the actor goes on.
    pub(crate) retries: u16,
    /// Whether a turn takes the latest messages only, and drops the others.
    pub(crate) latest: bool,
    /// Messages with the names and types of their fields.
    pub(crate) messages: Vec<Described>,
}

/// A `message` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) reply: Vec<Field>,
    /// The line, for errors.
    pub(crate) line: String,
}

impl Default for Description {
    fn default() -> Self {
        Self {
            mailbox: 64,
            sends: 8,
            fuel: 10_000_000,
            scratch: 0,
            restarts: (0, 0),
            atomic: false,
            retries: 0,
            latest: false,
            messages: Vec::new(),
        }
    }
}

impl Description {
    /// Reads the text of a section on top of what is there.
    pub(crate) fn read(&mut self, module: &str, text: &[u8]) -> Result<(), ModuleError> {
        let error = |line: &str, problem: String| ModuleError::Description {
            module: module.to_owned(),
            line: line.to_owned(),
            problem,
        };
        let text =
            std::str::from_utf8(text).map_err(|_| error("…", "it is not UTF-8".to_owned()))?;
        let lines = text.split(['\n', '\0']).map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.line(line).map_err(|problem| error(line, problem))?;
        }
        Ok(())
    }
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "mailbox" => self.mailbox = number(rest, 1, 4095)? as u16,
            "sends" => self.sends = number(rest, 0, SENDS)? as u16,
            "fuel" => self.fuel = number(rest, 1, u64::MAX >> 1)?,
            "scratch" => self.scratch = number(rest, 0, u32::MAX.into())? as u32,
            "restarts" => {
                let (most, seconds) = rest.trim().split_once(' ').unwrap_or((rest, ""));
                let most = number(most, 0, u32::MAX.into())? as u32;
                self.restarts = (most, number(seconds, 1, 4_000_000)? as u32);
            }
            "atomic" if rest.is_empty() => self.atomic = true,
            "retries" => self.retries = number(rest, 0, RETRIES)? as u16,
            "latest" if rest.is_empty() => self.latest = true,
            "message" => self.message(line, rest)?,
            _ => {
                return Err(
                    "a line begins with `mailbox`, `sends`, `fuel`, `scratch`, `restarts`, `retries` or `message`, or is \
                     `atomic` or `latest`"
                        .into(),
                );
            }
        }
        Ok(())
    }
    fn message(&mut self, line: &str, rest: &str) -> Result<(), String> {
        let (head, reply) = match rest.split_once("->") {
            Some((head, reply)) => (head, fields(reply)?),
            None => (rest, Vec::new()),
        };
        let head = head.trim();
        let (name, list) = head.split_once(' ').unwrap_or((head, ""));
        if name.is_empty() {
            return Err("write `message NAME FIELD:TYPE … -> FIELD:TYPE …`".into());
        }
        if self.messages.iter().any(|message| message.name == name) {
            return Err(format!("there is a line for `{name}` already"));
        }
        self.messages.push(Described {
            name: name.to_owned(),
            fields: fields(list)?,
            reply,
            line: line.to_owned(),
        });
        Ok(())
    }
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.trim().parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("give a number from {least} to {most}"))
}

fn fields(list: &str) -> Result<Vec<Field>, String> {
    let known = FieldType::ALL.map(FieldType::name).join(", ");
    let field = |text: &str| {
        let parts = text.split_once(':');
        let found = parts.and_then(|(name, ty)| Some((name, FieldType::of(ty)?)));
        let (name, ty) = found
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("`{text}` is not FIELD:TYPE with one of the types {known}"))?;
        Ok(Field {
            name: name.to_owned().into(),
            ty,
        })
    };
    list.split_whitespace().map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Description, ModuleError> {
        let mut description = Description::default();
        description.read("bank", text.as_bytes())?;
        Ok(description)
    }

    #[test]
    fn lines_are_read_in_any_order_and_from_several_sections() {
        let mut one = read("message pay to:actor amount:u64\nmailbox 4095\n").expect("right");
        one.read(
            "bank",
            b"# a comment\nscratch 1024\0sends 3\nmessage balance -> left:i64",
        )
        .expect("right");
        assert_eq!((one.mailbox, one.scratch, one.sends), (4095, 1024, 3));
        let names: Vec<_> = one.messages.iter().map(|m| &*m.name).collect();
        assert_eq!(names, ["pay", "balance"]);
        assert_eq!(one.messages[0].fields[1].ty, FieldType::U64);
        assert_eq!(one.messages[1].reply[0].name, "left");
    }

    #[test]
    fn wrong_line_is_quoted_with_the_remedy() {
        for (line, part) in [
            ("mailbox 0", "1 to 4095"),
            ("sends many", "0 to 123"),
            ("message", "message NAME"),
            ("message a b:int", "u64"),
            ("message a b", "FIELD:TYPE"),
            ("mail 3", "begins with"),
            ("restarts 3", "1 to 4000000"),
            ("atomic 1", "begins with"),
            ("retries 124", "0 to 123"),
            ("latest 3", "begins with"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.contains(&format!("`{line}`")), "{error}");
            assert!(error.contains(part) && error.contains("`bank`"), "{error}");
        }
        assert!(read("message a\nmessage a").is_err());
    }
}
