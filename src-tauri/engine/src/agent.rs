//! Agents: the one live, process-local actor that drives a session. Everybody else holds a handle.

use crate::budget::Budgets;
use crate::config::Config;
use crate::env::Env;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Mode, Party, Recorded, ToolFilter, TurnEnd};
use crate::id::{Owner, SessionId, TaskId};
use crate::live::Live;
use crate::llm::Model;
use crate::log::{Log, OwedNotice};
use crate::prompt::Given;
use crate::scope::Scope;
use crate::task::{Cause, Mailbox, Tasks, lock};
use crate::tool::Tool;
use crate::transcript::Transcript;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

mod driver;
mod gate;
mod step;

pub use gate::{Fence, Gate};

/// How long an agent may take to end after its turn was stopped, on top of the tools' own bounds.
const DISPOSE_MARGIN: Duration = Duration::from_secs(15);

/// All live agents of this engine. Clones share them.
#[derive(Clone)]
pub struct Agents(Arc<Shared>);

struct Shared {
    env: Env,
    log: Log,
    config: Config,
    budgets: Budgets,
    gate: Gate,
    models: BTreeMap<String, Arc<dyn Model>>,
    tasks: Tasks,
    tools: OnceLock<Vec<Arc<Offer>>>,
    scope: Scope,
    pulse: watch::Sender<u64>,
    /// How long an agent without work stays after it was last used.
    rest: Duration,
    live: Mutex<HashMap<SessionId, Arc<Agent>>>,
    /// Sessions that are being deleted: none of them becomes live. Looked at under the lock of `live`.
    barred: Mutex<HashSet<SessionId>>,
    closing: AtomicBool,
}

/// Keeps sessions that are being deleted from becoming live, until it is dropped.
#[must_use = "they may become live when this is dropped"]
pub struct Bar {
    agents: Agents,
    sessions: HashSet<SessionId>,
}

/// A tool under its name.
struct Offer {
    name: String,
    tool: Arc<dyn Tool>,
}

/// The names of these tools.
fn given(tools: &[Arc<Offer>]) -> Given {
    Given::new(tools.iter().map(|offer| offer.name.clone()))
}

/// The handle of a live agent.
pub struct Agent {
    /// Its exact identity.
    pub owner: Owner,
    /// What it says at this moment.
    pub live: Live,
    mail: mpsc::UnboundedSender<Mail>,
    /// Cancelled to stop the running turn; renewed for each turn.
    stop: Mutex<Stopper>,
    steerable: AtomicBool,
    /// Whether it is in a turn, or between one and the next that follows by itself.
    busy: AtomicBool,
    /// Whether it waits for the store to take what it writes.
    storing: AtomicBool,
    /// Whether a new notice starts a turn by itself.
    would_wake: AtomicBool,
    /// Notices that were owed before this event of its log do not wake it: its turn was stopped or failed after them.
    parked: AtomicI64,
    /// Set by a stop of its branch: no notice starts a turn until a person speaks.
    held: AtomicBool,
    /// What it is live for.
    drive: Drive,
    /// Which tools it is given.
    tools: ToolFilter,
    scope: Scope,
    /// When somebody last asked for it.
    used: Mutex<Instant>,
}

#[derive(Default)]
struct Stopper {
    turn: Option<Running>,
    by: Option<Party>,
}

/// A turn that runs.
struct Running {
    /// Cancelled to stop it.
    stop: CancellationToken,
    /// Fires when it is over.
    over: CancellationToken,
}

enum Mail {
    /// A notice is owed.
    Notice,
    /// A message wants in.
    Message(Letter),
}

/// A message on its way into a session.
pub struct Letter {
    /// Who wrote it.
    pub from: Party,
    /// The words.
    pub text: String,
    /// Client-minted; the same key twice is accepted once.
    pub key: Option<String>,
    reply: oneshot::Sender<Result<i64>>,
}

