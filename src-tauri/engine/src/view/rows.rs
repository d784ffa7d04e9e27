//! Fold: an event and those that complete it -> the rows that people see.
//!
//! The rows of an event depend on that event, on the events that are about it ([`Event::about`]) and on facts that
//! never change after the event (who the parent is, how a settled task began), and on nothing else. So any prefix of a
//! log has its rows, and what comes later changes only the rows of the event that it completes. Of a call whose result
//! tells no child, which is one that runs or came to nothing, only the configuration knows that it delegates.

use crate::action::{Action, Reason};
use crate::event::{Block, Event, Party, Receipt, ReceiptItem, Recorded, TurnEnd};
use crate::id::{CallId, SessionId, TaskId};
use crate::text::{cut, plain};
use crate::view::{AskState, MessageReceipt, Row, RowBody, TaskView, ToolResultRow, ToolRow, spent};
use serde_json::Value;

mod target;

/// The longest arguments and the longest end of a result that a row carries, in bytes.
const MAX_PART: usize = 4 * 1024;

/// The longest text that a row carries, in bytes.
const MAX_TEXT: usize = 256 * 1024;

/// The longest string in the detail of a result, and how many entries a list in it has.
const MAX_DETAIL: usize = 8 * 1024;
const MAX_ENTRIES: usize = 100;

/// The longest one-line field of a row, in characters.
const MAX_LINE: usize = 400;

/// The longest target of a call, in characters.
const MAX_TARGET: usize = 120;

/// Every kind that this build knows.
const KNOWN: &[&str] = &[
    "session_opened",
    "described",
    "seeded",
    "message_accepted",
    "message_admitted",
    "message_deferred",
    "message_dropped",
    "turn_started",
    "step_started",
    "notice_admitted",
    "answered",
    "tool_finished",
    "file_changing",
    "undone",
    "noted",
    "told",
    "clashed",
    "model_retried",
    "turn_ended",
    "warned",
    "limited",
    "task_started",
    "task_stopping",
    "task_settled",
    "task_learned",
    "stopped",
    "renamed",
    "archived",
    "asked",
    "decided",
    "withdrawn",
    "leave_taken",
    "mode_set",
];

/// What the rows of a session need to know beyond its events.
pub struct Context<'a> {
    /// The session that delegated this one; none for a root.
    pub parent: Option<&'a SessionId>,
    /// Whether a tool of this name gives work to a child by today's configuration.
    pub delegates: &'a dyn Fn(&str) -> bool,
    /// Looks up a task that this session owns.
    pub facts: &'a dyn Fn(&TaskId) -> Option<TaskView>,
}

/// Whether an event of this kind gives rows of its own. Kinds that this build does not know do. An event of a known
/// kind that could not be read ([`Event::Unknown`]) gives a row too; its kind alone does not tell.
pub fn gives_rows(kind: &str) -> bool {
    matches!(
        kind,
        "message_accepted"
            | "answered"
            | "model_retried"
            | "turn_ended"
            | "task_settled"
            | "stopped"
            | "warned"
            | "seeded"
            | "asked"
            | "mode_set"
            | "undone"
            | "noted"
            | "clashed"
    ) || !KNOWN.contains(&kind)
}

