//! What people see, as types: the tree, the rows of a transcript, receipts. Folds over events make them; the wire
//! carries them; the window draws them.

use crate::action::{Action, Allowed, Reason};
use crate::event::{Decision, Mode, Party, Receipt, Route, Stop, TaskStatus, TurnEnd};
use crate::id::{AskId, CallId, SessionId, TaskId};
use crate::text::grouped;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

pub mod rows;

/// The state of a session, as the tree shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// No run of its own now.
    Idle,
    /// Accepted, no first sign yet.
    Starting,
    /// At work.
    Running,
    /// Paused for a decision or an answer of the person.
    Waiting,
    /// Asked to end, not yet proven ended.
    Stopping,
    /// The last activation ended with a result.
    Completed,
    /// The last activation ended with an error.
    Failed,
    /// The last activation ended by a stop.
    Killed,
    /// Coppice crashed or quit while it ran.
    Interrupted,
    /// No sign of life for too long; it cannot be told whether it still works.
    Unverified,
}

impl SessionState {
    /// Whether something of its own runs, or is not known to have ended.
    pub fn is_live(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Waiting | Self::Stopping | Self::Unverified => true,
            Self::Idle | Self::Completed | Self::Failed | Self::Killed | Self::Interrupted => false,
        }
    }
}

/// Tokens of a session, summed over its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Tokens {
    /// Tokens read, cached ones included.
    pub input: i64,
    /// Tokens written.
    pub output: i64,
    /// The part of `input` that came from a cache.
    pub cached: i64,
    /// True when a part of the sum is an estimate.
    pub estimated: bool,
    /// How many requests were made.
    pub requests: i64,
}

impl Tokens {
    /// The sum of two. The figures are a server's word, so they may be absurd.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
            estimated: self.estimated || other.estimated,
            requests: self.requests.saturating_add(other.requests),
        }
    }
}

/// A session as the tree shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// The session that delegated it; none for a root.
    pub parent: Option<SessionId>,
    /// The root of its tree.
    pub root: SessionId,
    /// 0 for a root.
    pub depth: u32,
    /// Its name for people.
    pub title: String,
    /// The label that its parent gave it.
    pub label: Option<String>,
    /// The subagent provider that runs it; none for a root.
    pub provider: Option<String>,
    /// The name of its model in the configuration.
    pub model: String,
    /// What it may do without asking.
    pub mode: Mode,
    /// The folder it works in.
    pub cwd: String,
    /// Its own state.
    pub state: SessionState,
    /// What it does now, or how it ended, in a few words; empty when there is nothing to add to the state.
    pub detail: String,
    /// How many sessions and commands run below it.
    pub live_below: u32,
    /// How many asks wait for the person, its own and those below it.
    pub needs_you: u32,
    /// Its last activation; none for a root.
    pub task: Option<TaskId>,
    /// When an event last came for it.
    pub last_sign_at: i64,
    /// When it came to be.
    pub created_at: i64,
    /// When that was asked which its branch is at, or was at last: a message came while nothing of the branch was at work.
    /// None before the first.
    pub asked_at: Option<i64>,
    /// When the last turn of its branch ended; none while something of it is at work, or before the first.
    pub rested_at: Option<i64>,
    /// How long its own turns since `asked_at` took, in milliseconds, without the one that runs.
    pub worked_ms: i64,
    /// When its running turn began, or its last one; none before the first.
    pub started_at: Option<i64>,
    /// When its last turn ended; none while one runs.
    pub ended_at: Option<i64>,
    /// Who stopped its last turn or activation, when it was stopped.
    pub stopped_by: Option<Party>,
    /// The step that it is at, or was last at; 0 before the first.
    pub step: u32,
    /// Whether it was put into the archive, with all below it. What stands below an archived session is out of the way
    /// with it, and says so only when it was archived by itself.
    pub archived: bool,
    /// What a steer would have to wait for: true while a turn runs and takes messages.
    pub steerable: bool,
    /// Its own tokens.
    pub tokens: Tokens,
    /// Its own cost in US dollars; none when it cannot be told.
    pub cost: Option<f64>,
    /// The `n` of its last event.
    pub last_n: i64,
}

