//! Tokens of one value: Sentinel's bucket for hot parameters.
//!
//! A bucket is refilled by a call, and only when more than the rule's duration
//! has passed since it was last: then it gains `⌊elapsed · count / duration⌋`
//! tokens, up to `count + burst`. A call that is refused refills nothing.
//!
//! ```text
//! 63                     n+1     n      n-1            0
//! |  time of last refill  | whole |  tokens              |    all ones: never used
//! ```
//!
//! The word is everything, and one compare-and-swap on it decides: nobody takes
//! a token that another has taken, nor refills twice for the same time.
//!
//! **Giving back.** If nothing has happened since, the word is put back as it
//! was: a bucket that the call created or refilled is as before. Otherwise the
//! tokens are added, unless the bucket was refilled since and that made it full
//! (`whole`): then the refill has brought them back already, and adding them
//! would let one call too many pass. Tokens of before a refill mark the bucket
//! as whole too; so if the word is what a call left, all that came after it have
//! given back.

use flowgate_core::Timestamp;
use flowgate_core::sync::{AtomicU64, Ordering};

use super::limit::{Limit, Split, millis};
use super::table::{Cell, HalfLine, Standing};

/// The tokens of one value.
#[derive(Debug)]
pub(super) struct Bucket {
    word: AtomicU64,
}

/// What a call took: the word it found and the word it left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    pub(super) before: u64,
    pub(super) after: u64,
}

/// Too few tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Short {
    /// Tokens left.
    pub(super) left: u64,
    /// Nanoseconds until there are enough if nobody else comes.
    pub(super) after_ns: Option<u64>,
}

const UNUSED: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fill {
    /// In steps of the split.
    time: u64,
    whole: bool,
    tokens: u64,
}

impl Split {
    fn read(self, word: u64) -> Fill {
        Fill {
            time: word >> (self.token_bits + 1),
            whole: (word >> self.token_bits) & 1 == 1,
            tokens: word & ((1 << self.token_bits) - 1),
        }
    }

    fn word(self, fill: Fill) -> u64 {
        // The year 2248; the clock's own end comes later.
        let time = fill.time.min((1 << (63 - self.token_bits)) - 1);
        (time << (self.token_bits + 1)) | (u64::from(fill.whole) << self.token_bits) | fill.tokens
    }

    /// The end of the step that `ms` is in: a refill is noted late rather than
    /// early.
    fn step_after(self, ms: u64) -> u64 {
        ms.div_ceil(1 << self.shift)
    }

    fn elapsed_ms(self, ms: u64, since: u64) -> u64 {
        (ms >> self.shift).saturating_sub(since) << self.shift
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Bucket {
            word: AtomicU64::new(UNUSED),
        }
    }
}

impl Bucket {
    /// Takes `weight` tokens at `now`.
    ///
    /// # Errors
    ///
    /// [`Short`] if there are too few; nothing has changed then.
    #[inline]
    pub(super) fn take(&self, limit: &Limit, now: Timestamp, weight: u64) -> Result<Taken, Short> {
        let ms = millis(now);
        // The word stands for itself; acquire and release cost nothing here.
        let mut before = self.word.load(Ordering::Acquire);
        loop {
            let fill = filled(limit, before, ms);
            let Some(tokens) = fill.tokens.checked_sub(weight) else {
                return Err(short(limit, before, now, weight));
            };
            let after = limit.split.word(Fill { tokens, ..fill });
            match self.word.compare_exchange_weak(
                before,
                after,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(Taken { before, after }),
                Err(found) => before = found,
            }
        }
    }

    /// Gives `weight` tokens back.
    pub(super) fn give_back(&self, limit: &Limit, taken: Taken, weight: u64) {
        let split = limit.split;
        let Taken { before, after } = taken;
        let mut word = after;
        let mut next = before;
        while let Err(found) =
            self.word
                .compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire)
        {
            if found == UNUSED {
                return;
            }
            let (fill, mine) = (split.read(found), split.read(after));
            let refilled = fill.time != mine.time;
            // Two spans later two refills may have come, the first of which made
            // it full. Without a burst every refill does.
            let spans = split.elapsed_ms(fill.time << split.shift, mine.time) / limit.duration_ms();
            if refilled && (fill.whole || spans >= 2) {
                return;
            }
            word = found;
            next = split.word(Fill {
                tokens: fill.tokens.saturating_add(weight).min(limit.capacity()),
                whole: fill.whole || refilled,
                ..fill
            });
        }
    }
}

/// What a call at `ms` finds in a bucket.
#[inline]
fn filled(limit: &Limit, word: u64, ms: u64) -> Fill {
    let split = limit.split;
    if word == UNUSED {
        return Fill {
            time: split.step_after(ms),
            whole: false,
            tokens: limit.capacity(),
        };
    }
    let fill = split.read(word);
    let elapsed_ms = split.elapsed_ms(ms, fill.time);
    if elapsed_ms <= limit.duration_ms() {
        return fill;
    }
    let tokens = fill.tokens.saturating_add(limit.gain(elapsed_ms));
    Fill {
        time: split.step_after(ms),
        whole: tokens >= limit.capacity(),
        tokens: tokens.min(limit.capacity()),
    }
}

