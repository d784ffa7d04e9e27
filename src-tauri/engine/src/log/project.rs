//! Fold: events -> the tables that the start screen, the tree and the recovery read. Folds take any log as it stands:
//! what does not fit is passed over, so that every prefix of a log folds.

use super::asks;
use super::fault::Fault;
use super::read::{SESSION, Session, from_word, session, word};
use crate::event::{Block, Event, Recorded, TaskStatus, TurnEnd, Usage};
use crate::id::{SessionId, TaskId};
use crate::view::{SessionState, SessionView, Tokens};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

/// The most characters of what a session does now.
const DOING: usize = 80;

/// Brings the projections up to this event. Those before it have been applied.
pub(super) fn apply(sql: &Connection, recorded: &Recorded) -> Result<(), Fault> {
    if let Some(opened) = opened(recorded) {
        return open(sql, recorded.seq, opened);
    }
    let Some(mut session) = load(sql, &recorded.session)? else { return Ok(()) };
    fold(&mut session, recorded);
    save(sql, &session)?;
    if let Event::MessageAccepted { .. } = &recorded.event {
        ask(sql, &session, recorded.at)?;
    }
    if let Event::TurnStarted { .. } = &recorded.event {
        bring_back(sql, &recorded.session)?;
    }
    apply_calls(sql, recorded)?;
    asks::apply(sql, recorded)?;
    apply_tasks(sql, recorded)
}

/// Drops the projections and makes them anew from the log.
pub(super) fn rebuild(sql: &Connection) -> Result<(), Fault> {
    sql.execute_batch("DELETE FROM notice; DELETE FROM task; DELETE FROM call; DELETE FROM ask; DELETE FROM session;")?;
    let mut statement = sql.prepare("SELECT seq, session, n, at, kind, v, body FROM event ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        apply(sql, &super::read::recorded(row)?)?;
    }
    Ok(())
}

/// A session as its first event makes it.
fn opened(recorded: &Recorded) -> Option<Session> {
    let Event::SessionOpened { parent, root, depth, title, label, provider, model, mode, cwd } = &recorded.event else {
        return None;
    };
    let view = SessionView {
        id: recorded.session.clone(),
        parent: parent.clone(),
        root: root.clone(),
        depth: *depth,
        title: title.clone(),
        label: label.clone(),
        provider: provider.clone(),
        model: model.clone(),
        mode: *mode,
        cwd: cwd.clone(),
        state: SessionState::Idle,
        detail: String::new(),
        live_below: 0,
        needs_you: 0,
        task: None,
        last_sign_at: recorded.at,
        created_at: recorded.at,
        asked_at: None,
        rested_at: None,
        worked_ms: 0,
        started_at: None,
        ended_at: None,
        stopped_by: None,
        step: 0,
        archived: false,
        steerable: false,
        tokens: Tokens::default(),
        cost: None,
        last_n: recorded.n,
    };
    Some(Session { view, turn_open: false, asking: None })
}

/// What an event of a session changes in its own row.
fn fold(session: &mut Session, recorded: &Recorded) {
    let Session { view, turn_open, asking } = session;
    view.last_n = recorded.n;
    if let Event::Archived { archived } = &recorded.event {
        // What a person puts away shows no sign of life by that.
        view.archived = *archived;
        return;
    }
    if matches!(recorded.event, Event::Undone { .. } | Event::Noted { .. }) {
        // Nor by what a person does to its files.
        return;
    }
    view.last_sign_at = recorded.at;
    let running = view.state == SessionState::Running;
    match &recorded.event {
        Event::TurnStarted { .. } => {
            *turn_open = true;
            view.started_at = Some(recorded.at);
            view.ended_at = None;
            view.stopped_by = None;
            // A turn that begins while the activation is being stopped does not take the stop back.
            if view.state != SessionState::Stopping {
                view.state = SessionState::Running;
                view.detail.clear();
            }
        }
        Event::StepStarted { step, .. } => {
            *asking = Some(*step);
            view.step = *step;
            if running {
                view.detail = "thinking".to_owned();
            }
        }
        Event::Answered { blocks, usage, .. } => {
            *asking = None;
            view.tokens = view.tokens.plus(of_request(usage));
            if let Some(doing) = doing(blocks).filter(|_| running) {
                view.detail = doing;
            }
        }
        Event::TurnEnded { end, by, detail, last_sign_at, .. } => {
            *turn_open = false;
            *asking = None;
            // What a crash cut off ended with its last sign, not when the next start found it.
            let ended_at = last_sign_at.unwrap_or(recorded.at);
            view.ended_at = Some(ended_at);
            let took = view.started_at.map_or(0, |started_at| ended_at.saturating_sub(started_at).max(0));
            view.worked_ms = view.worked_ms.saturating_add(took);
            view.stopped_by = *by;
            end_turn(view, *end, detail.as_deref());
        }
        Event::Renamed { title } => view.title.clone_from(title),
        Event::ModeSet { mode } => view.mode = *mode,
        _ => {}
    }
}

