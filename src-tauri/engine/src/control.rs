//! Continuable children: a durable session with a series of activations, each a task of its own.
//!
//! One path for every message to a child, whoever writes it: it joins the running turn, or wakes the child as a new
//! task, or is said not to be delivered. The association of a child with its activation is installed before anything
//! is awaited and removed after the end is on record; it is the only thing that routes.

use crate::agent::{Agent, Agents, Done};
use crate::budget::Budgets;
use crate::config::bounds::MAX_MESSAGE;
use crate::config::{Limits, SubagentConfig};
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::event::{Descriptor, Event, Party, Route, TaskStatus, TurnEnd};
use crate::id::{CallId, Owner, SessionId, TaskId};
use crate::log::Log;
use crate::subagent::{Message, Parent, Provider, Resume, Run, Start};
use crate::task::{Cause, End, Job, Spec, Tasks, lock};
use crate::text::{cut, plain};
use crate::turn::stopped_by;
use crate::view::{Sent, SessionState, SessionView};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The longest diagnostic of a child that its parent reads, in bytes.
const MAX_DIAGNOSTIC: usize = 4 * 1024;

/// The longest that a child waits for the one before it to be on its way to the log.
const LINE: Duration = Duration::from_secs(10);

/// The children of this engine. Clones share them.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    env: Env,
    log: Log,
    budgets: Budgets,
    tasks: Tasks,
    agents: Agents,
    providers: BTreeMap<&'static str, Arc<dyn Provider>>,
    active: Mutex<HashMap<SessionId, Association>>,
    /// For each parent the newest of its children that may not be in the log yet.
    newest: Mutex<HashMap<SessionId, CancellationToken>>,
}

/// Which activation a child has now.
struct Association {
    root: SessionId,
    task: Option<TaskId>,
    phase: Phase,
}

impl Association {
    /// Whether it is that of a live child of this tree.
    fn is_alive_in(&self, root: &SessionId) -> bool {
        self.root == *root && !matches!(self.phase, Phase::Hosting(_))
    }
}

#[derive(Clone)]
enum Phase {
    Starting,
    Running(Arc<dyn Run>),
    Settling,
    /// It has no activation, and so many want it live to own a task of its own child.
    Hosting(usize),
}

/// What a delegation asks for.
#[derive(Clone, Debug)]
pub struct Delegation {
    /// The agent that delegates.
    pub owner: Owner,
    /// The call by which it does.
    pub call: CallId,
    /// Fires when its place among the tasks and children of its parent is sure.
    pub numbered: CancellationToken,
    /// A short label.
    pub description: String,
    /// Everything that the child is told.
    pub prompt: String,
}

impl Control {
    /// Children of the store `log`, run by `providers`.
    pub fn new(
        env: Env,
        log: Log,
        budgets: Budgets,
        tasks: Tasks,
        agents: Agents,
        providers: Vec<Arc<dyn Provider>>,
    ) -> Self {
        let providers = providers.into_iter().map(|provider| (provider.name(), provider)).collect();
        Self(Arc::new(Inner {
            env,
            log,
            budgets,
            tasks,
            agents,
            providers,
            active: Mutex::default(),
            newest: Mutex::default(),
        }))
    }

    /// Starts a child in the background. Answers its session and its first activation.
    pub async fn start_background(&self, instance: &SubagentConfig, ask: Delegation) -> Result<(SessionId, TaskId)> {
        let Prepared { start, provider, limits } = self.prepare(instance, &ask).await?;
        let child = start.child.clone();
        let seat = self.seat(&start.parent.root, &child, &limits).await?;
        let (before, next) = self.line_up(&ask.owner.session);
        let mut spec = spec(&ask.owner, &ask.description, &child, Some(ask.call), &limits);
        spec.numbered = ask.numbered;
        let begin = move |task: TaskId, cancel: CancellationToken| async move {
            wait_in_line(before, &cancel).await;
            provider.start(Start { task: Some(task), cancel, next, ..start }).await
        };
        let task = self.activate(spec, seat, begin).await?;
        Ok((child, task))
    }

