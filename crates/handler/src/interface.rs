//! What a module exports and imports, as far as actors are concerned. The names are those of `docs/actor-modules.md`.

use std::fmt;

use everwarp_actor::FieldType;
use wasmparser::{FuncType, ValType};

/// A WebAssembly type of a parameter or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    I32,
    I64,
    F32,
    F64,
}

impl Plain {
    pub(crate) fn of(ty: ValType) -> Option<Self> {
        match ty {
            ValType::I32 => Some(Self::I32),
            ValType::I64 => Some(Self::I64),
            ValType::F32 => Some(Self::F32),
            ValType::F64 => Some(Self::F64),
            _ => None,
        }
    }
    /// The type that carries a field.
    pub(crate) const fn carries(ty: FieldType) -> Self {
        match ty {
            FieldType::I32 | FieldType::U32 | FieldType::Bool => Self::I32,
            FieldType::I64 | FieldType::U64 | FieldType::Actor => Self::I64,
            FieldType::F32 => Self::F32,
            FieldType::F64 => Self::F64,
        }
    }
    /// The type of a field about which the description says nothing.
    pub(crate) const fn field(self) -> FieldType {
        match self {
            Self::I32 => FieldType::I32,
            Self::I64 => FieldType::I64,
            Self::F32 => FieldType::F32,
            Self::F64 => FieldType::F64,
        }
    }
    const fn name(self) -> &'static str {
        self.field().name()
    }
}

/// The types of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) params: Vec<Plain>,
    pub(crate) results: Vec<Plain>,
}

impl Signature {
    pub(crate) fn new(params: &[Plain], results: &[Plain]) -> Self {
        Self {
            params: params.to_vec(),
            results: results.to_vec(),
        }
    }
    /// None if it has other types than numbers.
    pub(crate) fn of(ty: &FuncType) -> Option<Self> {
        let plain = |types: &[ValType]| -> Option<Vec<Plain>> {
            types.iter().map(|&ty| Plain::of(ty)).collect()
        };
        Some(Self {
            params: plain(ty.params())?,
            results: plain(ty.results())?,
        })
    }
    /// With other parameters before its own.
    pub(crate) fn after(&self, first: &[Plain]) -> Self {
        Self {
            params: [first, &self.params].concat(),
            results: self.results.clone(),
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |types: &[Plain]| types.iter().map(|ty| ty.name()).collect::<Vec<_>>();
        write!(
            f,
            "({}) -> ({})",
            names(&self.params).join(", "),
            names(&self.results).join(", ")
        )
    }
}

/// A function that the module exports for actors, with the name of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// `on.NAME`: handles the message.
    On,
    /// `reply.NAME`: takes the reply to an ask.
    Reply,
    /// `failed.NAME`: an ask has no reply.
    Failed,
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::On, Self::Reply, Self::Failed];
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::On => "on.",
            Self::Reply => "reply.",
            Self::Failed => "failed.",
        }
    }
    /// The role of an export, and the message.
    pub(crate) fn of(export: &str) -> Option<(Self, &str)> {
        let roles = Self::ALL.into_iter();
        roles
            .filter_map(|role| Some((role, export.strip_prefix(role.prefix())?)))
            .next()
    }
}

/// A module of imports whose names are those of messages or kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// `everwarp:tell`.
    Tell,
    /// `everwarp:try_tell`.
    TryTell,
    /// `everwarp:ask`.
    Ask,
    /// `everwarp:ask_within`.
    AskWithin,
    /// `everwarp:after`.
    After,
    /// `everwarp:every`.
    Every,
    /// `everwarp:spawn`.
    Spawn,
    /// `everwarp:reply`.
    Reply,
    /// `everwarp:actor`: a fixed list of functions.
    Actor,
}

impl Service {
    pub(crate) const ALL: [(&'static str, Self); 9] = [
        ("everwarp:tell", Self::Tell),
        ("everwarp:try_tell", Self::TryTell),
        ("everwarp:ask", Self::Ask),
        ("everwarp:ask_within", Self::AskWithin),
        ("everwarp:after", Self::After),
        ("everwarp:every", Self::Every),
        ("everwarp:spawn", Self::Spawn),
        ("everwarp:reply", Self::Reply),
        ("everwarp:actor", Self::Actor),
    ];
    pub(crate) fn of(module: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == module);
        found.map(|(_, service)| service)
    }
    pub(crate) fn module(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, service)| *service == self);
        found.map_or("", |(name, _)| name)
    }
}

/// A function that the module imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) service: Service,
    pub(crate) name: String,
    pub(crate) signature: Signature,
}

impl Import {
    /// Whether it needs what is next to messages: on a GPU, the program has to have services then.
    pub(crate) fn needs_services(&self) -> bool {
        self.service == Service::AskWithin || self.is_about_lists()
    }
    /// Whether it is about what an actor keeps: asks, or timers.
    pub(crate) fn is_about_lists(&self) -> bool {
        match self.service {
            Service::After | Service::Every | Service::Reply => true,
            Service::Actor => matches!(&*self.name, "keep" | "cancel"),
            _ => false,
        }
    }
    /// The import as an error shows it.
    pub(crate) fn path(&self) -> String {
        format!("{} {}", self.service.module(), self.name)
    }
}
