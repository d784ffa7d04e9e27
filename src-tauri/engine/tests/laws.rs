//! What holds for every log, whatever happened: one place for the promises of turns, messages, tasks and notices.

use coppice_engine::event::{Block, Event, Party, Recorded, TaskStatus};
use coppice_engine::id::{CallId, SessionId, TaskId};
use coppice_engine::view::TaskView;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The laws that a log at rest, of all sessions and in order, breaks; `tasks` are the tasks as they are shown.
pub fn laws(events: &[Recorded], tasks: &[TaskView]) -> Vec<String> {
    let mut laws = Laws::of(events);
    laws.at_rest(tasks);
    laws.broken
}

/// The laws that a log, of all sessions and in order, breaks while work goes on.
pub fn laws_at_work(events: &[Recorded]) -> Vec<String> {
    Laws::of(events).broken
}

/// How often in a row the sessions of a log were woken by a notice before a person spoke, at most.
pub fn wakes(events: &[Recorded]) -> u32 {
    let (mut rows, mut most) = (BTreeMap::<&SessionId, u32>::new(), 0);
    let mut begun: BTreeSet<&SessionId> = BTreeSet::new();
    for recorded in events {
        let session = &recorded.session;
        match &recorded.event {
            Event::MessageAccepted { from: Party::Person, .. } => {
                rows.insert(session, 0);
            }
            Event::TurnStarted { task: None, .. } => {
                begun.insert(session);
            }
            // The first step of a turn tells what it was begun for.
            Event::MessageAdmitted { .. } => {
                begun.remove(session);
            }
            Event::NoticeAdmitted { .. } if begun.remove(session) => {
                let row = rows.entry(session).or_default();
                *row += 1;
                most = most.max(*row);
            }
            _ => {}
        }
    }
    most
}

#[derive(Default)]
struct Laws {
    broken: Vec<String>,
    seq: i64,
    sessions: BTreeMap<SessionId, Session>,
    tasks: BTreeMap<TaskId, Task>,
    /// The calls that asked about a task, until they have their result, and whether it was foreign then.
    asked: BTreeMap<(SessionId, CallId), (TaskId, bool)>,
    /// The highest number of each kind.
    numbers: BTreeMap<String, u32>,
}

#[derive(Default)]
struct Session {
    n: i64,
    depth: u32,
    root: Option<SessionId>,
    turns: u32,
    turn: Option<Option<TaskId>>,
    steps: u32,
    answered: u32,
    /// Calls without a result, and all that were ever made.
    open: BTreeMap<CallId, i64>,
    calls: BTreeSet<CallId>,
    /// Messages that are not read yet, and whether it was said that they wait.
    waiting: BTreeMap<i64, bool>,
    /// The activation that it has now, and whether the last was cut off, or the one turn for which its parent waits has
    /// not begun.
    activation: Option<TaskId>,
    cut_off: bool,
}

struct Task {
    owner: SessionId,
    child: Option<SessionId>,
    /// Who stopped it last.
    stopping: Option<Party>,
    status: Option<TaskStatus>,
    settled: i64,
    owes: bool,
    told: bool,
    learned: bool,
}

impl Laws {
    fn of(events: &[Recorded]) -> Self {
        let mut laws = Self::default();
        for recorded in events {
            laws.take(recorded);
        }
        laws
    }