    /// Runs a child and waits for it. Cancelling `cancel` cancels the child.
    pub async fn run_foreground(
        &self,
        instance: &SubagentConfig,
        ask: Delegation,
        cancel: CancellationToken,
    ) -> Result<(SessionId, Done)> {
        let Prepared { start, provider, limits } = self.prepare(instance, &ask).await?;
        let child = start.child.clone();
        let seat = self.seat(&start.parent.root, &child, &limits).await?;
        let (before, next) = self.line_up(&ask.owner.session);
        // Its place is sure; it waits for it alone.
        ask.numbered.cancel();
        wait_in_line(before, &cancel).await;
        let run = provider.start(Start { cancel: cancel.clone(), next, ..start }).await?;
        seat.phase(Phase::Running(run.clone()));
        let done = run.result().await;
        seat.phase(Phase::Settling);
        run.dispose(Cause::OwnerEnded).await;
        drop(seat);
        Ok((child, done))
    }

    /// Sends a message to a child on behalf of its direct parent. `steered`: it joined the running turn; `started`: it
    /// woke the child as a new task. An error means that nothing was delivered and nothing happened.
    pub async fn send(&self, parent: &Owner, child: &SessionId, message: Message) -> Result<Sent> {
        if message.text.len() > MAX_MESSAGE {
            return Err(too_large(message.text.len()));
        }
        if message.text.trim().is_empty() {
            return Err(Error::new(Code::BadRequest, "The message is empty. Nothing was sent."));
        }
        let unknown = || Error::new(Code::UnknownSession, format!("You have no child {child}. Nothing was sent."));
        let record = match self.0.log.session(child).await {
            Ok(record) if record.parent.as_ref() == Some(&parent.session) => record,
            Err(error) if error.code() != Code::UnknownSession => return Err(error),
            // A foreign child reads like no child.
            _ => return Err(unknown()),
        };
        self.0.agents.check_barred(child)?;
        if message.from == Party::Parent && stopped_by_person(&self.0.log, &record).await? {
            let message = "The person stopped this child, so only the person wakes it. Nothing was sent.";
            return Err(Error::new(Code::Refused, message));
        }
        if let Some(task) = self.settling(child)
            && self.0.log.task(&task).await?.status.is_terminal()
        {
            // Its end is on record, so this message comes after it; what is left is to put the activation away.
            self.0.tasks.released(&task).await;
        }
        if let Some(host) = self.0.agents.get(child).filter(|agent| agent.is_host()) {
            if self.0.tasks.owns_live(child) {
                let message = "Not sent: a child of its own runs now. Send again when that has ended.";
                return Err(Error::new(Code::Busy, message));
            }
            self.0.agents.dispose(&host, Cause::OwnerEnded).await;
        }
        let limits = self.0.budgets.limits(&record.root).await?;
        match self.route(&record.root, child, &limits, message.expect)? {
            Way::Steer(run, task) => {
                run.steer(message).await?;
                Ok(Sent { route: Route::Steered, task })
            }
            Way::Wake(seat) => self.wake(parent, child, message, seat, &limits).await,
        }
    }

    /// The live agent of a session, made live when it is not, to own a task of one of its children. A child that is just
    /// being woken is left alone, and none is woken while it is made live for this.
    pub async fn host(&self, session: &SessionId) -> Result<Arc<Agent>> {
        let root = self.0.log.session(session).await?.root;
        let _claim = {
            let mut active = lock(&self.0.active);
            let none = || Association { root, task: None, phase: Phase::Hosting(0) };
            match &mut active.entry(session.clone()).or_insert_with(none).phase {
                Phase::Hosting(claims) => {
                    *claims += 1;
                    Some(Claim { control: self.clone(), session: session.clone() })
                }
                Phase::Starting if self.0.agents.get(session).is_none() => {
                    return Err(not_delivered("its parent is just starting"));
                }
                Phase::Starting | Phase::Running(_) | Phase::Settling => None,
            }
        };
        self.0.agents.ensure(session).await
    }

    /// The activation of a child that is being put away.
    fn settling(&self, child: &SessionId) -> Option<TaskId> {
        let active = lock(&self.0.active);
        let association = active.get(child)?;
        matches!(association.phase, Phase::Settling).then(|| association.task.clone()).flatten()
    }