/// The rows of one event. `about` are the events that complete it, oldest first.
pub fn rows(event: &Recorded, about: &[Recorded], context: &Context<'_>) -> Vec<Row> {
    let row = |part, step, body| Row { n: event.n, part, at: event.at, step, body };
    let one = |step, body| vec![row(0, step, body)];
    match &event.event {
        Event::MessageAccepted { from, text, .. } => {
            let (text, receipt) = (shown(text), receipt(about));
            match from {
                Party::Person => one(None, RowBody::Message { text, receipt }),
                // What Coppice tells the model is shown by what it tells of.
                Party::Runtime => Vec::new(),
                Party::Parent | Party::Owner | Party::Limit => {
                    let asker = context.parent.unwrap_or(&event.session).clone();
                    one(None, RowBody::AskText { asker, text, receipt })
                }
            }
        }
        Event::Answered { step, blocks, stop, .. } => {
            let body = |block: &Block| match block {
                Block::Text { text } => RowBody::Answer { text: shown(text), stop: *stop },
                Block::Thinking { text } => RowBody::Thinking { text: shown(text) },
                Block::ToolCall { id, name, args } => call(id, name, args, about, context),
            };
            (0..).zip(blocks).map(|(part, block)| row(part, Some(*step), body(block))).collect()
        }
        Event::ModelRetried { step, reason, waited_ms } => {
            let wait = if *waited_ms < 1000 { "at once".to_owned() } else { format!("after {} s", waited_ms / 1000) };
            let text = format!("{} (tried again {wait})", plain(reason, MAX_LINE));
            one(Some(*step), RowBody::Fault { text, repaired: true })
        }
        Event::Seeded { from, turns, .. } => one(None, RowBody::Seed { from: from.clone(), turns: *turns }),
        Event::Warned { limit, used, most, step, .. } => {
            let text = warning(limit, *used, *most);
            let number = |figure: u64| i64::try_from(figure).unwrap_or(i64::MAX);
            let limit = plain(limit, MAX_LINE);
            one(Some(*step), RowBody::Warning { limit, used: number(*used), most: number(*most), text })
        }
        Event::Undone { edits, files } => {
            let files = files.iter().take(MAX_ENTRIES).map(|file| plain(&file.shown, MAX_LINE)).collect();
            one(None, RowBody::Undone { edits: u32::try_from(edits.len()).unwrap_or(u32::MAX), files })
        }
        Event::Noted { text } => {
            let told_at_step = about.iter().find_map(|event| match &event.event {
                Event::Told { step, .. } => Some(*step),
                _ => None,
            });
            one(None, RowBody::Note { text: shown(text), told_at_step })
        }
        Event::Clashed { path, first, first_label, later, later_label } => one(
            None,
            RowBody::Clash {
                path: plain(path, MAX_LINE),
                first: first.clone(),
                first_label: plain(first_label, MAX_LINE),
                later: later.clone(),
                later_label: plain(later_label, MAX_LINE),
            },
        ),
        Event::TurnEnded { end, by, detail, step, .. } => {
            let detail = detail.as_deref().map(|detail| plain(detail, MAX_LINE));
            match end {
                TurnEnd::Completed => Vec::new(),
                TurnEnd::Failed => {
                    let text = detail.unwrap_or_else(|| "The turn failed, and no reason was given.".to_owned());
                    one(*step, RowBody::Fault { text, repaired: false })
                }
                TurnEnd::Stopped | TurnEnd::MaxTokens | TurnEnd::Refusal | TurnEnd::Limit | TurnEnd::Interrupted => {
                    one(*step, RowBody::TurnEnd { end: *end, by: *by, detail })
                }
            }
        }
        Event::TaskSettled { task, status, detail, killed_by, .. } => {
            // A log tells the start of a task before its end; should the start be missing, the end is still shown.
            let facts = (context.facts)(task);
            let kind = || task.as_str().rsplit_once('-').map_or(task.as_str(), |(kind, _)| kind).to_owned();
            one(
                None,
                RowBody::Notice {
                    task: task.clone(),
                    task_kind: facts.as_ref().map_or_else(kind, |facts| facts.kind.clone()),
                    label: plain(facts.as_ref().map_or(task.as_str(), |facts| &facts.label), MAX_LINE),
                    child: facts.as_ref().and_then(|facts| facts.child.clone()),
                    status: *status,
                    detail: detail.as_deref().map(|detail| plain(detail, MAX_LINE)),
                    killed_by: *killed_by,
                    // What a crash cut off ran until its last sign.
                    ran_ms: facts.map_or(0, |facts| (facts.settled_at.unwrap_or(event.at) - facts.started_at).max(0)),
                    told_at_step: about.iter().find_map(|event| match &event.event {
                        Event::NoticeAdmitted { step, .. } => Some(*step),
                        _ => None,
                    }),
                },
            )
        }
        Event::Stopped { receipt } => one(None, RowBody::Decision { receipt: readable(receipt) }),
        Event::Asked { ask, call, tool, action, reason, .. } => {
            let (state, note) = decided(about);
            let body = RowBody::Ask {
                ask: ask.clone(),
                call: call.clone(),
                tool: plain(tool, MAX_TARGET),
                action: legible(action),
                reason: Reason { rule: reason.rule, text: plain(&reason.text, MAX_LINE) },
                state,
                note,
            };
            one(None, body)
        }
        Event::ModeSet { mode } => one(None, RowBody::Mode { mode: *mode }),
        Event::Unknown { kind, .. } => one(None, RowBody::Unknown { event: plain(kind, MAX_LINE) }),
        Event::SessionOpened { .. }
        | Event::Described(_)
        | Event::MessageAdmitted { .. }
        | Event::MessageDeferred { .. }
        | Event::MessageDropped { .. }
        | Event::TurnStarted { .. }
        | Event::StepStarted { .. }
        | Event::NoticeAdmitted { .. }
        | Event::FileChanging { .. }
        | Event::Told { .. }
        | Event::ToolFinished { .. }
        | Event::TaskStarted { .. }
        | Event::TaskStopping { .. }
        | Event::TaskLearned { .. }
        | Event::Limited { .. }
        | Event::Decided { .. }
        | Event::Withdrawn { .. }
        | Event::LeaveTaken { .. }
        | Event::Renamed { .. }
        | Event::Archived { .. } => Vec::new(),
    }
}

