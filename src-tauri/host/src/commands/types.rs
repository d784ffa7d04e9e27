//! What the commands take and answer. The window's TypeScript is made from these.

mod secrets;

use coppice_engine::budget::Spent as LimitUse;
use coppice_engine::config::{Limits, Notices};
use coppice_engine::engine::ModelView;
use coppice_engine::error::{Code, Error};
use coppice_engine::event::{Decision, Mode, Receipt, Route, TreeLimits};
use coppice_engine::id::{AskId, CallId, SessionId, TaskId};
use coppice_engine::view::{AllowanceView, AskView, SessionView, TaskView, Tokens};
pub use secrets::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

/// Arguments of `open`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct OpenArgs {
    /// The folder it works in, absolute.
    pub cwd: String,
    /// A model of the configuration.
    #[ts(optional)]
    pub model: Option<String>,
    /// What it may do without asking.
    #[ts(optional)]
    pub mode: Option<Mode>,
    /// Its name for people.
    #[ts(optional)]
    pub title: Option<String>,
    /// Limits of its tree, in place of those of the configuration; 0 means none.
    #[ts(optional)]
    pub limits: Option<TreeLimits>,
    /// Client-minted: the same key twice opens once.
    pub key: String,
}

/// Answer of `open`.
#[derive(Debug, Serialize, TS)]
pub struct Opened {
    /// The session.
    pub session: SessionId,
}

/// Arguments of `prompt`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct PromptArgs {
    /// The root session.
    pub session: SessionId,
    /// The words.
    pub text: String,
    /// Client-minted.
    pub key: String,
}

/// Answer of `prompt`.
#[derive(Debug, Serialize, TS)]
pub struct Prompted {
    /// The event that holds the prompt.
    pub n: i64,
}

/// Arguments of `send`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct SendArgs {
    /// The child session.
    pub child: SessionId,
    /// The words.
    pub text: String,
    /// The only way that it may take: with another one it is not delivered.
    #[ts(optional)]
    pub expect: Option<Route>,
    /// Client-minted.
    pub key: String,
}

/// What a stop is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum StopWhat {
    /// The running turn of session `id`.
    Turn,
    /// Session `id` with everything below it.
    Branch,
    /// Task `id`.
    Task,
    /// Every live branch.
    Everything,
}

/// Arguments of `stop`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct StopArgs {
    /// What it is aimed at.
    pub what: StopWhat,
    /// The session or task; not with `everything`.
    #[ts(optional)]
    pub id: Option<String>,
    /// Why, for people and the model.
    #[ts(optional)]
    pub reason: Option<String>,
    /// Only tell what would end.
    #[ts(optional)]
    pub preview: Option<bool>,
    /// Client-minted.
    pub key: String,
}

/// Arguments of `tree`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct TreeArgs {
    /// Only the tree of this root.
    #[ts(optional)]
    pub root: Option<SessionId>,
}

/// Answer of `tree`.
#[derive(Debug, Serialize, TS)]
pub struct Tree {
    /// Sessions, oldest first.
    pub sessions: Vec<SessionView>,
    /// Tasks, oldest first.
    pub tasks: Vec<TaskView>,
}

/// Arguments of `tasks`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct TasksArgs {
    /// Only those that this session owns.
    #[ts(optional)]
    pub owner: Option<SessionId>,
}

/// Answer of `tasks`.
#[derive(Debug, Serialize, TS)]
pub struct Tasks {
    /// Tasks, oldest first.
    pub tasks: Vec<TaskView>,
}

/// Arguments of `output`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct OutputArgs {
    /// The task.
    pub task: TaskId,
    /// Where to begin, in bytes; 0 without one.
    #[ts(optional)]
    pub offset: Option<u64>,
    /// At most this many bytes.
    #[ts(optional)]
    pub limit: Option<usize>,
}

/// Answer of `output`.
#[derive(Debug, Serialize, TS)]
pub struct Output {
    /// The text; cuts fall on characters.
    pub text: String,
    /// The offset to read from next.
    pub next: u64,
    /// The size so far, in bytes.
    pub size: u64,
    /// Whether nothing comes any more.
    pub done: bool,
}