    /// Decides, at one instant, where a message goes; a child that is to be woken has its association from here on.
    fn route(&self, root: &SessionId, child: &SessionId, limits: &Limits, expect: Option<Route>) -> Result<Way> {
        let mut active = lock(&self.0.active);
        if let Some(association) = active.get(child) {
            return match (&association.phase, &association.task) {
                (Phase::Running(_), Some(_)) if expect == Some(Route::Started) => Err(not_delivered("it runs again")),
                (Phase::Running(run), Some(task)) => Ok(Way::Steer(run.clone(), task.clone())),
                (Phase::Running(_), None) => Err(not_delivered("its parent waits for it and it takes no messages")),
                (Phase::Starting, _) => Err(not_delivered("it is starting and cannot be steered yet")),
                (Phase::Settling, _) => Err(not_delivered("the turn ended first")),
                (Phase::Hosting(_), _) => Err(not_delivered("a child of its own is just being spoken to")),
            };
        }
        if self.0.agents.get(child).is_some() {
            return Err(Error::new(Code::Conflict, "Not sent: something else drives this session now."));
        }
        if expect == Some(Route::Steered) {
            return Err(not_delivered("the turn ended first"));
        }
        admit(&active, root, limits)?;
        let association = Association { root: root.clone(), task: None, phase: Phase::Starting };
        active.insert(child.clone(), association);
        Ok(Way::Wake(Seat { control: self.clone(), child: child.clone() }))
    }

    async fn wake(
        &self,
        parent: &Owner,
        child: &SessionId,
        message: Message,
        seat: Seat,
        limits: &Limits,
    ) -> Result<Sent> {
        self.may_spend(&self.0.log.session(child).await?.root, "Nothing was sent.").await?;
        let descriptor = self.descriptor(child).await?;
        let provider = self.provider(&descriptor.provider)?;
        if provider.resumes().is_none() {
            let message =
                format!("{} keeps no sessions, so this child cannot be resumed. Nothing was sent.", provider.name());
            return Err(Error::new(Code::NotResumable, message));
        }
        let (accepted, hear) = oneshot::channel();
        let spec = spec(parent, &descriptor.label, child, None, limits);
        let child = child.clone();
        let begin = move |task: TaskId, cancel: CancellationToken| async move {
            let Some(resumes) = provider.resumes() else {
                return Err(Error::new(Code::NotResumable, "It cannot be resumed."));
            };
            let begun = resumes.resume(Resume { child, descriptor, message, task, cancel }).await;
            // The sender waits for this: a message is delivered when the child has it, not before.
            drop(accepted.send(begun.as_ref().map(|_| ()).map_err(|error| (error.code(), error.message().to_owned()))));
            begun
        };
        let task = self.activate(spec, seat, begin).await?;
        match hear.await {
            Ok(Ok(())) => Ok(Sent { route: Route::Started, task }),
            Ok(Err((code, why))) => Err(Error::new(code, format!("Not sent: {why}"))),
            Err(_) => Err(not_delivered("it was stopped before it began")),
        }
    }

    /// One activation as a task: begin, result, dispose, and only then the end on record.
    async fn activate<F>(
        &self,
        spec: Spec,
        seat: Seat,
        begin: impl FnOnce(TaskId, CancellationToken) -> F + Send + 'static,
    ) -> Result<TaskId>
    where
        F: Future<Output = Result<Arc<dyn Run>>> + Send + 'static,
    {
        let tasks = self.0.tasks.clone();
        let starter = move |start: crate::task::Start| {
            seat.task(&start.id);
            let seat = Arc::new(seat);
            let held = seat.clone();
            let done = async move {
                let run = match begin(start.id.clone(), start.cancel.clone()).await {
                    Ok(run) => run,
                    // What it was to read is owed: it begins when it is woken.
                    Err(error) if error.code() == Code::ShuttingDown => return End::interrupted(),
                    Err(error) => return End::failed(cut(error.message(), MAX_DIAGNOSTIC)),
                };
                seat.phase(Phase::Running(run.clone()));
                let done = run.result().await;
                seat.phase(Phase::Settling);
                run.dispose(tasks.cause(&start.id).map_or(Cause::OwnerEnded, Cause::below)).await;
                end_of(done)
            };
            Job { done: Box::pin(done), output: Arc::default(), after: Box::new(move || drop(held)) }
        };
        self.0.tasks.start(spec, starter).await
    }

    /// Puts a new child of this parent behind the one before: what it waits for, and what lets the next begin.
    fn line_up(&self, parent: &SessionId) -> (Option<CancellationToken>, DropGuard) {
        let mut newest = lock(&self.0.newest);
        newest.retain(|_, begun| !begun.is_cancelled());
        let own = CancellationToken::new();
        (newest.insert(parent.clone(), own.clone()), own.drop_guard())
    }

