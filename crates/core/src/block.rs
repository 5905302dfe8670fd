//! A refusal, as a value.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use crate::Accounting;

/// The id of a rule: given in the document, or `kind/resource#n`.
///
/// Cloning allocates nothing; ids of up to 38 bytes are kept in place, so that
/// a refusal that carries one touches no shared reference count either.
#[derive(Clone)]
pub struct RuleId(Repr);

/// So that a refusal stays below the 128 bytes from which on `Result<_, Block>`
/// is thought too large to return.
const INLINE_MAX: usize = 38;

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Shared(Arc<str>),
}

impl RuleId {
    /// An id with this text.
    pub fn new(text: &str) -> Self {
        if text.len() > INLINE_MAX {
            return RuleId(Repr::Shared(text.into()));
        }
        let mut bytes = [0; INLINE_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        RuleId(Repr::Inline {
            len: text.len() as u8,
            bytes,
        })
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline { len, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default()
            }
            Repr::Shared(text) => text,
        }
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// On one line: a control character, which a resource's name may have, is shown
/// escaped.
impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.as_str();
        if !text.contains(char::is_control) {
            return f.write_str(text);
        }
        text.chars().try_for_each(|c| match c.is_control() {
            true => write!(f, "{}", c.escape_default()),
            false => f.write_char(c),
        })
    }
}

impl PartialEq for RuleId {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RuleId {}

/// Which family of rules refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BlockKind {
    /// A list of callers (`authority`).
    Authority,
    /// The protection of the machine (`system`).
    System,
    /// A limit on one value of an argument (`paramFlow`).
    ParamFlow,
    /// A flow rule: rate, warm-up, queue or concurrency.
    Flow,
    /// A limit on calls at once (`isolation`).
    Isolation,
    /// A circuit breaker (`degrade`).
    Degrade,
    /// A slot or a kind of rules of the service's own, by its name.
    Custom(&'static str),
}

impl BlockKind {
    /// The kind's name in documents and figures.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Authority => "authority",
            BlockKind::System => "system",
            BlockKind::ParamFlow => "paramFlow",
            BlockKind::Flow => "flow",
            BlockKind::Isolation => "isolation",
            BlockKind::Degrade => "degrade",
            BlockKind::Custom(name) => name,
        }
    }
}

/// What the limit of a refusal counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Measure {
    /// Calls per second.
    Rate,
    /// Calls per this interval.
    RatePer(Duration),
    /// Calls in flight.
    Concurrency,
    /// Permits in flight: a call holds as many as it weighs.
    Permits,
    /// Tokens taken out of a bucket.
    Tokens,
    /// A wait in milliseconds.
    WaitMs,
    /// The threshold of a circuit breaker, which is open.
    Breaker,
    /// A mean response time in milliseconds.
    ResponseTimeMs,
    /// The load of the machine: runnable processes.
    Load,
    /// How busy processors are, from 0 to 1.
    Cpu,
    /// Nothing: who calls is not let in.
    Origin,
    /// What a slot of the service's own makes of it.
    Other,
}

/// A call that was refused: by what, at which limit, and when to come again.
///
/// A decision, not a failure: nothing was counted but the refusal itself.
/// Making one allocates nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    kind: BlockKind,
    measure: Measure,
    rule: RuleId,
    limit: f64,
    observed: f64,
    retry_after: Option<Duration>,
    accounting: Option<Accounting>,
}

impl Block {
    /// A refusal by `rule`, whose limit is `limit` and which saw `observed`.
    pub fn new(kind: BlockKind, rule: RuleId, limit: f64, observed: f64) -> Self {
        Block {
            kind,
            measure: Measure::Other,
            rule,
            limit,
            observed,
            retry_after: None,
            accounting: None,
        }
    }

    /// The same, with what its limit counts.
    pub fn measured_in(mut self, measure: Measure) -> Self {
        self.measure = measure;
        self
    }

    /// The same, with how the rate that refused is accounted.
    pub fn accounted_in(mut self, accounting: Accounting) -> Self {
        self.accounting = Some(accounting);
        self
    }

