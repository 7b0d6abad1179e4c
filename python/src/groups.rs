//! Supervised groups of actors.

use std::time::Duration;

use everwarp::actor::{ActorId, GroupId, Member, Policy, Strategy, Supervision};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::actors::{ActorSystem, Held, actor_error};

/// A supervised group.
#[pyclass(frozen, module = "everwarp._native")]
pub(crate) struct ActorGroup {
    held: Held,
    group: GroupId,
}

#[pymethods]
impl ActorGroup {
    /// How often a member was restarted, how many members live, and whether the group has ended.
    fn stats(&self, py: Python<'_>) -> PyResult<(u64, usize, bool)> {
        let running = self.held.get()?;
        let stats = py.detach(|| running.system.group(self.group));
        let stats = stats.map_err(|error| actor_error(&running, &error))?;
        Ok((stats.restarts, stats.members, stats.ended))
    }
    /// Ends the group.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.held.get()?;
        let ended = py.detach(|| running.system.end_group(self.group));
        ended.map_err(|error| actor_error(&running, &error))
    }
}

/// A member, as Python names it.
#[derive(FromPyObject)]
pub(crate) enum Part<'py> {
    /// A group that was made before.
    Group(PyRef<'py, ActorGroup>),
    /// An actor with its policy.
    Actor(u64, String),
}

/// The value that a name stands for.
fn named<T: Copy>(what: &str, name: &str, all: &[(&str, T)]) -> PyResult<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|(known, _)| format!("{known:?}")).collect();
        PyValueError::new_err(format!(
            "{what} is one of {}, not {name:?}",
            known.join(", ")
        ))
    })
}

/// Supervises actors and groups.
#[pyfunction]
pub(crate) fn supervise(
    py: Python<'_>,
    system: &ActorSystem,
    members: Vec<Part<'_>>,
    strategy: &str,
    restarts: u32,
    within: f64,
) -> PyResult<ActorGroup> {
    let strategies = [
        ("one_for_one", Strategy::OneForOne),
        ("one_for_all", Strategy::OneForAll),
        ("rest_for_one", Strategy::RestForOne),
    ];
    let policies = [
        ("permanent", Policy::Permanent),
        ("transient", Policy::Transient),
        ("temporary", Policy::Temporary),
    ];
    let strategy = named("a strategy", strategy, &strategies)?;
    let within = Duration::try_from_secs_f64(within);
    let within = within.map_err(|_| {
        PyValueError::new_err("`within` is a number of seconds from 0 up, in which restarts count")
    })?;
    let member = |part: &Part<'_>| match part {
        Part::Group(group) => Ok(Member::Group(group.group)),
        Part::Actor(id, policy) => {
            let policy = named("a policy", policy, &policies)?;
            Ok(Member::Actor(ActorId::from_bits(*id), policy))
        }
    };
    let members = members.iter().map(member).collect::<PyResult<Vec<_>>>()?;
    let running = system.free(py)?;
    let supervision = Supervision::new(strategy, restarts, within);
    let group = py.detach(|| running.system.supervise(supervision, &members));
    let group = group.map_err(|error| actor_error(&running, &error))?;
    Ok(ActorGroup {
        held: Held::of(&running),
        group,
    })
}
