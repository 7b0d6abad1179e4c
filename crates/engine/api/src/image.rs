//! Images: the programs that an engine runs, and code that was compiled elsewhere and is linked to them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use everwarp_contract::{DevHostCall, DevHostCallEntry, FunctionId};

use crate::{EngineError, Frames, Function, Program, ProgramRef};

/// The programs an engine runs, in the order that numbers their functions.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The programs. A later image of the same engine may append to the list, never reorder it,
    /// because queued tasks name functions by number.
    pub programs: Vec<ProgramRef>,
    /// The code that is linked to them.
    pub linked: Linked,
    /// Whether its code writes down what workers of a GPU run, for a trace.
    pub traced: bool,
    /// Whether its code measures how long tasks run on a GPU.
    pub measured: bool,
}

impl Image {
    /// An image of these programs, with nothing linked.
    pub fn of<P: Into<ProgramRef>>(programs: Vec<P>) -> Self {
        Self {
            programs: programs.into_iter().map(Into::into).collect(),
            linked: Linked::default(),
            traced: false,
            measured: false,
        }
    }
    /// All functions in the order of their ids; the first is [`FunctionId::FIRST`].
    pub fn functions(&self) -> impl Iterator<Item = (FunctionId, &Program, &Function)> + '_ {
        let flat = self
            .programs
            .iter()
            .flat_map(|p| p.functions.iter().map(move |f| (&**p, f)));
        flat.zip(FunctionId::FIRST.0..)
            .map(|((program, function), id)| (FunctionId(id), program, function))
    }
    /// The id of a program's first function.
    pub fn base(&self, program: &str) -> Option<FunctionId> {
        self.functions()
            .find(|(_, p, _)| p.name == program)
            .map(|(id, _, _)| id)
    }
    /// Checks every program; see [`Program::check`].
    ///
    /// # Errors
    /// Those of the first program that fails.
    pub fn check(&self) -> Result<(), EngineError> {
        self.programs.iter().try_for_each(|p| p.check())
    }
    /// Checks that `next` may follow this image: it must begin with the same programs. Linked parts may come and go: the
    /// caller knows that nothing runs in a part that goes.
    pub fn check_successor(&self, next: &Image) -> Result<(), EngineError> {
        let names = |image: &Image| -> Vec<_> {
            let programs = image.programs.iter();
            programs.map(|p| p.name.to_string()).collect()
        };
        let (old, new) = (names(self), names(next));
        if new.starts_with(&old) {
            return Ok(());
        }
        Err(EngineError::ImageOrder {
            old: old.join(", "),
            new: new.join(", "),
        })
    }
    /// `program/function` of an id, for messages.
    pub fn name(&self, id: FunctionId) -> String {
        match self.functions().find(|(i, _, _)| *i == id) {
            Some((_, p, f)) => format!("{}/{}", p.name, f.name),
            None => match id {
                FunctionId::NONE => "(none)".into(),
                FunctionId::FETCH => "(fetch)".into(),
                FunctionId::COMPLETE => "(complete)".into(),
                other => format!("(unknown function {other})"),
            },
        }
    }
}

/// Code that is linked to the programs of an image. Without any, an image is compiled as one whole program, and its code
/// does not change by the existence of this.
#[derive(Clone, Debug, Default)]
pub struct Linked {
    /// The parts.
    pub parts: Vec<LinkedPart>,
    /// CUDA C++ before the programs' sources: it declares the functions of the parts that they call.
    pub declarations: String,
    /// Headers that the programs' sources include: the name in `#include "…"`, and the text.
    pub headers: &'static [(&'static str, &'static str)],
    /// The stack that each thread of the device gets, in bytes. The driver reserves that much device memory
    /// for every thread that the device can hold, not only for those of the engine.
    pub stack_bytes: u32,
    /// How much more stack each thread gets if the frames of the image's functions need it.
    pub stack_rule: Option<StackRule>,
    /// Slots of the host-call ring, a power of two; 0 if nothing that is linked calls the host. The ring is
    /// made with the engine; the number in a later image has no effect.
    pub host_call_slots: u32,
    /// Machine code that may be of this image. It is used only where its key says that it was made from exactly this.
    pub precompiled: Vec<Precompiled>,
    /// What writes the addresses of the parts' functions into variables of the parts, before the image runs.
    pub publishers: Vec<Publisher>,
}

/// Says from the frames of an image's functions how many bytes of stack each thread needs: they are known when the image is made,
/// and the stack cannot be changed while it runs.
#[derive(Clone)]
pub struct StackRule(Arc<dyn Fn(&Frames) -> u32 + Send + Sync>);

impl StackRule {
    /// The rule that `needed` decides.
    pub fn new(needed: impl Fn(&Frames) -> u32 + Send + Sync + 'static) -> Self {
        Self(Arc::new(needed))
    }

    /// The bytes that these frames need.
    pub fn bytes(&self, frames: &Frames) -> u32 {
        (self.0)(frames)
    }
}

impl std::fmt::Debug for StackRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackRule").finish_non_exhaustive()
    }
}

/// A kernel of linked code that one thread runs once, before the engine runs that code: to write down addresses, which only the code
/// itself knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// The kernel's name. Its only parameter is an address.
    pub kernel: Arc<str>,
    /// The variable of the image whose address it is given.
    pub table: Arc<str>,
}

