//! The device, its buffers and its pipeline. Every error of wgpu ends up in a result or in [`Gpu::lost`]; its default
//! handler would panic.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use everwarp_contract::wgpu::{DevRound, WGPU_THREADS};
use everwarp_engine::sync::{lock, try_lock};
use everwarp_engine::{EngineError, Image};

use crate::adapter::{WgpuDevice, now};
use crate::cache::Pipelines;
use crate::image::ImageText;
use crate::sizes::Sizes;

/// Dispatches that one submission may have.
pub(crate) const ROUNDS: usize = 16;
/// The distance of two dispatches' numbers: the alignment that every adapter takes.
pub(crate) const ROUND_STRIDE: u64 = 256;
/// Bytes that are copied to the host at a time.
const STAGING: u64 = 8 << 20;
/// How long one thread waits for the device at a time; another one that has something to submit waits as long.
const SLICE: Duration = Duration::from_millis(1);
/// The smallest window that makes sense.
const LEAST_WINDOW: u64 = 16 << 20;
/// The largest window: addresses have 32 bits, and some drivers count bytes with a sign.
const MOST_WINDOW: u64 = (1 << 31) - 256;

/// The feature with which the engine hands SPIR-V to Vulkan.
const PASSTHROUGH: wgpu::Features = wgpu::Features::PASSTHROUGH_SHADERS;

/// The features of an adapter that the engine uses.
fn useful(adapter: &wgpu::Adapter) -> wgpu::Features {
    match adapter.get_info().backend {
        wgpu::Backend::Vulkan => adapter.features() & (PASSTHROUGH | crate::cache::FEATURES),
        _ => wgpu::Features::empty(),
    }
}

/// The state of a mapping: 0 not yet, 1 mapped, 2 failed.
pub(crate) type Mapped = Arc<AtomicU8>;

#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) name: String,
    adapter: wgpu::AdapterInfo,
    pub(crate) software: bool,
    workgroup_bytes: u32,
    pub(crate) window: wgpu::Buffer,
    pub(crate) window_bytes: u64,
    pub(crate) params: wgpu::Buffer,
    pub(crate) tasks: wgpu::Buffer,
    pub(crate) groups: wgpu::Buffer,
    pub(crate) state: wgpu::Buffer,
    pub(crate) inbox: wgpu::Buffer,
    pub(crate) completed: wgpu::Buffer,
    pub(crate) rounds: wgpu::Buffer,
    /// Whether the engine has a heap, which is settled between dispatches.
    has_heap: bool,
    pub(crate) bind_group: wgpu::BindGroup,
    layout: wgpu::PipelineLayout,
    staging: Mutex<wgpu::Buffer>,
    /// Held while wgpu looks at what has ended. A wait that runs out while another thread sees the last submission end
    /// breaks an assertion of wgpu 30, and a call of `submit` looks, too.
    polling: Mutex<()>,
    lost: Arc<OnceLock<String>>,
}

/// A compiled image.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) text: Arc<ImageText>,
    pub(crate) pipeline: wgpu::ComputePipeline,
    /// What settles the heap before a dispatch, if there is one.
    pub(crate) settle: Option<wgpu::ComputePipeline>,
}