    fn take(&mut self, recorded: &Recorded) {
        let Recorded { seq, session: id, n, event, .. } = recorded;
        let at = format!("{id} {n} {event:?}");
        let mut broken = Vec::new();
        let mut law = |holds: bool, what: &str| {
            if !holds {
                broken.push(format!("{what}: {at}"));
            }
        };
        law(*seq > self.seq, "events stand in the order of their numbers");
        self.seq = *seq;
        if let Event::SessionOpened { parent, root, depth, .. } = event {
            law(!self.sessions.contains_key(id), "a session is opened once");
            let above = parent.as_ref().map(|parent| self.sessions.get(parent));
            match above {
                None => law((*depth, root) == (0, id), "a root stands at the top of its own tree"),
                Some(None) => law(false, "a child has a parent"),
                Some(Some(parent)) => {
                    law(
                        *depth == parent.depth + 1 && Some(root) == parent.root.as_ref(),
                        "a child stands below its parent",
                    );
                }
            }
            let activation =
                self.tasks.iter().find(|(_, task)| task.child.as_ref() == Some(id) && task.status.is_none());
            let activation = activation.map(|(task, _)| task.clone());
            let cut_off = activation.is_none();
            let opened = Session { depth: *depth, root: Some(root.clone()), activation, cut_off, ..Session::default() };
            self.sessions.insert(id.clone(), opened);
        }
        let Some(session) = self.sessions.get_mut(id) else {
            self.broken.push(format!("a session begins with its opening: {at}"));
            return;
        };
        law(*n == session.n + 1, "a session's events leave no gap");
        session.n = *n;
        match event {
            Event::TurnStarted { turn, task } => {
                law(session.turn.is_none(), "a session has one turn at a time");
                law(*turn == session.turns + 1, "turns are counted");
                law(*task == session.activation || task.is_none(), "a turn belongs to the running activation");
                session.turns = *turn;
                session.turn = Some(task.clone());
                session.cut_off = false;
            }
            Event::TurnEnded { turn, .. } => {
                law(session.turn.is_some() && *turn == session.turns, "a turn ends once");
                law(session.open.is_empty(), "a turn ends when its calls have");
                session.turn = None;
            }
            Event::StepStarted { step, .. } => {
                law(session.turn.is_some(), "a step is part of a turn");
                law(*step == session.steps + 1, "steps are counted");
                law(session.open.is_empty(), "the model is asked when its calls have results");
                session.steps = *step;
            }
            Event::Answered { step, blocks, .. } => {
                law(session.turn.is_some() && *step == session.steps, "a reply belongs to the running step");
                law(session.answered < *step, "a step has one reply");
                session.answered = *step;
                for block in blocks {
                    let Block::ToolCall { id: call, name, args } = block else { continue };
                    law(session.calls.insert(call.clone()), "a call has a name of its own");
                    session.open.insert(call.clone(), *n);
                    let args: Value = serde_json::from_str(args).unwrap_or_default();
                    if let ("task_output" | "task_kill", Some(task)) = (name.as_str(), args["task_id"].as_str()) {
                        let task = TaskId::from(task);
                        let foreign = self.tasks.get(&task).is_some_and(|task| task.owner != *id);
                        self.asked.insert((id.clone(), call.clone()), (task, foreign));
                    }
                }
            }
            Event::ToolFinished { call, answer, ok, text, .. } => {
                law(session.turn.is_some(), "a result belongs to a turn");
                law(session.open.remove(call) == Some(*answer), "a call has one result");
                if let Some((task, was_foreign)) = self.asked.remove(&(id.clone(), call.clone())) {
                    let foreign = self.tasks.get(&task).is_some_and(|task| task.owner != *id);
                    law(!(foreign && *ok), "a session sees only its own tasks");
                    // A call that a crash or a stop left without effect has met no fence.
                    let cut_off = text.starts_with("Interrupted: ") || text.starts_with("Not run: ");
                    law(
                        !was_foreign || cut_off || text.contains("belongs to another session"),
                        "the fence says what it is",
                    );
                }
            }
            Event::MessageAccepted { .. } => {
                session.waiting.insert(*n, false);
            }
            Event::MessageAdmitted { message, step, .. } => {
                law(session.turn.is_some() && *step == session.steps, "a message is read by the running step");
                law(session.waiting.remove(message).is_some(), "a message is read once");
            }
            Event::MessageDeferred { message, reason } => {
                law(session.waiting.insert(*message, true).is_some() && !reason.is_empty(), "what waits is said to");
            }
            Event::MessageDropped { message, reason } => {
                law(session.waiting.remove(message).is_some() && !reason.is_empty(), "a message is dropped once");
            }
            Event::TaskStarted { task, task_kind, child, .. } => {
                let number =
                    task.as_str().strip_prefix(task_kind).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
                let number: u32 = number.unwrap_or(0);
                let highest = self.numbers.entry(task_kind.clone()).or_default();
                law(number > *highest, "an id is never used again");
                *highest = number.max(*highest);
                let started = Task {
                    owner: id.clone(),
                    child: child.clone(),
                    stopping: None,
                    status: None,
                    settled: 0,
                    owes: false,
                    told: false,
                    learned: false,
                };
                self.tasks.insert(task.clone(), started);
                if let Some(child) = child.as_ref().and_then(|child| self.sessions.get_mut(child)) {
                    law(child.activation.is_none(), "a child has one activation at a time");
                    child.activation = Some(task.clone());
                }
            }
            Event::TaskStopping { task, by, .. } => match self.tasks.get_mut(task) {
                Some(task) if task.owner == *id => {
                    // Whoever asks outranks a time limit.
                    let first = matches!(task.stopping, None | Some(Party::Limit));
                    law(first && task.status.is_none(), "a task is stopped once, and before its end");
                    task.stopping = Some(*by);
                }
                _ => law(false, "a stop stands with the owner"),
            },
            Event::TaskSettled { task: ended, status, killed_by, owes_notice, detail, .. } => {
                let owned = |task: &Task, by: &SessionId| task.owner == *by && task.status.is_none();
                let cut_off = *status == TaskStatus::Interrupted;
                let child = self.tasks.get(ended).and_then(|task| task.child.clone());
                if let Some(child) = child.filter(|_| !cut_off) {
                    law(!self.tasks.values().any(|task| owned(task, &child)), "children end first");
                }
                match self.tasks.get_mut(ended).filter(|task| task.owner == *id) {
                    Some(task) => {
                        law(task.status.is_none(), "a task ends once");
                        law(status.is_terminal(), "an end is final");
                        law(killed_by.is_some() == (*status == TaskStatus::Killed), "a killed task has a killer");
                        let known = matches!(killed_by, Some(Party::Owner | Party::Runtime));
                        law(*owes_notice != known, "who did not learn the end is owed a notice");
                        law(*status != TaskStatus::Failed || detail.is_some(), "a failure says why");
                        (task.status, task.settled, task.owes) = (Some(*status), *n, *owes_notice);
                        let child = task.child.clone();
                        if let Some(child) = child.and_then(|child| self.sessions.get_mut(&child)) {
                            law(child.turn.is_none() || cut_off, "a child is quiet before its end is told");
                            (child.activation, child.cut_off) = (None, cut_off);
                        }
                    }
                    None => law(false, "an end stands with the owner"),
                }
            }
            Event::TaskLearned { task } => match self.tasks.get_mut(task).filter(|task| task.owner == *id) {
                Some(task) => {
                    law(task.status.is_some(), "an end is learned when it is there");
                    task.learned = true;
                }
                None => law(false, "only the owner learns an end"),
            },
            Event::NoticeAdmitted { task, settled, step, .. } => {
                law(session.turn.is_some() && *step == session.steps, "a notice is read by the running step");
                match self.tasks.get_mut(task).filter(|task| task.owner == *id) {
                    Some(task) => {
                        law(task.owes && task.settled == *settled, "a notice tells of an end that it is owed for");
                        law(!task.told, "a notice is told once");
                        law(!task.learned, "who learned an end is not told of it");
                        task.told = true;
                    }
                    None => law(false, "a notice goes to the owner"),
                }
            }
            _ => {}
        }
        self.broken.append(&mut broken);
    }

