//! The measured programs, as guests: `native.cu` has the same functions, statement for statement. Each program becomes
//! a separate module that exports one function, selected for example by `--cfg 'program="sort"'`.
#![no_std]
#![no_main]

use core::cell::UnsafeCell;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// Words in linear memory. An instance runs in one thread, so no other thread accesses them.
struct Words(UnsafeCell<[u32; 4096]>);
// SAFETY: the instance has only one thread.
unsafe impl Sync for Words {}
static WORDS: Words = Words(UnsafeCell::new([0; 4096]));

/// Access without the language's own bounds checks, which CUDA C++ does not have either. The host requests no work
/// that reaches beyond the words.
impl Words {
    fn get(&self, at: u32) -> u32 {
        // SAFETY: no host asks for more than 4,096 words.
        unsafe { *self.0.get().cast::<u32>().add(at as usize) }
    }
    fn set(&self, at: u32, word: u32) {
        // SAFETY: as above; no reference to the words exists.
        unsafe { *self.0.get().cast::<u32>().add(at as usize) = word }
    }
    fn byte(&self, at: u32) -> u32 {
        // SAFETY: there are four times as many bytes.
        unsafe { u32::from(*self.0.get().cast::<u8>().add(at as usize)) }
    }
    fn set_byte(&self, at: u32, byte: u32) {
        // SAFETY: as above.
        unsafe { *self.0.get().cast::<u8>().add(at as usize) = byte as u8 }
    }
}

fn next(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state ^ (*state >> 16)
}

/// Integer hashing in registers: the finalizer of MurmurHash3, `rounds` times.
#[cfg_attr(program = "mix", unsafe(no_mangle))]
pub extern "C" fn mix(seed: u32, rounds: u32) -> u64 {
    let mut hash = u64::from(seed);
    for i in 0..rounds {
        hash ^= u64::from(i);
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^= hash >> 33;
    }
    hash
}

/// A hash table with open addressing: `rounds` keys are counted in 4,096 slots.
#[cfg_attr(program = "table", unsafe(no_mangle))]
pub extern "C" fn table(seed: u32, rounds: u32) -> u64 {
    for at in 0..4096 {
        WORDS.set(at, 0);
    }
    let (mut state, mut probes) = (seed, 0u64);
    for _ in 0..rounds {
        let key = (next(&mut state) % 2048) + 1;
        let mut at = key.wrapping_mul(0x9e37_79b1) >> 20;
        loop {
            probes += 1;
            if WORDS.get(at) & 0xfff == 0 {
                WORDS.set(at, key);
            }
            if WORDS.get(at) & 0xfff == key {
                WORDS.set(at, WORDS.get(at).wrapping_add(1 << 12));
                break;
            }
            at = (at + 1) % 4096;
        }
    }
    sum(4096).wrapping_add(probes)
}

fn sum(count: u32) -> u64 {
    let term = |i| u64::from(i).wrapping_mul(u64::from(WORDS.get(i)));
    (0..count).map(term).fold(0, u64::wrapping_add)
}

