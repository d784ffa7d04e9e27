//! Pushes what changes to one subscriber: a cursor in the log and live text, no broadcast. A subscriber that lags
//! makes its own stream wait; a new subscription replaces the one before.

use crate::commands::Push;
use crate::host::Host;
use coppice_engine::engine::Follow;
use coppice_engine::error::Result;
use coppice_engine::id::SessionId;
use coppice_engine::view::Frame;
use std::sync::Mutex;
use tauri::ipc::Channel;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Where pushes go.
#[derive(Clone)]
pub enum Sink {
    /// To the page of the window.
    Page(Channel<Push>),
    /// As lines of JSON, through a queue that has a bound.
    Lines(mpsc::Sender<String>),
}

/// One subscriber and its subscription.
pub struct Stream {
    sink: Sink,
    current: Mutex<Option<Subscription>>,
}

struct Subscription {
    token: CancellationToken,
    begin: Option<oneshot::Sender<()>>,
}

impl Sink {
    /// Pushes; false when the subscriber is gone.
    pub async fn push(&self, push: Push) -> bool {
        match self {
            Self::Page(channel) => channel.send(push).is_ok(),
            Self::Lines(lines) => match serde_json::to_string(&push) {
                Ok(line) => lines.send(line).await.is_ok(),
                Err(error) => {
                    tracing::error!(%error, "a frame could not be written down");
                    false
                }
            },
        }
    }
}

impl Stream {
    /// A subscriber without a subscription.
    pub fn new(sink: Sink) -> Self {
        Self { sink, current: Mutex::new(None) }
    }

    /// Subscribes, in place of the subscription before. Nothing is pushed until [`Stream::begin`], so that the answer
    /// to the request comes first. Answers the position it starts from.
    pub async fn follow(&self, host: &Host, session: Option<SessionId>, after: Option<i64>) -> Result<i64> {
        let follow = host.engine.follow(session, after).await?;
        let seq = follow.cursor();
        let token = host.scope.token().child_token();
        let (begin, begun) = oneshot::channel();
        if let Some(before) = self.set(Some(Subscription { token: token.clone(), begin: Some(begin) })) {
            before.token.cancel();
        }
        let (sink, host_status) = (self.sink.clone(), host.status.watch());
        host.scope.spawn(async move {
            let pushing = async {
                if begun.await.is_ok() {
                    run(follow, seq, sink, host_status).await;
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

async fn run(mut follow: Follow, mut seq: i64, sink: Sink, mut status: tokio::sync::watch::Receiver<Option<String>>) {
    loop {
        let frame = tokio::select! {
            next = follow.next() => match next {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    tracing::error!(%error, "the log could not be followed");
                    Frame { seq, status: Some(error.message().to_owned()), ..Frame::default() }
                }
                None => return,
            },
            changed = status.changed() => match changed {
                Ok(()) => Frame { seq, status: status.borrow_and_update().clone(), ..Frame::default() },
                Err(_) => return,
            },
        };
        seq = frame.seq;
        if !sink.push(Push::Frame(Box::new(frame))).await {
            return;
        }
    }
}
