//! Stop, in three sizes, with a preview and a receipt that names the same set, and proof from the process table.

use super::{Engine, Inner, Target};
use crate::agent::Agent;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Party, Receipt, ReceiptItem, ReceiptProcess, TaskStatus};
use crate::id::{SessionId, TaskId};
use crate::log::Entry;
use crate::scope::Scope;
use crate::task::{Caller, Cause, DID_NOT_STOP, lock};
use crate::turn::stopped_by;
use crate::view::{SessionState, SessionView, TaskView};
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a stop waits for what it asked to end, on top of the polite and the forced stop of each part.
const STOP_MARGIN: Duration = Duration::from_secs(30);

/// How long the end of what was stopped may wait for a store that takes no writes, before that is told instead.
const SAVING: Duration = Duration::from_millis(700);

/// How often it is looked whether what was stopped is over.
const LOOK: Duration = Duration::from_millis(50);

/// How often a stop looks again for what was started while it ran.
const ROUNDS: usize = 3;

/// What a stop will end.
pub(super) struct Plan {
    pub(super) receipt: Receipt,
    /// The sessions whose logs keep the receipt.
    keepers: Vec<SessionId>,
    turns: Vec<Arc<Agent>>,
    tasks: Vec<TaskId>,
    /// The sessions whose processes end.
    sessions: Vec<SessionId>,
    /// The one command that ends, by its session and task, when it is only that.
    command: Option<(SessionId, TaskId)>,
    /// Whether only the turn of a root ends, and what it started lives on.
    only_turn: bool,
    /// Every session with its parent.
    parents: Vec<(SessionId, SessionId)>,
    /// For each end of the receipt, what tells it from others of the same name.
    keys: BTreeMap<String, String>,
}

impl Engine {
    pub(super) async fn preview(&self, target: &Target) -> Result<Receipt> {
        let mut plan = self.plan(target).await?;
        if !plan.only_turn {
            plan.receipt.processes = plan.processes(&self.0).await;
        }
        Ok(plan.receipt)
    }

    pub(super) async fn carry_out(&self, target: &Target, reason: Option<String>) -> Result<Receipt> {
        let began = Instant::now();
        let inner = &self.0;
        let claims = Claims::new(&inner.ending);
        let mut plan = self.plan(target).await?;
        if whole(&plan) {
            self.withdraw_asks(&plan.sessions).await;
        }
        let mut met = plan.processes(inner).await;
        // What finished work has left is ended too.
        if plan.receipt.ended.is_empty() && (plan.only_turn || met.is_empty()) {
            if whole(&plan) {
                plan.receipt.unconfirmed = inner.processes.unguarded(&plan.sessions);
            }
            return Ok(plan.receipt);
        }
        let mut seen = plan.receipt.ended.clone();
        claims.claim(&mut plan);
        let mut receipt = std::mem::take(&mut plan.receipt);
        let keepers = plan.keepers.clone();
        let only_turn = plan.only_turn;
        let whole_branch = whole(&plan);
        let mut sessions = BTreeSet::new();
        let deadline = tokio::time::Instant::now() + inner.config.limits.stop_grace() * 2 + STOP_MARGIN;
        for round in 0..ROUNDS {
            if round > 0 {
                // What a turn started while it was being stopped ends too.
                plan = self.plan(target).await?;
                plan.receipt.ended.retain(|item| !seen.contains(item));
                if plan.receipt.ended.is_empty() {
                    break;
                }
                seen.extend(plan.receipt.ended.iter().cloned());
                claims.claim(&mut plan);
                receipt.ended.append(&mut plan.receipt.ended);
                add(&mut met, plan.processes(inner).await);
            }
            sessions.extend(plan.sessions.iter().cloned());
            self.end(&plan, &reason, deadline, &mut receipt).await;
        }
        self.leave_out_others(&mut receipt.ended).await;
        drop(claims);
        if whole_branch {
            let sessions: Vec<SessionId> = sessions.into_iter().collect();
            let ended = inner.processes.end_all(&sessions, inner.config.limits.stop_grace()).await;
            add(&mut met, ended.processes.into_iter().filter(|process| !process.gone));
            receipt.unconfirmed.extend(inner.processes.unguarded(&sessions));
        }
        receipt.processes = inner.processes.look(met);
        if only_turn {
            // Its commands in the background live on; what is gone was ended by this.
            receipt.processes.retain(|process| process.gone);
        }
        for process in receipt.processes.iter().filter(|process| !process.gone) {
            receipt.unconfirmed.push(format!("Process {} still lives.", process.pid));
        }
        receipt.ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        join_all(keepers.into_iter().map(|keeper| self.keep(keeper, receipt.clone()))).await;
        Ok(receipt)
    }

