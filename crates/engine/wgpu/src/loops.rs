//! A test at the start: some drivers end long loops without a word.

use std::time::Duration;

use everwarp_engine::EngineError;

use crate::gpu::{Gpu, driver};
use crate::single::{Single, results};

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
    let out = results(gpu)?;
    let single = Single::new(gpu, "loops", source, &[&out])?;
    gpu.write_words(&out, 1, &[ROUNDS]);
    single.submit(gpu);
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
