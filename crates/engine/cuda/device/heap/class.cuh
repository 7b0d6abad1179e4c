// Classes of blocks: 16, 32, 48, 64, 96, 128, … bytes, two for each doubling; at most a third is wasted.
#pragma once
#include "everwarp/atomic.cuh"

namespace ew {

constexpr u32 HEAP_PAGE_BYTES = 1u << HEAP_PAGE_SHIFT;

// The class of a request of up to HEAP_LARGEST_CLASS bytes.
EW_FN u32 heap_class(u32 bytes) {
  if (bytes <= 16) return 0;
  const u32 power = 31 - __clz(bytes - 1);  // 2^power < bytes <= 2^(power + 1)
  return power == 4 ? 1 : 2 * power - 8 + (bytes > 3u << (power - 1));
}
EW_FN u32 heap_class_bytes(u32 cls) {
  if (cls < 2) return 16u << cls;
  const u32 power = cls / 2 + 4;
  return cls % 2 == 0 ? 3u << (power - 1) : 2u << power;
}
// Bytes that a request takes: its class's, or whole pages. Requests beyond 2^63 are refused before.
EW_FN u64 heap_takes(u64 bytes) {
  return bytes <= HEAP_LARGEST_CLASS ? heap_class_bytes(heap_class((u32)bytes)) : (bytes + HEAP_PAGE_BYTES - 1) & ~(u64)(HEAP_PAGE_BYTES - 1);
}
EW_FN u32 heap_class_blocks(u32 cls) { return HEAP_PAGE_BYTES / heap_class_bytes(cls); }

// A page that becomes this empty is listed again. Smaller holes are found when nothing else is left.
EW_FN i32 heap_worth_listing(u32 cls) { return (i32)max(heap_class_blocks(cls) / 8, 1u); }

}  // namespace ew
