//! Background tasks: one unit of work with one result, an owner, and a status that never lies.
//!
//! A start checks first everything that can fail, reserves, commits, and only then runs the producer's starter; so
//! nothing works without an id that can be collected, and a refused start leaves nothing behind. The end is recorded
//! once, together with the notice that it owes; what comes later is ignored.

use crate::config::Limits;
use crate::config::bounds::MAX_WAIT;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Party, TaskStatus};
use crate::id::{AgentId, CallId, Owner, SessionId, TaskId};
use crate::log::{Entry, Log, TaskDraft};
use crate::output::{OutputLog, Outputs};
use crate::scope::Scope;
use crate::text::{cut, plain};
use crate::view::TaskView;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

mod cursors;
mod retention;

use cursors::Cursors;

/// How long after the polite and the forced stop a producer may take to settle, before it counts as not stopped.
const CANCEL_MARGIN: Duration = Duration::from_secs(10);

/// All background tasks of this engine. Clones share them.
#[derive(Clone)]
pub struct Tasks(Arc<Inner>);

struct Inner {
    log: Log,
    limits: Limits,
    outputs: Outputs,
    /// How many bytes of outputs are kept, as far as it is known.
    kept: AtomicU64,
    state: Mutex<State>,
    /// Beats when a started task is known.
    begun: watch::Sender<u64>,
}

/// The longest reason for a stop that its owner is told, in characters.
const MAX_REASON: usize = 120;

/// The detail of a task that was cut off by a quit.
const CLOSED: &str = "Coppice was closed while it ran";
/// The detail of a task that could not be stopped.
pub const DID_NOT_STOP: &str = "did not stop";
/// How long a stop waits for a task that has just been started to be known.
const BEGIN: Duration = Duration::from_secs(5);

#[derive(Default)]
struct State {
    owners: HashMap<AgentId, Attached>,
    live: HashMap<TaskId, Arc<Live>>,
    cursors: Cursors,
}

struct Attached {
    scope: Scope,
    mailbox: Arc<dyn Mailbox>,
    places: u32,
    /// Why it is ending; it starts nothing any more and is told nothing.
    closing: Option<Cause>,
}

struct Live {
    id: TaskId,
    owner: Owner,
    levels: u32,
    limit: Option<Duration>,
    cancel: CancellationToken,
    /// The first cause that was given, and in what words; it decides what the end is called.
    cause: Mutex<Option<(Cause, Option<String>)>>,
    output: Arc<OnceLock<OutputLog>>,
    /// Whether it activates a child.
    child: bool,
    /// Set when its work is over, on record or not.
    over: AtomicBool,
    settled: watch::Sender<bool>,
}

/// Hears that a notice is owed. The agent's mailbox implements it.
pub trait Mailbox: Send + Sync {
    /// A task of this agent has ended and its notice is in the log. Told under a lock of the tasks: it must only pass
    /// the word on.
    fn notice_owed(&self);
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The exact live agent that it belongs to.
    pub owner: Owner,
    /// `bash` or `subagent`.
    pub kind: &'static str,
    /// What it does, for people.
    pub label: String,
    /// The child session that it activates.
    pub child: Option<SessionId>,
    /// The tool call that starts it.
    pub call: Option<CallId>,
    /// Fired when its number is sure.
    pub numbered: CancellationToken,
    /// How many levels of agents end with it, itself included: each is given its time to stop.
    pub levels: u32,
    /// How long it may run; without a limit when there is none.
    pub limit: Option<Duration>,
}

/// What a starter is given.
pub struct Start {
    /// The task's id.
    pub id: TaskId,
    /// Fires when the task is to end.
    pub cancel: CancellationToken,
    /// The folder of its output log, which need not exist.
    pub output_dir: PathBuf,
}

/// What a starter gives back: work that has begun.
pub struct Job {
    /// Settles when the work is over and its resources are released. Never panics on purpose; a panic counts as a
    /// failure.
    pub done: BoxFuture<'static, End>,
    /// Its output log, once it has one; never filled for a task whose only output is the final one.
    pub output: Arc<OnceLock<OutputLog>>,
    /// Runs after the end is on record.
    pub after: Box<dyn FnOnce() + Send>,
}

