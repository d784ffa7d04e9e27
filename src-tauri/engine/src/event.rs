//! The vocabulary of the log: everything that ever happened to a session, in the form in which it is kept.
//!
//! An event is written once and never changed. Each kind has a version; a kind or version that this build does
//! not know is kept as [`Event::Unknown`], shown as such and skipped by every fold.

use crate::action::{Action, Allowed, Reason};
use crate::id::{AskId, CallId, SessionId, TaskId};
pub use file::{EditRef, FileChange};
pub use mode::{Decision, Mode};
pub use receipt::{Receipt, ReceiptItem, ReceiptProcess};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

mod file;
mod mode;
mod receipt;

/// The version of every event kind that this build writes.
pub const VERSION: u32 = 1;

/// The fact of a finished call that a stop or the end of Coppice cut off: true, or not there.
pub const CUT_OFF: &str = "cut_off";

/// An event as it stands in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Position in the whole log; grows by one with each event of any session.
    pub seq: i64,
    /// The session it belongs to.
    pub session: SessionId,
    /// Position in its session, from 1.
    pub n: i64,
    /// When it was committed, in milliseconds since the Unix epoch.
    pub at: i64,
    /// What happened.
    pub event: Event,
}

/// Who acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// The person at the window or the terminal.
    Person,
    /// The session that delegated this one.
    Parent,
    /// The session itself, by a tool call of its model.
    Owner,
    /// A limit of the configuration.
    Limit,
    /// Coppice itself, while it shuts down or cleans up.
    Runtime,
}

/// Which tools a child is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct ToolFilter {
    /// Only these, when not empty.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Never these.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl ToolFilter {
    /// This filter inside another one: a child is never given a tool that its parent is not.
    #[must_use]
    pub fn within(&self, parent: &Self) -> Self {
        let mut deny = self.deny.clone();
        deny.extend(parent.deny.iter().filter(|name| !self.deny.contains(name)).cloned());
        let mut allow: Vec<String> = match (self.allow.is_empty(), parent.allow.is_empty()) {
            (true, _) => parent.allow.clone(),
            (false, true) => self.allow.clone(),
            (false, false) => self.allow.iter().filter(|name| parent.allow.contains(name)).cloned().collect(),
        };
        if allow.is_empty() && !(self.allow.is_empty() && parent.allow.is_empty()) {
            // An empty list would admit everything; no tool has an empty name.
            allow.push(String::new());
        }
        Self { allow, deny }
    }

    /// Whether the filter lets the tool `name` through.
    pub fn admits(&self, name: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|listed| listed == name);
        !listed(&self.deny) && (self.allow.is_empty() || listed(&self.allow))
    }
}

/// Limits of one tree, in place of those of the configuration; 0 means none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct TreeLimits {
    /// The deepest child; a root is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub depth: Option<u32>,
    /// Children alive at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub live_children: Option<u32>,
    /// Children in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub children: Option<u32>,
    /// Tokens, read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub tokens: Option<u64>,
    /// Time at work, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub wall_clock_s: Option<u64>,
    /// Model requests in one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub step_limit: Option<u32>,
}

/// How a child is rebuilt when it is resumed. The model never sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Descriptor {
    /// The version of this record; another version is refused, not guessed.
    pub version: u32,
    /// The subagent provider that runs the child: `spawn`, `fork` or `acp`.
    pub provider: String,
    /// The name of the model in the configuration.
    pub model: String,
    /// Instructions of its own, put before the shared ones.
    pub persona: Option<String>,
    /// Which tools it is given.
    pub tools: ToolFilter,
    /// The short label that its parent gave it.
    pub label: String,
}

impl Descriptor {
    /// The version that this build writes and accepts.
    pub const VERSION: u32 = 1;
}

/// A part of what a model said, in the order in which it was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Prose for the reader.
    Text {
        /// The words, as markdown.
        text: String,
    },
    /// Reasoning that the model let us see.
    Thinking {
        /// The words.
        text: String,
    },
    /// A request to run a tool.
    ToolCall {
        /// Unique within the session.
        id: CallId,
        /// The tool's name.
        name: String,
        /// The arguments exactly as the model wrote them: meant to be a JSON object, not always one.
        args: String,
    },
}

/// Why a model's reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It said all it wanted to say, or asked for tools.
    Complete,
    /// It reached its output limit.
    MaxTokens,
    /// It refused to answer.
    Refusal,
    /// It was cut off: a stop, a fault or a crash. What came before is kept.
    CutOff,
}

