//! The composition root: builds the parts, wires them, and offers what a window or a terminal needs.

use crate::agent::Agents;
use crate::asks::Asks;
use crate::budget::{Budgets, Spent};
use crate::config::bounds::{MAX_MESSAGE, MAX_WAIT};
use crate::config::{Config, Limits, Protocol};
use crate::control::{Control, too_large};
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Mode, Party, Receipt, Recorded, Route, TreeLimits};
use crate::files::before::Before;
use crate::id::{SessionId, TaskId};
use crate::keys::Keys;
use crate::llm::Model;
use crate::log::{Entry, Log};
use crate::output::Slice;
use crate::process::{Ended, Processes};
use crate::scope::Scope;
use crate::subagent::Message;
use crate::task::{Caller, Cause, Tasks, lock};
use crate::tool::files::FileMemory;
use crate::view::{Row, Sent, SessionView, TaskView, Tokens};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use ts_rs::TS;

mod asking;
mod follow;
mod lock;
mod models;
mod once;
mod open;
mod secrets;
mod sent;
mod shown;
mod stop;
mod undo;
mod upkeep;

use follow::Deleted;
pub use follow::{FRAME, Follow};
use lock::FolderLock;
use stop::below;
pub use undo::{Undo, UndoHow, Undoing, UndoneFile};
pub use upkeep::Deletion;

/// The runtime of one data folder. Clones share it.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    data: PathBuf,
    config: Config,
    env: Env,
    log: Log,
    asks: Asks,
    budgets: Budgets,
    processes: Processes,
    tasks: Tasks,
    agents: Agents,
    control: Control,
    memory: FileMemory,
    before: Before,
    models: BTreeMap<String, Result<Arc<dyn Model>>>,
    scope: Scope,
    /// Fires when the store is closed: followers end.
    closed: CancellationToken,
    pulse: watch::Sender<u64>,
    leftovers: Option<String>,
    /// The keys of model servers.
    secrets: Keys,
    /// One lock for each command key in flight, so that the same key twice does it once.
    keys: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// What the stops that are under way have claimed to end.
    ending: Mutex<stop::Ending>,
    deleted: Mutex<Deleted>,
    /// The answers of the last deletions, by key, with the names that are not kept on disk.
    told: Mutex<HashMap<String, Deletion>>,
    closing: AtomicBool,
    lock: Mutex<Option<FolderLock>>,
}

/// What a new session starts with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The folder it works in.
    pub cwd: PathBuf,
    /// A model of the configuration; the default without one.
    pub model: Option<String>,
    /// What it may do without asking.
    pub mode: Mode,
    /// Its name for people; made from the first prompt without one.
    pub title: Option<String>,
    /// Limits of its tree, in place of those of the configuration.
    pub limits: TreeLimits,
}

/// What a stop is aimed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The running turn of one session; what it started lives on.
    Turn(SessionId),
    /// A session's turn with every task and child it owns, depth first.
    Branch(SessionId),
    /// One task.
    Task(TaskId),
    /// Every live branch.
    Everything,
}

/// Rows of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Page {
    /// The rows, oldest first.
    pub rows: Vec<Row>,
    /// The `n` of the first event that gives rows in the session: nothing comes before it.
    pub first: i64,
    /// The `n` of the last event of the session.
    pub last: i64,
}

/// A model of the configuration, and whether it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ModelView {
    /// Its name in the configuration.
    pub name: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// The name that its server knows it by.
    pub model: Option<String>,
    /// Where it is.
    pub base_url: Option<String>,
    /// The size of its context in tokens, where it is known.
    pub context: Option<u64>,
    /// Whether sessions that name no model use it.
    pub default: bool,
    /// Why it cannot be used now; none when it works.
    pub problem: Option<String>,
}

impl Engine {
    /// What an earlier process that crashed left, ended or set aside, in one line for people; none when nothing was left.
    pub fn leftovers(&self) -> Option<String> {
        self.0.leftovers.clone()
    }

    /// The configuration it runs with.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The limits of a tree that has none of its own.
    pub fn limits(&self) -> &Limits {
        &self.0.config.limits
    }