    /// Leaves out what ended by itself, or was ended by its owner, before the stop met it.
    async fn leave_out_others(&self, ended: &mut Vec<ReceiptItem>) {
        // What cannot be read now cannot be told from what was stopped.
        let Ok((sessions, tasks)) = self.tree(None).await else { return };
        let by_others = |task: &TaskView| match task.status {
            TaskStatus::Completed | TaskStatus::Failed => true,
            TaskStatus::Killed => matches!(task.killed_by, Some(Party::Owner | Party::Limit)),
            _ => false,
        };
        ended.retain(|item| {
            let task = tasks.iter().find(|task| task.id.as_str() == item.id);
            let session = sessions.iter().find(|session| session.id.as_str() == item.id);
            let activation = session.and_then(|session| session.task.as_ref());
            match (task.or_else(|| tasks.iter().find(|task| Some(&task.id) == activation)), session) {
                (Some(task), _) => !by_others(task),
                (None, Some(session)) => match session.state {
                    // A root whose turn was stopped rests like any other, and says that it was.
                    SessionState::Idle => session.detail == stopped_by(Party::Person),
                    SessionState::Completed | SessionState::Failed => false,
                    _ => true,
                },
                (None, None) => true,
            }
        });
    }

    /// Ends what the plan names and waits for it. What goes wrong is told in the receipt and stops nothing else.
    async fn end(&self, plan: &Plan, reason: &Option<String>, deadline: tokio::time::Instant, receipt: &mut Receipt) {
        let inner = &self.0;
        if !plan.only_turn {
            // What is told of these ends must not start the branch again.
            for agent in plan.sessions.iter().filter_map(|session| inner.agents.get(session)) {
                agent.hold();
            }
        }
        let stopped = |agent: &Arc<Agent>| Some((agent.owner.session.clone(), agent.stop_turn(Party::Person)?));
        let turns: Vec<_> = plan.turns.iter().filter_map(stopped).collect();
        let kills = plan.tasks.iter().map(|task| async move {
            let killed = inner.tasks.kill(&Caller::Person, task, Party::Person, reason.clone()).await;
            killed.err().map(|error| format!("{task}: {}", error.message()))
        });
        receipt.unconfirmed.extend(join_all(kills).await.into_iter().flatten());
        let ends = plan.tasks.iter().map(|task| self.task_over(plan, task, deadline));
        receipt.unconfirmed.extend(join_all(ends).await.into_iter().flatten());
        let ends = turns.iter().map(|(session, over)| self.turn_over(plan, session, over, deadline));
        receipt.unconfirmed.extend(join_all(ends).await.into_iter().flatten());
    }

    /// Waits for the end of a task. Answers what of it is not confirmed.
    async fn task_over(&self, plan: &Plan, task: &TaskId, deadline: tokio::time::Instant) -> Option<String> {
        let tasks = &self.0.tasks;
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let ended = tokio::select! {
            biased;
            ended = tasks.wait(&Caller::Person, task, left) => ended,
            why = self.unsaved(plan, Cause::Asked(Party::Person)) => match tasks.get(&Caller::Person, task).await {
                Ok(ended) if !ended.status.is_terminal() => return Some(unsaved(&ended.label, &why)),
                ended => ended,
            },
        };
        match ended {
            Ok(task) if task.status.is_terminal() && task.detail.as_deref() != Some(DID_NOT_STOP) => None,
            Ok(task) => Some(format!("{} did not stop in time.", task.label)),
            Err(error) => Some(format!("{task}: {}", error.message())),
        }
    }

    /// The same for a turn.
    async fn turn_over(
        &self,
        plan: &Plan,
        session: &SessionId,
        over: &CancellationToken,
        deadline: tokio::time::Instant,
    ) -> Option<String> {
        tokio::select! {
            biased;
            () = over.cancelled() => None,
            why = self.unsaved(plan, Cause::Asked(Party::Person)) => Some(unsaved(&plan.receipt.label, &why)),
            () = tokio::time::sleep_until(deadline) => {
                Some(format!("The turn of {session} did not end."))
            }
        }
    }