/// Tokens of one request. `input` includes what was read from a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: i64,
    /// Tokens written.
    pub output: i64,
    /// The part of `input` that came from a cache.
    pub cached: i64,
    /// True when the server gave no figures and these are an estimate.
    pub estimated: bool,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// With a final answer.
    Completed,
    /// By a stop.
    Stopped,
    /// By an error that stands.
    Failed,
    /// The model reached its output limit.
    MaxTokens,
    /// The model refused.
    Refusal,
    /// A limit of the configuration was reached.
    Limit,
    /// Coppice crashed or was ended while it ran.
    Interrupted,
}

/// The status of a task. The last four are terminal, and terminal is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// At work.
    Running,
    /// Asked to end, not yet proven ended.
    Stopping,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended by a stop.
    Killed,
    /// Coppice crashed or quit while it ran.
    Interrupted,
}

impl TaskStatus {
    /// Whether it is one of the four final statuses.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Running | Self::Stopping)
    }

    /// The word for it, as on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// How a message entered a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// It joined a running turn.
    Steered,
    /// It started a turn.
    Started,
}

/// Something that happened to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// The session came to be. Always event 1.
    SessionOpened {
        /// The session that delegated it; none for one that a person opened.
        parent: Option<SessionId>,
        /// The root of its tree; itself for a root.
        root: SessionId,
        /// 0 for a root, its parent's plus one for a child.
        depth: u32,
        /// Its name for people.
        title: String,
        /// The short label that its parent gave it; none for a root.
        label: Option<String>,
        /// The subagent provider that runs it; none for a root.
        provider: Option<String>,
        /// The name of its model in the configuration.
        model: String,
        /// What it may do without asking.
        mode: Mode,
        /// The folder it works in, absolute.
        cwd: String,
    },
    /// How to rebuild a child.
    Described(Descriptor),
    /// The child begins with the history of its parent, as it stood then.
    Seeded {
        /// The parent.
        from: SessionId,
        /// The `n` of the parent's last `TurnEnded`: what came later is not part of it.
        upto: i64,
        /// How many turns that are.
        turns: u32,
    },
    /// A message was accepted: from here on it is delivered once, or said not to be.
    MessageAccepted {
        /// Who wrote it.
        from: Party,
        /// The words.
        text: String,
        /// The activation it was meant for; none in a root.
        task: Option<TaskId>,
    },
    /// An accepted message entered the model's history at this step.
    MessageAdmitted {
        /// The `n` of its `MessageAccepted`.
        message: i64,
        /// The step that read it.
        step: u32,
        /// How it entered.
        route: Route,
    },
    /// An accepted message was not read by the turn that it was meant for, which was cut short. The next turn reads it.
    MessageDeferred {
        /// The `n` of its `MessageAccepted`.
        message: i64,
        /// Why, for people.
        reason: String,
    },
    /// An accepted message will not be delivered.
    MessageDropped {
        /// The `n` of its `MessageAccepted`.
        message: i64,
        /// Why, for people.
        reason: String,
    },
    /// A turn began.
    TurnStarted {
        /// Counted over the session, from 1.
        turn: u32,
        /// The activation it belongs to; none in a root.
        task: Option<TaskId>,
    },
    /// A step began: the model is about to be asked.
    StepStarted {
        /// The turn it belongs to.
        turn: u32,
        /// Counted over the session, from 1.
        step: u32,
    },
    /// The owner was told that one of its tasks ended.
    NoticeAdmitted {
        /// The task.
        task: TaskId,
        /// The `n` of its `TaskSettled`.
        settled: i64,
        /// The step that read it.
        step: u32,
        /// The exact words that the model read.
        text: String,
    },
    /// The model's reply to one step.
    Answered {
        /// The step.
        step: u32,
        /// What it said, in order.
        blocks: Vec<Block>,
        /// Why it ended.
        stop: Stop,
        /// What it cost.
        usage: Usage,
    },
    /// A tool call ended. Every call has exactly one of these.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The `n` of the `Answered` that asked for it.
        answer: i64,
        /// Whether it did what was asked.
        ok: bool,
        /// What the model reads.
        text: String,
        /// Facts for the window: exit status, counts, ids; [`CUT_OFF`]. An object, or null.
        detail: Value,
        /// How long it ran, in milliseconds.
        ms: i64,
    },
    /// A call is about to change a file. What stood in it is kept. Whether it came to it tells the call's end, and the
    /// file itself.
    FileChanging {
        /// The call.
        call: CallId,
        /// The change.
        change: FileChange,
    },
    /// Changes of files were taken back, by a person. Stands in the log of the session that the person pointed at.
    Undone {
        /// Whose changes, the newest first.
        edits: Vec<EditRef>,
        /// What it did to files.
        files: Vec<FileChange>,
    },
    /// Something happened that the model is to be told at its next step.
    Noted {
        /// The exact words that it reads.
        text: String,
    },
    /// The model was told.
    Told {
        /// The `n` of its `Noted`.
        note: i64,
        /// The step that read it.
        step: u32,
        /// The exact words that it read.
        text: String,
    },
    /// Two sessions write one file within a short time. Stands in the log of their root, or in those of both.
    Clashed {
        /// The file, absolute.
        path: String,
        /// Who wrote it first, and its label.
        first: SessionId,
        /// The label of that one.
        first_label: String,
        /// Who came later.
        later: SessionId,
        /// The label of that one.
        later_label: String,
    },
    /// A request to the model failed and was tried again.
    ModelRetried {
        /// The step.
        step: u32,
        /// What went wrong, for people.
        reason: String,
        /// How long it waited before it tried again, in milliseconds.
        waited_ms: i64,
    },
    /// The turn ended. Every turn has exactly one of these.
    TurnEnded {
        /// The turn.
        turn: u32,
        /// How.
        end: TurnEnd,
        /// Who stopped it, when it was stopped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Party>,
        /// Why, for people; none for a plain completion.
        detail: Option<String>,
        /// The step that it was at; none before its first.
        #[serde(default)]
        step: Option<u32>,
        /// The last sign of it before a crash cut it off, in milliseconds since the Unix epoch: it ended then. None when
        /// it ended with this event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_sign_at: Option<i64>,
        /// How long the turns of its tree had run by then, in milliseconds; none when a crash ended it.
        #[serde(default)]
        worked_ms: Option<i64>,
    },
    /// The model was told that a limit is near.
    Warned {
        /// The limit's name in the configuration.
        limit: String,
        /// What was used of it.
        used: u64,
        /// What may be used.
        most: u64,
        /// The step that read it.
        step: u32,
        /// The exact words that the model read.
        text: String,
    },
    /// A person gave the tree limits of its own. Stands in the root's log.
    Limited {
        /// The limits; what they do not name stays as it was.
        limits: TreeLimits,
    },
    /// A background task began. Stands in its owner's log.
    TaskStarted {
        /// Its id.
        task: TaskId,
        /// `bash` or `subagent`.
        task_kind: String,
        /// What it does, for people.
        label: String,
        /// The child session that it activates; none for a command.
        child: Option<SessionId>,
        /// The tool call that started it; none when a person's message did.
        call: Option<CallId>,
    },
    /// A stop of a task was asked for.
    TaskStopping {
        /// The task.
        task: TaskId,
        /// Who asked.
        by: Party,
        /// Why, for people.
        reason: Option<String>,
    },
    /// A task ended. Every started task has exactly one of these.
    TaskSettled {
        /// The task.
        task: TaskId,
        /// A terminal status.
        status: TaskStatus,
        /// How it ended, for people: "exit 101", "stopped by you".
        detail: Option<String>,
        /// Who stopped it, when the status is `killed`.
        killed_by: Option<Party>,
        /// The final output of a task without an output log.
        output: Option<String>,
        /// Whether the owner is still to be told.
        owes_notice: bool,
        /// The last sign of it before a crash cut it off, in milliseconds since the Unix epoch: it ended then. None when
        /// it ended with this event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_sign_at: Option<i64>,
    },
    /// The owner learned a task's end by reading it, so no notice is owed any more.
    TaskLearned {
        /// The task.
        task: TaskId,
    },
    /// What a stop ended.
    Stopped {
        /// The receipt.
        receipt: Receipt,
    },
    /// A call may not go ahead before the person was asked.
    Asked {
        /// The question.
        ask: AskId,
        /// The call that waits.
        call: CallId,
        /// Its tool.
        tool: String,
        /// What it would do.
        action: Action,
        /// What an answer for more than one call would allow; none where only this call can be allowed.
        allows: Option<Allowed>,
        /// Why it is asked.
        reason: Reason,
        /// What the model says that the call is for, if it says so.
        #[serde(default)]
        said: Option<String>,
    },
    /// The person answered an ask. Any answer but `later` is final.
    Decided {
        /// The question.
        ask: AskId,
        /// The `n` of its `Asked`.
        asked: i64,
        /// The answer.
        decision: Decision,
        /// A word to the agent.
        note: Option<String>,
        /// Whether the call still waited. Where it did not, what was allowed once is owed to a later call of the session.
        waited: bool,
    },
    /// An ask was taken back: its call was stopped, or asked anew.
    Withdrawn {
        /// The question.
        ask: AskId,
        /// The `n` of its `Asked`.
        asked: i64,
        /// Why, for people.
        reason: String,
    },
    /// A call did what was allowed once to an earlier one that had ended before the person answered.
    LeaveTaken {
        /// The question.
        ask: AskId,
        /// The `n` of its `Asked`.
        asked: i64,
        /// The call.
        call: CallId,
    },
    /// The person changed what the session may do without asking.
    ModeSet {
        /// From here on.
        mode: Mode,
    },
    /// The session was given another title.
    Renamed {
        /// The new title.
        title: String,
    },
    /// The session was put into the archive with all below it, or taken out again. A turn that begins takes it out too.
    Archived {
        /// Whether it is in the archive from here on.
        archived: bool,
    },
    /// An event that this build does not know.
    #[serde(skip)]
    Unknown {
        /// Its kind.
        kind: String,
        /// Its version.
        version: u32,
        /// Its body, untouched.
        body: Value,
    },
}

