//! A call that says more about itself than its resource.

use std::sync::Arc;

use flowgate_core::{Arg, Block, Traffic};
use flowgate_slots::CONTEXT_DEFAULT;

use crate::entry::Entry;
use crate::pending::Pending;
use crate::queued::{Granted, Standing, Waiting};
use crate::resource::{Admitted, ResourceInner, ResourceRef};

/// A call in the making.
///
/// ```
/// use flowgate::{Engine, Traffic};
///
/// let orders = Engine::new().resource("orders");
/// let entry = orders
///     .request()
///     .origin("web")
///     .context("checkout")
///     .weight(2)
///     .traffic(Traffic::Inbound)
///     .entry()?;
/// # entry.exit();
/// # Ok::<(), flowgate::Block>(())
/// ```
#[must_use = "a request asks for nothing until `entry`, `try_entry`, `acquire` or `reserve`"]
pub struct Request<'a, 'r> {
    resource: ResourceRef<'a>,
    spec: Spec<'r>,
}

/// What becomes of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It is waited for right away.
    Is,
    /// The caller has it, and may still give the call up.
    IsTheCallers,
    /// A call that would have to wait is refused.
    Refuses,
}

pub(crate) struct Spec<'r> {
    pub(crate) weight: u32,
    pub(crate) prioritized: bool,
    pub(crate) traffic: Traffic,
    pub(crate) origin: &'r str,
    pub(crate) context: &'r str,
    pub(crate) args: &'r [Arg<'r>],
    pub(crate) attachments: &'r [(&'r str, Arg<'r>)],
}

impl<'a, 'r> Request<'a, 'r> {
    #[inline]
    pub(crate) fn lent(resource: &'a Arc<ResourceInner>) -> Self {
        Request {
            resource: ResourceRef::Lent(resource),
            spec: Spec::default(),
        }
    }

    pub(crate) fn owned(resource: Arc<ResourceInner>) -> Self {
        Request {
            resource: ResourceRef::Held(resource),
            spec: Spec::default(),
        }
    }

    /// Makes the guard independent of the handle: it may outlive it, at the
    /// price of a reference count.
    pub fn into_owned(self) -> Request<'static, 'r> {
        let resource = match self.resource {
            ResourceRef::Lent(resource) => Arc::clone(resource),
            ResourceRef::Held(resource) => resource,
        };
        Request {
            resource: ResourceRef::Held(resource),
            spec: self.spec,
        }
    }

    /// Who calls. Rules may limit one origin, or each of those without a rule
    /// of their own. Default: unknown.
    pub fn origin(mut self, origin: &'r str) -> Self {
        self.spec.origin = origin;
        self
    }

    /// The entrance that the call came through; CHAIN rules limit a resource as
    /// called in one context. Default, also for an empty name: Sentinel's
    /// default context.
    pub fn context(mut self, context: &'r str) -> Self {
        self.spec.context = context_or_default(context);
        self
    }