/// How a session is driven.
#[derive(Clone, Debug, Default)]
pub struct Role {
    /// Instructions of its own.
    pub persona: Option<String>,
    /// Which tools it is given.
    pub tools: ToolFilter,
    /// What it is live for.
    pub drive: Drive,
}

/// What an agent is live for.
#[derive(Clone, Debug, Default)]
pub enum Drive {
    /// A root: as many turns as messages and notices bring.
    #[default]
    Root,
    /// A child: the one turn of an activation.
    Activation(Activation),
    /// A child that has ended, made live only to own a task of its own child: it takes no turns.
    Host,
}

/// One activation of a child: it reads what waits, takes one turn, and is done.
#[derive(Clone, Debug)]
pub struct Activation {
    /// The task; none for a child that its parent waits for.
    pub task: Option<TaskId>,
    /// Stops the turn, before and after it has begun.
    pub cancel: CancellationToken,
}

/// How an activation's turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// How.
    pub end: TurnEnd,
    /// Why, for people.
    pub detail: Option<String>,
    /// The last words of the model, complete or not.
    pub text: String,
}

impl Agents {
    /// Agents of the store `log`, none of them live. `pulse` beats whenever live text changes. One that has had no work
    /// and no use for `rest` is put away.
    #[expect(clippy::too_many_arguments, reason = "built once, of all that it needs")]
    pub fn new(
        env: Env,
        log: Log,
        config: Config,
        budgets: Budgets,
        gate: Gate,
        models: BTreeMap<String, Arc<dyn Model>>,
        tasks: Tasks,
        scope: Scope,
        pulse: watch::Sender<u64>,
        rest: Duration,
    ) -> Self {
        let live = Mutex::default();
        Self(Arc::new(Shared {
            env,
            log,
            config,
            budgets,
            gate,
            models,
            tasks,
            tools: OnceLock::new(),
            scope,
            pulse,
            rest,
            live,
            barred: Mutex::default(),
            closing: AtomicBool::new(false),
        }))
    }

    /// Gives the agents their tools. They come after the agents, because some of them start agents.
    pub fn equip(&self, tools: Vec<Arc<dyn Tool>>) {
        let offers =
            tools.into_iter().map(|tool| Arc::new(Offer { name: tool.spec(&Given::default()).name, tool })).collect();
        if self.0.tools.set(offers).is_err() {
            tracing::error!("the tools were given twice; the first stand");
        }
    }

    /// The live agent of a session.
    pub fn get(&self, session: &SessionId) -> Option<Arc<Agent>> {
        // An agent whose driver is gone takes nothing any more; the next one takes its place.
        lock(&self.0.live).get(session).filter(|agent| !agent.mail.is_closed()).cloned()
    }

    /// The live agent of a session, made live and idle when it is not: a root for whatever comes, a child only to own
    /// the tasks of its own children.
    pub async fn ensure(&self, session: &SessionId) -> Result<Arc<Agent>> {
        {
            // In one step with the look, so that it is not put away in between.
            let live = lock(&self.0.live);
            self.0.check_barred(session)?;
            if let Some(agent) = live.get(session).filter(|agent| !agent.mail.is_closed()) {
                *lock(&agent.used) = Instant::now();
                return Ok(agent.clone());
            }
        }
        let mut prepared = self.load(session, Role::default()).await?;
        if prepared.place.depth > 0 {
            prepared.role.drive = Drive::Host;
        }
        match self.install(prepared, None) {
            Ok((agent, _)) => Ok(agent),
            // Somebody else made it live in the same moment: theirs stands.
            Err(error) => self.get(session).ok_or(error),
        }
    }

    /// Makes a child live for one activation, with the message that wakes it, if one does: it is accepted in the same
    /// commit that begins the turn. `conflict` when the child is live already. The receiver hears how its turn ended;
    /// dispose it then.
    pub async fn activate(
        &self,
        session: &SessionId,
        role: Role,
        first: Option<Letter>,
    ) -> Result<(Arc<Agent>, oneshot::Receiver<Done>)> {
        let prepared = self.load(session, role).await?;
        self.install(prepared, first)
    }

