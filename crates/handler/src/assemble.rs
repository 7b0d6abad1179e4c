//! A program of actors from modules: messages get their tags, and modules are checked against each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everwarp_actor::{ActorCx, ActorProgram, Kind, Message, MessageType};

use crate::error::ModuleError;
use crate::instance::{Compiled, HEADER};
use crate::interface::{Import, Plain, Role, Service, Signature};
use crate::module::{ActorModule, Handled};
use crate::names::{Known, Names};

/// A program whose kinds are these modules, in this order.
///
/// # Errors
/// [`ModuleError`]: two kinds have one name or disagree about a message, there are more than 255 messages, or a module
/// sends a message or spawns a kind that the program does not have.
pub fn program_of(
    name: impl Into<String>,
    modules: &[ActorModule],
) -> Result<ActorProgram, ModuleError> {
    program_with(name, modules, Vec::new())
}

/// As [`program_of`], with further kinds after those of the modules: [`Kind::host`] for streams and topics, or native ones.
///
/// # Errors
/// As [`program_of`].
pub fn program_with(
    name: impl Into<String>,
    modules: &[ActorModule],
    more: Vec<Kind>,
) -> Result<ActorProgram, ModuleError> {
    let name = name.into();
    let error = |problem: String| ModuleError::Program {
        program: name.clone(),
        problem,
    };
    if modules.is_empty() {
        return Err(error("give it at least one module".into()));
    }
    let names = names(modules).map_err(error)?;
    if let Some(twice) = more
        .iter()
        .find(|kind| names.kinds.iter().any(|n| *n == kind.name))
    {
        return Err(error(format!("two kinds are called `{}`", twice.name)));
    }
    let types = types(modules, &names);
    let kinds = modules.iter().map(|module| kind(module, &names, &types));
    let mut kinds: Vec<Kind> = kinds.collect::<Result<_, _>>()?;
    kinds.extend(more);
    Ok(ActorProgram::closures(name, kinds))
}

fn signature(message: &Handled) -> Signature {
    let plain = |fields: &[everwarp_actor::Field]| -> Vec<Plain> {
        fields.iter().map(|f| Plain::carries(f.ty)).collect()
    };
    Signature::new(&plain(&message.fields), &plain(&message.reply))
}

/// Gives each message a tag, in the order of their names, from 1 on.
fn names(modules: &[ActorModule]) -> Result<Names, String> {
    let mut names = Names::default();
    let mut first: BTreeMap<&str, (&str, &Handled)> = BTreeMap::new();
    for module in modules {
        if names.kinds.contains(&module.name) {
            return Err(format!("two kinds are called `{}`", module.name));
        }
        names.kinds.push(module.name.clone());
        for message in &module.handles {
            let (kind, known) = *first
                .entry(&message.name)
                .or_insert((&module.name, message));
            let types = |m: &Handled| -> (Vec<_>, Vec<_>) {
                let types = |f: &[everwarp_actor::Field]| f.iter().map(|f| f.ty).collect();
                (types(&m.fields), types(&m.reply))
            };
            let differ = known.described && message.described && types(known) != types(message);
            if differ || signature(known) != signature(message) {
                return Err(format!(
                    "`{kind}` handles {} and `{}` handles {}: a message has the same fields in all kinds",
                    shown(known),
                    module.name,
                    shown(message)
                ));
            }
            if message.described && !known.described {
                first.insert(&message.name, (&module.name, message));
            }
        }
    }
    if first.len() > 255 {
        return Err(format!(
            "it has {} messages, and the limit is 255",
            first.len()
        ));
    }
    for (tag, (name, (_, message))) in (1..).zip(first) {
        let signature = signature(message);
        names
            .messages
            .insert(name.to_owned(), Known { tag, signature });
    }
    Ok(names)
}