/// A background task as the tree shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct TaskView {
    /// Its id.
    pub id: TaskId,
    /// `bash` or `subagent`.
    pub kind: String,
    /// What it does, for people.
    pub label: String,
    /// The session that owns it.
    pub owner: SessionId,
    /// The child session that it activates; none for a command.
    pub child: Option<SessionId>,
    /// Its status.
    pub status: TaskStatus,
    /// How it ended, for people.
    pub detail: Option<String>,
    /// Who stopped it, when it was killed.
    pub killed_by: Option<Party>,
    /// When it began.
    pub started_at: i64,
    /// When it ended; none while it lives.
    pub settled_at: Option<i64>,
}

/// A question to the person, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct AskView {
    /// Its id.
    pub id: AskId,
    /// The session that asks.
    pub session: SessionId,
    /// From the root of its tree down to the session that asks.
    pub lineage: Vec<Lineage>,
    /// The folder of that session.
    pub cwd: String,
    /// The call that asks.
    pub call: CallId,
    /// Its tool.
    pub tool: String,
    /// What it would do, exactly.
    pub action: Action,
    /// What an answer for more than one call would allow; none where only this call can be allowed.
    pub allows: Option<Allowed>,
    /// Why it is asked.
    pub reason: Reason,
    /// What the model says that the call is for, in one line; none where it does not say so.
    pub said: Option<String>,
    /// The `n` of its event.
    pub n: i64,
    /// When it was asked.
    pub asked_at: i64,
    /// What became of it.
    pub state: AskState,
    /// The person's word to the agent, or why it was taken back.
    pub note: Option<String>,
    /// When it was answered or taken back.
    pub decided_at: Option<i64>,
    /// Whether the call still waits for the answer. Otherwise an answer wakes the session, which may make the call again.
    pub waits: bool,
    /// Whether leave for one call was given and not made use of yet.
    pub owed: bool,
    /// How many calls an answer for more than one has let through since.
    pub used: u32,
}

/// A session by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Lineage {
    /// The session.
    pub id: SessionId,
    /// Its name for people.
    pub title: String,
}

/// What became of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum AskState {
    /// It waits.
    Open,
    /// It waits, and the person has put it off.
    Later,
    /// Allowed for one call.
    Once,
    /// Allowed for the session that asked and all below it.
    Branch,
    /// Allowed for good, in this folder.
    Always,
    /// Refused.
    Denied,
    /// Taken back before it was answered.
    Withdrawn,
}

impl AskState {
    /// What became of it, in a few words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Open => "waits for you",
            Self::Later => "waits for you, not now",
            Self::Once => "allowed once",
            Self::Branch => "allowed for the branch",
            Self::Always => "allowed always",
            Self::Denied => "denied",
            Self::Withdrawn => "taken back",
        }
    }
}

impl From<Decision> for AskState {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Once => Self::Once,
            Decision::Branch => Self::Branch,
            Decision::Always => Self::Always,
            Decision::Deny => Self::Denied,
            Decision::Later => Self::Later,
        }
    }
}

/// Something that is allowed for more than one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct AllowanceView {
    /// The ask whose answer allowed it.
    pub ask: AskId,
    /// The session that it holds for, with all below it; none when it holds for every session in the folder.
    pub session: Option<SessionId>,
    /// The folder.
    pub cwd: String,
    /// What is allowed.
    pub what: Allowed,
    /// Since when.
    pub since: i64,
    /// How many calls it has let through.
    pub used: u32,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum MessageReceipt {
    /// Durable, waits for the next step.
    Accepted,
    /// The model read it.
    Admitted {
        /// At this step.
        step: u32,
        /// By this way.
        route: Route,
    },
    /// Durable, and not read yet: the turn that was to read it was cut short. The next turn reads it.
    Deferred {
        /// Why.
        reason: String,
    },
    /// It was not delivered.
    NotDelivered {
        /// Why.
        reason: String,
    },
}

