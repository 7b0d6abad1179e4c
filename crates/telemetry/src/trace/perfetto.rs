//! The part of Perfetto's trace format that a trace needs, and the way from rings to it.
//!
//! Fields and numbers are those of Perfetto's `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto` and
//! `interned_data.proto`.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use prost::Message;

use super::names::{NameId, Names};
use super::ring::{Event, EventKind, Ring};
use crate::clock;

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const INCREMENTAL_STATE_CLEARED: u32 = 1;
const NEEDS_INCREMENTAL_STATE: u32 = 2;
/// Perfetto's number for the time since the machine was started. This program's clock takes its place: only differences
/// count.
const CLOCK_BOOTTIME: u32 = 6;
const PROCESS_TRACK: u64 = 1 << 32;

#[derive(Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(bool, optional, tag = "42")]
    previous_packet_dropped: Option<bool>,
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    category_iids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

#[derive(Message)]
struct InternedData {
    #[prost(message, repeated, tag = "1")]
    event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<InternedName>,
}

#[derive(Message)]
struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

#[derive(Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Events in the file.
    pub events: u64,
    /// Events that are not: they were overwritten by newer ones, or their thread had no ring.
    pub lost: u64,
    /// Flows with both of their ends in the file.
    pub flows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A sink that counts.
struct Sink<'w> {
    to: &'w mut dyn Write,
    bytes: u64,
}

impl Sink<'_> {
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let packets = Packets {
            packet: vec![packet],
        };
        let bytes = packets.encode_to_vec();
        self.bytes += bytes.len() as u64;
        self.to.write_all(&bytes)
    }
}

fn event_packet(ring: u32, at: u64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(at),
        trusted_packet_sequence_id: Some(ring),
        timestamp_clock_id: Some(CLOCK_BOOTTIME),
        sequence_flags: Some(NEEDS_INCREMENTAL_STATE),
        track_event: Some(TrackEvent {
            track_uuid: Some(track(ring)),
            ..event
        }),
        ..TracePacket::default()
    }
}

fn track(ring: u32) -> u64 {
    PROCESS_TRACK + u64::from(ring)
}

fn descriptor(uuid: u64, name: &str, process: Option<ProcessDescriptor>) -> TracePacket {
    let parent_uuid = process.is_none().then_some(PROCESS_TRACK);
    let descriptor = TrackDescriptor {
        uuid: Some(uuid),
        name: Some(name.to_owned()),
        process,
        parent_uuid,
    };
    TracePacket {
        track_descriptor: Some(descriptor),
        ..TracePacket::default()
    }
}

/// The categories, and the names that these events have: there may be many tracks with few names each.
fn interned(names: &Names, events: &[Event]) -> InternedData {
    let used: HashSet<NameId> = events.iter().map(|event| event.name).collect();
    let name = |iid: u64, name: &str| InternedName {
        iid: Some(iid),
        name: Some(name.to_owned()),
    };
    let mut categories: Vec<&str> = names.iter().map(|(_, category, _)| category).collect();
    categories.sort_unstable();
    categories.dedup();
    InternedData {
        event_categories: (1..).zip(categories).map(|(iid, c)| name(iid, c)).collect(),
        event_names: names
            .iter()
            .filter(|(id, ..)| used.contains(id))
            .map(|(id, _, n)| name(id.0.into(), n))
            .collect(),
    }
}

/// The flows of all rings, from the event that begins one to the event that ends it.
#[derive(Default)]
struct Flows {
    /// By ring and index of the event: the flow that begins there.
    begins: HashMap<(usize, usize), u64>,
    /// The same for the flow that ends there.
    ends: HashMap<(usize, usize), u64>,
}

fn flows(rings: &[Vec<Event>]) -> Flows {
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (ring, events) in rings.iter().enumerate() {
        for (at, event) in events.iter().enumerate() {
            let linked = event.kind != EventKind::Slice || event.link != 0;
            order.extend(linked.then_some((event.begin, ring, at)));
        }
    }
    // What begins a flow comes before what ends it, also where the clock cannot tell.
    let ends_flow = |ring: usize, at: usize| {
        matches!(
            rings[ring][at].kind,
            EventKind::Slice | EventKind::HandleCell
        )
    };
    order.sort_by_key(|&(time, ring, at)| (time, ends_flow(ring, at)));
    let mut open = HashMap::<(bool, u64), (usize, usize)>::new();
    let mut flows = Flows::default();
    let mut number = 0;
    for (_, ring, at) in order {
        let event = &rings[ring][at];
        let in_cell = matches!(event.kind, EventKind::SendCell | EventKind::HandleCell);
        let key = (in_cell, event.link);
        if !ends_flow(ring, at) {
            open.insert(key, (ring, at));
        } else if let Some(begin) = open.remove(&key) {
            number += 1;
            flows.begins.insert(begin, number);
            flows.ends.insert((ring, at), number);
        }
    }
    flows
}

