//! What the person was asked and what was allowed: written as events, read from what is folded of them.

use super::append::{self, next_number};
use super::fault::Fault;
use super::read::from_word;
use super::writer::{Writing, last_seq};
use super::{Log, project};
use crate::action::{Action, Allowance, Allowed, Reason, Scope};
use crate::error::{Code, Error, Result};
use crate::event::{Decision, Event, Mode, Recorded};
use crate::id::{AskId, CallId, SessionId};
use crate::view::{AllowanceView, AskState, AskView, Lineage, SessionState, SessionView};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;
use std::path::Path;

/// How many asks that were answered or taken back are listed.
const LISTED: i64 = 200;

/// What asks a person: everything of `Asked` but the id, which the store gives.
#[derive(Clone, Debug)]
pub struct AskDraft {
    /// The session that asks.
    pub session: SessionId,
    /// The call that waits.
    pub call: CallId,
    /// Its tool.
    pub tool: String,
    /// What it would do.
    pub action: Action,
    /// What an answer for more than one call would allow.
    pub allows: Option<Allowed>,
    /// Why it is asked.
    pub reason: Reason,
    /// What the model says that the call is for.
    pub said: Option<String>,
}

impl Log {
    /// Gives the ask an id and appends `Asked` to the log of its session. What the session asked before, for the same
    /// and of a call that is no more, is withdrawn with it.
    pub async fn open_ask(&self, draft: AskDraft, waiting: Vec<CallId>) -> Result<AskId> {
        self.submit(move |writing| open(writing, &draft, &waiting)).await
    }

    /// One ask. `bad_request` when there is none.
    pub async fn ask_view(&self, id: &AskId) -> Result<AskView> {
        let id = id.clone();
        self.ask(move |sql| one(sql, &id)).await
    }

    /// The asks that wait for the person, oldest first, and with `all` those that were answered lately.
    pub async fn asks(&self, all: bool) -> Result<Vec<AskView>> {
        self.ask(move |sql| {
            let mut found = select(sql, "WHERE state IN ('open', 'later') ORDER BY seq", params![])?;
            if all {
                let past = "WHERE state NOT IN ('open', 'later') ORDER BY seq DESC LIMIT ?1";
                found.extend(select(sql, past, params![LISTED])?);
            }
            Ok(found)
        })
        .await
    }

    /// The asks of one session that wait for the person.
    pub async fn open_asks(&self, session: &SessionId) -> Result<Vec<AskView>> {
        let session = session.clone();
        let of = "WHERE session = ?1 AND state IN ('open', 'later') ORDER BY seq";
        self.ask(move |sql| select(sql, of, params![session.as_str()])).await
    }

    /// The ask whose leave for one call is still owed to this session for exactly this.
    pub async fn owed_leave(&self, session: &SessionId, action: &Action) -> Result<Option<AskView>> {
        let (session, action) = (session.clone(), action.clone());
        self.ask(move |sql| {
            let owed = select(sql, "WHERE session = ?1 AND owed ORDER BY seq", params![session.as_str()])?;
            Ok(owed.into_iter().find(|ask| ask.action == action))
        })
        .await
    }

