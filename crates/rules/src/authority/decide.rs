//! How an authority rule decides on a call.

use flowgate_core::{BlockKind, Call, Measure};

use super::Authority;
use crate::decide::{Decide, Decision, InForce};

impl Decide for Authority {
    const BLOCK: BlockKind = BlockKind::Authority;
    const HEARS_EXITS: bool = false;

    #[inline]
    fn decide(rule: &InForce<Self>, call: &mut Call<'_>) -> Decision {
        match rule.rule().lets_in(call.origin) {
            true => Decision::Pass,
            false => Decision::Block(rule.block(Measure::Origin, 0.0, 0.0)),
        }
    }
}