/// A message came. Where nothing of the session's branch is at work, it begins what the branch is asked now; and so it
/// does for each branch above that rests, too. One that is at work goes on with what it was asked before.
fn ask(sql: &Connection, session: &Session, at: i64) -> Result<(), Fault> {
    if session.turn_open {
        return Ok(());
    }
    // What is below is looked at without the branch that the message came from, which was seen to rest.
    let (mut id, mut seen) = (session.view.id.clone(), None::<SessionId>);
    loop {
        if is_at_work_below(sql, &id, seen.as_ref())? {
            return Ok(());
        }
        sql.prepare_cached("UPDATE session SET asked_at = ?2, worked_ms = 0 WHERE id = ?1")?
            .execute(params![id.as_str(), at])?;
        let Some(parent) = load(sql, &id)?.and_then(|session| session.view.parent) else { return Ok(()) };
        match load(sql, &parent)? {
            Some(above) if !above.turn_open && !above.view.state.is_live() => {}
            _ => return Ok(()),
        }
        seen = Some(std::mem::replace(&mut id, parent));
    }
}

/// Whether a session below this one is at work, or a command of the branch. `but` and what is below it do not count.
fn is_at_work_below(sql: &Connection, id: &SessionId, but: Option<&SessionId>) -> Result<bool, Fault> {
    let mut statement = sql.prepare_cached(
        "WITH RECURSIVE branch (id) AS (
             SELECT ?1 UNION
             SELECT session.id FROM session JOIN branch ON session.parent = branch.id WHERE session.id IS NOT ?2
         )
         SELECT session.id, session.state, EXISTS (
             SELECT 1 FROM task WHERE task.owner = session.id AND task.child IS NULL AND task.settled IS NULL
         )
         FROM branch JOIN session ON session.id = branch.id",
    )?;
    let mut rows = statement.query(params![id.as_str(), but.map(SessionId::as_str)])?;
    while let Some(row) = rows.next()? {
        let (below, state): (bool, SessionState) = (row.get::<_, String>(0)? != id.as_str(), from_word(row.get(1)?)?);
        if row.get(2)? || (below && state.is_live()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes a session at work out of the archive, and all above it: what runs is never out of sight.
fn bring_back(sql: &Connection, session: &SessionId) -> Result<(), Fault> {
    sql.prepare_cached(
        "WITH RECURSIVE above (id) AS (
             SELECT ?1 UNION SELECT session.parent FROM session JOIN above ON session.id = above.id
             WHERE session.parent IS NOT NULL
         )
         UPDATE session SET archived = 0 WHERE archived AND id IN (SELECT id FROM above)",
    )?
    .execute([session.as_str()])?;
    Ok(())
}

fn end_turn(view: &mut SessionView, end: TurnEnd, detail: Option<&str>) {
    let told = |otherwise: &str| detail.unwrap_or(otherwise).to_owned();
    let (state, detail) = match end {
        TurnEnd::Interrupted => (SessionState::Interrupted, "can resume".to_owned()),
        // How an activation ended is told by its task; until then the child does nothing that could be named.
        _ if view.task.is_some() => {
            if view.state == SessionState::Running {
                view.detail.clear();
            }
            return;
        }
        // A child that its parent waits for has no task: its turn tells how it ended.
        TurnEnd::Completed if view.parent.is_some() => (SessionState::Completed, String::new()),
        TurnEnd::Stopped if view.parent.is_some() => (SessionState::Killed, told("")),
        TurnEnd::Completed => (SessionState::Idle, String::new()),
        TurnEnd::Stopped => (SessionState::Idle, told("stopped by you")),
        TurnEnd::Failed | TurnEnd::MaxTokens | TurnEnd::Refusal | TurnEnd::Limit => (SessionState::Failed, told("")),
    };
    view.state = state;
    view.detail = detail;
}

/// What a reply sets out to do: its first tool call, and how many more there are.
fn doing(blocks: &[Block]) -> Option<String> {
    let mut calls = blocks.iter().filter_map(|block| match block {
        Block::ToolCall { name, args, .. } => Some((name, args)),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
    let (name, args) = calls.next()?;
    let more = match calls.count() {
        0 => String::new(),
        more => format!(" +{more}"),
    };
    Some(clip(&call_text(name, args), DOING - more.len()) + &more)
}

/// A call in one line: the tool and its most telling argument. Both are as the model wrote them.
fn call_text(name: &str, args: &str) -> String {
    let args: Value = serde_json::from_str(args).unwrap_or_default();
    let telling = ["command", "pattern", "path", "description", "task_id"]
        .into_iter()
        .find_map(|key| args.get(key)?.as_str().filter(|text| !text.trim().is_empty()));
    match telling {
        Some(telling) => one_line(&format!("{name}: {telling}")),
        None => one_line(name),
    }
}

/// The words of a text without line breaks and control characters.
fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ")
}

/// At most `max` characters of a text; a cut is shown.
fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn of_request(usage: &Usage) -> Tokens {
    let Usage { input, output, cached, estimated } = *usage;
    Tokens { input, output, cached, estimated, requests: 1 }
}

fn apply_calls(sql: &Connection, recorded: &Recorded) -> Result<(), Fault> {
    let session = recorded.session.as_str();
    match &recorded.event {
        Event::Answered { blocks, .. } => {
            for block in blocks {
                if let Block::ToolCall { id, .. } = block {
                    sql.prepare_cached("INSERT OR IGNORE INTO call (session, call) VALUES (?1, ?2)")?
                        .execute([session, id.as_str()])?;
                }
            }
        }
        Event::ToolFinished { call, .. } => {
            sql.prepare_cached("DELETE FROM call WHERE session = ?1 AND call = ?2")?
                .execute([session, call.as_str()])?;
        }
        _ => {}
    }
    Ok(())
}

fn apply_tasks(sql: &Connection, recorded: &Recorded) -> Result<(), Fault> {
    let owner = recorded.session.as_str();
    match &recorded.event {
        Event::TaskStarted { task, task_kind, label, child, .. } => {
            sql.prepare_cached(
                "INSERT OR IGNORE INTO task (seq, id, kind, label, owner, child, status, started_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7)",
            )?
            .execute(params![
                recorded.seq,
                task.as_str(),
                task_kind,
                label,
                owner,
                child.as_ref().map(SessionId::as_str),
                recorded.at
            ])?;
            count(sql, task.as_str(), task_kind)?;
            if let Some(child) = child {
                follow(sql, child)?;
            }
        }
        Event::TaskStopping { task, .. } => {
            let changed = sql
                .prepare_cached(
                    "UPDATE task SET status = 'stopping' WHERE id = ?1 AND owner = ?2 AND status = 'running'
                     RETURNING child",
                )?
                .query_row([task.as_str(), owner], |row| row.get::<_, Option<String>>(0))
                .optional()?;
            follow_task(sql, changed, task)?;
        }
        Event::TaskSettled { task, status, detail, killed_by, owes_notice, last_sign_at, .. } => {
            let ended_at = last_sign_at.unwrap_or(recorded.at);
            let changed = sql
                .prepare_cached(
                    "UPDATE task SET status = ?3, detail = ?4, killed_by = ?5, settled_at = ?6, settled = ?7
                     WHERE id = ?1 AND owner = ?2 AND settled IS NULL RETURNING child",
                )?
                .query_row(
                    params![
                        task.as_str(),
                        owner,
                        status.word(),
                        detail,
                        killed_by.as_ref().map(word).transpose()?,
                        ended_at,
                        recorded.n
                    ],
                    |row| row.get::<_, Option<String>>(0),
                )
                .optional()?;
            if changed.is_some() && *owes_notice {
                sql.prepare_cached(
                    "INSERT OR IGNORE INTO notice (task, owner, settled, state) VALUES (?1, ?2, ?3, 'owed')",
                )?
                .execute(params![task.as_str(), owner, recorded.n])?;
            }
            follow_task(sql, changed, task)?;
        }
        Event::NoticeAdmitted { task, .. } => notice(sql, task, owner, "told")?,
        Event::TaskLearned { task } => notice(sql, task, owner, "learned")?,
        _ => {}
    }
    Ok(())
}

/// Raises the counter of the kind, so that no later task or ask is given the same id.
pub(super) fn count(sql: &Connection, id: &str, kind: &str) -> Result<(), Fault> {
    let number = id.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-')?.parse::<u32>().ok());
    if let Some(number) = number {
        sql.prepare_cached(
            "INSERT INTO counter (kind, n) VALUES (?1, ?2) ON CONFLICT (kind) DO UPDATE SET n = max(n, excluded.n)",
        )?
        .execute(params![kind, number])?;
    }
    Ok(())
}

fn notice(sql: &Connection, task: &TaskId, owner: &str, state: &str) -> Result<(), Fault> {
    sql.prepare_cached("UPDATE notice SET state = ?3 WHERE task = ?1 AND owner = ?2 AND state = 'owed'")?.execute([
        task.as_str(),
        owner,
        state,
    ])?;
    Ok(())
}

/// Lets the child of a task that changed follow it, unless a later activation took its place.
fn follow_task(sql: &Connection, changed: Option<Option<String>>, task: &TaskId) -> Result<(), Fault> {
    let Some(child) = changed.flatten().map(SessionId) else { return Ok(()) };
    match load(sql, &child)? {
        Some(session) if session.view.task.as_ref() == Some(task) => follow(sql, &child),
        _ => Ok(()),
    }
}

/// Sets the child's state by its last activation.
fn follow(sql: &Connection, child: &SessionId) -> Result<(), Fault> {
    let Some(mut session) = load(sql, child)? else { return Ok(()) };
    take_activation(sql, &mut session.view)?;
    save(sql, &session)
}

fn take_activation(sql: &Connection, view: &mut SessionView) -> Result<(), Fault> {
    let last: Option<(String, String, Option<String>, Option<String>)> = sql
        .prepare_cached("SELECT id, status, detail, killed_by FROM task WHERE child = ?1 ORDER BY seq DESC LIMIT 1")?
        .query_row([view.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((task, status, detail, killed_by)) = last else { return Ok(()) };
    view.task = Some(TaskId(task));
    view.stopped_by = killed_by.map(from_word).transpose()?;
    let ended = detail.unwrap_or_default();
    (view.state, view.detail) = match from_word(status)? {
        TaskStatus::Running => (SessionState::Starting, String::new()),
        TaskStatus::Stopping => (SessionState::Stopping, std::mem::take(&mut view.detail)),
        TaskStatus::Completed => (SessionState::Completed, ended),
        TaskStatus::Failed => (SessionState::Failed, ended),
        TaskStatus::Killed => (SessionState::Killed, ended),
        TaskStatus::Interrupted if ended.is_empty() => (SessionState::Interrupted, "can resume".to_owned()),
        TaskStatus::Interrupted => (SessionState::Interrupted, ended),
    };
    Ok(())
}

fn load(sql: &Connection, id: &SessionId) -> Result<Option<Session>, Fault> {
    let mut statement = sql.prepare_cached(&format!("SELECT {SESSION} FROM session WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(session).transpose()
}

/// Puts a new session into its table. Its task may have been started before it.
fn open(sql: &Connection, seq: i64, mut session: Session) -> Result<(), Fault> {
    take_activation(sql, &mut session.view)?;
    let view = &session.view;
    sql.prepare_cached(
        "INSERT OR IGNORE INTO session (seq, id, parent, root, depth, label, provider, model, mode, cwd, created_at,
             title, state, detail, last_sign_at, step, input, output, cached, estimated, requests, last_n, turn_open)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0)",
    )?
    .execute(params![
        seq,
        view.id.as_str(),
        view.parent.as_ref().map(SessionId::as_str),
        view.root.as_str(),
        view.depth,
        view.label,
        view.provider,
        view.model,
        word(&view.mode)?,
        view.cwd,
        view.created_at
    ])?;
    save(sql, &session)
}

/// Writes back all that may change in a session's row.
fn save(sql: &Connection, session: &Session) -> Result<(), Fault> {
    let Session { view, turn_open, asking } = session;
    sql.prepare_cached(
        "UPDATE session SET title = ?2, state = ?3, detail = ?4, task = ?5, last_sign_at = ?6, started_at = ?7,
             ended_at = ?8, step = ?9, input = ?10, output = ?11, cached = ?12, estimated = ?13, requests = ?14,
             last_n = ?15, turn_open = ?16, asking = ?17, archived = ?18, worked_ms = ?19, stopped_by = ?20, mode = ?21
         WHERE id = ?1",
    )?
    .execute(params![
        view.id.as_str(),
        view.title,
        word(&view.state)?,
        view.detail,
        view.task.as_ref().map(TaskId::as_str),
        view.last_sign_at,
        view.started_at,
        view.ended_at,
        view.step,
        view.tokens.input,
        view.tokens.output,
        view.tokens.cached,
        view.tokens.estimated,
        view.tokens.requests,
        view.last_n,
        turn_open,
        asking,
        view.archived,
        view.worked_ms,
        view.stopped_by.as_ref().map(word).transpose()?,
        word(&view.mode)?
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CallId;

    fn call(name: &str, args: &str) -> Block {
        Block::ToolCall { id: CallId::from("1.0"), name: name.to_owned(), args: args.to_owned() }
    }

    #[test]
    fn what_a_session_does_is_told_in_one_short_line() {
        let check = |blocks: &[Block], expected: Option<&str>| assert_eq!(doing(blocks).as_deref(), expected);
        check(&[], None);
        check(&[Block::Text { text: "hello".to_owned() }], None);
        check(&[call("bash", r#"{"description":"runs tests","command":"cargo test"}"#)], Some("bash: cargo test"));
        check(&[call("grep", r#"{"path":"src","pattern":"fn main"}"#)], Some("grep: fn main"));
        check(&[call("read", r#"{"path":"src/log.rs"}"#)], Some("read: src/log.rs"));
        check(&[call("subagent", r#"{"prompt":"…","description":"review"}"#)], Some("subagent: review"));
        check(&[call("bash", "{\"command\":\"a\\n\\tb\\u001b[31m\\u0000c\"}")], Some("bash: a b [31m c"));
        check(&[call("bash", "not json")], Some("bash"));
        check(&[call("bash", "[1]"), call("read", "{}"), call("read", "{}")], Some("bash +2"));
        check(&[call("bash", r#"{"command":7}"#)], Some("bash"));
        let long = doing(&[call("bash", &format!(r#"{{"command":"{}"}}"#, "é".repeat(200))), call("x", "")]);
        assert_eq!(long, Some(format!("bash: {}… +1", "é".repeat(70))));
        assert_eq!(long.map(|text| text.chars().count()), Some(DOING));
    }

    #[test]
    fn absurd_token_figures_do_not_overflow() {
        let most = Tokens { input: i64::MAX, output: i64::MAX, cached: i64::MAX, estimated: true, requests: 1 };
        assert_eq!(most.plus(most), Tokens { requests: 2, ..most });
    }
}
