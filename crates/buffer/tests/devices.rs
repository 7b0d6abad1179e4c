//! Buffers of real devices: what the host writes is there, what the device has comes back, and both are counted. Those of
//! a GPU or an adapter are reported as ignored where there is none.

use everwarp_buffer::{BufferError, Buffers, Strategy};
use everwarp_runtime::{Device, Engine, EngineKind, Select, TaskCx, program};
use everwarp_testkit::Needed;
use libtest_mimic::{Arguments, Failed, Trial};

program! { static NOTHING: nothing(), "nothing.cu"; wgsl "nothing.wgsl" { NOTHING_DONE: lane(done) } }

fn done(_: &mut dyn TaskCx) {}

fn engine(device: &Device) -> Result<Engine, Failed> {
    Ok(device.engine().program(&NOTHING).start()?)
}

/// The device's copy is another buffer of the engine here: what a range has there is read back through it.
fn ranges_go_there_and_back(select: Select, strategy: Strategy) -> Result<(), Failed> {
    let device = Device::open(select)?;
    let engine = engine(&device)?;
    let buffers = Buffers::on(&device, &engine);
    let mut buffer = buffers.from_slice(&(0..100_000_u32).collect::<Vec<_>>(), strategy)?;
    drop(buffer.device()?);
    assert_eq!(buffer.transfers().to_device.bytes, 400_000);
    buffer.host_rows_mut(5..10)?.fill(7);
    // On the device all counts as changed from here on, so the host's copy comes from there.
    drop(buffer.device_mut()?);
    assert_eq!(buffer.transfers().to_device.bytes, 400_020);
    let back = buffer.read()?;
    let expected: Vec<_> = (0..100_000)
        .map(|n| if (5..10).contains(&n) { 7 } else { n })
        .collect();
    assert!(back == expected, "the device has other values");
    assert_eq!(buffer.transfers().to_host.bytes, 400_000);
    let lent = buffer.lend_mut(0..10)?;
    assert!(matches!(buffer.host_mut(), Err(BufferError::InUse(_))));
    drop(lent);
    buffer.host_mut()?[0] = 1;
    Ok(())
}

fn mapped_is_refused(select: Select) -> Result<(), Failed> {
    let device = Device::open(select)?;
    let engine = engine(&device)?;
    let refused = Buffers::on(&device, &engine).zeros::<f32>(&[8], Strategy::Mapped);
    match refused {
        Err(BufferError::NoStrategy { engine, .. }) => assert_ne!(engine, EngineKind::Cpu),
        other => return Err(format!("{other:?}").into()),
    }
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (name, select) in [
        ("cpu", Select::Cpu),
        ("cuda", Select::Cuda),
        ("wgpu", Select::Wgpu),
    ] {
        let needed = Needed::look(&format!("the engine {name}"), &Device::open(select));
        for strategy in [Strategy::Private, Strategy::Pinned] {
            let run = move || ranges_go_there_and_back(select, strategy);
            trials.push(needed.trial(Trial::test(format!("{strategy}_on_{name}"), run)));
        }
        if select != Select::Cpu {
            let run = move || mapped_is_refused(select);
            trials.push(needed.trial(Trial::test(format!("mapped_is_refused_on_{name}"), run)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
