//! Settings for those who work on the engine: they make what happens rarely happen now, and make the driver check more.
//!
//! | variable | effect |
//! |---|---|
//! | `EVERWARP_WGPU_STRESS=SEED` | a random half of the workgroups leaves each dispatch after 0 to 3 turns |
//! | `EVERWARP_WGPU_LOSE=N` | the device is lost after the engine's submission N; the first one is a test at the start |
//! | `EVERWARP_WGPU_VALIDATION=1` | loads Vulkan's validation layers and prints their reports; without them no adapter opens |

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

/// Vulkan's validation layers, by the name that wgpu asks for.
const LAYERS: &str = "VK_LAYER_KHRONOS_validation";

/// The name of the layers that were asked for and that Vulkan's loader does not have. wgpu would go on without them.
#[cfg(all(unix, not(target_vendor = "apple")))]
pub(crate) fn missing_layers() -> Option<&'static str> {
    std::env::var_os("EVERWARP_WGPU_VALIDATION")?;
    (!layers().iter().any(|name| name == LAYERS)).then_some(LAYERS)
}
/// Other systems validate by settings of their own.
#[cfg(not(all(unix, not(target_vendor = "apple"))))]
pub(crate) fn missing_layers() -> Option<&'static str> {
    None
}

/// The names of the layers that Vulkan's loader has; none without a loader.
#[cfg(all(unix, not(target_vendor = "apple")))]
fn layers() -> Vec<String> {
    use std::ffi::{CStr, c_char};

    /// `VkLayerProperties`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Layer {
        name: [c_char; 256],
        versions: [u32; 2],
        description: [c_char; 256],
    }
    type Enumerate = unsafe extern "C" fn(*mut u32, *mut Layer) -> i32;
    // SAFETY: the loader's initializers have no preconditions; wgpu loads it, too.
    let Ok(library) = (unsafe { libloading::Library::new("libvulkan.so.1") }) else {
        return Vec::new();
    };
    // SAFETY: every loader has this function, with this type.
    let Ok(enumerate) =
        (unsafe { library.get::<Enumerate>(c"vkEnumerateInstanceLayerProperties") })
    else {
        return Vec::new();
    };
    let mut count = 0;
    // SAFETY: without an array it writes the number of layers.
    unsafe { enumerate(&raw mut count, std::ptr::null_mut()) };
    let none = Layer {
        name: [0; 256],
        versions: [0; 2],
        description: [0; 256],
    };
    let mut found = vec![none; count as usize];
    // SAFETY: the array has room for `count` layers; it writes no more, and says how many it has written.
    unsafe { enumerate(&raw mut count, found.as_mut_ptr()) };
    let name = |layer: &Layer| {
        // SAFETY: a name ends with a zero byte inside its array.
        let name = unsafe { CStr::from_ptr(layer.name.as_ptr()) };
        name.to_string_lossy().into_owned()
    };
    found.iter().take(count as usize).map(name).collect()
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
