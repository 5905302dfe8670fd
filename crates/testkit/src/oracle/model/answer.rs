//! What the documents allow a limiter to say.

use super::super::log::{Bound, Broken};

/// What was said to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admitted {
        /// In nanoseconds from the arrival.
        wait: u64,
    },
    Refused {
        by: Option<&'static str>,
    },
}

/// What may be said to a call.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Whether it may be refused; by the kind named, if only that one may.
    pub(super) refusal: Option<Option<&'static str>>,
    pub(super) waits: Waits,
}

/// How long an admitted call may be made to wait.
#[derive(Clone, Debug)]
pub(super) enum Waits {
    /// It must not be admitted.
    None,
    One(u64),
    /// One of these.
    Among(Vec<u64>),
    Between(u64, u64),
}

impl Answer {
    pub(super) fn admit(wait: u64) -> Self {
        Answer {
            refusal: None,
            waits: Waits::One(wait),
        }
    }

    pub(super) fn refuse() -> Self {
        Answer {
            refusal: Some(None),
            waits: Waits::None,
        }
    }

    /// Whether the wait is among those allowed; the nearest of them if not.
    fn allows(&self, wait: u64) -> Result<(), u64> {
        let nearest = match &self.waits {
            Waits::None => return Err(wait),
            Waits::One(one) => *one,
            Waits::Among(all) => {
                let nearest = all.iter().min_by_key(|one| one.abs_diff(wait));
                nearest.copied().unwrap_or(wait)
            }
            Waits::Between(least, most) => wait.clamp(*least, *most),
        };
        if nearest == wait {
            Ok(())
        } else {
            Err(nearest)
        }
    }

    pub(super) fn judge(&self, said: Verdict) -> Result<(), Broken> {
        match said {
            Verdict::Refused { by } => match self.refusal {
                None => Err(Broken::new(
                    Bound::Lower,
                    "a call was refused that has to be admitted",
                )),
                Some(Some(kind)) if by.is_some_and(|by| by != kind) => Err(Broken::new(
                    Bound::Lower,
                    format!(
                        "a call was refused by {} that {kind} has to refuse",
                        by.unwrap_or("nobody")
                    ),
                )),
                Some(_) => Ok(()),
            },
            Verdict::Admitted { .. } if matches!(self.waits, Waits::None) => Err(Broken::new(
                Bound::Upper,
                "a call was admitted that has to be refused",
            )),
            Verdict::Admitted { wait } => self.allows(wait).map_err(|nearest| {
                let bound = if wait < nearest {
                    Bound::Upper
                } else {
                    Bound::Lower
                };
                Broken::new(
                    bound,
                    format!("a call waits {wait} ns that has to wait {nearest} ns"),
                )
            }),
        }
    }

    pub(super) fn preferred(&self) -> Verdict {
        let wait = match &self.waits {
            Waits::None => {
                let by = self.refusal.flatten();
                return Verdict::Refused { by };
            }
            Waits::One(wait) | Waits::Between(wait, _) => *wait,
            Waits::Among(all) => all.iter().copied().min().unwrap_or(0),
        };
        Verdict::Admitted { wait }
    }

    /// The same for a call that is refused if it would have to wait.
    pub(super) fn without_waiting(self) -> Answer {
        let zero = self.allows(0).is_ok();
        let only_zero = matches!(self.waits, Waits::One(0) | Waits::Between(_, 0));
        Answer {
            refusal: if only_zero {
                self.refusal
            } else {
                Some(self.refusal.flatten())
            },
            waits: if zero { Waits::One(0) } else { Waits::None },
        }
    }
}

/// The answer of all rules: each must let the call pass, and it waits once, for
/// the longest. Rules come in the order they are asked in.
pub(super) fn combine(rules: impl Iterator<Item = (&'static str, Answer)>) -> Answer {
    let mut all = Answer::admit(0);
    // As long as no rule before may or may not refuse, the first to refuse is
    // known.
    let mut certain = true;
    for (kind, answer) in rules {
        let must = matches!(answer.waits, Waits::None);
        if answer.refusal.is_some() && all.refusal.is_none() {
            all.refusal = Some((certain && must).then_some(kind));
            certain = false;
        }
        all.waits = later(all.waits, answer.waits);
    }
    all
}

fn later(a: Waits, b: Waits) -> Waits {
    match (a, b) {
        (Waits::None, _) | (_, Waits::None) => Waits::None,
        (Waits::One(a), Waits::One(b)) => Waits::One(a.max(b)),
        (Waits::One(0), other) | (other, Waits::One(0)) => other,
        (Waits::One(one), Waits::Among(all)) | (Waits::Among(all), Waits::One(one)) => {
            Waits::Among(all.into_iter().map(|wait| wait.max(one)).collect())
        }
        (Waits::One(one), Waits::Between(least, most))
        | (Waits::Between(least, most), Waits::One(one)) => {
            Waits::Between(least.max(one), most.max(one))
        }
        (a, b) => {
            let ((a_least, a_most), (b_least, b_most)) = (range(&a), range(&b));
            Waits::Between(a_least.max(b_least), a_most.max(b_most))
        }
    }
}

fn range(waits: &Waits) -> (u64, u64) {
    match waits {
        Waits::None => (0, 0),
        Waits::One(one) => (*one, *one),
        Waits::Among(all) => (
            all.iter().copied().min().unwrap_or(0),
            all.iter().copied().max().unwrap_or(0),
        ),
        Waits::Between(least, most) => (*least, *most),
    }
}
