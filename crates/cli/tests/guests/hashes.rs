//! `hashes`, compared with known vectors and with other implementations of the same functions.

use sha2::{Digest, Sha256};

use everwarp_testkit::cases;

use crate::{Case, Ended, ONE_PAGE, data, run};

/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    sha256_matches_the_known_vectors,
    sha256_is_right_for_every_length_near_a_block,
    kernels_agree_with_other_implementations,
    an_unknown_kernel_is_reported
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn sha256_matches_the_known_vectors() {
    // The examples of FIPS 180-4 and the hash of nothing.
    let million = vec![b'a'; 1_000_000];
    let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    for (input, hash) in [
        (
            &b""[..],
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            two_blocks,
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (
            &million,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ),
    ] {
        let ended = run("hashes", &["--memory", ONE_PAGE], &["sha256"], input);
        assert_eq!(ended, Ended::new(0, &format!("{hash}  -\n"), ""));
    }
}

fn sha256_is_right_for_every_length_near_a_block() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut args, mut out) = (vec!["sha256".to_owned()], String::new());
    for length in (0..140).chain([4095, 4096, 4097, 100_000]) {
        let bytes: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8).collect();
        std::fs::write(folder.path().join(length.to_string()), &bytes).expect("it is writable");
        args.push(format!("/data/{length}"));
        out += &format!("{}  /data/{length}\n", hex(&Sha256::digest(&bytes)));
    }
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let given = data(folder.path());
    let ended = run("hashes", &["--dir", &given], &args, b"");
    assert_eq!(ended, Ended::new(0, &out, ""));

    let missing = run("hashes", &["--dir", &given], &["sha256", "/data/none"], b"");
    let says = "hashes: /data/none: no such file or directory\n";
    assert_eq!(missing, Ended::new(1, "", says));
}

fn chain(n: u64) -> String {
    let next = |bytes: [u8; 32], _| Sha256::digest(bytes).into();
    hex(&(0..n).fold([0; 32], next))
}

fn fnv(n: u64) -> String {
    let bytes = (0..n).flat_map(u64::to_le_bytes);
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, step))
}

/// Bit by bit; the guest uses a table.
fn crc(n: u64) -> String {
    let crc = (0..n).fold(!0_u32, |crc, byte| {
        let divide = |c: u32, _| {
            if c & 1 == 1 {
                (c >> 1) ^ 0xedb8_8320
            } else {
                c >> 1
            }
        };
        (0..8).fold(crc ^ u32::from(byte as u8), divide)
    });
    format!("{:08x}", !crc)
}

fn mix(n: u64) -> String {
    let mut h = 0_u64;
    for _ in 0..n {
        h = h.wrapping_add(1);
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            h = (h ^ (h >> 33)).wrapping_mul(factor);
        }
        h ^= h >> 33;
    }
    format!("{h:016x}")
}

fn mandel(n: u64) -> String {
    let place = |k: u64| 4.0 * (k as f64 + 0.5) / n as f64 - 2.0;
    let mut stay = 0;
    for j in 0..n {
        for i in 0..n {
            let (mut x, mut y) = (0.0_f64, 0.0_f64);
            let mut steps = 0;
            while steps < 256 && x * x + y * y <= 4.0 {
                let real = x * x - y * y + place(i);
                y = 2.0 * x * y + place(j);
                x = real;
                steps += 1;
            }
            stay += u64::from(x * x + y * y <= 4.0);
        }
    }
    stay.to_string()
}

fn kernels_agree_with_other_implementations() {
    type Kernel = (&'static str, fn(u64) -> String);
    let kernels: [Kernel; 5] = [
        ("chain", chain),
        ("fnv", fnv),
        ("crc", crc),
        ("mix", mix),
        ("mandel", mandel),
    ];
    for (name, expected) in kernels {
        for n in [0, 1, 2, 77, 300] {
            let ended = run(
                "hashes",
                &["--memory", ONE_PAGE],
                &[name, &n.to_string()],
                b"",
            );
            let out = format!("{}\n", expected(n));
            assert_eq!(ended, Ended::new(0, &out, ""), "{name} {n}");
        }
    }
}

fn an_unknown_kernel_is_reported() {
    let says = "use hashes sha256 [PATH...], or hashes chain|fnv|crc|mix|mandel N\n";
    for args in [&[][..], &["md5", "3"], &["fnv"], &["fnv", "three"]] {
        assert_eq!(
            run("hashes", &[], args, b""),
            Ended::new(2, "", says),
            "{args:?}"
        );
    }
}
