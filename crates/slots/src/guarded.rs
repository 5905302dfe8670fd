//! A slot that is not ours, kept from doing harm.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use flowgate_core::sync::{AtomicU64, Ordering};
use flowgate_core::{Block, Call, Departure, Queue, Verdict};

use crate::slot::Slot;

/// A fault of a slot: what went wrong, for whoever looks at the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotError {
    message: String,
}

impl SlotError {
    /// A fault with this message.
    pub fn new(message: impl Into<String>) -> Self {
        SlotError {
            message: message.into(),
        }
    }
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SlotError {}

type FaultHook = dyn Fn(&'static str, &SlotError) + Send + Sync;

/// Counts the faults of custom slots, and tells whoever wants to know.
#[derive(Default)]
pub struct FaultCounter {
    count: AtomicU64,
    hook: Option<Box<FaultHook>>,
}

impl FaultCounter {
    /// A counter that also calls `hook` with the slot's name and the fault, on
    /// the thread of the call.
    pub fn with_hook(hook: impl Fn(&'static str, &SlotError) + Send + Sync + 'static) -> Self {
        FaultCounter {
            count: AtomicU64::new(0),
            hook: Some(Box::new(hook)),
        }
    }

    /// How many faults there were.
    pub fn count(&self) -> u64 {
        // Relaxed, as the addition: a figure that nothing else is read after.
        self.count.load(Ordering::Relaxed)
    }

    fn report(&self, slot: &'static str, fault: &SlotError) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(hook) = &self.hook {
            // A hook that panics must not take the call down either.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(slot, fault)));
        }
    }
}

impl fmt::Debug for FaultCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultCounter")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// A custom slot in the chain.
pub(crate) struct Guarded {
    inner: Arc<dyn Slot>,
    name: &'static str,
    faults: Arc<FaultCounter>,
    /// Whether it is all rules of a kind: where one fails, what the others have
    /// taken is to be given back.
    has_rules: bool,
}

impl Guarded {
    /// A slot of the service's own.
    pub(crate) fn new(inner: Arc<dyn Slot>, faults: Arc<FaultCounter>) -> Self {
        let name = catch_unwind(AssertUnwindSafe(|| inner.name())).unwrap_or("(no name)");
        Guarded {
            inner,
            name,
            faults,
            has_rules: false,
        }
    }

    /// The slot of a kind of the service's own.
    pub(crate) fn of_rules(slot: Arc<dyn Slot>, faults: Arc<FaultCounter>) -> Self {
        Guarded {
            has_rules: true,
            ..Guarded::new(slot, faults)
        }
    }

    /// The slot has failed on a call that it was to decide on.
    #[cold]
    fn give_up(&self, call: &Call<'_>, fault: SlotError) -> SlotError {
        if self.has_rules {
            self.undo(call);
        }
        fault
    }

    fn shielded<T>(&self, run: impl FnOnce() -> T) -> Result<T, SlotError> {
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let fault = SlotError::new(format!("panicked: {}", text.unwrap_or("(no message)")));
            self.faults.report(self.name, &fault);
            fault
        })
    }
}

impl Slot for Guarded {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self, call: &mut Call<'_>) -> Result<Verdict, SlotError> {
        match self.shielded(|| self.inner.check(call)) {
            Ok(Err(fault)) => {
                self.faults.report(self.name, &fault);
                Err(self.give_up(call, fault))
            }
            Ok(verdict) => verdict,
            Err(fault) => Err(self.give_up(call, fault)),
        }
    }

    fn undo(&self, call: &Call<'_>) {
        let _ = self.shielded(|| self.inner.undo(call));
    }

    fn passed(&self, call: &mut Call<'_>) {
        let heard = self.shielded(|| self.inner.passed(call));
        // Rules hear how the call ends, as they hold something of it.
        if heard.is_err() && !self.has_rules {
            call.holds.exclude(call.slot);
        }
    }

    fn blocked(&self, call: &Call<'_>, block: &Block) {
        let _ = self.shielded(|| self.inner.blocked(call, block));
    }

    fn exited(&self, departure: &Departure<'_>) {
        let _ = self.shielded(|| self.inner.exited(departure));
    }

    fn hears_exits(&self) -> bool {
        self.shielded(|| self.inner.hears_exits()).unwrap_or(false)
    }

    fn too_early(&self, call: &Call<'_>, wait: Duration) -> Block {
        let inner = &self.inner;
        self.shielded(|| inner.too_early(call, wait))
            .unwrap_or_else(|_| WaitRefused(self.name()).too_early(call, wait))
    }

    fn in_vain(&self, call: &Call<'_>, queue: Queue) -> Block {
        let block = queue.block.clone();
        self.shielded(|| self.inner.in_vain(call, queue))
            .unwrap_or(block)
    }
}

/// Stands in for a slot that failed to say why it refuses.
struct WaitRefused(&'static str);

impl Slot for WaitRefused {
    fn name(&self) -> &'static str {
        self.0
    }
}
