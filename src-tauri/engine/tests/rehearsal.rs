//! The rehearsal, driven as the engine drives a model.

use crate::openai::Ear;
use coppice_engine::event::{Block, Stop, Usage};
use coppice_engine::llm::rehearsal::{Rehearsal, Script};
use coppice_engine::llm::{Delta, Failure, FailureKind, Message, Model, Reply, Request, ToolSpec};
use expect_test::expect;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// A session, with tools that answer what the test says.
struct Session {
    request: Request,
    replies: usize,
}

fn tool(name: &str, takes: &[&str]) -> ToolSpec {
    let properties: serde_json::Map<String, Value> = takes.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    let parameters = json!({"type": "object", "properties": properties});
    ToolSpec { name: name.to_owned(), description: String::new(), parameters }
}

impl Session {
    fn new(label: &str, depth: u32, message: &str) -> Self {
        let request = Request {
            session: format!("s-{label}").as_str().into(),
            root: "root".into(),
            label: label.to_owned(),
            depth,
            cwd: env!("CARGO_MANIFEST_DIR").to_owned(),
            system: String::new(),
            messages: vec![Message::User(message.to_owned())],
            tools: vec![
                tool("subagent", &["description", "prompt", "run_in_background"]),
                tool("task_output", &["task_id"]),
                tool("bash", &["command"]),
                tool("glob", &["pattern"]),
                tool("grep", &["pattern", "path", "limit"]),
                tool("read_file", &["path", "limit"]),
            ],
        };
        Self { request, replies: 0 }
    }

    fn hear(&mut self, message: &str) {
        self.request.messages.push(Message::User(message.to_owned()));
    }

    /// One step: the reply, with its calls answered by `answer`.
    async fn step(&mut self, model: &Rehearsal, answer: impl Fn(&str, &Value) -> (String, bool)) -> Reply {
        let mut reply = model.ask(&self.request, &Ear::default()).await.unwrap();
        let mut results = Vec::new();
        for (place, block) in reply.blocks.iter_mut().enumerate() {
            let Block::ToolCall { id, name, args } = block else { continue };
            *id = format!("{}.{place}", self.replies).as_str().into();
            let (text, ok) = answer(name, &serde_json::from_str(args).unwrap());
            results.push(Message::Tool { call: id.clone(), name: name.clone(), text, ok });
        }
        self.replies += 1;
        self.request.messages.push(Message::Assistant(reply.blocks.clone()));
        self.request.messages.extend(results);
        reply
    }

    /// Steps until a reply asks for nothing; the calls of all, and the last words.
    async fn turn(
        &mut self,
        model: &Rehearsal,
        answer: impl Fn(&str, &Value) -> (String, bool),
    ) -> (Vec<String>, String) {
        let mut all = Vec::new();
        for _ in 0..20 {
            let reply = self.step(model, &answer).await;
            let calls = calls(&reply);
            if calls.is_empty() {
                return (all, words(&reply));
            }
            all.extend(calls);
        }
        panic!("the turn does not end: {all:?}");
    }
}

fn calls(reply: &Reply) -> Vec<String> {
    let call = |block: &Block| match block {
        Block::ToolCall { name, args, .. } => Some(format!("{name} {args}")),
        Block::Text { .. } | Block::Thinking { .. } => None,
    };
    reply.blocks.iter().filter_map(call).collect()
}

fn words(reply: &Reply) -> String {
    let text = |block: &Block| if let Block::Text { text } = block { Some(text.clone()) } else { None };
    reply.blocks.iter().filter_map(text).collect()
}

fn started(name: &str, args: &Value) -> (String, bool) {
    assert_eq!(name, "subagent");
    let n = match args["description"].as_str().unwrap() {
        "What is here" => 1,
        "The largest files" => 2,
        "The open ends" => 3,
        other => panic!("{other}"),
    };
    (format!("Started task subagent-{n}, session 0193b2c4-0000-7000-8000-00000000000{n}."), true)
}

fn collected(name: &str, args: &Value) -> (String, bool) {
    assert_eq!(name, "task_output");
    let task = args["task_id"].as_str().unwrap();
    let begin = "I am the rehearsal. All that follows stands in the results of my tools.";
    let once = "No commands are run here, so what needs them is left out: sizes, counts and what git knows.";
    (format!("{begin}\n\nIn short: Facts of {task}.\n\nFound by {task}.\n\n{once}\n[{task}: completed]"), true)
}

