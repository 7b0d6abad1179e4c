//! What the same adapter does without the engine: the limits and rivals that `everwarp bench` measures in the same run.

use std::time::{Duration, Instant};

use everwarp_engine::{EngineError, HeapConfig, Pools};

use crate::adapter::WgpuDevice;
use crate::gpu::{Gpu, buffer, driver};
use crate::sizes::Sizes;

mod cells;
mod search;

pub use cells::{RawCells, RawWay};
pub use search::RawSearch;

/// The distance of two dispatches' numbers.
const STRIDE: u64 = 256;
/// Dispatches of one submission, at most.
const CHAIN: u64 = 1000;
const LIMIT: Duration = Duration::from_secs(60);
/// Enough for any device, and a loop takes what is left.
const WORKGROUPS: u32 = 264;

/// A device without an engine.
pub struct RawWgpu {
    gpu: Gpu,
    module: wgpu::ShaderModule,
    steps: wgpu::Buffer,
    counts: wgpu::Buffer,
    back: wgpu::Buffer,
    counter: (wgpu::ComputePipeline, wgpu::BindGroup),
}

fn storage() -> wgpu::BufferUsages {
    wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC
}

impl std::fmt::Debug for RawWgpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawWgpu").finish_non_exhaustive()
    }
}

impl RawWgpu {
    /// Opens the adapter.
    ///
    /// # Errors
    /// The adapter cannot be opened.
    pub fn new(device: &WgpuDevice) -> Result<Self, EngineError> {
        let pools = Pools {
            submission_slots: 64,
            tokens: 64,
            arena_tasks: 64,
            tasks: 1024,
            groups: 64,
            heap: HeapConfig::default(),
        };
        let window = device.facts().window_bytes;
        let gpu = Gpu::new(device, &Sizes::new(pools, 1, window)?)?;
        let module = gpu
            .device
            .create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some("raw"),
                source: wgpu::ShaderSource::Wgsl(include_str!("raw.wgsl").into()),
            });
        let uniform = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let steps = buffer(&gpu.device, "steps", CHAIN * STRIDE, uniform)?;
        let counts = buffer(&gpu.device, "counts", 256, storage())?;
        let back = buffer(
            &gpu.device,
            "back",
            256,
            wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        )?;
        let counter = pipeline(&gpu, &module, "count", &steps, &[(1, &counts)]);
        gpu.check()?;
        Ok(Self {
            gpu,
            module,
            steps,
            counts,
            back,
            counter,
        })
    }

    /// Submits `n` dispatches and a copy of the counts to the host, and waits for it. Returns the counts.
    fn run(
        &self,
        (pipeline, bindings): &(wgpu::ComputePipeline, wgpu::BindGroup),
        n: u64,
        workgroups: u32,
        spin: bool,
    ) -> Result<[u32; 4], EngineError> {
        let gpu = &self.gpu;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(pipeline);
            for i in 0..n {
                pass.set_bind_group(0, bindings, &[(i * STRIDE) as u32]);
                pass.dispatch_workgroups(workgroups, 1, 1);
            }
        }
        encoder.copy_buffer_to_buffer(&self.counts, 0, &self.back, 0, 256);
        let index = gpu.submit(encoder);
        let mapped = Gpu::map(&self.back, 256);
        if spin {
            let begin = Instant::now();
            while mapped.load(std::sync::atomic::Ordering::Acquire) == 0 && begin.elapsed() < LIMIT
            {
                gpu.poll();
            }
        }
        gpu.wait(&mapped, &index, LIMIT)?;
        let view = self
            .back
            .get_mapped_range(..)
            .map_err(|e| driver("get_mapped_range", &e))?;
        let word = |i: usize| u32::from_ne_bytes([view[i], view[i + 1], view[i + 2], view[i + 3]]);
        let words = [word(0), word(4), word(8), word(12)];
        drop(view);
        self.back.unmap();
        Ok(words)
    }

    /// Seconds of each of `n` round trips: 16 bytes are written, one dispatch runs, 256 bytes are copied and mapped.
    ///
    /// # Errors
    /// The device is lost, or did not count each dispatch.
    pub fn round_trips(&self, n: u32, spin: bool) -> Result<Vec<f64>, EngineError> {
        self.gpu.write_words(&self.counts, 0, &[0; 4]);
        let mut list = Vec::new();
        for i in 1..=n {
            let begin = Instant::now();
            self.gpu.write_words(&self.steps, 0, &[1, 0, 0, 0]);
            let counted = self.run(&self.counter, 1, 1, spin)?[0];
            list.push(begin.elapsed().as_secs_f64());
            same(counted, i)?;
        }
        Ok(list)
    }

    /// Seconds of one dispatch that depends on the one before, from each of `n` submissions of 1,000.
    ///
    /// # Errors
    /// The device is lost, or did not count each dispatch.
    pub fn chain(&self, n: u32) -> Result<Vec<f64>, EngineError> {
        self.gpu.write_words(&self.counts, 0, &[0; 4]);
        let mut steps = vec![0; (CHAIN * STRIDE / 4) as usize];
        steps
            .iter_mut()
            .step_by(STRIDE as usize / 4)
            .for_each(|s| *s = 1);
        self.gpu.write_words(&self.steps, 0, &steps);
        let mut list = Vec::new();
        for i in 1..=n {
            let begin = Instant::now();
            let counted = self.run(&self.counter, CHAIN, 1, false)?[0];
            list.push(begin.elapsed().as_secs_f64() / CHAIN as f64);
            same(counted, i * CHAIN as u32)?;
        }
        Ok(list)
    }
}

fn same(counted: u32, expected: u32) -> Result<(), EngineError> {
    match counted == expected {
        true => Ok(()),
        false => Err(driver(
            "dispatch",
            &format!("{counted} dispatches were counted instead of {expected}"),
        )),
    }
}

fn pipeline(
    gpu: &Gpu,
    module: &wgpu::ShaderModule,
    entry: &'static str,
    steps: &wgpu::Buffer,
    bound: &[(u32, &wgpu::Buffer)],
) -> (wgpu::ComputePipeline, wgpu::BindGroup) {
    let kind = |binding, ty| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: binding == 0,
            min_binding_size: std::num::NonZeroU64::new(if binding == 0 { 16 } else { 4 }),
        },
        count: None,
    };
    let mut kinds = vec![kind(0, wgpu::BufferBindingType::Uniform)];
    kinds.extend(bound.iter().map(|(binding, _)| {
        let read_only = matches!(binding, 2 | 3);
        kind(*binding, wgpu::BufferBindingType::Storage { read_only })
    }));
    let layout = gpu
        .device
        .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &kinds,
        });
    let mut entries = vec![wgpu::BindGroupEntry {
        binding: 0,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: steps,
            offset: 0,
            size: std::num::NonZeroU64::new(16),
        }),
    }];
    entries.extend(bound.iter().map(|(binding, buffer)| wgpu::BindGroupEntry {
        binding: *binding,
        resource: buffer.as_entire_binding(),
    }));
    let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &layout,
        entries: &entries,
    });
    let layout = gpu
        .device
        .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
    let pipeline = gpu
        .device
        .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("raw"),
            layout: Some(&layout),
            module,
            entry_point: Some(entry),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
    (pipeline, bindings)
}
