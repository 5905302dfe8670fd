//! The default engine, for services that need only one.

use std::fmt;

use flowgate_core::Block;
use once_cell::sync::OnceCell;

use crate::{Engine, Entry, Resource};

static DEFAULT: OnceCell<Engine> = OnceCell::new();

/// The default engine: the one given to [`init`], or one with Sentinel's
/// defaults, made on first use.
#[inline]
pub fn engine() -> &'static Engine {
    DEFAULT.get_or_init(Engine::new)
}

/// Makes `engine` the default one. To be called before the default engine is
/// used, as early as `main`.
///
/// # Errors
///
/// [`AlreadyInUse`] gives the engine back.
pub fn init(engine: Engine) -> Result<(), AlreadyInUse> {
    DEFAULT.set(engine).map_err(AlreadyInUse)
}

/// There is a default engine already.
pub struct AlreadyInUse(
    /// The engine that was not made the default one.
    pub Engine,
);

impl fmt::Debug for AlreadyInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AlreadyInUse")
    }
}

impl fmt::Display for AlreadyInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the default engine is in use already; call `init` before the first entry")
    }
}

impl std::error::Error for AlreadyInUse {}

/// Asks the default engine to enter `resource`; waits on the thread if told to
/// queue.
///
/// # Errors
///
/// [`Block`] if a rule refuses.
#[inline]
pub fn entry(resource: &str) -> Result<Entry<'static>, Block> {
    engine().entry(resource)
}

/// Asks the default engine to enter `resource`; never waits.
///
/// # Errors
///
/// [`Block`] if a rule refuses, or would have the call wait.
#[inline]
pub fn try_entry(resource: &str) -> Result<Entry<'static>, Block> {
    engine().try_entry(resource)
}

/// Asks the default engine to enter `resource`; waits without holding up the
/// thread.
///
/// # Errors
///
/// [`Block`] if a rule refuses.
#[cfg(feature = "tokio")]
pub async fn acquire(resource: &str) -> Result<Entry<'static>, Block> {
    engine().acquire(resource).await
}

/// A place in the code that enters one resource of the default engine, and has
/// looked it up once: what [`entry!`](crate::entry!) makes.
pub struct CallSite {
    name: &'static str,
    resource: OnceCell<Resource>,
}

impl CallSite {
    /// A call site of `name`.
    pub const fn new(name: &'static str) -> Self {
        CallSite {
            name,
            resource: OnceCell::new(),
        }
    }

    /// The resource, looked up on first use.
    #[inline]
    pub fn resource(&self) -> &Resource {
        self.resource.get_or_init(|| engine().resource(self.name))
    }
}

/// Asks the default engine to enter a resource with a fixed name; waits on the
/// thread if told to queue. The look-up by name is done once per place in the
/// code.
///
/// ```
/// fn handle() -> Result<(), flowgate::Block> {
///     let _entry = flowgate::entry!("orders")?;
///     // the protected work
///     Ok(())
/// }
/// # handle().unwrap();
/// ```
#[macro_export]
macro_rules! entry {
    ($name:literal) => {{
        static SITE: $crate::CallSite = $crate::CallSite::new($name);
        SITE.resource().entry()
    }};
}
