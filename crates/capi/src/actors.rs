//! `ew_actors`: actors whose kinds are WebAssembly modules.

use std::ffi::{CString, c_char};
use std::sync::Arc;
use std::time::Duration;

use everwarp::actor::{
    ActorConfig, ActorId, ActorModule, ActorProgram, ActorSystem, Column, MAX_ASK_WORDS, MAX_WORDS,
    MessageType, program_of,
};
use everwarp::{Device, EngineKind, Pools, Select};

use crate::engine::{Engine, Resident};
use crate::objects::{borrow, free, give};
use crate::status::{Failure, Status, guard};
use crate::{slice, text};

/// Actors of some modules on an engine of their own. Fields are dropped in this order.
#[derive(Debug)]
pub struct Actors {
    system: ActorSystem,
    _engine: everwarp::Engine,
    _gpu: Option<Arc<()>>,
    on: CString,
    why: CString,
}

/// A module, as in the header.
#[derive(Debug)]
#[repr(C)]
pub struct ActorModuleView {
    kind: *const c_char,
    bytes: *const u8,
    length: usize,
}

/// The limits of a system, as in the header.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ActorOptions {
    actors: u32,
    messages: u32,
    patience_ms: u32,
}

/// A field of many messages, as in the header.
#[derive(Debug)]
#[repr(C)]
pub struct ColumnView {
    words: *const u64,
    count: usize,
}

/// Why actors failed, the oldest first.
#[derive(Debug)]
pub struct Failures(Vec<(ActorId, CString)>);

/// A failure, as in the header.
#[derive(Debug)]
#[repr(C)]
pub struct FailureView {
    actor: u64,
    reason: *const c_char,
}

impl Actors {
    fn open(
        engine: &Engine,
        modules: &[ActorModule],
        options: ActorOptions,
    ) -> Result<Self, Failure> {
        let program = program_of("actors", modules).map_err(|e| Failure::load(&e))?;
        let config = config(options)?;
        let mut resident = engine.resident();
        let mut place = place_of(engine, &resident, &program)?;
        let mut started = place.start(engine, &program, config);
        if let (Err(error), true) = (&started, engine.auto && place.is_gpu(engine)) {
            // Such as a GPU without the compiler that it needs.
            place = Place::cpu(format!("the GPU does not start them: {error}"))?;
            started = place.start(engine, &program, config);
        }
        let own = started.map_err(|e| Failure::start(e.to_string()))?;
        let system = ActorSystem::start(&own, &program, config);
        let system = system.map_err(|e| Failure::start(e.to_string()))?;
        let on_gpu = own.kind() != EngineKind::Cpu;
        Ok(Self {
            system,
            _gpu: on_gpu.then(|| resident.give_to_actors()),
            on: shown(&own.kind().to_string()),
            why: shown(&place.why),
            _engine: own,
        })
    }
    /// The message with this name, if it has this number of fields.
    fn message(&self, name: &str, fields: usize) -> Result<&MessageType, Failure> {
        let message = self.system.message(name)?;
        let wanted = message.fields.len();
        if fields != wanted {
            return Err(Failure::argument(format!(
                "the message is {message}: it has {wanted} fields, and {fields} were given"
            )));
        }
        Ok(message)
    }
}

/// Where the actors of a program run, and why.
struct Place {
    /// The CPU, next to a GPU that the engine has chosen by itself. Without it, the engine's own device.
    cpu: Option<Device>,
    why: String,
}

/// Decides where a program runs.
fn place_of(
    engine: &Engine,
    resident: &Resident,
    program: &ActorProgram,
) -> Result<Place, Failure> {
    let own = |why: &str| {
        let why = why.to_owned();
        Ok(Place { cpu: None, why })
    };
    let why_not = match engine.device.kind() {
        EngineKind::Cpu => return own(engine.device.why()),
        EngineKind::Cuda => match (program.not_on_cuda(), resident.blocks_actors()) {
            (None, None) => return own("the GPU runs all kinds of the system"),
            (None, Some(what)) => what.to_owned(),
            (Some((kind, why)), _) => format!("`{kind}` does not run on a GPU, because {why}"),
        },
        kind => format!("actors of modules do not run on the engine {kind}"),
    };
    match engine.auto {
        true => Place::cpu(why_not),
        false => Err(Failure::start(format!(
            "these actors run on the CPU engine only: {why_not}; open an engine \"auto\", which runs them on the CPU, or \
             \"cpu\""
        ))),
    }
}

