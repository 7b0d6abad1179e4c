//! Programs: named sets of task functions, each with device source and a CPU twin.
//!
//! A program is a value. [`program!`](crate::program) makes a `static` one from constants; a program that becomes known
//! only at run time owns its names, its source and its twins. [`ProgramRef`] holds either.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use everwarp_contract::device::{CHUNK_TASKS, LOCAL_TASKS};
use everwarp_contract::{DevActors, DeviceText, Language, Layout};

use crate::{EngineError, Twin};

/// A name as device source spells it: names that are identifiers stay as they are.
pub fn identifier(name: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && name.chars().all(plain) {
        return Cow::Borrowed(name);
    }
    // Underscores are spelled, too, so that two names never become one.
    let mut spelled = String::from("EW");
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            spelled.push(c);
        } else {
            spelled.push_str(&format!("_{:x}_", u32::from(c)));
        }
    }
    Cow::Owned(spelled)
}

/// What the name of a function ends in that runs turns of actors, after the name of their kind.
const TURN: &str = "_turn";

/// The name of the function that runs the turns of a kind of actors.
pub fn turn_name(kind: &str) -> String {
    format!("{kind}{TURN}")
}

/// How many threads run one task together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One thread; a warp takes up to 32 tasks of one function at once.
    Lane,
    /// One warp of 32 threads.
    Warp,
    /// One block of 256 threads.
    Block,
}

/// The order in which a worker takes the tasks that it has made itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Newest first: the memory that divide-and-conquer needs stays proportional to its depth.
    DepthFirst,
    /// Oldest first: traversals meet vertices in nearly breadth-first order.
    BreadthFirst,
}

/// The most that [`Function::max_spawn`] may be: a warp's queue holds 511 tasks, so that a call
/// always finds room in an empty one, and with functions that spawn up to 15 all 32 lanes do.
pub const MAX_SPAWN: u16 = 128;

// Before a call, a GPU's worker spills its queue until one chunk is left (`admit` in warp/batch.cuh; block/mode.cuh
// keeps four more places). The call must then have room. And a whole warp of calls that spawn up to 15 tasks each must
// have room in an empty queue.
const _: () = assert!(MAX_SPAWN as u32 + CHUNK_TASKS + 4 <= LOCAL_TASKS);
const _: () = assert!(CHUNK_TASKS * 15 < LOCAL_TASKS);

/// One task function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name: the device function, the CPU twin and the message in an error carry it.
    pub name: Cow<'static, str>,
    /// How many threads run one task.
    pub shape: Shape,
    /// In which order its tasks are taken.
    pub order: Order,
    /// The most tasks that one call spawns, children of a fork included. The engine runs a call only
    /// when there is room for that many, so overflow is impossible and need not be handled.
    /// At most [`MAX_SPAWN`].
    pub max_spawn: u16,
    /// Room for this many tasks is enough for a call to start, if a GPU engine has no more; 0 if there must be room for
    /// `max_spawn`. For functions that look how much room they have.
    pub least_room: u16,
    /// Whether a call may fork: open a group with a continuation.
    pub forks: bool,
    /// Whether a call may spawn into its own group. Roots of such functions get a counting group.
    pub spawns: bool,
    /// Whether a GPU engine calls the function instead of making it part of the scheduler's loop: for long
    /// warp-shaped functions, because their code and registers would burden all others. No effect on other shapes.
    pub outlined: bool,
    /// The function of the device source, if it is not the one with its own name: lane-shaped functions of a program may
    /// share one, which sees in the task which of them it runs. So their code is compiled once.
    pub shared: Option<Cow<'static, str>>,
    /// The CPU twin.
    pub twin: Twin,
}

impl Function {
    /// What it is called in the device source, after the name of its program.
    pub fn device_name(&self) -> Cow<'_, str> {
        identifier(self.shared.as_ref().unwrap_or(&self.name))
    }
}

/// The device struct of a program's parameters.
#[derive(Clone)]
pub struct Params {
    /// Its device name.
    pub name: Cow<'static, str>,
    /// Its declaration, with those of the structs that the device source uses.
    pub declaration: Declaration,
}

/// Declarations of structs.
#[derive(Clone)]
pub enum Declaration {
    /// A function writes them in the text's language, as [`Layout::write_struct`] does.
    Written(fn(&mut dyn DeviceText) -> fmt::Result),
    /// CUDA C++. A program that has it writes its declarations in WGSL at the beginning of its WGSL source.
    Text(Arc<str>),
}

