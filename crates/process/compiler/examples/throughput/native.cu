// The measured programs, as a CUDA programmer writes them: guest.rs has the same functions, statement for statement.
// Each thread has as many words as an instance, at the same distance from the words of the next thread.
using u32 = unsigned int;
using u64 = unsigned long long;
using Vector = double[3];

// A function's local array. With IN_MEMORY it is in the thread's words, where a guest has the arrays that its compiler
// cannot keep in variables; otherwise the CUDA compiler chooses its place.
#ifdef IN_MEMORY
#define ARRAY(type, name, count, offset) \
  type* name = reinterpret_cast<type*>(reinterpret_cast<char*>(memory) + 16384 + offset)
#else
#define ARRAY(type, name, count, offset) type name[count]
#endif

static __device__ u32 next(u32& state) {
  state = state * 1664525u + 1013904223u;
  return state ^ (state >> 16);
}

static __device__ u64 mix(u32*, u32 seed, u32 rounds) {
  u64 hash = seed;
  for (u32 i = 0; i < rounds; ++i) {
    hash ^= i;
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdull;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ull;
    hash ^= hash >> 33;
  }
  return hash;
}

static __device__ u64 table(u32* slots, u32 seed, u32 rounds) {
  for (u32 i = 0; i < 4096; ++i) slots[i] = 0;
  u32 state = seed;
  u64 probes = 0;
  for (u32 i = 0; i < rounds; ++i) {
    u32 key = next(state) % 2048 + 1;
    u32 at = key * 0x9e3779b1u >> 20;
    for (;;) {
      ++probes;
      u32& slot = slots[at];
      if ((slot & 0xfff) == 0) slot = key;
      if ((slot & 0xfff) == key) {
        slot += 1u << 12;
        break;
      }
      at = (at + 1) % 4096;
    }
  }
  u64 sum = probes;
  for (u32 i = 0; i < 4096; ++i) sum += u64(i) * slots[i];
  return sum;
}

static __constant__ u32 K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static __device__ u32 rotate(u32 x, int by) { return x >> by | x << (32 - by); }

static __device__ u64 sha256(u32* memory, u32 seed, u32 blocks) {
  u32 state = seed;
  for (u32 i = 0; i < blocks * 16; ++i) memory[i] = next(state);
  u32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (u32 block = 0; block < blocks; ++block) {
    ARRAY(u32, w, 64, 0);
    for (int i = 0; i < 16; ++i) w[i] = memory[16 * block + i];
    for (int i = 16; i < 64; ++i) {
      u32 a = w[i - 15], b = w[i - 2];
      u32 s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3);
      u32 s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    u32 v[8];
    for (int i = 0; i < 8; ++i) v[i] = h[i];
    for (int i = 0; i < 64; ++i) {
      u32 s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
      u32 choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      u32 t1 = v[7] + s1 + choice + K[i] + w[i];
      u32 s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
      u32 majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
      u32 t2 = s0 + majority;
      v[7] = v[6], v[6] = v[5], v[5] = v[4], v[4] = v[3] + t1;
      v[3] = v[2], v[2] = v[1], v[1] = v[0], v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i) h[i] += v[i];
  }
  return u64(h[0]) << 32 | h[7];
}

static __device__ void sift(u32* heap, u32 at, u32 end) {
  for (;;) {
    u32 child = 2 * at + 1;
    if (child >= end) return;
    if (child + 1 < end && heap[child] < heap[child + 1]) ++child;
    if (heap[at] >= heap[child]) return;
    u32 other = heap[at];
    heap[at] = heap[child];
    heap[child] = other;
    at = child;
  }
}

static __device__ u64 sort(u32* items, u32 seed, u32 count) {
  u32 state = seed;
  for (u32 i = 0; i < count; ++i) items[i] = next(state);
  for (u32 at = count / 2; at-- > 0;) sift(items, at, count);
  for (u32 end = count; end-- > 1;) {
    u32 other = items[0];
    items[0] = items[end];
    items[end] = other;
    sift(items, 0, end);
  }
  u64 sum = 0;
  for (u32 i = 0; i < count; ++i) sum += u64(i) * items[i];
  return sum;
}

