//! The engines, hosts and actor systems of this program. The control socket and the metrics show them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use crate::level::{Level, level};
use crate::lock::lock;
use crate::view::{ActorRow, EngineView, HostView, ProgramView, SystemView};

/// Something that can be looked at.
#[derive(Clone, Debug)]
pub enum View {
    /// An engine for tasks.
    Engine(EngineView),
    /// A host of processes.
    Host(HostView),
    /// A system of actors.
    System(SystemView),
}

/// What is asked of a process or an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// End now.
    Kill,
    /// Keep messages and handle none.
    Deactivate,
    /// Handle messages again.
    Activate,
    /// End when all messages are handled.
    Stop,
}

/// A part of a program that can be looked at.
pub trait Source: Send + Sync {
    /// What it does, with up to `most` of its processes or actors; none if it has ended.
    fn view(&self, most: usize) -> Option<View>;
    /// Carries an order out. `Ok(false)`: it has no such process or actor.
    ///
    /// # Errors
    /// Why it was not carried out.
    fn order(&self, target: &str, order: Order) -> Result<bool, String> {
        let _ = (target, order);
        Ok(false)
    }
    /// Describes one actor with its state.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn actor(&self, id: &str) -> Result<Option<ActorRow>, String> {
        let _ = id;
        Ok(None)
    }
}

#[derive(Default)]
struct Registry {
    sources: Vec<(u32, Weak<dyn Source>)>,
    next: u32,
    begin: Option<Instant>,
}

fn registry() -> std::sync::MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    lock(REGISTRY.get_or_init(Mutex::default))
}

/// The place of a source in the registry, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entry(u32);

impl Drop for Entry {
    fn drop(&mut self) {
        registry().sources.retain(|(number, _)| *number != self.0);
    }
}

/// Adds a source.
pub(crate) fn add(source: Weak<dyn Source>) -> Entry {
    let mut registry = registry();
    registry.begin.get_or_insert_with(Instant::now);
    registry.next += 1;
    let number = registry.next;
    registry.sources.push((number, source));
    Entry(number)
}

static OF_SERVICE: AtomicBool = AtomicBool::new(false);

/// This program runs the engines of the service.
pub fn set_of_service() {
    OF_SERVICE.store(true, Ordering::Relaxed);
}

/// The sources that are there, with their numbers.
pub fn sources() -> Vec<(u32, Arc<dyn Source>)> {
    let registry = registry();
    let live = registry.sources.iter();
    live.filter_map(|(number, source)| Some((*number, source.upgrade()?)))
        .collect()
}

fn program() -> String {
    let file = std::env::current_exe().ok();
    let name = file.as_deref().and_then(|file| file.file_name());
    name.map_or_else(
        || "unknown".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// This program, with up to `most` processes or actors of each host and system.
pub fn view(most: usize) -> ProgramView {
    let begin = registry().begin;
    let mut view = ProgramView {
        os_pid: std::process::id(),
        program: program(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        age_s: begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64()),
        measures: level() >= Level::Measure,
        traces: level() == Level::Trace,
        of_service: OF_SERVICE.load(Ordering::Relaxed),
        ..ProgramView::default()
    };
    for (number, source) in sources() {
        match source.view(most) {
            Some(View::Engine(engine)) => view.engines.push(EngineView { number, ..engine }),
            Some(View::Host(host)) => view.hosts.push(HostView { number, ..host }),
            Some(View::System(system)) => view.systems.push(SystemView { number, ..system }),
            None => {}
        }
    }
    view
}

/// Carries an order out that is meant for one source, or for whichever has the target.
///
/// # Errors
/// Why the source did not carry it out.
pub fn order(source: Option<u32>, target: &str, order: Order) -> Result<bool, String> {
    let mut refused = None;
    for (number, found) in sources() {
        if source.is_some_and(|source| source != number) {
            continue;
        }
        match found.order(target, order) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    refused.map_or(Ok(false), Err)
}

/// Describes one actor.
///
/// # Errors
/// Why it cannot be read.
pub fn actor(source: Option<u32>, id: &str) -> Result<Option<ActorRow>, String> {
    for (number, found) in sources() {
        if source.is_some_and(|source| source != number) {
            continue;
        }
        if let Some(actor) = found.actor(id)? {
            return Ok(Some(actor));
        }
    }
    Ok(None)
}
