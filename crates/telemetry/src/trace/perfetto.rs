//! The part of Perfetto's trace format that a trace needs, and the way from rings to it.
//!
//! Fields and numbers are those of Perfetto's `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto` and
//! `interned_data.proto`.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use prost::Message;

use super::names::{NameId, Names};
use super::ring::{Event, EventKind, Ring, RingContent};
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

/// The flows of all rings, from the event that begins one to the slice at which it ends.
#[derive(Default)]
struct Flows {
    /// By ring and index of the event: the flow that begins there.
    begins: HashMap<(usize, usize), u64>,
    /// The same for the flows that end there.
    ends: HashMap<(usize, usize), Vec<u64>>,
    count: u64,
}

/// One end of a flow.
struct FlowEnd {
    time: u64,
    /// What both ends have in common. A cell has one message after the other.
    key: (bool, u64),
    /// Whether the flow begins here.
    begins: bool,
    /// The event, or the slice where the flow ends.
    place: (usize, usize),
}

/// The ends of the flows of a ring. Messages of actors that were sent or taken by `since` are left out.
fn flow_ends(ring: usize, events: &[Event], since: u64) -> impl Iterator<Item = FlowEnd> + '_ {
    let mut handler = None;
    let end = move |(at, event): (usize, &Event)| {
        let (in_cell, begins) = match event.kind {
            EventKind::Slice => (false, false),
            EventKind::Send => (false, true),
            EventKind::SendCell => (true, true),
            EventKind::HandleCell | EventKind::TakeCell => (true, false),
        };
        if event.kind == EventKind::HandleCell {
            handler = Some(at);
        }
        let place = match event.kind {
            EventKind::TakeCell => handler?,
            _ => at,
        };
        let linked = event.link != 0 && !(in_cell && event.begin <= since);
        linked.then_some(FlowEnd {
            time: event.begin,
            key: (in_cell, event.link),
            begins,
            place: (ring, place),
        })
    };
    events.iter().enumerate().filter_map(end)
}

