//! What the warps of an engine measure: histograms in device memory, which are read while they grow.

use everwarp_contract::device::{
    DevEngine, DevMeasure, MEASURE_BUCKETS, MEASURE_SHARDS, MEASURE_STEP_BITS,
};
use everwarp_contract::{DevPtr, DevType, FunctionId};
use everwarp_engine::{EngineError, Image, MeasuredFunction};
use everwarp_telemetry::Distribution;
use everwarp_telemetry::histogram::{BUCKETS, STEP_BITS};

use crate::driver::{alloc_zeroed, call};

const _: () = assert!(BUCKETS == MEASURE_BUCKETS as usize && STEP_BITS == MEASURE_STEP_BITS);

/// The histograms of an engine.
#[derive(Debug)]
pub(crate) struct Measures {
    address: u64,
    functions: usize,
}

impl Measures {
    /// Histograms for the functions of this image, if it measures, whose place goes into the tables. A context must be current, and
    /// nothing be resident. Functions of programs that are added later are not measured.
    pub(crate) fn new(image: &Image, tables: &mut DevEngine) -> Result<Option<Self>, EngineError> {
        if !image.measured {
            return Ok(None);
        }
        let functions = FunctionId::FIRST.0 as usize + image.functions().count();
        let mut measures = Self {
            address: 0,
            functions,
        };
        measures.address = alloc_zeroed(measures.bytes() as u64)?;
        tables.measures = DevPtr::new(measures.address);
        tables.measure_functions = functions as u32;
        Ok(Some(measures))
    }
    /// Where they are on the device.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
    /// How many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        MEASURE_SHARDS as usize * self.functions * size_of::<DevMeasure>()
    }
    /// The functions by their numbers: the sums of all shards, from the bytes of the histograms.
    pub(crate) fn sum(&self, bytes: &[u8]) -> Vec<MeasuredFunction> {
        let mut all = vec![MeasuredFunction::default(); self.functions];
        let entries = bytes.chunks_exact(size_of::<DevMeasure>());
        for (number, entry) in entries.map(DevMeasure::from_bytes).enumerate() {
            let function = &mut all[number % self.functions];
            function.calls += entry.calls;
            let run = Distribution::of_counts(entry.buckets, entry.sum, entry.most);
            function.run.merge(&run);
        }
        all
    }
    /// Frees them.
    ///
    /// # Safety
    /// - Nothing is resident, and nothing will be.
    pub(crate) unsafe fn release(&self) {
        // SAFETY: the memory was allocated by `new`; a failure leaves a leak.
        let _ = unsafe { call!(cuMemFree_v2(self.address)) };
    }
}

#[cfg(test)]
mod tests {
    use everwarp_contract::Layout;

    use super::*;

    #[test]
    fn shards_are_added_up_by_function() {
        let measures = Measures {
            address: 0,
            functions: 3,
        };
        let bytes = vec![0u8; measures.bytes()];
        let mut entries: Vec<_> = bytes
            .chunks_exact(size_of::<DevMeasure>())
            .map(DevMeasure::from_bytes)
            .collect();
        // 100 ns are in the bucket from 100 to 103, and 7 ns in one of their own.
        for (shard, bucket, took) in [(0, 57, 100), (5, 57, 100), (15, 7, 7)] {
            let entry = &mut entries[shard * 3 + 2];
            (entry.calls, entry.sum, entry.most) = (32, took, took);
            entry.buckets[bucket] = 1;
        }
        let bytes: Vec<u8> = entries.iter().flat_map(|e| e.bytes().to_vec()).collect();
        let all = measures.sum(&bytes);
        let of_two = &all[2];
        assert_eq!((all[0].calls, all[1].run.count, of_two.calls), (0, 0, 96));
        let run = &of_two.run;
        assert_eq!((run.count, run.sum, run.most), (3, 207, 100));
        assert_eq!(run.buckets, [(7, 1), (103, 2)]);
    }
}