fn shown(message: &Handled) -> String {
    typed(message, 0).to_string()
}
fn typed(message: &Handled, tag: u8) -> MessageType {
    MessageType {
        name: message.name.clone().into(),
        tag,
        fields: message.fields.clone().into(),
        reply: message.reply.clone().into(),
    }
}

/// The messages with the names of their fields, where a module gives them.
fn types(modules: &[ActorModule], names: &Names) -> BTreeMap<String, MessageType> {
    let mut all: BTreeMap<String, MessageType> = BTreeMap::new();
    for message in modules.iter().flat_map(|module| &module.handles) {
        let tag = names.messages[&message.name].tag;
        if message.described || !all.contains_key(&message.name) {
            all.insert(message.name.clone(), typed(message, tag));
        }
    }
    all
}

fn kind(
    module: &ActorModule,
    names: &Names,
    types: &BTreeMap<String, MessageType>,
) -> Result<Kind, ModuleError> {
    check_replies(module, names)?;
    let compiled = Arc::new(Compiled::new(module, names)?);
    let state = HEADER as u32 + module.memory - module.description.scratch;
    let device = crate::cuda::translate(module, &compiled, names);
    let run = move |actor: &mut ActorCx<'_, '_, '_>, message: &Message| {
        crate::instance::handle(&compiled, actor, message);
    };
    let messages = module.handles.iter().map(|m| types[&m.name].clone());
    let (most, seconds) = module.description.restarts;
    let kind = Kind::closure(module.name.clone(), state, run)
        .mailbox(module.description.mailbox)
        .sends(module.description.sends)
        .restarts(most, Duration::from_secs(seconds.into()))
        .retries(module.description.retries)
        .messages(messages.collect::<Vec<_>>())
        .on_device(device);
    let kind = match module.description.atomic {
        true => kind.atomic(),
        false => kind,
    };
    let kind = match module.imports.iter().any(Import::needs_services) {
        true => kind.services(),
        false => kind,
    };
    Ok(match module.description.latest {
        true => kind.keep_latest(),
        false => kind,
    })
}

fn is_ask(import: &Import) -> bool {
    matches!(import.service, Service::Ask | Service::AskWithin)
}

/// A module that asks takes the replies, and takes replies only of messages that it asks.
fn check_replies(module: &ActorModule, names: &Names) -> Result<(), ModuleError> {
    let asks = |name: &str| {
        let mut imports = module.imports.iter();
        imports.any(|import| is_ask(import) && import.name == name)
    };
    for import in &module.imports {
        let own = module.handles.iter().any(|m| m.name == import.name);
        if matches!(import.service, Service::After | Service::Every) && !own {
            return Err(ModuleError::Import {
                module: module.name.clone(),
                import: import.path(),
                problem: format!(
                    "an actor gets the message of its timer itself: export `on.{}`",
                    import.name
                ),
            });
        }
        let takes = |(role, name, _): &(Role, String, Signature)| {
            *role == Role::Reply && *name == import.name
        };
        if is_ask(import) && !module.exports.iter().any(takes) {
            return Err(ModuleError::Import {
                module: module.name.clone(),
                import: import.path(),
                problem: format!("export `reply.{}`, which takes the reply", import.name),
            });
        }
    }
    for (role, name, signature) in &module.exports {
        if *role == Role::On {
            continue;
        }
        let export = format!("{}{name}", role.prefix());
        let error = |problem: String| ModuleError::Export {
            module: module.name.clone(),
            export: export.clone(),
            problem,
        };
        if !asks(name) {
            return Err(error(format!(
                "the module does not import everwarp:ask {name}"
            )));
        }
        let reply = names.messages.get(name).map(|m| &m.signature.results);
        if let (Role::Reply, Some(reply)) = (role, reply) {
            let wanted = Signature::new(reply, &[]).after(&[Plain::I32]);
            if wanted != *signature {
                return Err(error(format!(
                    "it has the type {signature}, but must have {wanted}"
                )));
            }
        }
    }
    Ok(())
}