/// How the work ended, before precedence is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// A terminal status.
    pub status: TaskStatus,
    /// How, for people.
    pub detail: Option<String>,
    /// The final output.
    pub output: Option<String>,
}

/// Why a task is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked.
    Asked(Party),
    /// It ran for as long as it may.
    TimeLimit,
    /// The agent that owns it is disposed.
    OwnerEnded,
    /// Coppice quits.
    Quit,
}

impl Cause {
    /// Who is told to have stopped it.
    pub fn party(self) -> Party {
        match self {
            Self::Asked(party) => party,
            Self::TimeLimit => Party::Limit,
            Self::OwnerEnded | Self::Quit => Party::Runtime,
        }
    }

    /// What it means one level down: what the owner stopped, its children's children know as stopped by the parent.
    #[must_use]
    pub fn below(self) -> Self {
        match self {
            Self::Asked(Party::Owner) => Self::Asked(Party::Parent),
            other => other,
        }
    }
}

/// Who asks about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The person, who may act on every task.
    Person,
    /// A session, which may act on its own.
    Session(SessionId),
}

/// What the model's own read of a task gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What is new since its last read, or the final output.
    pub text: String,
    /// How many bytes come after it.
    pub left: u64,
    /// How many bytes before it are no longer kept.
    pub dropped: u64,
    /// The task as it stands.
    pub task: TaskView,
}

impl Tasks {
    /// The tasks of the store `log`; output logs stand in `outputs`.
    pub fn new(log: Log, limits: Limits, outputs: Outputs) -> Self {
        let begun = watch::channel(0).0;
        Self(Arc::new(Inner { log, limits, outputs, kept: AtomicU64::new(0), state: Mutex::default(), begun }))
    }

    /// Makes the agent able to own tasks, which run in `scope`, until it is disposed.
    pub fn attach(&self, owner: &Owner, scope: Scope, mailbox: Arc<dyn Mailbox>) {
        let attached = Attached { scope, mailbox, places: 0, closing: None };
        self.state().owners.insert(owner.agent, attached);
    }

    /// Takes back what [`Tasks::attach`] gave, from an agent that owns no task.
    pub fn detach(&self, owner: &Owner) {
        self.state().owners.remove(&owner.agent);
    }

    /// The same, if it owns none and `read` says that it has read its mail. A notice is posted before its task gives its
    /// place back, so none is lost in between. Answers whether it did.
    pub fn detach_idle(&self, owner: &Owner, read: impl FnOnce() -> bool) -> bool {
        let mut state = self.state();
        let idle = state.owners.get(&owner.agent).is_none_or(|attached| attached.places == 0) && read();
        if idle {
            state.owners.remove(&owner.agent);
        }
        idle
    }

    /// How many agents can own tasks now.
    #[cfg(test)]
    pub(crate) fn owners(&self) -> usize {
        self.state().owners.len()
    }

    /// Starts a task. `starter` runs exactly once, after everything that can fail; it must only begin the work. A
    /// caller that goes away while this runs changes nothing: the start is carried through.
    pub async fn start(&self, spec: Spec, starter: impl FnOnce(Start) -> Job + Send + 'static) -> Result<TaskId> {
        if spec.label.trim().is_empty() {
            return Err(Error::new(Code::BadRequest, "A background task needs a label. Give a short description."));
        }
        let (place, scope) = self.reserve(&spec.owner)?;
        let tasks = self.clone();
        let started = scope.clone().spawn(async move { tasks.carry_out(spec, starter, place, scope).await });
        started
            .await
            .unwrap_or_else(|error| Err(Error::new(Code::Internal, "The task could not be started.").because(error)))
    }