impl Event {
    /// The kind's name as it stands in the store.
    pub fn kind(&self) -> &str {
        match self {
            Self::SessionOpened { .. } => "session_opened",
            Self::Described(_) => "described",
            Self::Seeded { .. } => "seeded",
            Self::MessageAccepted { .. } => "message_accepted",
            Self::MessageAdmitted { .. } => "message_admitted",
            Self::MessageDeferred { .. } => "message_deferred",
            Self::MessageDropped { .. } => "message_dropped",
            Self::TurnStarted { .. } => "turn_started",
            Self::StepStarted { .. } => "step_started",
            Self::NoticeAdmitted { .. } => "notice_admitted",
            Self::Answered { .. } => "answered",
            Self::ToolFinished { .. } => "tool_finished",
            Self::FileChanging { .. } => "file_changing",
            Self::Undone { .. } => "undone",
            Self::Noted { .. } => "noted",
            Self::Told { .. } => "told",
            Self::Clashed { .. } => "clashed",
            Self::ModelRetried { .. } => "model_retried",
            Self::TurnEnded { .. } => "turn_ended",
            Self::Warned { .. } => "warned",
            Self::Limited { .. } => "limited",
            Self::TaskStarted { .. } => "task_started",
            Self::TaskStopping { .. } => "task_stopping",
            Self::TaskSettled { .. } => "task_settled",
            Self::TaskLearned { .. } => "task_learned",
            Self::Stopped { .. } => "stopped",
            Self::Asked { .. } => "asked",
            Self::Decided { .. } => "decided",
            Self::Withdrawn { .. } => "withdrawn",
            Self::LeaveTaken { .. } => "leave_taken",
            Self::ModeSet { .. } => "mode_set",
            Self::Renamed { .. } => "renamed",
            Self::Archived { .. } => "archived",
            Self::Unknown { kind, .. } => kind,
        }
    }

