//! How the host lets a courier run, and the thread that fires timers.

use std::sync::{Arc, Mutex, PoisonError};

use everwarp_runtime::{Engine, Error, Instance};

use crate::events::Handled;
use crate::side::{COURIER, Side};
use crate::system::Port;

/// What it takes to submit a courier.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    engine: Engine,
    instance: Arc<Instance>,
    port: Arc<Mutex<Port>>,
    /// On a GPU: the function that wakes the thread that does what is to be done, and how far that has come.
    wakes: Option<(u32, Arc<Handled>)>,
}

impl Post {
    pub(crate) fn new(
        engine: &Engine,
        instance: &Arc<Instance>,
        port: &Arc<Mutex<Port>>,
        wakes: Option<(u32, Arc<Handled>)>,
    ) -> Self {
        Self {
            engine: engine.clone(),
            instance: instance.clone(),
            port: port.clone(),
            wakes,
        }
    }
    /// Does what is to be done to actors. The group of turns is open meanwhile, since the port is held.
    pub(crate) fn carry(&self, side: &Side) -> Result<(), Error> {
        if !side.has_ops() {
            return Ok(());
        }
        if let Some((function, handled)) = &self.wakes {
            let ring = || {
                let task = self.instance.task(*function);
                self.engine.submit(task)?.wait().map(drop)
            };
            return handled.ring_until_known(handled.want(), ring);
        }
        let _port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        let task = self.instance.task(0).args(0, COURIER);
        self.engine.submit(task)?.wait().map(drop)
    }
    /// Lets the first timer start the thread that fires them.
    pub(crate) fn start_with(&self, side: &Arc<Side>) {
        let (post, weak) = (self.clone(), Arc::downgrade(side));
        let run = move || {
            let side = weak.upgrade()?;
            let fire = move || {
                while side.wait_until_due() {
                    // An engine that has ended has no actors left.
                    if side.fire() && post.carry(&side).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("everwarp-timers".to_owned());
            // Without a thread no timer fires, which the caller of the timer cannot mend.
            Some(thread.spawn(fire).expect("a thread for timers starts"))
        };
        side.fires_with(run);
    }
}