    /// What is allowed in this folder for more than one call, to this session: each with the ask that allowed it.
    pub async fn allowances(&self, session: &SessionId, cwd: &Path) -> Result<Vec<(AskId, Allowance)>> {
        let (session, cwd) = (session.clone(), cwd.to_string_lossy().into_owned());
        self.ask(move |sql| {
            sql.prepare_cached(
                "WITH RECURSIVE above (id) AS (
                     SELECT ?1 UNION SELECT session.parent FROM session JOIN above ON session.id = above.id
                     WHERE session.parent IS NOT NULL
                 )
                 SELECT ask, allows, session IS NULL FROM allowance
                 WHERE cwd = ?2 AND NOT removed AND (session IS NULL OR session IN (SELECT id FROM above))",
            )?
            .query_and_then(params![session.as_str(), cwd], |row| {
                let allows: String = row.get(1)?;
                let scope = if row.get(2)? { Scope::Always } else { Scope::Branch };
                let allowance = Allowance { what: serde_json::from_str(&allows)?, cwd: cwd.clone().into(), scope };
                Ok((AskId(row.get(0)?), allowance))
            })?
            .collect()
        })
        .await
    }

    /// Notes that a call did what this ask allowed for more than one.
    pub async fn use_allowance(&self, ask: &AskId) -> Result<()> {
        let ask = ask.clone();
        self.submit(move |writing| {
            writing
                .sql
                .prepare_cached("UPDATE allowance SET used = used + 1 WHERE ask = ?1")?
                .execute([ask.as_str()])?;
            Ok(())
        })
        .await
    }

    /// Everything that is allowed for more than one call, oldest first.
    pub async fn all_allowances(&self) -> Result<Vec<AllowanceView>> {
        self.ask(|sql| {
            sql.prepare_cached(
                "SELECT ask, session, cwd, allows, at, used FROM allowance WHERE NOT removed ORDER BY at",
            )?
            .query_and_then([], |row| {
                let allows: String = row.get(3)?;
                Ok(AllowanceView {
                    ask: AskId(row.get(0)?),
                    session: row.get::<_, Option<String>>(1)?.map(SessionId),
                    cwd: row.get(2)?,
                    what: serde_json::from_str(&allows)?,
                    since: row.get(4)?,
                    used: row.get(5)?,
                })
            })?
            .collect()
        })
        .await
    }

    /// Takes an allowance back. `bad_request` when there is none.
    pub async fn disallow(&self, ask: &AskId) -> Result<()> {
        let ask = ask.clone();
        self.submit(move |writing| {
            let changed = writing
                .sql
                .prepare_cached("UPDATE allowance SET removed = 1 WHERE ask = ?1 AND NOT removed")?
                .execute([ask.as_str()])?;
            if changed == 0 {
                return Err(Error::new(Code::BadRequest, format!("Nothing is allowed by {ask} now.")).into());
            }
            Ok(())
        })
        .await
    }

    /// What a session may do without asking: the least of its own mode and those of all above it.
    pub async fn mode(&self, session: &SessionId) -> Result<Mode> {
        let session = session.clone();
        self.ask(move |sql| {
            let modes: Vec<Mode> = sql
                .prepare_cached(
                    "WITH RECURSIVE above (id, parent, mode) AS (
                         SELECT id, parent, mode FROM session WHERE id = ?1
                         UNION SELECT session.id, session.parent, session.mode
                         FROM session JOIN above ON session.id = above.parent
                     )
                     SELECT mode FROM above",
                )?
                .query_and_then([session.as_str()], |row| -> Result<Mode, Fault> { Ok(from_word(row.get(0)?)?) })?
                .collect::<Result<_, _>>()?;
            modes.into_iter().reduce(Mode::least).ok_or_else(|| super::fault::unknown_session(session.as_str()).into())
        })
        .await
    }
}

/// The columns of an ask, as [`view`] reads them.
const ASK: &str = "ask.id, ask.session, ask.call, ask.tool, ask.action, ask.allows, ask.reason, ask.asked, ask.asked_at, \
                   ask.state, ask.note, ask.decided_at, ask.owed, \
                   (SELECT used FROM allowance WHERE allowance.ask = ask.id), \
                   EXISTS (SELECT 1 FROM call WHERE call.session = ask.session AND call.call = ask.call), ask.said";

