//! A call that says more about itself than its resource.

use std::sync::Arc;

use flowgate_core::{Arg, Block, Traffic};
use flowgate_slots::CONTEXT_DEFAULT;

use crate::enter::{self, Detour, Start};
use crate::entry::Entry;
use crate::pending::Pending;
use crate::resource::{ResourceInner, ResourceRef};

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
    /// Whether it named a context other than the default one.
    pub(crate) has_context: bool,
    /// Whether it has named neither origin nor context: then it counts on the
    /// node of its resource alone.
    pub(crate) is_plain: bool,
    pub(crate) args: &'r [Arg<'r>],
    pub(crate) attachments: &'r [(&'r str, Arg<'r>)],
}

impl<'a, 'r> Request<'a, 'r> {
    #[inline]
    pub(crate) fn lent(resource: &'a Arc<ResourceInner>) -> Self {
        Request {
            resource: ResourceRef::Lent(resource),
            spec: Spec::PLAIN,
        }
    }

    pub(crate) fn owned(resource: Arc<ResourceInner>) -> Self {
        Request {
            resource: ResourceRef::Held(resource),
            spec: Spec::PLAIN,
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
        self.spec.is_plain = origin.is_empty() && !self.spec.has_context;
        self
    }

    /// The entrance that the call came through; CHAIN rules limit a resource as
    /// called in one context. Default, also for an empty name: Sentinel's
    /// default context.
    pub fn context(mut self, context: &'r str) -> Self {
        self.spec.context = context_or_default(context);
        self.spec.has_context = self.spec.context != CONTEXT_DEFAULT;
        self.spec.is_plain = self.spec.origin.is_empty() && !self.spec.has_context;
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
        enter::enter(self.resource, &self.spec)
    }

    /// Asks to enter; never waits.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses, or would have the call wait.
    #[inline]
    pub fn try_entry(self) -> Result<Entry<'a>, Block> {
        enter::try_enter(self.resource, &self.spec)
    }

    /// Asks to enter; waits on a timer if told to queue, or until permits are
    /// free. A future dropped while it waits gives its place back.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    #[cfg(feature = "tokio")]
    pub async fn acquire(self) -> Result<Entry<'a>, Block> {
        match enter::acquire(self.resource, &self.spec) {
            Ok(answer) => answer,
            Err(wait) => wait.await,
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
    pub fn reserve(self) -> Result<Pending<'a>, Block> {
        match enter::start::<true>(self.resource, &self.spec) {
            // Guarding is switched off.
            Start::In(_) => Ok(Pending::unguarded()),
            Start::Refused(block) => Err(block),
            Start::Aside(resource, Detour::Pending(admission)) => {
                Ok(Pending::new(resource, admission))
            }
            Start::Aside(resource, Detour::Standing(standing)) => {
                Err(resource.turn_away(standing, &self.spec))
            }
        }
    }
}

impl Spec<'_> {
    /// A call that says nothing of itself.
    pub(crate) const PLAIN: Self = Spec {
        weight: 1,
        prioritized: false,
        traffic: Traffic::Outbound,
        origin: "",
        context: CONTEXT_DEFAULT,
        has_context: false,
        is_plain: true,
        args: &[],
        attachments: &[],
    };
}

pub(crate) fn context_or_default(context: &str) -> &str {
    if context.is_empty() {
        CONTEXT_DEFAULT
    } else {
        context
    }
}