    /// Whether sessions can use the model of this name.
    pub fn has_model(&self, name: &str) -> bool {
        self.0.models.contains_key(name)
    }

    /// From here on no session becomes live.
    pub fn close(&self) {
        // Who is being made live comes in before, or not at all.
        let live = lock(&self.0.live);
        self.0.closing.store(true, Ordering::Release);
        drop(live);
    }

    /// Bars a session from becoming live, and from taking messages of a person or a parent. `busy` when it is barred
    /// already.
    pub fn bar(&self, session: &SessionId) -> Result<Bar> {
        let mut bar = Bar { agents: self.clone(), sessions: HashSet::new() };
        bar.add([session])?;
        Ok(bar)
    }

    /// `busy` when a session is being deleted.
    pub fn check_barred(&self, session: &SessionId) -> Result<()> {
        self.0.check_barred(session)
    }

    async fn load(&self, session: &SessionId, role: Role) -> Result<driver::Prepared> {
        let events = self.0.log.events(session, 0, usize::MAX).await?;
        let Some(Event::SessionOpened { depth, model, mode, cwd, root, label, title, .. }) =
            events.first().map(|first| &first.event)
        else {
            return Err(Error::new(Code::UnknownSession, format!("No session {session} is in the store.")));
        };
        let chosen = self.0.models.get(model).cloned().ok_or_else(|| {
            let message = format!(
                "The model {model:?} of this session is not in the configuration any more. Add [models.{model}] to \
                 config.toml and start again; nothing was lost."
            );
            Error::new(Code::NotResumable, message)
        })?;
        let place = Place {
            session: session.clone(),
            root: root.clone(),
            depth: *depth,
            label: label.clone().unwrap_or_else(|| title.clone()),
            cwd: PathBuf::from(cwd),
            mode: *mode,
        };
        let transcript = self.history(&events).await?;
        Ok(driver::Prepared { place, model: chosen, transcript, role })
    }

    /// Folds a log, with the history that it begins with.
    async fn history(&self, events: &[Recorded]) -> Result<Transcript> {
        // Each seed stands one level higher in the tree, so this ends.
        let mut logs = Vec::new();
        let mut next = seed_of(events);
        while let Some((from, upto)) = next {
            let mut log = self.0.log.events(&from, 0, usize::MAX).await?;
            log.retain(|recorded| recorded.n <= upto);
            next = seed_of(&log);
            logs.push(log);
        }
        let seed = logs.iter().rev().fold(None, |seed, log| Some(Transcript::after(seed, log)));
        Ok(Transcript::after(seed, events))
    }

    fn install(
        &self,
        prepared: driver::Prepared,
        first: Option<Letter>,
    ) -> Result<(Arc<Agent>, oneshot::Receiver<Done>)> {
        let session = prepared.place.session.clone();
        let mut live = lock(&self.0.live);
        if live.get(&session).is_some_and(|agent| !agent.mail.is_closed()) {
            let message = format!("Session {session} is at work already. Nothing was delivered.");
            return Err(Error::new(Code::Conflict, message));
        }
        self.0.check_barred(&session)?;
        if self.0.closing.load(Ordering::Acquire) {
            return Err(Error::new(Code::ShuttingDown, "Coppice is closing. Nothing was started."));
        }
        let (mail, inbox) = mpsc::unbounded_channel();
        let agent = Arc::new(Agent {
            owner: Owner { session: session.clone(), agent: self.0.env.new_agent() },
            live: Live::new(self.0.env.clone(), self.0.pulse.clone(), self.0.log.mask().clone()),
            mail: mail.clone(),
            stop: Mutex::default(),
            steerable: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            storing: AtomicBool::new(false),
            would_wake: AtomicBool::new(self.0.config.notices.wake),
            parked: AtomicI64::new(0),
            held: AtomicBool::new(false),
            drive: prepared.role.drive.clone(),
            tools: prepared.role.tools.clone(),
            scope: self.0.scope.child(),
            used: Mutex::new(Instant::now()),
        });
        self.0.tasks.attach(&agent.owner, agent.scope.clone(), Arc::new(Slot(mail)));
        live.insert(session, agent.clone());
        drop(live);
        let (done, hear) = oneshot::channel();
        let driver = driver::Driver::new(self.0.clone(), agent.clone(), prepared, inbox, first, done);
        agent.scope.spawn(driver.run());
        Ok((agent, hear))
    }

