__device__ void epidemic_agent(ew::Actor& a, DevAgent& s, const ew::Message& m, const DevEpidemic& p) {
  constexpr u64 OUTSIDE = ~0ull, WARDS = 64;
  constexpr u32 MEETINGS = 10;
  const u64 day = m.word(0);
  if (m.tag() == 3) {  // MEET
    const u64 number = m.word(1), random = programs_mix(number << 20 | day);
#pragma unroll 1
    for (u32 i = 0; i < MEETINGS; i++) {
      const u64 other = programs_mix(random + i) % p.count;
      a.tell(p.agents[other], 4, day, number, other);
    }
    return;
  }
  // MET
  if (s.since != 0) return;
  const u64 from = m.word(1), number = m.word(2);
  if (from == OUTSIDE || programs_mix(programs_mix(from << 32 | number) + day) >> 32 < p.risk) {
    s.since = day + 1;
    a.tell(p.wards[number % WARDS], 5, number, day);
  }
}

__device__ void epidemic_ward(ew::Actor& a, DevAgent& s, const ew::Message& m, const DevEpidemic& p) {
  constexpr u64 BEGIN = ~0ull, INFECTIOUS = 5;
  constexpr u32 AT_A_TIME = 16;
  u64* list = p.lists + s.since * p.capacity;
  if (m.tag() == 1) {  // NUMBER
    s.since = m.word(0);
    return;
  }
  if (m.tag() == 5) {  // INFECTED
    list[s.listed++] = m.word(0) | m.word(1) << 32;
    return;
  }
  // DAY
  const u64 day = m.word(0);
  u64 at = m.word(1);
  if (at == BEGIN) {
    // The list is in the order of days.
    while (s.first < s.listed && (list[s.first] >> 32) + INFECTIOUS < day) s.first++;
    at = s.first;
  }
#pragma unroll 1
  for (u32 i = 0; i < AT_A_TIME; i++, at++) {
    // The others were infected today.
    if (at >= s.listed || list[at] >> 32 >= day) return;
    const u64 number = list[at] & 0xffffffff;
    a.tell(p.agents[number], 3, day, number);
  }
  a.tell(a.id(), 2, day, at);
}
