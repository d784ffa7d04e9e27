//! Structured concurrency: every task of the engine runs in a scope, and a scope ends only when all in it have.
//! Nothing else spawns.

use std::future::Future;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod disorder;

pub use disorder::Disorder;

/// A place where tasks run. Clones name the same place. Closing it cancels its token and waits for its tasks.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    token: CancellationToken,
    tracker: TaskTracker,
}

impl Scope {
    /// A scope of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scope that is cancelled with this one, and that this one waits for.
    pub fn child(&self) -> Self {
        let child = Self { token: self.token.child_token(), tracker: TaskTracker::new() };
        let (token, tracker) = (child.token.clone(), child.tracker.clone());
        self.spawn(async move {
            token.cancelled().await;
            tracker.close();
            tracker.wait().await;
        });
        child
    }

    /// Fires when the scope is closed. Tasks watch it and end.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs `future` in this scope.
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match Disorder::here() {
            None => tokio::spawn(self.tracker.track_future(future)),
            Some(disorder) => tokio::spawn(self.tracker.track_future(disorder.run(future))),
        }
    }

    /// Runs blocking work off the async threads and waits for it.
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        if let Some(disorder) = Disorder::here() {
            disorder.late().await;
            let done = work();
            disorder.late().await;
            return done;
        }
        match tokio::task::spawn_blocking(work).await {
            Ok(value) => value,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => std::panic::panic_any(error.to_string()),
            },
        }
    }

    /// Waits for what a thread answers. None when it ended without an answer.
    pub async fn answered<T>(answer: oneshot::Receiver<T>) -> Option<T> {
        let Some(disorder) = Disorder::here() else { return answer.await.ok() };
        let answered = futures::executor::block_on(answer).ok();
        disorder.late().await;
        answered
    }

    /// Cancels everything here and waits for it. Answers how many tasks overran the deadline.
    #[must_use = "a scope that overran still holds work"]
    pub async fn close(&self, deadline: Duration) -> usize {
        self.token.cancel();
        self.tracker.close();
        match tokio::time::timeout(deadline, self.tracker.wait()).await {
            Ok(()) => 0,
            Err(_) => self.tracker.len(),
        }
    }
}
