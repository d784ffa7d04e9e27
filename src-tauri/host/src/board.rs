//! The shell's own picture of what lives, kept up by frames: what the tray counts and notifications compare with.

use coppice_engine::event::TaskStatus;
use coppice_engine::id::{AskId, SessionId, TaskId};
use coppice_engine::view::{AskState, AskView, Frame, SessionState, SessionView, TaskView};
use std::collections::HashMap;

/// All sessions and tasks as they stand, and the asks that wait.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// By id.
    pub sessions: HashMap<SessionId, SessionView>,
    /// By id.
    pub tasks: HashMap<TaskId, TaskView>,
    /// Those that wait for the person, put off or not, by id.
    pub asks: HashMap<AskId, AskView>,
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
            self.asks.retain(|_, ask| ask.session != *id);
        }
        for session in &frame.sessions {
            self.sessions.insert(session.id.clone(), session.clone());
        }
        for task in &frame.tasks {
            self.tasks.insert(task.id.clone(), task.clone());
        }
        for ask in &frame.asks {
            if is_open(ask) {
                self.asks.insert(ask.id.clone(), ask.clone());
            } else {
                self.asks.remove(&ask.id);
            }
        }
    }

    /// The asks that wait, oldest first.
    pub fn waiting(&self) -> Vec<&AskView> {
        let mut waiting: Vec<&AskView> = self.asks.values().collect();
        waiting.sort_by_key(|ask| (ask.asked_at, &ask.id));
        waiting
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

/// Whether an ask waits for the person.
pub fn is_open(ask: &AskView) -> bool {
    matches!(ask.state, AskState::Open | AskState::Later)
}

/// Who asks, in a line: the session's own title.
pub fn asker(ask: &AskView) -> &str {
    ask.lineage.last().map_or(ask.session.as_str(), |asker| asker.title.as_str())
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
    use coppice_engine::action::{Action, Allowed, Reason, Rule};
    use coppice_engine::event::Mode;
    use coppice_engine::view::{Lineage, Tokens};

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

    /// An open ask of a session, for leave to run a command of its own name.
    pub(crate) fn ask(id: &str, lineage: &[&str]) -> AskView {
        let text = format!("make {id}");
        let lineage: Vec<Lineage> =
            lineage.iter().map(|title| Lineage { id: (*title).into(), title: (*title).to_owned() }).collect();
        AskView {
            id: AskId(id.to_owned()),
            session: lineage.last().unwrap().id.clone(),
            lineage,
            cwd: "/work".to_owned(),
            call: coppice_engine::id::CallId("c1".to_owned()),
            tool: "bash".to_owned(),
            action: Action::Command { text: text.clone(), background: false },
            allows: Some(Allowed::Command { text }),
            reason: Reason { rule: Rule::Unknown, text: "make is not known to only read.".to_owned() },
            said: None,
            n: 1,
            asked_at: 0,
            state: AskState::Open,
            note: None,
            decided_at: None,
            waits: true,
            owed: false,
            used: 0,
        }
    }

    #[test]
    fn an_ask_waits_until_it_is_answered_or_its_session_is_deleted() {
        let mut board = Board::default();
        let (one, two) = (ask("one", &["r"]), AskView { asked_at: -1, ..ask("two", &["r", "c"]) });
        board.apply(&Frame { asks: vec![one.clone(), two.clone()], ..Frame::default() });
        let waiting = |board: &Board| board.waiting().iter().map(|ask| ask.id.to_string()).collect::<Vec<_>>();
        assert_eq!(waiting(&board), ["two", "one"], "the oldest first");
        let later = AskView { state: AskState::Later, ..two };
        board.apply(&Frame { asks: vec![later, AskView { state: AskState::Once, ..one }], ..Frame::default() });
        assert_eq!(waiting(&board), ["two"]);
        board.apply(&Frame { removed: vec!["c".into()], ..Frame::default() });
        assert_eq!(waiting(&board), [""; 0]);
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
