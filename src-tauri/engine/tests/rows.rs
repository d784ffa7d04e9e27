//! What people see of a log: the rows of each event, and what later events change of them.

use coppice_engine::action::{Action, Reason, Rule};
use coppice_engine::event::{
    Block, Decision, Descriptor, Event, FileChange, Mode, Party, Receipt, ReceiptItem, Recorded, Route, Stop,
    TaskStatus, ToolFilter, TreeLimits, TurnEnd, Usage,
};
use coppice_engine::id::{AskId, CallId, SessionId, TaskId};
use coppice_engine::text::plain;
use coppice_engine::view::rows::{Context, gives_rows, rows};
use coppice_engine::view::{AskState, MessageReceipt, Row, RowBody, TaskView, ToolResultRow, ToolRow};
use proptest::prelude::*;
use serde_json::{Value, json};

const SESSION: &str = "s1";

/// Where the ask stands among the samples.
const ASKED: i64 = 32;

/// Puts events into one session, one second apart.
fn log(events: Vec<Event>) -> Vec<Recorded> {
    let numbered = (1..).zip(events);
    numbered.map(|(n, event)| Recorded { seq: 10 + n, session: SESSION.into(), n, at: n * 1000, event }).collect()
}

fn task(id: &TaskId) -> Option<TaskView> {
    (id.as_str() == "subagent-1").then(|| TaskView {
        id: id.clone(),
        kind: "subagent".to_owned(),
        label: "look\n\u{202e}around".to_owned(),
        owner: SESSION.into(),
        child: Some("c1".into()),
        status: TaskStatus::Completed,
        detail: None,
        killed_by: None,
        started_at: 1500,
        settled_at: None,
    })
}

/// The rows of every event of a log, each with those that complete it.
fn fold(log: &[Recorded], parent: Option<&SessionId>) -> Vec<Vec<Row>> {
    let context = Context { parent, delegates: &|tool| tool.starts_with("subagent"), facts: &task };
    let about =
        |event: &Recorded| log.iter().filter(|other| other.event.about() == Some(event.n)).cloned().collect::<Vec<_>>();
    log.iter().map(|event| rows(event, &about(event), &context)).collect()
}

/// The body of the one row of the first event.
fn body(events: Vec<Event>) -> RowBody {
    let mut rows = fold(&log(events), None).swap_remove(0);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0).body
}

fn message(from: Party) -> Event {
    Event::MessageAccepted { from, text: "Look\ninto it.".to_owned(), task: None }
}

fn settled() -> Event {
    Event::TaskSettled {
        task: "subagent-1".into(),
        status: TaskStatus::Completed,
        detail: Some("done".to_owned()),
        killed_by: None,
        output: Some("x".to_owned()),
        owes_notice: true,
        last_sign_at: None,
    }
}

fn answered(blocks: Vec<Block>) -> Event {
    Event::Answered { step: 4, blocks, stop: Stop::Complete, usage: Usage::default() }
}

fn tool_call(id: &str, name: &str, args: &str) -> Block {
    Block::ToolCall { id: id.into(), name: name.to_owned(), args: args.to_owned() }
}

fn finished(call: &str, answer: i64, text: &str) -> Event {
    Event::ToolFinished {
        call: call.into(),
        answer,
        ok: true,
        text: text.to_owned(),
        detail: json!({"lines": 2}),
        ms: 7,
    }
}

fn ended(end: TurnEnd, detail: Option<&str>) -> Event {
    Event::TurnEnded {
        turn: 1,
        end,
        by: None,
        detail: detail.map(str::to_owned),
        step: Some(3),
        last_sign_at: None,
        worked_ms: None,
    }
}

fn unknown(kind: &str) -> Event {
    Event::Unknown { kind: kind.to_owned(), version: 9, body: json!({"a": 1}) }
}

