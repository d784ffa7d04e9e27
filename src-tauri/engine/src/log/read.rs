//! What is read: a few connections that cannot write, used off the async threads, one snapshot for each question.

use super::asks;
use super::fault::{Fault, Loss, unknown_session, unknown_task};
use super::held::Held;
use super::writer::Gate;
use super::{OwedNotice, Unfinished, open};
use crate::error::{Code, Error, Result};
use crate::event::{Event, Recorded, TreeLimits, VERSION};
use crate::id::{SessionId, TaskId};
use crate::scope::Scope;
use crate::view::{SessionView, TaskView, Tokens, rows::gives_rows};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// How many questions are answered at once.
const READERS: usize = 4;

/// The connections that read.
pub(super) struct Readers {
    path: PathBuf,
    places: Semaphore,
    idle: Mutex<Vec<Connection>>,
    gate: Gate,
    held: Held,
}

impl Readers {
    pub(super) fn new(path: PathBuf, gate: Gate, held: Held) -> Self {
        Self { path, places: Semaphore::new(READERS), idle: Mutex::default(), gate, held }
    }

    /// Answers a question from one snapshot of the store.
    pub(super) async fn ask<T, F>(self: &Arc<Self>, question: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let closed = |_| Error::new(Code::ShuttingDown, "Coppice is shutting down.");
        let _place = self.places.acquire().await.map_err(closed)?;
        let readers = Arc::clone(self);
        Scope::blocking(move || readers.answer(question).map_err(|fault| fault.told(&readers.path))).await
    }

    fn answer<T>(&self, question: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let _open = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let opened = open::reader(&self.path);
                // What stands at the path may be a store of another process by now.
                if self.held.is_lost() {
                    return Err(Fault::Lost(Loss::Away));
                }
                opened?
            }
        };
        let snapshot = connection.transaction()?;
        let answer = question(&snapshot)?;
        snapshot.finish()?;
        // A connection on which something failed is not used again.
        self.idle().push(connection);
        Ok(answer)
    }

    /// Lets go of the connections that are not in use.
    pub(super) fn release(&self) {
        self.places.close();
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The word under which a plain enum stands in the store.
pub(super) fn word<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(value)?)
}

/// The value of such a word.
pub(super) fn from_word<T: DeserializeOwned>(word: String) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::String(word))
}

/// The columns of an event, as [`recorded`] reads them.
pub(super) const EVENT: &str = "seq, session, n, at, kind, v, body";

/// An event from its row. A body that is not JSON is kept as text in an unknown event.
pub(super) fn recorded(row: &Row) -> Result<Recorded, Fault> {
    let (kind, version, body): (String, u32, String) = (row.get(4)?, row.get(5)?, row.get(6)?);
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    let event = Event::read(&kind, version, body);
    Ok(Recorded { seq: row.get(0)?, session: SessionId(row.get(1)?), n: row.get(2)?, at: row.get(3)?, event })
}

/// A session's row: what people see of it, and what only the store needs.
pub(super) struct Session {
    pub(super) view: SessionView,
    /// Whether a turn runs.
    pub(super) turn_open: bool,
    /// The step whose reply is awaited.
    pub(super) asking: Option<u32>,
}

/// The columns of a session, as [`session`] reads them.
pub(super) const SESSION: &str = "id, parent, root, depth, title, label, provider, model, mode, cwd, state, detail, task, \
     last_sign_at, created_at, started_at, ended_at, step, input, output, cached, estimated, requests, last_n, \
     turn_open, asking, archived, asked_at, worked_ms, stopped_by";

/// A session from its row. By position: by name, every event that is written would look up every name.
pub(super) fn session(row: &Row) -> Result<Session, Fault> {
    let view = SessionView {
        id: SessionId(row.get(0)?),
        parent: row.get::<_, Option<String>>(1)?.map(SessionId),
        root: SessionId(row.get(2)?),
        depth: row.get(3)?,
        title: row.get(4)?,
        label: row.get(5)?,
        provider: row.get(6)?,
        model: row.get(7)?,
        mode: from_word(row.get(8)?)?,
        cwd: row.get(9)?,
        state: from_word(row.get(10)?)?,
        detail: row.get(11)?,
        live_below: 0,
        needs_you: 0,
        task: row.get::<_, Option<String>>(12)?.map(TaskId),
        last_sign_at: row.get(13)?,
        created_at: row.get(14)?,
        asked_at: row.get(27)?,
        rested_at: None,
        worked_ms: row.get(28)?,
        started_at: row.get(15)?,
        ended_at: row.get(16)?,
        stopped_by: row.get::<_, Option<String>>(29)?.map(from_word).transpose()?,
        step: row.get(17)?,
        archived: row.get(26)?,
        steerable: false,
        tokens: tokens(row, 18)?,
        cost: None,
        last_n: row.get(23)?,
    };
    Ok(Session { view, turn_open: row.get(24)?, asking: row.get(25)? })
}

