__device__ void fib_call(ew::Lane& t, const DevNone&) {
  u32 n = t.lo(), tag = t.tag();
  if (n < 2) return t.report_slot(tag, n);
  t.fork_collect(FN_fib_sum, tag);
  t.spawn_child(FN_fib_call, 0, n - 1);
  t.spawn_child(FN_fib_call, 1, n - 2);
}

__device__ void fib_sum(ew::Lane& t, const DevNone&) { t.report_slot(t.tag(), t.lo() + t.hi()); }
