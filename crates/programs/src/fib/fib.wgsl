fn fib_call() {
  let n = ew_lo();
  let tag = ew_tag();
  if n < 2u { ew_report_slot(tag, n); return; }
  ew_fork_collect(FN_fib_sum, tag);
  ew_spawn_child(FN_fib_call, 0u, n - 1u, 0u);
  ew_spawn_child(FN_fib_call, 1u, n - 2u, 0u);
}

fn fib_sum() { ew_report_slot(ew_tag(), ew_lo() + ew_hi()); }