    async fn carry_out(
        &self,
        spec: Spec,
        starter: impl FnOnce(Start) -> Job + Send,
        place: Place,
        scope: Scope,
    ) -> Result<TaskId> {
        let draft = TaskDraft {
            owner: spec.owner.session.clone(),
            kind: spec.kind.to_owned(),
            label: spec.label.clone(),
            child: spec.child.clone(),
            call: spec.call.clone(),
        };
        let started = self.0.log.start_task(draft);
        spec.numbered.cancel();
        let (id, _) = started.await?;
        let cancel = CancellationToken::new();
        let output_dir = self.0.outputs.dir(&id);
        let job = starter(Start { id: id.clone(), cancel: cancel.clone(), output_dir });
        let live = Arc::new(Live {
            id: id.clone(),
            owner: spec.owner.clone(),
            levels: spec.levels,
            limit: spec.limit,
            cancel,
            cause: Mutex::default(),
            output: job.output.clone(),
            child: spec.child.is_some(),
            over: AtomicBool::new(false),
            settled: watch::channel(false).0,
        });
        let closing = {
            let mut state = self.state();
            state.live.insert(id.clone(), live.clone());
            state.owners.get(&spec.owner.agent).map_or(Some(Cause::OwnerEnded), |owner| owner.closing)
        };
        self.0.begun.send_modify(|beat| *beat += 1);
        let (tasks, rest) = (self.clone(), scope.clone());
        scope.spawn(async move { tasks.settle(live, job, place, rest).await });
        if let Some(cause) = closing {
            self.stop_live(&id, cause, None).await;
        }
        Ok(id)
    }

    fn reserve(&self, owner: &Owner) -> Result<(Place, Scope)> {
        let mut state = self.state();
        let limit = self.0.limits.live_tasks_per_owner;
        let attached = state.owners.get_mut(&owner.agent).filter(|attached| attached.closing.is_none());
        let Some(attached) = attached else {
            return Err(Error::new(
                Code::Conflict,
                "The agent that would own this task is ending. Nothing was started.",
            ));
        };
        if limit > 0 && attached.places >= limit {
            let message = format!(
                "This session has as many live background tasks as it may: {limit}. Wait until one has ended, or end one, \
                 then start again. Nothing was started."
            );
            return Err(Error::new(Code::Limit, message));
        }
        attached.places += 1;
        Ok((Place { tasks: Some(self.clone()), agent: owner.agent }, attached.scope.clone()))
    }

    async fn settle(&self, live: Arc<Live>, job: Job, place: Place, scope: Scope) {
        let Job { done, output, after } = job;
        let mut done = Box::pin(AssertUnwindSafe(done).catch_unwind());
        let bound = (self.0.limits.stop_grace() * 2 + CANCEL_MARGIN) * live.levels.max(1);
        let overdue = async {
            if let Some(limit) = live.limit
                && tokio::time::timeout(limit, live.cancel.cancelled()).await.is_err()
            {
                self.stop_live(&live.id, Cause::TimeLimit, None).await;
            }
            live.cancel.cancelled().await;
            let mut trouble = self.0.log.trouble();
            loop {
                tokio::time::sleep(bound).await;
                if trouble.borrow_and_update().is_none() {
                    return;
                }
                // A child is over when its end is on record, which the store does not take now. The sender lives in the
                // log, so the wait cannot fail.
                drop(trouble.wait_for(Option::is_none).await);
            }
        };
        let (end, unfinished) = tokio::select! {
            end = &mut done => (end.unwrap_or_else(|_| End::failed("Coppice met a defect while it ran")), false),
            () = overdue => (End::failed(DID_NOT_STOP), true),
        };
        let after = if unfinished {
            // The record does not wait for it any longer, but what it holds is released only when it is over.
            scope.spawn(async move {
                drop(done.await);
                after();
            });
            None
        } else {
            Some(after)
        };
        let mut written = 0;
        if let Some(output) = output.get() {
            output.finish();
            written = output.kept();
        }
        live.over.store(!unfinished, Ordering::Release);
        let (cause, reason) = lock(&live.cause).clone().unzip();
        let event = self.verdict(&live, end, cause, reason.flatten());
        self.record(&live, event).await;
        if let Some(after) = after {
            after();
        }
        {
            // In one step: else its owner could be put away, or start its next task, in between.
            let mut state = self.state();
            state.live.remove(&live.id);
            if let Some(owner) = state.owners.get(&live.owner.agent).filter(|owner| owner.closing.is_none()) {
                owner.mailbox.notice_owed();
            }
            place.give_back(&mut state);
        }
        self.0.begun.send_modify(|beat| *beat += 1);
        live.settled.send_replace(true);
        self.make_room(written).await;
    }

