//! Rules that say which addresses processes may use, as a user writes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A rule that grants addresses: hosts and their ports.
///
/// | text | hosts |
/// |---|---|
/// | `8080` | this machine, by its loopback addresses |
/// | `192.0.2.1:80`, `[2001:db8::1]:80` | one address |
/// | `10.0.0.0/8:80`, `[2001:db8::/32]:80` | the addresses of a network |
/// | `example.com:80` | the addresses that the system finds for a name |
/// | `*.example.com:80` | the same for all names beneath it |
/// | `*:80` | every address and every name |
///
/// After the last colon come the ports: one, a range (`8000-8100`), several of both with commas in between, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRule {
    text: String,
    hosts: Hosts,
    ports: Vec<RangeInclusive<u16>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    Loopback,
    Network {
        address: IpAddr,
        bits: u32,
    },
    Name(String),
    /// The names that end with this text, which begins with a dot.
    Beneath(String),
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no rule for addresses: use PORTS for this machine, or HOST:PORTS, as in 192.0.2.1:80, 10.0.0.0/8:8000-8100, [::1]:80, example.com:443 or *:53"
)]
pub struct RuleError(String);

/// The address as rules see it: an IPv4 address in an IPv6 one is itself.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The bits of an address, from the highest on, and how many there are.
fn bits_of(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl AddressRule {
    fn has_port(&self, port: u16) -> bool {
        self.ports.iter().any(|ports| ports.contains(&port))
    }

    /// Whether a process may connect to an address. Addresses of names are the caller's to look up.
    pub fn allows_peer(&self, address: SocketAddr) -> bool {
        let mut address = canonical(address);
        // The system connects to this machine instead.
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        self.has_port(address.port())
            && match &self.hosts {
                Hosts::Any => true,
                Hosts::Loopback => address.ip().is_loopback(),
                Hosts::Network { address: of, bits } => holds(*of, *bits, address.ip()),
                Hosts::Name(_) | Hosts::Beneath(_) => false,
            }
    }

    /// Whether a process may bind an address of this machine. The address that stands for all of its family allows each.
    pub fn allows_local(&self, address: SocketAddr) -> bool {
        let address = canonical(address);
        self.has_port(address.port())
            && match &self.hosts {
                Hosts::Any => true,
                Hosts::Loopback => address.ip().is_loopback(),
                Hosts::Network { address: of, .. } if of.is_unspecified() => {
                    of.is_ipv4() == address.is_ipv4()
                }
                Hosts::Network { address: of, bits } => holds(*of, *bits, address.ip()),
                Hosts::Name(_) | Hosts::Beneath(_) => false,
            }
    }

    /// Whether a process may look up a name.
    pub fn allows_name(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Loopback => name == LOCALHOST,
            Hosts::Network { .. } => false,
            Hosts::Name(of) => name == *of,
            Hosts::Beneath(end) => name.ends_with(end.as_str()),
        }
    }

    /// Whether a process may connect to this port of the addresses of a name that the rule allows.
    pub(crate) fn allows_port_of_names(&self, port: u16) -> bool {
        matches!(self.hosts, Hosts::Name(_) | Hosts::Beneath(_)) && self.has_port(port)
    }

    /// Whether the rule is for names, which cannot be bound.
    pub fn is_for_names(&self) -> bool {
        matches!(self.hosts, Hosts::Name(_) | Hosts::Beneath(_))
    }
}

const LOCALHOST: &str = "localhost";

/// Whether a network holds an address.
fn holds(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    let ((network, all), (address, others)) = (bits_of(network), bits_of(address));
    all == others && (bits == 0 || (network ^ address) >> (128 - bits) == 0)
}

impl fmt::Display for AddressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// A number in digits alone: the library would read a sign as part of it.
fn number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Ports: numbers and ranges with commas in between, or `*`.
fn ports(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let range = |text: &str| {
        let (from, to) = match text.split_once('-') {
            Some((from, to)) => (number(from)?, number(to)?),
            None => (number(text)?, number(text)?),
        };
        (from <= to).then_some(from..=to)
    };
    match text {
        "*" => Some(vec![0..=u16::MAX]),
        text => text.split(',').map(range).collect(),
    }
}

/// An address, or a network with its number of bits.
fn network(text: &str) -> Option<Hosts> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let (_, all) = bits_of(address);
    let bits = match bits {
        None => all,
        Some(bits) => number(bits).map(u32::from).filter(|bits| *bits <= all)?,
    };
    Some(Hosts::Network { address, bits })
}

fn is_name(text: &str) -> bool {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !part.is_empty() && part.len() < 64 && part.bytes().all(plain)
    };
    // A name that ends in a number would be an address in an old form.
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() < 254 && text.split('.').all(part) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

fn hosts(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::Any);
    }
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner
            .strip_suffix(']')
            .filter(|inner| inner.contains(':'))?;
        return network(inner);
    }
    if text.contains(':') {
        return None;
    }
    if let Some(network) = network(text) {
        return Some(network);
    }
    let name = text.to_ascii_lowercase();
    match name.strip_prefix('*') {
        Some(end) => {
            let beneath = end.strip_prefix('.')?;
            is_name(beneath).then(|| Hosts::Beneath(end.to_owned()))
        }
        None if name == LOCALHOST => Some(Hosts::Loopback),
        None => is_name(&name).then_some(Hosts::Name(name)),
    }
}

