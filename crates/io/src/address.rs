//! Addresses that listeners listen on, as a user writes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Where a listener listens: a port, or an address and a port.
///
/// A bare port means loopback, so that nothing is reachable from other machines unless the user says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    text: String,
    addresses: Vec<SocketAddr>,
}

/// A text that is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text has another form.
    #[error(
        "`{0}` is no address: use PORT for this machine only, or ADDRESS:PORT, as in 0.0.0.0:8080 or [::1]:8080"
    )]
    Form(String),
    /// The name before the port is not known.
    #[error("`{text}`: the name cannot be resolved: {reason}")]
    Name {
        /// The text.
        text: String,
        /// The system's reason.
        reason: String,
    },
}

impl ListenAddress {
    /// The addresses that it stands for. A name may have several; the first that is free is used.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let with = |addresses| Self {
            text: text.to_owned(),
            addresses,
        };
        let form = || AddressError::Form(text.to_owned());
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let port: u16 = text.parse().map_err(|_| form())?;
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
            return Ok(with(vec![address]));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(with(vec![address]));
        }
        let (name, port) = text.rsplit_once(':').ok_or_else(form)?;
        let port: u16 = port.parse().map_err(|_| form())?;
        if name.is_empty() || name.contains(['/', ':', '[']) {
            return Err(form());
        }
        match (name, port).to_socket_addrs() {
            Ok(addresses) => Ok(with(addresses.collect())),
            Err(error) => Err(AddressError::Name {
                text: text.to_owned(),
                reason: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_port_means_this_machine_only() {
        let address: ListenAddress = "8080".parse().expect("a port is an address");
        let expected: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
        assert_eq!(address.addresses(), [expected]);
        assert_eq!(address.to_string(), "8080");
    }

    #[test]
    fn an_address_of_either_family_is_taken_as_it_is() {
        for text in ["0.0.0.0:80", "[::1]:9", "192.0.2.1:65535"] {
            let address: ListenAddress = text.parse().expect("it is an address");
            assert_eq!(address.addresses(), [text.parse().expect("an address")]);
        }
    }

    #[test]
    fn everything_else_is_refused_with_the_form_to_use() {
        for text in [
            "",
            "65536",
            "99999999999",
            "host",
            ":80",
            "[::1",
            "a:b",
            "::1:80",
            "http://x:80",
        ] {
            let error = text.parse::<ListenAddress>().expect_err(text);
            assert_eq!(error, AddressError::Form(text.to_owned()));
            assert!(error.to_string().contains("ADDRESS:PORT"), "{error}");
        }
    }
}