const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// SHA-256 of `blocks` blocks of random words, without padding.
#[cfg_attr(program = "sha256", unsafe(no_mangle))]
pub extern "C" fn sha256(seed: u32, blocks: u32) -> u64 {
    let mut state = seed;
    for i in 0..blocks * 16 {
        WORDS.set(i, next(&mut state));
    }
    let mut h = [
        0x6a09e667_u32,
        0xbb67ae85,
        0x3c6ef372,
        0xa54ff53a,
        0x510e527f,
        0x9b05688c,
        0x1f83d9ab,
        0x5be0cd19,
    ];
    for block in 0..blocks {
        let mut w = [0u32; 64];
        for i in 0..16 {
            w[i] = WORDS.get(16 * block + i as u32);
        }
        for i in 16..64 {
            let (a, b) = (w[i - 15], w[i - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            w[i] = (w[i - 16].wrapping_add(s0))
                .wrapping_add(w[i - 7])
                .wrapping_add(s1);
        }
        let mut v = h;
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 = (v[7].wrapping_add(s1))
                .wrapping_add(choice)
                .wrapping_add(K[i])
                .wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            let t2 = s0.wrapping_add(majority);
            v = [
                t1.wrapping_add(t2),
                v[0],
                v[1],
                v[2],
                v[3].wrapping_add(t1),
                v[4],
                v[5],
                v[6],
            ];
        }
        for i in 0..8 {
            h[i] = h[i].wrapping_add(v[i]);
        }
    }
    (u64::from(h[0]) << 32) | u64::from(h[7])
}

fn swap(a: u32, b: u32) {
    let (x, y) = (WORDS.get(a), WORDS.get(b));
    WORDS.set(a, y);
    WORDS.set(b, x);
}

fn sift(mut at: u32, end: u32) {
    loop {
        let mut child = 2 * at + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && WORDS.get(child) < WORDS.get(child + 1) {
            child += 1;
        }
        if WORDS.get(at) >= WORDS.get(child) {
            return;
        }
        swap(at, child);
        at = child;
    }
}

/// Heapsort of `count` random words.
#[cfg_attr(program = "sort", unsafe(no_mangle))]
pub extern "C" fn sort(seed: u32, count: u32) -> u64 {
    let mut state = seed;
    for i in 0..count {
        WORDS.set(i, next(&mut state));
    }
    for at in (0..count / 2).rev() {
        sift(at, count);
    }
    for end in (1..count).rev() {
        swap(0, end);
        sift(0, end);
    }
    sum(count)
}

/// The Collatz steps from random numbers down to 1: loops whose number of rounds differs between instances.
#[cfg_attr(program = "collatz", unsafe(no_mangle))]
pub extern "C" fn collatz(seed: u32, rounds: u32) -> u64 {
    let (mut state, mut steps) = (seed, 0u64);
    for _ in 0..rounds {
        let mut number = u64::from(next(&mut state) % 65_536) + 1;
        while number != 1 {
            number = match number & 1 {
                0 => number / 2,
                _ => 3 * number + 1,
            };
            steps += 1;
        }
    }
    steps
}

/// Five bodies that attract each other, by the inverse cube because the core library has no square root: `steps` steps
/// in double precision. Returns the bits of one coordinate.
#[cfg_attr(program = "nbody", unsafe(no_mangle))]
pub extern "C" fn nbody(seed: u32, steps: u32) -> u64 {
    let mut state = seed;
    let mut at = [[0f64; 3]; 5];
    let mut speed = [[0f64; 3]; 5];
    let mut mass = [0f64; 5];
    for i in 0..5 {
        for d in 0..3 {
            at[i][d] = f64::from(next(&mut state)) / 4294967296.0 + i as f64;
            speed[i][d] = f64::from(next(&mut state)) / 4294967296.0 - 0.5;
        }
        mass[i] = f64::from(next(&mut state)) / 4294967296.0 + 0.5;
    }
    for _ in 0..steps {
        for i in 0..5 {
            for j in i + 1..5 {
                let dx = at[i][0] - at[j][0];
                let dy = at[i][1] - at[j][1];
                let dz = at[i][2] - at[j][2];
                let square = dx * dx + dy * dy + dz * dz + 0.01;
                let force = 0.001 / (square * square);
                let (mi, mj) = (mass[i] * force, mass[j] * force);
                speed[i][0] -= dx * mj;
                speed[i][1] -= dy * mj;
                speed[i][2] -= dz * mj;
                speed[j][0] += dx * mi;
                speed[j][1] += dy * mi;
                speed[j][2] += dz * mi;
            }
        }
        for i in 0..5 {
            for d in 0..3 {
                at[i][d] += 0.001 * speed[i][d];
            }
        }
    }
    at[0][0].to_bits()
}

/// Writes a random text of nested lists, numbers and names, with a little more than `length` bytes. Returns its end.
fn write_text(state: &mut u32, length: u32) -> u32 {
    let (mut at, mut depth) = (1, 1);
    WORDS.set_byte(0, u32::from(b'['));
    while depth > 0 {
        let choice = next(state) % 8;
        if at >= length || (choice == 0 && depth > 1) {
            WORDS.set_byte(at, u32::from(b']'));
            (at, depth) = (at + 1, depth - 1);
        } else if choice < 3 && depth < 12 {
            WORDS.set_byte(at, u32::from(b'['));
            (at, depth) = (at + 1, depth + 1);
        } else {
            let first = if choice < 6 { b'0' } else { b'a' };
            for _ in 0..1 + next(state) % 6 {
                WORDS.set_byte(at, u32::from(first) + next(state) % 10);
                at += 1;
            }
            WORDS.set_byte(at, u32::from(b' '));
            at += 1;
        }
    }
    at
}

/// Parses a list from the byte after its bracket. Returns its end, and a hash of its contents.
fn list(mut at: u32, depth: u32) -> (u32, u64) {
    let mut value = u64::from(depth);
    loop {
        let byte = WORDS.byte(at);
        at += 1;
        match byte as u8 {
            b'[' => {
                let inner;
                (at, inner) = list(at, depth + 1);
                value = value.wrapping_mul(31).wrapping_add(inner);
            }
            b']' => return (at, value),
            b'0'..=b'9' => {
                let mut number = byte - u32::from(b'0');
                while WORDS.byte(at).wrapping_sub(u32::from(b'0')) < 10 {
                    number = 10 * number + WORDS.byte(at) - u32::from(b'0');
                    at += 1;
                }
                value = value.wrapping_add(u64::from(number));
            }
            b'a'..=b'z' => {
                let mut hash = 0x811c_9dc5 ^ byte;
                while WORDS.byte(at).wrapping_sub(u32::from(b'a')) < 26 {
                    hash = hash.wrapping_mul(0x0100_0193) ^ WORDS.byte(at);
                    at += 1;
                }
                value ^= u64::from(hash);
            }
            _ => {}
        }
    }
}

/// A parser by recursive descent: reads a random text of `length` bytes eight times.
#[cfg_attr(program = "parse", unsafe(no_mangle))]
pub extern "C" fn parse(seed: u32, length: u32) -> u64 {
    let mut state = seed;
    let (end, mut value) = (write_text(&mut state, length), 0u64);
    for _ in 0..8 {
        let (at, of_list) = list(1, 1);
        value = value.wrapping_mul(31).wrapping_add(of_list);
        value = value.wrapping_add(u64::from(at == end));
    }
    value
}

const VERTICES: u32 = 512;
const DEGREE: u32 = 4;

/// Breadth-first searches in a random graph, from `sources` of its vertices. Returns the sum of all distances.
#[cfg_attr(program = "bfs", unsafe(no_mangle))]
pub extern "C" fn bfs(seed: u32, sources: u32) -> u64 {
    const DISTANCES: u32 = VERTICES * DEGREE;
    const QUEUE: u32 = DISTANCES + VERTICES;
    let (mut state, mut sum) = (seed, 0u64);
    for edge in 0..VERTICES * DEGREE {
        WORDS.set(edge, next(&mut state) % VERTICES);
    }
    for source in 0..sources {
        for vertex in 0..VERTICES {
            WORDS.set(DISTANCES + vertex, u32::MAX);
        }
        let (mut head, mut tail) = (0, 1);
        WORDS.set(QUEUE, source);
        WORDS.set(DISTANCES + source, 0);
        while head < tail {
            let vertex = WORDS.get(QUEUE + head);
            let distance = WORDS.get(DISTANCES + vertex);
            head += 1;
            sum += u64::from(distance);
            for edge in vertex * DEGREE..(vertex + 1) * DEGREE {
                let other = WORDS.get(edge);
                if WORDS.get(DISTANCES + other) == u32::MAX {
                    WORDS.set(DISTANCES + other, distance + 1);
                    WORDS.set(QUEUE + tail, other);
                    tail += 1;
                }
            }
        }
    }
    sum
}

/// Instructions of a stack machine: the opcode is in the lowest byte, and a number is above it.
const PUSH: u32 = 0;
const LOAD: u32 = 1;
const STORE: u32 = 2;
const ADD: u32 = 3;
const MULTIPLY: u32 = 4;
const HALF: u32 = 5;
const ODD: u32 = 6;
const SUBTRACT: u32 = 7;
const JUMP: u32 = 8;
const JUMP_ZERO: u32 = 9;
const HALT: u32 = 10;

const fn op(what: u32, number: u32) -> u32 {
    what | number << 8
}

/// Follows the Collatz sequence of variable 0 down to 1, then that of the number that is 7 larger, and so on; variable
/// 1 says for how many numbers. Counts the steps in variable 2.
#[rustfmt::skip]
const CODE: [u32; 34] = [
    op(LOAD, 1), op(JUMP_ZERO, 33),
    op(LOAD, 1), op(PUSH, 1), op(SUBTRACT, 0), op(STORE, 1),
    op(LOAD, 0),
    op(STORE, 3), op(LOAD, 3), op(PUSH, 1), op(SUBTRACT, 0), op(JUMP_ZERO, 28),
    op(LOAD, 2), op(PUSH, 1), op(ADD, 0), op(STORE, 2),
    op(LOAD, 3), op(ODD, 0), op(JUMP_ZERO, 25),
    op(LOAD, 3), op(PUSH, 3), op(MULTIPLY, 0), op(PUSH, 1), op(ADD, 0), op(JUMP, 7),
    op(LOAD, 3), op(HALF, 0), op(JUMP, 7),
    op(LOAD, 0), op(PUSH, 7), op(ADD, 0), op(STORE, 0), op(JUMP, 0),
    op(HALT, 0),
];

/// An interpreter: runs a program that follows `numbers` random numbers down to 1.
#[cfg_attr(program = "vm", unsafe(no_mangle))]
pub extern "C" fn vm(seed: u32, numbers: u32) -> u64 {
    const VARIABLES: u32 = 64;
    const STACK: u32 = 128;
    for (at, &op) in (0..).zip(&CODE) {
        WORDS.set(at, op);
    }
    let mut state = seed;
    WORDS.set(VARIABLES, next(&mut state) % 4096 + 1);
    WORDS.set(VARIABLES + 1, numbers);
    WORDS.set(VARIABLES + 2, 0);
    let (mut at, mut top) = (0, STACK);
    loop {
        let word = WORDS.get(at);
        let number = word >> 8;
        at += 1;
        match word & 0xff {
            PUSH => {
                WORDS.set(top, number);
                top += 1;
            }
            LOAD => {
                WORDS.set(top, WORDS.get(VARIABLES + number));
                top += 1;
            }
            STORE => {
                top -= 1;
                WORDS.set(VARIABLES + number, WORDS.get(top));
            }
            ADD => {
                top -= 1;
                WORDS.set(top - 1, WORDS.get(top - 1).wrapping_add(WORDS.get(top)));
            }
            MULTIPLY => {
                top -= 1;
                WORDS.set(top - 1, WORDS.get(top - 1).wrapping_mul(WORDS.get(top)));
            }
            HALF => WORDS.set(top - 1, WORDS.get(top - 1) >> 1),
            ODD => WORDS.set(top - 1, WORDS.get(top - 1) & 1),
            SUBTRACT => {
                top -= 1;
                WORDS.set(top - 1, WORDS.get(top - 1).wrapping_sub(WORDS.get(top)));
            }
            JUMP => at = number,
            JUMP_ZERO => {
                top -= 1;
                if WORDS.get(top) == 0 {
                    at = number;
                }
            }
            _ => return u64::from(WORDS.get(VARIABLES + 2)),
        }
    }
}
