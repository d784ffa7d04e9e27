//! `coppice tree`, `show`, `stop` and `export`: the wire's answers, for people or as JSON.

use super::live::lines;
use super::{Out, Trouble};
use crate::board::Board;
use crate::client::Client;
use crate::commands::Failed;
use crate::text;
use coppice_engine::engine::Page;
use coppice_engine::error::Code;
use coppice_engine::event::Receipt;
use coppice_engine::id::SessionId;
use coppice_engine::view::{MessageReceipt, Row, RowBody, SessionView, TaskView, ToolRow};
use serde_json::{Value, json};

/// How many events are asked for at once.
const EVENTS: usize = 500;

/// Prints sessions and commands: all, or those of a session and below it. For people, what was archived is only counted
/// unless it is asked for.
pub async fn tree(
    client: &Client,
    top: Option<&str>,
    archived: bool,
    json: bool,
    out: &mut Out,
) -> Result<u8, Trouble> {
    let mut answer = client.call("tree", json!({})).await?;
    if let Some(top) = top {
        keep_branch(&mut answer, top)?;
    }
    if json {
        out.line(&text::plain_json(&answer.to_string()))?;
        return Ok(0);
    }
    let fits = |error: serde_json::Error| Failed {
        code: Code::Internal,
        message: format!("The tree does not fit: {error}. Do both processes have the same version?"),
    };
    let mut sessions: Vec<SessionView> = serde_json::from_value(answer["sessions"].take()).map_err(fits)?;
    let tasks: Vec<TaskView> = serde_json::from_value(answer["tasks"].take()).map_err(fits)?;
    let tops: Vec<SessionId> = sessions
        .iter()
        .filter(|session| top.map_or(session.parent.is_none(), |top| session.id.as_str() == top))
        .map(|session| session.id.clone())
        .collect();
    let put_away = sessions.iter().filter(|session| is_put_away(session, top, archived)).count();
    sessions.retain(|session| !is_put_away(session, top, archived));
    let board = Board::new(sessions, tasks);
    for top in &tops {
        for line in lines(&board, top) {
            out.line(&format!("{}{}  {}", "  ".repeat(line.depth), line.text, line.id))?;
        }
    }
    if tops.is_empty() {
        out.line("No sessions. `coppice run \"...\"` begins one.")?;
    }
    if put_away > 0 {
        out.line(&format!("{put_away} archived. `coppice tree --archived` shows them too."))?;
    }
    Ok(0)
}

/// Whether a session is left out with all below it: it was archived, and was not asked for.
fn is_put_away(session: &SessionView, top: Option<&str>, archived: bool) -> bool {
    session.archived && !archived && top != Some(session.id.as_str())
}

/// Leaves a session and all below it, with their tasks. Sessions come oldest first, so parents before their children.
fn keep_branch(tree: &mut Value, top: &str) -> Result<(), Failed> {
    let mut branch: Vec<Value> = Vec::new();
    if let Some(sessions) = tree["sessions"].as_array_mut() {
        sessions.retain(|session| {
            let within = session["id"] == top || branch.contains(&session["parent"]);
            if within {
                branch.push(session["id"].clone());
            }
            within
        });
    }
    if branch.is_empty() {
        return Err(super::unknown(top));
    }
    if let Some(tasks) = tree["tasks"].as_array_mut() {
        tasks.retain(|task| branch.contains(&task["owner"]));
    }
    Ok(())
}

/// Prints a transcript.
pub async fn show(client: &Client, session: &str, json: bool, out: &mut Out) -> Result<u8, Trouble> {
    let mut after = 0;
    loop {
        let page = client.call("page", json!({ "session": session, "after": after, "limit": EVENTS })).await?;
        let page: Page = serde_json::from_value(page).map_err(|error| Failed {
            code: Code::Internal,
            message: format!("The transcript does not fit: {error}. Do both processes have the same version?"),
        })?;
        let Some(last) = page.rows.last().map(|row| row.n) else { return Ok(0) };
        for row in &page.rows {
            if json {
                let line = serde_json::to_string(row).map_err(std::io::Error::other)?;
                out.line(&text::plain_json(&line))?;
            } else {
                out.line(&text::plain(&row_text(row)))?;
            }
        }
        after = last;
    }
}

