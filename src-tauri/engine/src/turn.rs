//! The turn as a pure state machine: what happened goes in, what is to be done comes out.
//!
//! The driver in `agent` does what it says and tells it what came of it. It knows no I/O and no clock.

use crate::budget::Spent;
use crate::event::{Block, Event, Party, Route, Stop, TurnEnd};
use crate::id::{CallId, TaskId};
use crate::llm::{Failure, Reply};
use crate::log::OwedNotice;
use crate::prompt::{self, Given};
use crate::tool::Outcome;
use crate::transcript::{Waiting, cut_off, prose};

/// One turn of one session.
#[derive(Clone, Debug)]
pub struct Turn {
    number: u32,
    task: Option<TaskId>,
    step: u32,
    first_step: u32,
    bounds: Bounds,
    given: Given,
    phase: Phase,
    circle: Circle,
}

/// What one turn may do; 0 means without a bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Model requests.
    pub steps: u32,
    /// Steps in a row that make the same calls and get the same results.
    pub same_calls: u32,
    /// Steps in a row in which every call fails.
    pub failed_steps: u32,
}

/// Looks for a turn that goes in a circle.
#[derive(Clone, Debug, Default)]
struct Circle {
    /// What the step's calls were and came to, as far as they have ended.
    now: Vec<(CallRequest, Option<(bool, String)>)>,
    /// Whether one of them took its time: whoever waits goes in no circle.
    waited: bool,
    /// The calls of the step before and what they came to.
    before: Vec<(String, String, bool, String)>,
    same: u32,
    failed: u32,
}

/// A call that takes this long, in milliseconds, waits for something.
const WAITS: i64 = 5_000;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Ready for the next step; `answered` when the model has said its last word, unless more is to be read.
    Between {
        answered: bool,
    },
    Asking,
    Calling {
        answer: Option<i64>,
        open: Vec<CallId>,
    },
    Ended,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The driver is ready for the next step and tells what waits to be read.
    Ready {
        /// Accepted messages, oldest first.
        waiting: Vec<Waiting>,
        /// Notices that are owed.
        owed: Vec<OwedNotice>,
        /// What else the model is to be told: the `n` of each `Noted`, and the words.
        noted: Vec<(i64, String)>,
        /// The budgets of the tree that are used up or, if the model was not told yet, nearly so.
        spent: Vec<Spent>,
    },
    /// The model answered.
    Replied(Reply),
    /// The model failed. `partial` is what it had said.
    ModelFailed {
        /// Why.
        failure: Failure,
        /// What had streamed.
        partial: Vec<Block>,
    },
    /// The answer stands in the log as event `n`.
    AnswerRecorded(i64),
    /// A call ended.
    CallEnded {
        /// Which.
        call: CallId,
        /// What it came to.
        outcome: Outcome,
        /// How long it ran, in milliseconds.
        ms: i64,
    },
    /// The turn was stopped. Calls that run have been ended and reported first.
    Stopped {
        /// Who stopped it.
        by: Party,
        /// What had streamed.
        partial: Vec<Block>,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Commit these events together.
    Record(Vec<Event>),
    /// Ask the model with the folded history.
    Ask,
    /// Run these calls, side by side.
    Run(Vec<CallRequest>),
    /// Say [`Input::Ready`] with what waits.
    Continue,
    /// The turn is over.
    End(TurnEnd),
}

/// A call that the model asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// Its id.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments as written.
    pub args: String,
}

impl Turn {
    /// Turn `number` of a session that has taken `steps` steps and has the tools `given`.
    pub fn new(number: u32, task: Option<TaskId>, steps: u32, bounds: Bounds, given: Given) -> Self {
        let phase = Phase::Between { answered: false };
        Self { number, task, step: steps, first_step: steps + 1, bounds, given, phase, circle: Circle::default() }
    }

    /// The event that begins it.
    pub fn started(&self) -> Event {
        Event::TurnStarted { turn: self.number, task: self.task.clone() }
    }

    /// The step that it is at.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Takes what happened and says what is to be done, in order. After the end nothing is done any more.
    pub fn on(&mut self, input: Input) -> Vec<Effect> {
        match (self.phase.clone(), input) {
            (Phase::Ended, _) => Vec::new(),
            (Phase::Between { answered: true }, Input::Ready { waiting, .. }) if waiting.is_empty() => {
                self.end(Vec::new(), TurnEnd::Completed, None)
            }
            (Phase::Between { .. }, Input::Ready { waiting, owed, noted, spent }) => {
                self.begin_step(waiting, owed, noted, &spent)
            }
            (Phase::Asking, Input::Replied(reply)) => self.replied(reply),
            (Phase::Asking, Input::ModelFailed { failure, partial }) => {
                let events = cut_off(self.step, partial).into_iter().collect();
                self.end(events, TurnEnd::Failed, Some(failure.message))
            }
            (Phase::Calling { open, .. }, Input::AnswerRecorded(n)) => {
                self.phase = Phase::Calling { answer: Some(n), open };
                Vec::new()
            }
            (Phase::Calling { answer: Some(answer), open }, Input::CallEnded { call, outcome, ms }) => {
                self.call_ended(answer, open, call, outcome, ms)
            }
            (_, Input::Stopped { by, partial }) => {
                let streaming = (self.phase == Phase::Asking).then_some(partial);
                let events = streaming.and_then(|partial| cut_off(self.step, partial)).into_iter().collect();
                match by {
                    Party::Runtime => self.end(events, TurnEnd::Interrupted, Some("can resume".to_owned())),
                    by => self.end_by(Some(by), events, TurnEnd::Stopped, Some(stopped_by(by).to_owned())),
                }
            }
            // Anything else comes too late or too early to mean something: a repeated result, a second answer.
            _ => Vec::new(),
        }
    }

