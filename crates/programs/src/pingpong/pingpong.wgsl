fn pingpong_ping() {
  if ew_lo() == 0u { ew_report_slot(0u, 1u); } else { ew_spawn(FN_pingpong_pong, 0u, ew_lo() - 1u, 0u); }
}

fn pingpong_pong() {
  if ew_lo() == 0u { ew_report_slot(0u, 2u); } else { ew_spawn(FN_pingpong_ping, 0u, ew_lo() - 1u, 0u); }
}

fn pingpong_level() {
  if ew_lo() == 0u {
    if ew_thread == 0u { ew_report_slot(0u, 1u); }
    return;
  }
  ew_fork(FN_pingpong_level, 0u, ew_lo() - 1u, 0u);
  if ew_thread < 32u { ew_spawn_child(FN_pingpong_leaf, 0u, 0u, 0u); }
}

fn pingpong_leaf() {}
