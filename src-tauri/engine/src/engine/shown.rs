//! What people are shown, made of what the store and the live agents know.

use super::Inner;
use crate::error::Result;
use crate::event::{Event, Recorded};
use crate::id::{SessionId, TaskId};
use crate::view::rows::{Context, rows};
use crate::view::{Row, SessionView, TaskView};
use std::collections::{BTreeSet, HashMap};

impl Inner {
    /// Adds to session projections what only the whole tree and the live agents know.
    pub(super) fn completed(&self, mut sessions: Vec<SessionView>, tasks: &[TaskView]) -> Vec<SessionView> {
        let mut below: HashMap<SessionId, u32> = HashMap::new();
        let parents: HashMap<SessionId, Option<SessionId>> =
            sessions.iter().map(|session| (session.id.clone(), session.parent.clone())).collect();
        let mut count = |from: Option<SessionId>| {
            let mut at = from;
            while let Some(id) = at {
                *below.entry(id.clone()).or_default() += 1;
                at = parents.get(&id).cloned().flatten();
            }
        };
        for session in sessions.iter().filter(|session| session.state.is_live()) {
            count(session.parent.clone());
        }
        for task in tasks.iter().filter(|task| task.child.is_none() && !task.status.is_terminal()) {
            count(Some(task.owner.clone()));
        }
        let asking: Vec<(Option<SessionId>, u32)> = sessions
            .iter()
            .filter(|session| session.needs_you > 0)
            .map(|session| (session.parent.clone(), session.needs_you))
            .collect();
        let mut asks: HashMap<SessionId, u32> = HashMap::new();
        for (from, count) in asking {
            let mut at = from;
            while let Some(id) = at {
                *asks.entry(id.clone()).or_default() += count;
                at = parents.get(&id).cloned().flatten();
            }
        }
        let mut rested: HashMap<SessionId, i64> = HashMap::new();
        for session in &sessions {
            let Some(ended_at) = session.ended_at else { continue };
            let mut at = Some(session.id.clone());
            while let Some(id) = at {
                at = parents.get(&id).cloned().flatten();
                rested.entry(id).and_modify(|last| *last = (*last).max(ended_at)).or_insert(ended_at);
            }
        }
        for session in &mut sessions {
            session.needs_you += asks.get(&session.id).copied().unwrap_or(0);
            session.live_below = below.get(&session.id).copied().unwrap_or(0);
            let works = session.state.is_live() || session.live_below > 0;
            session.rested_at = rested.get(&session.id).copied().filter(|_| !works);
            session.steerable = self.agents.get(&session.id).is_some_and(|agent| agent.steerable());
        }
        sessions
    }

    /// These sessions and all above them, completed.
    pub(super) async fn sessions_with_ancestors(&self, touched: &BTreeSet<SessionId>) -> Result<Vec<SessionView>> {
        let mut roots: BTreeSet<SessionId> = BTreeSet::new();
        for id in touched {
            // A session can be deleted before its frame is made.
            roots.extend(self.log.session(id).await.ok().map(|session| session.root));
        }
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        let live = self.log.live_tasks().await?;
        let mut found = Vec::new();
        for root in &roots {
            let tree = self.log.sessions(Some(root)).await?;
            let parents: HashMap<&SessionId, Option<&SessionId>> =
                tree.iter().map(|session| (&session.id, session.parent.as_ref())).collect();
            let mut wanted: BTreeSet<SessionId> = BTreeSet::new();
            for id in touched.iter().filter(|id| parents.contains_key(id)) {
                let mut at = Some(id);
                while let Some(id) = at.filter(|id| wanted.insert((*id).clone())) {
                    at = parents.get(id).copied().flatten();
                }
            }
            let mut tree = self.completed(tree, &live);
            tree.retain(|session| wanted.contains(&session.id));
            found.extend(tree);
        }
        Ok(found)
    }

    /// The rows of these events of a session.
    pub(super) async fn rows_of(&self, session: &SessionId, events: &BTreeSet<i64>) -> Result<Vec<Row>> {
        // The session can be deleted before its rows are made.
        let Ok(record) = self.log.session(session).await else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for n in events {
            found.extend(self.log.row_events(session, n - 1, n + 1, 1, false).await?);
        }
        self.rows(&record, &found).await
    }

    pub(super) async fn rows(&self, record: &SessionView, events: &[(Recorded, Vec<Recorded>)]) -> Result<Vec<Row>> {
        let mut tasks: HashMap<TaskId, TaskView> = HashMap::new();
        for (event, _) in events {
            if let Event::TaskSettled { task, .. } = &event.event {
                tasks.insert(task.clone(), self.log.task(task).await?);
            }
        }
        let context = Context {
            parent: record.parent.as_ref(),
            delegates: &|tool| self.config.subagents.contains_key(tool),
            facts: &|task| tasks.get(task).cloned(),
        };
        Ok(events.iter().flat_map(|(event, about)| rows(event, about, &context)).collect())
    }
}
