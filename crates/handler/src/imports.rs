//! The imports of a handler.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use everwarp_actor::reasons::{MODULE_KEPT_MOST, MODULE_TIMERS_MOST};
use everwarp_actor::{ActorCx, ActorId, KeptAsk, MAX_ASK_WORDS, TimerId};
use wasmtime::{Caller, Engine, FuncType, Linker, ValRaw, ValType};

use crate::call::{Guest, word_of};
use crate::interface::{Import, Plain, Service, Signature};
use crate::names::Names;

/// The handler has called `fail`.
#[derive(Debug)]
pub(crate) struct CalledFail;
impl std::fmt::Display for CalledFail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it called `fail`")
    }
}
impl std::error::Error for CalledFail {}

/// Why an actor fails that sends too much.
pub(crate) const TOO_MANY_SENDS: &str =
    "it sends more messages for one message than its description declares: raise `sends`";

/// Why an actor fails that gives a negative time.
pub(crate) const NEGATIVE_TIME: &str = "a time is not negative";

/// The most timers that an actor has at a time.
const TIMERS: u32 = MODULE_TIMERS_MOST;
/// Why an actor fails that sets one more.
pub(crate) fn too_many_timers() -> String {
    format!("it has {TIMERS} timers that are still to come, which is the limit: cancel some first")
}

/// The most asks that an actor keeps at a time.
const KEPT: u32 = MODULE_KEPT_MOST;
/// Why an actor fails that keeps one more.
pub(crate) fn keeps_too_many() -> String {
    format!("it keeps {KEPT} asks, which is the limit: reply to some first")
}

/// Why an actor fails that replies to a kept ask of another message than this one.
pub(crate) fn wrong_reply(name: &str) -> String {
    format!("it replies to `{name}`, and the ask that it has kept is another message")
}

/// What a fixed function of `everwarp:actor` does.
type Function = fn(&mut Call<'_, '_>) -> wasmtime::Result<u64>;

const fn fixed(
    name: &'static str,
    params: &'static [Plain],
    results: &'static [Plain],
    function: Function,
) -> (&'static str, &'static [Plain], &'static [Plain], Function) {
    (name, params, results, function)
}

/// The functions of `everwarp:actor`.
const FIXED: [(&str, &[Plain], &[Plain], Function); 13] = [
    fixed("self", &[], &[Plain::I64], |c| Ok(c.actor()?.id().bits())),
    fixed("sender", &[], &[Plain::I64], |c| {
        Ok(c.actor()?.sender().bits())
    }),
    fixed("parent", &[], &[Plain::I64], |c| {
        Ok(c.actor()?.parent().bits())
    }),
    fixed("asked", &[], &[Plain::I32], |c| {
        Ok(c.actor()?.is_asked().into())
    }),
    fixed("forward", &[Plain::I64], &[], |c| {
        let to = c.id(0);
        c.sender()?.forward(to);
        Ok(0)
    }),
    fixed("keep", &[], &[Plain::I64], |c| {
        let actor = c.actor()?;
        if actor.kept() >= KEPT as usize {
            return Err(wasmtime::Error::msg(keeps_too_many()));
        }
        Ok(actor.keep().bits())
    }),
    fixed("stop", &[], &[], |c| {
        c.actor()?.stop();
        Ok(0)
    }),
    fixed("stop_actor", &[Plain::I64], &[], |c| {
        let to = c.id(0);
        c.sender()?.stop_later(to);
        Ok(0)
    }),
    fixed("kill", &[Plain::I64], &[], |c| {
        let to = c.id(0);
        c.sender()?.kill(to);
        Ok(0)
    }),
    fixed("cancel", &[Plain::I64], &[Plain::I32], |c| {
        let timer = TimerId::from_bits(c.word(Plain::I64, 0));
        Ok(c.actor()?.cancel_own(timer).into())
    }),
    fixed("fail", &[], &[], |_| Err(CalledFail.into())),
    fixed("random", &[], &[Plain::I64], |c| Ok(c.guest.random())),
    fixed("now", &[], &[Plain::I64], |_| {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        Ok(BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64)
    }),
];

/// The running call of an import.
struct Call<'c, 'v> {
    guest: &'c mut Guest,
    values: &'v [MaybeUninit<ValRaw>],
}