    /// A kill that was asked for outranks how the work itself ended, unless the work could not be stopped.
    fn verdict(&self, live: &Live, end: End, cause: Option<Cause>, reason: Option<String>) -> Event {
        let stopped = end.detail.as_deref() != Some(DID_NOT_STOP);
        let (status, killed_by) = match cause {
            Some(Cause::Asked(party)) if stopped => (TaskStatus::Killed, Some(party)),
            Some(Cause::TimeLimit) if stopped => (TaskStatus::Killed, Some(Party::Limit)),
            Some(Cause::OwnerEnded) if stopped => (TaskStatus::Killed, Some(Party::Runtime)),
            Some(Cause::Quit) if stopped => (TaskStatus::Interrupted, None),
            _ => (end.status, None),
        };
        let detail = match cause {
            Some(Cause::OwnerEnded) if stopped => Some("the agent that started it ended".to_owned()),
            Some(Cause::Quit) if stopped => Some(CLOSED.to_owned()),
            // Whoever stopped its own task knows why.
            Some(Cause::Asked(Party::Person)) if stopped => reason.filter(|why| !why.is_empty()),
            Some(Cause::Asked(_)) if stopped => None,
            Some(Cause::TimeLimit) if stopped => {
                live.limit.map(|limit| format!("its time limit of {} s is over", limit.as_secs_f64()))
            }
            // Its own work was ended by the quit before the task was.
            None if end.status == TaskStatus::Interrupted => end.detail.or_else(|| Some(CLOSED.to_owned())),
            _ => end.detail,
        };
        // Its owner ended it, or is no more: nobody is left to be told. That it did not stop is news to anyone.
        let known = matches!(cause, Some(Cause::Asked(Party::Owner) | Cause::OwnerEnded));
        let owes_notice = !(known && stopped);
        let task = live.id.clone();
        Event::TaskSettled { task, status, detail, killed_by, output: end.output, owes_notice, last_sign_at: None }
    }

