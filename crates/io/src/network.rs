//! What of the network processes may use, and the names that they look up.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use crate::rules::AddressRule;
use crate::socket::Connection;

/// A process asked for something that no rule grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rule allows this address")]
pub struct NotGranted;

impl NotGranted {
    fn error(self) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, self)
    }

    /// Whether an error of a socket is this one.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Receives a sentence about something that a process was refused.
type Report = Box<dyn Fn(&str) + Send + Sync>;

/// Addresses that were found for names. The oldest are forgotten first.
const FOUND_MOST: usize = 4096;
/// Different refusals that are reported.
const REPORTS_MOST: usize = 100;

/// What of the network processes may use. Those that share it also share the addresses that were found for names.
#[derive(Default)]
pub struct Network {
    connect: Vec<AddressRule>,
    bind: Vec<AddressRule>,
    /// Addresses, each with the rule for the name that it was found for.
    found: Mutex<VecDeque<(IpAddr, usize)>>,
    report: Option<Report>,
    reported: Mutex<HashSet<String>>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("connect", &self.connect)
            .field("bind", &self.bind)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// A network with the peers of `connect` and the local addresses of `bind`.
    pub fn new(connect: Vec<AddressRule>, bind: Vec<AddressRule>) -> Self {
        Self {
            connect,
            bind,
            ..Self::default()
        }
    }

    /// Calls `report` with a sentence for each address or name that a process is refused, once for each.
    #[must_use]
    pub fn reporting(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// The rules for the peers of processes.
    pub fn connect_rules(&self) -> &[AddressRule] {
        &self.connect
    }

    /// The rules for local addresses.
    pub fn bind_rules(&self) -> &[AddressRule] {
        &self.bind
    }

    /// Whether it [reports](Self::reporting) what processes are refused.
    pub fn is_reporting(&self) -> bool {
        self.report.is_some()
    }

    /// Reports a sentence of a network with the same rules in another program.
    pub fn pass_on(&self, sentence: &str) {
        if let Some(report) = &self.report {
            report(sentence);
        }
    }

    /// Whether it has no rules.
    pub fn is_empty(&self) -> bool {
        self.connect.is_empty() && self.bind.is_empty()
    }

    /// Reports that a process may not do something, and what would allow it.
    fn refuse(&self, what: &str, allows: &str) -> io::Error {
        if let Some(report) = &self.report {
            let sentence = format!("a process may not {what}: {allows} would allow it");
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.len() < REPORTS_MOST && reported.insert(sentence.clone()) {
                drop(reported);
                report(&sentence);
            }
        }
        NotGranted.error()
    }

    /// Succeeds if there is any rule.
    pub(crate) fn check_any(&self) -> io::Result<()> {
        match self.is_empty() {
            false => Ok(()),
            true => Err(self.refuse(
                "open a socket",
                "--connect HOST:PORTS or --bind ADDRESS:PORTS",
            )),
        }
    }

    /// Succeeds if processes may connect to an address, or send to it.
    pub(crate) fn check_peer(&self, address: SocketAddr) -> io::Result<()> {
        if self.connect.iter().any(|rule| rule.allows_peer(address)) {
            return Ok(());
        }
        let ip = address.ip().to_canonical();
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let allows = |&(of, rule): &(IpAddr, usize)| {
            of == ip && self.connect[rule].allows_port_of_names(address.port())
        };
        if found.iter().any(allows) {
            return Ok(());
        }
        drop(found);
        Err(self.refuse(
            &format!("connect to {address}"),
            &format!("--connect {address}"),
        ))
    }

    /// Succeeds if processes may bind an address.
    pub(crate) fn check_local(&self, address: SocketAddr) -> io::Result<()> {
        match self.bind.iter().any(|rule| rule.allows_local(address)) {
            true => Ok(()),
            false => Err(self.refuse(&format!("bind {address}"), &format!("--bind {address}"))),
        }
    }

    /// Begins to look up a name. An address as a text is its own name.
    ///
    /// # Errors
    /// [`NotGranted`]; `InvalidInput`: no host can have the name; or the system has no thread or no memory for it.
    pub fn look_up(self: &Arc<Self>, name: &str) -> io::Result<Lookup> {
        let (waiter, ready) = Connection::pair()?;
        let found = Arc::<OnceLock<io::Result<Vec<IpAddr>>>>::default();
        let lookup = Lookup {
            ready: waiter,
            found: Arc::clone(&found),
        };
        if let Ok(address) = name.parse::<IpAddr>() {
            // A new cell is empty.
            let _ = found.set(Ok(vec![address]));
            drop(ready);
            return Ok(lookup);
        }
        let rules = self.connect.iter().enumerate();
        let rules: Vec<usize> = rules
            .filter(|(_, rule)| rule.allows_name(name))
            .map(|(at, _)| at)
            .collect();
        if name.is_empty() || name.len() > NAME_MOST || name.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if rules.is_empty() {
            let allows = format!("--connect {name}:PORTS");
            return Err(self.refuse(&format!("look up {name}"), &allows));
        }
        let (network, name) = (Arc::clone(self), name.to_owned());
        resolve(Box::new(move || {
            let answer = (name.as_str(), 0).to_socket_addrs().map(|addresses| {
                let mut all = Vec::new();
                for address in addresses.map(|address| address.ip().to_canonical()) {
                    if !all.contains(&address) && all.len() < ADDRESSES_MOST {
                        all.push(address);
                    }
                }
                all
            });
            network.remember(answer.as_deref().unwrap_or_default(), &rules);
            let _ = found.set(answer);
            // Closing it wakes the waiter.
            drop(ready);
        }))?;
        Ok(lookup)
    }

    /// Keeps the addresses that were found for a name that these rules allow.
    fn remember(&self, addresses: &[IpAddr], rules: &[usize]) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            for rule in rules {
                let entry = (*address, *rule);
                found.retain(|there| *there != entry);
                if found.len() == FOUND_MOST {
                    found.pop_front();
                }
                found.push_back(entry);
            }
        }
    }
}