/// Code that is loaded next to an image which an engine has, and is linked apart from it.
#[derive(Clone, Debug, Default)]
pub struct Addition {
    /// The parts.
    pub parts: Vec<LinkedPart>,
    /// What writes the addresses of its functions into variables of the image, of earlier additions, or of its own.
    pub gives: Vec<Publisher>,
    /// What takes addresses from there: after the publishers of this addition, and again after those of later ones.
    pub takes: Vec<Publisher>,
    /// The names of the functions that the engine has from then on. Others stand for functions of the image or of other additions.
    pub functions: BTreeSet<Arc<str>>,
    /// What the names of other such functions begin with.
    pub prefixes: BTreeSet<Arc<str>>,
    /// The most bytes of stack that a function takes which stands for another one.
    pub bridge_bytes: u32,
    /// The stack that each thread of the device gets, in bytes.
    pub stack_bytes: u32,
}

/// An addition that an engine has compiled, to be loaded by the same engine.
#[derive(Debug)]
pub struct PreparedAddition {
    /// What was compiled.
    pub addition: Addition,
    /// The machine code.
    pub code: Vec<u8>,
    /// The stack frames of the image's functions and those of this, as they are afterwards.
    pub frames: Frames,
}

/// Machine code of an image, made ahead of its use. A device runs it unchecked, so the user who gives it vouches for it.
#[derive(Clone)]
pub struct Precompiled {
    /// The architecture, 90 meaning `sm_90`.
    pub arch: u32,
    /// The hash of all that it was made from.
    pub key: Arc<str>,
    /// The code.
    pub code: Arc<[u8]>,
}

impl fmt::Debug for Precompiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sm_{} {} ({} bytes)",
            self.arch,
            self.key,
            self.code.len()
        )
    }
}

/// One file of PTX.
#[derive(Clone, Debug)]
pub struct LinkedPart {
    /// The name in error messages.
    pub name: Arc<str>,
    /// The text, from its `.version` line on.
    pub ptx: Arc<str>,
}

impl Linked {
    /// Whether there is nothing to link.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// Whether something waits for code that is assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// Processes wait for it.
    Awaited,
    /// It may be waited for later.
    Idle,
}

/// An image that an engine has compiled, to be loaded by the same engine.
#[derive(Debug)]
pub struct PreparedImage {
    /// The image that was compiled.
    pub image: Image,
    /// The machine code, as the engine wants it; empty where there is none.
    pub code: Vec<u8>,
    /// The stack frames of its functions.
    pub frames: Frames,
}

/// The addresses of the host-call ring on the host; the access rules are those of `everwarp_contract::hostcall`.
#[derive(Clone, Copy, Debug)]
pub struct HostCallMemory {
    /// Slots, `slot_count` of them.
    pub slots: *mut DevHostCall,
    /// Areas, `area_count` of them.
    pub areas: *mut u8,
    /// The submission queue, `entry_count` entries. The device is its only writer.
    pub entries: *mut DevHostCallEntry,
    /// Number of slots, a power of two.
    pub slot_count: u32,
    /// Number of areas.
    pub area_count: u32,
    /// Number of entries, a power of two.
    pub entry_count: u32,
}
// SAFETY: plain addresses; the access rules are those of `everwarp_contract::hostcall`.
unsafe impl Send for HostCallMemory {}
// SAFETY: as above.
unsafe impl Sync for HostCallMemory {}

/// The image of an engine: its replacement, and the needs of the code that is linked to it.
pub trait EngineLoader {
    /// Compiles an image for this engine, also while it is resident, and checks that it may follow the engine's current
    /// image: [`Image::programs`] has the rule.
    fn prepare(&self, image: &Image) -> Result<PreparedImage, EngineError>;
    /// Assembles parts ahead of an image that will have them, so that [`prepare`](Self::prepare) takes less time. An error
    /// is that call's to report.
    fn assemble_ahead(&self, _parts: &[LinkedPart]) {}
    /// Whether [`assemble_while`](Self::assemble_while) does anything.
    fn assembles_ahead(&self) -> bool {
        false
    }
    /// Assembles parts ahead of an image or an addition that will have them, unless `unwanted` is set or becomes so. Says whether they
    /// can be in an addition. An error is one of a part: it reaches a limit. Other errors are those of [`prepare`](Self::prepare).
    fn assemble_while(
        &self,
        _parts: &[LinkedPart],
        _haste: Haste,
        _unwanted: &Arc<AtomicBool>,
    ) -> Result<bool, EngineError> {
        Ok(false)
    }
    /// Replaces the image of a parked engine.
    fn set_image(&self, prepared: &PreparedImage) -> Result<(), EngineError>;
    /// Links code that is loaded next to the engine's current image, also while the engine is resident. `None` if it can only come
    /// in an image.
    fn prepare_addition(
        &self,
        _addition: &Addition,
    ) -> Result<Option<PreparedAddition>, EngineError> {
        Ok(None)
    }
    /// Loads an addition into a parked engine, whose image is the one that it was prepared for. An engine that prepares none loads
    /// none.
    fn add(&self, _prepared: &PreparedAddition) -> Result<(), EngineError> {
        unreachable!("an engine is given what it has prepared")
    }
    /// Gives back memory that a parked engine does not need: of earlier images, and of buffers that were dropped. Does
    /// nothing while the engine is resident.
    fn trim(&self) {}
    /// The host-call ring, if the engine was started with one ([`Linked::host_call_slots`]). The addresses stay valid as
    /// long as the engine lives.
    fn host_calls(&self) -> Option<HostCallMemory> {
        None
    }
    /// The stack frames of the image's functions.
    fn frames(&self) -> Frames {
        Frames::default()
    }
}
