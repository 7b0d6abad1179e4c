__device__ void noop_nothing(ew::Lane&, const DevNone&) {}
