//! Rules that take tokens out of a bucket of their own.
//!
//! A call that does not wait takes what is there or nothing: it never holds
//! tokens that it would have to wait for.

use flowgate_core::token_bucket::{Granted, TooFewTokens};
use flowgate_core::{Block, Call};

use super::FlowCheck;
use super::observe::Would;

/// Takes the tokens of a call, or refuses it.
pub(super) fn take(index: usize, check: &FlowCheck, call: &mut Call<'_>) -> Option<Block> {
    match check.take(index, call) {
        Ok(None) => None,
        Ok(Some(granted)) => {
            let wait = granted.release.since(call.now);
            call.holds.wait_for(call.slot, index as u32, wait);
            None
        }
        Err(too_few) => Some(check.refuse_tokens(call.now, too_few)),
    }
}

/// The same for an observed rule, of a call that was admitted.
pub(super) fn would_take(index: usize, check: &FlowCheck, call: &mut Call<'_>) -> Would {
    match check.take(index, call) {
        Ok(Some(granted)) if granted.release > call.now => Would::Wait,
        Ok(_) => Would::Pass,
        Err(_) => Would::Block,
    }
}

impl FlowCheck {
    /// Tokens for a call, noted to be able to give them back; `None`: it weighs
    /// nothing.
    fn take(&self, index: usize, call: &mut Call<'_>) -> Result<Option<Granted>, TooFewTokens> {
        if call.weight == 0 {
            return Ok(None);
        }
        let granted = self.state().take(call.now, call.weight, call.may_wait)?;
        call.leave_ticket(index as u32, granted.taken.to_words());
        Ok(Some(granted))
    }
}
