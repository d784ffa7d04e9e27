//! What every way into the engine shares: the window, the socket, standard input, the terminal.

use crate::status::{Status, Topic};
use crate::stream::Stream;
use coppice_engine::Engine;
use coppice_engine::error::{Code, Result};
use coppice_engine::event::Receipt;
use coppice_engine::id::{AskId, SessionId};
use coppice_engine::scope::Scope;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long leaving may take, from the first stop to the freed lock.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// One engine as its callers see it. Clones share everything but the stream, which is a caller's own.
#[derive(Clone)]
pub struct Host {
    /// The runtime.
    pub engine: Engine,
    /// The configuration file, which need not exist.
    pub config: PathBuf,
    /// The folder that a first session is offered.
    pub cwd: PathBuf,
    /// What people are to know about this process.
    pub status: Status,
    /// Where the shell's own tasks run.
    pub scope: Scope,
    /// Fires when the process is to end.
    pub leaving: CancellationToken,
    /// How many other processes are served over the socket.
    pub callers: watch::Sender<usize>,
    /// The window, in the process that has one.
    pub window: Arc<OnceLock<Box<dyn Window>>>,
    /// How far the window of this process is.
    pub opening: watch::Sender<Opening>,
    /// Where this caller's frames go; none when it cannot be pushed to.
    pub stream: Option<Arc<Stream>>,
}

/// How far the window of a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It has none, and has not said that it opens one.
    Unknown,
    /// It opens one.
    Begun,
    /// It has one.
    Done,
}

/// A window that can be brought to the front.
pub trait Window: Send + Sync {
    /// Shows it, at this session and this ask of it if they are named.
    fn raise(&self, session: Option<SessionId>, ask: Option<AskId>);
}

impl Host {
    /// A host for this engine, without a window.
    pub fn new(engine: Engine, config: PathBuf, cwd: PathBuf) -> Self {
        let status = Status::default();
        if let Some(leftovers) = engine.leftovers() {
            status.say(Topic::Leftovers, leftovers);
        }
        Self {
            engine,
            config,
            cwd,
            status,
            scope: Scope::new(),
            leaving: CancellationToken::new(),
            callers: watch::Sender::new(0),
            window: Arc::default(),
            opening: watch::Sender::new(Opening::Unknown),
            stream: None,
        }
    }

    /// Says that this process is about to open a window.
    pub fn opens_window(&self) {
        self.opening.send_replace(Opening::Begun);
    }

    /// Sets the window, once it is there.
    pub fn has_window(&self, window: Box<dyn Window>) {
        if self.window.set(window).is_err() {
            tracing::error!("the window was set twice; the first stands");
        }
        self.opening.send_replace(Opening::Done);
    }

    /// The window, waited for while this process opens one, at most for `bound`. None when it has none.
    pub async fn window_within(&self, bound: Duration) -> Option<&dyn Window> {
        if *self.opening.borrow() == Opening::Begun {
            let mut opening = self.opening.subscribe();
            // The sender lives in this very host, so only the time can run out.
            drop(tokio::time::timeout(bound, opening.wait_for(|opening| *opening == Opening::Done)).await);
        }
        self.window.get().map(AsRef::as_ref)
    }

    /// The same host for a caller of its own.
    #[must_use]
    pub fn with_stream(&self, stream: Arc<Stream>) -> Self {
        Self { stream: Some(stream), ..self.clone() }
    }

    /// Counts one more caller until what it answers is dropped.
    pub fn serve_caller(&self) -> Caller {
        self.callers.send_modify(|count| *count += 1);
        Caller(self.callers.clone())
    }

    /// Waits until no other process is served: their work goes on in this one.
    pub async fn callers_gone(&self) {
        let mut callers = self.callers.subscribe();
        // The sender lives in this very host, so the wait cannot fail.
        drop(callers.wait_for(|count| *count == 0).await);
    }

    /// Ends everything in order: the engine first, then the shell's own tasks. None when the engine had already shut
    /// down, because somebody asked for it.
    pub async fn leave(&self) -> Result<Option<Receipt>> {
        self.leaving.cancel();
        let left = match self.engine.shutdown(DEADLINE).await {
            Ok(receipt) => Ok(Some(receipt)),
            Err(error) if error.code() == Code::ShuttingDown => Ok(None),
            Err(error) => Err(error),
        };
        let overran = self.scope.close(Duration::from_secs(1)).await;
        if overran > 0 {
            tracing::warn!(overran, "tasks of the shell did not end in time");
        }
        left
    }
}

/// A process that is served over the socket; dropping it says that it is gone.
#[must_use = "a caller counts until this is dropped"]
pub struct Caller(watch::Sender<usize>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Fires `host.leaving` at the first SIGINT, SIGTERM or SIGHUP (Ctrl-C elsewhere).
pub fn leave_on_signals(host: &Host) {
    let leaving = host.leaving.clone();
    host.scope.spawn(async move {
        tokio::select! {
            () = asked_to_end() => leaving.cancel(),
            () = leaving.cancelled() => {}
        }
    });
}

/// Waits for the first signal that asks this process to end.
pub async fn asked_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
            (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
            }
            _ => {
                tracing::error!("signals cannot be heard; only the window or the end of input ends this process");
                std::future::pending::<()>().await;
            }
        }
    }
    #[cfg(not(unix))]
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(%error, "signals cannot be heard");
        std::future::pending::<()>().await;
    }
}