impl Call<'_, '_> {
    fn actor(&mut self) -> wasmtime::Result<&mut ActorCx<'static, 'static, 'static>> {
        let actor = self.guest.actor();
        actor.ok_or_else(|| wasmtime::Error::msg("`_initialize` has no actor to act for"))
    }
    /// The actor, which may send one more message or signal.
    fn sender(&mut self) -> wasmtime::Result<&mut ActorCx<'static, 'static, 'static>> {
        let actor = self.actor()?;
        if actor.sends_left() == 0 {
            return Err(wasmtime::Error::msg(TOO_MANY_SENDS));
        }
        Ok(actor)
    }
    fn word(&self, ty: Plain, index: usize) -> u64 {
        // SAFETY: the caller has written the parameters, and the linker has checked their types.
        word_of(ty, unsafe { self.values[index].assume_init() })
    }
    fn id(&self, index: usize) -> ActorId {
        ActorId::from_bits(self.word(Plain::I64, index))
    }
    /// A time in nanoseconds.
    fn time(&self, index: usize) -> wasmtime::Result<Duration> {
        let nanos = self.word(Plain::I64, index) as i64;
        let nanos = u64::try_from(nanos);
        let nanos = nanos.map_err(|_| wasmtime::Error::msg(NEGATIVE_TIME))?;
        Ok(Duration::from_nanos(nanos))
    }
    /// The actor, which may have one more timer.
    fn timer(&mut self) -> wasmtime::Result<&mut ActorCx<'static, 'static, 'static>> {
        let actor = self.actor()?;
        if actor.timers() >= TIMERS as usize {
            return Err(wasmtime::Error::msg(too_many_timers()));
        }
        Ok(actor)
    }
}

fn value_type(ty: Plain) -> ValType {
    match ty {
        Plain::I32 => ValType::I32,
        Plain::I64 => ValType::I64,
        Plain::F32 => ValType::F32,
        Plain::F64 => ValType::F64,
    }
}

fn define(
    linker: &mut Linker<Guest>,
    import: &Import,
    run: impl Fn(&mut Call<'_, '_>) -> wasmtime::Result<u64> + Send + Sync + 'static,
) -> Result<(), String> {
    let Signature { params, results } = &import.signature;
    let types = |types: &[Plain]| types.iter().map(|&ty| value_type(ty)).collect::<Vec<_>>();
    let ty = FuncType::new(linker.engine(), types(params), types(results));
    let result = results.first().copied();
    let run = move |mut caller: Caller<'_, Guest>, values: &mut [MaybeUninit<ValRaw>]| {
        let guest = caller.data_mut();
        let word = run(&mut Call { guest, values })?;
        if let Some(result) = result {
            values[0].write(crate::call::raw_of(result, word));
        }
        Ok(())
    };
    let module = import.service.module();
    // SAFETY: the values have the types of `ty`: parameters are read by these types, and the only result is written.
    unsafe { linker.func_new_unchecked(module, &import.name, ty, run) }
        .map(drop)
        .map_err(|e| format!("{e:#}"))
}

/// Links the imports of a module, whose names and types are checked against those of its program.
pub(crate) fn link(
    engine: &Engine,
    imports: &[Import],
    names: &Names,
) -> Result<Linker<Guest>, (Import, String)> {
    let mut linker = Linker::new(engine);
    linker.allow_shadowing(true);
    for import in imports {
        link_one(&mut linker, import, names).map_err(|problem| (import.clone(), problem))?;
    }
    Ok(linker)
}

fn expect(import: &Import, wanted: &Signature) -> Result<(), String> {
    match import.signature == *wanted {
        true => Ok(()),
        false => Err(format!(
            "it has the type {}, but must have {wanted}",
            import.signature
        )),
    }
}

fn link_one(linker: &mut Linker<Guest>, import: &Import, names: &Names) -> Result<(), String> {
    let name = &*import.name;
    match import.service {
        Service::Actor => {
            let Some((_, params, results, run)) = FIXED.into_iter().find(|f| f.0 == name) else {
                let known = FIXED.map(|f| f.0).join(", ");
                return Err(format!("there is no such function; there are {known}"));
            };
            expect(import, &Signature::new(params, results))?;
            define(linker, import, run)
        }
        Service::Spawn => {
            let Some(kind) = names.kinds.iter().position(|kind| kind == name) else {
                let known = names.kinds.join(", ");
                return Err(format!("the program has no such kind; it has {known}"));
            };
            expect(import, &Signature::new(&[], &[Plain::I64]))?;
            define(linker, import, move |c| {
                Ok(c.actor()?.launch(kind as u32).bits())
            })
        }
        _ => message(linker, import, names),
    }
}