fn none(name: &str, _: &Value) -> (String, bool) {
    panic!("{name} was called")
}

fn notice(n: u32, status: &str) -> String {
    let label = ["What is here", "The largest files", "The open ends"][(n as usize - 1) % 3];
    format!("[Coppice] subagent-{n} (subagent, \"{label}\"): {status}. Read it with task_output(\"subagent-{n}\").")
}

#[tokio::test]
async fn the_tour_starts_three_looks_waits_for_all_and_reports_what_they_found() {
    let model = Rehearsal::tour(0.0);
    let mut root = Session::new("A title", 0, "Do my taxes");
    let first = root.step(&model, started).await;
    let descriptions: Vec<String> = first
        .blocks
        .iter()
        .filter_map(|block| if let Block::ToolCall { args, .. } = block { Some(args) } else { None })
        .map(|args| {
            let args: Value = serde_json::from_str(args).unwrap();
            assert_eq!(args["run_in_background"], true);
            assert!(args["prompt"].as_str().unwrap().len() > 40);
            args["description"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(descriptions, ["What is here", "The largest files", "The open ends"]);
    let how = "A message to one of them can be `stop`, `go on`, a path, a pattern like `*.rs`, or `look for WORDS`.";
    assert!(words(&first).ends_with(how), "{}", words(&first));
    assert!(first.usage.estimated && first.usage.input > 0 && first.usage.output > 0);

    let (_, text) = root.turn(&model, none).await;
    assert_eq!(
        text,
        "I am the rehearsal: 3 children are at work: What is here, The largest files, The open ends. I end my turn here and report when all have ended."
    );
    root.hear(&notice(2, "completed"));
    let (_, text) = root.turn(&model, none).await;
    assert_eq!(text, "I am the rehearsal: The largest files completed. Still at work: What is here, The open ends.");
    root.hear("How is it going?");
    let (_, text) = root.turn(&model, none).await;
    assert!(text.starts_with("I am the rehearsal: no model, so I cannot answer that."), "{text}");
    assert!(text.contains("- The largest files: completed\n"), "{text}");

    root.hear(&format!("{}\n\n{}", notice(1, "completed"), notice(3, "was killed by the person")));
    let (asked, text) = root.turn(&model, collected).await;
    assert_eq!(asked, ["task_output {\"task_id\":\"subagent-1\"}", "task_output {\"task_id\":\"subagent-2\"}"]);
    assert_eq!(
        text,
        "I am the rehearsal. This is what the children found; I have added nothing.\n\n\
         Facts of subagent-2. Facts of subagent-1. No commands are run here, so what needs them is left out: sizes, \
         counts and what git knows.\n\n\
         ## What is here\n\nFound by subagent-1.\n\n\
         ## The largest files\n\nFound by subagent-2.\n\n\
         ## The open ends\n\nThis child was stopped before it could report."
    );

    // A look that was woken by a message ends under a new task.
    root.hear(&notice(4, "completed"));
    let (asked, text) = root.turn(&model, collected).await;
    assert_eq!(asked, ["task_output {\"task_id\":\"subagent-4\"}"]);
    assert_eq!(
        text,
        "I am the rehearsal. This is what the children found; I have added nothing.\n\n\
         Facts of subagent-4. No commands are run here, so what needs them is left out: sizes, counts and what git \
         knows.\n\n\
         ## What is here, once more\n\nFound by subagent-4.",
        "what was reported is not reported again"
    );
    root.hear(&notice(5, "was killed by the person"));
    assert_eq!(root.turn(&model, none).await.1, "I am the rehearsal: there is nothing new to report.");

    root.hear("Again, please");
    assert_eq!(calls(&root.step(&model, started).await).len(), 3);
}

#[tokio::test]
async fn the_tour_reports_at_once_what_cannot_be_started_or_runs_in_the_foreground() {
    let model = Rehearsal::tour(0.0);
    let mut root = Session::new("A title", 0, "Go");
    root.step(&model, |_, _| ("Depth 3 is the limit.\nMore.".to_owned(), false)).await;
    let (_, text) = root.turn(&model, none).await;
    assert!(text.contains("no child could be started") && text.contains("Depth 3 is the limit."), "{text}");

    let mut root = Session::new("A title", 0, "Go");
    root.request.tools = vec![tool("subagent", &["description", "prompt"])];
    let first = root.step(&model, |_, args| {
        assert_eq!(args.get("run_in_background"), None);
        (format!("Answer of {}", args["description"]), true)
    });
    first.await;
    let (_, text) = root.turn(&model, none).await;
    assert!(text.contains("## The open ends\n\nAnswer of \"The open ends\""), "{text}");

    let mut root = Session::new("A title", 0, "Go");
    root.request.tools.clear();
    let (_, text) = root.turn(&model, none).await;
    assert!(text.starts_with("I am the rehearsal:"), "{text}");
}

fn real(name: &str, args: &Value) -> (String, bool) {
    let shell = |output: &str| format!("{output}\n[exit 0 in 0.1 s]");
    let text = match (name, args["pattern"].as_str(), args["path"].as_str()) {
        ("glob", ..) => "Cargo.toml\nREADME.md\nsrc/lib.rs\n".to_owned(),
        ("grep", Some(r"\b(TODO|FIXME|XXX)\b"), _) => "src/lib.rs:12: // TODO wake up\n".to_owned(),
        ("grep", Some(pattern), _) => format!("src/lib.rs:7: {pattern} is here\n"),
        ("read_file", _, Some(path)) => format!("1\ttext of {path}\n"),
        ("bash", ..) if args["command"].as_str().unwrap().contains("# How many files, and how large") => {
            shell("30 files, 2345678 bytes")
        }
        ("bash", ..) if args["command"].as_str().unwrap().contains("wc -c") => {
            shell("  900 ./big.bin\n  700 ./Cargo.toml\n(The first 2 of 30.)")
        }
        ("bash", ..) => shell(&format!("output of {}", args["command"].as_str().unwrap().lines().next().unwrap())),
        _ => panic!("{name} {args}"),
    };
    (text, true)
}

#[tokio::test]
async fn each_look_makes_four_to_seven_calls_and_quotes_only_what_they_answered() {
    let model = Rehearsal::tour(0.0);
    for (label, quotes) in [
        ("What is here", "    text of README.md"),
        ("The largest files", "    text of Cargo.toml"),
        ("The open ends", "    src/lib.rs:12: // TODO wake up"),
    ] {
        let mut child = Session::new(label, 1, "Look.");
        let (calls, text) = child.turn(&model, real).await;
        assert!((4..=7).contains(&calls.len()), "{label}: {calls:?}");
        assert!(text.starts_with("I am the rehearsal.") && text.contains(quotes), "{label}: {text}");
        let mut answers = String::new();
        for message in &child.request.messages {
            match message {
                Message::Tool { text, .. } => answers.push_str(text),
                Message::Assistant(blocks) => assert!(
                    blocks.iter().filter(|block| matches!(block, Block::ToolCall { .. })).count() < 2,
                    "one call a step"
                ),
                Message::User(_) => {}
            }
        }
        for quoted in text.lines().filter_map(|line| line.strip_prefix("    ")) {
            assert!(answers.contains(quoted.trim_end_matches('…')), "{label} invents: {quoted}");
        }
    }
}

#[tokio::test]
async fn a_look_without_its_tools_or_leave_says_so() {
    let model = Rehearsal::tour(0.0);
    let mut child = Session::new("The open ends", 1, "Look.");
    child.request.tools.retain(|tool| tool.name != "bash");
    let (calls, _) = child.turn(&model, real).await;
    assert!(!calls.is_empty() && calls.iter().all(|call| !call.starts_with("bash")), "{calls:?}");
    let mut child = Session::new("The largest files", 1, "Look.");
    child.request.tools.retain(|tool| tool.name != "bash");
    let (calls, text) = child.turn(&model, real).await;
    assert_eq!(calls, [r#"glob {"pattern":"**/*"}"#], "none is called the largest that was not measured");
    assert_eq!(text.matches("No commands are run here, so what needs them is left out").count(), 1, "{text}");
    for label in ["What is here", "The largest files", "The open ends"] {
        let mut child = Session::new(label, 1, "Look.");
        child.request.system = format!("You work.\n\n{}", coppice_engine::prompt::LOOKS_ONLY);
        let (calls, text) = child.turn(&model, real).await;
        assert!(!calls.is_empty() && calls.iter().all(|call| !call.starts_with("bash")), "{calls:?}");
        assert_eq!(text.matches("No commands are run here").count(), 1, "{text}");
        assert!(!text.contains("did not work"), "{text}");
    }
    let mut child = Session::new("The largest files", 1, "Look.");
    let (_, text) = child.turn(&model, |_, _| ("Denied by the person.".to_owned(), false)).await;
    assert!(text.contains("**Files in all**: this did not work: Denied by the person."), "{text}");
}

#[tokio::test]
async fn what_a_tool_says_about_its_answer_is_not_counted_as_found() {
    let empty = |name: &str, args: &Value| match (name, args["command"].as_str()) {
        ("glob", _) => {
            ("Nothing in this folder matches *\n(To look in all folders below, put **/ before it.)\n".into(), true)
        }
        ("grep", _) => ("No line in this folder matches x\n(3 files or folders could not be read.)\n".into(), true),
        (_, Some(git)) if git.contains("git status") => ("Not a git repository.\n[exit 0 in 0.0 s]".into(), true),
        (_, Some(count)) if count.contains("# How many files, and how large") => {
            ("0 files, 0 bytes\n[exit 0 in 0.0 s]".into(), true)
        }
        _ => ("(no output)\n[exit 0 in 0.0 s]".to_owned(), true),
    };
    let model = Rehearsal::tour(0.0);
    let mut told = String::new();
    for label in ["What is here", "The largest files", "The open ends"] {
        told.push_str(&format!("{}\n\n", Session::new(label, 1, "Look.").turn(&model, empty).await.1));
    }
    expect![[r#"
        I am the rehearsal. All that follows stands in the results of my tools.

        **At the top**: nothing.

        **Files by kind**: nothing.

        **Files by folder**: nothing.

        All 3 steps are done.

        I am the rehearsal. All that follows stands in the results of my tools.

        In short: 0 files, 0 bytes in all.

        **Files in all** (1 line)

            0 files, 0 bytes

        **The largest, in bytes**: nothing.

        **Changed last**: nothing.

        All 3 steps are done.

        I am the rehearsal. All that follows stands in the results of my tools.

        In short: Open ends (TODO, FIXME or XXX): none.

        **TODO, FIXME and XXX**: nothing.

        (3 files or folders could not be read.)

        Not a git repository.

        **Names with "test"**: nothing.

        **Said to be unfinished**: nothing.

        (3 files or folders could not be read.)

        All 4 steps are done.

    "#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn a_message_to_a_look_changes_what_it_does_next() {
    let model = Rehearsal::tour(0.0);

    let mut child = Session::new("What is here", 1, "Look.");
    child.step(&model, real).await;
    child.hear("stop after this");
    let (calls, text) = child.turn(&model, real).await;
    assert_eq!(calls, Vec::<String>::new());
    assert!(text.contains("You asked me to stop"), "{text}");
    assert!(text.ends_with("\n1 of 4 steps are done. Say `go on` for the rest."), "{text}");

    // It answers when it is resumed, and goes on only when it is asked to.
    child.hear("look for \"fn main\"");
    let (calls, text) = child.turn(&model, real).await;
    assert_eq!(calls, ["grep {\"pattern\":\"fn main\"}"]);
    assert!(text.contains("You asked for it: **`fn main`** (1 line)\n\n    src/lib.rs:7: fn main is here"), "{text}");
    let rest = "\nMy earlier report stands.\n1 of 4 steps are done. Say `go on` for the rest.";
    assert!(text.ends_with(rest), "{text}");
    child.hear("look for \"fn main\"");
    let (calls, _) = child.turn(&model, real).await;
    assert_eq!(calls, ["grep {\"pattern\":\"fn main\"}"], "it looks anew");
    child.hear("go on");
    let (calls, text) = child.turn(&model, real).await;
    assert!(calls.len() >= 3 && !calls[0].starts_with("glob"), "{calls:?}");
    assert!(text.contains("text of README.md") && text.ends_with("\nAll 4 steps are done."), "{text}");
    child.hear("look for \"fn main\"");
    let (_, text) = child.turn(&model, real).await;
    assert!(text.ends_with("\nMy earlier report stands."), "nothing is left to go on with: {text}");

    // A path takes precedence over what was planned, and what was planned is done all the same.
    let mut child = Session::new("The open ends", 1, "Look.");
    child.step(&model, real).await;
    child.hear("see src/lib.rs, please");
    let next = child.step(&model, real).await;
    assert_eq!(calls_of(&next), ["read_file {\"path\":\"src/lib.rs\",\"limit\":6}"]);
    assert!(words(&next).contains("you point to `src/lib.rs`"), "{}", words(&next));
    let (calls, text) = child.turn(&model, real).await;
    assert!(calls.len() >= 4 && text.contains("You asked for it: **`src/lib.rs`**"), "{calls:?} {text}");

    // What Coppice tells between the words of people is nobody's wish.
    child.hear("[runtime] Your last turn was stopped before it was finished.\n\nWhat is the weather?");
    let (calls, text) = child.turn(&model, real).await;
    assert_eq!(calls, Vec::<String>::new());
    assert!(
        text.starts_with(
            "I am the rehearsal: I read \"What is the weather?\", and I am no model. A message to me can be `stop`"
        ),
        "{text}"
    );

    child.hear("Also look for rst files please");
    let (calls, text) = child.turn(&model, real).await;
    assert_eq!(calls, ["glob {\"pattern\":\"**/*.rst\"}"]);
    assert!(text.contains("You asked for it: **Files like `**/*.rst`** (3 names)"), "{text}");

    let mut child = Session::new("What is here", 1, "Look.");
    let first = words(&child.step(&model, real).await);
    assert_eq!(first.matches("A message to me can be `stop`").count(), 1, "{first}");
    let second = words(&child.step(&model, real).await);
    assert!(!second.contains("A message to me"), "{second}");
}

#[tokio::test]
async fn a_report_begins_with_the_facts_that_matter_and_tells_what_it_cuts() {
    let model = Rehearsal::tour(0.0);
    let mut child = Session::new("The largest files", 1, "Which file is the biggest?");
    let (_, text) = child.turn(&model, real).await;
    let begin = "I am the rehearsal. All that follows stands in the results of my tools.\n\n\
                 In short: 30 files, 2.3 MB in all. The largest is `big.bin` (900 bytes).\n\n**Files in all** (1 line)";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("**The largest, in bytes** (the first 2 of 30 lines)"), "{text}");

    let mut root = Session::new("A title", 0, "Go");
    root.step(&model, started).await;
    root.turn(&model, none).await;
    root.hear(&format!("{}\n{}\n{}", notice(1, "completed"), notice(2, "failed"), notice(3, "failed")));
    let long = |_: &str, _: &Value| ("a line\n".repeat(2000), true);
    let (_, text) = root.turn(&model, long).await;
    assert!(text.contains("(The first 857 of 2000 lines. The rest stands in its own session.)"), "{text}");
    assert!(text.contains("There is no report of this child: it failed."), "{text}");
}

fn calls_of(reply: &Reply) -> Vec<String> {
    calls(reply)
}

#[tokio::test(start_paused = true)]
async fn a_look_is_slow_enough_to_be_watched_and_the_pace_scales_it() {
    for (label, pace, want) in
        [("What is here", 1.0, 12..30), ("The open ends", 1.0, 12..30), ("What is here", 0.0, 0..1)]
    {
        let (model, since) = (Rehearsal::tour(pace), Instant::now());
        Session::new(label, 1, "Look.").turn(&model, real).await;
        assert!(want.contains(&since.elapsed().as_secs()), "{label}: {:?}", since.elapsed());
    }
}

#[tokio::test]
async fn prose_streams_word_by_word_and_the_reply_repeats_it() {
    let script = Script::parse(
        r#"{"sessions": {"*": {"steps": [[
        {"think": "Hm, well."}, {"say": "One two"}, {"say": " three"}, {"call": {"tool": "glob", "args": {"pattern": "a b"}}}
    ]]}}}"#,
    );
    let model = Rehearsal::script(script.unwrap(), 0.0);
    let ear = Ear::default();
    let reply = model.ask(&Session::new("x", 1, "Go").request, &ear).await.unwrap();
    let said = |index, text: &str| Delta::Text { index, text: text.to_owned() };
    let thought = |text: &str| Delta::Thinking { index: 0, text: text.to_owned() };
    let args = |text: &str| Delta::ToolArgs { index: 2, name: "glob".to_owned(), text: text.to_owned() };
    assert_eq!(
        ear.heard(),
        [
            thought("Hm, "),
            thought("well."),
            said(1, "One "),
            said(1, "two"),
            said(1, " "),
            said(1, "three"),
            args(""),
            args("{\"pattern\":\"a "),
            args("b\"}"),
        ]
    );
    let call = Block::ToolCall { id: "".into(), name: "glob".to_owned(), args: "{\"pattern\":\"a b\"}".to_owned() };
    let text = Block::Text { text: "One two three".to_owned() };
    assert_eq!(reply.blocks, [Block::Thinking { text: "Hm, well.".to_owned() }, text, call]);
}

const SCRIPT: &str = r#"{"sessions": {
    "root": {"steps": [
        [{"call": {"tool": "subagent", "args": {"description": "part"}}}, {"call": {"tool": "bash", "args": "{raw"}}],
        [{"call": {"tool": "task_output", "args": {"task_id": "{{task:1}}", "all": ["{{child:0}} {{x}}"]}}}],
        [{"say": "Got: "}, {"say_result": {"of": 0}}, {"say_result": {"of": "task_output"}}]
    ]},
    "part": {"steps": [[{"say": "mine"}, {"stop": "max_tokens"}, {"usage": {"input": 9, "output": 3}},
        {"call": {"tool": "bash"}}]]},
    "*": {"steps": [[{"say": "cut"}, {"fail": {"kind": "truncated", "message": "It broke."}}]]}
}}"#;