    fn begin_step(
        &mut self,
        waiting: Vec<Waiting>,
        owed: Vec<OwedNotice>,
        noted: Vec<(i64, String)>,
        spent: &[Spent],
    ) -> Vec<Effect> {
        if !(waiting.is_empty() && owed.is_empty() && noted.is_empty()) {
            // There is something new to go by.
            self.circle = Circle::default();
        }
        if let Some(detail) = self.used_up(spent) {
            return self.end(Vec::new(), TurnEnd::Limit, Some(detail));
        }
        self.step += 1;
        let route = if self.step == self.first_step { Route::Started } else { Route::Steered };
        let mut events = vec![Event::StepStarted { turn: self.number, step: self.step }];
        for message in waiting {
            events.push(Event::MessageAdmitted { message: message.n, step: self.step, route });
        }
        for notice in owed {
            events.push(Event::NoticeAdmitted {
                task: notice.task.id.clone(),
                settled: notice.settled,
                step: self.step,
                text: prompt::notice(&notice.task, &self.given),
            });
        }
        events.extend(noted.into_iter().map(|(note, text)| Event::Told { note, step: self.step, text }));
        events.extend(self.warnings(spent));
        self.phase = Phase::Asking;
        vec![Effect::Record(events), Effect::Ask]
    }

    /// Why there is no next step, if a limit stands in its way.
    fn used_up(&self, spent: &[Spent]) -> Option<String> {
        let Bounds { steps, same_calls, failed_steps } = self.bounds;
        let taken = self.step + 1 - self.first_step;
        let Circle { same, failed, .. } = self.circle;
        if let Some(over) = spent.iter().find(|spent| spent.is_over()) {
            return Some(format!("its budget is used up: {} (limits.{})", over.words(), over.limit));
        }
        if steps > 0 && taken >= steps {
            return Some(format!("it made {taken} requests, as many as one turn may (limits.step_limit)"));
        }
        if same_calls > 0 && same >= same_calls {
            let what = "it went in a circle: the same calls with the same results";
            return Some(format!("{what}, {same} times in a row (limits.same_calls)"));
        }
        let what = "it got nowhere: every call failed";
        (failed_steps > 0 && failed >= failed_steps)
            .then(|| format!("{what}, {failed} steps in a row (limits.failed_steps)"))
    }

    /// What the model is told before it meets a limit.
    fn warnings(&self, spent: &[Spent]) -> Vec<Event> {
        let Bounds { same_calls, failed_steps, .. } = self.bounds;
        let Circle { same, failed, .. } = self.circle;
        let warned = |limit: &str, used: u64, most: u64, text: String| Event::Warned {
            limit: limit.to_owned(),
            used,
            most,
            step: self.step,
            text,
        };
        let near = spent.iter().filter(|spent| spent.is_near());
        let mut told: Vec<Event> =
            near.map(|near| warned(near.limit, near.used, near.most, prompt::wrap_up(&near.words()))).collect();
        // Half of the way leaves room to turn round.
        if same_calls > 1 && same == same_calls.div_ceil(2) {
            let what = format!("You made the same calls {same} times in a row, with the same results");
            told.push(warned("same_calls", same.into(), same_calls.into(), prompt::circle(&what, same_calls)));
        }
        if failed_steps > 1 && failed == failed_steps.div_ceil(2) {
            let what = format!("Every call of your last {failed} steps failed");
            told.push(warned("failed_steps", failed.into(), failed_steps.into(), prompt::circle(&what, failed_steps)));
        }
        told
    }

