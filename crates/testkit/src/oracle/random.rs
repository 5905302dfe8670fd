//! Random numbers that are the same on every machine: SplitMix64
//! (Steele, Lea, Flood: <https://doi.org/10.1145/2660193.2660195>).

/// A stream of random numbers. Equal seeds give equal streams.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// The stream number `index` of the family `seed`.
    pub(crate) fn stream(seed: u64, index: u64) -> Self {
        let mut seeds = Random(seed);
        let family = seeds.next();
        Random(family ^ index.wrapping_mul(STEP).rotate_left(17))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound - 1`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product; its bias is far below what traffic is.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of the closed range.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