#[cold]
fn short(limit: &Limit, word: u64, now: Timestamp, weight: u64) -> Short {
    let split = limit.split;
    let ms = millis(now);
    let left = filled(limit, word, ms).tokens;
    let fits = word != UNUSED && weight <= limit.capacity();
    let after_ns = fits
        .then(|| {
            let fill = split.read(word);
            // The first step that is more than a span away, or later if that
            // does not bring enough.
            let gain_ms = limit.time_to_gain(weight.checked_sub(fill.tokens)?)?;
            let step = 1 << split.shift;
            let wait_ms = gain_ms
                .max(limit.duration_ms() + 1)
                .checked_next_multiple_of(step)?;
            let at_ms = (fill.time << split.shift).checked_add(wait_ms)?;
            Some(at_ms.checked_mul(1_000_000)?.saturating_sub(now.as_nanos()))
        })
        .flatten();
    Short { left, after_ns }
}

impl Cell for Bucket {
    type Limit = Limit;
    type Align = HalfLine;

    fn reset(&self, _: &Limit, _: Timestamp) {
        // The slot is opened with a release after this.
        self.word.store(UNUSED, Ordering::Relaxed);
    }

    fn standing(&self, limit: &Limit, weight: u32, now: Timestamp) -> Standing {
        let word = self.word.load(Ordering::Acquire);
        match filled(limit, word, millis(now)).tokens {
            few if few < u64::from(weight).min(limit.capacity()) => Standing::Limited,
            full if full >= limit.capacity() => Standing::Idle,
            _ => Standing::InUse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + ms)
    }

    fn passes(bucket: &Bucket, limit: &Limit, now: Timestamp, calls: usize) -> usize {
        (0..calls)
            .filter(|_| bucket.take(limit, now, 1).is_ok())
            .count()
    }

    #[test]
    fn it_is_refilled_only_after_more_than_the_duration() {
        let (bucket, limit) = (Bucket::default(), Limit::new(2.0, 1, 0));
        assert_eq!(passes(&bucket, &limit, at(0), 5), 2);
        assert_eq!(passes(&bucket, &limit, at(1_000), 5), 0);
        assert_eq!(passes(&bucket, &limit, at(1_001), 5), 2);
    }

    // https://github.com/alibaba/Sentinel/pull/838
    #[test]
    fn b031_a_long_idle_time_fills_it_once() {
        let (bucket, limit) = (Bucket::default(), Limit::new(20_000.0, 1, 0));
        assert_eq!(passes(&bucket, &limit, at(0), 1), 1);
        assert_eq!(passes(&bucket, &limit, at(691_200_000), 20_001), 20_000);
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let (bucket, limit) = (Bucket::default(), Limit::new(2.0, 1, 0));
        assert_eq!(passes(&bucket, &limit, at(5_000), 1), 1);
        assert_eq!(passes(&bucket, &limit, at(0), 5), 1);
    }

    #[test]
    fn what_is_given_back_at_once_was_never_taken() {
        for (burst, quiet_ms) in [(0, 0), (0, 1_001), (3, 5_000)] {
            let (bucket, limit) = (Bucket::default(), Limit::new(2.0, 1, burst));
            if quiet_ms > 0 {
                bucket.take(&limit, at(0), 1).unwrap();
            }
            let before = bucket.word.load(Ordering::Relaxed);
            let taken = bucket.take(&limit, at(quiet_ms), 2).unwrap();
            bucket.give_back(&limit, taken, 2);
            assert_eq!(bucket.word.load(Ordering::Relaxed), before);
        }
    }

    #[test]
    fn tokens_come_back_after_others_have_taken_too() {
        let (bucket, limit) = (Bucket::default(), Limit::new(3.0, 1, 0));
        let first = bucket.take(&limit, at(0), 2).unwrap();
        bucket.take(&limit, at(0), 1).unwrap();
        bucket.give_back(&limit, first, 2);
        assert_eq!(passes(&bucket, &limit, at(0), 5), 2);
    }

    #[test]
    fn a_full_refill_has_brought_the_tokens_back_already() {
        let (bucket, limit) = (Bucket::default(), Limit::new(3.0, 1, 0));
        let late = bucket.take(&limit, at(0), 2).unwrap();
        assert_eq!(passes(&bucket, &limit, at(1_500), 1), 1);
        bucket.give_back(&limit, late, 2);
        assert_eq!(passes(&bucket, &limit, at(1_500), 5), 2);
    }

    #[test]
    fn a_refill_that_made_it_full_has_brought_them_back_with_a_burst_too() {
        let (bucket, limit) = (Bucket::default(), Limit::new(2.0, 1, 2));
        let late = bucket.take(&limit, at(0), 1).unwrap();
        // 3 left, 2 gained, of which 1 fits, 1 taken.
        assert_eq!(passes(&bucket, &limit, at(1_200), 1), 1);
        bucket.give_back(&limit, late, 1);
        assert_eq!(passes(&bucket, &limit, at(1_200), 9), 3);
    }