impl Place {
    fn cpu(why: String) -> Result<Self, Failure> {
        let cpu = Device::open(Select::Cpu).map_err(|e| Failure::device(&e))?;
        Ok(Self {
            cpu: Some(cpu),
            why,
        })
    }
    fn is_gpu(&self, engine: &Engine) -> bool {
        self.cpu.is_none() && engine.device.kind() != EngineKind::Cpu
    }
    /// Starts an engine with the program there.
    fn start(
        &self,
        engine: &Engine,
        program: &ActorProgram,
        config: ActorConfig,
    ) -> Result<everwarp::Engine, everwarp::Error> {
        let pools = Pools::default();
        let tasks = pools.tasks.max(config.actors);
        let device = self.cpu.as_ref().unwrap_or(&engine.device);
        let builder = device.engine().program(program.program());
        builder.pools(Pools { tasks, ..pools }).start()
    }
}

/// A text for C, which cannot hold zero bytes.
fn shown(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn config(options: ActorOptions) -> Result<ActorConfig, Failure> {
    let usual = ActorConfig::default();
    let or = |value: u32, usual: u32| if value == 0 { usual } else { value };
    let actors = or(options.actors, usual.actors);
    let messages = or(
        options.messages,
        actors.saturating_mul(4).min((1 << 28) - 1),
    );
    Ok(ActorConfig {
        actors,
        messages,
        patience: match options.patience_ms {
            0 => usual.patience,
            time => Duration::from_millis(time.into()),
        },
        ..usual
    })
}

/// The actors and columns of a call.
struct Call<'c> {
    to: Vec<ActorId>,
    columns: Vec<Column<'c>>,
    name: String,
}

/// # Safety
/// - The pointers are null or point to as many elements as their numbers say; `message` is null or a text.
unsafe fn call<'c>(
    to: *const u64,
    count: usize,
    message: *const c_char,
    fields: *const ColumnView,
    field_count: usize,
    most: usize,
) -> Result<Call<'c>, Failure> {
    // SAFETY: the caller vouches for it.
    let (to, name, fields) = unsafe {
        (
            slice(to, count, "to")?,
            text(message, "message")?,
            slice(fields, field_count, "fields")?,
        )
    };
    if field_count > most {
        return Err(Failure::argument(format!(
            "a message has up to {most} fields here, and {field_count} were given"
        )));
    }
    let mut columns = Vec::with_capacity(field_count);
    for (number, field) in fields.iter().enumerate() {
        // SAFETY: the caller vouches for it.
        let words = unsafe { slice(field.words, field.count, "the words of a field") }?;
        columns.push(match words {
            [all] => Column::All(*all),
            each if each.len() == count => Column::Each(each),
            each => {
                return Err(Failure::argument(format!(
                    "field {number} has {} words, and there are {count} actors: give one for each, or one for all",
                    each.len()
                )));
            }
        });
    }
    let to = to.iter().map(|id| ActorId::from_bits(*id)).collect();
    Ok(Call { to, columns, name })
}