    /// Everything that a start needs.
    async fn prepare(&self, instance: &SubagentConfig, ask: &Delegation) -> Result<Prepared> {
        if ask.prompt.trim().is_empty() {
            return Err(Error::new(
                Code::BadRequest,
                "The prompt is empty. Say everything that the child needs to know.",
            ));
        }
        if ask.prompt.len() > MAX_MESSAGE {
            return Err(too_large(ask.prompt.len()));
        }
        let provider = self.provider(&instance.provider)?;
        let parent = self.0.log.session(&ask.owner.session).await?;
        let limits = self.0.budgets.limits(&parent.root).await?;
        self.may_spend(&parent.root, "Nothing was started.").await?;
        let deepest = match (instance.max_depth, limits.depth) {
            (Some(own), 0) => own,
            (Some(own), shared) => own.min(shared),
            (None, 0) => u32::MAX,
            (None, shared) => shared,
        };
        if parent.depth + 1 > deepest {
            let message = format!(
                "A child of this session would stand at depth {}, and {deepest} is the deepest. Do the work yourself. \
                 Nothing was started.",
                parent.depth + 1
            );
            return Err(Error::new(Code::Limit, message));
        }
        let model = instance.model.clone().unwrap_or_else(|| parent.model.clone());
        if !self.0.agents.has_model(&model) {
            let message =
                format!("The model {model:?} of {:?} cannot be used. Nothing was started.", instance.provider);
            return Err(Error::new(Code::Model, message));
        }
        let mode = self.0.log.mode(&parent.id).await?;
        let given = self.0.agents.get(&ask.owner.session).map(|agent| agent.tools().clone()).unwrap_or_default();
        let start = Start {
            child: self.0.env.new_session(),
            descriptor: Descriptor {
                version: Descriptor::VERSION,
                provider: instance.provider.clone(),
                model,
                persona: instance.persona.clone(),
                tools: instance.tools.within(&given),
                label: label(&ask.description),
            },
            parent: Parent { session: parent.id, root: parent.root, depth: parent.depth, cwd: parent.cwd, mode },
            prompt: ask.prompt.clone(),
            task: None,
            cancel: CancellationToken::new(),
            next: CancellationToken::new().drop_guard(),
        };
        Ok(Prepared { start, provider, limits })
    }

    fn provider(&self, name: &str) -> Result<Arc<dyn Provider>> {
        self.0.providers.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.0.providers.keys().copied().collect();
            let message = format!("This version has no subagent provider {name:?}; it has {}.", known.join(", "));
            Error::new(Code::NotResumable, message)
        })
    }

    /// Refuses what would ask a model in a tree that has used up its budget.
    async fn may_spend(&self, root: &SessionId, kept: &str) -> Result<()> {
        match self.0.budgets.spent(root).await?.iter().find(|spent| spent.is_over()) {
            Some(over) => {
                Err(Error::new(Code::Limit, format!("The budget of this tree is used up: {}. {kept}", over.words())))
            }
            None => Ok(()),
        }
    }

    /// The descriptor in the child's own log. Another version and a malformed one are refused, not guessed.
    async fn descriptor(&self, child: &SessionId) -> Result<Descriptor> {
        let refuse = |why: &str| {
            Error::new(
                Code::NotResumable,
                format!("This child cannot be resumed: {why}. Its history can be read. Nothing was sent."),
            )
        };
        let events = self.0.log.events(child, 0, 64).await?;
        for recorded in events {
            match recorded.event {
                Event::Described(descriptor) if descriptor.version == Descriptor::VERSION => return Ok(descriptor),
                Event::Described(_) => return Err(refuse("another version of Coppice wrote how to rebuild it")),
                Event::Unknown { kind, .. } if kind == "described" => {
                    return Err(refuse("what says how to rebuild it cannot be read"));
                }
                _ => {}
            }
        }
        Err(refuse("nothing says how to rebuild it"))
    }

    /// A place for a new child, beside those that the tree has had.
    async fn seat(&self, root: &SessionId, child: &SessionId, limits: &Limits) -> Result<Seat> {
        let (seat, mut had) = {
            let mut active = lock(&self.0.active);
            admit(&active, root, limits)?;
            let association = Association { root: root.clone(), task: None, phase: Phase::Starting };
            active.insert(child.clone(), association);
            let tree = active.iter().filter(|(_, other)| other.is_alive_in(root)).map(|(child, _)| child.clone());
            (Seat { control: self.clone(), child: child.clone() }, tree.collect::<BTreeSet<_>>())
        };
        let limit = limits.children as usize;
        if limit > 0 {
            // Some that have their place are not in the log yet. Who gave it back before this one took its own is there.
            had.extend(self.0.log.children(root).await?);
            if had.len() > limit {
                let children = had.len() - 1;
                let message = format!(
                    "This tree has had as many children as it may: {children}. Go on with those that are there, or do \
                     the work yourself. Nothing was started."
                );
                return Err(Error::new(Code::Limit, message));
            }
        }
        Ok(seat)
    }
}

