__device__ void big_peer(ew::Actor& a, DevPeer& s, const ew::Message& m, const DevBig& p) {
  const u64 left = m.word(0), seed = m.word(1);
  s.handled++;
  if (left == 0) {
    s.ended++;
    return;
  }
  const u64 next = p.peers[(seed >> 32) * p.count >> 32];
  a.tell(next, 0, left - 1, seed * 6364136223846793005ull + 1442695040888963407ull);
}
