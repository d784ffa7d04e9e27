//! What the log says of files.

use super::fault::Fault;
use super::read::{EVENT, recorded};
use crate::config::bounds::RECALLED;
use crate::event::{Event, Recorded};
use crate::id::SessionId;
use rusqlite::{Connection, params};
use serde_json::Value;

pub(super) fn untold(sql: &Connection, session: &SessionId) -> Result<Vec<(i64, String)>, Fault> {
    let noted: Vec<Recorded> = sql
        .prepare_cached(&format!(
            "SELECT {EVENT} FROM event WHERE session = ?1 AND kind = 'noted'
                 AND NOT EXISTS (SELECT 1 FROM event AS told WHERE told.session = ?1 AND told.about = event.n)
             ORDER BY n"
        ))?
        .query_and_then([session.as_str()], recorded)?
        .collect::<Result<_, _>>()?;
    let words = |recorded: Recorded| match recorded.event {
        Event::Noted { text } => Some((recorded.n, text)),
        _ => None,
    };
    Ok(noted.into_iter().filter_map(words).collect())
}

pub(super) fn changes(sql: &Connection, root: &SessionId) -> Result<Vec<Recorded>, Fault> {
    // One statement for each kind, so that each finds its index.
    let tree = "session IN (SELECT id FROM session WHERE root = ?1)";
    sql.prepare_cached(&format!(
        "SELECT {EVENT} FROM event WHERE kind = 'file_changing' AND {tree}
         UNION ALL SELECT {EVENT} FROM event WHERE kind = 'undone' AND {tree} ORDER BY seq"
    ))?
    .query_and_then([root.as_str()], recorded)?
    .collect()
}

pub(super) fn facts(sql: &Connection, root: &SessionId) -> Result<Vec<(SessionId, i64, Value)>, Fault> {
    let mut statement = sql.prepare_cached(
        "SELECT session, at, body -> '$.detail.file' AS fact FROM (
             SELECT seq, session, at, body FROM event
             WHERE kind = 'tool_finished' AND session IN (SELECT id FROM session WHERE root = ?1)
             ORDER BY seq DESC LIMIT ?2
         ) WHERE fact IS NOT NULL ORDER BY seq",
    )?;
    let mut rows = statement.query(params![root.as_str(), i64::try_from(RECALLED).unwrap_or(i64::MAX)])?;
    let mut facts = Vec::new();
    while let Some(row) = rows.next()? {
        let fact: String = row.get(2)?;
        facts.push((SessionId(row.get(0)?), row.get(1)?, serde_json::from_str(&fact)?));
    }
    Ok(facts)
}

pub(super) fn missing_sessions(sql: &Connection, sessions: Vec<SessionId>) -> Result<Vec<SessionId>, Fault> {
    let mut known = sql.prepare_cached("SELECT 1 FROM session WHERE id = ?1")?;
    let mut missing = Vec::new();
    for session in sessions {
        if !known.exists([session.as_str()])? {
            missing.push(session);
        }
    }
    Ok(missing)
}
