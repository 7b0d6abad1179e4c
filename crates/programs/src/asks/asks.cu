__device__ void asks_asker(ew::Actor& a, DevAsker& s, const ew::Message& m, const DevNone&) {
  if (!m.is_reply()) {
    s.other = m.word(0);
    s.left = m.word(1);
  } else if (m.failure() == ew::NONE) {
    s.count++;
    s.sum += m.word(0);
  }
  if (s.left != 0) {
    s.left--;
    a.ask(s.other, 0, 0);
  }
}

__device__ void asks_asked(ew::Actor& a, DevAsker& s, const ew::Message&, const DevNone&) {
  s.count++;
  a.reply(0, s.count);
}
