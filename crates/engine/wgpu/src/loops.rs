//! A test at the start: some drivers end long loops without a word.

use std::time::Duration;

use everwarp_engine::EngineError;

use crate::gpu::{Gpu, driver};

/// More rounds than the limit of Mesa before version 24: 65,535 in all loops of an invocation together.
const ROUNDS: u32 = 100_000;

/// Runs a loop of many rounds and checks that all of them ran.
pub(crate) fn check(gpu: &Gpu) -> Result<(), EngineError> {
    let source = "@group(0) @binding(0) var<storage, read_write> out: array<atomic<u32>>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) thread: u32) {
  if thread > 0u { return; }
  let rounds = atomicLoad(&out[1]);
  for (var i = 0u; i < rounds; i += 1u) { atomicAdd(&out[0], 1u); }
}";
    // Translated as an image is, whose loops matter.
    let module = gpu.module(source, &["main"])?;
    let bindings = gpu
        .device
        .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: false },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            }],
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
            label: Some("loops"),
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
    let usage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    let out = crate::gpu::buffer(&gpu.device, "loops", 256, usage)?;
    gpu.write_words(&out, 1, &[ROUNDS]);
    let bind_group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &bindings,
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: out.as_entire_binding(),
        }],
    });
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bind_group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    gpu.submit(encoder);
    let mut counted = [0; 4];
    gpu.read(&out, 0, &mut counted, Duration::from_secs(10))?;
    gpu.check().map_err(|e| driver("the test of loops", &e))?;
    match u32::from_ne_bytes(counted) {
        ROUNDS => Ok(()),
        counted => Err(EngineError::BadDriver {
            adapter: gpu.name.clone(),
            fault: format!(
                "ends loops without a word: it ran {counted} of {ROUNDS} rounds. Mesa before version 24 does that: \
                 install a newer one (on Debian 12 from backports; .ci/install-lavapipe shows how)"
            ),
        }),
    }
}
