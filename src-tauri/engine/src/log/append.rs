//! What is written: the rules that a write must keep, the events, and their projections with them.

use super::fault::{Fault, unknown_session, unknown_task};
use super::read::recorded;
use super::writer::{Writing, last_seq};
use super::{Entry, Gone, TaskDraft};
use super::{asks, masked, project};
use crate::error::{Code, Error};
use crate::event::{Block, Event, Recorded};
use crate::id::{SessionId, TaskId};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

/// Appends all entries, or what an earlier write with one of their keys appended.
pub(super) fn entries(writing: &Writing, entries: &[Entry]) -> Result<Vec<Recorded>, Fault> {
    for key in entries.iter().filter_map(|entry| entry.key.as_deref()) {
        if let Some(before) = written_under(writing.sql, key)? {
            return Ok(before);
        }
    }
    let batch = last_seq(writing.sql)? + 1;
    let mut written = Vec::new();
    for entry in entries {
        let mut key = entry.key.as_deref();
        for event in &entry.events {
            written.push(one(writing, &entry.session, key.take(), batch, event)?);
        }
    }
    Ok(written)
}

/// The events of the write that carried this key.
pub(super) fn written_under(sql: &Connection, key: &str) -> Result<Option<Vec<Recorded>>, Fault> {
    let batch: Option<i64> =
        sql.prepare_cached("SELECT batch FROM event WHERE key = ?1")?.query_row([key], |row| row.get(0)).optional()?;
    let Some(batch) = batch else { return Ok(None) };
    let mut statement =
        sql.prepare_cached("SELECT seq, session, n, at, kind, v, body, batch FROM event WHERE seq >= ?1 ORDER BY seq")?;
    let mut rows = statement.query([batch])?;
    let mut written = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>("batch")? != batch {
            break;
        }
        written.push(recorded(row)?);
    }
    Ok(Some(written))
}

pub(super) fn one(
    writing: &Writing,
    session: &SessionId,
    key: Option<&str>,
    batch: i64,
    event: &Event,
) -> Result<Recorded, Fault> {
    let sql = writing.sql;
    let last_n = last_n(sql, session)?;
    let event = &masked::event(writing.mask, event);
    check(sql, session, last_n, event)?;
    let n = last_n.unwrap_or(0) + 1;
    if let Some(key) = key
        && sql.prepare_cached("SELECT 1 FROM event WHERE key = ?1")?.exists([key])?
    {
        return Err(
            Error::new(Code::Conflict, "Two entries of one write have the same key. Nothing was written.").into()
        );
    }
    let seq = sql
        .prepare_cached(
            "INSERT INTO event (session, n, at, kind, v, key, batch, about, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .insert(params![
            session.as_str(),
            n,
            writing.at,
            event.kind(),
            event.version(),
            key,
            batch,
            event.about(),
            event.body().to_string(),
        ])?;
    let recorded = Recorded { seq, session: session.clone(), n, at: writing.at, event: event.clone() };
    project::apply(sql, &recorded)?;
    if matches!(event, Event::Answered { .. } | Event::TurnEnded { .. }) {
        sql.prepare_cached("DELETE FROM partial WHERE session = ?1")?.execute([session.as_str()])?;
    }
    Ok(recorded)
}

fn last_n(sql: &Connection, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    sql.prepare_cached("SELECT last_n FROM session WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()
}

/// The rules that hold for every write. The folds do not repeat them: they take any log as it stands.
fn check(sql: &Connection, session: &SessionId, last_n: Option<i64>, event: &Event) -> Result<(), Fault> {
    match event {
        Event::SessionOpened { parent, .. } => {
            if last_n.is_some() {
                return Err(Error::new(Code::Conflict, format!("The session {session} is there already.")).into());
            }
            // A child that opens late must not outlive the tree that was deleted meanwhile.
            match parent {
                Some(parent) if self::last_n(sql, parent)?.is_none() => Err(unknown_session(parent.as_str()).into()),
                _ => Ok(()),
            }
        }
        _ if last_n.is_none() => Err(unknown_session(session.as_str()).into()),
        Event::Archived { archived: true } if at_work(sql, session)? => {
            let message = "Something runs in this branch. Stop it first. Nothing was archived.";
            Err(Error::new(Code::Busy, message).into())
        }
        Event::TaskStarted { task, .. } if task_status(sql, task)?.is_some() => {
            Err(Error::new(Code::Conflict, format!("The task {task} was started already.")).into())
        }
        Event::TaskStopping { task, .. } if task_status(sql, task)?.is_some_and(|(_, settled)| settled) => {
            Err(Error::new(Code::Conflict, format!("The task {task} has ended already. There is nothing to stop."))
                .into())
        }
        Event::TaskSettled { task, status, .. } => match task_status(sql, task)? {
            Some((owner, _)) if owner != session.as_str() => {
                Err(Error::new(Code::NotYours, format!("The task {task} belongs to another session.")).into())
            }
            Some(_) if !status.is_terminal() => Err(Error::new(
                Code::BadRequest,
                format!("A task does not settle as {}: that is no end.", status.word()),
            )
            .into()),
            Some((_, true)) => {
                Err(Error::new(Code::Conflict, format!("The task {task} has ended already; its first end stands."))
                    .into())
            }
            Some((_, false)) => Ok(()),
            None => Err(unknown_task(task.as_str()).into()),
        },
        Event::Decided { .. } | Event::Withdrawn { .. } | Event::LeaveTaken { .. } => asks::check(sql, session, event),
        _ => Ok(()),
    }
}

/// A session and all below it.
const BELOW: &str = "WITH RECURSIVE below (id) AS (
         SELECT ?1 UNION SELECT session.id FROM session JOIN below ON session.parent = below.id
     )";