fn row_text(row: &Row) -> String {
    match &row.body {
        RowBody::AskText { text, receipt, .. } => format!("Asked by its parent{}\n{text}\n", undelivered(receipt)),
        RowBody::Message { text, receipt } => format!("You{}\n{text}\n", undelivered(receipt)),
        RowBody::Answer { text, .. } => format!("{text}\n"),
        RowBody::Thinking { text } => format!("(thinking) {}", text::line(text, 200)),
        RowBody::Tool(tool) | RowBody::Delegation(tool) => tool_text(tool),
        RowBody::Notice { label, status, detail, ran_ms, .. } => {
            let detail = detail.as_ref().map(|detail| format!(", {detail}")).unwrap_or_default();
            format!("{}: {}{detail}, {}", label, crate::board::task_word(*status), text::duration(*ran_ms))
        }
        RowBody::Decision { receipt } => text::receipt(receipt).join("\n"),
        RowBody::Fault { text, repaired } => {
            format!("{}: {text}", if *repaired { "Repaired" } else { "Fault" })
        }
        RowBody::Seed { turns, .. } => {
            format!("Begins with {} of its parent", text::count(*turns as usize, "turn", "turns"))
        }
        RowBody::Warning { text, .. } => format!("Limit: {text}"),
        RowBody::Undone { edits, files } => {
            let edits = text::count(*edits as usize, "change", "changes");
            format!("You took {edits} of files back: {}", text::line(&files.join(", "), 200))
        }
        RowBody::Note { text, told_at_step } => {
            let told = if told_at_step.is_some() { "Told" } else { "Is told at its next step" };
            format!("{told}: {}", text::line(text, 400))
        }
        RowBody::Clash { path, first_label, later_label, .. } => {
            format!("Two write one file: {later_label} came to {path} shortly after {first_label} wrote it")
        }
        RowBody::TurnEnd { end, detail, .. } => {
            let end = serde_json::to_value(end).unwrap_or_default();
            let end = end.as_str().unwrap_or("ended").replace('_', " ");
            format!("Turn {end}{}", detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default())
        }
        RowBody::Ask { ask, action, reason, state, note, .. } => {
            let note = note.as_ref().map(|note| format!(": {}", text::line(note, 200))).unwrap_or_default();
            let (what, why) = (text::line(&action.exact(), 400), text::line(&reason.text, 200));
            format!("Asked for leave ({ask}) to {}: {what}\n  {why}\n  {}{note}", action.words(), state.words())
        }
        RowBody::Mode { mode } => format!("You set what it may do: {}", mode.word()),
        RowBody::Unknown { event } => format!("(an event this version does not know: {event})"),
    }
}

fn undelivered(receipt: &MessageReceipt) -> String {
    match receipt {
        MessageReceipt::NotDelivered { reason } => format!(" (not delivered: {reason})"),
        MessageReceipt::Deferred { reason } => format!(" (not read yet: {reason}; it is read with the next turn)"),
        MessageReceipt::Accepted => " (waits for the next step)".to_owned(),
        MessageReceipt::Admitted { .. } => String::new(),
    }
}

fn tool_text(tool: &ToolRow) -> String {
    let end = match &tool.result {
        None => "runs".to_owned(),
        Some(result) if result.ok => text::duration(result.ms),
        Some(result) => format!("failed: {}", text::line(&result.text, 120)),
    };
    let masked = tool.result.as_ref().and_then(|result| result.detail["masked"].as_u64());
    let end = match masked {
        Some(1) => format!("{end}, 1 secret was masked"),
        Some(masked) => format!("{end}, {masked} secrets were masked"),
        None => end,
    };
    format!("{} {} ({end})", tool.tool, text::line(&tool.target, 100))
}

/// Stops, or only tells what would end. Exit code 1 when something could not be confirmed.
pub async fn stop(client: &Client, args: Value, preview: bool, json: bool, out: &mut Out) -> Result<u8, Trouble> {
    let receipt: Receipt = client.ask("stop", args).await?;
    if json {
        let line = serde_json::to_string(&receipt).map_err(std::io::Error::other)?;
        out.line(&text::plain_json(&line))?;
    } else if preview {
        let left = text::count(receipt.processes.len(), "process", "processes");
        out.line(&if receipt.ended.is_empty() && receipt.processes.is_empty() {
            "Nothing would end.".to_owned()
        } else if receipt.ended.is_empty() {
            format!("Nothing runs; would end {left} that finished work has left.")
        } else {
            let ends = text::count(receipt.ended.len(), "thing", "things");
            format!("Would end {ends}; {} would go on.", receipt.kept.len())
        })?;
        for item in &receipt.ended {
            out.line(&format!("  {} {}", item.kind, text::line(&item.label, 80)))?;
        }
    } else {
        for line in text::receipt(&receipt) {
            out.line(&line)?;
        }
    }
    Ok(u8::from(!receipt.unconfirmed.is_empty()))
}

/// Prints the log of a session.
pub async fn export(client: &Client, session: &str, out: &mut Out) -> Result<u8, Trouble> {
    print_events(client, &session.into(), 0, None, out).await?;
    Ok(0)
}

/// Prints events after `after`, up to `last` or to the end, one a line. Answers how far it came.
pub async fn print_events(
    client: &Client,
    session: &SessionId,
    mut after: i64,
    last: Option<i64>,
    out: &mut Out,
) -> Result<i64, Trouble> {
    loop {
        if last.is_some_and(|last| after >= last) {
            return Ok(after);
        }
        let page = client.call("events", json!({ "session": session, "after": after, "limit": EVENTS })).await?;
        let events = page["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        for event in events {
            let mut line = json!({ "session": session });
            if let (Value::Object(line), Value::Object(event)) = (&mut line, event) {
                line.extend(event.clone());
            }
            out.line(&text::plain_json(&line.to_string()))?;
        }
        match events.last().and_then(|event| event["n"].as_i64()) {
            Some(n) => after = n,
            None => return Ok(after),
        }
    }
}