    /// Waits until everything of the plan is over and only the store keeps that from being on record. Answers why it
    /// takes nothing. It never ends while the store takes writes.
    pub(super) async fn unsaved(&self, plan: &Plan, cause: Cause) -> String {
        let mut told = false;
        loop {
            if !self.is_over(plan) {
                // What stands deeper is ended when the turn above it is on record, which takes too long now.
                if !(told || plan.only_turn) && self.trouble().is_some() {
                    self.0.tasks.stop_all(&plan.sessions, cause).await;
                    told = true;
                }
                tokio::time::sleep(LOOK).await;
                continue;
            }
            tokio::time::sleep(SAVING).await;
            if let Some(why) = self.trouble().filter(|_| self.is_over(plan)) {
                return why;
            }
        }
    }

    /// Whether nothing of the plan works any more, on record or not: each turn is over or only writes, or waits for a
    /// child of which that is true; and the commands are gone.
    fn is_over(&self, plan: &Plan) -> bool {
        let inner = &self.0;
        let turning = |session: &SessionId| inner.agents.get(session).filter(|agent| agent.in_turn());
        let waits =
            |parent: &SessionId| plan.parents.iter().any(|(child, of)| of == parent && turning(child).is_some());
        let works = |session: &SessionId| turning(session).is_some_and(|it| !it.is_storing() && !waits(session));
        if let Some((_, task)) = &plan.command {
            return inner.tasks.work_is_over(&[], Some(task));
        }
        !plan.sessions.iter().any(works) && (plan.only_turn || inner.tasks.work_is_over(&plan.sessions, None))
    }

    /// Keeps the receipt in the log of a session: now, or as soon as the store takes it. What was stopped is stopped, and
    /// the receipt is answered all the same.
    async fn keep(&self, keeper: SessionId, receipt: Receipt) {
        let log = self.0.log.clone();
        let closed = self.0.scope.token().clone();
        let kept = self.0.scope.spawn(async move {
            let mut pause = Duration::from_millis(100);
            loop {
                let event = Event::Stopped { receipt: receipt.clone() };
                match log.write(vec![Entry::new(&keeper, vec![event])]).await {
                    Ok(_) => return,
                    Err(error) if error.code() == Code::Store && !closed.is_cancelled() => {}
                    Err(error) => {
                        tracing::error!(session = %keeper, %error, "a receipt cannot be kept");
                        return;
                    }
                }
                tokio::select! {
                    () = closed.cancelled() => {}
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(5)),
                }
            }
        });
        // While the store takes nothing it is kept later.
        self.0.log.unless_troubled(async { Ok(kept.await.is_ok()) }).await;
    }

    pub(super) async fn plan(&self, target: &Target) -> Result<Plan> {
        let (sessions, tasks) = self.tree(None).await?;
        let mut plan = self.plan_of(target, &sessions, &tasks).await?;
        let key = |item: &ReceiptItem| (item.id.clone(), key(item, &sessions, &tasks));
        plan.keys = plan.receipt.ended.iter().map(key).collect();
        let with_parent = |session: SessionView| Some((session.id, session.parent?));
        plan.parents = sessions.into_iter().filter_map(with_parent).collect();
        Ok(plan)
    }

    async fn plan_of(&self, target: &Target, sessions: &[SessionView], tasks: &[TaskView]) -> Result<Plan> {
        let live: Vec<&TaskView> = tasks.iter().filter(|task| !task.status.is_terminal()).collect();
        let find = |id: &SessionId| {
            let unknown = || Error::new(Code::UnknownSession, format!("No session {id} is in the store."));
            sessions.iter().find(|session| session.id == *id).ok_or_else(unknown)
        };
        match target {
            Target::Turn(id) => {
                let session = find(id)?;
                // A child's turn is all of its activation: what it started ends with it, and is said to.
                if live.iter().any(|task| task.child.as_ref() == Some(id)) {
                    let mut plan = self.plan_branch(sessions, &live, session);
                    plan.receipt.what = "turn".to_owned();
                    plan.receipt.kept.clear();
                    return Ok(plan);
                }
                let mut plan = Plan::new("turn", &session.title, vec![id.clone()]);
                plan.only_turn = true;
                plan.end_turn(&self.0, session, "turn");
                plan.receipt.kept = items(sessions, &live, &below(sessions, id));
                plan.receipt.kept.retain(|item| item.id != id.as_str());
                Ok(plan)
            }
            Target::Branch(id) => Ok(self.plan_branch(sessions, &live, find(id)?)),
            Target::Task(id) => {
                let task = self.0.log.task(id).await?;
                let branch = task.child.as_ref().map(|child| below(sessions, child)).unwrap_or_default();
                let mut plan = Plan::new("task", &task.label, Vec::new());
                plan.keepers = vec![task.owner.clone()];
                if task.status.is_terminal() {
                    // Its child may be at work for another task by now.
                    return Ok(plan);
                }
                plan.sessions.extend(branch.iter().cloned());
                plan.tasks.push(task.id.clone());
                match task.child.as_ref().and_then(|child| find(child).ok()) {
                    Some(session) => plan.end_branch(&self.0, sessions, &live, session, &branch),
                    // A command, or a child that is about to begin.
                    None => {
                        plan.command = Some((task.owner.clone(), task.id.clone()));
                        plan.receipt.ended.push(item("task", id.as_str(), &task.label));
                    }
                }
                Ok(plan)
            }
            Target::Everything => {
                let mut plan = Plan::new("everything", "everything", Vec::new());
                plan.keepers.clear();
                let with_processes = self.0.processes.sessions();
                for root in sessions.iter().filter(|session| session.depth == 0) {
                    let branch = below(sessions, &root.id);
                    let ended = plan.receipt.ended.len();
                    plan.end_branch(&self.0, sessions, &live, root, &branch);
                    let has_processes = with_processes.iter().any(|session| branch.contains(session));
                    if plan.receipt.ended.len() > ended || has_processes {
                        plan.keepers.push(root.id.clone());
                        plan.sessions.extend(branch);
                    }
                }
                Ok(plan)
            }
        }
    }

    fn plan_branch(&self, sessions: &[SessionView], live: &[&TaskView], session: &SessionView) -> Plan {
        let branch = below(sessions, &session.id);
        let mut plan = Plan::new("branch", &session.title, branch.iter().cloned().collect());
        plan.keepers = vec![session.id.clone()];
        plan.end_branch(&self.0, sessions, live, session, &branch);
        let tree = below(sessions, &session.root);
        let others: BTreeSet<SessionId> = tree.difference(&branch).cloned().collect();
        plan.receipt.kept = items(sessions, live, &others);
        plan.receipt.kept.retain(|item| item.kind != "turn");
        plan
    }
}

