//! Resources by name, as threads have them at hand.
//!
//! A call by name looks into a table of its thread first, by the hash of the
//! name. What it finds there is a `Weak`: nobody is kept alive by having been
//! called. It counts only if it is alive, has the very name, and is of the engine
//! that is asked; else the engine's own table is looked into, as for a name that
//! the thread does not have at hand.
//!
//! Only resources that are in their engine's table come here. Those beyond the
//! limit do not: each call of them looks for a place anew.

use std::sync::{Arc, Weak};

use flowgate_core::publish::AtHand;
use flowgate_core::sync::thread_local;

use crate::resource::ResourceInner;

thread_local! {
    static AT_HAND: AtHand<Weak<ResourceInner>> = const { AtHand::new() };
}

/// A name stands for one resource as long as this is alive: there are no
/// generations.
const ALWAYS: u64 = 1;

/// The resource that the thread has at hand for the name of this `hash`, if it
/// `is_it`.
#[inline]
pub(crate) fn recall(
    hash: u64,
    is_it: impl FnOnce(&ResourceInner) -> bool,
) -> Option<Arc<ResourceInner>> {
    let recalled = AT_HAND.try_with(|at_hand| {
        let weak = at_hand.take(number(hash), ALWAYS)?;
        let found = weak.upgrade()?;
        at_hand.put(number(hash), ALWAYS, weak);
        Some(found)
    });
    // Dropping one that is of another engine may end that: not in there.
    recalled.ok().flatten().filter(|found| is_it(found))
}

/// The name of this `hash` was looked up: the thread may want it again.
#[cold]
pub(crate) fn remember(hash: u64, resource: &Arc<ResourceInner>) {
    // A thread that is being torn down remembers nothing.
    let _ = AT_HAND.try_with(|at_hand| {
        if at_hand.welcomes(number(hash)) {
            at_hand.give_place(number(hash), ALWAYS);
            at_hand.put(number(hash), ALWAYS, Arc::downgrade(resource));
        }
    });
}

/// An engine has ended: nobody asks it by name any more. Other threads keep at
/// most the few words that a `Weak` stands for.
#[cold]
pub(crate) fn let_go() {
    let _ = AT_HAND.try_with(AtHand::clear);
}

/// 0 is nobody's.
#[inline]
fn number(hash: u64) -> u64 {
    hash | 1 << 63
}
