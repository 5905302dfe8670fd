//! The asynchronous way in, where nothing has to be waited for.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::Result;

use crate::contest::{Budget, contest, repeat};
use crate::entries::passing;
use crate::line::Figures;

const ONE_RULE: &str = r#"{"flow": [{"resource": "orders", "count": 1e9}]}"#;

/// Polls each future once, with a waker that does nothing: it is ready then. No
/// runtime is measured.
pub(crate) fn ready(budget: Budget) -> Result<Figures> {
    let (_engine, orders) = passing(ONE_RULE)?;
    let mut context = Context::from_waker(Waker::noop());
    let mut ours = repeat(|| {
        let future = pin!(black_box(&orders).acquire());
        if let Poll::Ready(Ok(entry)) = future.poll(&mut context) {
            black_box(&entry);
            entry.exit();
        }
    });
    let mut theirs = repeat(|| {
        if let Ok(entry) = black_box(&orders).entry() {
            black_box(&entry);
            entry.exit();
        }
    });
    let medians = contest(budget, &mut ours, &mut theirs);
    Ok(Figures::against("the same by entry()", medians))
}