    fn at_rest(&mut self, shown: &[TaskView]) {
        for (id, session) in &self.sessions {
            if session.turn.is_some() || !session.open.is_empty() {
                self.broken.push(format!("at rest no turn is open: {id}"));
            }
            // A child that was cut off before it began reads its prompt when it is woken.
            let untold = session.waiting.values().any(|deferred| !deferred);
            if untold && !(session.cut_off && session.depth > 0) {
                self.broken.push(format!("a message is read, or it is said why not: {id} {:?}", session.waiting));
            }
        }
        let known = |task: &TaskView| self.tasks.get(&task.id).map(|known| (known.owner.clone(), known.status));
        let mut broken = Vec::new();
        for task in shown {
            if known(task) != Some((task.owner.clone(), Some(task.status))) {
                broken.push(format!("what is shown of a task is what its log says: {task:?}"));
            }
        }
        if shown.len() != self.tasks.len() {
            broken.push(format!("every task is shown: {} of {}", shown.len(), self.tasks.len()));
        }
        self.broken.append(&mut broken);
    }
}

/// The tasks whose owner is still to be told of their end.
pub fn owed(events: &[Recorded], owner: &SessionId) -> Vec<TaskId> {
    let mut owed = Vec::new();
    for recorded in events.iter().filter(|recorded| recorded.session == *owner) {
        match &recorded.event {
            Event::TaskSettled { task, owes_notice: true, .. } => owed.push(task.clone()),
            Event::NoticeAdmitted { task, .. } | Event::TaskLearned { task } => owed.retain(|other| other != task),
            _ => {}
        }
    }
    owed
}