    /// The limits in force for the tree of a session, and how far those are used that can be used up.
    pub async fn tree_limits(&self, session: &SessionId) -> Result<(Limits, Vec<Spent>)> {
        let root = self.0.log.session(session).await?.root;
        Ok((self.0.budgets.limits(&root).await?, self.0.budgets.spent(&root).await?))
    }

    /// Gives the tree of a root limits of its own; what they do not name stays as it was. They hold from the next
    /// request to a model on, and for good.
    pub async fn set_limits(&self, root: &SessionId, limits: TreeLimits, key: &str) -> Result<()> {
        self.once(key, format!("limit {root} {limits:?}"), async {
            let record = self.0.log.session(root).await?;
            if record.parent.is_some() {
                let message = format!("Limits belong to a whole tree: set those of its root {}.", record.root);
                return Err(Error::new(Code::BadRequest, message));
            }
            let entry = Entry {
                session: root.clone(),
                key: Some(key.to_owned()),
                events: vec![Event::Limited { limits: limits.clone() }],
            };
            self.0.log.write(vec![entry]).await?;
            self.0.budgets.set(root, &limits).await
        })
        .await
    }

    /// `gone` when the store was seen not to be at its path any more: what ran is ended then.
    pub fn check_held(&self) -> Result<()> {
        self.0.log.check_held()
    }

    /// Whether a process is the work of a session that runs here, as [`Processes::owns`] tells it.
    pub async fn owns(&self, pid: u32) -> Option<bool> {
        self.0.processes.owns(pid).await
    }

    /// Why nothing can be kept now, in words for people; none while all is well.
    pub fn trouble(&self) -> Option<String> {
        self.0.log.trouble().borrow().clone()
    }

    /// The folder that holds the store.
    pub fn data(&self) -> &Path {
        &self.0.data
    }

