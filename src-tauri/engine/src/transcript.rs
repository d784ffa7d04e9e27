//! Fold: events -> what the model sees, and what a log still owes.
//!
//! Pure: no I/O, no clock. Any prefix of a log folds; what a crash cut off is completed by [`Transcript::mend`].

use crate::event::{Block, CUT_OFF, Event, Party, Recorded, Stop, TaskStatus, TurnEnd};
use crate::id::{CallId, TaskId};
use crate::llm::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a session's log says, as far as it was folded.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    items: Vec<Item>,
    waiting: BTreeMap<i64, Waiting>,
    live_tasks: BTreeMap<TaskId, ()>,
    open_turn: Option<u32>,
    /// The step that the open turn is at.
    open_step: Option<u32>,
    turns: u32,
    steps: u32,
    last_n: i64,
    titled: bool,
    warned: BTreeSet<(String, u64)>,
}

/// A message that was accepted and not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The `n` of its `MessageAccepted`.
    pub n: i64,
    /// Who wrote it.
    pub from: Party,
    /// The words.
    pub text: String,
    /// Whether it was said that a later turn reads it.
    pub deferred: bool,
}

#[derive(Clone, Debug)]
enum Item {
    User(String),
    Answer { n: i64, blocks: Vec<Block>, results: HashMap<CallId, (bool, String)> },
}

impl Transcript {
    /// Folds a whole log.
    pub fn of(events: &[Recorded]) -> Self {
        Self::after(None, events)
    }

    /// Folds a log that begins with the history of another one, if there is one.
    pub fn after(seed: Option<Self>, events: &[Recorded]) -> Self {
        let mut transcript = Self { items: seed.map(Self::into_seed).unwrap_or_default(), ..Self::default() };
        for event in events {
            transcript.apply(event);
        }
        transcript
    }

    /// Folds one more event.
    pub fn apply(&mut self, recorded: &Recorded) {
        self.last_n = recorded.n;
        match &recorded.event {
            Event::SessionOpened { title, .. } => self.titled = !title.is_empty(),
            Event::Renamed { .. } => self.titled = true,
            Event::MessageAccepted { from, text, .. } => {
                let waiting = Waiting { n: recorded.n, from: *from, text: text.clone(), deferred: false };
                self.waiting.insert(recorded.n, waiting);
            }
            Event::MessageAdmitted { message, .. } => {
                if let Some(waiting) = self.waiting.remove(message) {
                    self.items.push(Item::User(waiting.text));
                }
            }
            Event::MessageDeferred { message, .. } => {
                if let Some(waiting) = self.waiting.get_mut(message) {
                    waiting.deferred = true;
                }
            }
            Event::MessageDropped { message, .. } => {
                self.waiting.remove(message);
            }
            Event::NoticeAdmitted { text, .. } | Event::Told { text, .. } => {
                self.items.push(Item::User(text.clone()));
            }
            Event::Warned { limit, most, text, .. } => {
                self.warned.insert((limit.clone(), *most));
                self.items.push(Item::User(text.clone()));
            }
            Event::TurnStarted { turn, .. } => {
                self.turns = *turn;
                self.open_turn = Some(*turn);
                self.open_step = None;
            }
            Event::StepStarted { step, .. } => {
                self.steps = *step;
                self.open_step = Some(*step);
            }
            Event::Answered { blocks, .. } if !blocks.is_empty() => {
                self.items.push(Item::Answer { n: recorded.n, blocks: blocks.clone(), results: HashMap::new() });
            }
            Event::ToolFinished { call, answer, ok, text, .. } => {
                let asked = self.items.iter_mut().rev().find_map(|item| match item {
                    Item::Answer { n, results, .. } if n == answer => Some(results),
                    _ => None,
                });
                if let Some(results) = asked {
                    // The first result stands: a call has exactly one.
                    results.entry(call.clone()).or_insert_with(|| (*ok, text.clone()));
                }
            }
            Event::TurnEnded { end, .. } => {
                self.open_turn = None;
                if let Some(note) = end_note(*end) {
                    self.items.push(Item::User(note.to_owned()));
                }
            }
            Event::TaskStarted { task, .. } => {
                self.live_tasks.insert(task.clone(), ());
            }
            Event::TaskSettled { task, .. } => {
                self.live_tasks.remove(task);
            }
            Event::Answered { .. }
            | Event::Described(_)
            | Event::Seeded { .. }
            | Event::Limited { .. }
            | Event::FileChanging { .. }
            | Event::Undone { .. }
            | Event::Noted { .. }
            | Event::Clashed { .. }
            | Event::ModelRetried { .. }
            | Event::TaskStopping { .. }
            | Event::TaskLearned { .. }
            | Event::Stopped { .. }
            | Event::Archived { .. }
            | Event::Asked { .. }
            | Event::Decided { .. }
            | Event::Withdrawn { .. }
            | Event::LeaveTaken { .. }
            | Event::ModeSet { .. }
            | Event::Unknown { .. } => {}
        }
    }

