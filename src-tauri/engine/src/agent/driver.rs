//! The driver: owns one live session's state, takes its mail, and carries out what the turn machine says.

use super::{Activation, Agent, Done, Drive, Letter, Mail, Place, Role, Shared, given};
use crate::budget::{Spent, Working};
use crate::config::Limits;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Party, Recorded, TurnEnd};
use crate::id::TaskId;
use crate::llm::Model;
use crate::log::Entry;
use crate::text::plain;
use crate::transcript::Transcript;
use crate::turn::{Bounds, Effect, Input, Turn};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How long the store is left alone after it refused something, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A session that is ready to be driven.
pub(super) struct Prepared {
    pub(super) place: Place,
    pub(super) model: Arc<dyn Model>,
    pub(super) transcript: Transcript,
    pub(super) role: Role,
}

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) agent: Arc<Agent>,
    pub(super) place: Place,
    pub(super) model: Arc<dyn Model>,
    pub(super) transcript: Transcript,
    pub(super) role: Role,
    pub(super) inbox: mpsc::UnboundedReceiver<Mail>,
    /// The message that wakes a child.
    first: Option<Letter>,
    done: Option<oneshot::Sender<Done>>,
    /// How often in a row it was woken by a notice since a person last spoke.
    wakes: u32,
    /// The limits of its tree, as the turn found them.
    pub(super) limits: Limits,
    /// Counts the running turn's time.
    working: Option<Working>,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        agent: Arc<Agent>,
        prepared: Prepared,
        inbox: mpsc::UnboundedReceiver<Mail>,
        first: Option<Letter>,
        done: oneshot::Sender<Done>,
    ) -> Self {
        let Prepared { place, model, transcript, role } = prepared;
        let limits = shared.config.limits.clone();
        let (done, wakes, working) = (Some(done), 0, None);
        Self { shared, agent, place, model, transcript, role, inbox, first, done, wakes, limits, working }
    }

    /// Drives the session until its scope is closed.
    pub(super) async fn run(mut self) {
        let scope = self.agent.scope.token().clone();
        if let Err(error) = self.catch_up().await {
            tracing::error!(session = %self.place.session, %error, "a session cannot be read to its end");
            self.shared.drop_unborn(&self.agent);
            return;
        }
        match self.role.drive.clone() {
            Drive::Root => self.run_root(&scope).await,
            Drive::Activation(activation) => {
                let done = self.activation_turn(&activation).await;
                if let Some(hear) = self.done.take() {
                    // Nobody listens any more when the activation was disposed first.
                    drop(hear.send(done));
                }
                self.refuse_mail(&scope, "the turn ended first").await;
            }
            Drive::Host => self.refuse_mail(&scope, "it does not run now").await,
        }
    }

    /// Folds what was committed between the reading of the log and the moment in which this driver took the session.
    async fn catch_up(&mut self) -> Result<()> {
        let session = self.place.session.clone();
        let missed = self.shared.log.events(&session, self.transcript.last_n(), usize::MAX).await?;
        self.fold(&missed);
        Ok(())
    }

    async fn run_root(&mut self, scope: &CancellationToken) {
        while let Some(mail) = self.next(scope).await {
            let mut begin = match mail {
                Mail::Message(letter) => self.accept_first(letter).await,
                Mail::Notice => self.may_wake().await,
            };
            while let Some(turn) = begin {
                let (end, _) = self.drive_turn(turn, None).await;
                if end != TurnEnd::Completed {
                    self.agent.parked.store(self.transcript.last_n(), Ordering::Release);
                }
                begin = match end {
                    // A notice that came after the last step wakes it again.
                    TurnEnd::Completed => self.may_wake().await,
                    // What was accepted is read, by a turn of its own; that turn's first step reads all of it.
                    TurnEnd::Failed | TurnEnd::MaxTokens | TurnEnd::Refusal | TurnEnd::Limit
                        if self.transcript.waiting().next().is_some() && !self.used_up().await =>
                    {
                        self.begin().await
                    }
                    // After a stop or a fault it waits for the next notice or the person.
                    _ => None,
                };
            }
            self.agent.busy.store(false, Ordering::Release);
            self.agent.rest(self.budget_left());
        }
    }

    /// The next mail between turns; none when its scope is closed or it is put away. An activation is put away by who
    /// started it.
    async fn next(&mut self, scope: &CancellationToken) -> Option<Mail> {
        let stays = matches!(self.role.drive, Drive::Activation(_));
        loop {
            tokio::select! {
                biased;
                () = scope.cancelled() => return None,
                mail = self.inbox.recv() => return mail,
                () = tokio::time::sleep(self.shared.rest), if !stays => {
                    if !self.remembers().await && self.shared.put_away(&self.agent, &mut self.inbox) {
                        return None;
                    }
                }
            }
        }
    }

    /// Whether it knows what would be forgotten with it and decides what a notice may start: that the person stopped it,
    /// how often it was woken, which notices wait for the next turn.
    async fn remembers(&self) -> bool {
        if !matches!(self.role.drive, Drive::Root) {
            return false;
        }
        if self.wakes > 0 || self.agent.held.load(Ordering::Acquire) {
            return true;
        }
        match self.shared.log.owed(&self.place.session).await {
            Ok(owed) => !owed.is_empty(),
            Err(error) => {
                tracing::warn!(session = %self.place.session, %error, "owed notices cannot be read; the session stays");
                true
            }
        }
    }

    /// Says to whatever comes that it is not delivered, until the scope is closed.
    async fn refuse_mail(&mut self, scope: &CancellationToken, why: &str) {
        while let Some(mail) = self.next(scope).await {
            if let Mail::Message(letter) = mail {
                letter.refuse(Error::new(Code::NotDelivered, format!("Not sent: {why}.")));
            }
        }
    }

    /// Accepts a message that finds the session idle, together with the turn that it starts.
    async fn accept_first(&mut self, letter: Letter) -> Option<Turn> {
        // What a person decided is the person's word, too.
        if matches!(letter.from, Party::Person | Party::Runtime) {
            self.agent.held.store(false, Ordering::Release);
            self.person_spoke();
        }
        let turn = match self.new_turn().await {
            Ok(turn) => turn,
            Err(error) => {
                letter.refuse(error);
                return None;
            }
        };
        let mut events =
            vec![Event::MessageAccepted { from: letter.from, text: letter.text.clone(), task: self.task() }];
        if !self.transcript.titled() {
            events.push(Event::Renamed { title: title_of(&letter.text) });
        }
        events.push(turn.started());
        let entry = Entry { session: self.place.session.clone(), key: letter.key.clone(), events };
        // A stop that comes from here on finds a turn to stop.
        self.agent.begin_turn(self.stop_token());
        match self.commit(entry).await {
            Ok(Committed::Fresh(n)) => {
                letter.accept(n);
                return Some(turn);
            }
            Ok(Committed::Before(n)) => letter.accept(n),
            Err(error) => letter.refuse(error),
        }
        self.agent.end_turn();
        None
    }

    /// A turn that reads what waits.
    async fn begin(&mut self) -> Option<Turn> {
        self.agent.begin_turn(self.stop_token());
        let begun = async {
            let turn = self.new_turn().await?;
            self.record(vec![turn.started()]).await?;
            Ok::<_, Error>(turn)
        };
        match begun.await {
            Ok(turn) => Some(turn),
            Err(error) => {
                tracing::error!(session = %self.place.session, %error, "a turn cannot begin; what waits stays owed");
                self.agent.end_turn();
                None
            }
        }
    }

    /// A turn that a notice starts, if one is owed and the owner may be woken.
    async fn may_wake(&mut self) -> Option<Turn> {
        self.agent.rest(self.budget_left());
        if self.shared.closing.load(Ordering::Acquire) {
            // What a quit ends is told when the session is next at work.
            return None;
        }
        match self.shared.log.owed(&self.place.session).await {
            Ok(owed) if !self.agent.would_wake(&owed) => None,
            Ok(_) => {
                self.wakes += 1;
                self.begin().await
            }
            Err(error) => {
                tracing::error!(session = %self.place.session, %error, "owed notices cannot be read; they stay owed");
                None
            }
        }
    }

    /// Whether a notice may wake it once more before the person speaks.
    fn budget_left(&self) -> bool {
        let budget = self.shared.config.limits.wake_budget;
        let held = self.agent.held.load(Ordering::Acquire);
        self.shared.config.notices.wake && !held && (budget == 0 || self.wakes < budget)
    }

    async fn new_turn(&mut self) -> Result<Turn> {
        self.limits = self.shared.budgets.limits(&self.place.root).await?;
        let Limits { step_limit: steps, same_calls, failed_steps, .. } = self.limits;
        let bounds = Bounds { steps, same_calls, failed_steps };
        let given = given(&self.tools());
        Ok(Turn::new(self.transcript.turns() + 1, self.task(), self.transcript.steps(), bounds, given))
    }

    /// Whether its tree may spend nothing any more. What cannot be read counts as used up: the person may ask again.
    async fn used_up(&self) -> bool {
        match self.shared.budgets.spent(&self.place.root).await {
            Ok(spent) => spent.iter().any(Spent::is_over),
            Err(error) => {
                tracing::error!(session = %self.place.session, %error, "what was spent cannot be read");
                true
            }
        }
    }

    /// From here on notices may wake it again. Said before the turn, so that nobody takes the moment after it for rest.
    fn person_spoke(&mut self) {
        self.wakes = 0;
        self.agent.would_wake.store(self.budget_left(), Ordering::Release);
    }

    fn stop_token(&self) -> CancellationToken {
        match &self.role.drive {
            Drive::Activation(activation) => activation.cancel.child_token(),
            Drive::Root | Drive::Host => self.agent.scope.token().child_token(),
        }
    }

    /// The activation that it works for.
    fn task(&self) -> Option<TaskId> {
        match &self.role.drive {
            Drive::Activation(activation) => activation.task.clone(),
            Drive::Root | Drive::Host => None,
        }
    }

    /// The one turn of an activation. Its first message was accepted before, or comes with it.
    async fn activation_turn(&mut self, activation: &Activation) -> Done {
        tracing::debug!(session = %self.place.session, task = ?activation.task, "an activation begins");
        let before = self.transcript.last_n();
        let turn = match self.first.take() {
            Some(letter) => self.accept_first(letter).await,
            None => self.begin().await,
        };
        let Some(turn) = turn else {
            let detail = Some("its turn could not begin".to_owned());
            return Done { end: TurnEnd::Failed, detail, text: String::new() };
        };
        let (end, detail) = self.drive_turn(turn, Some(activation)).await;
        Done { end, detail, text: self.transcript.final_text(before) }
    }

    /// Drives a turn that has begun to its end, and answers how it ended.
    async fn drive_turn(&mut self, mut turn: Turn, activation: Option<&Activation>) -> (TurnEnd, Option<String>) {
        let stop = self.agent.turn_token();
        self.working = Some(self.shared.budgets.begin(&self.place.root, &self.place.session));
        let ended = match self.follow_effects(&mut turn, &stop).await {
            Ok(ended) => ended,
            Err(error) => self.give_up(&error).await,
        };
        self.working = None;
        self.agent.close_turn();
        if activation.is_some() {
            self.refuse_rest(ended.0).await;
        }
        self.agent.end_turn();
        ended
    }

    async fn follow_effects(&mut self, turn: &mut Turn, stop: &CancellationToken) -> Result<(TurnEnd, Option<String>)> {
        let mut ended = (TurnEnd::Failed, None);
        let mut effects = VecDeque::from([Effect::Continue]);
        while let Some(effect) = effects.pop_front() {
            let input = match effect {
                Effect::Record(mut events) => {
                    if let Some(Event::TurnEnded { end, detail, .. }) = events.last() {
                        self.agent.close_turn();
                        ended = (*end, detail.clone());
                        let waits = self.deferred(*end);
                        events.splice(events.len() - 1..events.len() - 1, waits);
                    }
                    self.record(events).await?.map(Input::AnswerRecorded)
                }
                Effect::Continue if stop.is_cancelled() => Some(self.stopped(Vec::new())),
                Effect::Continue => Some(self.ready().await?),
                Effect::Ask => Some(self.ask(turn, stop).await),
                Effect::Run(calls) => {
                    effects.extend(self.run_calls(turn, calls, stop).await?);
                    None
                }
                Effect::End(_) => None,
            };
            if let Some(input) = input {
                effects.extend(turn.on(input));
            }
        }
        Ok(ended)
    }

    /// What a stop is told as: who asked for it.
    pub(super) fn stopped(&self, partial: Vec<crate::event::Block>) -> Input {
        let killer = || self.task().and_then(|task| self.shared.tasks.cause(&task)).map(|cause| cause.below().party());
        let child = matches!(self.role.drive, Drive::Activation(_));
        let fallback = if child { Party::Parent } else { Party::Runtime };
        let by = self.agent.stopped_by().or_else(killer).unwrap_or(fallback);
        Input::Stopped { by, partial }
    }

    /// The store refused an event of this turn for good, or for as long as this agent lives. What stands in the log
    /// stands; where the store is still there, the turn's end is written, so that the session is not left with an open
    /// turn. Where it is not, the next start mends it.
    async fn give_up(&mut self, error: &Error) -> (TurnEnd, Option<String>) {
        tracing::error!(session = %self.place.session, %error, "a turn cannot go on without the store");
        let detail = Some(error.message().to_owned());
        if error.code() != Code::Store {
            // What was on the screen is kept, too.
            let partial = self.agent.live.partial();
            let mut events = self.transcript.mend(Some((self.transcript.steps(), partial)));
            events.retain(|event| !matches!(event, Event::TaskSettled { .. } | Event::MessageDeferred { .. }));
            for event in &mut events {
                if let Event::TurnEnded { end, detail: why, .. } = event {
                    *end = TurnEnd::Failed;
                    why.clone_from(&detail);
                }
            }
            if let Err(error) = self.record(events).await {
                tracing::error!(session = %self.place.session, %error, "a turn's end has no place to be written");
            }
        }
        (TurnEnd::Failed, detail)
    }

    /// What is said of the messages that wait when a turn ends so that no other begins by itself: they are read with
    /// the next one. A child that was stopped drops them instead.
    fn deferred(&self, end: TurnEnd) -> Vec<Event> {
        let child = matches!(self.role.drive, Drive::Activation(_));
        match end {
            TurnEnd::Interrupted => self.transcript.deferred("the turn was interrupted"),
            TurnEnd::Stopped if !child => self.transcript.deferred("the turn was stopped"),
            _ => Vec::new(),
        }
    }

    /// After a child's turn: what comes too late is said not to be delivered, and so is what was accepted and not read,
    /// unless the turn was interrupted and goes on later.
    async fn refuse_rest(&mut self, end: TurnEnd) {
        while let Ok(mail) = self.inbox.try_recv() {
            if let Mail::Message(letter) = mail {
                letter.refuse(too_late());
            }
        }
        if end == TurnEnd::Interrupted {
            return;
        }
        let drop_message = |n: i64| Event::MessageDropped { message: n, reason: "the turn ended first".to_owned() };
        let dropped: Vec<Event> = self.transcript.waiting().map(|waiting| drop_message(waiting.n)).collect();
        if !dropped.is_empty()
            && let Err(error) = self.record(dropped).await
        {
            tracing::error!(session = %self.place.session, %error, "messages that were not read stay owed");
        }
    }

    /// What waits to be read at the next step, as soon as the store can be read.
    async fn ready(&mut self) -> Result<Input> {
        let mut waits = Waits::new(&self.agent);
        loop {
            while let Ok(mail) = self.inbox.try_recv() {
                self.take(mail).await;
            }
            match self.look().await {
                Err(error) if waits.may(&error) => self.wait_for_store(&error, &mut waits).await,
                looked => return looked,
            }
            if waits.stop.is_cancelled() {
                return Ok(self.stopped(Vec::new()));
            }
        }
    }

    async fn look(&mut self) -> Result<Input> {
        self.place.mode = self.shared.log.mode(&self.place.session).await?;
        let owed = self.shared.log.owed(&self.place.session).await?;
        let noted = self.shared.log.untold(&self.place.session).await?;
        let waiting = self.transcript.waiting().cloned().collect();
        let mut spent = self.shared.budgets.spent(&self.place.root).await?;
        spent.retain(|spent| spent.is_over() || !self.transcript.was_warned(spent.limit, spent.most));
        Ok(Input::Ready { waiting, owed, noted, spent })
    }

    /// Takes mail into the running turn. A notice needs nothing: every step looks for what is owed.
    pub(super) async fn take(&mut self, mail: Mail) {
        let Mail::Message(letter) = mail else { return };
        if letter.from == Party::Person {
            self.person_spoke();
        }
        let events = vec![Event::MessageAccepted { from: letter.from, text: letter.text.clone(), task: self.task() }];
        let entry = Entry { session: self.place.session.clone(), key: letter.key.clone(), events };
        match self.commit(entry).await {
            Ok(Committed::Fresh(n) | Committed::Before(n)) => letter.accept(n),
            Err(error) => letter.refuse(error),
        }
    }

    /// Commits events and folds them. Answers the `n` of an `Answered` among them. The store may be busy or the disk
    /// full for a while: the events are kept until it takes them, and only then does the turn go on. An error of the
    /// store means that this agent ends first.
    pub(super) async fn record(&mut self, mut events: Vec<Event>) -> Result<Option<i64>> {
        if let (Some(Event::TurnEnded { worked_ms, .. }), Some(working)) = (events.last_mut(), &self.working) {
            *worked_ms = Some(working.worked_ms());
        }
        let mut waits = Waits::new(&self.agent);
        loop {
            match self.record_now(events.clone()).await {
                Err(error) if waits.may(&error) => self.wait_for_store(&error, &mut waits).await,
                recorded => return recorded,
            }
        }
    }

    /// Lets some time pass before the store is tried again. What comes meanwhile is not delivered, and a stop does not
    /// wait: for those who look the turn is over then, and it ends when the store takes it.
    async fn wait_for_store(&mut self, error: &Error, waits: &mut Waits) {
        tracing::warn!(session = %self.place.session, %error, "the store takes nothing now; it is tried again");
        let pause = tokio::time::sleep(waits.pause);
        waits.pause = (waits.pause * 2).min(LONGEST_PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                () = waits.scope.cancelled() => return,
                () = waits.stop.cancelled(), if !waits.stopped => {
                    waits.stopped = true;
                    self.agent.end_turn();
                }
                Some(mail) = self.inbox.recv() => {
                    if let Mail::Message(letter) = mail {
                        letter.refuse(Error::new(error.code(), error.message()));
                    }
                }
                () = &mut pause => return,
            }
        }
    }

    /// The same as [`Driver::record`], once.
    pub(super) async fn record_now(&mut self, events: Vec<Event>) -> Result<Option<i64>> {
        let recorded = self.store(Entry::new(&self.place.session, events)).await?;
        self.fold(&recorded);
        let answer = recorded.iter().find(|recorded| matches!(recorded.event, Event::Answered { .. }));
        if answer.is_some() {
            self.agent.live.committed();
        }
        Ok(answer.map(|answer| answer.n))
    }

    async fn commit(&mut self, entry: Entry) -> Result<Committed> {
        let known = self.transcript.last_n();
        let recorded = self.store(entry).await?;
        let n = recorded.first().map_or(0, |first| first.n);
        if n <= known {
            return Ok(Committed::Before(n));
        }
        self.fold(&recorded);
        Ok(Committed::Fresh(n))
    }

    async fn store(&self, entry: Entry) -> Result<Vec<Recorded>> {
        self.agent.storing.store(true, Ordering::Release);
        let recorded = self.shared.log.write(vec![entry]).await;
        self.agent.storing.store(false, Ordering::Release);
        recorded
    }

    fn fold(&mut self, recorded: &[Recorded]) {
        for event in recorded {
            self.transcript.apply(event);
        }
    }
}

