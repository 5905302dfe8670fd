//! What a thread keeps at hand of derived values, so that using one again costs
//! it no step on memory that others write.
//!
//! A table of [`PLACES`] places, for one thread. Each belongs to one
//! [`Derived`](super::Derived) value, by its number, and keeps what was made of
//! it under one generation.
//!
//! **Values are taken out and put back**, never lent. While one is out, whoever
//! comes again on the same thread (a callback of a service's own that makes a
//! call itself) finds the place empty and goes the long way; what comes back to
//! a place that is full stays as a spare. So there is nothing to borrow and
//! nothing that could be borrowed twice, and a value may be out for as long as a
//! call takes, or come back never.
//!
//! **Generations.** [`AtHand::take`] gives nothing older than the generation that
//! it is asked for, which the caller has read from the source, as
//! [`Derived::current`](super::Derived::current) does: what holds for its readers holds
//! here. What comes back late is of an older generation than its place by then,
//! and dropped; what was found right under a newer one meanwhile takes the place
//! along.
//!
//! **Numbers** are never used twice, so a place never gives what belonged to a
//! value that is gone.
//!
//! **Who has a place keeps it** until another number has missed it several times
//! in a row, without a hit in between. With more values in use than places most
//! of them go the long way each time, and pay for a look, not for moving others
//! out.
//!
//! **What it keeps alive**: for each place at most [`SPARES_MAX`] and one values
//! of one generation, until another has the place, the table is cleared or the
//! thread ends.

use std::cell::Cell;

/// How many values a thread keeps at hand.
pub const PLACES: usize = 64;

/// How many further ones of one place are kept for later.
pub const SPARES_MAX: usize = 16;

/// So many misses in a row, and a newcomer gets the place.
const MISSES: u32 = 4;

/// The values that one thread keeps at hand.
pub struct AtHand<V> {
    places: [Place<V>; PLACES],
}

/// One line of memory, if `V` is two words.
#[repr(align(64))]
struct Place<V> {
    /// Whose it is; 0: nobody's.
    number: Cell<u64>,
    generation: Cell<u64>,
    value: Cell<Option<V>>,
    /// Boxed, so that a table of nothing is all zeros, which costs a new thread
    /// nothing.
    spares: Cell<Option<Box<Spares<V>>>>,
    /// Who missed it last (the low half of the number), and how often in a row.
    newcomer: Cell<(u32, u32)>,
}

struct Spares<V>(Vec<V>);

const NOBODY: (u32, u32) = (0, 0);

impl<V> AtHand<V> {
    /// Nothing is at hand.
    #[must_use]
    pub const fn new() -> Self {
        AtHand {
            places: [const { Place::new() }; PLACES],
        }
    }

    /// Takes out what is kept for `number`, if it is of generation `wanted` or
    /// later. To be [put back](Self::put) after use.
    #[inline]
    pub fn take(&self, number: u64, wanted: u64) -> Option<V> {
        let place = self.place(number);
        if place.number.get() != number || place.generation.get() < wanted {
            return None;
        }
        place.newcomer.set(NOBODY);
        place.value.take().or_else(|| place.spare())
    }

    /// Puts back what was taken, or brings what was made since. It stays if the
    /// place is still that of `number`, and has nothing of a later generation.
    #[inline]
    pub fn put(&self, number: u64, generation: u64, value: V) {
        let place = self.place(number);
        if place.number.get() != number || place.generation.get() != generation {
            return self.put_late(number, generation, value);
        }
        if let Some(other) = place.value.replace(Some(value)) {
            place.keep_spare(other);
        }
    }

    /// `number` has missed: whether it gets the place now, or has it already.
    #[cold]
    pub fn welcomes(&self, number: u64) -> bool {
        let place = self.place(number);
        if place.number.get() == 0 || place.number.get() == number {
            return true;
        }
        let who = number as u32;
        let misses = match place.newcomer.get() {
            (same, misses) if same == who => misses.saturating_add(1),
            _ => 1,
        };
        place.newcomer.set((who, misses));
        misses >= MISSES
    }

    /// Gives the place to `number` under `generation`: what is [put](Self::put)
    /// there stays from now on.
    #[cold]
    pub fn give_place(&self, number: u64, generation: u64) {
        let place = self.place(number);
        if place.number.get() == number && place.generation.get() >= generation {
            return;
        }
        let old = (place.value.take(), place.spares.take());
        place.number.set(number);
        place.generation.set(generation);
        place.newcomer.set(NOBODY);
        // Last: what is dropped may come here again.
        drop(old);
    }

    /// Empties the table.
    #[cold]
    pub fn clear(&self) {
        for place in &self.places {
            let old = (place.value.take(), place.spares.take());
            place.number.set(0);
            place.generation.set(0);
            place.newcomer.set(NOBODY);
            // Last, as above; what comes here again meanwhile stays.
            drop(old);
        }
    }

    #[cold]
    fn put_late(&self, number: u64, generation: u64, value: V) {
        let place = self.place(number);
        if place.number.get() == number && place.generation.get() < generation {
            self.give_place(number, generation);
            return self.put(number, generation, value);
        }
        drop(value);
    }

    #[inline]
    fn place(&self, number: u64) -> &Place<V> {
        &self.places[number as usize % PLACES]
    }
}

impl<V> Default for AtHand<V> {
    fn default() -> Self {
        AtHand::new()
    }
}

impl<V> Place<V> {
    const fn new() -> Self {
        Place {
            number: Cell::new(0),
            generation: Cell::new(0),
            value: Cell::new(None),
            spares: Cell::new(None),
            newcomer: Cell::new(NOBODY),
        }
    }