/// Arguments of `wait`: exactly one of `task` and `session`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct WaitArgs {
    /// The task to wait for.
    #[ts(optional)]
    pub task: Option<TaskId>,
    /// The session to wait for.
    #[ts(optional)]
    pub session: Option<SessionId>,
    /// At most this long; 30 s without one, never more than 600 s.
    #[ts(optional)]
    pub timeout_ms: Option<u64>,
}

/// Answer of `wait`: the task or session as it stands then, ended or not.
#[derive(Debug, Serialize, TS)]
#[serde(untagged)]
pub enum Waited {
    /// The task.
    Task(TaskView),
    /// The session.
    Session(Box<SessionView>),
}

/// Arguments of `page`: at most one of `before` and `after`; without both, the newest rows.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct PageArgs {
    /// The session.
    pub session: SessionId,
    /// The newest rows before this `n`.
    #[ts(optional)]
    pub before: Option<i64>,
    /// The oldest rows after this `n`.
    #[ts(optional)]
    pub after: Option<i64>,
    /// Of at most this many events.
    #[ts(optional)]
    pub limit: Option<usize>,
}

/// Arguments of `events`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct EventsArgs {
    /// The session.
    pub session: SessionId,
    /// Only after this `n`.
    #[ts(optional)]
    pub after: Option<i64>,
    /// At most this many.
    #[ts(optional)]
    pub limit: Option<usize>,
}

/// An event of the log on the wire.
#[derive(Debug, Serialize, TS)]
pub struct EventView {
    /// Its position in the session.
    pub n: i64,
    /// When.
    pub at: i64,
    /// Its kind.
    pub kind: String,
    /// Its version.
    pub v: u32,
    /// Its body.
    #[ts(type = "Record<string, unknown>")]
    pub body: Value,
}

/// Answer of `events`.
#[derive(Debug, Serialize, TS)]
pub struct Events {
    /// Oldest first.
    pub events: Vec<EventView>,
}

/// Arguments of `subscribe`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct SubscribeArgs {
    /// The session whose rows and live text are wanted too.
    #[ts(optional)]
    pub session: Option<SessionId>,
    /// Tell everything after this `seq`; only what is new without one.
    #[ts(optional)]
    pub after: Option<i64>,
}

/// Answer of `subscribe`; frames follow.
#[derive(Debug, Serialize, TS)]
pub struct Subscribed {
    /// Where the subscription starts.
    pub seq: i64,
}

/// Arguments of `usage`, and of nothing but a session.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct SessionArgs {
    /// The session.
    pub session: SessionId,
}

/// Answer of `usage`.
#[derive(Debug, Serialize, TS)]
pub struct Usage {
    /// The session's own.
    pub own: Spent,
    /// The session's with all below it.
    pub branch: Spent,
}

/// What was spent.
#[derive(Debug, Serialize, TS)]
pub struct Spent {
    /// Tokens and requests.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// US dollars; none when it cannot be told.
    pub cost: Option<f64>,
}

/// Answer of `models`.
#[derive(Debug, Serialize, TS)]
pub struct Models {
    /// In the order of their names.
    pub models: Vec<ModelView>,
}

/// Arguments of `limits`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct LimitsArgs {
    /// A session, for the limits of its tree; else those of a tree that has none of its own.
    #[ts(optional)]
    pub session: Option<SessionId>,
}

/// Answer of `limits`.
#[derive(Debug, Serialize, TS)]
pub struct LimitsView {
    /// The limits in force.
    pub limits: Limits,
    /// How far those of the tree are used that can be used up.
    pub spent: Vec<LimitUse>,
    /// When an owner is woken and a person is notified.
    pub notices: Notices,
}

/// Arguments of `set_limits`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct SetLimitsArgs {
    /// The root of the tree.
    pub session: SessionId,
    /// What is to change; 0 means none.
    pub limits: TreeLimits,
    /// Client-minted.
    pub key: String,
}

/// Arguments of `asks`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct AsksArgs {
    /// Also those that were answered or taken back lately.
    #[ts(optional)]
    pub all: Option<bool>,
}

/// Answer of `asks`.
#[derive(Debug, Serialize, TS)]
pub struct Asks {
    /// Those that wait, oldest first; then the others, newest first.
    pub asks: Vec<AskView>,
}

/// Arguments of `answer`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct AnswerArgs {
    /// The ask.
    pub ask: AskId,
    /// The answer.
    pub decision: Decision,
    /// A word to the agent, at most 4 KiB.
    #[ts(optional)]
    pub note: Option<String>,
    /// Client-minted.
    pub key: String,
}