/// Tokens from the five columns that begin at `at`.
fn tokens(row: &Row, at: usize) -> rusqlite::Result<Tokens> {
    Ok(Tokens {
        input: row.get(at)?,
        output: row.get(at + 1)?,
        cached: row.get(at + 2)?,
        estimated: row.get(at + 3)?,
        requests: row.get(at + 4)?,
    })
}

/// The columns of a task, as [`task_view`] reads them.
const TASK: &str = "task.id, task.kind, task.label, task.owner, task.child, task.status, task.detail, task.killed_by, \
     task.started_at, task.settled_at";

fn task_view(row: &Row) -> Result<TaskView, Fault> {
    Ok(TaskView {
        id: TaskId(row.get(0)?),
        kind: row.get(1)?,
        label: row.get(2)?,
        owner: SessionId(row.get(3)?),
        child: row.get::<_, Option<String>>(4)?.map(SessionId),
        status: from_word(row.get(5)?)?,
        detail: row.get(6)?,
        killed_by: row.get::<_, Option<String>>(7)?.map(from_word).transpose()?,
        started_at: row.get(8)?,
        settled_at: row.get(9)?,
    })
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn exists(sql: &Connection, id: &SessionId) -> Result<(), Fault> {
    if sql.prepare_cached("SELECT 1 FROM session WHERE id = ?1")?.exists([id.as_str()])? {
        return Ok(());
    }
    Err(unknown_session(id.as_str()).into())
}

pub(super) fn since(sql: &Connection, seq: i64, limit: usize) -> Result<Vec<Recorded>, Fault> {
    sql.prepare_cached(&format!("SELECT {EVENT} FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2"))?
        .query_and_then(params![seq, count(limit)], recorded)?
        .collect()
}

pub(super) fn events(sql: &Connection, id: &SessionId, after: i64, limit: usize) -> Result<Vec<Recorded>, Fault> {
    exists(sql, id)?;
    sql.prepare_cached(&format!("SELECT {EVENT} FROM event WHERE session = ?1 AND n > ?2 ORDER BY n LIMIT ?3"))?
        .query_and_then(params![id.as_str(), after, count(limit)], recorded)?
        .collect()
}

pub(super) fn row_events(
    sql: &Connection,
    id: &SessionId,
    after: i64,
    before: i64,
    limit: usize,
    newest: bool,
) -> Result<Vec<(Recorded, Vec<Recorded>)>, Fault> {
    exists(sql, id)?;
    let order = if newest { "DESC" } else { "ASC" };
    // Which kinds give rows is asked while stepping and not kept: another build may know more kinds than this one.
    let mut statement = sql.prepare_cached(&format!(
        "SELECT {EVENT} FROM event WHERE session = ?1 AND n > ?2 AND n < ?3 ORDER BY n {order}"
    ))?;
    let mut rows = statement.query(params![id.as_str(), after, before])?;
    let mut page = Vec::new();
    while page.len() < limit {
        let Some(row) = rows.next()? else { break };
        // A newer version of a known kind is shown as unknown, whatever this build does with the kind.
        let newer = row.get::<_, u32>(5)? > VERSION;
        if newer || gives_rows(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?) {
            page.push(recorded(row)?);
        }
    }
    if newest {
        page.reverse();
    }
    let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(Vec::new()) };
    let mut completing: HashMap<i64, Vec<Recorded>> = HashMap::new();
    let mut statement = sql.prepare_cached(&format!(
        "SELECT {EVENT}, about FROM event WHERE session = ?1 AND about BETWEEN ?2 AND ?3 ORDER BY about, seq"
    ))?;
    let mut rows = statement.query(params![id.as_str(), first.n, last.n])?;
    while let Some(row) = rows.next()? {
        completing.entry(row.get(7)?).or_default().push(recorded(row)?);
    }
    Ok(page
        .into_iter()
        .map(|event| {
            let about = completing.remove(&event.n).unwrap_or_default();
            (event, about)
        })
        .collect())
}

