//! One dispatch of one workgroup without the engine: for the tests of an adapter.

use everwarp_engine::EngineError;

use crate::gpu::Gpu;

/// A small text with its buffers.
pub(crate) struct Single {
    pipeline: wgpu::ComputePipeline,
    bind_group: wgpu::BindGroup,
}

impl Single {
    /// Compiles a text with the entry point `main`; `buffers` are its bindings from 0 on, which it reads and writes.
    pub(crate) fn new(
        gpu: &Gpu,
        label: &str,
        wgsl: &str,
        buffers: &[&wgpu::Buffer],
    ) -> Result<Self, EngineError> {
        // Translated as an image is, whose faults matter.
        let module = gpu.module(wgsl, &["main"])?;
        let numbered = || (0_u32..).zip(buffers);
        let entries: Vec<_> = numbered()
            .map(|(binding, _)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: false },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let bindings = gpu
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &entries,
            });
        let layout = gpu
            .device
            .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&bindings)],
                immediate_size: 0,
            });
        let pipeline = gpu
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(label),
                layout: Some(&layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            });
        let entries: Vec<_> = numbered()
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let bind_group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &bindings,
            entries: &entries,
        });
        Ok(Self {
            pipeline,
            bind_group,
        })
    }
    /// Submits the dispatch.
    pub(crate) fn submit(&self, gpu: &Gpu) -> wgpu::SubmissionIndex {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.bind_group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        gpu.submit(encoder)
    }
}

/// A buffer that a dispatch writes and [`Gpu::read`] reads.
pub(crate) fn results(gpu: &Gpu) -> Result<wgpu::Buffer, EngineError> {
    let usage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    crate::gpu::buffer(&gpu.device, "results", 256, usage)
}