impl Params {
    /// The parameters are a `dev_struct!`.
    pub const fn of<P: Layout>() -> Self {
        Self::written(P::NAME, P::write_struct)
    }
    /// A function writes the declaration of the struct called `name`.
    pub const fn written(
        name: &'static str,
        write: fn(&mut dyn DeviceText) -> fmt::Result,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            declaration: Declaration::Written(write),
        }
    }
    /// Writes the declaration such that one unit may contain it several times: programs share structs of parameters.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_once(&self, out: &mut dyn DeviceText) -> fmt::Result {
        let name = &self.name;
        writeln!(out, "#ifndef EW_HAS_{name}\n#define EW_HAS_{name}")?;
        self.write(out)?;
        writeln!(out, "\n#endif")
    }
    /// Writes the declaration.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn DeviceText) -> fmt::Result {
        match &self.declaration {
            Declaration::Written(write) => write(out),
            Declaration::Text(text) if out.language() == Language::Cuda => out.write_str(text),
            Declaration::Text(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Params").field(&self.name).finish()
    }
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name; device functions are called `name_function`.
    pub name: Cow<'static, str>,
    /// Its functions; a function's number is its index here.
    pub functions: Cow<'static, [Function]>,
    /// Its device source: CUDA C++ that defines `name_function` for each function.
    pub device_source: Cow<'static, str>,
    /// Its WGSL source, which defines the same functions; empty for a program that has none, which the wgpu engine refuses.
    pub wgsl_source: Cow<'static, str>,
    /// Its parameters.
    pub params: Params,
}

impl Program {
    /// Whether it was made from a program of actors: all of these have the same parameters, and no others have them.
    pub fn has_actors(&self) -> bool {
        self.params.name == DevActors::NAME
    }
    /// The kind of actors whose turns one of this program's functions runs; none if it runs no turns.
    pub fn kind_of<'f>(&self, function: &'f Function) -> Option<&'f str> {
        let kind = function.name.strip_suffix(TURN);
        kind.filter(|_| self.has_actors())
    }
    /// Whether the other program has the same content, so that one may stand for the other.
    pub fn same(&self, other: &Program) -> bool {
        self.name == other.name
            && self.device_source == other.device_source
            && self.wgsl_source == other.wgsl_source
            && self.params.name == other.params.name
            && self.functions.len() == other.functions.len()
            && self
                .functions
                .iter()
                .zip(&*other.functions)
                .all(|(a, b)| a.name == b.name && a.twin.may_replace(&b.twin))
    }
    /// Checks that an engine can run the functions as they are declared.
    ///
    /// # Errors
    /// [`EngineError::MaxSpawn`].
    pub fn check(&self) -> Result<(), EngineError> {
        match self.functions.iter().find(|f| f.max_spawn > MAX_SPAWN) {
            None => Ok(()),
            Some(function) => Err(EngineError::MaxSpawn {
                program: self.name.to_string(),
                function: function.name.to_string(),
                value: function.max_spawn,
                limit: MAX_SPAWN,
            }),
        }
    }
}

/// A program that an engine holds: a `static` one, or one that was made at run time and is freed with its last holder.
#[derive(Clone, Debug)]
pub enum ProgramRef {
    /// Made by [`program!`](crate::program).
    Static(&'static Program),
    /// Made at run time.
    Shared(Arc<Program>),
}

impl Deref for ProgramRef {
    type Target = Program;
    fn deref(&self) -> &Program {
        match self {
            Self::Static(program) => program,
            Self::Shared(program) => program,
        }
    }
}
impl From<&'static Program> for ProgramRef {
    fn from(program: &'static Program) -> Self {
        Self::Static(program)
    }
}
impl From<Arc<Program>> for ProgramRef {
    fn from(program: Arc<Program>) -> Self {
        Self::Shared(program)
    }
}
impl From<&Arc<Program>> for ProgramRef {
    fn from(program: &Arc<Program>) -> Self {
        Self::Shared(program.clone())
    }
}
impl From<Program> for ProgramRef {
    fn from(program: Program) -> Self {
        Self::Shared(Arc::new(program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DevNone, Image};

    fn program(name: &'static str, most: u16) -> Program {
        let function = |name, most| Function::lane(name, |_| {}).spawns(most);
        Program {
            name: name.into(),
            functions: vec![function("a", 0), function("b", most)].into(),
            device_source: "".into(),
            wgsl_source: "".into(),
            params: Params::of::<DevNone>(),
        }
    }

    #[test]
    fn function_that_spawns_too_many_is_named_in_the_error() {
        let fits = ProgramRef::from(program("fits", MAX_SPAWN));
        let wide = ProgramRef::from(program("wide", MAX_SPAWN + 1));
        let image = |programs| Image::of(programs).check();
        image(vec![fits.clone()]).expect("it is at the limit");
        let error = image(vec![fits, wide]).expect_err("above it");
        let text = error.to_string();
        for part in ["`b`", "`wide`", "129", "128"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn programs_with_other_closures_are_not_the_same() {
        let closure = |add: u64| Program {
            functions: vec![Function::shaped(
                Shape::Lane,
                "f".into(),
                Twin::new(move |t: &mut dyn crate::TaskCx| t.report_add(add)),
            )]
            .into(),
            ..program("p", 0)
        };
        let one = closure(1);
        assert!(one.same(&one.clone()) && !one.same(&closure(2)));
        assert!(
            program("p", 0).same(&program("p", 0)),
            "functions are compared by name"
        );
        assert!(!program("p", 0).same(&program("q", 0)));
    }

    #[test]
    fn declaration_at_run_time_is_written_as_it_is() {
        let params = Params {
            name: "DevMade".into(),
            declaration: Declaration::Text("struct DevMade {};".into()),
        };
        let mut text = String::new();
        params.write(&mut text).expect("a string takes it");
        assert_eq!(text, "struct DevMade {};");
    }
}