/// What the stops that are under way have claimed to end.
#[derive(Default)]
pub(super) struct Ending {
    stops: usize,
    claimed: BTreeSet<String>,
}

/// A stop that is under way, from before it looks at what lives. Each end is told by the stop that claimed it first; what
/// was claimed is forgotten only when none is under way, because each may have seen it alive.
struct Claims<'a>(&'a Mutex<Ending>);

impl<'a> Claims<'a> {
    fn new(ending: &'a Mutex<Ending>) -> Self {
        lock(ending).stops += 1;
        Self(ending)
    }

    /// Claims what the plan ends, and leaves out what another stop has claimed.
    fn claim(&self, plan: &mut Plan) {
        let mut ending = lock(self.0);
        let keys = &plan.keys;
        plan.receipt.ended.retain(|item| keys.get(&item.id).is_none_or(|key| ending.claimed.insert(key.clone())));
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        let mut ending = lock(self.0);
        ending.stops -= 1;
        if ending.stops == 0 {
            ending.claimed.clear();
        }
    }
}

/// What tells this end of a session or task from its next: the activation, or when the turn began.
fn key(item: &ReceiptItem, sessions: &[SessionView], tasks: &[TaskView]) -> String {
    let activates = |task: &&TaskView| {
        !task.status.is_terminal() && task.child.as_ref().is_some_and(|child| child.as_str() == item.id)
    };
    // Of two reads one may know of the end already and the other not.
    let session = || {
        let session = sessions.iter().find(|session| session.id.as_str() == item.id)?;
        let turn = || Some(format!("{} {}", item.id, session.started_at?));
        session.task.as_ref().map(TaskId::to_string).or_else(turn)
    };
    let activation = tasks.iter().find(activates).map(|task| task.id.to_string());
    activation.or_else(session).unwrap_or_else(|| item.id.clone())
}

impl Plan {
    fn new(what: &str, label: &str, sessions: Vec<SessionId>) -> Self {
        let receipt =
            Receipt { what: what.to_owned(), label: label.to_owned(), by: Some(Party::Person), ..Receipt::default() };
        Self {
            receipt,
            keepers: sessions.first().cloned().into_iter().collect(),
            turns: Vec::new(),
            tasks: Vec::new(),
            sessions,
            command: None,
            only_turn: false,
            parents: Vec::new(),
            keys: BTreeMap::new(),
        }
    }