pub(super) fn one_session(sql: &Connection, id: &SessionId) -> Result<SessionView, Fault> {
    let mut statement = sql.prepare_cached(&format!("SELECT {SESSION} FROM session WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    match rows.next()? {
        Some(row) => Ok(session(row)?.view),
        None => Err(unknown_session(id.as_str()).into()),
    }
}

pub(super) fn sessions(sql: &Connection, root: Option<&SessionId>) -> Result<Vec<SessionView>, Fault> {
    let all = format!("SELECT {SESSION} FROM session ORDER BY seq");
    let tree = format!("SELECT {SESSION} FROM session WHERE root = ?1 ORDER BY seq");
    let view = |row: &Row| Ok(session(row)?.view);
    let mut found: Vec<SessionView> = match root {
        None => sql.prepare_cached(&all)?.query_and_then([], view)?.collect::<Result<_, Fault>>()?,
        Some(root) => {
            sql.prepare_cached(&tree)?.query_and_then([root.as_str()], view)?.collect::<Result<_, Fault>>()?
        }
    };
    asks::mark(sql, &mut found)?;
    Ok(found)
}

pub(super) fn children(sql: &Connection, root: &SessionId) -> Result<Vec<SessionId>, Fault> {
    sql.prepare_cached("SELECT id FROM session WHERE root = ?1 AND depth > 0")?
        .query_and_then([root.as_str()], |row| Ok(SessionId(row.get(0)?)))?
        .collect()
}

pub(super) fn task(sql: &Connection, id: &TaskId) -> Result<TaskView, Fault> {
    let mut statement = sql.prepare_cached(&format!("SELECT {TASK} FROM task WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    match rows.next()? {
        Some(row) => task_view(row),
        None => Err(unknown_task(id.as_str()).into()),
    }
}

pub(super) fn tasks(sql: &Connection, owner: Option<&SessionId>) -> Result<Vec<TaskView>, Fault> {
    let all = format!("SELECT {TASK} FROM task ORDER BY seq");
    let owned = format!("SELECT {TASK} FROM task WHERE owner = ?1 ORDER BY seq");
    match owner {
        None => sql.prepare_cached(&all)?.query_and_then([], task_view)?.collect(),
        Some(owner) => sql.prepare_cached(&owned)?.query_and_then([owner.as_str()], task_view)?.collect(),
    }
}

pub(super) fn live_tasks(sql: &Connection) -> Result<Vec<TaskView>, Fault> {
    let live = format!("SELECT {TASK} FROM task WHERE settled IS NULL ORDER BY seq");
    sql.prepare_cached(&live)?.query_and_then([], task_view)?.collect()
}

pub(super) fn task_output(sql: &Connection, id: &TaskId) -> Result<Option<String>, Fault> {
    let Some((owner, settled)) = sql
        .prepare_cached("SELECT owner, settled FROM task WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?)))
        .optional()?
    else {
        return Err(unknown_task(id.as_str()).into());
    };
    let mut statement = sql.prepare_cached(&format!("SELECT {EVENT} FROM event WHERE session = ?1 AND n = ?2"))?;
    let mut rows = statement.query(params![owner, settled])?;
    match rows.next()?.map(recorded).transpose()? {
        Some(Recorded { event: Event::TaskSettled { output, .. }, .. }) => Ok(output),
        _ => Ok(None),
    }
}

pub(super) fn owed(sql: &Connection, owner: &SessionId) -> Result<Vec<OwedNotice>, Fault> {
    sql.prepare_cached(&format!(
        "SELECT {TASK}, notice.settled FROM notice JOIN task ON task.id = notice.task
         WHERE notice.owner = ?1 AND notice.state = 'owed' ORDER BY notice.settled"
    ))?
    .query_and_then([owner.as_str()], |row| Ok(OwedNotice { settled: row.get(10)?, task: task_view(row)? }))?
    .collect()
}

pub(super) fn missing_tasks(sql: &Connection, tasks: Vec<TaskId>) -> Result<Vec<TaskId>, Fault> {
    let mut known = sql.prepare_cached("SELECT 1 FROM task WHERE id = ?1")?;
    let mut missing = Vec::new();
    for task in tasks {
        if !known.exists([task.as_str()])? {
            missing.push(task);
        }
    }
    Ok(missing)
}

pub(super) fn messages(sql: &Connection, top: &SessionId) -> Result<u32, Fault> {
    exists(sql, top)?;
    let count = sql
        .prepare_cached(
            "WITH RECURSIVE below (id) AS (
                 SELECT ?1 UNION SELECT session.id FROM session JOIN below ON session.parent = below.id
             )
             SELECT count(*) FROM event
             WHERE session IN (SELECT id FROM below) AND kind IN ('message_accepted', 'answered')",
        )?
        .query_row([top.as_str()], |row| row.get(0))?;
    Ok(count)
}

pub(super) fn usage(sql: &Connection, id: &SessionId) -> Result<(Tokens, Tokens), Fault> {
    let mut statement = sql.prepare_cached(
        "WITH RECURSIVE below (id) AS (
             SELECT ?1 UNION SELECT session.id FROM session JOIN below ON session.parent = below.id
         )
         SELECT id, input, output, cached, estimated, requests FROM session WHERE id IN (SELECT id FROM below)",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let (mut own, mut branch) = (None, Tokens::default());
    while let Some(row) = rows.next()? {
        let tokens = tokens(row, 1)?;
        branch = branch.plus(tokens);
        if row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)? == id.as_str() {
            own = Some(tokens);
        }
    }
    own.map(|own| (own, branch)).ok_or_else(|| unknown_session(id.as_str()).into())
}

pub(super) fn budget(sql: &Connection, root: &SessionId) -> Result<(Vec<TreeLimits>, i64), Fault> {
    let given = sql
        .prepare_cached("SELECT v, body FROM event WHERE session = ?1 AND kind = 'limited' ORDER BY n")?
        .query_and_then([root.as_str()], |row| -> Result<_, Fault> {
            let body: String = row.get(1)?;
            Ok(match Event::read("limited", row.get(0)?, serde_json::from_str(&body)?) {
                Event::Limited { limits } => Some(limits),
                _ => None,
            })
        })?
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    let worked: Option<i64> = sql
        .prepare_cached(
            "SELECT max(body ->> 'worked_ms') FROM event
             WHERE kind = 'turn_ended' AND session IN (SELECT id FROM session WHERE root = ?1)",
        )?
        .query_row([root.as_str()], |row| row.get(0))?;
    Ok((given, worked.unwrap_or(0)))
}

pub(super) fn ended_turns(sql: &Connection, session: &SessionId) -> Result<(u32, i64), Fault> {
    let (turns, last): (u32, Option<i64>) = sql
        .prepare_cached("SELECT count(*), max(n) FROM event WHERE session = ?1 AND kind = 'turn_ended'")?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((turns, last.unwrap_or(0)))
}

pub(super) fn unfinished(sql: &Connection) -> Result<Vec<Unfinished>, Fault> {
    let mut statement = sql.prepare_cached(
        "SELECT session.id, partial.step, partial.blocks FROM session LEFT JOIN partial ON partial.session = session.id
         WHERE turn_open OR partial.session IS NOT NULL
             OR EXISTS (SELECT 1 FROM call WHERE call.session = session.id)
             OR EXISTS (SELECT 1 FROM task WHERE task.owner = session.id AND task.settled IS NULL)
             OR EXISTS (SELECT 1 FROM event AS said WHERE said.session = session.id AND said.kind = 'message_accepted'
                 AND NOT EXISTS (SELECT 1 FROM event AS fate WHERE fate.session = said.session AND fate.about = said.n))
         ORDER BY session.seq",
    )?;
    let mut rows = statement.query([])?;
    let mut unfinished = Vec::new();
    while let Some(row) = rows.next()? {
        let (step, blocks): (Option<u32>, Option<String>) = (row.get(1)?, row.get(2)?);
        let partial = match (step, blocks) {
            (Some(step), Some(blocks)) => Some((step, serde_json::from_str(&blocks)?)),
            _ => None,
        };
        unfinished.push(Unfinished { session: SessionId(row.get(0)?), partial });
    }
    Ok(unfinished)
}
