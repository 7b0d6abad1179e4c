//! How many files the processes of this host may have open together.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this program's limit of open files to what the system grants it, and says what it is.
pub fn descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let granted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let now = match setrlimit(Resource::Nofile, granted) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    now.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_system_grants() {
        let granted = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(descriptor_limit(), granted);
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(now, granted);
    }
}
