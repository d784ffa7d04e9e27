//! Asks: what a call may not do before the person was asked, and how its call waits for the answer.
//!
//! An ask is an event before anybody waits for it, and its answer is one before anybody acts on it. Nothing but the
//! person's answer decides it: no time, no window that closes, no crash. A call that is stopped takes its ask back;
//! when Coppice ends, the ask stays, and its answer is given to the session when it is next at work.

use crate::error::{Code, Error, Result};
use crate::event::{Decision, Event};
use crate::id::{AskId, CallId, SessionId};
use crate::log::{AskDraft, Entry, Log};
use crate::task::lock;
use crate::view::AskView;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The asks of one store, and the calls that wait for them. Clones share them.
#[derive(Clone)]
pub struct Asks(Arc<Inner>);

struct Inner {
    log: Log,
    waiting: Mutex<HashMap<(SessionId, CallId), oneshot::Sender<Answer>>>,
    /// Set when Coppice ends: what is cut off then is not taken back.
    closing: AtomicBool,
    /// Why nobody can be asked, when nobody can.
    unattended: OnceLock<String>,
}

/// What a call hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may.
    Yes,
    /// It may not; with the person's word, if there is one.
    No(Option<String>),
}

impl Asks {
    /// The asks of the store `log`.
    pub fn new(log: Log) -> Self {
        let (waiting, closing, unattended) = (Mutex::default(), AtomicBool::new(false), OnceLock::new());
        Self(Arc::new(Inner { log, waiting, closing, unattended }))
    }

    /// From here on nobody can be asked, and calls hear why at once. Said once, before the first prompt.
    pub fn unattended(&self, why: String) {
        if self.0.unattended.set(why).is_err() {
            tracing::warn!("it was said before that nobody can be asked");
        }
    }

    /// Why nobody can be asked; none when somebody can.
    pub fn nobody(&self) -> Option<&str> {
        self.0.unattended.get().map(String::as_str)
    }

    /// From here on a call that is cut off leaves its ask open.
    pub fn close(&self) {
        self.0.closing.store(true, Ordering::Release);
    }

    /// Asks, durably, and waits for the answer. None when the call was stopped first: the ask is taken back then, unless
    /// Coppice is ending.
    pub async fn ask(&self, draft: AskDraft, stop: &CancellationToken) -> Result<Option<Answer>> {
        let session = draft.session.clone();
        let (tell, mut told) = oneshot::channel();
        let place = (session.clone(), draft.call.clone());
        let waiting = {
            let mut waiting = lock(&self.0.waiting);
            waiting.insert(place.clone(), tell);
            waiting.keys().filter(|(asker, _)| *asker == session).map(|(_, call)| call.clone()).collect()
        };
        let place = Waiting { asks: self, place };
        let ask = self.0.log.open_ask(draft, waiting).await?;
        tokio::select! {
            biased;
            answer = &mut told => return Ok(answer.ok()),
            () = stop.cancelled() => {}
        }
        drop(place);
        if !self.0.closing.load(Ordering::Acquire) {
            let asked = self.0.log.ask_view(&ask).await?.n;
            let withdrawn = Event::Withdrawn { ask, asked, reason: "its call was stopped".to_owned() };
            match self.0.log.append(&session, vec![withdrawn]).await {
                Ok(_) => {}
                // It was answered in the same moment, and that stands.
                Err(error) if error.code() == Code::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Writes down the person's answer and tells the call that waits for it. Answers the ask as it stands then, and
    /// whether a call heard it. `conflict` when it was answered or taken back before.
    pub async fn answer(&self, id: &AskId, decision: Decision, note: Option<String>) -> Result<(AskView, bool)> {
        let ask = self.0.log.ask_view(id).await?;
        if ask.allows.is_none() && matches!(decision, Decision::Branch | Decision::Always) {
            let message = "This can be allowed for one call only. Nothing was decided.";
            return Err(Error::new(Code::BadRequest, message));
        }
        let place = (ask.session.clone(), ask.call.clone());
        let waited = lock(&self.0.waiting).contains_key(&place);
        let event = Event::Decided { ask: id.clone(), asked: ask.n, decision, note: note.clone(), waited };
        self.0.log.write(vec![Entry::new(&ask.session, vec![event])]).await?;
        let answer = match decision {
            Decision::Later => return Ok((self.0.log.ask_view(id).await?, true)),
            Decision::Deny => Answer::No(note),
            Decision::Once | Decision::Branch | Decision::Always => Answer::Yes,
        };
        let heard = match lock(&self.0.waiting).remove(&place) {
            Some(tell) => tell.send(answer).is_ok(),
            None => false,
        };
        Ok((self.0.log.ask_view(id).await?, heard || waited))
    }
}

/// The place of a call that waits; dropping it gives it up.
struct Waiting<'a> {
    asks: &'a Asks,
    place: (SessionId, CallId),
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.asks.0.waiting).remove(&self.place);
    }
}
