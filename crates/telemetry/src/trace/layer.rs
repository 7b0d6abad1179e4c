//! Spans and events of the crate `tracing`, as slices of the threads that they are in.

use std::cell::RefCell;
use std::collections::HashMap;

use tracing::span::Id;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::{Event, NameId, Tracer, tracer};
use crate::clock;

/// A layer of `tracing-subscriber` that puts the spans of the host's program into its trace, on the clock of the engines.
///
/// Each time that a thread is in a span is a slice of that thread's track, with the span's name, and its target as the category.
/// An event is a slice without duration, whose name says where it is in the source. Fields are not recorded. Without
/// [`start`](super::start) the layer does nothing; a span counts from the first entry after it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingLayer {}

thread_local! {
    /// The spans that this thread is in, with the times at which it entered them.
    static ENTERED: RefCell<Vec<(Id, u64)>> = const { RefCell::new(Vec::new()) };
    /// The numbers of names, by the address of what describes their place in the source.
    static NAMES: RefCell<HashMap<usize, NameId>> = RefCell::default();
}

fn name(tracer: &Tracer, metadata: &'static Metadata<'static>) -> NameId {
    let place = std::ptr::from_ref(metadata).addr();
    let make = || tracer.name(metadata.target(), metadata.name());
    NAMES.with_borrow_mut(|names| *names.entry(place).or_insert_with(make))
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for TracingLayer {
    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        if tracer().is_some() {
            let entry = (id.clone(), clock::now());
            ENTERED.with_borrow_mut(|entered| entered.push(entry));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(tracer) = tracer() else { return };
        let began = ENTERED.with_borrow_mut(|entered| {
            let at = entered.iter().rposition(|(own, _)| own == id)?;
            Some(entered.remove(at).1)
        });
        if let (Some(began), Some(metadata)) = (began, context.metadata(id)) {
            let slice = Event::slice(name(tracer, metadata), began, clock::now(), 0, 0);
            tracer.record(slice);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if let Some(tracer) = tracer() {
            let now = clock::now();
            let name = name(tracer, event.metadata());
            tracer.record(Event::slice(name, now, now, 0, 0));
        }
    }
}