    /// The history as the model sees it: user and assistant messages alternate, every call has its result.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        for item in &self.items {
            match item {
                Item::User(text) => match messages.last_mut() {
                    Some(Message::User(earlier)) => {
                        earlier.push_str("\n\n");
                        earlier.push_str(text);
                    }
                    _ => messages.push(Message::User(text.clone())),
                },
                Item::Answer { blocks, results, .. } => {
                    messages.push(Message::Assistant(blocks.clone()));
                    for (call, name) in calls(blocks) {
                        let (ok, text) = results.get(call).cloned().unwrap_or((false, INTERRUPTED.to_owned()));
                        messages.push(Message::Tool { call: call.clone(), name: name.to_owned(), text, ok });
                    }
                }
            }
        }
        messages
    }

    /// The history as another session begins with it. Its calls are named anew, so that no name comes twice.
    fn into_seed(self) -> Vec<Item> {
        let seeded = |call: &CallId| CallId(format!("seed-{}", call.as_str()));
        let mut items: Vec<Item> = self.items;
        for item in &mut items {
            let Item::Answer { n, blocks, results } = item else { continue };
            *n = 0;
            let named = |(call, result): (CallId, (bool, String))| (seeded(&call), result);
            *results = std::mem::take(results).into_iter().map(named).collect();
            for block in blocks {
                if let Block::ToolCall { id, .. } = block {
                    *id = seeded(id);
                    results.entry(id.clone()).or_insert_with(|| (false, INTERRUPTED.to_owned()));
                }
            }
        }
        items.push(Item::User(SEEDED.to_owned()));
        items
    }

    /// What a crash left unsaid: the events that make this log whole again. `partial` is the reply that was streaming.
    pub fn mend(&self, partial: Option<(u32, Vec<Block>)>) -> Vec<Event> {
        let mut events = Vec::new();
        for item in &self.items {
            let Item::Answer { n, blocks, results } = item else { continue };
            for (call, _) in calls(blocks).filter(|(call, _)| !results.contains_key(*call)) {
                events.push(Event::ToolFinished {
                    call: call.clone(),
                    answer: *n,
                    ok: false,
                    text: INTERRUPTED.to_owned(),
                    detail: serde_json::json!({ CUT_OFF: true }),
                    ms: 0,
                });
            }
        }
        if let Some((step, blocks)) = partial.filter(|_| self.open_turn.is_some()) {
            events.extend(cut_off(step, blocks));
        }
        // Also where the turn that was to read it never began.
        events.extend(self.deferred("Coppice ended before it was read"));
        if let Some(turn) = self.open_turn {
            let detail = Some("can resume".to_owned());
            let (end, step) = (TurnEnd::Interrupted, self.open_step);
            events.push(Event::TurnEnded { turn, end, by: None, detail, step, last_sign_at: None, worked_ms: None });
        }
        for task in self.live_tasks.keys() {
            events.push(Event::TaskSettled {
                task: task.clone(),
                status: TaskStatus::Interrupted,
                detail: Some("Coppice ended while it ran".to_owned()),
                killed_by: None,
                output: None,
                owes_notice: true,
                last_sign_at: None,
            });
        }
        events
    }

    /// Messages that were accepted and not yet read, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    /// What is said of the messages that wait, when the turn that was to read them is cut short: once.
    pub fn deferred(&self, reason: &str) -> Vec<Event> {
        let deferred = |waiting: &Waiting| Event::MessageDeferred { message: waiting.n, reason: reason.to_owned() };
        self.waiting.values().filter(|waiting| !waiting.deferred).map(deferred).collect()
    }

    /// The turn that is open.
    pub fn open_turn(&self) -> Option<u32> {
        self.open_turn
    }

    /// How many turns have begun.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// How many steps have begun.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The `n` of the last event.
    pub fn last_n(&self) -> i64 {
        self.last_n
    }

    /// Whether the model was told that this limit, of this size, is near.
    pub fn was_warned(&self, limit: &str, most: u64) -> bool {
        self.warned.contains(&(limit.to_owned(), most))
    }

    /// Whether the session has a title.
    pub fn titled(&self) -> bool {
        self.titled
    }

    /// The last non-empty prose of the model since event `after`: the final text of a run.
    pub fn final_text(&self, after: i64) -> String {
        let texts = self.items.iter().rev().map_while(|item| match item {
            Item::Answer { n, blocks, .. } => (*n > after).then(|| prose(blocks)),
            Item::User(_) => Some(String::new()),
        });
        let found = texts.into_iter().find(|text| !text.is_empty());
        found.unwrap_or_default()
    }
}