/// Whether a turn or a task runs in the branch of a session.
fn at_work(sql: &Connection, session: &SessionId) -> rusqlite::Result<bool> {
    sql.prepare_cached(&format!(
        "{BELOW} SELECT 1 FROM below WHERE EXISTS (SELECT 1 FROM session WHERE session.id = below.id AND turn_open)
             OR EXISTS (SELECT 1 FROM task WHERE task.owner = below.id AND task.settled IS NULL)
             OR EXISTS (SELECT 1 FROM task WHERE task.child = below.id AND task.settled IS NULL)"
    ))?
    .exists([session.as_str()])
}

/// The owner of a task, and whether it has settled.
fn task_status(sql: &Connection, task: &TaskId) -> rusqlite::Result<Option<(String, bool)>> {
    sql.prepare_cached("SELECT owner, settled IS NOT NULL FROM task WHERE id = ?1")?
        .query_row([task.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// The next number of the durable counter of a kind.
pub(super) fn next_number(sql: &Connection, kind: &str) -> rusqlite::Result<i64> {
    sql.prepare_cached(
        "INSERT INTO counter (kind, n) VALUES (?1, 1) ON CONFLICT (kind) DO UPDATE SET n = n + 1 RETURNING n",
    )?
    .query_row([kind], |row| row.get(0))
}

/// Gives the task an id and appends its start.
pub(super) fn start_task(writing: &Writing, draft: &TaskDraft) -> Result<(TaskId, Recorded), Fault> {
    let number = next_number(writing.sql, &draft.kind)?;
    let task = TaskId(format!("{}-{number}", draft.kind));
    let started = Event::TaskStarted {
        task: task.clone(),
        task_kind: draft.kind.clone(),
        label: draft.label.clone(),
        child: draft.child.clone(),
        call: draft.call.clone(),
    };
    let batch = last_seq(writing.sql)? + 1;
    Ok((task, one(writing, &draft.owner, None, batch, &started)?))
}

/// Keeps what a reply has said so far, while it is awaited.
pub(super) fn checkpoint(writing: &Writing, session: &SessionId, step: u32, blocks: &[Block]) -> Result<(), Fault> {
    let asking: Option<Option<u32>> = writing
        .sql
        .prepare_cached("SELECT asking FROM session WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    let Some(asking) = asking else { return Err(unknown_session(session.as_str()).into()) };
    // A late one, after the reply is in the log, would come back as a second reply.
    if asking == Some(step) {
        writing
            .sql
            .prepare_cached("INSERT OR REPLACE INTO partial (session, step, blocks) VALUES (?1, ?2, ?3)")?
            .execute(params![session.as_str(), step, serde_json::to_string(&masked::blocks(writing.mask, blocks))?])?;
        // What streams is a sign of life, also when it never becomes an event.
        writing
            .sql
            .prepare_cached("UPDATE session SET last_sign_at = max(last_sign_at, ?2) WHERE id = ?1")?
            .execute(params![session.as_str(), writing.at])?;
    }
    Ok(())
}

/// Removes the sessions, all below them and everything of them.
pub(super) fn delete(writing: &Writing, tops: &[SessionId]) -> Result<Gone, Fault> {
    let mut gone = Gone::default();
    for top in tops {
        let sql = writing.sql;
        // Read here, so that none that opened in the last moment is left behind.
        let branch: Vec<String> = sql
            .prepare_cached(&format!("{BELOW} SELECT session.id FROM session JOIN below ON session.id = below.id"))?
            .query_map([top.as_str()], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for session in branch {
            let mut owned = sql.prepare_cached("SELECT id FROM task WHERE owner = ?1 ORDER BY seq")?;
            for task in owned.query_map([&session], |row| row.get(0))? {
                gone.tasks.push(TaskId(task?));
            }
            // Tasks, notices, asks and open calls go with the session.
            for statement in [
                "DELETE FROM session WHERE id = ?1",
                "DELETE FROM partial WHERE session = ?1",
                "DELETE FROM allowance WHERE session = ?1",
                "DELETE FROM event WHERE session = ?1",
            ] {
                sql.prepare_cached(statement)?.execute([&session])?;
            }
            gone.sessions.push(SessionId(session));
        }
    }
    forget_names(writing.sql, &gone)?;
    writing.wake.set(true);
    Ok(gone)
}

/// Takes the names out of the answers that were kept of commands about these: receipts tell what was stopped by its
/// name. The answers themselves stay, so that the same key still does nothing twice.
fn forget_names(sql: &Connection, gone: &Gone) -> Result<(), Fault> {
    let ids: Vec<&str> =
        gone.sessions.iter().map(SessionId::as_str).chain(gone.tasks.iter().map(TaskId::as_str)).collect();
    let mut told = sql.prepare_cached(
        "SELECT key, answer FROM command
         WHERE instr(answer, '\"label\"')
             AND EXISTS (SELECT 1 FROM json_each(?1) AS id WHERE instr(command.answer, '\"' || id.value || '\"'))",
    )?;
    let told: Vec<(String, String)> = told
        .query_map([serde_json::to_string(&ids)?], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut keep = sql.prepare_cached("UPDATE command SET answer = ?2 WHERE key = ?1")?;
    for (key, answer) in told {
        let mut answer: Value = serde_json::from_str(&answer)?;
        unname(&mut answer);
        keep.execute([&key, &answer.to_string()])?;
    }
    Ok(())
}

fn unname(answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(label) if name == "label" => label.clear(),
                    value => unname(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unname),
        _ => {}
    }
}