    /// Ends an agent: its turn, then its tasks (children first), then itself. It is live no more when this returns.
    pub async fn dispose(&self, agent: &Arc<Agent>, cause: Cause) {
        agent.stop_turn(cause.party());
        self.0.tasks.dispose(&agent.owner, cause).await;
        let bound = self.0.config.limits.stop_grace() * 2 + DISPOSE_MARGIN;
        let overran = agent.scope.close(bound).await;
        if overran > 0 {
            // Its driver may still write: the session stays taken until that is gone.
            tracing::error!(session = %agent.owner.session, overran, "an agent did not end in time");
            return;
        }
        let mut live = lock(&self.0.live);
        if live.get(&agent.owner.session).is_some_and(|current| Arc::ptr_eq(current, agent)) {
            live.remove(&agent.owner.session);
        }
    }

    /// All live agents.
    pub fn all(&self) -> Vec<Arc<Agent>> {
        lock(&self.0.live).values().cloned().collect()
    }
}

/// The history that a log begins with: whose, and up to which event.
fn seed_of(events: &[Recorded]) -> Option<(SessionId, i64)> {
    events.iter().find_map(|recorded| match &recorded.event {
        Event::Seeded { from, upto, .. } => Some((from.clone(), *upto)),
        _ => None,
    })
}

impl Bar {
    /// Bars more. `busy` when somebody else has barred one of them.
    pub fn add<'a>(&mut self, sessions: impl IntoIterator<Item = &'a SessionId>) -> Result<()> {
        // Who is being made live comes in before, and is found, or not at all.
        let _live = lock(&self.agents.0.live);
        let mut barred = lock(&self.agents.0.barred);
        for session in sessions {
            if self.sessions.contains(session) {
                continue;
            }
            if !barred.insert(session.clone()) {
                return Err(being_deleted());
            }
            self.sessions.insert(session.clone());
        }
        Ok(())
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        lock(&self.agents.0.barred).retain(|session| !self.sessions.contains(session));
    }
}

impl Shared {
    fn check_barred(&self, session: &SessionId) -> Result<()> {
        if lock(&self.barred).contains(session) { Err(being_deleted()) } else { Ok(()) }
    }

    /// Takes an agent whose driver cannot begin out of the way.
    fn drop_unborn(&self, agent: &Arc<Agent>) {
        let mut live = lock(&self.live);
        if live.get(&agent.owner.session).is_some_and(|current| Arc::ptr_eq(current, agent)) {
            live.remove(&agent.owner.session);
        }
        drop(live);
        self.tasks.detach(&agent.owner);
    }

    /// Puts an agent away that nobody has used for a while, that owns no work and has read its mail. Answers whether it
    /// did; its driver ends then.
    fn put_away(&self, agent: &Arc<Agent>, inbox: &mut mpsc::UnboundedReceiver<Mail>) -> bool {
        let mut live = lock(&self.live);
        let session = &agent.owner.session;
        if lock(&agent.used).elapsed() < self.rest || !self.tasks.detach_idle(&agent.owner, || inbox.is_empty()) {
            return false;
        }
        // A message that came this very moment is dropped with the inbox, and its sender hears that it was not sent.
        inbox.close();
        if live.get(session).is_some_and(|current| Arc::ptr_eq(current, agent)) {
            live.remove(session);
        }
        drop(live);
        agent.scope.token().cancel();
        true
    }
}

fn being_deleted() -> Error {
    Error::new(Code::Busy, "This session is being deleted. Nothing was done.")
}

/// Where and as what a session works.
#[derive(Clone, Debug)]
struct Place {
    session: SessionId,
    root: SessionId,
    depth: u32,
    label: String,
    cwd: PathBuf,
    mode: Mode,
}