    /// The version it is kept under.
    pub fn version(&self) -> u32 {
        match self {
            Self::Unknown { version, .. } => *version,
            _ => VERSION,
        }
    }

    /// The body as it stands in the store: a JSON object without the kind.
    pub fn body(&self) -> Value {
        if let Self::Unknown { body, .. } = self {
            return body.clone();
        }
        // Every known event is a struct of plain fields, so it always serialises to an object.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.remove("kind");
        }
        value
    }

    /// Reads an event back. What this build cannot read comes back as [`Event::Unknown`], with nothing lost.
    pub fn read(kind: &str, version: u32, body: Value) -> Self {
        let unknown = |body| Self::Unknown { kind: kind.to_owned(), version, body };
        if version > VERSION {
            return unknown(body);
        }
        let mut tagged = body.clone();
        match tagged.as_object_mut() {
            Some(object) => object.insert("kind".to_owned(), Value::from(kind)),
            None => return unknown(body),
        };
        serde_json::from_value(tagged).unwrap_or_else(|_| unknown(body))
    }

    /// The `n` of the earlier event of the same session that this one completes, so that what people see of that
    /// event changes: a call's result, a message's receipt, a notice that was told.
    pub fn about(&self) -> Option<i64> {
        match self {
            Self::MessageAdmitted { message, .. }
            | Self::MessageDeferred { message, .. }
            | Self::MessageDropped { message, .. } => Some(*message),
            Self::NoticeAdmitted { settled, .. } => Some(*settled),
            Self::ToolFinished { answer, .. } => Some(*answer),
            Self::Decided { asked, .. } | Self::Withdrawn { asked, .. } => Some(*asked),
            Self::Told { note, .. } => Some(*note),
            _ => None,
        }
    }
}