    #[cold]
    fn spare(&self) -> Option<V> {
        let mut spares = self.spares.take()?;
        let spare = spares.0.pop();
        self.spares.set(Some(spares));
        spare
    }

    #[cold]
    fn keep_spare(&self, value: V) {
        let empty = || Box::new(Spares(Vec::with_capacity(SPARES_MAX)));
        let mut spares = self.spares.take().unwrap_or_else(empty);
        let surplus = if spares.0.len() < SPARES_MAX {
            spares.0.push(value);
            None
        } else {
            Some(value)
        };
        self.spares.set(Some(spares));
        // Last, as above.
        drop(surplus);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn with_place(number: u64, generation: u64) -> AtHand<&'static str> {
        let at_hand = AtHand::new();
        at_hand.give_place(number, generation);
        at_hand
    }

    #[test]
    fn what_is_put_back_is_found_again_and_what_is_out_is_not() {
        let at_hand = with_place(7, 1);
        assert_eq!(at_hand.take(7, 1), None);
        at_hand.put(7, 1, "a");
        assert_eq!(at_hand.take(7, 1), Some("a"));
        assert_eq!(at_hand.take(7, 1), None, "it is out");
        at_hand.put(7, 1, "a");
        at_hand.put(7, 1, "b");
        let mut both = [at_hand.take(7, 1), at_hand.take(7, 1)];
        both.sort_unstable();
        assert_eq!(both, [Some("a"), Some("b")]);
        assert_eq!(at_hand.take(7, 1), None);
    }

    #[test]
    fn nothing_older_than_wanted_is_given_and_what_comes_back_late_is_dropped() {
        let at_hand = with_place(7, 3);
        at_hand.put(7, 3, "third");
        assert_eq!(at_hand.take(7, 4), None);
        let out = at_hand.take(7, 3).expect("of the generation wanted");
        at_hand.give_place(7, 4);
        at_hand.put(7, 3, out);
        assert_eq!(at_hand.take(7, 3), None, "an older value came back");
        at_hand.put(7, 4, "fourth");
        // Who has read an older generation may have a newer value.
        assert_eq!(at_hand.take(7, 3), Some("fourth"));
        at_hand.put(7, 4, "fourth");
        at_hand.give_place(7, 3);
        assert_eq!(at_hand.take(7, 4), Some("fourth"), "it went back");
        // It was found right under later ones while it was out.
        at_hand.put(7, 4, "older");
        at_hand.put(7, 6, "fourth");
        assert_eq!(at_hand.take(7, 5), Some("fourth"));
        assert_eq!(at_hand.take(7, 4), None, "an older one is among them");
    }

    #[test]
    fn a_newcomer_gets_a_place_by_missing_it_in_a_row_only() {
        let other = 7 + PLACES as u64;
        let at_hand = AtHand::new();
        assert!(at_hand.welcomes(7), "the place is nobody's");
        at_hand.give_place(7, 1);
        at_hand.put(7, 1, "a");
        for _ in 0..100 {
            for _ in 1..MISSES {
                assert!(!at_hand.welcomes(other));
            }
            let hit = at_hand.take(7, 1).expect("it keeps its place");
            at_hand.put(7, 1, hit);
        }
        for _ in 0..100 {
            assert!(!at_hand.welcomes(other));
            assert!(!at_hand.welcomes(other + PLACES as u64), "by turns");
        }
        for _ in 1..MISSES {
            assert!(!at_hand.welcomes(other));
        }
        assert!(at_hand.welcomes(other));
        at_hand.give_place(other, 1);
        assert_eq!(at_hand.take(7, 1), None);
        at_hand.put(7, 1, "late");
        assert_eq!(at_hand.take(other, 1), None, "one got the value of another");
    }

    #[test]
    fn only_so_many_spares_are_kept_and_they_go_with_their_generation() {
        let value = Rc::new(());
        let at_hand = AtHand::new();
        at_hand.give_place(1, 1);
        for _ in 0..3 * SPARES_MAX {
            at_hand.put(1, 1, Rc::clone(&value));
        }
        assert_eq!(Rc::strong_count(&value), 1 + 1 + SPARES_MAX);
        at_hand.give_place(1, 2);
        assert_eq!(Rc::strong_count(&value), 1);
        at_hand.put(1, 2, Rc::clone(&value));
        at_hand.clear();
        assert_eq!(Rc::strong_count(&value), 1);
        at_hand.put(1, 2, Rc::clone(&value));
        assert_eq!(Rc::strong_count(&value), 1, "the place is nobody's");
        at_hand.give_place(1, 2);
        at_hand.put(1, 2, Rc::clone(&value));
        drop(at_hand);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    /// A value that comes to the table again when it is dropped there.
    #[test]
    fn dropping_a_value_may_use_the_table() {
        struct Again(Rc<AtHand<Again>>);
        impl Drop for Again {
            fn drop(&mut self) {
                drop(self.0.take(1, 0));
                self.0.give_place(1, 9);
            }
        }
        let at_hand = Rc::new(AtHand::new());
        at_hand.give_place(1, 1);
        for _ in 0..3 {
            at_hand.put(1, 1, Again(Rc::clone(&at_hand)));
        }
        at_hand.give_place(1, 2);
        assert!(at_hand.take(1, 0).is_none());
        at_hand.put(1, 2, Again(Rc::clone(&at_hand)));
        assert_eq!(
            Rc::strong_count(&at_hand),
            1,
            "it is of an older generation"
        );
    }
}