#[tokio::test]
async fn a_script_is_played_step_by_step_and_then_it_is_done() {
    let model = Rehearsal::script(Script::parse(SCRIPT).unwrap(), 0.0);
    let mut root = Session::new("Any title", 0, "Go");
    let reply = model.ask(&root.request, &Ear::default()).await.unwrap();
    assert_eq!(calls(&reply), ["subagent {\"description\":\"part\"}", "bash {raw"]);
    let result = |id: &str, text: &str| Message::Tool {
        call: id.into(),
        name: "bash".to_owned(),
        text: text.to_owned(),
        ok: true,
    };
    root.request.messages.push(Message::Assistant(reply.blocks));
    root.request
        .messages
        .push(result("1", "Task subagent-1, again subagent-1, session 0193b2c4-0000-7000-8000-000000000001"));
    root.request.messages.push(result("2", "Task bash-1."));
    let next = root.step(&model, |_, _| ("That.".to_owned(), true)).await;
    assert_eq!(
        calls(&next),
        ["task_output {\"task_id\":\"bash-1\",\"all\":[\"0193b2c4-0000-7000-8000-000000000001 {{x}}\"]}"]
    );
    let (_, text) = root.turn(&model, none).await;
    assert_eq!(text, "Got: Task subagent-1, again subagent-1, session 0193b2c4-0000-7000-8000-000000000001That.");
    for _ in 0..2 {
        root.hear("And now?");
        assert_eq!(root.turn(&model, none).await, (vec![], "done".to_owned()));
    }

    let part = Session::new("part", 1, "Go").step(&model, none).await;
    let blocks = vec![Block::Text { text: "mine".to_owned() }];
    let usage = Usage { input: 9, output: 3, cached: 0, estimated: false };
    assert_eq!(part, Reply { blocks, stop: Stop::MaxTokens, usage });

    let ear = Ear::default();
    let failed = model.ask(&Session::new("nobody", 1, "Go").request, &ear).await;
    assert_eq!(failed, Err(Failure::new(FailureKind::Truncated, "It broke.")));
    assert_eq!(ear.heard(), [Delta::Text { index: 0, text: "cut".to_owned() }]);
}

