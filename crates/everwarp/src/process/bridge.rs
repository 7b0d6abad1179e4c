//! Bridges: values between a channel of actors and a channel of processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use everwarp_actor::{ActorError, Channel};
use everwarp_process::{ChannelError, Receiver, Sender};
use everwarp_runtime::DevType;

/// How long a bridge waits before it looks whether it was dropped.
const LOOK: Duration = Duration::from_millis(20);

/// Carries values between a channel of actors, native tasks and the host, and a channel of processes, in a thread of its
/// own. A message of a process is the bytes of one value. Either side may run on any engine that has it.
///
/// A bridge ends when the side that it receives from is closed and empty, or the side that it sends to is closed; then it
/// closes its ends. Dropping it ends it, too: the value that it carries then may be lost.
///
/// ```
/// # use everwarp::actor::{ActorConfig, ActorProgram, ActorSystem, Kind};
/// # use everwarp::process::{Bridge, Command, Error, Host, Module};
/// # use everwarp::{Device, Select};
/// # fn example(system: &ActorSystem, host: &Host, worker: &Module) -> Result<(), Box<dyn std::error::Error>> {
/// let jobs = system.channel::<u64>(64)?; // for actors
/// let (sender, receiver) = host.channel(64, 8)?; // for processes: 8 bytes a value
/// let process = Command::new(host, worker).end(receiver.end()).spawn()?;
/// let bridge = Bridge::to_processes(jobs.clone(), sender);
/// jobs.send(&7)?;
/// jobs.close()?;
/// assert_eq!(bridge.finish()?, 1);
/// # drop(process);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Bridge {
    thread: Option<JoinHandle<Result<u64, BridgeError>>>,
    dropped: Arc<AtomicBool>,
}

/// Why a bridge has ended before one of its sides was closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The channel of actors failed.
    #[error(transparent)]
    Actors(#[from] ActorError),
    /// The channel of processes failed.
    #[error(transparent)]
    Processes(#[from] ChannelError),
    /// A message of a process is no value.
    #[error(
        "a process has sent a message of {given} bytes into a bridge whose values have {expected}: send one value in each message"
    )]
    Size {
        /// The bytes of the message.
        given: usize,
        /// The bytes of a value.
        expected: usize,
    },
}

impl Bridge {
    /// Carries values from actors, tasks and the host to processes.
    pub fn to_processes<T: DevType + Send + 'static>(from: Channel<T>, to: Sender) -> Self {
        Self::start(move |dropped| {
            let (end, mut carried) = (to.end(), 0);
            loop {
                let value = match from.receive_within(LOOK) {
                    Ok(value) => value,
                    Err(ActorError::ChannelEmpty { .. }) if dropped() => return Ok(carried),
                    Err(ActorError::ChannelEmpty { .. }) => continue,
                    Err(ActorError::ChannelClosed { .. }) => return Ok(carried),
                    Err(error) => return Err(error.into()),
                };
                // SAFETY: a `DevType` has no padding, so every byte is initialised.
                let bytes = unsafe {
                    std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>())
                };
                loop {
                    match end.endpoint().send(bytes, Some(LOOK)) {
                        Ok(()) => break carried += 1,
                        Err(ChannelError::Again) if !dropped() => {}
                        Err(ChannelError::Again) => return Ok(carried),
                        Err(ChannelError::Closed) => {
                            // No process receives any more, and senders learn of it.
                            from.close()?;
                            return Ok(carried);
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        })
    }
    /// Carries values from processes to actors, tasks and the host. The channel of actors is closed when that of the
    /// processes has ended.
    pub fn from_processes<T: DevType + Send + 'static>(from: Receiver, to: Channel<T>) -> Self {
        Self::start(move |dropped| {
            let mut carried = 0;
            let ended = loop {
                let bytes = match from.receive_timeout(LOOK) {
                    Ok(bytes) => bytes,
                    Err(ChannelError::Again) if dropped() => break Ok(carried),
                    Err(ChannelError::Again) => continue,
                    Err(ChannelError::Closed) => break Ok(carried),
                    Err(error) => break Err(error.into()),
                };
                if bytes.len() != size_of::<T>() {
                    let (given, expected) = (bytes.len(), size_of::<T>());
                    break Err(BridgeError::Size { given, expected });
                }
                let value = T::from_bytes(&bytes);
                let sent = loop {
                    match to.send_within(&value, LOOK) {
                        Err(ActorError::ChannelFull { .. }) if !dropped() => {}
                        sent => break sent,
                    }
                };
                match sent {
                    Ok(()) => carried += 1,
                    Err(ActorError::ChannelFull { .. } | ActorError::ChannelClosed { .. }) => {
                        break Ok(carried);
                    }
                    Err(error) => break Err(error.into()),
                }
            };
            let closed = to.close();
            ended.and_then(|carried| closed.map(|()| carried).map_err(BridgeError::from))
        })
    }
    fn start(
        carry: impl FnOnce(&dyn Fn() -> bool) -> Result<u64, BridgeError> + Send + 'static,
    ) -> Self {
        let dropped = Arc::new(AtomicBool::new(false));
        let own = dropped.clone();
        let run = move || carry(&|| own.load(Ordering::Relaxed));
        let thread = std::thread::Builder::new().name("everwarp-bridge".to_owned());
        // Without a thread nothing is carried, which the caller cannot mend.
        let thread = thread.spawn(run).expect("a thread for a bridge starts");
        Self {
            thread: Some(thread),
            dropped,
        }
    }
    /// Waits until it has ended. Returns how many values it has carried.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub fn finish(mut self) -> Result<u64, BridgeError> {
        self.join().expect("it was not joined before")
    }
    fn join(&mut self) -> Option<Result<u64, BridgeError>> {
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}
