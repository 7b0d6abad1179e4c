__device__ __forceinline__ void actor_faults_handle(ew::Actor& a, DevFaulty& s, const ew::Message& m, const DevFaults& p) {
  if (m.is_reply()) {
    s.replies += m.failure() != ew::NONE ? 1000 : 1;
    return;
  }
  const u64 w0 = m.word(0), w1 = m.word(1);
  switch (m.tag()) {
    case 1:  // ADD
      s.sum += w0;
      break;
    case 2:  // GET
      a.reply(2, s.sum, s.replies);
      break;
    case 3:  // LINK
      s.other = w0;
      break;
    case 4:  // FAIL_LATE
    case 8:  // PASS
      s.sum += w0;
      a.tell(s.other, 1, w0);
      a.reply(m.tag(), 1);
      if (m.tag() == 4) a.fail();
      break;
    case 5:  // FAIL_FORWARD
      s.sum += w0;
      a.forward(s.other);
      a.fail();
      break;
    case 6:  // FAIL_ASK
      s.sum += w0;
      a.ask(s.other, 2, 0);
      a.fail();
      break;
    case 7:  // ASK
      a.ask(s.other, (u32)w0, 0, 7);
      break;
    case 9: {  // FAIL_UP_TO
      const u64 call = ++p.calls[w1];
      s.sum += w0;
      a.tell(s.other, 1, 1);
      a.reply(9, call);
      if (call <= m.word(2)) a.fail();
      break;
    }
    case 10:  // FAIL_ONCE
      if (s.other == 0) {
        a.reply(10, w1);
      } else if (++p.calls[w0] == 1) {
        a.reply(10, 77, 78);
        a.fail();
      } else {
        a.forward(s.other);
      }
  }
}

__device__ void actor_faults_ends(ew::Actor& a, DevFaulty& s, const ew::Message& m, const DevFaults& p) {
  actor_faults_handle(a, s, m, p);
}
__device__ void actor_faults_careful(ew::Actor& a, DevFaulty& s, const ew::Message& m, const DevFaults& p) {
  actor_faults_handle(a, s, m, p);
}
__device__ void actor_faults_atomic(ew::Actor& a, DevFaulty& s, const ew::Message& m, const DevFaults& p) {
  actor_faults_handle(a, s, m, p);
}
__device__ void actor_faults_stubborn(ew::Actor& a, DevFaulty& s, const ew::Message& m, const DevFaults& p) {
  actor_faults_handle(a, s, m, p);
}
__device__ void actor_faults_patient(ew::Actor& a, DevFaulty& s, const ew::Message& m, const DevFaults& p) {
  actor_faults_handle(a, s, m, p);
}
__device__ void actor_faults_latest(ew::Actor& a, DevFaulty& s, const ew::Message& m, const DevFaults& p) {
  actor_faults_handle(a, s, m, p);
}