static __device__ u64 collatz(u32*, u32 seed, u32 rounds) {
  u32 state = seed;
  u64 steps = 0;
  for (u32 i = 0; i < rounds; ++i) {
    u64 number = next(state) % 65536 + 1;
    while (number != 1) {
      number = (number & 1) == 0 ? number / 2 : 3 * number + 1;
      ++steps;
    }
  }
  return steps;
}

static __device__ u64 nbody(u32* memory, u32 seed, u32 steps) {
  u32 state = seed;
  ARRAY(Vector, at, 5, 0);
  ARRAY(Vector, speed, 5, 128);
  ARRAY(double, mass, 5, 256);
  for (int i = 0; i < 5; ++i) {
    for (int d = 0; d < 3; ++d) {
      at[i][d] = double(next(state)) / 4294967296.0 + double(i);
      speed[i][d] = double(next(state)) / 4294967296.0 - 0.5;
    }
    mass[i] = double(next(state)) / 4294967296.0 + 0.5;
  }
  for (u32 step = 0; step < steps; ++step) {
    for (int i = 0; i < 5; ++i) {
      for (int j = i + 1; j < 5; ++j) {
        double dx = at[i][0] - at[j][0], dy = at[i][1] - at[j][1], dz = at[i][2] - at[j][2];
        double square = dx * dx + dy * dy + dz * dz + 0.01;
        double force = 0.001 / (square * square);
        double mi = mass[i] * force, mj = mass[j] * force;
        speed[i][0] -= dx * mj, speed[i][1] -= dy * mj, speed[i][2] -= dz * mj;
        speed[j][0] += dx * mi, speed[j][1] += dy * mi, speed[j][2] += dz * mi;
      }
    }
    for (int i = 0; i < 5; ++i)
      for (int d = 0; d < 3; ++d) at[i][d] += 0.001 * speed[i][d];
  }
  return u64(__double_as_longlong(at[0][0]));
}

static __device__ u32 write_text(unsigned char* text, u32& state, u32 length) {
  u32 at = 1, depth = 1;
  text[0] = '[';
  while (depth > 0) {
    u32 choice = next(state) % 8;
    if (at >= length || (choice == 0 && depth > 1)) {
      text[at] = ']';
      ++at, --depth;
    } else if (choice < 3 && depth < 12) {
      text[at] = '[';
      ++at, ++depth;
    } else {
      u32 first = choice < 6 ? '0' : 'a';
      for (u32 i = 0, count = 1 + next(state) % 6; i < count; ++i) text[at++] = first + next(state) % 10;
      text[at++] = ' ';
    }
  }
  return at;
}

static __device__ u64 list(const unsigned char* text, u32& at, u32 depth) {
  u64 value = depth;
  for (;;) {
    u32 byte = text[at++];
    if (byte == '[') {
      value = value * 31 + list(text, at, depth + 1);
    } else if (byte == ']') {
      return value;
    } else if (byte >= '0' && byte <= '9') {
      u32 number = byte - '0';
      while (text[at] - u32('0') < 10) number = 10 * number + text[at++] - '0';
      value += number;
    } else if (byte >= 'a' && byte <= 'z') {
      u32 hash = 0x811c9dc5 ^ byte;
      while (text[at] - u32('a') < 26) hash = hash * 0x01000193 ^ text[at++];
      value ^= hash;
    }
  }
}

static __device__ u64 parse(u32* memory, u32 seed, u32 length) {
  unsigned char* text = reinterpret_cast<unsigned char*>(memory);
  u32 state = seed, end = write_text(text, state, length);
  u64 value = 0;
  for (int i = 0; i < 8; ++i) {
    u32 at = 1;
    value = value * 31 + list(text, at, 1);
    value += at == end;
  }
  return value;
}

