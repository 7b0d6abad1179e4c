//! A reader of Perfetto's traces that shares nothing with the writer but the format: it knows how fields are encoded and
//! the numbers of those that it looks for.

use std::collections::HashMap;

/// A field of a message: its number, and its value.
enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("the number ends");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number is longer than ten bytes");
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Number(u64::from_le_bytes(eight.try_into().expect("eight bytes")))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(taken)
            }
            wire => panic!("wire type {wire} is not used"),
        };
        all.push((key >> 3, value));
    }
    all
}

fn numbers(bytes: &[u8], field: u64) -> Vec<u64> {
    let all = fields(bytes).into_iter();
    all.filter_map(|(number, value)| match value {
        Value::Number(value) if number == field => Some(value),
        _ => None,
    })
    .collect()
}

fn messages(bytes: &[u8], field: u64) -> Vec<Vec<u8>> {
    let all = fields(bytes).into_iter();
    all.filter_map(|(number, value)| match value {
        Value::Bytes(value) if number == field => Some(value.to_vec()),
        _ => None,
    })
    .collect()
}

fn text(bytes: &[u8], field: u64) -> Option<String> {
    let found = messages(bytes, field).into_iter().next()?;
    Some(String::from_utf8(found).expect("it is text"))
}

/// A slice with its name, and the names of those that it lies in.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) name: String,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The number that is shown with it.
    pub(crate) number: u64,
    pub(crate) within: Vec<String>,
    /// The flows that end at it.
    pub(crate) flows: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) slices: Vec<Slice>,
    /// Tracks by name.
    pub(crate) tracks: Vec<String>,
    /// Flows: how often each begins and ends.
    pub(crate) flows: HashMap<u64, (u32, u32)>,
    /// By flow: the names of the slices in which it begins, the outermost first.
    pub(crate) senders: HashMap<u64, Vec<String>>,
    pub(crate) instants: Vec<String>,
    /// Whether a track says that events were lost.
    pub(crate) lossy: bool,
}

/// Reads a trace, and checks what every trace must fulfil: slices begin before they end and nest, each event has a name
/// and a track, and no flow ends before it begins.
pub(crate) fn read(bytes: &[u8]) -> Trace {
    let mut trace = Trace::default();
    let mut names = HashMap::<(u64, u64), String>::new();
    let mut open = HashMap::<u64, Vec<Slice>>::new();
    let mut last = HashMap::<u64, u64>::new();
    let mut flow_times = HashMap::<u64, (Vec<u64>, Vec<u64>)>::new();
    let mut known = Vec::new();
    for packet in messages(bytes, 1) {
        for descriptor in messages(&packet, 60) {
            known.push(numbers(&descriptor, 1)[0]);
            trace.tracks.extend(text(&descriptor, 2));
        }
        let sequence = numbers(&packet, 10).first().copied().unwrap_or(0);
        for interned in messages(&packet, 12) {
            for name in messages(&interned, 2) {
                let name_text = text(&name, 2).expect("a name");
                names.insert((sequence, numbers(&name, 1)[0]), name_text);
            }
        }
        trace.lossy |= numbers(&packet, 42).contains(&1);
        let Some(event) = messages(&packet, 11).into_iter().next() else {
            continue;
        };
        let at = numbers(&packet, 8)[0];
        let track = numbers(&event, 11)[0];
        assert!(known.contains(&track), "track {track} was not described");
        let before = last.insert(track, at).unwrap_or(0);
        assert!(before <= at, "time goes back on track {track}");
        let interned = numbers(&event, 10)
            .first()
            .map(|iid| names[&(sequence, *iid)].clone());
        let name = interned.or_else(|| text(&event, 23));
        let stack = open.entry(track).or_default();
        let within: Vec<_> = stack.iter().map(|slice| slice.name.clone()).collect();
        for flow in numbers(&event, 47) {
            flow_times.entry(flow).or_default().0.push(at);
            trace.senders.insert(flow, within.clone());
        }
        let flows = numbers(&event, 48);
        for flow in &flows {
            flow_times.entry(*flow).or_default().1.push(at);
        }
        match numbers(&event, 9)[0] {
            1 => {
                let shown = messages(&event, 4).into_iter().next();
                let number = shown.and_then(|shown| numbers(&shown, 3).first().copied());
                stack.push(Slice {
                    name: name.expect("a slice has a name"),
                    begin: at,
                    end: 0,
                    number: number.unwrap_or(0),
                    within,
                    flows,
                });
            }
            2 => {
                let slice = stack.pop().expect("only open slices end");
                trace.slices.push(Slice { end: at, ..slice });
            }
            3 => trace.instants.push(name.expect("an instant has a name")),
            kind => panic!("kind {kind} of event is not used"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    for (flow, (begins, ends)) in flow_times {
        let first = begins.iter().min();
        assert!(
            ends.iter()
                .all(|end| first.is_some_and(|first| first <= end)),
            "flow {flow} ends before it begins"
        );
        trace
            .flows
            .insert(flow, (begins.len() as u32, ends.len() as u32));
    }
    trace
}
