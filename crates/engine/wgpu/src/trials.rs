//! Settings for those who work on the engine: they make what happens rarely happen now, and make the driver check more.
//!
//! | variable | effect |
//! |---|---|
//! | `EVERWARP_WGPU_STRESS=SEED` | a random half of the workgroups leaves each dispatch after 0 to 3 turns |
//! | `EVERWARP_WGPU_LOSE=N` | the device is lost after the engine's submission N; the first one is a test at the start |
//! | `EVERWARP_WGPU_VALIDATION=1` | loads Vulkan's validation layers, if they are installed, and prints their reports |

use everwarp_contract::wgpu::{ROUND_SEED_SHIFT, ROUND_STRESS};
use everwarp_engine::EngineError;

/// The largest number: a seed has to fit above the flag.
const MOST: u32 = u32::MAX >> ROUND_SEED_SHIFT;

/// The number in a variable, if it is set.
fn number(name: &'static str) -> Result<Option<u32>, EngineError> {
    let Some(value) = std::env::var_os(name) else {
        return Ok(None);
    };
    let value = value.to_string_lossy().into_owned();
    match value.parse() {
        Ok(number) if number <= MOST => Ok(Some(number)),
        _ => Err(EngineError::Setting {
            name,
            value,
            rule: "a whole number below 2,147,483,648",
        }),
    }
}

/// The flags of every dispatch.
pub(crate) fn round_flags() -> Result<u32, EngineError> {
    let seed = number("EVERWARP_WGPU_STRESS")?;
    Ok(seed.map_or(0, |seed| seed << ROUND_SEED_SHIFT | ROUND_STRESS))
}

/// The submission after which the device is lost.
pub(crate) fn loses() -> Result<Option<u32>, EngineError> {
    number("EVERWARP_WGPU_LOSE")
}

/// How wgpu opens drivers: without validation layers, unless they are asked for, and without the dispatch that it puts before
/// each indirect one.
pub(crate) fn instance_flags() -> wgpu::InstanceFlags {
    if std::env::var_os("EVERWARP_WGPU_VALIDATION").is_none() {
        return wgpu::InstanceFlags::empty();
    }
    // A program that has a logger of its own keeps it.
    if log::set_logger(&Reports).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
    wgpu::InstanceFlags::VALIDATION | wgpu::InstanceFlags::DEBUG
}

/// Writes warnings and errors of wgpu and of the layers to standard error.
struct Reports;

impl log::Log for Reports {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }
    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("everwarp: wgpu: {}: {}", record.level(), record.args());
        }
    }
    fn flush(&self) {}
}
