//! Kernels: each is plain code that touches no host, and each step needs the one before.

use crate::sha256::Sha256;

/// SHA-256 of SHA-256 and so on, `n` times, of 32 zero bytes.
pub(crate) fn chain(n: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    for _ in 0..n {
        let mut hash = Sha256::new();
        hash.take(&bytes);
        bytes = hash.finish();
    }
    bytes
}

/// FNV-1a of 64 bits over the numbers below `n`, eight bytes each.
pub(crate) fn fnv(n: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for number in 0..n {
        for byte in number.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// CRC-32 (polynomial 0x04c11db7, reflected) over the low bytes of the numbers below `n`, by a table.
pub(crate) fn crc(n: u64) -> u32 {
    let mut table = [0_u32; 256];
    for (byte, entry) in table.iter_mut().enumerate() {
        *entry = (0..8).fold(byte as u32, |c, _| {
            (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg())
        });
    }
    let step = |crc: u32, byte: u64| (crc >> 8) ^ table[((crc ^ byte as u32) & 0xff) as usize];
    !(0..n).fold(!0, step)
}

/// The finalizer of MurmurHash3 for 64 bits, of its own result plus one, `n` times.
pub(crate) fn mix(n: u64) -> u64 {
    (0..n).fold(0, |hash: u64, _| {
        let h = hash.wrapping_add(1);
        let h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        h ^ (h >> 33)
    })
}

/// How many of `n` times `n` points of the square from -2-2i to 2+2i stay bounded for 256 steps of
/// z = z^2 + c. The order of the operations is fixed, so every engine that rounds as IEEE 754 says agrees.
pub(crate) fn mandel(n: u64) -> u64 {
    let place = |k: u64| 4.0 * (k as f64 + 0.5) / n as f64 - 2.0;
    let stays = |re: f64, im: f64| {
        let (mut x, mut y) = (0.0, 0.0);
        for _ in 0..256 {
            (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
            if x * x + y * y > 4.0 {
                return false;
            }
        }
        true
    };
    let row = |j: u64| (0..n).filter(|i| stays(place(*i), place(j))).count() as u64;
    (0..n).map(row).sum()
}