fn view(row: &Row) -> Result<AskView, Fault> {
    let (action, allows, reason): (String, Option<String>, String) = (row.get(4)?, row.get(5)?, row.get(6)?);
    let action: Action = serde_json::from_str(&action)?;
    let reason: Reason = serde_json::from_str(&reason)?;
    let state: AskState = from_word(row.get(9)?)?;
    Ok(AskView {
        id: AskId(row.get(0)?),
        session: SessionId(row.get(1)?),
        call: CallId(row.get(2)?),
        tool: row.get(3)?,
        action,
        allows: allows.map(|allows| serde_json::from_str(&allows)).transpose()?,
        reason,
        said: row.get(15)?,
        n: row.get(7)?,
        asked_at: row.get(8)?,
        state,
        note: row.get(10)?,
        decided_at: row.get(11)?,
        owed: row.get(12)?,
        used: row.get::<_, Option<u32>>(13)?.unwrap_or(0),
        lineage: Vec::new(),
        cwd: String::new(),
        waits: row.get(14)?,
    })
}

fn select(sql: &Connection, which: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<AskView>, Fault> {
    let mut found: Vec<AskView> = sql
        .prepare_cached(&format!("SELECT {ASK} FROM ask {which}"))?
        .query_and_then(with, view)?
        .collect::<Result<_, _>>()?;
    let mut known: HashMap<SessionId, (String, Vec<Lineage>)> = HashMap::new();
    for ask in &mut found {
        if !known.contains_key(&ask.session) {
            known.insert(ask.session.clone(), lineage(sql, &ask.session)?);
        }
        if let Some((cwd, lineage)) = known.get(&ask.session) {
            ask.cwd.clone_from(cwd);
            ask.lineage.clone_from(lineage);
        }
    }
    Ok(found)
}

fn one(sql: &Connection, id: &AskId) -> Result<AskView, Fault> {
    let found = select(sql, "WHERE id = ?1", params![id.as_str()])?;
    found.into_iter().next().ok_or_else(|| unknown(id))
}

fn unknown(ask: &AskId) -> Fault {
    Error::new(Code::BadRequest, format!("There is no ask {ask}.")).into()
}

/// A session's folder, and all from the root of its tree down to it.
fn lineage(sql: &Connection, session: &SessionId) -> Result<(String, Vec<Lineage>), Fault> {
    let mut cwd = String::new();
    let mut lineage = Vec::new();
    let mut at = Some(session.clone());
    while let Some(id) = at {
        let row = sql
            .prepare_cached("SELECT title, parent, cwd FROM session WHERE id = ?1")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?, row.get(2)?)))
            .optional()?;
        let Some((title, parent, folder)) = row else { break };
        if lineage.is_empty() {
            cwd = folder;
        }
        lineage.push(Lineage { id, title });
        at = parent.map(SessionId);
    }
    lineage.reverse();
    Ok((cwd, lineage))
}