#[tokio::test]
async fn a_script_in_a_first_message_holds_for_the_root_and_its_children() {
    let model = Rehearsal::tour(0.0);
    let script = r#"{"sessions": {"root": {"steps": [[{"say": "root"}]]}, "part": {"steps": [[{"say": "part"}]]}}}"#;
    let message = format!("Play this:\n```rehearsal\n{script}\n```\nThank you.");
    let says = async |mut session: Session| words(&session.step(&model, |_, _| (String::new(), true)).await);
    assert!(
        says(Session::new("part", 1, "Go")).await.starts_with("I am the rehearsal"),
        "nobody has given a script yet"
    );
    assert_eq!(says(Session::new("t", 0, &message)).await, "root");
    assert_eq!(says(Session::new("part", 1, "Go")).await, "part");
    assert_eq!(says(Session::new("other", 1, "Go")).await, "done");
    let mut stranger = Session::new("part", 1, "Go");
    stranger.request.root = "another".into();
    assert!(says(stranger).await.starts_with("I am the rehearsal"));
    let own = message.replace("\"say\": \"part\"", "\"say\": \"own\"");
    assert_eq!(says(Session::new("part", 1, &own)).await, "own");
    assert_eq!(says(Session::new("part", 1, "Go")).await, "part", "a child's own script is its own");
}

