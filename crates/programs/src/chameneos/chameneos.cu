__device__ void chameneos_mall(ew::Actor& a, DevChameneo& s, const ew::Message& m, const DevNone&) {
  const u64 from = m.from(), colour = m.word(0);
  if (m.tag() == 1) {  // OPEN
    s.meetings = m.word(0);
    return;
  }
  // The creatures that come when all have met wait for ever, and hold nothing.
  if (s.meetings == 0) return;
  if (s.other == 0) {
    s.other = from;
    s.colour = colour;
    return;
  }
  const u64 first = s.other, its_colour = s.colour;
  s.other = 0;
  s.meetings--;
  a.tell(first, 3, from, colour);
  a.tell(from, 3, first, its_colour);
}

__device__ void chameneos_creature(ew::Actor& a, DevChameneo& s, const ew::Message& m, const DevNone&) {
  if (m.tag() == 3) {  // MEET
    s.meetings++;
    if (s.colour != m.word(1)) s.colour = 3 - s.colour - m.word(1);
    s.errors += m.word(0) == a.id();
  } else {
    s.other = m.word(0);
    s.colour = m.word(1);
  }
  a.tell(s.other, 2, s.colour);
}
