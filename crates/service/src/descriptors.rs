//! How many descriptors the service may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::log::{Level, log};

/// More than any service needs, where the system sets no limit.
const ENOUGH: u64 = 1 << 20;

/// Lets this program have as many descriptors as the system allows it: each client has about ten, and the usual limit is
/// 1,024. Its children inherit that.
pub(crate) fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(ENOUGH);
    if limit.current.is_none_or(|current| current >= most) {
        return;
    }
    let raised = Rlimit {
        current: Some(most),
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        log(
            Level::Warn,
            &format!("the limit of descriptors stays: {error}"),
        );
    }
}
