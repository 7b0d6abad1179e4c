template <class A>
__device__ __forceinline__ void actor_services_handle(A& a, DevAgent& s, const ew::Message& m) {
  const u64 w0 = m.word(0), w1 = m.word(1);
  if (m.down() != ew::NONE) {
    s.downs += 1 + 1000ull * m.down();
    s.last = w0;
    return;
  }
  if (m.is_reply()) {
    if (m.failure() == ew::NONE) s.replies++;
    else if (m.failure() == DEAD_TIMEOUT) s.timeouts++;
    else s.failures++;
    s.last = m.ask();
    return;
  }
  switch (m.tag()) {
    case 1:  // ADD
      s.sum += w0;
      break;
    case 2:  // GET
      a.reply(2, s.sum, s.ticks, s.downs, s.disorder);
      break;
    case 3:  // LINK_TO
      s.other = w0;
      break;
    case 4:  // MONITOR
      a.monitor(w0, w1);
      break;
    case 5:  // DEMONITOR
      a.demonitor(w0);
      break;
    case 6:  // LINK
      a.link(w0);
      break;
    case 7:  // UNLINK
      a.unlink(w0);
      break;
    case 8:  // ASK_WITHIN
      a.ask_within(s.other, 2, w0, w1);
      break;
    case 9:  // AFTER
      s.timer = a.after(w0, 12, w1);
      break;
    case 10:  // EVERY
      s.timer = a.every(w0, 12, w1);
      break;
    case 11:  // CANCEL
      a.cancel(s.timer);
      break;
    case 12:  // TICK
      // Each is later than the one before it.
      s.disorder += w0 < s.last;
      s.last = w0;
      s.ticks++;
      break;
    case 13:  // STOP
      a.stop();
      break;
    case 14:  // FAIL
      a.tell(s.other, 1, 1);
      a.monitor(s.other, s.passed++);
      a.fail();
      break;
    case 15:  // PASS
      a.monitor(s.other, s.passed++);
      a.monitor(s.other, s.passed++);
      a.tell(s.other, 1, w0);
      break;
  }
}

__device__ void actor_services_agent(ew::Actor& a, DevAgent& s, const ew::Message& m, const DevNone&) {
  actor_services_handle(a, s, m);
}
__device__ void actor_services_careful(ew::Actor& a, DevAgent& s, const ew::Message& m, const DevNone&) {
  actor_services_handle(a, s, m);
}
