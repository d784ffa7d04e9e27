//! What a person does with sessions themselves: names them, puts them out of the way, deletes them.

use super::stop::{add, below};
use super::{Engine, Target, fingerprint};
use crate::error::{Code, Error, Result};
use crate::event::{Event, Receipt, ReceiptItem};
use crate::files::before::Before;
use crate::id::SessionId;
use crate::log::Log;
use crate::scope::Scope;
use crate::task::{Cause, lock};
use crate::text::plain;
use crate::view::SessionView;
use serde::{Deserialize, Serialize};

/// How often a deletion looks again for children that came while it ended the others.
const ROUNDS: usize = 5;

/// How many deletions are answered with all names when their key comes again.
const KEPT_NAMES: usize = 1_000;

/// How many of what runs are named when it is in the way.
const NAMED: usize = 3;

/// What a deletion removed, or would remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// What was stopped for it.
    pub receipt: Receipt,
    /// How many sessions.
    pub sessions: u32,
    /// How many messages stood in them: those to a session, and the answers of its model.
    pub messages: u32,
}

impl Deletion {
    /// What may stay on disk of it.
    fn without_names(&self) -> Self {
        let mut kept = self.clone();
        kept.receipt.label.clear();
        for item in kept.receipt.ended.iter_mut().chain(&mut kept.receipt.kept) {
            item.label.clear();
        }
        kept
    }
}

impl Engine {
    /// Gives a session another title.
    pub async fn rename(&self, session: &SessionId, title: String, key: &str) -> Result<()> {
        let of = format!("rename {session} {}", fingerprint(&title));
        self.once(key, of, async {
            let title = plain(&title, 200);
            if title.is_empty() {
                return Err(Error::new(Code::BadRequest, "The title is empty. The old one stands."));
            }
            self.0.log.append(session, vec![Event::Renamed { title }]).await.map(drop)
        })
        .await
    }

    /// Puts a session out of the way with all below it, or brings it back. It can be read and resumed as before; a turn
    /// that begins in it brings it back. What runs in it is stopped first when `stop` is given; without, it is in the
    /// way: `busy`. Answers what was stopped.
    pub async fn archive(&self, session: &SessionId, archived: bool, stop: bool, key: &str) -> Result<Receipt> {
        self.once(key, format!("archive {session} {archived}"), async {
            let branch = Target::Branch(session.clone());
            let mut receipt = self.preview(&branch).await?;
            if archived && !receipt.ended.is_empty() {
                if !stop {
                    return Err(in_the_way(&receipt.ended, "archived"));
                }
                receipt = self.carry_out(&branch, Some("archived".to_owned())).await?;
            }
            if self.0.log.session(session).await?.archived != archived {
                self.0.log.append(session, vec![Event::Archived { archived }]).await?;
            }
            if !archived {
                // Nothing was to be stopped.
                receipt.ended.clear();
            }
            Ok(receipt)
        })
        .await
    }

    /// What deleting a session would remove and stop.
    pub async fn deletion(&self, session: &SessionId) -> Result<Deletion> {
        let receipt = self.preview(&Target::Branch(session.clone())).await?;
        let branch = self.branch(session).await?;
        Ok(Deletion { receipt, sessions: count(&branch), messages: self.0.log.messages(session).await? })
    }

    /// Deletes a session with all below it, and what their commands have put out. What runs in it is stopped first when
    /// `stop` is given; without, it is in the way: `busy`. Whoever still writes to it afterwards is refused, and its id
    /// names nothing any more.
    pub async fn delete(&self, session: &SessionId, stop: bool, key: &str) -> Result<Deletion> {
        let kept = self.once(key, format!("delete {session}"), async {
            let done = self.delete_branch(session, stop).await?;
            let kept = done.without_names();
            let mut told = lock(&self.0.told);
            if told.len() >= KEPT_NAMES {
                told.clear();
            }
            told.insert(key.to_owned(), done);
            Ok(kept)
        });
        let kept = kept.await?;
        Ok(lock(&self.0.told).get(key).cloned().unwrap_or(kept))
    }

