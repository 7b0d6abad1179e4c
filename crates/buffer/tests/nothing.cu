__device__ void nothing_done(ew::Lane&, const DevNone&) {}