    /// Commits the end. The store may be busy or the disk full for a while: the end is kept until it can be written.
    async fn record(&self, live: &Live, event: Event) {
        let mut pause = Duration::from_millis(100);
        loop {
            match self.0.log.append(&live.owner.session, vec![event.clone()]).await {
                Ok(_) => return,
                Err(error) if error.code() == Code::Store => {
                    tracing::error!(task = %live.id, %error, "the end of a task cannot be written yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
                Err(error) => {
                    // Its session was deleted or the store is closed: there is nowhere left to write it.
                    tracing::warn!(task = %live.id, %error, "the end of a task has no place to be written");
                    return;
                }
            }
        }
    }

    /// Asks a task to end and answers how it stands. A terminal task answers its status; nothing else happens.
    pub async fn kill(&self, caller: &Caller, id: &TaskId, party: Party, reason: Option<String>) -> Result<TaskView> {
        let mut begun = self.0.begun.subscribe();
        let deadline = tokio::time::Instant::now() + BEGIN;
        while !self.get(caller, id).await?.status.is_terminal()
            && !self.stop_live(id, Cause::Asked(party), reason.clone()).await
        {
            // Its start is on record and its work is just beginning: it can be stopped in a moment.
            if tokio::time::timeout_at(deadline, begun.changed()).await.is_err() {
                return Err(Error::new(Code::Busy, "It is just starting and cannot be stopped yet. Try again."));
            }
        }
        self.0.log.task(id).await
    }

    /// Tells a live task to end. Answers whether there is such a task. The stop does not wait for its record.
    async fn stop_live(&self, id: &TaskId, cause: Cause, reason: Option<String>) -> bool {
        let Some(live) = self.state().live.get(id).cloned() else { return false };
        {
            let mut earlier = lock(&live.cause);
            let words = reason.as_deref().map(|reason| plain(reason, MAX_REASON));
            match &*earlier {
                None => *earlier = Some((cause, words)),
                // Whoever asks outranks the time limit, also while it is being ended for that.
                Some((Cause::TimeLimit, _)) if matches!(cause, Cause::Asked(_)) => *earlier = Some((cause, words)),
                // Otherwise the first cause stands.
                Some(_) => return true,
            }
        }
        let stopping = Event::TaskStopping { task: id.clone(), by: cause.party(), reason };
        // On its way before the stop is felt, so that the log has it before what comes of it.
        let written = self.0.log.write(vec![Entry::new(&live.owner.session, vec![stopping])]);
        live.cancel.cancel();
        // A conflict means that its own end was faster.
        if let Some(Err(error)) = self.0.log.unless_troubled(written).await
            && error.code() != Code::Conflict
        {
            tracing::error!(task = %id, %error, "a stop could not be recorded; the task is ended all the same");
        }
        true
    }

    /// One task, if the caller may see it.
    pub async fn get(&self, caller: &Caller, id: &TaskId) -> Result<TaskView> {
        let task = self.0.log.task(id).await?;
        match caller {
            Caller::Session(session) if *session != task.owner => {
                let message = format!("Task {id} belongs to another session.");
                Err(Error::new(Code::NotYours, message))
            }
            _ => Ok(task),
        }
    }

    /// The tasks that a session owns, oldest first.
    pub async fn list(&self, owner: &SessionId) -> Result<Vec<TaskView>> {
        self.0.log.tasks(Some(owner)).await
    }

    /// Waits until the task has ended or the time is over, whichever is first. Neither is an error.
    pub async fn wait(&self, caller: &Caller, id: &TaskId, timeout: Duration) -> Result<TaskView> {
        let task = self.get(caller, id).await?;
        let live = self.state().live.get(id).cloned();
        if let Some(live) = live.filter(|_| !task.status.is_terminal()) {
            let mut settled = live.settled.subscribe();
            let ended = settled.wait_for(|settled| *settled);
            if tokio::time::timeout(timeout.min(MAX_WAIT), ended).await.is_err() {
                return self.0.log.task(id).await;
            }
        }
        self.0.log.task(id).await
    }

    /// Waits until a task that has ended is also out of the way: nothing of its activation is left in memory.
    pub async fn released(&self, id: &TaskId) {
        let live = self.state().live.get(id).cloned();
        if let Some(live) = live {
            let mut settled = live.settled.subscribe();
            // The sender lives as long as this wait, so it cannot fail.
            drop(settled.wait_for(|settled| *settled).await);
        }
    }

    /// What the owner's model has not read yet of a task's output, or its final output: at most `limit` bytes.
    pub async fn read_on(&self, owner: &SessionId, id: &TaskId, limit: usize) -> Result<Reading> {
        let task = self.get(&Caller::Session(owner.clone()), id).await?;
        let Some(output) = self.output_log(id)? else {
            let text = self.0.log.task_output(id).await?.unwrap_or_default();
            let shown = cut(&text, limit).to_owned();
            return Ok(Reading { left: (text.len() - shown.len()) as u64, dropped: 0, text: shown, task });
        };
        let from = self.state().cursors.get(id);
        // A byte that is not UTF-8 is read as a character of three.
        let slice = Scope::blocking(move || output.read(from, limit / 3)).await?;
        self.state().cursors.set(id, slice.next);
        Ok(Reading { left: slice.size.saturating_sub(slice.next), dropped: slice.dropped, text: slice.text, task })
    }

    /// The output log of a task, live or settled; none for a task that has only a final output.
    pub fn output_log(&self, id: &TaskId) -> Result<Option<OutputLog>> {
        if let Some(live) = self.state().live.get(id) {
            return Ok(live.output.get().cloned());
        }
        let dir = self.0.outputs.dir(id);
        if dir.is_dir() { OutputLog::open(&dir).map(Some) } else { Ok(None) }
    }

    /// Tells every live task that these sessions own to end.
    pub async fn stop_all(&self, owners: &[SessionId], cause: Cause) {
        let owned = |live: &&Arc<Live>| owners.contains(&live.owner.session);
        let ids: Vec<TaskId> = self.state().live.values().filter(owned).map(|live| live.id.clone()).collect();
        join_all(ids.iter().map(|id| self.stop_live(id, cause, None))).await;
    }

    /// Whether the work of every live task that these sessions own, or of one task, is over, on record or not. A task
    /// that activates a child is not looked at among several: the child is.
    pub fn work_is_over(&self, owners: &[SessionId], one: Option<&TaskId>) -> bool {
        self.state().live.values().all(|live| match one {
            Some(one) => live.id != *one || live.over.load(Ordering::Acquire),
            None => live.child || !owners.contains(&live.owner.session) || live.over.load(Ordering::Acquire),
        })
    }

    /// Why a live task was told to end; none while it was not.
    pub fn cause(&self, id: &TaskId) -> Option<Cause> {
        let live = self.state().live.get(id).cloned()?;
        lock(&live.cause).as_ref().map(|(cause, _)| *cause)
    }

    /// Whether this task lives.
    pub fn is_live(&self, id: &TaskId) -> bool {
        self.state().live.contains_key(id)
    }

    /// Whether a task of this session lives.
    pub fn owns_live(&self, owner: &SessionId) -> bool {
        self.state().live.values().any(|live| live.owner.session == *owner)
    }

    /// From here on no agent starts a task or is told of an end: all of them are to end for this cause, in whatever
    /// order.
    pub fn close(&self, cause: Cause) {
        for attached in self.state().owners.values_mut() {
            attached.closing.get_or_insert(cause);
        }
    }

    /// Ends every task of an agent and waits until all are over. From here on it can start none.
    pub async fn dispose(&self, owner: &Owner, cause: Cause) {
        let mut begun = self.0.begun.subscribe();
        let bound = tokio::time::Instant::now() + BEGIN;
        loop {
            begun.mark_unchanged();
            let (live, starting, cause) = {
                let mut state = self.state();
                let attached = state.owners.get_mut(&owner.agent);
                // A quit that is under way says why, whoever ends it first.
                let (places, cause) =
                    attached.map_or((0, cause), |own| (own.places, *own.closing.get_or_insert(cause)));
                let live: Vec<Arc<Live>> = state.live.values().filter(|live| live.owner == *owner).cloned().collect();
                let starting = places as usize > live.len();
                (live, starting, cause)
            };
            join_all(live.iter().map(|live| self.stop_live(&live.id, cause, None))).await;
            for live in &live {
                let mut settled = live.settled.subscribe();
                // The settlement has a deadline of its own, and the sender lives as long as this wait.
                drop(settled.wait_for(|settled| *settled).await);
            }
            // What has its place and is about to begin is ended too, unless the store does not let it begin.
            if !starting || tokio::time::timeout_at(bound, begun.changed()).await.is_err() {
                break;
            }
        }
        self.detach(owner);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

/// A place among an owner's live tasks, given back on drop.
struct Place {
    /// None once it was given back.
    tasks: Option<Tasks>,
    agent: AgentId,
}

impl Place {
    fn give_back(mut self, state: &mut State) {
        self.tasks = None;
        state.give_back(self.agent);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.take() {
            tasks.state().give_back(self.agent);
            tasks.0.begun.send_modify(|beat| *beat += 1);
        }
    }
}

impl State {
    fn give_back(&mut self, agent: AgentId) {
        if let Some(owner) = self.owners.get_mut(&agent) {
            owner.places -= 1;
        }
    }
}

impl End {
    /// Coppice is closing, so the work could not begin.
    pub fn interrupted() -> Self {
        Self { status: TaskStatus::Interrupted, detail: Some(CLOSED.to_owned()), output: None }
    }

    /// The work failed.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self { status: TaskStatus::Failed, detail: Some(detail.into()), output: None }
    }
}

/// A panic while the lock was held leaves plain data behind: every critical section here only moves values.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
