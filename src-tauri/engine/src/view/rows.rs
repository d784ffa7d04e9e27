//! Fold: an event and those that complete it -> the rows that people see.

use crate::event::{Event, Recorded};
use crate::view::Row;

/// Whether an event of this kind gives rows of its own.
pub fn gives_rows(kind: &str) -> bool {
    matches!(kind, "message_accepted" | "answered" | "model_retried" | "turn_ended" | "task_settled" | "stopped")
        || !KNOWN.contains(&kind)
}

const KNOWN: &[&str] = &[];

/// The rows of one event. `about` are the events that complete it, oldest first.
pub fn rows(event: &Recorded, about: &[Recorded]) -> Vec<Row> {
    let _ = (event, about, Event::Unknown { kind: String::new(), version: 0, body: serde_json::Value::Null });
    Vec::new()
}