/// Writes the events of rings.
pub(super) fn write(
    rings: &[Arc<Ring>],
    names: &Names,
    mut lost: u64,
    to: &mut dyn Write,
) -> io::Result<TraceSummary> {
    let mut sink = Sink { to, bytes: 0 };
    let pid = std::process::id();
    let process = ProcessDescriptor {
        pid: Some(pid as i32),
        process_name: Some("everwarp".to_owned()),
    };
    sink.packet(descriptor(PROCESS_TRACK, "everwarp", Some(process)))?;
    let (mut contents, mut losses) = (Vec::new(), Vec::new());
    for ring in rings {
        let mut content = ring.read();
        // A slice that contains others is recorded after them.
        content
            .events
            .sort_by_key(|e| (e.begin, std::cmp::Reverse(e.end)));
        lost += content.lost;
        losses.push(content.lost);
        contents.push(content.events);
    }
    let flows = flows(&contents);
    let mut categories: Vec<&str> = names.iter().map(|(_, category, _)| category).collect();
    categories.sort_unstable();
    categories.dedup();
    let category_of: HashMap<u32, u64> = names
        .iter()
        .filter_map(|(id, category, _)| {
            Some((id.0, categories.binary_search(&category).ok()? as u64 + 1))
        })
        .collect();
    let mut written = 0;
    for (number, (ring, events)) in rings.iter().zip(&contents).enumerate() {
        let own = ring.number;
        sink.packet(descriptor(track(own), &ring.thread, None))?;
        let first = events.first().map_or_else(clock::now, |event| event.begin);
        let mut state = event_packet(
            own,
            first,
            TrackEvent {
                r#type: Some(INSTANT),
                ..TrackEvent::default()
            },
        );
        state.interned_data = Some(interned(names, events));
        state.sequence_flags = Some(INCREMENTAL_STATE_CLEARED);
        state.previous_packet_dropped = (losses[number] > 0).then_some(true);
        if let Some(event) = &mut state.track_event {
            event.categories = vec!["trace".to_owned()];
            event.name = Some(match losses[number] {
                0 => "the trace of this thread begins".to_owned(),
                lost => format!("{lost} earlier events were lost: raise the limit of the trace"),
            });
        }
        sink.packet(state)?;
        let mut open: Vec<u64> = Vec::new();
        let end = |at: u64| {
            let event = TrackEvent {
                r#type: Some(SLICE_END),
                ..TrackEvent::default()
            };
            event_packet(own, at, event)
        };
        for (index, event) in events.iter().enumerate() {
            while open.last().is_some_and(|last| *last <= event.begin) {
                sink.packet(end(open.pop().unwrap_or(event.begin)))?;
            }
            let place = (number, index);
            let is_slice = matches!(event.kind, EventKind::Slice | EventKind::HandleCell);
            if !is_slice && !flows.begins.contains_key(&place) {
                // Its other end was lost, or never came.
                continue;
            }
            written += 1;
            let annotation = DebugAnnotation {
                name: Some("number".to_owned()),
                uint_value: Some(event.argument.into()),
            };
            let mut track_event = TrackEvent {
                r#type: Some(if is_slice { SLICE_BEGIN } else { INSTANT }),
                name_iid: (event.name.0 != 0).then_some(event.name.0.into()),
                name: (event.name.0 == 0).then(|| "send".to_owned()),
                category_iids: category_of
                    .get(&event.name.0)
                    .copied()
                    .into_iter()
                    .collect(),
                flow_ids: flows.begins.get(&place).copied().into_iter().collect(),
                terminating_flow_ids: flows.ends.get(&place).copied().into_iter().collect(),
                ..TrackEvent::default()
            };
            if event.argument != 0 {
                track_event.debug_annotations.push(annotation);
            }
            sink.packet(event_packet(own, event.begin, track_event))?;
            if is_slice {
                // A slice ends no later than the one that contains it.
                let within = open.last().copied().unwrap_or(u64::MAX);
                open.push(event.end.min(within).max(event.begin));
            }
        }
        while let Some(at) = open.pop() {
            sink.packet(end(at))?;
        }
    }
    sink.to.flush()?;
    Ok(TraceSummary {
        events: written,
        lost,
        flows: flows.ends.len() as u64,
        bytes: sink.bytes,
    })
}