    async fn delete_branch(&self, session: &SessionId, stop: bool) -> Result<Deletion> {
        let inner = &self.0;
        let top = inner.log.session(session).await?;
        // From here on nobody wakes it, whatever comes.
        let mut bar = inner.agents.bar(session)?;
        bar.add(&ids(&self.branch(session).await?))?;
        let target = Target::Branch(session.clone());
        let mut receipt = self.preview(&target).await?;
        if !receipt.ended.is_empty() {
            if !stop {
                return Err(in_the_way(&receipt.ended, "deleted"));
            }
            receipt = self.carry_out(&target, Some("deleted".to_owned())).await?;
        }
        // Disposing a parent ends the children that it was about to start, and some of those may have come in before.
        let mut branch = ids(&self.branch(session).await?);
        for _ in 0..ROUNDS {
            bar.add(&branch)?;
            self.put_away(&branch).await;
            let now = ids(&self.branch(session).await?);
            if now.len() == branch.len() {
                break;
            }
            branch = now;
        }
        let ended = inner.processes.end_all(&branch, inner.config.limits.stop_grace()).await;
        if ended.left() > 0 {
            let message = format!("{} processes of this branch do not end. Nothing was deleted.", ended.left());
            return Err(Error::new(Code::Busy, message));
        }
        add(&mut receipt.processes, ended.processes);
        let messages = inner.log.messages(session).await?;
        let gone = inner.log.delete(vec![session.clone()]).await?;
        {
            let mut deleted = lock(&inner.deleted);
            // Not before the lock is got: whoever was not told yet stands at this position at most.
            let seq = *inner.log.watch().borrow();
            deleted.add(seq, gone.sessions.clone());
        }
        inner.pulse.send_modify(|beat| *beat += 1);
        // One that opened in the last moment was removed with the others.
        self.put_away(&gone.sessions).await;
        inner.tasks.remove_outputs(gone.tasks).await;
        let (before, sessions) = (inner.before.clone(), gone.sessions.clone());
        Scope::blocking(move || before.remove(&sessions)).await;
        if top.parent.is_none() {
            inner.budgets.forget(session);
        }
        Ok(Deletion { receipt, sessions: count(&gone.sessions), messages })
    }

    /// Ends the agents of these sessions, and what their tools remember.
    async fn put_away(&self, sessions: &[SessionId]) {
        for session in sessions {
            if let Some(agent) = self.0.agents.get(session) {
                self.0.agents.dispose(&agent, Cause::OwnerEnded).await;
            }
            self.0.memory.forget(session);
        }
    }

    /// A session and all below it.
    async fn branch(&self, top: &SessionId) -> Result<Vec<SessionView>> {
        let root = self.0.log.session(top).await?.root;
        let mut sessions = self.0.log.sessions(Some(&root)).await?;
        let within = below(&sessions, top);
        sessions.retain(|session| within.contains(&session.id));
        Ok(sessions)
    }

    /// Removes, beside the work, what a deletion left behind which was cut off: outputs, and what stood in files. Of both
    /// also what is too much.
    pub(super) fn drop_orphans(&self) {
        if self.0.log.found().is_some() {
            // A part of the log could not be read: what it owns is not known.
            return;
        }
        let (tasks, before, log) = (self.0.tasks.clone(), self.0.before.clone(), self.0.log.clone());
        let now_ms = self.0.env.now_ms();
        self.0.scope.spawn(async move {
            if let Err(error) = tasks.remove_orphans().await {
                tracing::warn!(%error, "outputs that nothing owns stay for now");
            }
            if let Err(error) = tasks.thin_outputs().await {
                tracing::warn!(%error, "old outputs stay for now");
            }
            if let Err(error) = tidy_before(before, &log, now_ms).await {
                tracing::warn!(%error, "what stood in files is not tidied for now");
            }
        });
    }
}

/// Removes what is kept for sessions that are no more, and what is too old or too much.
async fn tidy_before(before: Before, log: &Log, now_ms: i64) -> Result<()> {
    let unreadable = |error: std::io::Error| {
        Error::new(Code::Store, format!("What stood in files cannot be listed ({error}).")).because(error)
    };
    let looked = before.clone();
    let found = Scope::blocking(move || looked.found()).await.map_err(unreadable)?;
    // A session is in the log before something is kept for it.
    let gone = log.missing_sessions(found).await?;
    Scope::blocking(move || {
        before.remove(&gone);
        before.trim(now_ms)
    })
    .await
    .map_err(unreadable)
}

fn ids(sessions: &[SessionView]) -> Vec<SessionId> {
    sessions.iter().map(|session| session.id.clone()).collect()
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// Names what runs.
fn in_the_way(ended: &[ReceiptItem], done: &str) -> Error {
    let names: Vec<String> = ended.iter().take(NAMED).map(|item| format!("\u{201c}{}\u{201d}", item.label)).collect();
    let more = match ended.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let runs = if ended.len() == 1 { "runs" } else { "run" };
    let message = format!(
        "{} {runs} in this branch: {}{more}. Stop that first, or have it stopped. Nothing was {done}.",
        ended.len(),
        names.join(", ")
    );
    Error::new(Code::Busy, message)
}