    /// The processes that are to end.
    async fn processes(&self, inner: &Inner) -> Vec<ReceiptProcess> {
        let (processes, command, sessions) = (inner.processes.clone(), self.command.clone(), self.sessions.clone());
        Scope::blocking(move || match &command {
            Some((session, task)) => processes.living_of(session, task.as_str()),
            None => processes.living(&sessions),
        })
        .await
    }

    fn end_turn(&mut self, inner: &Inner, session: &SessionView, kind: &str) {
        let agent = inner.agents.get(&session.id).filter(|agent| agent.in_turn());
        if agent.is_some() || session.state.is_live() {
            self.receipt.ended.push(item(kind, session.id.as_str(), &session.title));
        }
        self.turns.extend(agent);
    }

    /// The session's turn, every child below it, every command. A child's activation ends by its task, so that the
    /// parent learns it; what stands deeper ends with it.
    fn end_branch(
        &mut self,
        inner: &Inner,
        sessions: &[SessionView],
        live: &[&TaskView],
        top: &SessionView,
        branch: &BTreeSet<SessionId>,
    ) {
        let activation = live.iter().find(|task| task.child.as_ref() == Some(&top.id));
        match activation {
            Some(task) => {
                if !self.tasks.contains(&task.id) {
                    self.tasks.push(task.id.clone());
                }
                self.receipt.ended.push(item("turn", top.id.as_str(), &top.title));
            }
            None => {
                self.end_turn(inner, top, "turn");
                self.tasks.extend(live.iter().filter(|task| task.owner == top.id).map(|task| task.id.clone()));
            }
        }
        for session in sessions.iter().filter(|session| branch.contains(&session.id) && session.id != top.id) {
            if session.state.is_live() {
                self.receipt.ended.push(item("child", session.id.as_str(), &session.title));
            }
        }
        self.receipt.ended.extend(about_to_begin(sessions, live, branch));
        for task in live.iter().filter(|task| task.child.is_none() && branch.contains(&task.owner)) {
            self.receipt.ended.push(item("task", task.id.as_str(), &task.label));
        }
    }
}

/// Whether it ends all that runs on behalf of its sessions.
fn whole(plan: &Plan) -> bool {
    !plan.only_turn && plan.command.is_none()
}

/// The children that are being started by these sessions and are not in the tree yet.
fn about_to_begin<'a>(
    sessions: &'a [SessionView],
    live: &'a [&TaskView],
    parents: &'a BTreeSet<SessionId>,
) -> impl Iterator<Item = ReceiptItem> {
    live.iter().filter(|task| parents.contains(&task.owner)).filter_map(|task| {
        let child = task.child.as_ref().filter(|child| sessions.iter().all(|session| session.id != **child))?;
        Some(item("child", child.as_str(), &task.label))
    })
}

/// What is said of an end that is not on record.
pub(super) fn unsaved(label: &str, why: &str) -> String {
    let why = why.split([';', '\n']).next().unwrap_or_default().split(". ").next().unwrap_or_default();
    let why = why.trim_end_matches('.');
    let mut letters = why.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
    format!("The end of {label} could not be saved yet: {first}{}.", letters.as_str())
}

/// Adds processes to those that were met, each once.
pub(super) fn add(met: &mut Vec<ReceiptProcess>, more: impl IntoIterator<Item = ReceiptProcess>) {
    for process in more {
        if !met.contains(&process) {
            met.push(process);
        }
    }
}

fn items(sessions: &[SessionView], live: &[&TaskView], within: &BTreeSet<SessionId>) -> Vec<ReceiptItem> {
    let mut items = Vec::new();
    for session in sessions.iter().filter(|session| within.contains(&session.id) && session.state.is_live()) {
        let kind = if session.depth == 0 { "turn" } else { "child" };
        items.push(item(kind, session.id.as_str(), &session.title));
    }
    items.extend(about_to_begin(sessions, live, within));
    for task in live.iter().filter(|task| task.child.is_none() && within.contains(&task.owner)) {
        items.push(item("task", task.id.as_str(), &task.label));
    }
    items
}

fn item(kind: &str, id: &str, label: &str) -> ReceiptItem {
    ReceiptItem { kind: kind.to_owned(), id: id.to_owned(), label: label.to_owned() }
}

/// A session and everything below it.
pub(super) fn below(sessions: &[SessionView], top: &SessionId) -> BTreeSet<SessionId> {
    let mut found = BTreeSet::from([top.clone()]);
    // Sessions come oldest first, so a parent stands before its children.
    for session in sessions {
        if session.parent.as_ref().is_some_and(|parent| found.contains(parent)) {
            found.insert(session.id.clone());
        }
    }
    found
}
