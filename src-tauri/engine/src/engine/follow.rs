//! Following: a cursor in the log, and what was seen of one session's live text. Reload, lag and restart lose nothing.

use super::Inner;
use crate::config::bounds::KEPT_DELETIONS;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Recorded};
use crate::id::{AskId, SessionId, TaskId};
use crate::live::Seen;
use crate::task::lock;
use crate::view::Frame;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The shortest time between two frames of one subscriber.
pub const FRAME: Duration = Duration::from_millis(33);
/// How long a follower waits after the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);
/// How many events one frame tells at most; what is left comes with the next.
const BATCH: usize = 2_000;

/// The sessions that were deleted lately, in order, each with the log's position of that moment.
#[derive(Default)]
pub(super) struct Deleted {
    gone: VecDeque<(i64, SessionId)>,
    /// How many were forgotten before those.
    before: usize,
    /// The position of the last that was forgotten.
    forgotten: Option<i64>,
}

impl Deleted {
    pub(super) fn add(&mut self, seq: i64, gone: Vec<SessionId>) {
        while self.gone.len() >= KEPT_DELETIONS
            && let Some((seq, _)) = self.gone.pop_front()
        {
            self.before += 1;
            self.forgotten = Some(seq);
        }
        self.gone.extend(gone.into_iter().map(|session| (seq, session)));
    }

    fn count(&self) -> usize {
        self.before + self.gone.len()
    }

    /// How many a subscriber has been told that stands at this position and comes back; none when it may have missed
    /// one that was forgotten.
    fn told_at(&self, seq: i64) -> Option<usize> {
        if self.forgotten.is_some_and(|forgotten| forgotten > seq) {
            return None;
        }
        Some(self.before + self.gone.iter().take_while(|(at, _)| *at < seq).count())
    }

    fn since(&self, told: usize) -> Vec<SessionId> {
        self.gone.iter().skip(told.saturating_sub(self.before)).map(|(_, session)| session.clone()).collect()
    }
}

/// Where a subscriber stands. Dropping it ends the subscription.
pub struct Follow {
    inner: Arc<Inner>,
    session: Option<SessionId>,
    cursor: i64,
    seen: Seen,
    /// How many deletions it was told.
    deleted: usize,
    log: watch::Receiver<i64>,
    pulse: watch::Receiver<u64>,
    trouble: watch::Receiver<Option<String>>,
    last: Option<Instant>,
}

impl Follow {
    pub(super) async fn new(inner: Arc<Inner>, session: Option<SessionId>, after: Option<i64>) -> Result<Self> {
        let log = inner.log.watch();
        let pulse = inner.pulse.subscribe();
        let mut trouble = inner.log.trouble();
        // One that came before is told with the first frame; there is nothing to tell when there is none.
        if trouble.borrow().is_some() {
            trouble.mark_changed();
        }
        let now = *log.borrow();
        let cursor = after.unwrap_or(now);
        if cursor > now {
            let message = format!(
                "The position {cursor} is beyond the log, which stands at {now}. Read the tree again and follow from \
                 there."
            );
            return Err(Error::new(Code::Stale, message));
        }
        // Who comes back may have missed those since.
        let told = {
            let deleted = lock(&inner.deleted);
            after.map_or_else(|| Some(deleted.count()), |after| deleted.told_at(after))
        };
        let deleted = told.ok_or_else(|| {
            let message = format!(
                "Too many sessions were deleted since the position {cursor} to tell them one by one. Read the tree again \
                 and follow from there."
            );
            Error::new(Code::Stale, message)
        })?;
        Ok(Self { inner, session, cursor, seen: Seen::default(), deleted, log, pulse, trouble, last: None })
    }

    /// The log position that it stands at.
    pub fn cursor(&self) -> i64 {
        self.cursor
    }

    /// Waits until something changed, then tells all of it at once, and no sooner than 33 ms after the last frame.
    /// None when the engine has shut down.
    pub async fn next(&mut self) -> Option<Result<Frame>> {
        loop {
            if let Some(last) = self.last {
                tokio::time::sleep_until(last + FRAME).await;
            }
            self.pulse.mark_unchanged();
            self.log.mark_unchanged();
            match self.frame().await {
                Ok(Some(frame)) => {
                    self.last = Some(Instant::now());
                    return Some(Ok(frame));
                }
                Ok(None) => {}
                Err(error) => {
                    // A store that cannot be read now is asked again, but not thirty times a second.
                    self.last = Some(Instant::now() + PAUSE);
                    return (!self.inner.closed.is_cancelled()).then_some(Err(error));
                }
            }
            let open = tokio::select! {
                // Deletions wake it too, without a new position.
                moved = self.log.changed() => moved.is_ok(),
                beat = self.pulse.changed(), if self.session.is_some() => beat.is_ok(),
                told = self.trouble.changed() => {
                    self.trouble.mark_changed();
                    told.is_ok()
                }
                () = self.inner.closed.cancelled() => false,
            };
            if !open {
                return None;
            }
        }
    }

