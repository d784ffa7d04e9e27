//! The wire: one table of commands, served to the window, to scripts, to the terminal and to tests.

pub(crate) mod handlers;
pub(crate) mod types;

use crate::host::Host;
use crate::push::{Push, Quit};
use coppice_engine::config::{Limits, Notices};
use coppice_engine::engine::{ModelView, Page, Undoing};
use coppice_engine::error::Code;
use coppice_engine::event::{Mode, Receipt};
use coppice_engine::id::{SessionId, TaskId};
use coppice_engine::view::{Frame, Sent, SessionView, TaskView, Tokens};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ts_rs::TS;

pub use types::*;

/// A command, for people and for TypeScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name on the wire.
    pub name: &'static str,
    /// The type of its arguments.
    pub args: &'static str,
    /// The type of its answer.
    pub ok: &'static str,
    /// What it does, in a sentence.
    pub what: &'static str,
}

/// Ties each command's name, types, description and handler together, so that none of them can disagree.
macro_rules! commands {
    ($($what:literal $name:ident($args:ident) -> $ok:ident;)*) => {
        /// The table: every command there is.
        pub const TABLE: &[Row] = &[$(Row {
            name: stringify!($name),
            args: stringify!($args),
            ok: stringify!($ok),
            what: $what,
        }),*];

        /// Does one command. `bad_request` names an unknown command and the argument that does not fit.
        pub async fn dispatch(host: &Host, cmd: &str, args: Value) -> Result<Value, Failed> {
            match cmd {
                $(stringify!($name) => {
                    let args: $args = read(args)?;
                    let ok: $ok = handlers::$name(host, args).await?;
                    write(&ok)
                })*
                _ => Err(Failed::bad_request(format!(
                    "There is no command {cmd:?}. `coppice rpc --help` names all there are."
                ))),
            }
        }
    };
}

commands! {
    "Opens a session in a folder." open(OpenArgs) -> Opened;
    "Gives a root session a prompt; durable when it answers." prompt(PromptArgs) -> Prompted;
    "Sends a message to a child: joins its running turn, or wakes it." send(SendArgs) -> Sent;
    "Stops a turn, a branch, a task or everything, with proof." stop(StopArgs) -> Receipt;
    "Sessions and tasks." tree(TreeArgs) -> Tree;
    "Background tasks." tasks(TasksArgs) -> Tasks;
    "A part of a task's output." output(OutputArgs) -> Output;
    "Waits for a task or a session." wait(WaitArgs) -> Waited;
    "Rows of a transcript, as people see it." page(PageArgs) -> Page;
    "The log of a session itself." events(EventsArgs) -> Events;
    "Pushes a frame whenever something changes." subscribe(SubscribeArgs) -> Subscribed;
    "Tokens, cost and requests of a session and its branch." usage(SessionArgs) -> Usage;
    "What is configured, and what works." models(Nothing) -> Models;
    "The limits in force, and how far they are used." limits(LimitsArgs) -> LimitsView;
    "Gives a tree limits of its own." set_limits(SetLimitsArgs) -> Nothing;
    "What waits for the person's leave, and with `all` what was decided lately." asks(AsksArgs) -> Asks;
    "Answers an ask." answer(AnswerArgs) -> Answered;
    "Changes what a session may do without asking." set_mode(SetModeArgs) -> Nothing;
    "What is allowed for more than one call." allowances(Nothing) -> Allowances;
    "Takes such an allowance back." disallow(DisallowArgs) -> Nothing;
    "Where the keys of models are; no secrets." keys(KeysArgs) -> Keys;
    "Keeps the key of a model server." set_key(SetKeyArgs) -> Nothing;
    "Removes such a key." remove_key(RemoveKeyArgs) -> RemovedKey;
    "A report about this machine and this process, without secrets." diagnostics(Nothing) -> Diagnostics;
    "Version, folders, and what is to be known at the start." about(Nothing) -> About;
    "Puts a session with all below it out of the way, or brings it back." archive(ArchiveArgs) -> Receipt;
    "Deletes a session with all below it." delete(DeleteArgs) -> Deleted;
    "Takes changes of files back, the latest first." undo(UndoArgs) -> Undoing;
    "Gives a session another title." rename(RenameArgs) -> Nothing;
    "Brings the window to the front, at a session." raise(RaiseArgs) -> Nothing;
    "Stops everything in order; then the process ends." shutdown(ShutdownArgs) -> Receipt;
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, Failed> {
    let args = match args {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::Object(_) => args,
        _ => return Err(Failed::bad_request("The arguments do not fit: they are an object, by name.")),
    };
    serde_path_to_error::deserialize(args).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        Failed::bad_request(match path.as_str() {
            "." | "?" | "" => format!("The arguments do not fit: {inner}."),
            path => format!("The argument `{path}` does not fit: {inner}."),
        })
    })
}