/// Starts a system of actors.
///
/// # Safety
/// - `engine` is null or alive; `modules` points to `count` modules with valid pointers; `options` is null or points to
///   options; `actors` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_open(
    engine: *const Engine,
    modules: *const ActorModuleView,
    count: usize,
    options: *const ActorOptions,
    actors: *mut *mut Actors,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let (engine, modules, options) = unsafe {
            (
                borrow(engine, "engine")?,
                slice(modules, count, "modules")?,
                options.as_ref().copied().unwrap_or_default(),
            )
        };
        let mut kinds = Vec::with_capacity(count);
        for module in modules {
            // SAFETY: the caller vouches for it.
            let (kind, bytes) = unsafe {
                (
                    text(module.kind, "the kind of a module")?,
                    slice(module.bytes, module.length, "the bytes of a module")?,
                )
            };
            kinds.push(ActorModule::new(kind, bytes.to_vec()).map_err(|e| Failure::load(&e))?);
        }
        let opened = Actors::open(engine, &kinds, options)?;
        // SAFETY: the caller vouches for it.
        unsafe { give(opened, actors) }
    })
}

/// Ends all actors of a system.
///
/// # Safety
/// - `actors` is null or alive, and nothing uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_close(actors: *mut Actors) {
    // SAFETY: the caller vouches for it.
    unsafe { free(actors) }
}

/// The name of the engine that runs the actors: `cpu` or `cuda`. Empty for a null pointer.
///
/// # Safety
/// - `actors` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_engine(actors: *const Actors) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { actors.as_ref() }.map_or(c"".as_ptr(), |actors| actors.on.as_ptr())
}

/// Why that engine runs them. Empty for a null pointer.
///
/// # Safety
/// - `actors` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_why(actors: *const Actors) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { actors.as_ref() }.map_or(c"".as_ptr(), |actors| actors.why.as_ptr())
}

/// Launches actors: all of them, or none.
///
/// # Safety
/// - `actors` is null or alive; `kind` is null or a text; `ids` has room for `count` ids.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_spawn(
    actors: *const Actors,
    kind: *const c_char,
    count: usize,
    ids: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let (actors, kind) = unsafe { (borrow(actors, "actors")?, text(kind, "kind")?) };
        if ids.is_null() && count != 0 {
            return Err(Failure::null("ids"));
        }
        let kind = actors.system.kind(&kind)?;
        let mut launched = actors.system.launch_up_to(kind, count)?;
        if launched.len() < count {
            actors.system.kill(&launched)?;
            return Err(Failure::start(format!(
                "there is no room for {count} actors: end some, or open the system with more `actors`"
            )));
        }
        launched.sort_unstable();
        for (number, id) in launched.iter().enumerate() {
            // SAFETY: the caller vouches for `count` places.
            unsafe { ids.add(number).write(id.bits()) };
        }
        Ok(())
    })
}

/// Sends a message to each actor.
///
/// # Safety
/// - `actors` is null or alive; `to` points to `count` ids, `message` to a text, and `fields` to `field_count` fields with
///   valid pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_tell(
    actors: *const Actors,
    to: *const u64,
    count: usize,
    message: *const c_char,
    fields: *const ColumnView,
    field_count: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let (actors, call) = unsafe {
            (
                borrow(actors, "actors")?,
                call(to, count, message, fields, field_count, MAX_WORDS)?,
            )
        };
        let message = actors.message(&call.name, field_count)?;
        actors
            .system
            .tell_columns(&call.to, message.tag, &call.columns)?;
        Ok(())
    })
}

/// Asks each actor, and stores the words of the replies.
///
/// # Safety
/// - As [`ew_actors_tell`], and `replies` has room for `count * reply_words` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_ask(
    actors: *const Actors,
    to: *const u64,
    count: usize,
    message: *const c_char,
    fields: *const ColumnView,
    field_count: usize,
    timeout_ms: i64,
    replies: *mut u64,
    reply_words: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let (actors, call) = unsafe {
            (
                borrow(actors, "actors")?,
                call(to, count, message, fields, field_count, MAX_ASK_WORDS)?,
            )
        };
        let message = actors.message(&call.name, field_count)?;
        let words = message.reply.len();
        if words != reply_words {
            return Err(Failure::argument(format!(
                "the message is {message}: its reply has {words} words, and there is room for {reply_words} each"
            )));
        }
        if replies.is_null() && count * words != 0 {
            return Err(Failure::null("replies"));
        }
        let system = &actors.system;
        let within = u64::try_from(timeout_ms).map(Duration::from_millis);
        let within = within.unwrap_or(system.patience());
        let asked = system.ask_columns(&call.to, message.tag, &call.columns, within);
        let found = asked.map_err(|(_, error)| Failure::from(error))?;
        for (number, reply) in found.iter().enumerate() {
            for word in 0..words {
                // SAFETY: the caller vouches for `count * reply_words` places.
                unsafe { replies.add(number * words + word).write(reply.word(word)) };
            }
        }
        Ok(())
    })
}