/// What a model was told when a limit was near, for people.
fn warning(limit: &str, used: u64, most: u64) -> String {
    match limit {
        "same_calls" => format!("The same calls {used} times in a row with the same results; told to try another way"),
        "failed_steps" => format!("{used} steps in a row failed; told to try another way"),
        _ => {
            let part = used.saturating_mul(100) / most.max(1);
            format!("{part} % of its budget used, told to finish up: {}", spent(limit, used, most))
        }
    }
}

/// What became of an ask.
fn decided(about: &[Recorded]) -> (AskState, Option<String>) {
    let told = about.iter().rev().find_map(|event| match &event.event {
        Event::Decided { decision, note, .. } => {
            Some((AskState::from(*decision), note.as_deref().map(|note| plain(note, MAX_LINE))))
        }
        Event::Withdrawn { reason, .. } => Some((AskState::Withdrawn, Some(plain(reason, MAX_LINE)))),
        _ => None,
    });
    told.unwrap_or((AskState::Open, None))
}

/// An action as a row carries it.
fn legible(action: &Action) -> Action {
    let short = |text: &str| cut(text, MAX_DETAIL).to_owned();
    match action {
        Action::Read { path } => Action::Read { path: path.clone() },
        Action::Write { path, diff } => Action::Write { path: path.clone(), diff: short(diff) },
        Action::Command { text, background } => Action::Command { text: short(text), background: *background },
    }
}

fn receipt(about: &[Recorded]) -> MessageReceipt {
    let told = about.iter().rev().find_map(|event| match &event.event {
        Event::MessageAdmitted { step, route, .. } => Some(MessageReceipt::Admitted { step: *step, route: *route }),
        Event::MessageDeferred { reason, .. } => Some(MessageReceipt::Deferred { reason: plain(reason, MAX_LINE) }),
        Event::MessageDropped { reason, .. } => Some(MessageReceipt::NotDelivered { reason: plain(reason, MAX_LINE) }),
        _ => None,
    });
    told.unwrap_or(MessageReceipt::Accepted)
}

fn call(id: &CallId, name: &str, args: &str, about: &[Recorded], context: &Context<'_>) -> RowBody {
    let result = about.iter().find_map(|event| match &event.event {
        Event::ToolFinished { call, ok, text, detail, ms, .. } if call == id => {
            let from = text.ceil_char_boundary(text.len().saturating_sub(MAX_PART));
            Some(ToolResultRow {
                ok: *ok,
                text: text[from..].to_owned(),
                bytes: count(text.len()),
                lines: count(text.lines().count()),
                detail: bounded(detail),
                ms: *ms,
            })
        }
        _ => None,
    });
    let row = ToolRow {
        call: id.clone(),
        tool: plain(name, MAX_TARGET),
        target: plain(&target::of(args), MAX_TARGET),
        args: args[..args.floor_char_boundary(MAX_PART)].to_owned(),
        result,
    };
    let delegated = row.result.as_ref().is_some_and(|result| has_child(&result.detail));
    if delegated || (context.delegates)(name) { RowBody::Delegation(row) } else { RowBody::Tool(row) }
}

/// Whether the detail of a result tells the child that the call made. A message to one tells its route, too.
fn has_child(detail: &Value) -> bool {
    detail.get("child").is_some_and(Value::is_string) && detail.get("route").is_none()
}

/// A text as a row carries it. What is cut off says how much it is and where the whole stands.
fn shown(text: &str) -> String {
    let kept = cut(text, MAX_TEXT);
    match text.len() - kept.len() {
        0 => text.to_owned(),
        more => format!(
            "{kept}\n\n… {more} bytes more are not shown here; `coppice export` and `coppice events` have them."
        ),
    }
}

/// The detail of a result as a row carries it: tools put what a model wrote in it, which can have any size.
fn bounded(detail: &Value) -> Value {
    match detail {
        Value::String(text) if text.len() > MAX_DETAIL => Value::String(format!("{}…", cut(text, MAX_DETAIL))),
        Value::Array(entries) => entries.iter().take(MAX_ENTRIES).map(bounded).collect(),
        Value::Object(fields) => {
            fields.iter().take(MAX_ENTRIES).map(|(key, value)| (key.clone(), bounded(value))).collect()
        }
        other => other.clone(),
    }
}

fn readable(receipt: &Receipt) -> Receipt {
    let item = |item: &ReceiptItem| ReceiptItem { label: plain(&item.label, MAX_LINE), ..item.clone() };
    Receipt {
        label: plain(&receipt.label, MAX_LINE),
        ended: receipt.ended.iter().map(item).collect(),
        kept: receipt.kept.iter().map(item).collect(),
        unconfirmed: receipt.unconfirmed.iter().map(|what| plain(what, MAX_LINE)).collect(),
        ..receipt.clone()
    }
}

fn count(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