impl Gpu {
    pub(crate) fn new(device: &WgpuDevice, sizes: &Sizes) -> Result<Self, EngineError> {
        let (adapter, facts) = (&device.adapter, device.facts());
        let offered = adapter.limits();
        check_limits(&facts.name, &offered)?;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("everwarp"),
            required_features: useful(adapter),
            required_limits: wgpu::Limits {
                max_buffer_size: offered.max_buffer_size,
                max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size,
                ..wgpu::Limits::defaults().or_worse_values_from(&offered)
            },
            ..Default::default()
        };
        let (gpu, queue) =
            now(adapter.request_device(&descriptor)).map_err(|e| driver("request_device", &e))?;
        let lost = Arc::new(OnceLock::new());
        let note = lost.clone();
        gpu.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let _ = note.set(error.to_string());
        }));
        let note = lost.clone();
        gpu.set_device_lost_callback(move |reason, message| {
            let _ = note.set(format!("{reason:?}: {message}"));
        });
        let mut window_bytes = facts.window_bytes.min(MOST_WINDOW) & !255;
        let storage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let window = loop {
            match buffer(&gpu, "window", window_bytes, storage) {
                Ok(window) => break window,
                Err(_) if window_bytes / 2 >= LEAST_WINDOW => {
                    window_bytes = (window_bytes / 2) & !255
                }
                Err(error) => return Err(error),
            }
        };
        let params = buffer(&gpu, "parameters", Sizes::params_bytes(), storage)?;
        let tasks = buffer(&gpu, "tasks", sizes.task_bytes(), storage)?;
        let groups = buffer(&gpu, "groups", sizes.group_bytes(), storage)?;
        let state = buffer(&gpu, "state", sizes.state_bytes(), storage)?;
        let inbox = buffer(&gpu, "submissions", Sizes::inbox_bytes(), storage)?;
        let completed = buffer(&gpu, "completions", sizes.completion_bytes(), storage)?;
        let rounds = buffer(
            &gpu,
            "dispatches",
            ROUNDS as u64 * ROUND_STRIDE,
            wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        )?;
        let staging = buffer(
            &gpu,
            "staging",
            STAGING,
            wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        )?;
        let round_bytes = NonZeroU64::new(size_of::<DevRound>() as u64);
        let entry = |binding: u32, ty| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty,
                has_dynamic_offset: binding == 0,
                min_binding_size: if binding == 0 { round_bytes } else { None },
            },
            count: None,
        };
        let stored = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let bindings = gpu.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[
                entry(0, wgpu::BufferBindingType::Uniform),
                entry(1, stored(false)),
                entry(2, stored(true)),
                entry(3, stored(false)),
                entry(4, stored(false)),
                entry(5, stored(false)),
                entry(6, stored(true)),
                entry(7, stored(false)),
            ],
        });
        let whole = |binding: u32, buffer: &wgpu::Buffer| (binding, buffer.clone());
        let bound = [
            whole(1, &window),
            whole(2, &params),
            whole(3, &tasks),
            whole(4, &groups),
            whole(5, &state),
            whole(6, &inbox),
            whole(7, &completed),
        ];
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &rounds,
                offset: 0,
                size: round_bytes,
            }),
        }];
        entries.extend(bound.iter().map(|(binding, buffer)| wgpu::BindGroupEntry {
            binding: *binding,
            resource: buffer.as_entire_binding(),
        }));
        let bind_group = gpu.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &bindings,
            entries: &entries,
        });
        let layout = gpu.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&bindings)],
            immediate_size: 0,
        });
        let this = Self {
            device: gpu,
            queue,
            name: facts.name.clone(),
            adapter: adapter.get_info(),
            software: facts.software,
            workgroup_bytes: facts.workgroup_bytes,
            window,
            window_bytes,
            params,
            tasks,
            groups,
            state,
            inbox,
            completed,
            rounds,
            has_heap: sizes.round.heap_pages > 0,
            bind_group,
            layout,
            staging: Mutex::new(staging),
            polling: Mutex::default(),
            lost,
        };
        this.write_words(&this.state, 0, &sizes.first_state());
        if this.has_heap {
            let bits = vec![u32::MAX; sizes.round.heap_pages as usize / 32];
            this.write_words(&this.state, sizes.at_free(0), &bits);
        }
        this.check()?;
        Ok(this)
    }

    /// Notes that the device is lost, with the driver's own reason if it has one.
    pub(crate) fn note_loss(&self, otherwise: &str) {
        self.poll();
        let _ = self.lost.set(otherwise.to_owned());
    }
    /// Why the device was lost, if it was.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match self.lost() {
            None => Ok(()),
            Some(reason) => Err(EngineError::Lost {
                reason: reason.to_owned(),
            }),
        }
    }

    /// Compiles an image.
    pub(crate) fn compile(&self, image: &Image) -> Result<Compiled, EngineError> {
        let text = ImageText::new(image)?;
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let settles = self.has_heap && text.has_heap;
        let entries: &[&str] = if text.has_heap {
            &["main", "settle_heap"]
        } else {
            &["main"]
        };
        let module = self.module(&text.text, entries)?;
        let messages = now(module.get_compilation_info()).messages;
        if let Some(error) = messages
            .iter()
            .find(|m| m.message_type == wgpu::CompilationMessageType::Error)
        {
            let line = error.location.map_or(0, |at| at.line_number as usize);
            let place = match text.place(line) {
                Some((program, line)) => format!("program `{program}`, line {line} of its WGSL"),
                None => format!("line {line} of the scheduler"),
            };
            drop((now(internal.pop()), now(scope.pop())));
            return Err(EngineError::Compile(
                format!("{place}: {}", error.message).into(),
            ));
        }
        let kept = Pipelines::open(&self.device, &self.adapter, &text.text);
        let pipeline = |entry_point| {
            let descriptor = wgpu::ComputePipelineDescriptor {
                label: Some("everwarp"),
                layout: Some(&self.layout),
                module: &module,
                entry_point: Some(entry_point),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // The scheduler does that itself, for the words that need it.
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: kept.as_ref().map(|kept| &kept.cache),
            };
            self.device.create_compute_pipeline(&descriptor)
        };
        let (main, settle) = (pipeline("main"), settles.then(|| pipeline("settle_heap")));
        let errors = [now(internal.pop()), now(scope.pop())];
        if let Some(error) = errors.into_iter().flatten().next() {
            return Err(EngineError::Compile(error.to_string().into()));
        }
        if let Some(kept) = kept {
            kept.keep();
        }
        Ok(Compiled {
            text: Arc::new(text),
            pipeline: main,
            settle,
        })
    }

    /// The module of a text with some entry points of `WGPU_THREADS` invocations. If the text is not valid, the module says so.
    pub(crate) fn module(
        &self,
        wgsl: &str,
        entries: &[&'static str],
    ) -> Result<wgpu::ShaderModule, EngineError> {
        let label = Some("everwarp");
        if self.device.features().contains(PASSTHROUGH)
            && let Some(image) = crate::spirv::translate(wgsl)
        {
            // wgpu does not look into such a module.
            if image.workgroup_bytes > self.workgroup_bytes.into() {
                return Err(EngineError::Adapter {
                    adapter: self.name.clone(),
                    what: "bytes of workgroup memory",
                    value: self.workgroup_bytes.into(),
                    needed: image.workgroup_bytes,
                });
            }
            let entry = |name: &&'static str| wgpu::PassthroughShaderEntryPoint {
                name: (*name).into(),
                workgroup_size: (WGPU_THREADS, 1, 1),
            };
            let entry_points: Vec<_> = entries.iter().map(entry).collect();
            // SAFETY: the words are naga's translation of valid WGSL with the bindings of the layout. For the programs of
            // an image, see below.
            return Ok(unsafe {
                self.device.create_shader_module_passthrough(
                    wgpu::ShaderModuleDescriptorPassthrough {
                        label,
                        entry_points: entry_points.into(),
                        spirv: Some(image.words.into()),
                        ..Default::default()
                    },
                )
            });
        }
        let checks = wgpu::ShaderRuntimeChecks::unchecked();
        let source = wgpu::ShaderSource::Wgsl(wgsl.into());
        // SAFETY: as on the CUDA engine, the programs of an image are trusted: their instances are made by an unsafe function
        // that asks for addresses of live buffers. The scheduler's own indices are in its tables. The scheduler's loops
        // are bounded, and a loop of a program accesses atomic words, or ends.
        Ok(unsafe {
            self.device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor { label, source },
                checks,
            )
        })
    }

    /// Writes words before the next submission.
    pub(crate) fn write_words(&self, buffer: &wgpu::Buffer, word: u64, data: &[u32]) {
        // SAFETY: words can be read as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len() * 4) };
        self.queue.write_buffer(buffer, word * 4, bytes);
    }

    /// Maps a buffer for reading; the result says when it is mapped.
    pub(crate) fn map(buffer: &wgpu::Buffer, bytes: u64) -> Mapped {
        let mapped = Mapped::default();
        let note = mapped.clone();
        buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
            note.store(if result.is_ok() { 1 } else { 2 }, Ordering::Release);
        });
        mapped
    }

    /// Submits commands.
    pub(crate) fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        let commands = encoder.finish();
        let _one = lock(&self.polling);
        self.queue.submit([commands])
    }

    /// Sees what has ended, unless another thread is about to.
    pub(crate) fn poll(&self) {
        if let Some(_one) = try_lock(&self.polling) {
            let _ = self.device.poll(wgpu::PollType::Poll);
        }
    }

    /// Waits for a submission, no longer than `limit` or a [`SLICE`]. Only a mapping or the next look says whether it ended.
    pub(crate) fn poll_until(&self, index: &wgpu::SubmissionIndex, limit: Duration) {
        let _one = lock(&self.polling);
        let _ = self.device.poll(wgpu::PollType::Wait {
            submission_index: Some(index.clone()),
            timeout: Some(SLICE.min(limit)),
        });
    }

    /// Waits until a mapping has ended, or until the time is over.
    pub(crate) fn wait(
        &self,
        mapped: &Mapped,
        index: &wgpu::SubmissionIndex,
        limit: Duration,
    ) -> Result<(), EngineError> {
        let begin = Instant::now();
        loop {
            self.poll_until(index, limit);
            match mapped.load(Ordering::Acquire) {
                0 => {}
                1 => return Ok(()),
                _ => {
                    self.check()?;
                    return Err(driver("map_async", &"the buffer was not mapped"));
                }
            }
            self.check()?;
            if begin.elapsed() > limit {
                return Err(EngineError::Lost {
                    reason: format!("the device did not answer within {limit:?}"),
                });
            }
        }
    }

    /// Copies bytes to the host, after everything that was submitted before. The range is one of words.
    pub(crate) fn read(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        to: &mut [u8],
        limit: Duration,
    ) -> Result<(), EngineError> {
        let mut staging = lock(&self.staging);
        let mut at = offset;
        for piece in to.chunks_mut(STAGING as usize) {
            let bytes = piece.len() as u64;
            let mut encoder = self.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(buffer, at, &staging, 0, bytes);
            let index = self.submit(encoder);
            let mapped = Self::map(&staging, bytes);
            if let Err(error) = self.wait(&mapped, &index, limit) {
                // The copy may still come: it must not be overwritten by a later one.
                if let Ok(fresh) = crate::gpu::buffer(
                    &self.device,
                    "staging",
                    STAGING,
                    wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                ) {
                    *staging = fresh;
                }
                return Err(error);
            }
            let view = staging
                .get_mapped_range(0..bytes)
                .map_err(|e| driver("get_mapped_range", &e))?;
            piece.copy_from_slice(&view);
            drop(view);
            staging.unmap();
            at += bytes;
        }
        Ok(())
    }
}

