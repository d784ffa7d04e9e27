//! Pushes what changes to one subscriber: a cursor in the log and live text, no broadcast. A subscriber that lags
//! makes its own stream wait; a new subscription replaces the one before.

use crate::push::Push;
use crate::status::{Status, Topic};
use async_trait::async_trait;
use coppice_engine::Engine;
use coppice_engine::engine::Follow;
use coppice_engine::error::Result;
use coppice_engine::id::SessionId;
use coppice_engine::scope::Scope;
use coppice_engine::view::Frame;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How many frames a page may have before it: after that many, it must have come so far before it gets more.
const AHEAD: u32 = 16;
/// How long to wait before a log that cannot be followed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Where pushes go.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Pushes; false when the subscriber is gone.
    async fn push(&self, push: Push) -> bool;

    /// Waits until everything pushed so far was taken; false when the subscriber is gone.
    async fn taken(&self) -> bool;
}

/// Pushes as lines of JSON, through a queue that has a bound: what is in it counts as taken.
pub struct Lines(pub mpsc::Sender<String>);

#[async_trait]
impl Sink for Lines {
    async fn push(&self, push: Push) -> bool {
        match serde_json::to_string(&push) {
            Ok(line) => self.0.send(line).await.is_ok(),
            Err(error) => {
                tracing::error!(%error, "a frame could not be written down");
                false
            }
        }
    }

    async fn taken(&self) -> bool {
        true
    }
}

/// One subscriber and its subscription.
pub struct Stream {
    sink: Arc<dyn Sink>,
    current: Mutex<Option<Subscription>>,
}

struct Subscription {
    token: CancellationToken,
    begin: Option<oneshot::Sender<()>>,
}

impl Stream {
    /// A subscriber without a subscription.
    pub fn new(sink: impl Sink + 'static) -> Self {
        Self { sink: Arc::new(sink), current: Mutex::new(None) }
    }

    /// Subscribes, in place of the subscription before. Nothing is pushed until [`Stream::begin`], so that the answer
    /// to the request comes first. Answers the position it starts from.
    pub async fn follow(
        &self,
        (engine, scope, status): (&Engine, &Scope, &Status),
        session: Option<SessionId>,
        after: Option<i64>,
    ) -> Result<i64> {
        let follow = engine.follow(session, after).await?;
        let seq = follow.cursor();
        let token = scope.token().child_token();
        let (begin, begun) = oneshot::channel();
        if let Some(before) = self.set(Some(Subscription { token: token.clone(), begin: Some(begin) })) {
            before.token.cancel();
        }
        let (sink, status) = (self.sink.clone(), status.clone());
        scope.spawn(async move {
            let pushing = async {
                if begun.await.is_ok() {
                    run(follow, seq, sink, status).await;
                }
            };
            tokio::select! {
                () = token.cancelled() => {}
                () = pushing => {}
            }
        });
        Ok(seq)
    }

    /// Lets the subscription push.
    pub fn begin(&self) {
        if let Ok(mut current) = self.current.lock()
            && let Some(begin) = current.as_mut().and_then(|subscription| subscription.begin.take())
        {
            // The receiver is gone only when the subscription has ended: then there is nothing to begin.
            let _ = begin.send(());
        }
    }

    /// Pushes something that is not a frame; false when the subscriber is gone.
    pub async fn push(&self, push: Push) -> bool {
        self.sink.push(push).await
    }

    fn set(&self, next: Option<Subscription>) -> Option<Subscription> {
        match self.current.lock() {
            Ok(mut current) => std::mem::replace(&mut current, next),
            Err(poisoned) => std::mem::replace(&mut poisoned.into_inner(), next),
        }
    }

    /// Ends the subscription.
    pub fn end(&self) {
        if let Some(subscription) = self.set(None) {
            subscription.token.cancel();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

async fn run(mut follow: Follow, mut seq: i64, sink: Arc<dyn Sink>, status: Status) {
    let mut said = status.watch();
    let mut ahead = 0;
    loop {
        let frame = tokio::select! {
            next = follow.next() => match next {
                Some(Ok(frame)) => {
                    status.clear(Topic::Log);
                    frame
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "the log could not be followed");
                    status.say(Topic::Log, error.message());
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
                None => return,
            },
            changed = said.changed() => match changed {
                // Nothing to say any more is told too, as an empty line.
                Ok(()) => Frame {
                    seq,
                    status: Some(said.borrow_and_update().text().unwrap_or_default()),
                    ..Frame::default()
                },
                Err(_) => return,
            },
        };
        seq = frame.seq;
        if !sink.push(Push::Frame(Box::new(frame))).await {
            return;
        }
        ahead += 1;
        if ahead == AHEAD {
            ahead = 0;
            if !sink.taken().await {
                return;
            }
        }
    }
}
