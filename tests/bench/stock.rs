//! A store that has been lived in: 200 sessions in 20 trees, 10,000 events.

use coppice_engine::env::Env;
use coppice_engine::event::{Block, Descriptor, Event, Mode, Party, Stop, TaskStatus, ToolFilter, TurnEnd, Usage};
use coppice_engine::id::{CallId, SessionId, TaskId};
use coppice_engine::log::{Entry, Log, TaskDraft};
use serde_json::Value;
use std::path::Path;

pub const ROOTS: usize = 20;
pub const CHILDREN: usize = 9;
pub const SESSIONS: usize = ROOTS * (1 + CHILDREN);
pub const EVENTS: usize = 10_000;

/// Fills a data folder that is not there yet.
pub async fn fill(data: &Path) {
    let env = Env::system();
    let log = Log::open(data, &env).unwrap();
    for number in 0..ROOTS {
        tree(&log, &env, number).await;
    }
    assert_eq!(log.sessions(None).await.unwrap().len(), SESSIONS);
    assert_eq!(*log.watch().borrow(), EVENTS as i64);
    log.close().await.unwrap();
}

async fn tree(log: &Log, env: &Env, number: usize) {
    let root = env.new_session();
    let title = format!("Tree {number}: see what the parts of the garden need");
    let mut events = vec![opened(&root, None, title)];
    begin(&mut events, Party::Person, None);
    // The tasks' own events stand in the root's log.
    let each = EVENTS / SESSIONS;
    let steps = (each - 6 - 2 * CHILDREN) / 3;
    (1..=steps).for_each(|step| self::step(&mut events, step as u32));
    log.write(vec![Entry::new(&root, events)]).await.unwrap();
    let mut entries = Vec::new();
    for at in 0..CHILDREN {
        let child = env.new_session();
        let label = format!("part {at} of tree {number}");
        let draft = TaskDraft {
            owner: root.clone(),
            kind: "subagent".to_owned(),
            label: label.clone(),
            child: Some(child.clone()),
            call: None,
        };
        let (task, _) = log.start_task(draft).await.unwrap();
        entries.push(Entry::new(&child, life(&root, &child, &task, &label, each)));
        let settled = Event::TaskSettled {
            task,
            status: TaskStatus::Completed,
            detail: None,
            killed_by: None,
            output: Some("The part was looked at.".to_owned()),
            owes_notice: false,
            last_sign_at: None,
        };
        entries.push(Entry::new(&root, vec![settled]));
    }
    let rest = each - 5 - 3 * steps - 2 * CHILDREN;
    let mut end: Vec<Event> = (0..rest).map(|_| Event::Renamed { title: format!("Tree {number}") }).collect();
    end.push(Event::TurnEnded {
        turn: 1,
        end: TurnEnd::Completed,
        by: None,
        detail: None,
        step: None,
        last_sign_at: None,
        worked_ms: None,
    });
    entries.push(Entry::new(&root, end));
    log.write(entries).await.unwrap();
}

/// The log of a child, `each` events long.
fn life(root: &SessionId, child: &SessionId, task: &TaskId, label: &str, each: usize) -> Vec<Event> {
    let mut events = vec![opened(child, Some(root), label.to_owned())];
    events.push(Event::Described(Descriptor {
        version: Descriptor::VERSION,
        provider: "spawn".to_owned(),
        model: "rehearsal".to_owned(),
        persona: None,
        tools: ToolFilter::default(),
        label: label.to_owned(),
    }));
    begin(&mut events, Party::Parent, Some(task));
    let mut number = 0;
    while events.len() + 4 <= each {
        number += 1;
        step(&mut events, number);
    }
    while events.len() + 1 < each {
        events.push(Event::ModelRetried { step: number, reason: "It was busy.".to_owned(), waited_ms: 1 });
    }
    events.push(Event::TurnEnded {
        turn: 1,
        end: TurnEnd::Completed,
        by: None,
        detail: None,
        step: None,
        last_sign_at: None,
        worked_ms: None,
    });
    events
}

fn opened(session: &SessionId, parent: Option<&SessionId>, title: String) -> Event {
    Event::SessionOpened {
        parent: parent.cloned(),
        root: parent.unwrap_or(session).clone(),
        depth: u32::from(parent.is_some()),
        label: parent.map(|_| title.clone()),
        title,
        provider: parent.map(|_| "spawn".to_owned()),
        model: "rehearsal".to_owned(),
        mode: Mode::Full,
        cwd: "/".to_owned(),
    }
}

/// A message that was read, in a turn that has begun: four events.
fn begin(events: &mut Vec<Event>, from: Party, task: Option<&TaskId>) {
    let message = events.len() as i64 + 1;
    events.push(Event::MessageAccepted { from, text: "Look at everything, and say.".repeat(8), task: task.cloned() });
    events.push(Event::TurnStarted { turn: 1, task: task.cloned() });
    events.push(Event::MessageAdmitted { message, step: 1, route: coppice_engine::event::Route::Started });
}

/// A step with a call: three events.
fn step(events: &mut Vec<Event>, step: u32) {
    events.push(Event::StepStarted { turn: 1, step });
    let answer = events.len() as i64 + 1;
    let call = CallId(format!("{step}.1"));
    let blocks = vec![
        Block::Text { text: "I look at the next one, because the last one was **not** what was meant.\n\n".repeat(3) },
        Block::ToolCall { id: call.clone(), name: "read_file".to_owned(), args: r#"{"path": "read.me"}"#.to_owned() },
    ];
    let usage = Usage { input: 4000, output: 120, cached: 3000, estimated: false };
    events.push(Event::Answered { step, blocks, stop: Stop::Complete, usage });
    let text = "A line of what stands there.\n".repeat(30);
    events.push(Event::ToolFinished { call, answer, ok: true, text, detail: Value::Null, ms: 3 });
}
