template <class A>
__device__ __forceinline__ void actor_groups_handle(A& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  if (m.down() != ew::NONE) {
    s.downs += 1 + 1000ull * m.down();
    return;
  }
  const u64 w0 = m.word(0), w1 = m.word(1);
  s.handled++;
  switch (m.tag()) {
    case 1:  // ADD
      s.sum += w0;
      break;
    case 2:  // GET
      a.reply(2, s.sum, s.handled, s.downs);
      break;
    case 3:  // LINK_TO
      s.other = w0;
      break;
    case 4:  // FAIL
      s.sum += w0;
      a.tell(s.other, 1, w0);
      a.fail();
      break;
    case 5:  // STOP
      a.stop();
      break;
    case 6: {  // FAIL_UP_TO
      const u64 call = ++p.calls[w0];
      if (m.word(2) != 0) a.reply(6, call);
      if (call <= w1) {
        a.fail();
      } else {
        s.sum += call;
        a.reply(6, call);
      }
      break;
    }
    case 7:  // MONITOR
      a.monitor(w0, 5);
      break;
    case 8:  // FAIL_AND_STOP
      a.stop();
      a.fail();
      break;
  }
}

__device__ void actor_groups_member(ew::Actor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_handle(a, s, m, p);
}
__device__ void actor_groups_careful(ew::Actor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_handle(a, s, m, p);
}
__device__ void actor_groups_stubborn(ew::Actor& a, DevMember& s, const ew::Message& m, const DevGroupParams& p) {
  actor_groups_handle(a, s, m, p);
}
