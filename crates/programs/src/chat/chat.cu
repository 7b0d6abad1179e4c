constexpr u64 CHAT_MEMBERS = 16;

__device__ void chat_client(ew::Actor& a, DevChatter& s, const ew::Message& m, const DevChat& p) {
  switch (m.tag()) {
    case 1:  // NUMBER
      s.number = m.word(0);
      break;
    case 2: {  // TURN
      const u64 left = m.word(0), random = programs_mix(s.number << 32 | left);
      a.tell(p.actors[p.clients + random % p.rooms], 3, programs_mix(random));
      if (left != 0) a.tell(a.id(), 2, left - 1);
      break;
    }
    default:  // POST
      s.count++;
      s.sum += m.word(0);
  }
}

__device__ void chat_room(ew::Actor& a, DevChatter& s, const ew::Message& m, const DevChat& p) {
  if (m.tag() == 1) {  // NUMBER
    s.number = m.word(0);
    return;
  }
#pragma unroll 1
  for (u64 i = 0; i < CHAT_MEMBERS; i++) {
    a.tell(p.actors[programs_mix(s.number * CHAT_MEMBERS + i) % p.clients], 3, m.word(0));
  }
}
