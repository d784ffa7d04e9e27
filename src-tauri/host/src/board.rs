//! The shell's own picture of what lives, kept up by frames: what the tray counts and notifications compare with.

use coppice_engine::event::TaskStatus;
use coppice_engine::id::{SessionId, TaskId};
use coppice_engine::view::{Frame, SessionState, SessionView, TaskView};
use std::collections::HashMap;

/// All sessions and tasks as they stand.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// By id.
    pub sessions: HashMap<SessionId, SessionView>,
    /// By id.
    pub tasks: HashMap<TaskId, TaskView>,
}

/// What a tray or a quit says in a few words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions and commands that run.
    pub run: u32,
    /// The trees they are in.
    pub roots: u32,
    /// Asks that wait for the person.
    pub needs_you: u32,
}

impl Board {
    /// A board of these.
    pub fn new(sessions: Vec<SessionView>, tasks: Vec<TaskView>) -> Self {
        let mut board = Self::default();
        board.apply(&Frame { sessions, tasks, ..Frame::default() });
        board
    }

    /// Takes over what a frame tells.
    pub fn apply(&mut self, frame: &Frame) {
        for id in &frame.removed {
            self.sessions.remove(id);
            self.tasks.retain(|_, task| task.owner != *id);
        }
        for session in &frame.sessions {
            self.sessions.insert(session.id.clone(), session.clone());
        }
        for task in &frame.tasks {
            self.tasks.insert(task.id.clone(), task.clone());
        }
    }

    /// The root of the tree that a session is in.
    pub fn root(&self, session: &SessionId) -> Option<&SessionView> {
        self.sessions.get(session).and_then(|session| self.sessions.get(&session.root))
    }

    /// What runs and what waits. A child's activation counts once, as the child.
    pub fn counts(&self) -> Counts {
        let live = self.sessions.values().filter(|session| session.state.is_live());
        let commands = self.tasks.values().filter(|task| task.child.is_none() && !task.status.is_terminal());
        let mut roots: Vec<&SessionId> = live
            .clone()
            .map(|session| &session.root)
            .chain(commands.clone().filter_map(|task| self.root(&task.owner).map(|root| &root.id)))
            .collect();
        roots.sort();
        roots.dedup();
        Counts {
            run: count(live) + count(commands),
            roots: count(roots),
            needs_you: self.sessions.values().filter(|session| session.depth == 0).map(|root| root.needs_you).sum(),
        }
    }
}

fn count<T>(items: impl IntoIterator<Item = T>) -> u32 {
    u32::try_from(items.into_iter().count()).unwrap_or(u32::MAX)
}

/// The word for a state, as people read it.
pub fn word(state: SessionState) -> &'static str {
    match state {
        SessionState::Idle => "idle",
        SessionState::Starting => "starting",
        SessionState::Running => "running",
        SessionState::Waiting => "needs you",
        SessionState::Stopping => "stopping",
        SessionState::Completed => "completed",
        SessionState::Failed => "failed",
        SessionState::Killed => "stopped",
        SessionState::Interrupted => "interrupted",
        SessionState::Unverified => "unverified",
    }
}

/// The word for how a task stands, as people read it.
pub fn task_word(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Killed => "stopped",
        other => other.word(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use coppice_engine::event::Mode;
    use coppice_engine::view::Tokens;

    /// An idle root of this name.
    pub(crate) fn session(id: &str) -> SessionView {
        SessionView {
            id: id.into(),
            parent: None,
            root: id.into(),
            depth: 0,
            title: id.to_owned(),
            label: None,
            provider: None,
            model: "rehearsal".to_owned(),
            mode: Mode::Ask,
            cwd: "/".to_owned(),
            state: SessionState::Idle,
            detail: String::new(),
            live_below: 0,
            needs_you: 0,
            task: None,
            last_sign_at: 0,
            created_at: 0,
            asked_at: None,
            rested_at: None,
            worked_ms: 0,
            started_at: None,
            ended_at: None,
            stopped_by: None,
            step: 0,
            archived: false,
            steerable: false,
            tokens: Tokens::default(),
            cost: None,
            last_n: 1,
        }
    }

    /// A child of this name.
    pub(crate) fn child(id: &str, parent: &str, root: &str, state: SessionState) -> SessionView {
        SessionView { parent: Some(parent.into()), root: root.into(), depth: 1, state, ..session(id) }
    }

    /// A task of this owner.
    pub(crate) fn task(id: &str, owner: &str, child: Option<&str>, status: TaskStatus) -> TaskView {
        TaskView {
            id: id.into(),
            kind: if child.is_some() { "subagent" } else { "bash" }.to_owned(),
            label: format!("label of {id}"),
            owner: owner.into(),
            child: child.map(Into::into),
            status,
            detail: None,
            killed_by: None,
            started_at: 0,
            settled_at: status.is_terminal().then_some(1),
        }
    }

    #[test]
    fn a_child_and_its_activation_count_once() {
        let board = Board::new(
            vec![
                SessionView { state: SessionState::Running, needs_you: 2, ..session("r") },
                child("c", "r", "r", SessionState::Running),
                child("d", "r", "r", SessionState::Completed),
                session("other"),
            ],
            vec![
                task("subagent-1", "r", Some("c"), TaskStatus::Running),
                task("bash-1", "other", None, TaskStatus::Stopping),
                task("bash-2", "other", None, TaskStatus::Completed),
            ],
        );
        assert_eq!(board.counts(), Counts { run: 3, roots: 2, needs_you: 2 });
    }

    #[test]
    fn what_was_deleted_is_gone_with_its_tasks() {
        let mut board = Board::new(vec![session("r")], vec![task("bash-1", "r", None, TaskStatus::Running)]);
        board.apply(&Frame { removed: vec!["r".into()], ..Frame::default() });
        assert_eq!((board.sessions.len(), board.tasks.len()), (0, 0));
    }
}
