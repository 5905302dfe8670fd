//! Work as a closure or a future, guarded from its beginning to its end.

use flowgate_core::{Block, Outcome};

use crate::call_error::{CallError, outcome_of};
use crate::request::Request;

impl Request<'_, '_> {
    /// Runs `work` inside an entry, and reports by its result whether it
    /// failed. A panic in it counts as an error and goes on.
    ///
    /// ```
    /// let orders = flowgate::Engine::new().resource("orders");
    /// let order = orders.request().origin("web").call(|| "42".parse::<u32>())?;
    /// assert_eq!(order, 42);
    /// # Ok::<(), flowgate::CallError<std::num::ParseIntError>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CallError::Blocked`] if a rule refuses, [`CallError::Failed`] with the
    /// error of `work`.
    pub fn call<T, E>(self, work: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_with(work, outcome_of)
    }

    /// Runs `work` inside an entry, and has `classify` say what its result means
    /// for the resource; see [`Resource::call_with`](crate::Resource::call_with).
    ///
    /// # Errors
    ///
    /// As [`Request::call`].
    pub fn call_with<T, E>(
        self,
        work: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E>> {
        let entry = self.entry().map_err(CallError::Blocked)?;
        let result = work();
        entry.exit_with(classify(&result));
        result.map_err(CallError::Failed)
    }

    /// Runs `work`, which cannot fail, inside an entry.
    ///
    /// # Errors
    ///
    /// [`Block`] if a rule refuses.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> Result<T, Block> {
        let entry = self.entry()?;
        let value = work();
        entry.exit();
        Ok(value)
    }

    /// The async twin of [`Request::call`]. A future dropped before its end
    /// leaves as cancelled.
    ///
    /// # Errors
    ///
    /// As [`Request::call`].
    #[cfg(feature = "tokio")]
    pub async fn call_async<T, E, F>(self, work: F) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.call_async_with(work, outcome_of).await
    }

    /// The async twin of [`Request::call_with`]. A future dropped before its end
    /// leaves as cancelled.
    ///
    /// # Errors
    ///
    /// As [`Request::call`].
    #[cfg(feature = "tokio")]
    pub async fn call_async_with<T, E, F>(
        self,
        work: F,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let entry = self.acquire().await.map_err(CallError::Blocked)?;
        let unfinished = crate::entry::CancelOnDrop::new(entry);
        let result = work.await;
        unfinished.finish(classify(&result));
        result.map_err(CallError::Failed)
    }
}