/// One event of every kind that this build knows, in an order that a log could have.
fn samples() -> Vec<Event> {
    let receipt = Receipt { what: "turn".to_owned(), label: "a\u{202e}b".to_owned(), ..Receipt::default() };
    vec![
        Event::SessionOpened {
            parent: None,
            root: SESSION.into(),
            depth: 0,
            title: "t".to_owned(),
            label: None,
            provider: None,
            model: "rehearsal".to_owned(),
            mode: Mode::Ask,
            cwd: "/".to_owned(),
        },
        Event::Described(Descriptor {
            version: Descriptor::VERSION,
            provider: "spawn".to_owned(),
            model: "rehearsal".to_owned(),
            persona: None,
            tools: ToolFilter::default(),
            label: "l".to_owned(),
        }),
        message(Party::Person),
        Event::TurnStarted { turn: 1, task: None },
        Event::StepStarted { turn: 1, step: 1 },
        Event::MessageAdmitted { message: 3, step: 1, route: Route::Started },
        Event::ModelRetried { step: 1, reason: "busy".to_owned(), waited_ms: 2500 },
        answered(vec![
            Block::Thinking { text: "hm".to_owned() },
            Block::Text { text: "so".to_owned() },
            tool_call("1.2", "subagent", r#"{"description": "look around", "prompt": "p"}"#),
            tool_call("1.3", "read_file", r#"{"path": "src/lib.rs"}"#),
        ]),
        Event::TaskStarted {
            task: "subagent-1".into(),
            task_kind: "subagent".to_owned(),
            label: "l".to_owned(),
            child: Some("c1".into()),
            call: Some("1.2".into()),
        },
        finished("1.3", 8, "one\ntwo\n"),
        finished("1.2", 8, "started"),
        Event::TaskStopping { task: "subagent-1".into(), by: Party::Owner, reason: None },
        settled(),
        message(Party::Person),
        Event::MessageDeferred { message: 14, reason: "the turn was stopped".to_owned() },
        Event::MessageDropped { message: 14, reason: "it was stopped".to_owned() },
        Event::NoticeAdmitted { task: "subagent-1".into(), settled: 13, step: 2, text: "t".to_owned() },
        Event::TaskLearned { task: "subagent-1".into() },
        ended(TurnEnd::Stopped, Some("stopped by you")),
        Event::Stopped { receipt },
        Event::Renamed { title: "n".to_owned() },
        Event::Archived { archived: true },
        Event::FileChanging {
            call: "1.1".into(),
            change: FileChange { path: "/w/f".to_owned(), shown: "f".to_owned(), before: None, after: None },
        },
        Event::Undone { edits: Vec::new(), files: Vec::new() },
        Event::Noted { text: "t".to_owned() },
        Event::Told { note: 25, step: 2, text: "t".to_owned() },
        Event::Clashed {
            path: "/w/f".to_owned(),
            first: "c1".into(),
            first_label: "a".to_owned(),
            later: "c2".into(),
            later_label: "b".to_owned(),
        },
        Event::Warned { limit: "tokens".to_owned(), used: 80, most: 100, step: 2, text: "wrap up".to_owned() },
        Event::Seeded { from: "p".into(), upto: 9, turns: 2 },
        Event::Limited { limits: TreeLimits { tokens: Some(100), ..TreeLimits::default() } },
        unknown("from_the_future"),
    ]
    .into_iter()
    .chain(asked())
    .collect()
}

/// An ask with its answer. The samples before it are as many as its place says.
fn asked() -> Vec<Event> {
    let (ask, asked) = (AskId::from("ask-1"), ASKED);
    let action = Action::Command { text: "make".to_owned(), background: false };
    let reason = Reason { rule: Rule::Unknown, text: "It is not known\nto only read.".to_owned() };
    vec![
        Event::Asked {
            ask: ask.clone(),
            call: "2.1".into(),
            tool: "bash".to_owned(),
            action,
            allows: None,
            reason,
            said: None,
        },
        Event::Decided { ask: ask.clone(), asked, decision: Decision::Once, note: None, waited: true },
        Event::LeaveTaken { ask: ask.clone(), asked, call: "3.1".into() },
        Event::Withdrawn { ask, asked, reason: "asked anew".to_owned() },
        Event::ModeSet { mode: Mode::ReadOnly },
    ]
}

#[test]
fn an_ask_shows_what_became_of_it() {
    let of = |events: &[Event]| match body(events.to_vec()) {
        RowBody::Ask { state, note, reason, .. } => (state, note, reason.text),
        other => panic!("{other:?}"),
    };
    let events: Vec<Event> = asked();
    let here = |event: &Event| match event.clone() {
        Event::Decided { ask, decision, waited, .. } => {
            Event::Decided { ask, asked: 1, decision, note: Some("a\u{202e}b".to_owned()), waited }
        }
        Event::Withdrawn { ask, reason, .. } => Event::Withdrawn { ask, asked: 1, reason },
        other => other,
    };
    let why = "It is not known to only read.".to_owned();
    assert_eq!(of(&events[..1]), (AskState::Open, None, why.clone()));
    let decided = of(&[events[0].clone(), here(&events[1])]);
    assert_eq!((decided.0, decided.1.is_some_and(|note| !note.contains('\u{202e}'))), (AskState::Once, true));
    let withdrawn = of(&[events[0].clone(), here(&events[3])]);
    assert_eq!(withdrawn, (AskState::Withdrawn, Some("asked anew".to_owned()), why));
}

/// Fails to build when a kind is added, so that it is added to the samples too.
fn is_in_samples(event: &Event) -> bool {
    match event {
        Event::SessionOpened { .. }
        | Event::Described(_)
        | Event::MessageAccepted { .. }
        | Event::MessageAdmitted { .. }
        | Event::MessageDeferred { .. }
        | Event::MessageDropped { .. }
        | Event::TurnStarted { .. }
        | Event::StepStarted { .. }
        | Event::NoticeAdmitted { .. }
        | Event::Answered { .. }
        | Event::ToolFinished { .. }
        | Event::ModelRetried { .. }
        | Event::TurnEnded { .. }
        | Event::TaskStarted { .. }
        | Event::TaskStopping { .. }
        | Event::TaskSettled { .. }
        | Event::TaskLearned { .. }
        | Event::Stopped { .. }
        | Event::Renamed { .. }
        | Event::Archived { .. }
        | Event::FileChanging { .. }
        | Event::Undone { .. }
        | Event::Noted { .. }
        | Event::Told { .. }
        | Event::Clashed { .. }
        | Event::Warned { .. }
        | Event::Limited { .. }
        | Event::Seeded { .. }
        | Event::Asked { .. }
        | Event::Decided { .. }
        | Event::LeaveTaken { .. }
        | Event::Withdrawn { .. }
        | Event::ModeSet { .. }
        | Event::Unknown { .. } => samples().iter().any(|sample| sample.kind() == event.kind()),
    }
}

#[test]
fn a_kind_gives_rows_exactly_when_it_says_so() {
    let log = log(samples());
    for (event, rows) in log.iter().zip(fold(&log, None)) {
        let kind = event.event.kind();
        assert!(is_in_samples(&event.event));
        assert_eq!(gives_rows(kind), !rows.is_empty(), "{kind}");
        assert!(rows.iter().all(|row| row.n == event.n && row.at == event.at), "{kind}");
        assert!(rows.iter().zip(0..).all(|(row, part)| row.part == part), "{kind}");
    }
}

#[test]
fn every_prefix_of_a_log_has_its_rows_and_what_comes_changes_only_what_it_completes() {
    let log = log(samples());
    for length in 1..log.len() {
        let (before, after) = (fold(&log[..length], None), fold(&log[..=length], None));
        let about = log[length].event.about();
        for (event, (before, after)) in log.iter().zip(before.iter().zip(&after)) {
            if about == Some(event.n) {
                assert_ne!(before, after, "event {} completes {}", length + 1, event.n);
                assert_eq!(before.len(), after.len());
            } else {
                assert_eq!(before, after, "event {} leaves {} alone", length + 1, event.n);
            }
        }
    }
}

#[test]
fn a_message_shows_who_wrote_it_and_what_became_of_it() {
    let text = "Look\ninto it.".to_owned();
    let accepted = RowBody::Message { text: text.clone(), receipt: MessageReceipt::Accepted };
    assert_eq!(body(vec![message(Party::Person)]), accepted);
    assert_eq!(
        body(vec![message(Party::Person), Event::MessageAdmitted { message: 1, step: 3, route: Route::Steered }]),
        RowBody::Message { text: text.clone(), receipt: MessageReceipt::Admitted { step: 3, route: Route::Steered } }
    );
    assert_eq!(
        body(vec![message(Party::Person), Event::MessageDropped { message: 1, reason: "it\nended".to_owned() }]),
        RowBody::Message {
            text: text.clone(),
            receipt: MessageReceipt::NotDelivered { reason: "it ended".to_owned() }
        }
    );
    let parent = SessionId::from("p1");
    let rows = fold(&log(vec![message(Party::Parent)]), Some(&parent)).swap_remove(0);
    let asked = RowBody::AskText { asker: parent, text, receipt: MessageReceipt::Accepted };
    assert_eq!(rows, [Row { n: 1, part: 0, at: 1000, step: None, body: asked }]);
}

#[test]
fn a_reply_is_one_row_a_part_in_order() {
    let events = vec![
        answered(vec![
            Block::Thinking { text: "hm".to_owned() },
            Block::Text { text: "so".to_owned() },
            tool_call("4.2", "subagent_fork", "{}"),
            tool_call("4.3", "grep", r#"{"path": "src", "pattern": "x.*"}"#),
        ]),
        finished("4.3", 1, "one\ntwo"),
    ];
    let row = |part, body| Row { n: 1, part, at: 1000, step: Some(4), body };
    let tool = |call: &str, tool: &str, target: &str, args: &str, result| ToolRow {
        call: CallId::from(call),
        tool: tool.to_owned(),
        target: target.to_owned(),
        args: args.to_owned(),
        result,
    };
    let result =
        ToolResultRow { ok: true, text: "one\ntwo".to_owned(), bytes: 7, lines: 2, detail: json!({"lines": 2}), ms: 7 };
    assert_eq!(
        fold(&log(events), None).swap_remove(0),
        [
            row(0, RowBody::Thinking { text: "hm".to_owned() }),
            row(1, RowBody::Answer { text: "so".to_owned(), stop: Stop::Complete }),
            row(2, RowBody::Delegation(tool("4.2", "subagent_fork", "", "{}", None))),
            row(3, RowBody::Tool(tool("4.3", "grep", "x.*", r#"{"path": "src", "pattern": "x.*"}"#, Some(result)))),
        ]
    );
}

#[test]
fn a_call_that_made_a_child_is_a_delegation_whatever_delegates_by_todays_configuration() {
    let check = |detail: Value, expected: bool| {
        let mut result = finished("1.0", 1, "Started task subagent-1 (child c1).");
        if let Event::ToolFinished { detail: told, .. } = &mut result {
            told.clone_from(&detail);
        }
        let row = body(vec![answered(vec![tool_call("1.0", "explore", "{}")]), result]);
        assert_eq!(matches!(row, RowBody::Delegation(_)), expected, "{detail}");
    };
    check(json!({ "task": "subagent-1", "child": "c1" }), true);
    check(json!({ "child": "c1" }), true);
    check(json!({ "task": "subagent-2", "child": "c1", "route": "started" }), false);
    check(json!({ "child": null }), false);
    check(Value::Null, false);
}

fn tool_row(args: &str, result: &str) -> ToolRow {
    match body(vec![answered(vec![tool_call("1.0", "bash", args)]), finished("1.0", 1, result)]) {
        RowBody::Tool(row) => row,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_target_of_a_call_is_the_first_line_of_its_telling_argument() {
    let long = "x".repeat(300);
    let cut = format!("{}…", "x".repeat(119));
    for (args, target) in [
        (r#"{"command": "\n  cargo test\nls", "description": "tests"}"#, "cargo test"),
        (r#"{"path": "a.rs", "old": "x", "new": "y"}"#, "a.rs"),
        (r#"{"prompt": "do it", "description": "look around"}"#, "look around"),
        (r#"{"task_id": "bash-1", "wait": true}"#, "bash-1"),
        (r#"{"other": 1, "more": "words"}"#, "words"),
        (r#"{"path": ""}"#, ""),
        (r#"{"path": "a\u001b[31m\u202eb\tc"}"#, "a[31mb c"),
        (r#"{"path": "cut off be"#, "cut off be"),
        (r#"{"path" : "caf\u00e9\n", "content": "..."#, "café"),
        (r#"{"content": "\"path\": no", "path": "real"#, "real"),
        ("[1, 2]", ""),
        (r#""just words""#, "just words"),
        ("not json", ""),
        ("", ""),
        (&format!(r#"{{"path": "{long}"}}"#), cut.as_str()),
    ] {
        assert_eq!(tool_row(args, "").target, target, "{args}");
    }
}

#[test]
fn of_a_long_result_the_end_is_shown_and_the_whole_counted() {
    let text = "語語\n".repeat(10_000);
    let args = "語".repeat(10_000);
    let row = tool_row(&args, &text);
    let result = row.result.unwrap();
    assert!(args.starts_with(&row.args) && (4094..=4096).contains(&row.args.len()));
    assert!(text.ends_with(&result.text) && (4094..=4096).contains(&result.text.len()));
    assert_eq!((result.bytes, result.lines), (70_000, 10_000));
}

#[test]
fn a_long_text_is_cut_on_a_character_and_says_what_is_left_out() {
    let text = "a".repeat(256 * 1024 - 1) + &"語".repeat(1000);
    let mark = "\n\n… 3000 bytes more are not shown here; `coppice export` and `coppice events` have them.";
    let cut = format!("{}{mark}", "a".repeat(256 * 1024 - 1));
    let answer = RowBody::Answer { text: cut.clone(), stop: Stop::Complete };
    assert_eq!(body(vec![answered(vec![Block::Text { text: text.clone() }])]), answer);
    assert_eq!(
        body(vec![answered(vec![Block::Thinking { text: text.clone() }])]),
        RowBody::Thinking { text: cut.clone() }
    );
    let message = body(vec![Event::MessageAccepted { from: Party::Person, text, task: None }]);
    assert_eq!(message, RowBody::Message { text: cut, receipt: MessageReceipt::Accepted });
}

#[test]
fn the_facts_of_a_result_are_bounded_whatever_a_tool_puts_in_them() {
    let command = "x".repeat(5_000_000);
    let detail = json!({ "command": command, "exit": 0, "processes_left": (0..5000).collect::<Vec<u32>>() });
    let mut result = finished("1.1", 1, "r");
    if let Event::ToolFinished { detail: facts, .. } = &mut result {
        *facts = detail;
    }
    let RowBody::Tool(row) = body(vec![answered(vec![tool_call("1.1", "bash", "{}")]), result]) else { panic!() };
    let left: Vec<u32> = (0..100).collect();
    let command = "x".repeat(8 * 1024) + "…";
    assert_eq!(row.result.unwrap().detail, json!({ "command": command, "exit": 0, "processes_left": left }));
}

#[test]
fn the_end_of_a_task_tells_what_it_was_and_whether_the_owner_was_told() {
    let notice = |told_at_step| RowBody::Notice {
        task: "subagent-1".into(),
        task_kind: "subagent".to_owned(),
        label: "look around".to_owned(),
        child: Some("c1".into()),
        status: TaskStatus::Completed,
        detail: Some("done".to_owned()),
        killed_by: None,
        ran_ms: 0,
        told_at_step,
    };
    let told = Event::NoticeAdmitted { task: "subagent-1".into(), settled: 1, step: 5, text: String::new() };
    assert_eq!(body(vec![settled()]), notice(None));
    assert_eq!(body(vec![settled(), told]), notice(Some(5)));

    let later = fold(&log(vec![unknown("x"), settled()]), None).swap_remove(1).swap_remove(0);
    assert!(matches!(later.body, RowBody::Notice { ran_ms: 500, .. }), "{later:?}");

    // A task whose start cannot be found is shown by its id.
    let lost = Event::TaskSettled {
        task: "bash-7".into(),
        status: TaskStatus::Failed,
        detail: None,
        killed_by: None,
        output: None,
        owes_notice: true,
        last_sign_at: None,
    };
    assert_eq!(
        body(vec![lost]),
        RowBody::Notice {
            task: "bash-7".into(),
            task_kind: "bash".to_owned(),
            label: "bash-7".to_owned(),
            child: None,
            status: TaskStatus::Failed,
            detail: None,
            killed_by: None,
            ran_ms: 0,
            told_at_step: None,
        }
    );
}

#[test]
fn faults_and_ends_of_turns_say_what_happened() {
    let fault = |text: &str, repaired| RowBody::Fault { text: text.to_owned(), repaired };
    let retried = |waited_ms| Event::ModelRetried { step: 1, reason: "The server is\nbusy".to_owned(), waited_ms };
    assert_eq!(body(vec![retried(2500)]), fault("The server is busy (tried again after 2 s)", true));
    assert_eq!(body(vec![retried(0)]), fault("The server is busy (tried again at once)", true));
    assert_eq!(body(vec![ended(TurnEnd::Failed, Some("No route."))]), fault("No route.", false));
    assert_eq!(body(vec![ended(TurnEnd::Failed, None)]), fault("The turn failed, and no reason was given.", false));
    for end in [TurnEnd::Stopped, TurnEnd::MaxTokens, TurnEnd::Refusal, TurnEnd::Limit, TurnEnd::Interrupted] {
        assert_eq!(
            body(vec![ended(end, Some("why"))]),
            RowBody::TurnEnd { end, by: None, detail: Some("why".to_owned()) }
        );
    }
    assert_eq!(fold(&log(vec![ended(TurnEnd::Completed, None)]), None), [[]]);
}

#[test]
fn a_stop_shows_its_receipt_with_names_that_fit_a_line() {
    let item = |label: &str| ReceiptItem { kind: "task".to_owned(), id: "bash-1".to_owned(), label: label.to_owned() };
    let receipt = |label: &str| Receipt {
        what: "branch".to_owned(),
        label: label.to_owned(),
        by: Some(Party::Person),
        ended: vec![item(label)],
        kept: vec![item(label)],
        processes: Vec::new(),
        unconfirmed: vec![label.to_owned()],
        ms: 5,
    };
    assert_eq!(
        body(vec![Event::Stopped { receipt: receipt("a\n\u{2066}b\u{7}") }]),
        RowBody::Decision { receipt: receipt("a b") }
    );
}

#[test]
fn what_this_build_cannot_read_is_shown_as_such() {
    for kind in ["from_the_future", "tool_finished"] {
        assert_eq!(body(vec![unknown(kind)]), RowBody::Unknown { event: kind.to_owned() });
    }
    assert!(gives_rows("from_the_future"));
    let read = Event::read("answered", 1, Value::from("no object"));
    assert_eq!(body(vec![read]), RowBody::Unknown { event: "answered".to_owned() });
}

#[test]
fn plain_text_is_one_line_without_anything_hidden() {
    for (text, max, line) in [
        ("", 10, ""),
        ("  a \r\n\t b  ", 10, "a b"),
        ("a\u{0}\u{1b}\u{9b}b\u{85}c", 10, "ab c"),
        ("\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{61c}x", 10, "x"),
        ("a\u{2028}b\u{2029}c", 10, "a b c"),
        ("👩‍🌾", 10, "👩‍🌾"),
        ("abcd", 4, "abcd"),
        ("abcde", 4, "abc…"),
        ("abc  ", 3, "abc"),
        ("ab cd", 3, "ab…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ] {
        assert_eq!(plain(text, max), line, "{text:?} in {max}");
    }
}

proptest! {
    #[test]
    fn plain_text_never_exceeds_its_bound_and_is_stable(text in "\\PC*|[\\s\\S]{0,80}", max in 0_usize..40) {
        let line = plain(&text, max);
        prop_assert!(line.chars().count() <= max);
        let hidden = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\n');
        prop_assert!(!line.chars().any(hidden));
        prop_assert_eq!(plain(&line, max), line);
    }

    #[test]
    fn cuts_fall_on_characters_whatever_a_model_or_tool_says(
        args in "[\\s\\S]{0,40}", result in "[\\s\\S]{0,40}", times in 1_usize..400,
    ) {
        let (args, result) = (args.repeat(times), result.repeat(times));
        let row = tool_row(&args, &result);
        prop_assert!(args.starts_with(&row.args));
        prop_assert!(row.args.len() == args.len() || (4093..=4096).contains(&row.args.len()));
        prop_assert!(row.target.chars().count() <= 120);
        let shown = row.result.unwrap();
        prop_assert!(result.ends_with(&shown.text));
        prop_assert!(shown.text.len() == result.len() || (4093..=4096).contains(&shown.text.len()));
        prop_assert_eq!(shown.bytes as usize, result.len());
    }
}