/// Bytes of a name.
const NAME_MOST: usize = 253;
/// Addresses that are returned for a name.
pub const ADDRESSES_MOST: usize = 64;

/// A name that is being looked up.
#[derive(Debug)]
pub struct Lookup {
    /// Ready to be read when there is an answer.
    ready: Connection,
    found: Arc<OnceLock<io::Result<Vec<IpAddr>>>>,
}

impl Lookup {
    /// The connection whose end says that there is an answer.
    pub fn ready(&self) -> &Connection {
        &self.ready
    }

    /// The addresses, each once, up to [`ADDRESSES_MOST`].
    ///
    /// # Errors
    /// `WouldBlock`: there is no answer yet; `NotFound`: the system knows no such name, or cannot find out.
    pub fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        match self.found.get() {
            None => Err(io::ErrorKind::WouldBlock.into()),
            Some(Ok(addresses)) => Ok(addresses.clone()),
            Some(Err(_)) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that look up names: each waits for a server of names while it does.
const RESOLVERS: usize = 4;
/// Names that wait for one of them.
const QUEUE: usize = 1024;

/// Has a thread look up a name: the system's call waits.
fn resolve(job: Job) -> io::Result<()> {
    static JOBS: OnceLock<Option<mpsc::SyncSender<Job>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (sender, receiver) = mpsc::sync_channel::<Job>(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut started = 0;
        for _ in 0..RESOLVERS {
            let receiver = Arc::clone(&receiver);
            let work = move || {
                loop {
                    let next = receiver
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .recv();
                    match next {
                        Ok(job) => job(),
                        Err(_) => return,
                    }
                }
            };
            let builder = std::thread::Builder::new().name("everwarp-names".to_owned());
            started += usize::from(builder.spawn(work).is_ok());
        }
        (started > 0).then_some(sender)
    });
    let busy = || io::Error::from(io::ErrorKind::OutOfMemory);
    let jobs = jobs.as_ref().ok_or_else(busy)?;
    jobs.try_send(job).map_err(|_| busy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(connect: &[&str], bind: &[&str]) -> Network {
        let rules = |texts: &[&str]| {
            let rule = |text: &&str| text.parse().expect("a rule");
            texts.iter().map(rule).collect()
        };
        Network::new(rules(connect), rules(bind))
    }

    fn wait(lookup: &Lookup) -> io::Result<Vec<IpAddr>> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let limit = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let mut watched = [PollFd::new(lookup.ready().socket().as_ref(), PollFlags::IN)];
        assert_eq!(poll(&mut watched, Some(&limit)).expect("it is open"), 1);
        lookup.addresses()
    }

    #[test]
    fn a_name_allows_its_addresses_once_they_were_found() {
        // The name of this machine is known without a server of names.
        let network = Arc::new(network(&["localhost:80"], &[]));
        let found = wait(&network.look_up("localhost").expect("allowed")).expect("it is known");
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback));
        let named = Network {
            connect: vec!["some.name:80".parse().expect("a rule")],
            ..Network::default()
        };
        let address: SocketAddr = "192.0.2.7:80".parse().expect("an address");
        assert!(NotGranted::is(
            &named.check_peer(address).expect_err("not found yet")
        ));
        named.remember(&[address.ip()], &[0]);
        named.check_peer(address).expect("it was found");
        let other = SocketAddr::new(address.ip(), 81);
        assert!(NotGranted::is(
            &named.check_peer(other).expect_err("another port")
        ));
    }

    #[test]
    fn memory_for_found_addresses_is_bounded() {
        let network = network(&["*.name:80"], &[]);
        for number in 0..2 * FOUND_MOST as u32 {
            network.remember(&[IpAddr::V4(number.into())], &[0]);
        }
        assert_eq!(network.found.lock().expect("no panic").len(), FOUND_MOST);
    }

    #[test]
    fn a_refusal_names_the_flag_once() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        let network = network(&["1"], &[])
            .reporting(move |sentence| to.lock().expect("no panic").push(sentence.to_owned()));
        let network = Arc::new(network);
        for _ in 0..2 {
            let peer = "192.0.2.7:80".parse().expect("an address");
            assert!(NotGranted::is(
                &network.check_peer(peer).expect_err("refused")
            ));
            let local = "[::]:53".parse().expect("an address");
            assert!(NotGranted::is(
                &network.check_local(local).expect_err("refused")
            ));
            assert!(NotGranted::is(
                &network.look_up("x.name").expect_err("refused")
            ));
        }
        assert_eq!(
            *said.lock().expect("no panic"),
            [
                "a process may not connect to 192.0.2.7:80: --connect 192.0.2.7:80 would allow it",
                "a process may not bind [::]:53: --bind [::]:53 would allow it",
                "a process may not look up x.name: --connect x.name:PORTS would allow it",
            ]
        );
    }

    #[test]
    fn an_address_is_its_own_name_and_a_wrong_name_is_refused() {
        let network = Arc::new(network(&["*:1"], &[]));
        let found = network.look_up("::1").expect("an address").addresses();
        assert_eq!(
            found.expect("at once"),
            ["::1".parse::<IpAddr>().expect("it")]
        );
        for wrong in ["", "a\0b", &"x".repeat(300)] {
            let error = network.look_up(wrong).expect_err("no name");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        let unknown = wait(&network.look_up("no-such-host.invalid").expect("a name"));
        assert_eq!(
            unknown.expect_err("unknown").kind(),
            io::ErrorKind::NotFound
        );
    }
}