    async fn frame(&mut self) -> Result<Option<Frame>> {
        let events = self.inner.log.since(self.cursor, BATCH).await?;
        let mut frame = Frame { seq: events.last().map_or(self.cursor, |last| last.seq), ..Frame::default() };
        if !events.is_empty() {
            self.tell(&events, &mut frame).await?;
            self.cursor = frame.seq;
        }
        if let Some(agent) = self.session.as_ref().and_then(|session| self.inner.agents.get(session)) {
            frame.live = agent.live.since(&mut self.seen, |tool| self.inner.config.subagents.contains_key(tool));
        }
        {
            let deleted = lock(&self.inner.deleted);
            frame.removed = deleted.since(self.deleted);
            self.deleted = deleted.count();
        }
        // What was read of them a moment before does not bring them back.
        frame.sessions.retain(|session| !frame.removed.contains(&session.id));
        frame.tasks.retain(|task| !frame.removed.contains(&task.owner));
        frame.asks.retain(|ask| !frame.removed.contains(&ask.session));
        if self.trouble.has_changed().unwrap_or(false) {
            frame.status = Some(self.trouble.borrow_and_update().clone().unwrap_or_default());
        }
        let nothing_new = frame.live.is_none() && frame.removed.is_empty() && frame.status.is_none();
        let empty = events.is_empty() && nothing_new;
        Ok((!empty).then_some(frame))
    }

    async fn tell(&mut self, events: &[Recorded], frame: &mut Frame) -> Result<()> {
        let mut touched: BTreeSet<SessionId> = BTreeSet::new();
        let mut tasks: BTreeSet<TaskId> = BTreeSet::new();
        let mut rows: BTreeSet<i64> = BTreeSet::new();
        let mut asks: BTreeSet<AskId> = BTreeSet::new();
        for recorded in events {
            touched.insert(recorded.session.clone());
            match &recorded.event {
                Event::TaskStarted { task, child, .. } => {
                    tasks.insert(task.clone());
                    touched.extend(child.clone());
                }
                Event::TaskStopping { task, .. } | Event::TaskSettled { task, .. } => {
                    tasks.insert(task.clone());
                }
                Event::Asked { ask, .. }
                | Event::Decided { ask, .. }
                | Event::Withdrawn { ask, .. }
                | Event::LeaveTaken { ask, .. } => {
                    asks.insert(ask.clone());
                }
                _ => {}
            }
            if self.session.as_ref() == Some(&recorded.session) {
                rows.insert(recorded.event.about().unwrap_or(recorded.n));
            }
        }
        for task in &tasks {
            // A task can be deleted with its session before this frame is made.
            if let Ok(task) = self.inner.log.task(task).await {
                touched.extend(task.child.clone());
                frame.tasks.push(task);
            }
        }
        for ask in &asks {
            // So can an ask.
            frame.asks.extend(self.inner.log.ask_view(ask).await.ok());
        }
        frame.sessions = self.inner.sessions_with_ancestors(&touched).await?;
        if let Some(session) = &self.session {
            frame.rows = self.inner.rows_of(session, &rows).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_are_told_to_whoever_may_have_missed_them_and_the_oldest_are_forgotten() {
        let id = |n: usize| SessionId(format!("s{n}"));
        let mut deleted = Deleted::default();
        deleted.add(5, vec![id(0), id(1)]);
        deleted.add(9, vec![id(2)]);
        assert_eq!([4, 5, 6, 9, 10].map(|seq| deleted.told_at(seq)), [Some(0), Some(0), Some(2), Some(2), Some(3)]);
        assert_eq!((deleted.since(2), deleted.since(3), deleted.count()), (vec![id(2)], vec![], 3));
        for n in 3..=KEPT_DELETIONS + 1 {
            deleted.add(10, vec![id(n)]);
        }
        assert_eq!((deleted.gone.len(), deleted.count()), (KEPT_DELETIONS, KEPT_DELETIONS + 2));
        assert_eq!([4, 5].map(|seq| deleted.told_at(seq)), [None, Some(2)], "two of position 5 are forgotten");
        assert_eq!(deleted.since(KEPT_DELETIONS + 1), [id(KEPT_DELETIONS + 1)]);
    }
}
