//! What the warps of an engine measure: counts and histograms in device memory, which are read while they grow.

use everwarp_contract::device::{
    BLOCK_WARPS, DevEngine, DevHistogram, DevMeasure, DevSample, MEASURE_BUCKETS, MEASURE_SAMPLES,
    MEASURE_STEP_BITS,
};
use everwarp_contract::{DevPtr, DevType, FunctionId};
use everwarp_engine::{EngineError, Image, MeasuredFunction};
use everwarp_telemetry::Distribution;
use everwarp_telemetry::histogram::{BUCKETS, STEP_BITS};

use crate::driver::{alloc_zeroed, call};

const _: () = assert!(BUCKETS == MEASURE_BUCKETS as usize && STEP_BITS == MEASURE_STEP_BITS);

/// The counts and histograms of an engine.
#[derive(Debug)]
pub(crate) struct Measures {
    address: u64,
    functions: usize,
    /// The tasks whose waiting is measured, which only warps read.
    samples: u64,
}

impl Measures {
    /// Counts and histograms for the functions of this image, if it measures, and samples for the warps of this many blocks, whose
    /// places go into the tables. A context must be current, and nothing be resident. Functions of programs that are added later are
    /// not measured.
    pub(crate) fn new(
        image: &Image,
        max_blocks: u32,
        tables: &mut DevEngine,
    ) -> Result<Option<Self>, EngineError> {
        if !image.measured {
            return Ok(None);
        }
        let mut measures = Self {
            address: 0,
            functions: FunctionId::FIRST.0 as usize + image.functions().count(),
            samples: 0,
        };
        measures.address = alloc_zeroed(measures.bytes() as u64)?;
        let samples = u64::from(max_blocks * BLOCK_WARPS * MEASURE_SAMPLES);
        let samples = alloc_zeroed(samples * size_of::<DevSample>() as u64);
        measures.samples = samples.inspect_err(|_| {
            // SAFETY: nothing else has the address yet.
            unsafe { measures.release() };
        })?;
        tables.measures = DevPtr::new(measures.address);
        tables.measure_functions = measures.functions as u32;
        tables.samples = DevPtr::new(measures.samples);
        Ok(Some(measures))
    }
    /// Where the counts and histograms are on the device.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
    /// How many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        self.functions * size_of::<DevMeasure>()
    }
    /// The functions by their numbers, from the bytes of their counts and histograms.
    pub(crate) fn read(&self, bytes: &[u8]) -> Vec<MeasuredFunction> {
        let entries = bytes.chunks_exact(size_of::<DevMeasure>());
        entries
            .map(|entry| {
                let entry = DevMeasure::from_bytes(entry);
                MeasuredFunction {
                    calls: entry.calls,
                    run: distribution(&entry.run),
                    wait: distribution(&entry.wait),
                    handling: distribution(&entry.handling),
                    depth: distribution(&entry.depth),
                }
            })
            .collect()
    }
    /// Frees them.
    ///
    /// # Safety
    /// - Nothing is resident, and nothing will be.
    pub(crate) unsafe fn release(&self) {
        for address in [self.address, self.samples] {
            if address != 0 {
                // SAFETY: the memory was allocated by `new`; a failure leaves a leak.
                let _ = unsafe { call!(cuMemFree_v2(address)) };
            }
        }
    }
}

fn distribution(of: &DevHistogram) -> Distribution {
    Distribution::of_counts(of.buckets, of.sum, of.most)
}

#[cfg(test)]
mod tests {
    use everwarp_contract::Layout;

    use super::*;

    #[test]
    fn each_function_has_its_own_count_and_histograms() {
        let measures = Measures {
            address: 0,
            functions: 3,
            samples: 0,
        };
        let bytes = vec![0u8; measures.bytes()];
        let mut entries: Vec<_> = bytes
            .chunks_exact(size_of::<DevMeasure>())
            .map(DevMeasure::from_bytes)
            .collect();
        let of_two = &mut entries[2];
        of_two.calls = 96;
        // 100 ns are in the bucket from 100 to 103, and 7 ns in one of their own.
        for (bucket, took) in [(57, 100), (57, 100), (7, 7)] {
            of_two.run.buckets[bucket] += 1;
            of_two.run.sum += took;
            of_two.run.most = of_two.run.most.max(took);
        }
        of_two.wait.buckets[1] = 1;
        of_two.handling.buckets[2] = 2;
        of_two.depth.buckets[3] = 3;
        let bytes: Vec<u8> = entries.iter().flat_map(|e| e.bytes().to_vec()).collect();
        let all = measures.read(&bytes);
        let of_two = &all[2];
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].calls, all[1].run.count, of_two.calls), (0, 0, 96));
        let run = &of_two.run;
        assert_eq!((run.count, run.sum, run.most), (3, 207, 100));
        assert_eq!(run.buckets, [(7, 1), (103, 2)]);
        assert_eq!(of_two.wait.buckets, [(1, 1)]);
        assert_eq!(of_two.handling.buckets, [(2, 2)]);
        assert_eq!(of_two.depth.buckets, [(3, 3)]);
    }
}