/// What the model reads as the result of a call that a crash cut off.
const INTERRUPTED: &str =
    "Interrupted: Coppice ended while this ran, so it has no result. What it did until then stands.";

/// What a child reads between the history of its parent and its own.
const SEEDED: &str = "[runtime] What stands above was done by the agent that delegated to you, in its finished turns. You \
                      are a child of it: its tasks and children are not yours. Your task follows.";

/// The record of a reply that was cut off: its prose is kept, its calls are not, because they never ran.
pub fn cut_off(step: u32, blocks: Vec<Block>) -> Option<Event> {
    let said = |block: &Block| match block {
        Block::Text { text } | Block::Thinking { text } => !text.is_empty(),
        Block::ToolCall { .. } => false,
    };
    let blocks: Vec<Block> = blocks.into_iter().filter(said).collect();
    (!blocks.is_empty()).then(|| Event::Answered {
        step,
        blocks,
        stop: Stop::CutOff,
        usage: crate::event::Usage::default(),
    })
}

/// The prose of a reply, its text blocks joined.
pub fn prose(blocks: &[Block]) -> String {
    let mut texts = Vec::new();
    for block in blocks {
        if let Block::Text { text } = block
            && !text.trim().is_empty()
        {
            texts.push(text.trim());
        }
    }
    texts.join("\n\n")
}

fn calls(blocks: &[Block]) -> impl Iterator<Item = (&CallId, &str)> {
    blocks.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, .. } => Some((id, name.as_str())),
        Block::Text { .. } | Block::Thinking { .. } => None,
    })
}

/// What the model is told, before its next message, of a turn that did not end by its own answer.
fn end_note(end: TurnEnd) -> Option<&'static str> {
    match end {
        TurnEnd::Completed | TurnEnd::MaxTokens | TurnEnd::Refusal => None,
        TurnEnd::Stopped => Some("[runtime] Your last turn was stopped before it was finished."),
        TurnEnd::Failed => Some("[runtime] Your last turn ended with an error before it was finished."),
        TurnEnd::Limit => Some("[runtime] Your last turn was ended by a limit before it was finished."),
        TurnEnd::Interrupted => Some("[runtime] Your last turn was cut off because Coppice ended."),
    }
}
