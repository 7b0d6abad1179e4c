// Pages of cached files. The twins are crates/pages/src/word.rs, which has the rules, and crates/files/src/table.rs.
#pragma once
#include "everwarp/lane/lane.cuh"

namespace ew {

constexpr u64 PAGE_HOLDERS = (1ull << PAGE_HOLDERS_BITS) - 1;
constexpr u64 PAGE_HERE = 1ull << PAGE_HERE_BIT;
constexpr u64 PAGE_DIRTY = 1ull << PAGE_DIRTY_BIT;
constexpr u64 PAGE_USED = 1ull << PAGE_USED_BIT;
constexpr u64 PAGE_MARK = 1ull << PAGE_MARK_BIT;
constexpr u64 PAGE_VERSIONS = (1ull << PAGE_VERSION_BITS) - 1;
// What stays the same as long as the page stays in its frame.
constexpr u64 PAGE_PLACE = PAGE_VERSIONS << PAGE_VERSION_SHIFT | PAGE_HERE | ~0ull << PAGE_FRAME_SHIFT;

// What has become of a task that wants a page.
enum class PageState : u32 { here, later, full, failed };

// The result of Files::acquire.
struct Page {
  PageState state;
  u32 error;  // ERRNO_…, if it has failed
  u8* bytes;  // the byte at the offset, if the page is here
};

// The result of Files::get.
template <typename T>
struct Got {
  PageState state;
  u32 error;
  T value;
};

// A value as bits of its size.
template <u32 bytes>
struct BitsOf;
template <>
struct BitsOf<4> {
  using type = u32;
};
template <>
struct BitsOf<8> {
  using type = u64;
};
template <typename T, typename Bits>
EW_FN T bits_as(Bits bits) {
  T value;
  memcpy(&value, &bits, sizeof(T));
  return value;
}

// The word of a page.
struct PageWord {
  u64* word;

  EW_FN u32 frame(u64 word) { return (u32)(word >> PAGE_FRAME_SHIFT); }

  // The word of a page that the task does not hold; 0: it is to be acquired.
  __device__ __forceinline__ u64 peek() const {
    const u64 seen = load(word, acquire_t{}, gpu);
    if ((seen & (PAGE_HERE | PAGE_MARK)) != PAGE_HERE) return 0;
    if ((seen & PAGE_USED) == 0) fetch_or(word, PAGE_USED, relaxed, gpu);
    return seen;
  }
  // Whether the page has stayed in its frame since then. What was read there meanwhile was read with acquire.
  __device__ __forceinline__ bool stayed(u64 seen) const { return ((load(word, relaxed, gpu) ^ seen) & PAGE_PLACE) == 0; }
  __device__ __forceinline__ void release() const { add_release(word, (u64)0 - 1); }
  __device__ __forceinline__ void fill(u64 bits) const { fetch_or(word, bits, release_t{}, gpu); }
  // Notes that a holder has written these parts of the page.
  __device__ __forceinline__ void wrote(u64* written, u64 parts) const {
    fetch_or(written, parts, acq_rel, gpu);
    if ((load(word, relaxed, gpu) & PAGE_DIRTY) == 0) fetch_or(word, PAGE_DIRTY, release_t{}, gpu);
  }
  // Takes the page out of its frame. `force`: 0: not if it was used; 1: not if it is dirty; 2: always, unless it is held.
  __device__ __forceinline__ u32 evict(u32 from, u64* written, u32 force) const {
    const u64 seen = load(word, relaxed, gpu);
    if ((seen & PAGE_HOLDERS) != 0 || (seen & PAGE_HERE) == 0 || frame(seen) != from) return PAGE_IS_HELD;
    if ((seen & PAGE_DIRTY) != 0 && force != 2) return PAGE_IS_DIRTY;
    if ((seen & PAGE_USED) != 0 && force == 0) {
      fetch_and(word, ~PAGE_USED, relaxed, gpu);
      return PAGE_IS_USED;
    }
    const u64 left = ((seen >> PAGE_VERSION_SHIFT) + 1 & PAGE_VERSIONS) << PAGE_VERSION_SHIFT;
    if (compare_exchange(word, seen, left, acq_rel, gpu) != seen) return PAGE_IS_HELD;
    if (force == 2) store(written, (u64)0, relaxed, gpu);
    return PAGE_GONE;
  }
  // Takes the written parts, and holds the page until written(); 0: there are none.
  __device__ __forceinline__ u64 take(u64* written) const {
    const u64 before = fetch_add(word, (u64)1, acquire_t{}, gpu);
    u64 parts = 0;
    if ((before & PAGE_DIRTY) != 0) {
      fetch_and(word, ~PAGE_DIRTY, acq_rel, gpu);
      parts = exchange(written, (u64)0, acq_rel, gpu);
    }
    if (parts == 0) release();
    return parts;
  }
  __device__ __forceinline__ void written(u64* parts, u64 failed) const {
    if (failed != 0) wrote(parts, failed);
    release();
  }

 private:
  static __device__ __forceinline__ void add_release(u64* p, u64 v) {
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
  }
};

// The cache of the instance whose task runs.
struct PageTable {
  const DevPages& pages;

  __device__ __forceinline__ PageWord word(u64 index) const { return {pages.words + index}; }
  __device__ __forceinline__ u8* bytes(u32 frame, u64 offset) const {
    return pages.bytes + ((u64)frame << pages.page_bits) + (offset & ((1ull << pages.page_bits) - 1));
  }
  // The number of the word of the page with the byte at an offset. Returns an error number, or 0. One access, because all lanes that
  // read a file make it; the task has learned of the handle after the host wrote the record.
  __device__ __forceinline__ u32 find(u32 handle, u64 offset, u64& index, u32& writable) const {
    const u32 place = handle & 0xffff;
    if (handle == 0 || place >= pages.handles) return ERRNO_BADF;
    u64 named, sized;
    load_pair((const u64*)(pages.files + place), named, sized, relaxed, gpu);
    if ((u32)named != handle) return ERRNO_BADF;
    writable = (u32)(sized >> PAGE_WRITABLE_BIT);
    if (offset >= (sized & ~(1ull << PAGE_WRITABLE_BIT))) return ERRNO_INVAL;
    index = (named >> 32) + (offset >> pages.page_bits);
    return index < pages.count ? 0 : ERRNO_BADF;
  }
  // Carries out an order of the host, which gets the answer. Orders are in the host's memory: the caller has a fence before, and
  // one after.
  __device__ __forceinline__ void carry_out(u32 number) const {
    DevPageOrder* o = pages.orders + number;
    const u64 page = load(&o->page, relaxed, sys), value = load(&o->value, relaxed, sys);
    const u32 frame = load(&o->frame, relaxed, sys), op = load(&o->op, relaxed, sys);
    if (page >= pages.count) return;
    const PageWord w = word(page);
    u64* written = pages.written + frame;
    u64 answer = 0;
    switch (op) {
      case PAGE_ORDER_FILL: w.fill(value); break;
      case PAGE_ORDER_EVICT: answer = w.evict(frame, written, 0); break;
      case PAGE_ORDER_DROP: answer = w.evict(frame, written, value != 0 ? 2 : 1); break;
      case PAGE_ORDER_TAKE: answer = w.take(written); break;
      case PAGE_ORDER_WRITTEN: w.written(written, value); break;
      default: break;
    }
    store(&o->value, answer, relaxed, sys);
  }
};

}  // namespace ew
