//! The generators of the graphs that a [`Spec`] describes.
//!
//! All draws come from ChaCha8 through the few lines below, and from nothing else: the generator is
//! specified and portable, whereas the ranges and shuffles of a random number library may change
//! their draws from one release to the next, and with them every graph.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::csr::Csr;
use crate::error::GraphError;
use crate::spec::Spec;

/// Graph500's probabilities of the quadrants A, B and C; D has what is left
/// (the Kronecker generator of the Graph500 specification, <https://graph500.org/?page_id=12>).
const QUADRANTS: [f64; 3] = [0.57, 0.19, 0.19];

/// Builds the graph that `spec` describes.
///
/// Chains and grids hold their ids in the obvious order; the random ones depend on nothing but the
/// spec, so a graph can be named in a report and rebuilt from its name.
///
/// # Errors
/// [`GraphError::Spec`] when the spec asks for too much, before anything is allocated, and
/// [`GraphError::OutOfMemory`].
pub fn generate(spec: &Spec) -> Result<Csr, GraphError> {
    spec.check()?;
    let count = spec.input_edges();
    let mut edges = Vec::new();
    edges
        .try_reserve_exact(count as usize)
        .map_err(|_| GraphError::OutOfMemory {
            bytes: count * size_of::<(u32, u32)>() as u64,
        })?;
    match *spec {
        Spec::Chain { vertices, .. } => edges.extend((1..vertices).map(|v| (v - 1, v))),
        Spec::Grid { width, height, .. } => edges.extend(grid(width, height)),
        Spec::Random {
            vertices,
            edges: count,
            seed,
            ..
        } => {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            edges.extend((0..count).map(|_| pair(&mut rng, vertices)));
        }
        Spec::Rmat { scale, seed, .. } => {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let names = permutation(&mut rng, 1 << scale)?;
            edges.extend((0..count).map(|_| {
                let (u, v) = cell(&mut rng, scale);
                (names[u as usize], names[v as usize])
            }));
        }
    }
    Csr::from_edges(spec.vertices() as u32, &edges, spec.direction())
}

/// The edges of a grid, to the right and down from each vertex.
fn grid(width: u32, height: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..height).flat_map(move |y| {
        (0..width).flat_map(move |x| {
            let v = y * width + x;
            let right = (x + 1 < width).then(|| (v, v + 1));
            let down = (y + 1 < height).then(|| (v, v + width));
            right.into_iter().chain(down)
        })
    })
}

/// Two different vertices, uniformly.
fn pair(rng: &mut ChaCha8Rng, vertices: u32) -> (u32, u32) {
    let u = below(rng, vertices);
    let v = below(rng, vertices - 1);
    (u, if v < u { v } else { v + 1 })
}

/// A cell of the recursive matrix: `scale` times one quadrant is chosen, which gives each of row and
/// column one more bit (Chakrabarti, Zhan, Faloutsos: "R-MAT", SDM 2004).
fn cell(rng: &mut ChaCha8Rng, scale: u32) -> (u32, u32) {
    const fn threshold(probability: f64) -> u32 {
        (probability * 4_294_967_296.0) as u32
    }
    const A: u32 = threshold(QUADRANTS[0]);
    const AB: u32 = threshold(QUADRANTS[0] + QUADRANTS[1]);
    const ABC: u32 = threshold(QUADRANTS[0] + QUADRANTS[1] + QUADRANTS[2]);
    (0..scale).fold((0, 0), |(u, v), _| {
        let draw = rng.next_u32();
        let right = (A..AB).contains(&draw) | (draw >= ABC);
        (u << 1 | u32::from(draw >= AB), v << 1 | u32::from(right))
    })
}

/// The numbers below `len` in a random order (Fisher and Yates).
fn permutation(rng: &mut ChaCha8Rng, len: u32) -> Result<Vec<u32>, GraphError> {
    let mut names = Vec::new();
    names
        .try_reserve_exact(len as usize)
        .map_err(|_| GraphError::OutOfMemory {
            bytes: u64::from(len) * 4,
        })?;
    names.extend(0..len);
    for last in (1..len).rev() {
        names.swap(last as usize, below(rng, last + 1) as usize);
    }
    Ok(names)
}

/// A number below `bound`, which is not 0, without bias (Lemire: "Fast random integer generation in
/// an interval", 2019).
fn below(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    loop {
        let product = u64::from(rng.next_u32()) * u64::from(bound);
        let low = product as u32;
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> 32) as u32;
        }
    }
}