/// What became of a message to a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Sent {
    /// It joined the running turn, or started one.
    pub route: Route,
    /// The activation that reads it.
    pub task: TaskId,
}

/// One item of a transcript, as people see it. `n` and `part` together name it and give its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Row {
    /// The `n` of the event it shows.
    pub n: i64,
    /// Its position among the rows of that event.
    pub part: u32,
    /// When that event happened.
    pub at: i64,
    /// The step it belongs to, where it belongs to one.
    pub step: Option<u32>,
    /// What it is.
    #[serde(flatten)]
    pub body: RowBody,
}

/// What a row shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RowBody {
    /// What a child was asked by its parent.
    AskText {
        /// The session that asked.
        asker: SessionId,
        /// The words.
        text: String,
        /// What became of it.
        receipt: MessageReceipt,
    },
    /// A person's message.
    Message {
        /// The words.
        text: String,
        /// What became of it.
        receipt: MessageReceipt,
    },
    /// Prose of the model.
    Answer {
        /// Markdown, at most 256 KiB and a word about what is left out.
        text: String,
        /// Why the reply ended.
        stop: Stop,
    },
    /// Reasoning that the model let us see.
    Thinking {
        /// The words.
        text: String,
    },
    /// A tool call.
    Tool(ToolRow),
    /// A call that started a child.
    Delegation(ToolRow),
    /// A task of this session ended.
    Notice {
        /// The task.
        task: TaskId,
        /// `bash` or `subagent`.
        task_kind: String,
        /// Its label.
        label: String,
        /// The child session; none for a command.
        child: Option<SessionId>,
        /// How it ended.
        status: TaskStatus,
        /// How it ended, for people.
        detail: Option<String>,
        /// Who stopped it.
        killed_by: Option<Party>,
        /// How long it ran, in milliseconds.
        ran_ms: i64,
        /// The step at which the owner was told; none while it is not.
        told_at_step: Option<u32>,
    },
    /// What a stop ended.
    Decision {
        /// The receipt.
        receipt: Receipt,
    },
    /// The person is, or was, asked whether a call may go ahead.
    Ask {
        /// The question.
        ask: AskId,
        /// The call.
        call: CallId,
        /// Its tool.
        tool: String,
        /// What it would do, exactly, and at most 8 KiB of each part.
        action: Action,
        /// Why it is asked.
        reason: Reason,
        /// What became of it.
        state: AskState,
        /// The person's word to the agent, or why it was taken back.
        note: Option<String>,
    },
    /// The person changed what the session may do without asking.
    Mode {
        /// From here on.
        mode: Mode,
    },
    /// Something went wrong.
    Fault {
        /// What, for people.
        text: String,
        /// True when it was mended and nothing is left to do.
        repaired: bool,
    },
    /// The child begins with the history of its parent.
    Seed {
        /// The parent.
        from: SessionId,
        /// How many of its turns.
        turns: u32,
    },
    /// The model was told that a limit is near.
    Warning {
        /// The limit's name in the configuration.
        limit: String,
        /// What was used of it, in its unit.
        used: i64,
        /// What may be used.
        most: i64,
        /// What happened, for people.
        text: String,
    },
    /// Changes of files were taken back, by a person.
    Undone {
        /// How many changes.
        edits: u32,
        /// The files, as people call them, at most 100.
        files: Vec<String>,
    },
    /// Something that the model is told at its next step.
    Note {
        /// The words.
        text: String,
        /// The step at which it was told; none while it is not.
        told_at_step: Option<u32>,
    },
    /// Two sessions write one file within a short time.
    Clash {
        /// The file.
        path: String,
        /// Who wrote it first.
        first: SessionId,
        /// The label of that one.
        first_label: String,
        /// Who came later.
        later: SessionId,
        /// The label of that one.
        later_label: String,
    },
    /// A turn ended in another way than by a plain answer.
    TurnEnd {
        /// How.
        end: TurnEnd,
        /// Who stopped it, when it was stopped.
        by: Option<Party>,
        /// Why.
        detail: Option<String>,
    },
    /// An event that this build does not know.
    Unknown {
        /// Its kind in the store.
        event: String,
    },
}

