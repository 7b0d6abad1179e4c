__device__ void skynet_node(ew::Actor& a, DevSkynetNode& s, const ew::Message& m, const DevNone&) {
  if (m.tag() == 1 && m.word(1) > 1) {
    const u64 first = m.word(0), size = m.word(1);
    const u32 parts = (u32)min(size, 10ull);
    // The children's numbers, before any of them can answer.
    s.pending = parts;
#pragma unroll 1
    for (u32 i = 0; i < parts; i++) {
      const u64 from = size * i / parts, to = size * (i + 1) / parts;
      a.tell(a.launch(0), 1, first + from, to - from);
    }
    return;
  }
  if (m.tag() == 2) {
    s.pending--;
    s.sum += m.word(0);
  } else {
    // A leaf; or nothing at all.
    s.sum = m.word(0) * m.word(1);
  }
  const u64 parent = a.parent();
  if (s.pending == 0 && parent != 0) {
    a.tell(parent, 2, s.sum);
    a.stop();
  }
}
