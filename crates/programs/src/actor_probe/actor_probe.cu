__device__ __forceinline__ void actor_probe_node(ew::Actor& a, DevProbeNode& s, const ew::Message& m) {
  if (m.is_reply()) {
    if (m.failure() != ew::NONE) s.errors += 1000 + m.failure();
    else if (m.ask() == 77) s.sum += m.word(0);
    else s.errors++;
    return;
  }
  const u64 w0 = m.word(0), w1 = m.word(1), end = m.word(2);
  switch (m.tag()) {
    case 4:  // PASS
      if (w1 > 0) {
        a.tell(s.next, 4, w0, w1 - 1);
        break;
      }
    case 1:  // ADD
      s.sum += w0;
      s.count++;
      break;
    case 2:  // GET
      a.reply(2, s.sum, s.count, s.errors);
      break;
    case 10:  // FORWARD
      if (s.next == 0) a.reply(2, s.sum, s.count, s.errors);
      else a.forward(s.next);
      break;
    case 3:  // LINK
      s.next = w0;
      break;
    case 5: {  // BURST
      u64 at = w1;
#pragma unroll 1
      for (u32 i = 0; i < 3 && at < end; i++) a.tell(s.next, 6, w0, at++);
      if (at < end) a.tell(a.id(), 5, w0, at, end);
      break;
    }
    case 6: {  // NUMBER
      u64& expected = s.expected[w0 & 3];
      s.errors += expected != w1;
      expected = w1 + 1;
      s.count++;
      break;
    }
    case 7:  // FAIL
      a.fail();
      break;
    case 8:  // STOP
      a.stop();
      break;
    case 9:  // QUIET
      break;
    case 11: {  // LAUNCH
      const u64 child = a.launch((u32)w0);
      a.tell(child, 1, w1);
      s.next = child;
      break;
    }
    case 12:  // ASK
      a.ask(s.next, 2, 77);
      break;
    case 13:  // KILL
      a.kill(s.next);
      break;
    case 14:  // STOP_LATER
      a.stop_later(s.next);
      break;
    case 15:  // TOO_MANY
#pragma unroll 1
      for (u32 i = 0; i < 5; i++) a.tell(s.next, 1, (u64)i);
      break;
    case 16:  // TRY
      s.errors += !a.try_tell(s.next, 1, w0);
      break;
    default:
      s.errors += 1000000;
  }
}

__device__ void actor_probe_narrow(ew::Actor& a, DevProbeNode& s, const ew::Message& m, const DevNone&) {
  actor_probe_node(a, s, m);
}
__device__ void actor_probe_wide(ew::Actor& a, DevProbeNode& s, const ew::Message& m, const DevNone&) {
  actor_probe_node(a, s, m);
}
