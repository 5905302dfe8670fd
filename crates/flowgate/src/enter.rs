//! The way of a call in.
//!
//! It is one function, [`go`], for every way to ask: what differs is what becomes
//! of a call that cannot go ahead at once, and that is handed in. So the way of
//! one that can is a straight line, its [`Entry`] is written once and where the
//! caller wants it, and what a call holds meanwhile stays on the stack.
//!
//! **The chain.** A call compares generations, takes the chain of the one in
//! force ([`Visit`]; made anew if the plan has moved on) and uses that one to its
//! end. Why it never sees two generations, nor an older one than a call before
//! it, is said and modelled in `core::publish`; nothing is added to that here. A
//! chain that two threads make of one plan at the same time is made twice and
//! kept once; what rules remember is not in it but in their table, made once per
//! resource under a lock.

#[cfg(feature = "tokio")]
use std::pin::Pin;
use std::sync::Arc;

use flowgate_core::Block;
use flowgate_core::sync::Ordering;
use flowgate_slots::Halt;

use crate::entry::{Entry, Stay};
use crate::pending::{Admission, Pending};
use crate::queued::{Granted, Standing};
use crate::request::{Spec, Wait};
use crate::resource::{ResourceInner, ResourceRef};
use crate::visit::{Guide, Visit};

/// What has a call not go ahead at once.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation on the way of a call"
)]
pub(crate) enum Detour {
    /// It was admitted, and goes ahead after a wait, or when its caller says so.
    Pending(Admission),
    /// It has to wait for permits before anything else.
    Standing(Standing),
}

/// How far a call has come.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation on the way of a call"
)]
pub(crate) enum Start<'a> {
    /// It is in.
    #[cfg_attr(
        not(feature = "tokio"),
        expect(dead_code, reason = "who reserves has guarding switched off then")
    )]
    In(Entry<'a>),
    /// It was refused.
    Refused(Block),
    /// It is somewhere else on its way.
    Aside(ResourceRef<'a>, Detour),
}

/// What those who ask want to hear.
trait Answer<'a> {
    fn entered(entry: Entry<'a>) -> Self;
    fn refused(block: Block) -> Self;
}

impl<'a> Answer<'a> for Result<Entry<'a>, Block> {
    #[inline]
    fn entered(entry: Entry<'a>) -> Self {
        Ok(entry)
    }

    #[inline]
    fn refused(block: Block) -> Self {
        Err(block)
    }
}

impl<'a> Answer<'a> for Start<'a> {
    #[inline]
    fn entered(entry: Entry<'a>) -> Self {
        Start::In(entry)
    }

    #[inline]
    fn refused(block: Block) -> Self {
        Start::Refused(block)
    }
}

/// Enters; waits on the thread if told to.
pub(crate) fn enter<'a>(resource: ResourceRef<'a>, spec: &Spec<'_>) -> Result<Entry<'a>, Block> {
    go(resource, spec, Wait::Is, |resource, detour| {
        on_thread(resource, detour, spec)
    })
}

/// Enters, or is refused instead of waiting.
pub(crate) fn try_enter<'a>(
    resource: ResourceRef<'a>,
    spec: &Spec<'_>,
) -> Result<Entry<'a>, Block> {
    go(resource, spec, Wait::Refuses, |resource, detour| {
        at_once(resource, detour, spec)
    })
}

/// Enters, or says what is to be waited for; also if there is nothing, if the
/// wait is the caller's.
pub(crate) fn start<'a, const CALLERS: bool>(
    resource: ResourceRef<'a>,
    spec: &Spec<'_>,
) -> Start<'a> {
    let wait = match CALLERS {
        true => Wait::IsTheCallers,
        false => Wait::Is,
    };
    go(resource, spec, wait, |resource, detour| {
        Start::Aside(resource, detour)
    })
}

#[cold]
fn on_thread<'a>(
    resource: ResourceRef<'a>,
    detour: Detour,
    spec: &Spec<'_>,
) -> Result<Entry<'a>, Block> {
    let pending = match detour {
        Detour::Pending(admission) => Pending::new(resource, admission),
        Detour::Standing(standing) => standing.wait_on_thread(resource, spec)?,
    };
    Ok(pending.begin_on_thread())
}

/// Waits without holding up the thread. Boxed, so that the future of a call that
/// need not wait is small.
#[cfg(feature = "tokio")]
#[cold]
fn on_timer<'a>(
    resource: ResourceRef<'a>,
    detour: Detour,
    spec: &Spec<'_>,
) -> Pin<Box<impl Future<Output = Result<Entry<'a>, Block>>>> {
    Box::pin(async move {
        let pending = match detour {
            Detour::Pending(admission) => Pending::new(resource, admission),
            Detour::Standing(standing) => standing.wait_on_timer(resource, spec).await?,
        };
        pending.wait_on_timer(pending.wait()).await;
        Ok(pending.begin())
    })
}

/// Enters; a wait is left to be awaited.
#[cfg(feature = "tokio")]
#[expect(
    clippy::type_complexity,
    reason = "the future has no name, and is boxed only where it waits"
)]
#[inline]
pub(crate) fn acquire<'a>(
    resource: ResourceRef<'a>,
    spec: &Spec<'_>,
) -> Result<Result<Entry<'a>, Block>, Pin<Box<impl Future<Output = Result<Entry<'a>, Block>>>>> {
    match start::<false>(resource, spec) {
        Start::In(entry) => Ok(Ok(entry)),
        Start::Refused(block) => Ok(Err(block)),
        Start::Aside(resource, detour) => Err(on_timer(resource, detour, spec)),
    }
}