    #[test]
    fn a_value_is_limited_while_its_heaviest_call_finds_too_few_and_idle_when_full() {
        let (bucket, limit) = (Bucket::default(), Limit::new(3.0, 1, 0));
        let standing = |weight, ms| bucket.standing(&limit, weight, at(ms));
        assert_eq!(standing(1, 0), Standing::Idle);
        bucket.take(&limit, at(0), 1).unwrap();
        let stands = [1, 2, 3].map(|weight| standing(weight, 1_000));
        assert_eq!(
            stands,
            [Standing::InUse, Standing::InUse, Standing::Limited]
        );
        assert_eq!(
            standing(3, 1_001),
            Standing::Idle,
            "the next call refills it"
        );
        bucket.reset(&limit, at(0));
        assert_eq!(standing(3, 0), Standing::Idle);
    }

    /// One call takes after the refill what an older one gives back: the bucket
    /// then holds as much as the refilling call has left.
    #[test]
    fn a_refill_is_not_undone_when_others_have_called_since() {
        let (bucket, limit) = (Bucket::default(), Limit::new(2.0, 1, 8));
        let old = bucket.take(&limit, at(0), 1).unwrap();
        bucket.take(&limit, at(0), 8).unwrap();
        let refilling = bucket.take(&limit, at(1_200), 1).unwrap();
        bucket.take(&limit, at(1_200), 1).unwrap();
        bucket.give_back(&limit, old, 1);
        bucket.give_back(&limit, refilling, 1);
        // 700 ms after the refill there is no other yet.
        assert_eq!(passes(&bucket, &limit, at(1_900), 9), 3);
    }

    /// The first refill made it full, and only the second is remembered. With
    /// millions of tokens time is kept in longer steps.
    #[test]
    fn two_spans_later_nothing_is_given_back() {
        for scale in [1, 5_000_000] {
            let limit = Limit::new(2.0 * f64::from(scale), 1, 8 * scale);
            let (bucket, scale) = (Bucket::default(), u64::from(scale));
            let take = |ms, tokens| bucket.take(&limit, at(ms), tokens * scale);
            let late = take(0, 2).unwrap();
            take(1_200, 10).unwrap();
            take(2_600, 1).unwrap();
            bucket.give_back(&limit, late, 2 * scale);
            // 10 were there, all were taken, 2 to 3 gained, and 1 taken.
            let left = take(2_600, 10).unwrap_err().left;
            assert!((scale..2 * scale).contains(&left), "{left}");
        }
    }

    #[test]
    fn a_refill_that_left_room_gets_the_tokens_back() {
        let (bucket, limit) = (Bucket::default(), Limit::new(2.0, 1, 8));
        let late = bucket.take(&limit, at(0), 3).unwrap();
        bucket.take(&limit, at(0), 7).unwrap();
        // 0 left, 2 gained, 1 taken.
        assert_eq!(passes(&bucket, &limit, at(1_200), 1), 1);
        bucket.give_back(&limit, late, 3);
        assert_eq!(passes(&bucket, &limit, at(1_200), 9), 4);
    }

    #[test]
    fn a_refusal_tells_when_it_would_pass() {
        for (count, duration, burst, taken, weight) in [
            (2.0, 1, 0, 2, 1),
            (2.0, 1, 8, 9, 5),
            (7.0, 10, 0, 7, 3),
            (0.3, 1, 2, 2, 1),
            (3e6, 1, 0, 3_000_000, 7),
        ] {
            let (bucket, limit) = (Bucket::default(), Limit::new(count, duration, burst));
            let now = Timestamp::from_nanos(at(0).as_nanos() + 300_123);
            bucket.take(&limit, now, taken).unwrap();
            let short = bucket.take(&limit, now, weight).unwrap_err();
            let after_ns = short.after_ns.unwrap();
            let then = |ns| Timestamp::from_nanos(now.as_nanos() + ns);
            assert!(
                bucket.take(&limit, then(after_ns - 1), weight).is_err(),
                "{count}"
            );
            assert!(
                bucket.take(&limit, then(after_ns), weight).is_ok(),
                "{count}"
            );
        }
        let limit = Limit::new(2.0, 1, 1);
        let never = Short {
            left: 3,
            after_ns: None,
        };
        let bucket = Bucket::default();
        assert_eq!(bucket.take(&limit, at(0), 4), Err(never));
        bucket.take(&limit, at(0), 1).unwrap();
        let never = Short { left: 2, ..never };
        assert_eq!(bucket.take(&limit, at(0), 4), Err(never));
    }

    #[test]
    fn millions_of_tokens_are_counted_one_by_one() {
        for count in [1e6, 5e6, 1e9, 1e12] {
            let (bucket, limit) = (Bucket::default(), Limit::new(count, 1, 0));
            let all_but_two = limit.capacity() - 2;
            bucket.take(&limit, at(0), all_but_two).unwrap();
            assert_eq!(passes(&bucket, &limit, at(1), 5), 2, "{count}");
            let much_later = at(10_000_000);
            assert_eq!(passes(&bucket, &limit, much_later, 5), 5, "{count}");
        }
    }
}