struct Slot(mpsc::UnboundedSender<Mail>);

impl Mailbox for Slot {
    fn notice_owed(&self) {
        // A closed mailbox means that the agent is gone; the notice stays owed in the log.
        drop(self.0.send(Mail::Notice));
    }
}

impl Letter {
    /// A letter, and where its sender hears whether it was accepted, durably, and as which event.
    pub fn new(from: Party, text: String, key: Option<String>) -> (Self, oneshot::Receiver<Result<i64>>) {
        let (reply, answer) = oneshot::channel();
        (Self { from, text, key, reply }, answer)
    }
}

impl Agent {
    /// Hands in a message. Answers the `n` under which it was accepted, durably, or why nothing was delivered.
    pub async fn post(&self, from: Party, text: String, key: Option<String>) -> Result<i64> {
        let (letter, answer) = Letter::new(from, text, key);
        let gone = || Error::new(Code::NotDelivered, "Not sent: it ended first.");
        self.mail.send(Mail::Message(letter)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Keeps notices from starting a turn until a person speaks.
    pub fn hold(&self) {
        self.held.store(true, Ordering::Release);
        self.would_wake.store(false, Ordering::Release);
    }

    /// Which tools it is given.
    pub fn tools(&self) -> &ToolFilter {
        &self.tools
    }

    /// Whether it is live only to own the tasks of its children.
    pub fn is_host(&self) -> bool {
        matches!(self.drive, Drive::Host)
    }

    /// Stops the running turn, if one runs. Answers what fires when that turn, and not one after it, is over.
    pub fn stop_turn(&self, by: Party) -> Option<CancellationToken> {
        let mut stopper = lock(&self.stop);
        let Stopper { turn, by: first } = &mut *stopper;
        let turn = turn.as_ref()?;
        first.get_or_insert(by);
        turn.stop.cancel();
        Some(turn.over.clone())
    }

    /// Whether a turn is running.
    pub fn in_turn(&self) -> bool {
        lock(&self.stop).turn.is_some()
    }

    /// Whether it is in a turn, or between one and the next that follows by itself.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Whether it waits for the store to take what it writes, and does nothing else of its turn.
    pub fn is_storing(&self) -> bool {
        self.storing.load(Ordering::Acquire)
    }

    /// Whether a running turn takes messages.
    pub fn steerable(&self) -> bool {
        self.steerable.load(Ordering::Acquire)
    }

    /// Whether one of these notices starts a turn by itself, with no word of the person.
    pub fn would_wake(&self, owed: &[OwedNotice]) -> bool {
        let parked = self.parked.load(Ordering::Acquire);
        self.would_wake.load(Ordering::Acquire) && owed.iter().any(|notice| notice.settled > parked)
    }

    /// Says, between turns, whether a notice may start the next one.
    fn rest(&self, would_wake: bool) {
        self.would_wake.store(would_wake, Ordering::Release);
        // Whoever waits for the session to be at rest looks again.
        self.live.committed();
    }

    fn begin_turn(&self, token: CancellationToken) {
        let turn = Running { stop: token, over: CancellationToken::new() };
        *lock(&self.stop) = Stopper { turn: Some(turn), by: None };
        self.busy.store(true, Ordering::Release);
        self.steerable.store(true, Ordering::Release);
    }

    fn turn_token(&self) -> CancellationToken {
        lock(&self.stop).turn.as_ref().map(|turn| turn.stop.clone()).unwrap_or_default()
    }

    /// No message joins this turn any more.
    fn close_turn(&self) {
        self.steerable.store(false, Ordering::Release);
    }

    fn end_turn(&self) {
        let turn = lock(&self.stop).turn.take();
        // What streamed and never became an event is not shown any longer.
        self.live.committed();
        if let Some(turn) = turn {
            turn.over.cancel();
        }
    }

    fn stopped_by(&self) -> Option<Party> {
        lock(&self.stop).by
    }
}
