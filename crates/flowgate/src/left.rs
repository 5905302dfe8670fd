//! Rules that are in force no longer, until their last call has let go of them.
//!
//! A replaced chain lives on while calls wait in it, and until the next call of
//! its resource makes another. It holds rules and what they remember, which may
//! be much: a table of a million values. Whoever lets go of it last is a caller,
//! who must not be kept. So each load keeps what the rules before it have left
//! over, and drops what by now nobody else holds.
//!
//! **A rule that is here is dropped here.** Nobody new finds it: no plan in force
//! has it, and what takes over its memory is another entry. So who is alone with
//! it stays so. A chain lets go of the memory before it lets go of the rule.
//!
//! **A load looks at those that it adds, at as many again, and at a few more**, so
//! that each comes to be looked at again and again, and replacing one rule does
//! not cost what replacing all did. What stays here is held by a chain that would keep it
//! in any case.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many rules a load looks at that adds none.
const LOOKS: usize = 64;

/// Rules that are in force no longer.
#[derive(Default)]
pub(crate) struct Left(VecDeque<Arc<dyn Any + Send + Sync>>);

impl Left {
    /// Adds `rules`, which a new plan in force does not have, and drops of all
    /// here what nobody else holds.
    pub(crate) fn add(&mut self, rules: Vec<Arc<dyn Any + Send + Sync>>) {
        let is_held = |rule: &Arc<dyn Any + Send + Sync>| Arc::strong_count(rule) > 1;
        let looks = (rules.len() + LOOKS).min(self.0.len());
        for _ in 0..looks {
            let first = self.0.pop_front();
            // Those that are held go to the end of the line.
            self.0.extend(first.filter(is_held));
        }
        self.0.extend(rules.into_iter().filter(is_held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_stays_until_it_is_let_go_of() {
        let mut left = Left::default();
        let held: Vec<Arc<dyn Any + Send + Sync>> = (0..1_000).map(|n| Arc::new(n) as _).collect();
        left.add(held.clone());
        left.add(vec![Arc::new(0)]);
        assert_eq!(left.0.len(), 1_000);
        drop(held);
        for _ in 0..1_000_usize.div_ceil(LOOKS) {
            left.add(Vec::new());
        }
        assert!(left.0.is_empty());
    }
}