static __device__ u64 bfs(u32* edges, u32 seed, u32 sources) {
  const u32 vertices = 512, degree = 4;
  u32 *distances = edges + vertices * degree, *queue = distances + vertices;
  u32 state = seed;
  u64 sum = 0;
  for (u32 edge = 0; edge < vertices * degree; ++edge) edges[edge] = next(state) % vertices;
  for (u32 source = 0; source < sources; ++source) {
    for (u32 vertex = 0; vertex < vertices; ++vertex) distances[vertex] = ~0u;
    u32 head = 0, tail = 1;
    queue[0] = source;
    distances[source] = 0;
    while (head < tail) {
      u32 vertex = queue[head++], distance = distances[vertex];
      sum += distance;
      for (u32 edge = vertex * degree; edge < (vertex + 1) * degree; ++edge) {
        u32 other = edges[edge];
        if (distances[other] == ~0u) {
          distances[other] = distance + 1;
          queue[tail++] = other;
        }
      }
    }
  }
  return sum;
}

enum { PUSH, LOAD, STORE, ADD, MULTIPLY, HALF, ODD, SUBTRACT, JUMP, JUMP_ZERO, HALT };
#define OP(what, number) (what | number << 8)
static __constant__ u32 CODE[34] = {
    OP(LOAD, 1), OP(JUMP_ZERO, 33),
    OP(LOAD, 1), OP(PUSH, 1), OP(SUBTRACT, 0), OP(STORE, 1),
    OP(LOAD, 0),
    OP(STORE, 3), OP(LOAD, 3), OP(PUSH, 1), OP(SUBTRACT, 0), OP(JUMP_ZERO, 28),
    OP(LOAD, 2), OP(PUSH, 1), OP(ADD, 0), OP(STORE, 2),
    OP(LOAD, 3), OP(ODD, 0), OP(JUMP_ZERO, 25),
    OP(LOAD, 3), OP(PUSH, 3), OP(MULTIPLY, 0), OP(PUSH, 1), OP(ADD, 0), OP(JUMP, 7),
    OP(LOAD, 3), OP(HALF, 0), OP(JUMP, 7),
    OP(LOAD, 0), OP(PUSH, 7), OP(ADD, 0), OP(STORE, 0), OP(JUMP, 0),
    OP(HALT, 0),
};

static __device__ u64 vm(u32* words, u32 seed, u32 numbers) {
  u32 *variables = words + 64, *top = words + 128;
  for (u32 at = 0; at < 34; ++at) words[at] = CODE[at];
  u32 state = seed;
  variables[0] = next(state) % 4096 + 1;
  variables[1] = numbers;
  variables[2] = 0;
  for (u32 at = 0;;) {
    u32 word = words[at], number = word >> 8;
    ++at;
    switch (word & 0xff) {
      case PUSH: *top++ = number; break;
      case LOAD: *top++ = variables[number]; break;
      case STORE: variables[number] = *--top; break;
      case ADD: --top, top[-1] += *top; break;
      case MULTIPLY: --top, top[-1] *= *top; break;
      case HALF: top[-1] >>= 1; break;
      case ODD: top[-1] &= 1; break;
      case SUBTRACT: --top, top[-1] -= *top; break;
      case JUMP: at = number; break;
      case JUMP_ZERO: if (*--top == 0) at = number; break;
      default: return variables[2];
    }
  }
}

// Thread i has its words at memory + i * stride. It takes arguments and returns results like an instance.
#define KERNEL(name)                                                                                \
  extern "C" __global__ void native_##name(char* memory, u64 stride, u32 count, const u64* args, \
                                           u64* results) {                                        \
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;                                                \
    if (i < count)                                                                                \
      results[i] = name(reinterpret_cast<u32*>(memory + i * stride), u32(args[2 * i]),            \
                        u32(args[2 * i + 1]));                                                    \
  }
KERNEL(mix)
KERNEL(table)
KERNEL(sha256)
KERNEL(sort)
KERNEL(collatz)
KERNEL(nbody)
KERNEL(parse)
KERNEL(bfs)
KERNEL(vm)