/// Checks that an adapter offers what the engine needs, which is what every browser's WebGPU offers.
fn check_limits(adapter: &str, offered: &wgpu::Limits) -> Result<(), EngineError> {
    let window = offered
        .max_storage_buffer_binding_size
        .min(offered.max_buffer_size);
    for (what, value, needed) in [
        (
            "storage buffers",
            offered.max_storage_buffers_per_shader_stage.into(),
            7,
        ),
        (
            "bytes of workgroup memory",
            offered.max_compute_workgroup_storage_size.into(),
            16 << 10,
        ),
        (
            "invocations of a workgroup",
            offered.max_compute_invocations_per_workgroup.into(),
            WGPU_THREADS.into(),
        ),
        ("bytes of a storage buffer", window, LEAST_WINDOW),
    ] {
        if value < needed {
            return Err(EngineError::Adapter {
                adapter: adapter.to_owned(),
                what,
                value,
                needed,
            });
        }
    }
    Ok(())
}

/// An error of the driver.
pub(crate) fn driver(call: &'static str, error: &dyn std::fmt::Display) -> EngineError {
    EngineError::Driver {
        call,
        code: 0,
        name: error.to_string(),
    }
}

/// Makes a buffer of zeros.
pub(crate) fn buffer(
    device: &wgpu::Device,
    what: &'static str,
    bytes: u64,
    usage: wgpu::BufferUsages,
) -> Result<wgpu::Buffer, EngineError> {
    let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let valid = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(what),
        size: bytes,
        usage,
        mapped_at_creation: false,
    });
    let errors = [now(valid.pop()), now(memory.pop())];
    match errors.into_iter().flatten().next() {
        None => Ok(buffer),
        Some(error) => Err(EngineError::OutOfMemory {
            kind: "device",
            bytes,
            detail: format!("the buffer of {what}: {error}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_small_is_named_with_the_one_needed() {
        let enough = wgpu::Limits::defaults();
        check_limits("a", &enough).expect("the baseline of WebGPU is enough");
        type Shrink = fn(&mut wgpu::Limits);
        let cases: [(Shrink, &str); 4] = [
            (
                |l| l.max_storage_buffers_per_shader_stage = 4,
                "4 storage buffers",
            ),
            (
                |l| l.max_compute_workgroup_storage_size = 8192,
                "8192 bytes of workgroup memory",
            ),
            (
                |l| l.max_compute_invocations_per_workgroup = 32,
                "32 invocations of a workgroup",
            ),
            (
                |l| l.max_buffer_size = 1 << 20,
                "1048576 bytes of a storage buffer",
            ),
        ];
        for (shrink, expected) in cases {
            let mut limits = enough.clone();
            shrink(&mut limits);
            let error = check_limits("Tiny", &limits).expect_err("too small");
            let text = error.to_string();
            assert!(text.contains(expected) && text.contains("Tiny"), "{text}");
        }
    }
}