    /// Opens a session. `gone` when the folder is not there or cannot be read.
    pub async fn open_session(&self, opening: Opening, key: &str) -> Result<SessionId> {
        let of = format!("open {}", opening.cwd.display());
        self.once(key, of, async {
            let cwd = folder(&opening.cwd).await?;
            let model = opening.model.clone().unwrap_or_else(|| self.0.config.default_model.clone());
            match self.0.models.get(&model) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Error::new(error.code(), error.message())),
                None => {
                    let known: Vec<&str> = self.0.models.keys().map(String::as_str).collect();
                    let message =
                        format!("There is no model {model:?} in the configuration. There are: {}.", known.join(", "));
                    return Err(Error::new(Code::BadRequest, message));
                }
            }
            let session = self.0.env.new_session();
            let opened = Event::SessionOpened {
                parent: None,
                root: session.clone(),
                depth: 0,
                title: opening.title.clone().unwrap_or_default(),
                label: None,
                provider: None,
                model,
                mode: opening.mode,
                cwd: cwd.to_string_lossy().into_owned(),
            };
            let mut events = vec![opened];
            if opening.limits != TreeLimits::default() {
                events.push(Event::Limited { limits: opening.limits.clone() });
            }
            let entry = Entry { session, key: Some(key.to_owned()), events };
            let recorded = self.0.log.write(vec![entry]).await?;
            // The key may have opened one before, whose answer could not be kept.
            let opened = recorded.into_iter().next().map(|recorded| recorded.session);
            opened.ok_or_else(|| Error::new(Code::Internal, "The session was not recorded."))
        })
        .await
    }

    /// Gives a root a prompt: durable when this answers, as event `n` of the session.
    pub async fn prompt(&self, session: &SessionId, text: String, key: &str) -> Result<i64> {
        let of = format!("prompt {session} {}", fingerprint(&text));
        self.once(key, of, async {
            if text.len() > MAX_MESSAGE {
                return Err(too_large(text.len()));
            }
            if text.trim().is_empty() {
                return Err(Error::new(Code::BadRequest, "The prompt is empty. Nothing was sent."));
            }
            let record = self.0.log.session(session).await?;
            if record.parent.is_some() {
                return Err(Error::new(Code::BadRequest, "This session is a child: use send. Nothing was sent."));
            }
            folder(Path::new(&record.cwd)).await?;
            let agent = self.0.agents.ensure(session).await?;
            agent.post(Party::Person, text.clone(), Some(key.to_owned())).await
        })
        .await
    }

    /// Sends a person's message to a child: joins its running turn, or resumes it. With `expect` it takes that way or
    /// is not delivered, so that what a person was told beforehand is what happens.
    pub async fn send(&self, child: &SessionId, text: String, expect: Option<Route>, key: &str) -> Result<Sent> {
        let of = format!("send {child} {}", fingerprint(&text));
        self.once(key, of, async {
            if let Some(sent) = self.sent_before(child, &text, key).await? {
                return Ok(sent);
            }
            let record = self.0.log.session(child).await?;
            let Some(parent) = record.parent else {
                return Err(Error::new(Code::BadRequest, "This session is a root: use prompt. Nothing was sent."));
            };
            folder(Path::new(&record.cwd)).await?;
            let parent = self.0.control.host(&parent).await?;
            let message = Message { from: Party::Person, text: text.clone(), key: Some(key.to_owned()), expect };
            self.0.control.send(&parent.owner, child, message).await
        })
        .await
    }

    /// Stops, with proof. With `preview` nothing happens and the receipt names what would end.
    pub async fn stop(&self, target: Target, reason: Option<String>, preview: bool, key: &str) -> Result<Receipt> {
        if preview {
            return self.preview(&target).await;
        }
        self.once(key, format!("stop {target:?}"), self.carry_out(&target, reason)).await
    }

    /// Sessions and tasks of one tree, or of all.
    pub async fn tree(&self, root: Option<&SessionId>) -> Result<(Vec<SessionView>, Vec<TaskView>)> {
        if let Some(root) = root {
            self.0.log.session(root).await?;
        }
        let sessions = self.0.log.sessions(root).await?;
        let within: BTreeSet<&SessionId> = sessions.iter().map(|session| &session.id).collect();
        let mut tasks = self.0.log.tasks(None).await?;
        tasks.retain(|task| within.contains(&task.owner));
        Ok((self.0.completed(sessions, &tasks), tasks))
    }

    /// One session.
    pub async fn session(&self, id: &SessionId) -> Result<SessionView> {
        let root = self.0.log.session(id).await?.root;
        let (sessions, _) = self.tree(Some(&root)).await?;
        let unknown = || Error::new(Code::UnknownSession, format!("No session {id} is in the store."));
        sessions.into_iter().find(|session| session.id == *id).ok_or_else(unknown)
    }

    /// Tasks of one owner, or of all.
    pub async fn tasks(&self, owner: Option<&SessionId>) -> Result<Vec<TaskView>> {
        if let Some(owner) = owner {
            self.0.log.session(owner).await?;
        }
        self.0.log.tasks(owner).await
    }

    /// A part of a task's output, from a byte offset.
    pub async fn output(&self, task: &TaskId, offset: u64, limit: usize) -> Result<Slice> {
        let view = self.0.log.task(task).await?;
        let limit = limit.clamp(1, 1024 * 1024);
        if let Some(output) = self.0.tasks.output_log(task)? {
            return Scope::blocking(move || output.read(offset, limit)).await;
        }
        let text = self.0.log.task_output(task).await?.unwrap_or_default();
        let from = text.floor_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX));
        let part = crate::text::cut(&text[from..], limit.max(4));
        Ok(Slice {
            next: (from + part.len()) as u64,
            size: text.len() as u64,
            done: view.status.is_terminal(),
            dropped: 0,
            text: part.to_owned(),
        })
    }

    /// Waits until the task has ended, or the time is over.
    pub async fn wait_task(&self, task: &TaskId, timeout: Duration) -> Result<TaskView> {
        self.0.tasks.wait(&Caller::Person, task, timeout).await
    }

    /// Waits until the session and everything below it is at rest, or the time is over.
    pub async fn wait_session(&self, session: &SessionId, timeout: Duration) -> Result<SessionView> {
        let mut log = self.0.log.watch();
        let mut pulse = self.0.pulse.subscribe();
        let rest = async {
            loop {
                log.mark_unchanged();
                pulse.mark_unchanged();
                if self.at_rest(session).await? {
                    return Ok::<(), Error>(());
                }
                tokio::select! {
                    moved = log.changed() => if moved.is_err() { return Ok(()) },
                    // Whether a notice will wake it is no event of the log.
                    _ = pulse.changed() => tokio::time::sleep(FRAME).await,
                }
            }
        };
        if let Ok(rested) = tokio::time::timeout(timeout.min(MAX_WAIT), rest).await {
            rested?;
        }
        self.session(session).await
    }

    async fn at_rest(&self, session: &SessionId) -> Result<bool> {
        // Of one moment: a turn that begins and reads its notice in between would be missed.
        let (sessions, tasks, owed) = self.0.log.standing(session).await?;
        let branch = below(&sessions, session);
        let busy = sessions.iter().any(|session| branch.contains(&session.id) && session.state.is_live())
            || tasks.iter().any(|task| branch.contains(&task.owner));
        if busy {
            return Ok(false);
        }
        let is_root = sessions.iter().any(|root| root.id == *session && root.depth == 0);
        let agent = self.0.agents.get(session).filter(|_| is_root);
        Ok(!agent.is_some_and(|agent| agent.is_busy() || agent.would_wake(&owed)))
    }

    /// Rows of a transcript: the newest `limit` before `before`, or the oldest `limit` after `after`, or the newest.
    pub async fn page(
        &self,
        session: &SessionId,
        before: Option<i64>,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Page> {
        let record = self.0.log.session(session).await?;
        let limit = limit.clamp(1, 1_000);
        let first = self.0.log.row_events(session, 0, i64::MAX, 1, false).await?;
        let events = self
            .0
            .log
            .row_events(session, after.unwrap_or(0), before.unwrap_or(i64::MAX), limit, after.is_none())
            .await?;
        let rows = self.0.rows(&record, &events).await?;
        Ok(Page { rows, first: first.first().map_or(0, |(event, _)| event.n), last: record.last_n })
    }

    /// The log of a session itself.
    pub async fn events(&self, session: &SessionId, after: i64, limit: usize) -> Result<Vec<Recorded>> {
        self.0.log.session(session).await?;
        self.0.log.events(session, after, limit).await
    }

    /// Events of all sessions after `seq`, oldest first: what a script prints as they are committed.
    pub async fn since(&self, seq: i64, limit: usize) -> Result<Vec<Recorded>> {
        self.0.log.since(seq, limit).await
    }

    /// Follows the tree, and the rows and live text of one session. Starts after `after`, else from now.
    pub async fn follow(&self, session: Option<SessionId>, after: Option<i64>) -> Result<Follow> {
        if let Some(session) = &session {
            self.0.log.session(session).await?;
        }
        Follow::new(self.0.clone(), session, after).await
    }

    /// Tokens of one session, and of its branch.
    pub async fn usage(&self, session: &SessionId) -> Result<(Tokens, Tokens)> {
        self.0.log.session(session).await?;
        self.0.log.usage(session).await
    }

    /// The models, each asked whether it works.
    pub async fn models(&self) -> Result<Vec<ModelView>> {
        let views = self.0.models.iter().map(|(name, model)| async move {
            let configured = self.0.config.models.get(name);
            let problem = match model {
                Ok(model) => model.check().await.err().map(|failure| failure.message),
                Err(error) => Some(error.message().to_owned()),
            };
            ModelView {
                name: name.clone(),
                protocol: configured.map_or(Protocol::Rehearsal, |model| model.protocol),
                model: configured.and_then(|model| model.model.clone()),
                base_url: configured.and_then(|model| model.base_url.clone()),
                context: model.as_ref().ok().and_then(|model| model.context()),
                default: *name == self.0.config.default_model,
                problem: problem.map(|problem| self.0.log.mask().text(&problem).0.into_owned()),
            }
        });
        Ok(join_all(views).await)
    }

    /// Stops everything within the deadline, writes everything, closes the store and frees the lock. Afterwards every
    /// command answers `shutting_down`.
    pub async fn shutdown(&self, deadline: Duration) -> Result<Receipt> {
        let began = Instant::now();
        if self.0.closing.swap(true, Ordering::AcqRel) {
            return Err(Error::new(Code::ShuttingDown, "Coppice is closing already."));
        }
        self.0.agents.close();
        self.0.asks.close();
        let plan = self.plan(&Target::Everything).await;
        let mut receipt = match &plan {
            Ok(plan) => plan.receipt.clone(),
            Err(error) => {
                tracing::error!(%error, "what runs cannot be named; it is stopped all the same");
                Receipt { what: "everything".to_owned(), ..Receipt::default() }
            }
        };
        let unsaved = async {
            match &plan {
                Ok(plan) => self.unsaved(plan, Cause::Quit).await,
                Err(_) => std::future::pending().await,
            }
        };
        // Also what finished commands have left, of sessions that are not live any more.
        let mut met = self.0.processes.living(&self.0.processes.sessions());
        let ended = tokio::select! {
            biased;
            ended = self.0.end_all() => ended,
            // The next start finds the ends that are not on record, and says that they were interrupted.
            why = unsaved => {
                receipt.unconfirmed.push(stop::unsaved("what ran", &why));
                let sessions = self.0.processes.sessions();
                self.0.processes.end_all(&sessions, self.0.config.limits.stop_grace()).await
            }
            () = tokio::time::sleep(deadline) => {
                receipt.unconfirmed.push(format!("Not everything stopped within {} s.", deadline.as_secs()));
                Ended::default()
            }
        };
        stop::add(&mut met, ended.processes.into_iter().filter(|process| !process.gone));
        let overran = self.0.scope.close(Duration::from_secs(2)).await;
        if overran > 0 {
            tracing::error!(overran, "work of the engine overran its end");
        }
        receipt.processes = self.0.processes.look(met);
        for process in receipt.processes.iter().filter(|process| !process.gone) {
            receipt.unconfirmed.push(format!("Process {} still lives.", process.pid));
        }
        self.0.log.close().await?;
        self.0.closed.cancel();
        drop(lock(&self.0.lock).take());
        receipt.ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        Ok(receipt)
    }

    /// Ends what runs as soon as the store is seen to be taken away: nothing that it does could be kept.
    fn watch_store(&self) {
        let (lost, closed) = (self.0.log.lost().clone(), self.0.scope.token().clone());
        // It must not keep alive what it watches.
        let inner = Arc::downgrade(&self.0);
        self.0.scope.spawn(async move {
            tokio::select! {
                () = closed.cancelled() => return,
                () = lost.cancelled() => {}
            }
            if let Some(inner) = inner.upgrade() {
                inner.agents.close();
                inner.asks.close();
                let left = inner.end_all().await.left();
                if left > 0 {
                    tracing::error!(left, "processes live on without their store");
                }
            }
        });
    }
}

impl Inner {
    /// Ends every agent with its tasks, and what is left of their processes.
    async fn end_all(&self) -> Ended {
        self.tasks.close(Cause::Quit);
        let agents = self.agents.all();
        join_all(agents.iter().map(|agent| self.agents.dispose(agent, Cause::Quit))).await;
        self.processes.end_all(&self.processes.sessions(), self.config.limits.stop_grace()).await
    }
}

/// Tells texts apart without keeping them.
fn fingerprint(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The folder as an absolute, existing path.
async fn folder(path: &Path) -> Result<PathBuf> {
    let path = path.to_owned();
    Scope::blocking(move || {
        let gone = |why: String| {
            let message =
                format!("The folder {} {why}. Choose another, or put it back. Nothing was done.", path.display());
            Error::new(Code::Gone, message)
        };
        if !path.is_absolute() {
            let message = format!("The folder {} is not an absolute path. Nothing was done.", path.display());
            return Err(Error::new(Code::BadRequest, message));
        }
        match std::fs::read_dir(&path) {
            Ok(_) => Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(gone("is not there".to_owned())),
            Err(error) => Err(gone(format!("cannot be read ({error})")).because(error)),
        }
    })
    .await
}