    /// How many permits the call takes. 0 asks without taking any. Default: 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.spec.weight = weight;
        self
    }

    /// Lets the call borrow from a window to come, and wait for that, where a
    /// reject rule has no room now.
    pub fn prioritized(mut self) -> Self {
        self.spec.prioritized = true;
        self
    }

    /// Which way the call goes. Default: outbound, as in Sentinel.
    pub fn traffic(mut self, traffic: Traffic) -> Self {
        self.spec.traffic = traffic;
        self
    }

    /// The call's arguments, for slots that look at them.
    pub fn args(mut self, args: &'r [Arg<'r>]) -> Self {
        self.spec.args = args;
        self
    }

    /// What else the call says of itself, by name, for rules that look at a
    /// named value instead of an argument's position.
    ///
    /// ```
    /// use flowgate::{Arg, Engine};
    ///
    /// let orders = Engine::new().resource("orders");
    /// let user = [("user", Arg::from(7))];
    /// let entry = orders.request().attachments(&user).entry()?;
    /// # entry.exit();
    /// # Ok::<(), flowgate::Block>(())
    /// ```
    pub fn attachments(mut self, attachments: &'r [(&'r str, Arg<'r>)]) -> Self {
        self.spec.attachments = attachments;
        self
    }

    /// Asks to enter; waits on the thread if told to queue, or until permits are
    /// free.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    #[inline]
    pub fn entry(self) -> Result<Entry<'a>, Block> {
        match self.go(Wait::Is)? {
            Gone::In(entry) => Ok(entry),
            Gone::Pending(pending) => Ok(pending.begin_on_thread()),
            Gone::Standing(request, standing) => request.entry_from(standing),
        }
    }

    /// Asks to enter; never waits.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses, or would have the call wait.
    #[inline]
    pub fn try_entry(self) -> Result<Entry<'a>, Block> {
        match self.go(Wait::Refuses)? {
            Gone::In(entry) => Ok(entry),
            Gone::Pending(pending) => Ok(pending.begin()),
            Gone::Standing(request, standing) => Err(request.turn_away(standing)),
        }
    }

    /// Asks to enter; waits on a timer if told to queue, or until permits are
    /// free. A future dropped while it waits gives its place back.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    #[cfg(feature = "tokio")]
    pub async fn acquire(self) -> Result<Entry<'a>, Block> {
        match self.go(Wait::Is)? {
            Gone::In(entry) => Ok(entry),
            Gone::Pending(pending) => {
                pending.wait_on_timer(pending.wait()).await;
                Ok(pending.begin())
            }
            Gone::Standing(request, standing) => request.acquire_from(standing).await,
        }
    }

    /// Asks to enter, and returns the wait as a value instead of waiting.
    ///
    /// A call that would have to wait for permits is refused: when those come
    /// cannot be said.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    pub fn reserve(mut self) -> Result<Pending<'a>, Block> {
        self.move_home();
        let admission = match self.resource.enter(&self.spec, Wait::IsTheCallers)? {
            Admitted::Pending(admission) => Some(admission),
            Admitted::Entered(_) | Admitted::Unguarded => None,
            Admitted::Standing(standing) => return Err(self.turn_away(standing)),
        };
        Ok(Pending::new(self.resource, admission))
    }

    #[inline]
    fn go(mut self, wait: Wait) -> Result<Gone<'a, 'r>, Block> {
        self.move_home();
        Ok(match self.resource.enter(&self.spec, wait)? {
            Admitted::Entered(stay) => Gone::In(Entry::guarding(self.resource, stay)),
            Admitted::Pending(admission) => {
                Gone::Pending(Pending::new(self.resource, Some(admission)))
            }
            Admitted::Unguarded => Gone::In(Entry::unguarded()),
            Admitted::Standing(standing) => Gone::Standing(self, standing),
        })
    }

    /// Stands in line on the thread.
    #[cold]
    fn entry_from(self, standing: Standing) -> Result<Entry<'a>, Block> {
        let waiting = Waiting::step_in(&self.resource, standing, &self.spec)?;
        waiting.wait_on_thread();
        let granted = waiting.end(&self.spec)?;
        Ok(self.pending_from(granted)?.begin_on_thread())
    }

    /// Stands in line without holding up the thread.
    #[cfg(feature = "tokio")]
    async fn acquire_from(self, standing: Standing) -> Result<Entry<'a>, Block> {
        let waiting = Waiting::step_in(&self.resource, standing, &self.spec)?;
        waiting.wait_on_timer().await;
        let granted = waiting.end(&self.spec)?;
        let pending = self.pending_from(granted)?;
        pending.wait_on_timer(pending.wait()).await;
        Ok(pending.begin())
    }

    /// Goes through the chain with its permits; it may have to wait again, for
    /// its time.
    fn pending_from(self, granted: Granted) -> Result<Pending<'a>, Block> {
        let admission = self.resource.enter_granted(granted, &self.spec)?;
        Ok(Pending::new(self.resource, Some(admission)))
    }

    /// A call that must not stand in line was told to.
    #[cold]
    fn turn_away(&self, standing: Standing) -> Block {
        self.resource.turn_away(standing, &self.spec)
    }

    /// A handle that was taken beyond the limit may have a place by now, or
    /// counts with others.
    #[inline]
    fn move_home(&mut self) {
        if let Some(home) = self.resource.home() {
            self.resource = ResourceRef::Held(home);
        }
    }
}

/// How far a request has come.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation on the way of a call"
)]
enum Gone<'a, 'r> {
    In(Entry<'a>),
    Pending(Pending<'a>),
    Standing(Request<'a, 'r>, Standing),
}

impl Default for Spec<'_> {
    #[inline]
    fn default() -> Self {
        Spec {
            weight: 1,
            prioritized: false,
            traffic: Traffic::Outbound,
            origin: "",
            context: CONTEXT_DEFAULT,
            args: &[],
            attachments: &[],
        }
    }
}

pub(crate) fn context_or_default(context: &str) -> &str {
    if context.is_empty() {
        CONTEXT_DEFAULT
    } else {
        context
    }
}
