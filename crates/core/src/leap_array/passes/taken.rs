//! What was taken.

/// Passes that were taken, and from where: what is needed to give them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Taken {
    number: u64,
    amount: u32,
    /// Which of a node's rings; 0 is the one of the node itself.
    ring: u16,
    /// Passes in the span with these included, at the moment they were taken.
    sum: u64,
}

/// The ring of passes that are beside the node's own one, in the stripe of the
/// thread that has taken them.
pub(crate) const BESIDE: u16 = u16::MAX;

impl Taken {
    /// Passes that nothing limits, counted by a thread by itself.
    #[inline]
    pub(crate) fn beside(number: u64, amount: u32) -> Self {
        Taken::new(number, amount, 0).of_ring(BESIDE)
    }

    #[inline]
    pub(super) fn new(number: u64, amount: u32, sum: u64) -> Self {
        Taken {
            number,
            amount,
            ring: 0,
            sum,
        }
    }

    /// Passes in the span right after these were taken.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Number of the window they were taken from.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many were taken.
    pub fn amount(&self) -> u32 {
        self.amount
    }

    /// The same, known as taken of that ring of a node.
    #[inline]
    pub(crate) fn of_ring(mut self, ring: u16) -> Self {
        self.ring = ring;
        self
    }

    /// Which of a node's rings they were taken of.
    #[inline]
    pub(crate) fn ring(&self) -> u16 {
        self.ring
    }

    /// What is needed to give them back, for a ticket; the second fills the
    /// lower 48 bits.
    pub fn to_words(self) -> [u64; 2] {
        let ring = u64::from(self.ring) << u32::BITS;
        [self.number, u64::from(self.amount) | ring]
    }

    /// The passes of a ticket. The sum at the time is not kept in it.
    pub fn from_words([number, packed]: [u64; 2]) -> Self {
        // The casts cut out what `to_words` has put there.
        Taken::new(number, packed as u32, 0).of_ring((packed >> u32::BITS) as u16)
    }
}