/// Answer of `answer`.
#[derive(Debug, Serialize, TS)]
pub struct Answered {
    /// The ask as it stands now.
    pub ask: AskView,
}

/// Arguments of `set_mode`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct SetModeArgs {
    /// The session.
    pub session: SessionId,
    /// What it may do without asking, from its next call on.
    pub mode: Mode,
    /// Client-minted.
    pub key: String,
}

/// Answer of `allowances`.
#[derive(Debug, Serialize, TS)]
pub struct Allowances {
    /// What is allowed for more than one call, oldest first.
    pub allowances: Vec<AllowanceView>,
}

/// Arguments of `disallow`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct DisallowArgs {
    /// The ask whose answer is taken back.
    pub ask: AskId,
    /// Client-minted.
    pub key: String,
}

/// Answer of `about`: what a window shows before there is anything else to show.
#[derive(Debug, Serialize, TS)]
pub struct About {
    /// The version of Coppice.
    pub version: String,
    /// The process that holds the data folder.
    pub pid: u32,
    /// The data folder.
    pub data: String,
    /// The configuration file, which need not exist.
    pub config: String,
    /// The folder that a first session is offered.
    pub cwd: String,
    /// One line for the status line: leftovers of a crash, no notification service; none when all is well.
    pub status: Option<String>,
}

/// Arguments of `archive`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct ArchiveArgs {
    /// The session; all below it goes with it.
    pub session: SessionId,
    /// Into the archive, or out of it again; into it without one.
    #[ts(optional)]
    pub archived: Option<bool>,
    /// Stop what runs in it first; without, it is refused as `busy` when something does.
    #[ts(optional)]
    pub stop: Option<bool>,
    /// Client-minted.
    pub key: String,
}

/// Arguments of `delete`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct DeleteArgs {
    /// The session; all below it goes too.
    pub session: SessionId,
    /// Stop what runs in it first; without, it is refused as `busy` when something does.
    #[ts(optional)]
    pub stop: Option<bool>,
    /// Only tell what would go, and what would be stopped.
    #[ts(optional)]
    pub preview: Option<bool>,
    /// Client-minted.
    pub key: String,
}

/// Answer of `delete`: what went, and the receipt of what was stopped for it.
#[derive(Debug, Serialize, Deserialize, TS)]
pub struct Deleted {
    /// What was stopped; in a preview, what would be.
    #[serde(flatten)]
    pub receipt: Receipt,
    /// How many sessions went.
    pub sessions: u32,
    /// How many messages stood in them: those to a session, and the answers of its model.
    pub messages: u32,
}

/// Arguments of `undo`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct UndoArgs {
    /// Whose changes of files.
    pub session: SessionId,
    /// Only those of this row: of its calls, or of what was taken back there, which is put back then.
    #[ts(optional)]
    pub n: Option<i64>,
    /// Only those of this call.
    #[ts(optional)]
    pub call: Option<CallId>,
    /// Those of all sessions below it, too.
    #[ts(optional)]
    pub branch: Option<bool>,
    /// Only tell what would happen.
    #[ts(optional)]
    pub preview: Option<bool>,
    /// Client-minted.
    pub key: String,
}

/// Arguments of `rename`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct RenameArgs {
    /// The session.
    pub session: SessionId,
    /// Its new title.
    pub title: String,
    /// Client-minted.
    pub key: String,
}

/// Arguments of `shutdown`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct ShutdownArgs {
    /// How long it may take.
    #[ts(optional)]
    pub deadline_ms: Option<u64>,
}

/// Arguments of `raise`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct RaiseArgs {
    /// The session to show; the one that is open without one.
    #[ts(optional)]
    pub session: Option<SessionId>,
    /// An ask of that session to show.
    #[ts(optional)]
    pub ask: Option<AskId>,
}

/// No arguments, or nothing to answer.
#[derive(Debug, Serialize, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A failure on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Failed {
    /// What kind.
    pub code: Code,
    /// What happened and what to do, for people.
    pub message: String,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { code: error.code(), message: error.message().to_owned() }
    }
}

impl Failed {
    /// The request is malformed in this way.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self { code: Code::BadRequest, message: message.into() }
    }
}
