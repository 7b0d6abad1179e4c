template <class A>
__device__ __forceinline__ void actor_broker_work(A& a, DevPorter& s, const ew::Message& m) {
  const u64 w0 = m.word(0), w1 = m.word(1);
  if (!m.is_reply()) {
    switch (m.tag()) {
      case 1:  // RECEIVE
        a.template receive_on<DevJob>(w0, w1);
        break;
      case 2:  // SEND
        a.send_on(w0, DevJob{m.word(2), ew::value_of<double>(m.words + 3), 7, 0}, w1);
        break;
      case 3:  // CLOSE
        a.close_channel(w0);
        break;
      case 4:  // WRONG
        a.template receive_on<double>(w0, 0);
        break;
      case 5:  // PIPE
        s.from = w0;
        s.to = w1;
        a.template receive_on<DevJob>(w0, 0);
        break;
    }
    return;
  }
  s.numbers += m.ask();
  if (m.failure() == DEAD_DROPPED) {
    s.refused++;
  } else if (m.failure() != ew::NONE) {
    s.closed++;
    if (s.to != 0) a.close_channel(s.to);
  } else if (m.ask() % 2 == 1) {
    s.sent++;
    if (s.to != 0) a.template receive_on<DevJob>(s.from, 0);
  } else {
    DevJob job = m.value<DevJob>();
    s.received++;
    s.sum += job.number;
    s.weight += job.weight;
    s.disorder += job.number < s.last;
    s.last = job.number;
    job.weight *= 2.0;
    job.sender++;
    if (s.to != 0) a.send_on(s.to, job, 1);
  }
}
__device__ void actor_broker_worker(ew::Actor& a, DevPorter& s, const ew::Message& m, const DevNone&) {
  actor_broker_work(a, s, m);
}

__device__ __forceinline__ void actor_broker_keep(ew::Actor& a, DevBroker& s) {
  const u64 kept = a.keep();
  if (kept != 0 && s.count < 8) s.kept[s.count++] = kept;
}
__device__ __forceinline__ void actor_broker_serve(ew::Actor& a, DevBroker& s, const ew::Message& m) {
  const u64 count = m.word(0) < s.count ? m.word(0) : s.count;
  for (u32 i = 0; i < count; i++) a.reply_kept(s.kept[i], 1, m.word(1) + i, s.kept[i]);
  s.count -= count;
  for (u32 i = 0; i < s.count; i++) s.kept[i] = s.kept[i + count];
}
__device__ __forceinline__ void actor_broker_handle(ew::Actor& a, DevBroker& s, const ew::Message& m) {
  const u32 tag = m.tag();
  switch (tag) {
    case 1:  // WAIT
    case 4:  // WAIT_AND_FAIL
      actor_broker_keep(a, s);
      break;
    case 2:  // SERVE
    case 5:  // SERVE_AND_FAIL
      actor_broker_serve(a, s, m);
      break;
    case 3:  // COUNT
      a.reply(3, s.count, a.kept());
      break;
    case 6:  // AFTER
      s.timer = a.after(m.word(0), 8);
      break;
    case 7:  // CANCEL
      a.cancel(s.timer);
      s.timer = 0;
      break;
    case 8:  // TICK
      s.ticks++;
      s.strange += m.timer() != s.timer;
      break;
  }
  if (tag == 4 || tag == 5) a.fail();
}
__device__ void actor_broker_broker(ew::Actor& a, DevBroker& s, const ew::Message& m, const DevNone&) {
  actor_broker_handle(a, s, m);
}
__device__ void actor_broker_careful(ew::Actor& a, DevBroker& s, const ew::Message& m, const DevNone&) {
  actor_broker_handle(a, s, m);
}

template <class A>
__device__ __forceinline__ void actor_broker_carry(A& a, DevCarrier& s, const ew::Message& m) {
  const u32 tag = m.tag();
  if (tag == 1) {  // NEXT
    s.next = m.word(0);
    return;
  }
  s.count++;
  s.plain += !m.has_payload();
  if (tag == 2) {  // FRAME
    u32* data = m.data<u32>();
    s.elements += m.length();
    for (u32 i = 0; i < m.length(); i++) s.sum += data[i]++;
    if (s.next != 0 && m.has_payload()) a.pass_on(s.next, 2, m.word(0) + 1);
    return;
  }
  // FORWARD, FORWARD_AND_FAIL and TWICE
  for (u32 i = tag == 6 ? 2 : tag == 3 || tag == 4; i > 0; i--) a.forward(s.next);
  if (tag == 4 || tag == 5) a.fail();
}
__device__ void actor_broker_carrier(ew::Actor& a, DevCarrier& s, const ew::Message& m, const DevNone&) {
  actor_broker_carry(a, s, m);
}
__device__ void actor_broker_steady(ew::Actor& a, DevCarrier& s, const ew::Message& m, const DevNone&) {
  actor_broker_carry(a, s, m);
}