#[cold]
fn at_once<'a>(
    resource: ResourceRef<'a>,
    detour: Detour,
    spec: &Spec<'_>,
) -> Result<Entry<'a>, Block> {
    match detour {
        Detour::Pending(admission) => Ok(Pending::new(resource, admission).begin()),
        // It was told to, and must not.
        Detour::Standing(standing) => Err(resource.turn_away(standing, spec)),
    }
}

/// Takes a call in. `aside` has it from there if it cannot go ahead at once.
#[inline(always)]
fn go<'a, A: Answer<'a>>(
    resource: ResourceRef<'a>,
    spec: &Spec<'_>,
    wait: Wait,
    aside: impl FnOnce(ResourceRef<'a>, Detour) -> A,
) -> A {
    let resource = if resource.is_homeless() {
        resource.at_home()
    } else {
        resource
    };
    let shared = &*resource.shared;
    // Acquire: see `Engine::set_enabled`.
    if !shared.enabled.load(Ordering::Acquire) {
        return A::entered(Entry::unguarded());
    }
    match Visit::take(resource.chain.number(), shared.plan.generation()) {
        Some(visit) => through(resource, visit, spec, wait, aside),
        None => go_the_long_way(resource, spec, wait, aside),
    }
}

/// The thread has nothing at hand for this resource.
#[inline(never)]
fn go_the_long_way<'a, A: Answer<'a>>(
    resource: ResourceRef<'a>,
    spec: &Spec<'_>,
    wait: Wait,
    aside: impl FnOnce(ResourceRef<'a>, Detour) -> A,
) -> A {
    let current = || Arc::clone(&resource.current_chain());
    match Visit::begin(resource.chain.number(), current) {
        Some(visit) => through(resource, visit, spec, wait, aside),
        None => {
            let chain = resource.current_chain();
            through(resource, chain, spec, wait, aside)
        }
    }
}

/// Goes through the chain.
#[inline(always)]
fn through<'a, A: Answer<'a>>(
    resource: ResourceRef<'a>,
    guide: impl Guide,
    spec: &Spec<'_>,
    wait: Wait,
    aside: impl FnOnce(ResourceRef<'a>, Detour) -> A,
) -> A {
    let inner = &*resource;
    let number = inner.chain.number();
    let now = inner.shared.clock.now();
    let mut stay = Stay::arriving(now, spec);
    let chain = guide.chain();
    let is_plain = chain.is_plain && spec.is_plain && wait != Wait::IsTheCallers;
    if is_plain
        && let Some((charged, seats)) = inner.node.admit_alone(spec.traffic, now, spec.weight)
    {
        stay.entered = charged;
        stay.seats = seats;
        guide.done(number);
        return A::entered(Entry::guarding(resource, stay));
    }
    if !spec.origin.is_empty() {
        stay.origin = Some(inner.origin(spec.origin, chain));
    }
    if chain.default_context || spec.has_context {
        stay.context = Some(inner.context(spec.context, chain));
    }
    let mut call = inner.call(spec, &stay, now);
    call.may_wait = wait != Wait::Refuses;
    call.may_queue = wait == Wait::Is;
    call.holds.may_give_up = wait == Wait::IsTheCallers;
    match chain.slots.enter(&mut call) {
        Ok(()) => {}
        Err(Halt::Blocked(block)) => {
            guide.done(number);
            return A::refused(block);
        }
        Err(Halt::InLine(line)) => {
            let chain = Arc::clone(chain);
            guide.done(number);
            let standing = Standing { chain, line, stay };
            return aside(resource, Detour::Standing(standing));
        }
    }
    let (charged, seats) = (call.holds.charged, call.holds.seats);
    if wait == Wait::IsTheCallers || !call.holds.wait.is_zero() {
        let holds = call.holds;
        let chain = Arc::clone(chain);
        guide.done(number);
        stay.entered = charged;
        stay.seats = seats;
        let admission = Admission { chain, holds, stay };
        return aside(resource, Detour::Pending(admission));
    }
    if chain.slots.hears_exits() {
        let visit = guide.noting(&call.holds);
        stay.reports_to = Some(visit);
    } else {
        guide.done(number);
    }
    stay.entered = charged;
    stay.seats = seats;
    A::entered(Entry::guarding(resource, stay))
}

impl ResourceInner {
    /// Takes a call in that has waited for its permits: through the chain that
    /// had it wait.
    #[cold]
    pub(crate) fn enter_granted(
        &self,
        granted: Granted,
        spec: &Spec<'_>,
    ) -> Result<Admission, Block> {
        let Granted {
            chain,
            mut stay,
            holds,
        } = granted;
        let now = self.shared.clock.now();
        let mut call = self.call(spec, &stay, now);
        call.holds = holds;
        match chain.slots.enter(&mut call) {
            Ok(()) => {}
            Err(Halt::Blocked(block)) => return Err(block),
            Err(Halt::InLine(line)) => return Err(chain.slots.turn_away(&mut call, *line)),
        }
        let holds = call.holds;
        stay.seats = holds.seats;
        Ok(Admission { chain, holds, stay })
    }

    /// A call that was told to stand in line is refused.
    #[cold]
    pub(crate) fn turn_away(&self, standing: Standing, spec: &Spec<'_>) -> Block {
        let Standing { chain, line, stay } = standing;
        let now = self.shared.clock.now();
        let mut call = self.call(spec, &stay, now);
        chain.slots.turn_away(&mut call, *line)
    }
}
