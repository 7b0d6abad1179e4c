__device__ void ring_member(ew::Actor& a, DevRingMember& s, const ew::Message& m, const DevNone&) {
  if (m.tag() == 1) s.next = m.word(0);
  else if (m.word(0) == 0) s.ended++;
  else a.tell(s.next, 2, m.word(0) - 1);
}
