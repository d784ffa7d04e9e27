//! What a stop came to.

use crate::event::Party;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What a stop ended, as it was seen to end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Receipt {
    /// What was asked: `turn`, `branch`, `task` or `everything`.
    pub what: String,
    /// The name of what was stopped, for people.
    pub label: String,
    /// Who asked.
    pub by: Option<Party>,
    /// What ended (or, in a preview, would end).
    pub ended: Vec<ReceiptItem>,
    /// What lives on below what was stopped.
    pub kept: Vec<ReceiptItem>,
    /// Every process that was seen, and whether it was seen gone (or, in a preview, that lives and would end).
    pub processes: Vec<ReceiptProcess>,
    /// What could not be proven, in words.
    pub unconfirmed: Vec<String>,
    /// How long it took, in milliseconds.
    pub ms: i64,
}

/// One thing that a stop ended or left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ReceiptItem {
    /// `turn`, `task` or `child`.
    pub kind: String,
    /// The session's id for a turn or child, the task's for a task.
    pub id: String,
    /// Its name for people.
    pub label: String,
}

/// A process that a stop saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ReceiptProcess {
    /// The process id.
    pub pid: u32,
    /// When it started, in milliseconds since the Unix epoch.
    pub started_at: i64,
    /// Whether it was seen gone.
    pub gone: bool,
}