/// Puts the asks that wait into what people see of these sessions: how many, and what a session is paused for.
pub(super) fn mark(sql: &Connection, sessions: &mut [SessionView]) -> Result<(), Fault> {
    let mut found: HashMap<SessionId, (u32, Option<String>)> = HashMap::new();
    for ask in select(sql, "WHERE state IN ('open', 'later') ORDER BY seq", params![])? {
        let (count, doing) = found.entry(ask.session).or_default();
        *count += 1;
        if ask.waits && doing.is_none() {
            *doing = Some(ask.action.words());
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    for session in sessions {
        let Some((count, doing)) = found.remove(&session.id) else { continue };
        session.needs_you = count;
        if let Some(doing) = doing.filter(|_| session.state == SessionState::Running) {
            (session.state, session.detail) = (SessionState::Waiting, doing);
        }
    }
    Ok(())
}

fn open(writing: &Writing, draft: &AskDraft, waiting: &[CallId]) -> Result<AskId, Fault> {
    let sql = writing.sql;
    let ask = AskId(format!("ask-{}", next_number(sql, "ask")?));
    let batch = last_seq(sql)? + 1;
    let mut events = Vec::new();
    let of = "WHERE session = ?1 AND state IN ('open', 'later') ORDER BY seq";
    for before in select(sql, of, params![draft.session.as_str()])? {
        if before.action == draft.action && !waiting.contains(&before.call) {
            events.push(Event::Withdrawn { ask: before.id, asked: before.n, reason: "it was asked anew".to_owned() });
        }
    }
    events.push(Event::Asked {
        ask: ask.clone(),
        call: draft.call.clone(),
        tool: draft.tool.clone(),
        action: draft.action.clone(),
        allows: draft.allows.clone(),
        reason: draft.reason.clone(),
        said: draft.said.clone(),
    });
    for event in &events {
        append::one(writing, &draft.session, None, batch, event)?;
    }
    Ok(ask)
}

/// The rules that hold for what is written of asks: the first answer stands.
pub(super) fn check(sql: &Connection, session: &SessionId, event: &Event) -> Result<(), Fault> {
    let (Event::Decided { ask, .. } | Event::Withdrawn { ask, .. } | Event::LeaveTaken { ask, .. }) = event else {
        return Ok(());
    };
    let row: Option<(bool, bool)> = sql
        .prepare_cached("SELECT state IN ('open', 'later'), owed FROM ask WHERE id = ?1 AND session = ?2")?
        .query_row([ask.as_str(), session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((open, owed)) = row else { return Err(unknown(ask)) };
    let may = if let Event::LeaveTaken { .. } = event { owed } else { open };
    if may {
        return Ok(());
    }
    Err(Error::new(Code::Conflict, format!("{ask} was answered already; the first answer stands.")).into())
}

/// Brings what is folded of asks up to this event.
pub(super) fn apply(sql: &Connection, recorded: &Recorded) -> Result<(), Fault> {
    match &recorded.event {
        Event::Asked { ask, call, tool, action, allows, reason, said } => {
            sql.prepare_cached(
                "INSERT OR IGNORE INTO ask (seq, id, session, call, tool, action, allows, reason, said, asked, asked_at,
                     state)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'open')",
            )?
            .execute(params![
                recorded.seq,
                ask.as_str(),
                recorded.session.as_str(),
                call.as_str(),
                tool,
                serde_json::to_string(action)?,
                allows.as_ref().map(serde_json::to_string).transpose()?,
                serde_json::to_string(reason)?,
                said,
                recorded.n,
                recorded.at
            ])?;
            project::count(sql, ask.as_str(), "ask")
        }
        Event::Decided { ask, decision, note, waited, .. } => {
            let decided_at = (*decision != Decision::Later).then_some(recorded.at);
            let owed = *decision == Decision::Once && !waited;
            settle(sql, ask, AskState::from(*decision), note.as_deref(), decided_at, owed)?;
            if matches!(decision, Decision::Branch | Decision::Always) {
                let for_session = (*decision == Decision::Branch).then(|| recorded.session.as_str());
                sql.prepare_cached(
                    "INSERT OR IGNORE INTO allowance (ask, session, cwd, allows, at)
                     SELECT ask.id, ?2, session.cwd, ask.allows, ?3 FROM ask JOIN session ON session.id = ask.session
                     WHERE ask.id = ?1 AND ask.allows IS NOT NULL",
                )?
                .execute(params![ask.as_str(), for_session, recorded.at])?;
            }
            Ok(())
        }
        Event::Withdrawn { ask, reason, .. } => {
            settle(sql, ask, AskState::Withdrawn, Some(reason), Some(recorded.at), false)
        }
        Event::LeaveTaken { ask, .. } => {
            sql.prepare_cached("UPDATE ask SET owed = 0 WHERE id = ?1")?.execute([ask.as_str()])?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn settle(
    sql: &Connection,
    ask: &AskId,
    state: AskState,
    note: Option<&str>,
    decided_at: Option<i64>,
    owed: bool,
) -> Result<(), Fault> {
    sql.prepare_cached(
        "UPDATE ask SET state = ?2, note = ?3, decided_at = ?4, owed = ?5
         WHERE id = ?1 AND state IN ('open', 'later')",
    )?
    .execute(params![ask.as_str(), super::read::word(&state)?, note, decided_at, owed])?;
    Ok(())
}