fn message(linker: &mut Linker<Guest>, import: &Import, names: &Names) -> Result<(), String> {
    let Some(message) = names.messages.get(&import.name) else {
        let known = names.messages.keys().map(|name| &**name);
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "no kind of the program handles such a message; they handle {known}"
        ));
    };
    let tag = message.tag;
    let fields = message.signature.params.clone();
    let words = move |c: &Call<'_, '_>, first: usize| {
        let mut words = [0; 5];
        for (i, &ty) in fields.iter().enumerate() {
            words[i] = c.word(ty, first + i);
        }
        (words, fields.len())
    };
    let plain = Signature::new(&message.signature.params, &[]);
    match import.service {
        Service::Ask | Service::AskWithin => {
            if message.signature.results.is_empty() {
                return Err("the message has no reply: use everwarp:tell".into());
            }
            let within = import.service == Service::AskWithin;
            let first = [Plain::I64, Plain::I32, Plain::I64];
            let first = &first[..2 + usize::from(within)];
            expect(import, &plain.after(first))?;
            let first = first.len();
            define(linker, import, move |c| {
                let (to, number) = (c.id(0), c.word(Plain::I32, 1));
                let (words, count) = words(c, first);
                let (words, number) = (&words[..count], u64::from(tag) << 32 | number);
                let time = if within { Some(c.time(2)?) } else { None };
                let actor = c.sender()?;
                match time {
                    None => actor.ask(to, tag, words, number),
                    Some(time) => actor.ask_within(to, tag, words, number, time),
                }
                Ok(0)
            })
        }
        Service::Reply => {
            let results = message.signature.results.clone();
            if results.is_empty() {
                return Err("the message has no reply".into());
            }
            let wanted = Signature::new(&results, &[]).after(&[Plain::I64]);
            expect(import, &Signature::new(&wanted.params, &[Plain::I32]))?;
            let name = import.name.clone();
            define(linker, import, move |c| {
                let kept = KeptAsk::from_bits(c.word(Plain::I64, 0));
                let mut words = [0; MAX_ASK_WORDS];
                for (i, &ty) in results.iter().enumerate() {
                    words[i] = c.word(ty, 1 + i);
                }
                match c.actor()?.kept_tag(kept) {
                    None => return Ok(0),
                    Some(asked) if asked == tag => {}
                    Some(_) => {
                        return Err(wasmtime::Error::msg(wrong_reply(&name)));
                    }
                }
                let words = &words[..results.len()];
                Ok(c.sender()?.reply_kept(kept, tag, words).into())
            })
        }
        Service::After | Service::Every => {
            let repeats = import.service == Service::Every;
            if plain.params.len() > MAX_ASK_WORDS {
                return Err(format!(
                    "the message of a timer has up to {MAX_ASK_WORDS} fields"
                ));
            }
            let mut wanted = plain.after(&[Plain::I64]);
            wanted.results.push(Plain::I64);
            expect(import, &wanted)?;
            define(linker, import, move |c| {
                let (time, (words, count)) = (c.time(0)?, words(c, 1));
                let (actor, words) = (c.timer()?, &words[..count]);
                let timer = match repeats {
                    true => actor.every(time, tag, words),
                    false => actor.after(time, tag, words),
                };
                Ok(timer.bits())
            })
        }
        Service::TryTell => {
            let mut wanted = plain.after(&[Plain::I64]);
            wanted.results.push(Plain::I32);
            expect(import, &wanted)?;
            define(linker, import, move |c| {
                let (to, (words, count)) = (c.id(0), words(c, 1));
                Ok(c.sender()?.try_tell(to, tag, &words[..count]).into())
            })
        }
        _ => {
            expect(import, &plain.after(&[Plain::I64]))?;
            define(linker, import, move |c| {
                let (to, (words, count)) = (c.id(0), words(c, 1));
                c.sender()?.tell(to, tag, &words[..count]);
                Ok(0)
            })
        }
    }
}