/// A wait for a store that takes nothing for a while.
struct Waits {
    scope: CancellationToken,
    stop: CancellationToken,
    /// Whether the stop was heard.
    stopped: bool,
    pause: Duration,
}

impl Waits {
    fn new(agent: &Agent) -> Self {
        let (scope, stop) = (agent.scope.token().clone(), agent.turn_token());
        Self { scope, stop, stopped: false, pause: FIRST_PAUSE }
    }

    /// Whether it is worth to try again after this: the store is there, and so is this agent.
    fn may(&self, error: &Error) -> bool {
        error.code() == Code::Store && !self.scope.is_cancelled()
    }
}

enum Committed {
    /// Written now.
    Fresh(i64),
    /// The same key was written before.
    Before(i64),
}

impl Letter {
    fn accept(self, n: i64) {
        // The sender may have gone away; the message is delivered all the same.
        drop(self.reply.send(Ok(n)));
    }

    fn refuse(self, error: Error) {
        drop(self.reply.send(Err(error)));
    }
}

fn too_late() -> Error {
    Error::new(Code::NotDelivered, "Not sent: the turn ended first.")
}

/// A title made of the first line of a prompt; what stands between code fences makes none.
fn title_of(text: &str) -> String {
    let mut fenced = false;
    let mut prose = text.lines().map(str::trim).filter(|line| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !(line.is_empty() || fence || fenced)
    });
    plain(prose.next().unwrap_or("Untitled"), 80)
}
