__device__ void philosophers_philosopher(ew::Actor& a, DevDiner& s, const ew::Message& m, const DevNone&) {
  if (m.tag() == 1) {  // SIT
    s.first = m.word(0);
    s.second = m.word(1);
    s.left = m.word(2);
    if (s.left == 0) return;
  } else {
    s.held++;
  }
  if (s.held == 1) {
    a.tell(s.second, 2);
    return;
  }
  bool hungry = true;
  if (s.held == 2) {
    s.held = 0;
    s.count++;
    s.left--;
    hungry = s.left != 0;
    a.tell(s.second, 4);
    a.tell(s.first, 4);
  }
  if (hungry) a.tell(s.first, 2);
}

__device__ void philosophers_fork(ew::Actor& a, DevDiner& s, const ew::Message& m, const DevNone&) {
  const u64 from = m.from();
  if (m.tag() == 2) {  // TAKE
    if (s.first != 0) {
      // Only two philosophers use a fork, so at most one waits.
      s.held += s.second != 0 || s.first == from;
      s.second = from;
      return;
    }
    s.first = from;
  } else {  // PUT_BACK
    s.held += s.first != from;
    s.first = s.second;
    s.second = 0;
  }
  if (s.first != 0) {
    s.count++;
    a.tell(s.first, 3);
  }
}
