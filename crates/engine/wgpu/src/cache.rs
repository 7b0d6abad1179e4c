//! Compiled pipelines on disk, in the cache that all engines share. What a driver has compiled is kept for the next start on
//! the same adapter with the same driver and image.

use everwarp_cache::{Cache, Kind};
use sha2::{Digest, Sha256};

/// The cache of one image's pipeline, as the driver sees it.
pub(crate) struct Pipelines {
    pub(crate) cache: wgpu::PipelineCache,
    folder: Cache,
    key: String,
    label: String,
    /// The data that were on disk.
    before: Option<Vec<u8>>,
}

/// The features that it needs.
pub(crate) const FEATURES: wgpu::Features = wgpu::Features::PIPELINE_CACHE;

impl Pipelines {
    /// Reads what the disk has for an image's text; `None` if the driver takes no such data.
    pub(crate) fn open(
        device: &wgpu::Device,
        adapter: &wgpu::AdapterInfo,
        text: &str,
    ) -> Option<Self> {
        if !device.features().contains(FEATURES) {
            return None;
        }
        let key = key(adapter, text)?;
        let folder = Cache::user();
        let before = folder.read(Kind::Image, &key);
        // SAFETY: the data are what `get_data` has returned for this adapter: the file has their hash, and its folder is
        // this user's alone. wgpu and the driver check that they are this driver's, and ignore them otherwise.
        let cache = unsafe {
            device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: Some("everwarp"),
                data: before.as_deref(),
                fallback: true,
            })
        };
        let label = format!("{}, {}", adapter.name, adapter.driver_info);
        Some(Self {
            cache,
            folder,
            key,
            label,
            before,
        })
    }

    /// Writes to disk what the driver has compiled, if it has compiled anything.
    pub(crate) fn keep(&self) {
        let Some(data) = self.cache.get_data() else {
            return;
        };
        if self.before.as_ref() == Some(&data) {
            return;
        }
        let written = self
            .folder
            .write(Kind::Image, &self.key, &self.label, &data);
        if let Err(reason) = written {
            reason.warn();
        }
    }
}

/// The hash of everything that a compiled pipeline depends on.
fn key(adapter: &wgpu::AdapterInfo, text: &str) -> Option<String> {
    let mut hash = Sha256::new();
    let device = wgpu::util::pipeline_cache_key(adapter)?;
    for part in [
        env!("CARGO_PKG_VERSION"),
        &device,
        &adapter.name,
        &adapter.driver,
        &adapter.driver_info,
        text,
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    Some(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(driver: &str) -> wgpu::AdapterInfo {
        let mut info = wgpu::AdapterInfo::new(wgpu::DeviceType::Cpu, wgpu::Backend::Vulkan);
        info.driver_info = driver.to_owned();
        info
    }

    #[test]
    fn the_key_depends_on_the_driver_and_on_the_text() {
        let base = key(&adapter("1"), "text").expect("Vulkan takes such data");
        assert_eq!(key(&adapter("1"), "text"), Some(base.clone()));
        assert_ne!(key(&adapter("2"), "text"), Some(base.clone()));
        assert_ne!(key(&adapter("1"), "texts"), Some(base));
        let mut metal = adapter("1");
        metal.backend = wgpu::Backend::Metal;
        assert_eq!(key(&metal, "text"), None);
    }
}
