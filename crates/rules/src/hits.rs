//! What a rule has done, in numbers.
//!
//! They are [`Tallies`], which say why no addition is lost. Nothing is decided by
//! them and nothing else is read after them, so they order nothing: a reader may
//! find a call in one number and not yet in another.

use flowgate_core::Tallies;
use serde::Serialize;

/// The counters of one rule, over all resources that it is for. They live
/// through a reload as the rule's state does.
#[derive(Debug, Default)]
pub struct Hits(Tallies<4>);

const PASSED: usize = 0;
const BLOCKED: usize = 1;
const WOULD_BLOCK: usize = 2;
const WAITED: usize = 3;

/// What a rule has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HitCounts {
    /// Calls that the rule applied to and that were admitted; of an observed
    /// rule: those it would have let pass.
    pub passed: u64,
    /// Calls that this rule refused.
    pub blocked: u64,
    /// Admitted calls that an observed rule would have refused.
    pub would_block: u64,
    /// Admitted calls that waited because of this rule; of an observed rule:
    /// that would have waited.
    pub waited: u64,
}

impl Hits {
    /// An admitted call that the rule applied to.
    #[inline]
    pub fn pass(&self) {
        self.0.add(PASSED, 1);
    }

    /// A call that the rule refused.
    #[inline]
    pub fn block(&self) {
        self.0.add(BLOCKED, 1);
    }

    /// An admitted call that the rule, which is only observed, would have
    /// refused.
    pub fn would_block(&self) {
        self.0.add(WOULD_BLOCK, 1);
    }

    /// An admitted call that waited because of the rule, or would have.
    pub fn wait(&self) {
        self.0.add(WAITED, 1);
    }

    /// The numbers so far.
    pub fn counts(&self) -> HitCounts {
        let [passed, blocked, would_block, waited] = self.0.sums();
        HitCounts {
            passed,
            blocked,
            would_block,
            waited,
        }
    }
}