/// Finds the two ends of each flow. A message that was taken from a cell is the one that was sent there last, if nothing is missing: so
/// messages have flows from the time on from which all rings are complete.
fn flows(rings: &[RingContent]) -> Flows {
    let lossy = rings.iter().map(|ring| ring.losses);
    let lossy = lossy.filter(|losses| losses.count > 0);
    let since = lossy.map(|losses| losses.until).max().unwrap_or(0);
    let all = rings.iter().enumerate();
    let all = all.flat_map(|(ring, content)| flow_ends(ring, &content.events, since));
    let mut order: Vec<FlowEnd> = all.collect();
    order.sort_by_key(|end| (end.time, end.key, !end.begins));
    let mut open = HashMap::<(bool, u64), (usize, usize)>::new();
    let mut flows = Flows::default();
    // Where the clock cannot tell, a cell's message is taken before the next one is sent there.
    for together in order.chunk_by(|one, next| (one.time, one.key) == (next.time, next.key)) {
        let (begins, ends) = together.split_at(together.partition_point(|end| end.begins));
        let (mut begins, mut ends) = (begins.iter(), ends.iter());
        let key = together[0].key;
        loop {
            let next = match open.contains_key(&key) {
                true => ends.next().or_else(|| begins.next()),
                false => begins.next().or_else(|| ends.next()),
            };
            let Some(FlowEnd { begins, place, .. }) = next else {
                break;
            };
            if *begins {
                open.insert(key, *place);
            } else if let Some(begin) = open.remove(&key) {
                flows.count += 1;
                flows.begins.insert(begin, flows.count);
                flows.ends.entry(*place).or_default().push(flows.count);
            }
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
    let mut contents = Vec::new();
    for ring in rings {
        let content = ring.read();
        lost += content.losses.count;
        contents.push(content);
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
    for (number, (ring, content)) in rings.iter().zip(&contents).enumerate() {
        let (own, RingContent { events, losses }) = (ring.number, content);
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
        state.previous_packet_dropped = (losses.count > 0).then_some(true);
        if let Some(event) = &mut state.track_event {
            event.categories = vec!["trace".to_owned()];
            event.name = Some(match losses.count {
                0 => "the trace of this thread begins".to_owned(),
                lost => format!("{lost} earlier events were lost: raise the limit of the trace"),
            });
        }
        sink.packet(state)?;
        // The slices that are open: when they end, and how deep they lie.
        let mut open: Vec<(u64, u32)> = Vec::new();
        let end = |at: u64| {
            let event = TrackEvent {
                r#type: Some(SLICE_END),
                ..TrackEvent::default()
            };
            event_packet(own, at, event)
        };
        for (index, event) in events.iter().enumerate() {
            if event.kind == EventKind::TakeCell {
                continue;
            }
            let depth = event.depth();
            // A handler that begins when its turn ends, as far as the clock can tell, still lies within it.
            let over =
                |&(end, of): &(u64, u32)| end < event.begin || (end == event.begin && depth <= of);
            while let Some((at, _)) = open.pop_if(|last| over(last)) {
                sink.packet(end(at))?;
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
                terminating_flow_ids: flows.ends.get(&place).cloned().unwrap_or_default(),
                ..TrackEvent::default()
            };
            if event.argument != 0 {
                track_event.debug_annotations.push(annotation);
            }
            sink.packet(event_packet(own, event.begin, track_event))?;
            if is_slice {
                // A slice ends no later than the one that contains it.
                let within = open.last().map_or(u64::MAX, |(end, _)| *end);
                open.push((event.end.min(within).max(event.begin), depth));
            }
        }
        while let Some((at, _)) = open.pop() {
            sink.packet(end(at))?;
        }
    }
    sink.to.flush()?;
    Ok(TraceSummary {
        events: written,
        lost,
        flows: flows.count,
        bytes: sink.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::super::ring::Losses;
    use super::*;

    fn sent(time: u64, cell: u64) -> Event {
        Event::send(EventKind::SendCell, time, cell)
    }
    /// A slice of handlers that takes the messages in these cells.
    fn took(time: u64, cells: &[u64]) -> Vec<Event> {
        let handler = Event::handler(NameId(1), time, time + 1, cells.len() as u32, 0);
        let takes = cells.iter();
        let takes = takes.map(|&cell| Event::send(EventKind::TakeCell, time, cell));
        [handler].into_iter().chain(takes).collect()
    }
    fn complete(events: Vec<Event>) -> RingContent {
        RingContent {
            events,
            losses: Losses::default(),
        }
    }
    /// By ring and index: where each flow begins and ends.
    fn pairs(rings: &[RingContent]) -> Vec<[(usize, usize); 2]> {
        let found = flows(rings);
        let ends = found.ends.iter();
        let by_number: HashMap<u64, (usize, usize)> = ends
            .flat_map(|(place, flows)| flows.iter().map(move |flow| (*flow, *place)))
            .collect();
        assert_eq!(by_number.len() as u64, found.count);
        let mut pairs: Vec<_> = found
            .begins
            .iter()
            .map(|(place, flow)| [*place, by_number[flow]])
            .collect();
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn flows_of_messages_end_at_the_handlers_that_took_them() {
        let senders = complete(vec![sent(1, 10), sent(2, 20), sent(3, 30)]);
        let handlers = complete([took(5, &[20, 10]), took(8, &[30])].concat());
        let expected = [[(0, 0), (1, 0)], [(0, 1), (1, 0)], [(0, 2), (1, 3)]];
        assert_eq!(pairs(&[senders, handlers]), expected);
    }

    #[test]
    fn a_cell_has_one_message_after_the_other_also_where_the_clock_cannot_tell() {
        // Sent, taken, sent again by that handler, and taken by the other warp at last.
        let one = complete([vec![sent(5, 10)], took(9, &[10])].concat());
        let other = complete([took(5, &[10]), vec![sent(5, 10)]].concat());
        let expected = [[(0, 0), (1, 0)], [(1, 2), (0, 1)]];
        assert_eq!(pairs(&[one, other]), expected);
        // The message that was sent before is taken first.
        let before = complete(vec![sent(3, 10)]);
        let then = complete([took(5, &[10]), vec![sent(5, 10)], took(7, &[10])].concat());
        let expected = [[(0, 0), (1, 0)], [(1, 2), (1, 3)]];
        assert_eq!(pairs(&[before, then]), expected);
    }

    #[test]
    fn messages_without_a_handler_have_no_flow() {
        // The first was a dead letter, and nothing was sent in cell 20.
        let sends = complete(vec![sent(1, 10), sent(4, 10)]);
        let takes = complete(took(6, &[10, 20]));
        assert_eq!(pairs(&[sends, takes]), [[(0, 1), (1, 0)]]);
    }

    #[test]
    fn messages_have_flows_from_when_on_no_ring_lacks_events() {
        // What took the first message from its cell, and who sent the second one there, may be lost.
        let sends = complete(vec![sent(1, 10), sent(8, 20)]);
        let takes = |count| RingContent {
            events: [took(7, &[10]), took(9, &[20])].concat(),
            losses: Losses { count, until: 6 },
        };
        let all = [[(0, 0), (1, 0)], [(0, 1), (1, 2)]];
        assert_eq!(pairs(&[sends, takes(0)]), all);
        let sends = complete(vec![sent(1, 10), sent(8, 20)]);
        assert_eq!(pairs(&[sends, takes(1)]), all[1..]);
    }

    #[test]
    fn tasks_have_flows_whatever_is_lost() {
        let queued = complete(vec![Event::send(EventKind::Send, 1, 7)]);
        let ran = RingContent {
            events: vec![Event::slice(NameId(1), 2, 3, 0, 7)],
            losses: Losses { count: 9, until: 2 },
        };
        assert_eq!(pairs(&[queued, ran]), [[(0, 0), (1, 0)]]);
    }
}