impl FromStr for AddressRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let parsed = match text.rsplit_once(':') {
            None => ports(text)
                .filter(|_| text != "*")
                .map(|ports| (Hosts::Loopback, ports)),
            Some((host, of_host)) => hosts(host).zip(ports(of_host)),
        };
        let (hosts, ports) = parsed.ok_or_else(|| RuleError(text.to_owned()))?;
        Ok(Self {
            text: text.to_owned(),
            hosts,
            ports,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> AddressRule {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn peers(text: &str, addresses: &[&str]) -> Vec<bool> {
        let rule = rule(text);
        let allows = |address: &&str| rule.allows_peer(address.parse().expect("an address"));
        addresses.iter().map(allows).collect()
    }

    #[test]
    fn ports_alone_are_those_of_this_machine() {
        let addresses = [
            "127.0.0.1:80",
            "127.9.9.9:80",
            "[::1]:80",
            "10.0.0.1:80",
            "127.0.0.1:81",
        ];
        assert_eq!(peers("80", &addresses), [true, true, true, false, false]);
        assert_eq!(
            peers("localhost:80", &addresses),
            [true, true, true, false, false]
        );
        assert!(rule("80").allows_name("LocalHost.") && !rule("80").allows_name("localhosts"));
    }

    #[test]
    fn ranges_and_lists_of_ports_hold_what_they_say() {
        let addresses = [
            "127.0.0.1:7",
            "127.0.0.1:10",
            "127.0.0.1:20",
            "127.0.0.1:21",
        ];
        assert_eq!(peers("7,10-20", &addresses), [true, true, true, false]);
        assert_eq!(peers("*:*", &addresses), [true; 4]);
    }

    #[test]
    fn networks_hold_their_addresses_in_either_form() {
        let addresses = [
            "10.1.2.3:5",
            "[::ffff:10.1.2.3]:5",
            "11.0.0.0:5",
            "[2001:db8::1]:5",
        ];
        assert_eq!(
            peers("10.0.0.0/8:5", &addresses),
            [true, true, false, false]
        );
        assert_eq!(
            peers("[2001:db8::/32]:5", &addresses),
            [false, false, false, true]
        );
        assert_eq!(peers("0.0.0.0/0:5", &addresses), [true, true, true, false]);
        assert_eq!(peers("10.1.2.3:5", &addresses), [true, true, false, false]);
    }

    #[test]
    fn the_unspecified_peer_is_this_machine() {
        let addresses = ["0.0.0.0:5", "[::]:5", "[::ffff:0.0.0.0]:5"];
        assert_eq!(peers("10.0.0.0/8:5", &addresses), [false; 3]);
        assert_eq!(peers("5", &addresses), [true; 3]);
    }

    #[test]
    fn names_are_compared_without_case_and_whole() {
        let one = rule("Example.com:443");
        assert!(one.allows_name("example.COM.") && one.allows_port_of_names(443));
        assert!(!one.allows_name("www.example.com") && !one.allows_name("notexample.com"));
        let beneath = rule("*.example.com:443");
        assert!(beneath.allows_name("a.b.example.com"));
        assert!(!beneath.allows_name("example.com") && !beneath.allows_name("badexample.com"));
        assert!(rule("*:53").allows_name("any.where"));
        assert!(!rule("10.0.0.1:53").allows_name("any.where"));
    }

    #[test]
    fn local_addresses_are_bound_as_the_rule_says() {
        let local = |text: &str, address: &str| {
            rule(text).allows_local(address.parse().expect("an address"))
        };
        assert!(local("0", "127.0.0.1:0") && local("0", "[::1]:0") && !local("0", "0.0.0.0:0"));
        assert!(local("0.0.0.0:80", "0.0.0.0:80") && local("0.0.0.0:80", "127.0.0.1:80"));
        assert!(!local("0.0.0.0:80", "[::]:80") && !local("0.0.0.0:80", "0.0.0.0:81"));
        assert!(local("*:80", "[::]:80") && !local("127.0.0.1:80", "0.0.0.0:80"));
    }

    #[test]
    fn everything_else_is_refused_with_the_forms_to_use() {
        for text in [
            "",
            "*",
            ":80",
            "80:",
            "host",
            "host:",
            "host:x",
            "host:1-",
            "host:5-4",
            "host:65536",
            "host:+1",
            "::1:80",
            "[::1]",
            "[127.0.0.1]:80",
            "10.0.0.0/33:80",
            "[::/129]:80",
            "a..b:80",
            "*a.b:80",
            "1.2.3:80",
            "http://x:80",
            "a b:80",
            "x:80,",
            "10.0.0.1/:80",
            "10.0.0.0/+8:80",
        ] {
            let error = text.parse::<AddressRule>().expect_err(text);
            assert!(error.to_string().contains("HOST:PORTS"), "{error}");
        }
    }
}
