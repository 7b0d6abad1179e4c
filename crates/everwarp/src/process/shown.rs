//! What a host shows to other programs of the same user.

use std::sync::{Arc, Weak};
use std::time::Instant;

use everwarp_process::{Compiling, Pid, ProcessEngine, ProcessSnapshot};
use everwarp_telemetry::registry::{Order, Source, View};
use everwarp_telemetry::view::{CompilingView, Health, HostView, ProcessRow};
use everwarp_telemetry::{Registration, register};

/// A host that other programs can look at.
#[derive(Debug)]
struct ShownHost {
    engine: Weak<dyn ProcessEngine>,
    /// The names of its modules.
    modules: String,
    begin: Instant,
}

/// Shows a host until the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Shown(
    #[expect(dead_code, reason = "it is dropped with this")] Arc<(Arc<ShownHost>, Registration)>,
);

impl Shown {
    pub(super) fn new(engine: &Arc<dyn ProcessEngine>, modules: String) -> Self {
        let host = Arc::new(ShownHost {
            engine: Arc::downgrade(engine),
            modules,
            begin: Instant::now(),
        });
        let source: Arc<dyn Source> = Arc::clone(&host) as _;
        let registration = register(Arc::downgrade(&source));
        Self(Arc::new((host, registration)))
    }
}

fn row(process: &ProcessSnapshot) -> ProcessRow {
    ProcessRow {
        pid: process.pid.to_string(),
        instance: None,
        parent: process.parent.map(|parent| parent.to_string()),
        state: process.stage.to_string(),
        fuel_used: process.fuel_used,
        memory_bytes: process.memory_bytes,
    }
}

/// What other programs see of the compiler.
#[doc(hidden)]
pub fn compiling_view(compiling: &Compiling) -> CompilingView {
    CompilingView {
        left_out: compiling.left_out as u64,
        assembled: compiling.assembled as u64,
        present: compiling.present as u64,
        exchanges: compiling.exchanges.count.into(),
        paused_s: compiling.exchanges.paused().as_secs_f64(),
    }
}

impl Source for ShownHost {
    fn view(&self, most: usize) -> Option<View> {
        let engine = self.engine.upgrade()?;
        let bare = HostView {
            os_pid: std::process::id(),
            engine: engine.kind().to_string(),
            module: self.modules.clone(),
            age_s: self.begin.elapsed().as_secs_f64(),
            totals: engine.totals(),
            compiling: engine
                .compiling()
                .map(|compiling| compiling_view(&compiling)),
            ..HostView::default()
        };
        Some(View::Host(match engine.list(most) {
            Ok(listing) => HostView {
                waiting: listing.waiting,
                running: listing.running,
                ended: listing.ended,
                left_out: listing.total() - listing.rows.len(),
                processes: listing.rows.iter().map(row).collect(),
                ..bare
            },
            Err(error) => HostView {
                health: Health::failed(error.to_string()),
                ..bare
            },
        }))
    }

    fn order(&self, target: &str, order: Order) -> Result<bool, String> {
        // It may be the name of an actor, which another part of the program has.
        let (Ok(pid), Order::Kill) = (target.parse::<Pid>(), order) else {
            return Ok(false);
        };
        let Some(engine) = self.engine.upgrade() else {
            return Ok(false);
        };
        engine.kill(pid).map_err(|error| error.to_string())
    }
}