/// A start that has passed everything that can be looked at beforehand.
struct Prepared {
    start: Start,
    provider: Arc<dyn Provider>,
    limits: Limits,
}

enum Way {
    Steer(Arc<dyn Run>, TaskId),
    Wake(Seat),
}

/// The association of a child with one activation; dropping it removes it.
struct Seat {
    control: Control,
    child: SessionId,
}

impl Seat {
    fn phase(&self, phase: Phase) {
        if let Some(association) = lock(&self.control.0.active).get_mut(&self.child) {
            association.phase = phase;
        }
    }

    fn task(&self, task: &TaskId) {
        if let Some(association) = lock(&self.control.0.active).get_mut(&self.child) {
            association.task = Some(task.clone());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.control.0.active).remove(&self.child);
    }
}

/// One who wants a session live, and no activation of it meanwhile.
struct Claim {
    control: Control,
    session: SessionId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut active = lock(&self.control.0.active);
        if let Some(Association { phase: Phase::Hosting(claims), .. }) = active.get_mut(&self.session) {
            *claims -= 1;
            if *claims == 0 {
                active.remove(&self.session);
            }
        }
    }
}

/// Whether the last that a child did was ended by the person.
pub async fn stopped_by_person(log: &Log, child: &SessionView) -> Result<bool> {
    match &child.task {
        Some(task) => {
            let task = log.task(task).await?;
            Ok(task.status == TaskStatus::Killed && task.killed_by == Some(Party::Person))
        }
        // A child that its parent waited for has no task: its turn tells.
        None => Ok(child.state == SessionState::Killed && child.detail == stopped_by(Party::Person)),
    }
}

/// Whether the tree may have one more live child.
fn admit(active: &HashMap<SessionId, Association>, root: &SessionId, limits: &Limits) -> Result<()> {
    let limit = limits.live_children as usize;
    let live = active.values().filter(|association| association.is_alive_in(root)).count();
    if limit > 0 && live >= limit {
        let message = format!(
            "This tree has as many live children as it may: {live}. Wait until one has ended, then try again. \
             Nothing was started."
        );
        return Err(Error::new(Code::Limit, message));
    }
    Ok(())
}

fn spec(owner: &Owner, label_text: &str, child: &SessionId, call: Option<CallId>, limits: &Limits) -> Spec {
    Spec {
        owner: owner.clone(),
        kind: "subagent",
        label: label(label_text),
        child: Some(child.clone()),
        call,
        numbered: CancellationToken::new(),
        // A child, the deepest below it, and the commands of that one.
        levels: limits.depth.clamp(1, 8) + 1,
        limit: None,
    }
}

/// Children stand in the log in the order in which they were asked for: waits until the one before is on its way there.
async fn wait_in_line(before: Option<CancellationToken>, cancel: &CancellationToken) {
    let Some(before) = before else { return };
    let turn = cancel.run_until_cancelled(before.cancelled());
    if tokio::time::timeout(LINE, turn).await.is_err() {
        tracing::warn!("a child does not come to the log in time; the one after it begins without it");
    }
}

/// What an activation's turn means for its task.
fn end_of(done: Done) -> End {
    let (status, word) = match done.end {
        TurnEnd::Completed => (TaskStatus::Completed, None),
        TurnEnd::Stopped => (TaskStatus::Killed, None),
        TurnEnd::Interrupted => (TaskStatus::Interrupted, None),
        TurnEnd::Failed | TurnEnd::MaxTokens | TurnEnd::Refusal | TurnEnd::Limit => (TaskStatus::Failed, done.detail),
    };
    let detail = word.map(|word| cut(&word, MAX_DIAGNOSTIC).to_owned());
    End { status, detail, output: Some(done.text) }
}

fn label(text: &str) -> String {
    plain(text, 120)
}

fn not_delivered(why: &str) -> Error {
    Error::new(Code::NotDelivered, format!("Not sent: {why}."))
}

/// A message or prompt that is larger than what is taken.
pub fn too_large(bytes: usize) -> Error {
    let message = format!(
        "That is {:.1} MB; a message may have {} MB. Put it into a file in the folder and name the file. Nothing was sent.",
        bytes as f64 / 1e6,
        MAX_MESSAGE / 1024 / 1024
    );
    Error::new(Code::TooLarge, message)
}
