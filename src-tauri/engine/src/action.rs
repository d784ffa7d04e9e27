//! What a call would do, and what is said when it may not at once: the words that permissions, asks, tools and the log
//! share.

use crate::text::plain;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use ts_rs::TS;

/// The longest name of a file in a few words, in characters.
const NAMED: usize = 60;

/// What a call would do. Relative paths start from the call's folder; `~` is a name like any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// It reads a file, or looks through a folder.
    Read {
        /// As the model wrote it.
        path: PathBuf,
    },
    /// It makes, changes or replaces a file.
    Write {
        /// As the model wrote it.
        path: PathBuf,
        /// What the person is shown of the change. It does not weigh in the judgement.
        diff: String,
    },
    /// It hands a text to the shell.
    Command {
        /// The exact text.
        text: String,
        /// Whether the call ends before the command does. It does not weigh in the judgement.
        background: bool,
    },
}

impl Action {
    /// What it is, in a few words for people.
    pub fn words(&self) -> String {
        match self {
            Self::Read { path } => format!("read {}", plain(&path.to_string_lossy(), NAMED)),
            Self::Write { path, .. } => format!("write {}", plain(&path.to_string_lossy(), NAMED)),
            Self::Command { .. } => "run a command".to_owned(),
        }
    }

    /// What it is done to: the whole path, the whole command.
    pub fn exact(&self) -> String {
        match self {
            Self::Read { path } | Self::Write { path, .. } => path.to_string_lossy().into_owned(),
            Self::Command { text, .. } => text.clone(),
        }
    }
}

/// Why a call does not go ahead at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Reason {
    /// Which rule holds it.
    pub rule: Rule,
    /// One or two sentences for the person and the model. They may quote what the model wrote, on one line and cut.
    pub text: String,
}

/// A rule that holds a call. The names are kept in the log: they do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The session may only look.
    ReadOnly,
    /// The session asks before it writes.
    Writes,
    /// Another session of the same tree wrote the file lately.
    Shared,
    /// The path leads out of the session's folder.
    Outside,
    /// What git keeps for itself can make git run programs.
    Repository,
    /// Keys and passwords are kept there by convention.
    Keys,
    /// Coppice keeps its own data there. No mode and no answer lets a call in.
    OwnData,
    /// The memory or the environment of a process. No mode and no answer lets a call in.
    Processes,
    /// It cannot be told where the path leads, so no tool could use it either.
    Unresolved,
    /// The command holds something that cannot be judged.
    Unclear,
    /// The command runs a program that is not known to only read.
    Unknown,
    /// The command uses a program that can only read in a way that may do more.
    Usage,
    /// The command sends its output to a file.
    Redirection,
    /// The command changes a variable that programs or the shell obey.
    Variable,
    /// The command could destroy something, or get out of hand.
    Danger,
    /// The command only reads, but nothing here could hold it to that.
    Unconfined,
}

/// An answer that holds for more than one call: exactly this, in this folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Allowance {
    /// What may be done.
    pub what: Allowed,
    /// The folder of the sessions that it holds for.
    pub cwd: PathBuf,
    /// For whom it holds. Whoever gathers the allowances of a session looks at it; a judgement takes all it is given.
    pub scope: Scope,
}

/// What an allowance lets through. Nothing in it is a pattern or a beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Allowed {
    /// Reading this file or folder, by its real path.
    Read {
        /// Where it really is.
        path: PathBuf,
    },
    /// Writing this file, by its real path, whatever the change.
    Write {
        /// Where it really is.
        path: PathBuf,
    },
    /// This command, byte for byte.
    Command {
        /// Its text.
        text: String,
    },
}

/// For whom an allowance holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For the session that asked and all below it.
    Branch,
    /// For every session with this folder, for good.
    Always,
}