    /// The same, with the time after which the same call could pass.
    pub fn retry_after_at(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Which family of rules refused.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The rule that refused.
    pub fn rule(&self) -> &RuleId {
        &self.rule
    }

    /// What limit and observed value count.
    pub fn measure(&self) -> Measure {
        self.measure
    }

    /// The limit that the rule had in force: calls per second, or per interval
    /// of the rule's own, for rates (at the present temperature or use of
    /// memory, if it goes by that), calls in flight for concurrency,
    /// the longest wait in milliseconds for queues, the threshold for breakers.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// What the rule saw, in the unit of the limit; an open breaker has seen
    /// nothing of this call and shows its threshold.
    pub fn observed(&self) -> f64 {
        self.observed
    }

    /// The spans of time that the limit holds for, if it is one on a rate.
    pub fn accounting(&self) -> Option<Accounting> {
        self.accounting
    }

    /// How long until the same call would pass if nobody else came. `None`:
    /// not foreseeable (concurrency), or never (a weight above the limit).
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Block {
            kind,
            measure,
            rule,
            limit,
            observed,
            retry_after,
            accounting,
        } = self;
        write!(f, "refused by {} rule {rule}: ", kind.name())?;
        // A moving limit has more digits than anybody wants to read.
        let short = |number: &f64| (number * 1e3).round() / 1e3;
        let (limit, observed) = (short(limit), short(observed));
        match measure {
            Measure::Rate => write!(f, "{observed} of {limit} calls per second")?,
            Measure::RatePer(interval) => {
                write!(f, "{observed} of {limit} calls per {interval:?}")?;
            }
            Measure::Concurrency => write!(f, "{observed} of {limit} calls in flight")?,
            Measure::Tokens => write!(f, "{observed} of {limit} tokens are taken")?,
            Measure::Permits => write!(f, "{observed} of {limit} permits are taken")?,
            Measure::WaitMs if observed < 1e15 => {
                write!(
                    f,
                    "would wait {:.0} ms, at most {limit} ms",
                    observed.ceil()
                )?;
            }
            Measure::WaitMs => f.write_str("its line is closed")?,
            Measure::Breaker => f.write_str("its circuit is open, or probing")?,
            Measure::ResponseTimeMs => {
                write!(f, "calls take {observed} ms on average, at most {limit} ms")?;
            }
            Measure::Load => write!(f, "the machine has load {observed}, at most {limit}")?,
            Measure::Cpu => {
                let percent = |share: f64| (share * 1e3).round() / 10.0;
                let (limit, observed) = (percent(limit), percent(observed));
                write!(f, "processors are {observed} % busy, at most {limit} %")?;
            }
            Measure::Origin => f.write_str("its caller is not let in")?,
            Measure::Other => write!(f, "{observed} of {limit}")?,
        }
        // A bucket has said so, and Sentinel's windows are what people expect.
        if *accounting == Some(Accounting::Strict) {
            f.write_str(" (strict)")?;
        }
        match retry_after {
            // Rounded up: who comes after that is not too early.
            Some(after) if after.as_millis() > 0 => {
                write!(
                    f,
                    ", retry after {} ms",
                    after.as_nanos().div_ceil(1_000_000)
                )
            }
            Some(after) => write!(f, ", retry after {after:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Block {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_text_whatever_its_length() {
        for text in ["", "flow/orders#1", &"x".repeat(38), &"ü".repeat(40)] {
            let id = RuleId::new(text);
            assert_eq!(id.as_str(), text);
            assert_eq!(id.clone(), id);
        }
    }

    #[test]
    fn a_refusal_is_small_enough_to_be_returned() {
        assert!(size_of::<Block>() < 128, "{}", size_of::<Block>());
    }

    #[test]
    fn an_id_is_shown_on_one_line() {
        let id = RuleId::new("flow/a\nb\u{7}ü#1");
        assert_eq!(id.to_string(), "flow/a\\nb\\u{7}ü#1");
    }

    #[test]
    fn a_block_reads_as_a_sentence() {
        let block = |measure, limit, observed| {
            Block::new(
                BlockKind::Flow,
                RuleId::new("flow/orders#1"),
                limit,
                observed,
            )
            .measured_in(measure)
            .retry_after_at(Some(Duration::from_micros(300_001)))
            .to_string()
        };
        let said =
            |what: &str| format!("refused by flow rule flow/orders#1: {what}, retry after 301 ms");
        assert_eq!(
            block(Measure::Rate, 20.0, 20.0),
            said("20 of 20 calls per second")
        );
        let minute = Measure::RatePer(Duration::from_secs(60));
        assert_eq!(block(minute, 20.0, 20.0), said("20 of 20 calls per 60s"));
        assert_eq!(
            block(Measure::Tokens, 20.0, 19.25),
            said("19.25 of 20 tokens are taken")
        );
        let strict = Block::new(BlockKind::Flow, RuleId::new("a"), 5.0, 5.0)
            .measured_in(Measure::Rate)
            .accounted_in(Accounting::Strict);
        assert_eq!(
            strict.to_string(),
            "refused by flow rule a: 5 of 5 calls per second (strict)"
        );
        assert_eq!(
            block(Measure::Concurrency, 3.0, 3.0),
            said("3 of 3 calls in flight")
        );
        let waits = said("would wait 600 ms, at most 500 ms");
        assert_eq!(block(Measure::WaitMs, 500.0, 599.913), waits);
        assert_eq!(
            block(Measure::WaitMs, 500.0, f64::MAX),
            said("its line is closed")
        );
        assert_eq!(
            block(Measure::Breaker, 0.5, 0.5),
            said("its circuit is open, or probing")
        );
        assert_eq!(
            block(Measure::ResponseTimeMs, 50.0, 80.25),
            said("calls take 80.25 ms on average, at most 50 ms")
        );
        assert_eq!(
            block(Measure::Load, 4.0, 6.5),
            said("the machine has load 6.5, at most 4")
        );
        assert_eq!(
            block(Measure::Cpu, 0.8, 0.93156),
            said("processors are 93.2 % busy, at most 80 %")
        );
        assert_eq!(
            block(Measure::Origin, 0.0, 0.0),
            said("its caller is not let in")
        );
        assert_eq!(block(Measure::Other, 2.0, 7.0), said("7 of 2"));
    }
}
