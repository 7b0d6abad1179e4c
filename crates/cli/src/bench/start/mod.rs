//! S: whole commands, from the shell's start of one to its end, with a service and without one.

mod clients;
mod documents;
mod idle;
mod job;
mod service;
mod spans;
mod whole;

use super::experiment::{Experiment, On, Part};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "S",
    title: "whole commands, with a service and without one",
    about: "The command is started again and again, as a shell starts it. `whole` is the time from its start to its end on \
            the clock of the program that started it; the other rows of `commands` are the spans that the command writes \
            about itself (`EVERWARP_TRACE`), which nest and overlap, and what comes before the first of them and after the \
            last; where the case names the service, its processes run there. `driver` is a command that only opens the \
            device: it starts the driver, makes a context and ends. The other parts start a service of their own. `service` \
            is the whole command with its processes in the service; its rivals are the same command with `--alone`, and \
            the CPU engine of the same service. `inside` is the time that the command reports. Each output is compared, \
            whatever the order of its lines. `idle` is the time of all cores that a service without clients takes in a \
            second.",
    parts: &[
        Part::many("commands", On::Both, spans::commands),
        Part::many("open", On::Both, |_| Ok(())),
        Part::many("hello", On::Both, whole::hello),
        Part::many("documents", On::Both, whole::documents),
        Part::many("hashes", On::Both, whole::hashes),
        Part::many("clients", On::Both, clients::clients),
        Part::many("idle", On::Both, idle::idle),
    ],
};