#[tokio::test]
async fn a_script_that_cannot_be_played_is_refused_with_the_place() {
    for (script, want) in [
        (
            "{\"sessions\": {\n\"root\": {\"steps\": [[{\"sya\": \"x\"}]]}}}",
            "unknown variant `sya`, expected one of `say`",
        ),
        (
            "{\"sessions\": {\n\"root\": {\"steps\": [[{\"say\": 7}]]}}}",
            "line 2, column 29: invalid type: integer `7`, expected a string.",
        ),
        ("{\"sessions\": {\n\"root\": {\"step\": []}}}", "line 2, column 15: unknown field `step`, expected `steps`."),
        ("{\"sessions\": {}, \n\"x\": 1}", "unknown field `x`"),
        ("", "EOF"),
        (
            "{\"sessions\": {\"*\": {\"steps\": [[{\"wait_ms\": 3600001}]]}}}",
            "line 1, column 50: `wait_ms` is from 0 to 3600000, not 3600001.",
        ),
        (
            "{\"sessions\": {\"*\": {\"steps\": [[{\"usage\": {\"input\": -1, \"output\": 1}}]]}}}",
            "invalid value: integer `-1`",
        ),
    ] {
        let error = Script::parse(&format!("{script}\n")).unwrap_err();
        assert!(error.contains(want) && error.contains("line"), "{error}");
        let message = format!("```rehearsal\n{script}\n```");
        let failure =
            Rehearsal::tour(0.0).ask(&Session::new("t", 0, &message).request, &Ear::default()).await.unwrap_err();
        let told = format!("The rehearsal cannot play the script, {error}");
        assert_eq!(failure, Failure::new(FailureKind::Rejected, told));
    }
    let script =
        Script::parse(r#"{"sessions": {"*": {"steps": [[{"say": "{{task:2}}"}], [{"say_result": {"of": -1}}]]}}}"#);
    let model = Rehearsal::script(script.unwrap(), 0.0);
    let mut session = Session::new("x", 1, "Go");
    for _ in 0..2 {
        let failure = model.ask(&session.request, &Ear::default()).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Rejected, "{failure}");
        session.request.messages.push(Message::Assistant(vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_waits_for_time_and_hangs_for_good() {
    let script = r#"{"sessions": {"*": {"steps": [[{"wait_ms": 5000}], [{"hang": true}]]}}}"#;
    let model = Rehearsal::script(Script::parse(script).unwrap(), 2.0);
    let mut session = Session::new("x", 1, "Go");
    let since = Instant::now();
    session.step(&model, none).await;
    assert_eq!(since.elapsed().as_secs(), 10);
    let ear = Ear::default();
    let asked = tokio::time::timeout(Duration::from_secs(100_000), model.ask(&session.request, &ear)).await;
    assert!(asked.is_err() && ear.heard().is_empty());
}

#[tokio::test]
async fn a_script_waits_for_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"{"sessions": {"*": {"steps": [[{"say": "a"}, {"until_file": "gate"}, {"say": "b"}]]}}}"#;
    let model = Rehearsal::script(Script::parse(script).unwrap(), 0.0);
    let mut session = Session::new("x", 1, "Go");
    session.request.cwd = folder.path().display().to_string();
    let ear = Ear::default();
    let ask = model.ask(&session.request, &ear);
    tokio::pin!(ask);
    // It is asked several times while the file is not there.
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(30), &mut ask).await.is_err());
    }
    assert_eq!(ear.heard().len(), 1);
    std::fs::write(folder.path().join("gate"), "").unwrap();
    assert_eq!(words(&ask.await.unwrap()), "ab");
}