fn write<T: Serialize>(ok: &T) -> Result<Value, Failed> {
    serde_json::to_value(ok).map_err(|error| Failed {
        code: Code::Internal,
        message: format!("The answer could not be written down: {error}."),
    })
}

/// The types and the table as TypeScript, for the window.
pub fn typescript() -> String {
    let mut out = String::from("// Made from the Rust types by the tests; change them there.\n\n");
    out.push_str(&types_text());
    out.push_str("\nexport interface Commands {\n");
    for Row { name, args, ok, what } in TABLE {
        out.push_str(&format!("  /** {what} */\n  {name}: {{ args: {args}; ok: {ok} }};\n"));
    }
    out.push_str("}\n");
    out
}

/// All types of the wire, as TypeScript declarations.
pub fn types_text() -> String {
    use coppice_engine::action::{Action, Allowed, Reason, Rule};
    use coppice_engine::budget::Spent as LimitUse;
    use coppice_engine::config::{Desktop, Protocol};
    use coppice_engine::engine::{UndoHow, UndoneFile};
    use coppice_engine::event::{
        Decision, Party, ReceiptItem, ReceiptProcess, Route, Stop, TaskStatus, TreeLimits, TurnEnd,
    };
    use coppice_engine::id::{AskId, CallId};
    use coppice_engine::keys::{KeyPlace, KeyView};
    use coppice_engine::view;
    let config = ts_rs::Config::new().with_large_int("number");
    let mut out = String::new();
    macro_rules! declare {
        ($($type:ty),* $(,)?) => {
            $(out.push_str("export "); out.push_str(&<$type as TS>::decl(&config)); out.push('\n');)*
        };
    }
    declare!(
        SessionId,
        TaskId,
        CallId,
        AskId,
        Code,
        Mode,
        Decision,
        Action,
        Allowed,
        Reason,
        Rule,
        Party,
        Stop,
        TurnEnd,
        TaskStatus,
        Route,
        Receipt,
        ReceiptItem,
        ReceiptProcess,
        Protocol,
        Desktop,
        Limits,
        TreeLimits,
        Notices,
        ModelView,
        Page,
        Sent,
        view::SessionState,
        Tokens,
        SessionView,
        TaskView,
        view::AskView,
        view::AskState,
        view::Lineage,
        view::AllowanceView,
        view::MessageReceipt,
        view::Row,
        view::RowBody,
        view::ToolRow,
        view::ToolResultRow,
        view::LiveView,
        view::LiveBlock,
        view::LiveKind,
        view::LiveCall,
        Frame,
        OpenArgs,
        Opened,
        PromptArgs,
        Prompted,
        SendArgs,
        StopWhat,
        StopArgs,
        TreeArgs,
        Tree,
        TasksArgs,
        Tasks,
        OutputArgs,
        Output,
        WaitArgs,
        Waited,
        PageArgs,
        EventsArgs,
        EventView,
        Events,
        SubscribeArgs,
        Subscribed,
        SessionArgs,
        Usage,
        Spent,
        Models,
        LimitsArgs,
        LimitUse,
        LimitsView,
        SetLimitsArgs,
        AsksArgs,
        Asks,
        AnswerArgs,
        Answered,
        SetModeArgs,
        Allowances,
        DisallowArgs,
        KeyPlace,
        KeyView,
        KeysArgs,
        Keys,
        SetKeyArgs,
        RemoveKeyArgs,
        RemovedKey,
        Diagnostics,
        About,
        ArchiveArgs,
        DeleteArgs,
        Deleted,
        UndoArgs,
        UndoHow,
        UndoneFile,
        Undoing,
        RenameArgs,
        RaiseArgs,
        ShutdownArgs,
        Nothing,
        Failed,
        Push,
        Quit,
    );
    out
}