/// A tool call as a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ToolRow {
    /// The call.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// What it works on, in a few words: a path, a pattern, a command, a label.
    pub target: String,
    /// The arguments as the model wrote them, at most 4 KiB.
    pub args: String,
    /// The result; none while it runs.
    pub result: Option<ToolResultRow>,
}

/// The result of a tool call as a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ToolResultRow {
    /// Whether it did what was asked.
    pub ok: bool,
    /// The end of what the model read, at most 4 KiB.
    pub text: String,
    /// How many bytes the whole text has.
    pub bytes: i64,
    /// How many lines the whole text has.
    pub lines: i64,
    /// Facts from the tool: `exit`, `task`, `child`, `added`, `removed`, `diff`, `can_undo`, `hits`, `cut_off`, ...; an
    /// object, or null. A string in it has at most 8 KiB.
    #[ts(type = "Record<string, unknown> | null")]
    pub detail: Value,
    /// How long it ran, in milliseconds.
    pub ms: i64,
}

/// What a session says at this moment, before it is an event: the reply that streams and the calls that run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct LiveView {
    /// When it last changed. Whoever begins to follow is told all of it at once, so that this may be long ago.
    pub at: i64,
    /// The step.
    pub step: u32,
    /// The parts of the reply so far, in order.
    pub blocks: Vec<LiveBlock>,
    /// Output of the calls that run, its last lines.
    pub calls: Vec<LiveCall>,
}

/// A part of a reply that streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct LiveBlock {
    /// `text`, `thinking` or `tool_call`.
    #[serde(rename = "type")]
    pub kind: LiveKind,
    /// The tool's name, for a tool call.
    pub name: Option<String>,
    /// Whether that tool gives work to a child.
    pub delegates: bool,
    /// Where `text` begins, in characters (UTF-16 units) from the start of the block: earlier text was sent before.
    pub from: usize,
    /// What came since.
    pub text: String,
}

/// What kind of part streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum LiveKind {
    /// Prose.
    Text,
    /// Reasoning.
    Thinking,
    /// The arguments of a tool call.
    ToolCall,
}

/// A call that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct LiveCall {
    /// The call.
    pub call: CallId,
    /// The last lines of its output, at most 4 KiB.
    pub tail: String,
}

/// One push to a subscriber: what changed since the last one. Rows belong to the session it subscribed to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct Frame {
    /// The log position up to which this frame tells everything.
    pub seq: i64,
    /// Sessions that are new or changed.
    pub sessions: Vec<SessionView>,
    /// Sessions that were deleted.
    pub removed: Vec<SessionId>,
    /// Tasks that are new or changed.
    pub tasks: Vec<TaskView>,
    /// Asks that are new or changed.
    pub asks: Vec<AskView>,
    /// Rows of the open session that are new or changed, in order.
    pub rows: Vec<Row>,
    /// What the open session says now; none when nothing changed since the last frame.
    pub live: Option<LiveView>,
    /// One line for the status line, when it changed: why nothing can be saved now; empty when all is well again.
    pub status: Option<String>,
}

/// How much of a limit is used, for people and models: `120,000 of 150,000 tokens`.
pub fn spent(limit: &str, used: u64, most: u64) -> String {
    let unit = match limit {
        "wall_clock_s" => "s at work",
        other => other,
    };
    format!("{} of {} {unit}", grouped(used), grouped(most))
}
