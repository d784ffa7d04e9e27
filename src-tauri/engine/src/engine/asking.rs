//! Answering asks, and what sessions may do without asking.

use super::{Engine, folder};
use crate::config::bounds::MAX_NOTE;
use crate::error::{Code, Error, Result};
use crate::event::{Decision, Event, Mode, Party};
use crate::id::{AskId, SessionId};
use crate::log::Entry;
use crate::subagent::Message;
use crate::view::{AllowanceView, AskView};
use std::path::Path;

impl Engine {
    /// The asks that wait for the person, oldest first; with `all`, those that were answered or taken back lately after
    /// them, newest first.
    pub async fn asks(&self, all: bool) -> Result<Vec<AskView>> {
        self.0.log.asks(all).await
    }

    /// From here on nobody can be asked: a call that would have to ask is refused with its reason and `why`.
    pub fn unattended(&self, why: String) {
        self.0.asks.unattended(why);
    }

    /// Answers an ask. A call that waits for it hears it at once; where none waits any more, because Coppice ended
    /// meanwhile, the session is told and woken. `conflict` when it was answered or taken back before.
    pub async fn answer(&self, ask: &AskId, decision: Decision, note: Option<String>, key: &str) -> Result<AskView> {
        let note = note.map(|note| note.trim().to_owned()).filter(|note| !note.is_empty());
        self.once(key, format!("answer {ask} {decision:?} {note:?}"), async {
            if note.as_ref().is_some_and(|note| note.len() > MAX_NOTE) {
                let message = format!("The note has more than {MAX_NOTE} bytes. Nothing was decided.");
                return Err(Error::new(Code::TooLarge, message));
            }
            let (decided, heard) = self.0.asks.answer(ask, decision, note.clone()).await?;
            if !heard {
                let text = words(&decided, decision);
                if let Err(error) = self.tell(&decided, text.clone(), key).await {
                    // It is decided all the same, and the session learns it when it is next at work.
                    tracing::warn!(%ask, %error, "the session that asked cannot be woken now");
                    self.0.log.append(&decided.session, vec![Event::Noted { text }]).await?;
                }
            }
            Ok(decided)
        })
        .await
    }

    /// Tells a session what was decided about a call that has ended, and wakes it.
    async fn tell(&self, ask: &AskView, text: String, key: &str) -> Result<()> {
        let key = Some(format!("{key}/{}", ask.id));
        let record = self.0.log.session(&ask.session).await?;
        folder(Path::new(&record.cwd)).await?;
        match record.parent {
            None => {
                let agent = self.0.agents.ensure(&ask.session).await?;
                agent.post(Party::Runtime, text, key).await.map(drop)
            }
            Some(parent) => {
                let parent = self.0.control.host(&parent).await?;
                let message = Message { from: Party::Runtime, text, key, expect: None };
                self.0.control.send(&parent.owner, &ask.session, message).await.map(drop)
            }
        }
    }

    /// Takes back the asks of sessions that are stopped, of calls that have ended: their answers would wake them. A call
    /// that waits takes its own back.
    pub(super) async fn withdraw_asks(&self, sessions: &[SessionId]) {
        for session in sessions {
            let stale = self.0.log.open_asks(session).await.unwrap_or_else(|error| {
                tracing::warn!(%session, %error, "open asks cannot be read");
                Vec::new()
            });
            for ask in stale.into_iter().filter(|ask| !ask.waits) {
                let reason = "its session was stopped".to_owned();
                let withdrawn = Event::Withdrawn { ask: ask.id, asked: ask.n, reason };
                let written = self.0.log.append(session, vec![withdrawn]);
                // A conflict means that it was answered in the same moment.
                if let Some(Err(error)) = self.0.log.unless_troubled(written).await
                    && error.code() != Code::Conflict
                {
                    tracing::warn!(%session, %error, "an ask cannot be taken back");
                }
            }
        }
    }

    /// Everything that is allowed for more than one call.
    pub async fn allowances(&self) -> Result<Vec<AllowanceView>> {
        self.0.log.all_allowances().await
    }

    /// Takes back what the answer to an ask allowed for more than one call.
    pub async fn disallow(&self, ask: &AskId, key: &str) -> Result<()> {
        self.once(key, format!("disallow {ask}"), self.0.log.disallow(ask)).await
    }

    /// Changes what a session may do without asking, from its next call on. What is below it never may do more. `refused`
    /// where a child would be given more than its parent.
    pub async fn set_mode(&self, session: &SessionId, mode: Mode, key: &str) -> Result<()> {
        self.once(key, format!("mode {session} {mode:?}"), async {
            let record = self.0.log.session(session).await?;
            if let Some(parent) = &record.parent {
                let most = self.0.log.mode(parent).await?;
                if most.least(mode) != mode {
                    let message = format!(
                        "A child may not do more than its parent, which is set to {}. Nothing was changed.",
                        most.word()
                    );
                    return Err(Error::new(Code::Refused, message));
                }
            }
            let entry =
                Entry { session: session.clone(), key: Some(key.to_owned()), events: vec![Event::ModeSet { mode }] };
            self.0.log.write(vec![entry]).await.map(drop)
        })
        .await
    }
}

/// What a session reads of a decision about a call of it that has ended.
fn words(ask: &AskView, decision: Decision) -> String {
    let what = serde_json::to_string(&ask.action.exact()).unwrap_or_default();
    match decision {
        Decision::Once | Decision::Branch | Decision::Always => format!(
            "[runtime] The person now allows what you asked for before Coppice ended: {what}. It was not done. Call the \
             tool again if it is still needed; you are not asked again."
        ),
        Decision::Deny | Decision::Later => {
            let note = ask.note.as_deref().map(|note| format!(" The person said: {note}")).unwrap_or_default();
            format!(
                "[runtime] The person did not allow what you asked for before Coppice ended: {what}. It was not done; do \
                 not try to get the same done in another way.{note}"
            )
        }
    }
}
