//! Spans of the host's program, from the crate `tracing`, in the trace of the engines.

use everwarp::{Device, Select, TaskCx, program, telemetry};
use tracing_subscriber::prelude::*;

use crate::perfetto::{Slice, read};

program! {
    static SQUARES: squares() { SQUARE: lane(square) }
}

fn square(task: &mut dyn TaskCx) {
    task.report_add(task.arg() * task.arg());
}

fn sum_of_squares() -> Result<u64, everwarp::Error> {
    let engine = Device::open(Select::Cpu)?
        .engine()
        .program(&SQUARES)
        .size(1)
        .start()?;
    let squares = engine.plain_instance(&SQUARES)?;
    let tasks: Vec<_> = (1..=100)
        .map(|n| squares.task(SQUARE).arg(n).build())
        .collect();
    let span = tracing::info_span!("wait for squares", tasks = tasks.len());
    let report = span.in_scope(|| engine.submit_batch(&tasks)?.wait())?;
    tracing::info!("they are there");
    Ok(report.value)
}

fn traced() -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    telemetry::start_trace(telemetry::DEFAULT_LIMIT)?;
    let subscriber = tracing_subscriber::registry().with(telemetry::TracingLayer::default());
    tracing::subscriber::with_default(subscriber, || {
        let _all = tracing::info_span!("request").entered();
        sum_of_squares()
    })?;
    let mut file = Vec::new();
    telemetry::write_trace(&mut file)?;
    Ok(file)
}

#[test]
fn spans_of_the_host_are_on_the_clock_of_the_engine() {
    let trace = read(&traced().expect("it is traced"));
    assert!(!trace.lossy);
    let named = |name: &str| -> Vec<&Slice> {
        let slices = trace.slices.iter();
        slices.filter(|slice| slice.name == name).collect()
    };
    let (request, wait) = (named("request"), named("wait for squares"));
    let ([request], [wait]) = (&request[..], &wait[..]) else {
        panic!("{request:?} {wait:?}");
    };
    assert_eq!(wait.within, ["request"]);
    assert!(request.within.is_empty() && request.begin <= wait.begin && wait.end <= request.end);
    // The tasks ran on another thread, while this one was in the span.
    let tasks = named("squares/square");
    assert_eq!(tasks.len(), 100);
    for task in tasks {
        assert!(
            wait.begin <= task.begin && task.end <= wait.end,
            "{task:?} {wait:?}"
        );
        assert!(task.within.is_empty(), "{task:?}");
    }
    let event = trace
        .slices
        .iter()
        .find(|s| s.name.contains("tests/watch/spans.rs"));
    let event = event.expect("the event is there");
    assert!(event.begin == event.end && event.begin >= wait.end && event.within == ["request"]);
}