    fn replied(&mut self, reply: Reply) -> Vec<Effect> {
        let complete = reply.stop == Stop::Complete;
        let blocks = self.named(reply.blocks, complete);
        let silent = prose(&blocks).is_empty();
        let calls: Vec<CallRequest> = blocks.iter().filter_map(CallRequest::of).collect();
        let mut events = vec![Event::Answered { step: self.step, blocks, stop: reply.stop, usage: reply.usage }];
        let (end, detail) = match reply.stop {
            Stop::Complete if !calls.is_empty() => {
                let open = calls.iter().map(|call| call.id.clone()).collect();
                self.circle.begin(&calls);
                self.phase = Phase::Calling { answer: None, open };
                return vec![Effect::Record(events), Effect::Run(calls)];
            }
            Stop::Complete if !silent => {
                self.phase = Phase::Between { answered: true };
                return vec![Effect::Record(events), Effect::Continue];
            }
            Stop::Complete => (TurnEnd::Failed, "the model answered with nothing at all: ask again"),
            Stop::MaxTokens => (TurnEnd::MaxTokens, "the model reached its output limit before it was done"),
            Stop::Refusal => (TurnEnd::Refusal, "the model refused to answer"),
            Stop::CutOff => (TurnEnd::Failed, "the reply was cut off before it was finished"),
        };
        events.retain(
            |event| !matches!(event, Event::Answered { blocks, usage, .. } if blocks.is_empty() && usage.input == 0),
        );
        self.end(events, end, Some(detail.to_owned()))
    }

    /// Gives every call an id that is unique in the session; drops prose that says nothing, and the calls of a reply
    /// that did not finish, because they must never run.
    fn named(&self, blocks: Vec<Block>, complete: bool) -> Vec<Block> {
        let mut position = 0;
        let mut named = Vec::new();
        for block in blocks {
            match block {
                Block::Text { text } | Block::Thinking { text } if text.is_empty() => {}
                Block::ToolCall { .. } if !complete => {}
                Block::ToolCall { name, args, .. } => {
                    position += 1;
                    let id = CallId(format!("{}.{position}", self.step));
                    named.push(Block::ToolCall { id, name, args });
                }
                other => named.push(other),
            }
        }
        named
    }

    fn call_ended(
        &mut self,
        answer: i64,
        mut open: Vec<CallId>,
        call: CallId,
        outcome: Outcome,
        ms: i64,
    ) -> Vec<Effect> {
        let before = open.len();
        open.retain(|other| *other != call);
        if open.len() == before {
            // A second result for one call: the first stands.
            return Vec::new();
        }
        self.circle.ended(&call, &outcome, ms);
        let mut events =
            vec![Event::ToolFinished { call, answer, ok: outcome.ok, text: outcome.text, detail: outcome.detail, ms }];
        events.extend(outcome.events);
        let mut effects = vec![Effect::Record(events)];
        if open.is_empty() {
            self.circle.close();
            self.phase = Phase::Between { answered: false };
            effects.push(Effect::Continue);
        } else {
            self.phase = Phase::Calling { answer: Some(answer), open };
        }
        effects
    }

    fn end(&mut self, events: Vec<Event>, end: TurnEnd, detail: Option<String>) -> Vec<Effect> {
        self.end_by(None, events, end, detail)
    }

    fn end_by(
        &mut self,
        by: Option<Party>,
        mut events: Vec<Event>,
        end: TurnEnd,
        detail: Option<String>,
    ) -> Vec<Effect> {
        self.phase = Phase::Ended;
        let step = (self.step >= self.first_step).then_some(self.step);
        events.push(Event::TurnEnded { turn: self.number, end, by, detail, step, last_sign_at: None, worked_ms: None });
        vec![Effect::Record(events), Effect::End(end)]
    }
}

impl Circle {
    fn begin(&mut self, calls: &[CallRequest]) {
        self.now = calls.iter().map(|call| (call.clone(), None)).collect();
        self.waited = false;
    }

    fn ended(&mut self, call: &CallId, outcome: &Outcome, ms: i64) {
        self.waited |= ms >= WAITS;
        if let Some((_, result)) = self.now.iter_mut().find(|(asked, _)| asked.id == *call) {
            *result = Some((outcome.ok, essence(&outcome.text).to_owned()));
        }
    }

    /// All calls of the step have ended: looks whether it was like the one before.
    fn close(&mut self) {
        let step: Vec<_> = std::mem::take(&mut self.now)
            .into_iter()
            .map(|(call, result)| {
                let (ok, text) = result.unwrap_or_default();
                (call.name, call.args, ok, text)
            })
            .collect();
        let same = !self.waited && step == self.before;
        self.same = if same { self.same + 1 } else { 1 };
        self.failed = if step.iter().any(|(_, _, ok, _)| *ok) { 0 } else { self.failed + 1 };
        self.before = step;
    }
}

/// A result without the line in brackets that ends it, which tells times.
fn essence(text: &str) -> &str {
    match text.trim_end().rsplit_once('\n') {
        Some((before, last)) if last.starts_with('[') => before,
        None if text.starts_with('[') => "",
        _ => text,
    }
}

impl CallRequest {
    fn of(block: &Block) -> Option<Self> {
        match block {
            Block::ToolCall { id, name, args } => Some(Self { id: id.clone(), name: name.clone(), args: args.clone() }),
            Block::Text { .. } | Block::Thinking { .. } => None,
        }
    }
}

/// The words for who stopped something.
pub fn stopped_by(party: Party) -> &'static str {
    match party {
        Party::Person => "stopped by you",
        Party::Parent | Party::Owner => "stopped by its parent",
        Party::Limit => "stopped by a limit",
        Party::Runtime => "stopped because Coppice ended",
    }
}