/// Waits until actors have handled all messages.
///
/// # Safety
/// - `actors` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_settle(actors: *const Actors) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let actors = unsafe { borrow(actors, "actors") }?;
        Ok(actors.system.settle().map(drop)?)
    })
}

/// Does something to actors, and stores how many of them did not live.
///
/// # Safety
/// - `actors` is null or alive; `ids` points to `count` ids; `gone` is null or may be written.
unsafe fn signal(
    actors: *const Actors,
    ids: *const u64,
    count: usize,
    gone: *mut u64,
    send: impl FnOnce(&ActorSystem, &[ActorId]) -> Result<u64, everwarp::actor::ActorError>,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let (actors, ids) = unsafe { (borrow(actors, "actors")?, slice(ids, count, "ids")?) };
        let ids: Vec<_> = ids.iter().map(|id| ActorId::from_bits(*id)).collect();
        let count = send(&actors.system, &ids)?;
        if !gone.is_null() {
            // SAFETY: the caller vouches for it.
            unsafe { gone.write(count) };
        }
        Ok(())
    })
}

/// Ends actors once they have handled their messages.
///
/// # Safety
/// - `actors` is null or alive; `ids` points to `count` ids; `gone` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_stop(
    actors: *const Actors,
    ids: *const u64,
    count: usize,
    gone: *mut u64,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { signal(actors, ids, count, gone, ActorSystem::stop) }
}

/// Ends actors now.
///
/// # Safety
/// - `actors` is null or alive; `ids` points to `count` ids; `gone` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_kill(
    actors: *const Actors,
    ids: *const u64,
    count: usize,
    gone: *mut u64,
) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { signal(actors, ids, count, gone, ActorSystem::kill) }
}

/// Why actors failed.
///
/// # Safety
/// - `actors` is null or alive; `failures` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_actors_failures(
    actors: *const Actors,
    failures: *mut *mut Failures,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let actors = unsafe { borrow(actors, "actors") }?;
        let (all, _) = actors.system.failures();
        let failure = |failure: everwarp::actor::Failure| (failure.actor, shown(&failure.reason));
        let all = Failures(all.into_iter().map(failure).collect());
        // SAFETY: the caller vouches for it.
        unsafe { give(all, failures) }
    })
}

/// How many failures there are.
///
/// # Safety
/// - `failures` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_failures_count(failures: *const Failures) -> usize {
    // SAFETY: the caller vouches for it.
    unsafe { failures.as_ref() }.map_or(0, |failures| failures.0.len())
}

/// Describes one failure.
///
/// # Safety
/// - `failures` is null or alive; `failure` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_failures_get(
    failures: *const Failures,
    number: usize,
    failure: *mut FailureView,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let failures = unsafe { borrow(failures, "failures") }?;
        if failure.is_null() {
            return Err(Failure::null("failure"));
        }
        let (actor, reason) = failures.0.get(number).ok_or_else(|| {
            let count = failures.0.len();
            Failure::argument(format!(
                "there are {count} failures, and none has the number {number}"
            ))
        })?;
        let view = FailureView {
            actor: actor.bits(),
            reason: reason.as_ptr(),
        };
        // SAFETY: the caller vouches for it.
        unsafe { failure.write(view) };
        Ok(())
    })
}

/// Frees failures.
///
/// # Safety
/// - `failures` is null or alive, and nothing uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_failures_free(failures: *mut Failures) {
    // SAFETY: the caller vouches for it.
    unsafe { free(failures) }
}
