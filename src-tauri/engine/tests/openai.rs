//! The OpenAI-compatible adapter against servers that behave as real ones do.

use crate::endpoint::{Endpoint, Play, Seen, delta, finish};
use coppice_engine::event::{Block, Stop, Usage};
use coppice_engine::id::CallId;
use coppice_engine::llm::openai::{OpenAi, OpenAiSettings};
use coppice_engine::llm::{Delta, Failure, FailureKind, Message, Model, Reply, Request, Sink, ToolSpec};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A sink that keeps what it hears.
#[derive(Default)]
pub struct Ear(Mutex<Vec<Delta>>);

impl Sink for Ear {
    fn delta(&self, delta: Delta) {
        self.0.lock().unwrap().push(delta);
    }
}

impl Ear {
    /// What it heard.
    pub fn heard(&self) -> Vec<Delta> {
        self.0.lock().unwrap().clone()
    }

    fn content(&self) -> Vec<Delta> {
        self.heard().into_iter().filter(|delta| !matches!(delta, Delta::Alive | Delta::Retry { .. })).collect()
    }

    fn retries(&self) -> Vec<Duration> {
        let retry = |delta| if let Delta::Retry { wait, .. } = delta { Some(wait) } else { None };
        self.heard().into_iter().filter_map(retry).collect()
    }
}

fn settings(endpoint: &Endpoint) -> OpenAiSettings {
    OpenAiSettings {
        idle: 5000 * MS,
        first_wait: 5 * MS,
        longest_wait: 20 * MS,
        spread: 20 * MS,
        ..OpenAiSettings::new(endpoint.base_url(), "some-model")
    }
}

fn model(endpoint: &Endpoint) -> OpenAi {
    OpenAi::new(settings(endpoint)).unwrap()
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        session: "s".into(),
        root: "s".into(),
        label: "label".to_owned(),
        depth: 0,
        cwd: "/".to_owned(),
        system: "Be brief.".to_owned(),
        messages,
        tools: vec![ToolSpec {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: json!({"type": "object", "properties": {"at": {"type": "string"}}}),
        }],
    }
}

fn hello() -> Request {
    request(vec![Message::User("hello".to_owned())])
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn thinking(text: &str) -> Block {
    Block::Thinking { text: text.to_owned() }
}

fn call(id: &str, name: &str, args: &str) -> Block {
    Block::ToolCall { id: id.into(), name: name.to_owned(), args: args.to_owned() }
}

fn result(id: &str, text: &str) -> Message {
    Message::Tool { call: CallId::from(id), name: "look".to_owned(), text: text.to_owned(), ok: true }
}

/// A history with one finished call, whose assistant message has these blocks before the call.
fn after_a_call(mut blocks: Vec<Block>) -> Request {
    blocks.push(call("1.0", "look", "{\"at\": \"x\"}"));
    request(vec![Message::User("hello".to_owned()), Message::Assistant(blocks), result("1.0", "seen")])
}

async fn reply_to(play: Play) -> (Result<Reply, Failure>, Ear, Endpoint) {
    let endpoint = Endpoint::start(move |_, _| play.clone()).await;
    let ear = Ear::default();
    let reply = model(&endpoint).ask(&hello(), &ear).await;
    (reply, ear, endpoint)
}

/// What comes of a play, in short: the blocks and the stop, or the kind of failure and how many requests it took.
async fn check(name: &str, play: Play, want: Result<(Vec<Block>, Stop), (FailureKind, usize)>) {
    let (reply, ear, endpoint) = reply_to(play).await;
    let got = reply.map(|reply| (reply.blocks, reply.stop)).map_err(|failure| (failure.kind, endpoint.seen().len()));
    assert_eq!(got, want, "{name}: {:?}", ear.heard());
}

fn head(index: u32, id: &str, name: &str, args: &str) -> Value {
    delta(json!({"tool_calls": [
        {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": args}}
    ]}))
}

fn tail(index: u32, args: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": args}}]}))
}

fn bare(call: Value) -> Value {
    delta(json!({"tool_calls": [call]}))
}

#[tokio::test]
async fn a_reply_streams_in_order_and_is_repeated_whole() {
    let play = Play::chunks(&[
        delta(json!({"role": "assistant", "content": null})),
        delta(json!({"reasoning_content": "Let me "})),
        delta(json!({"reasoning_content": "look."})),
        delta(json!({"content": "I lo"})),
        delta(json!({"content": "ok."})),
        head(0, "a", "look", ""),
        tail(0, "{\n  \"at\""),
        tail(0, ": \"x\"}"),
        head(1, "b", "look", "{}"),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 32}}}),
    ])
    .done();
    let (reply, ear, endpoint) = reply_to(play).await;
    let reply = reply.unwrap();
    assert_eq!(
        reply,
        Reply {
            blocks: vec![
                thinking("Let me look."),
                text("I look."),
                call("", "look", "{\n  \"at\": \"x\"}"),
                call("", "look", "{}"),
            ],
            stop: Stop::Complete,
            usage: Usage { input: 40, output: 9, cached: 32, estimated: false },
        }
    );
    let args = |index, text: &str| Delta::ToolArgs { index, name: "look".to_owned(), text: text.to_owned() };
    assert_eq!(
        ear.content(),
        [
            Delta::Thinking { index: 0, text: "Let me ".to_owned() },
            Delta::Thinking { index: 0, text: "look.".to_owned() },
            Delta::Text { index: 1, text: "I lo".to_owned() },
            Delta::Text { index: 1, text: "ok.".to_owned() },
            args(2, ""),
            args(2, "{\n  \"at\""),
            args(2, ": \"x\"}"),
            args(3, "{}"),
        ]
    );
    let seen = endpoint.seen();
    assert_eq!(seen[0].target, "POST /v1/chat/completions");
    assert_eq!(
        seen[0].body,
        json!({
            "model": "some-model",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
            "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.",
                "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn calls_are_told_apart_whatever_a_server_does_with_indexes_and_ids() {
    let two = |first: &str, second: &str| Ok((vec![call("", "a", first), call("", "b", second)], Stop::Complete));
    let function = |name: &str, args: &str| json!({"name": name, "arguments": args});
    for (name, chunks, want) in [
        (
            "an index is reused for another id, and its tail counts on",
            vec![head(0, "A", "a", "{\"x\":1}"), head(0, "B", "b", "{\"y\""), tail(1, ":2}")],
            two("{\"x\":1}", "{\"y\":2}"),
        ),
        (
            "every call has the same id",
            vec![head(0, "X", "a", "{\"x\""), tail(0, ":1}"), head(1, "X", "b", "{\"y\":2}")],
            two("{\"x\":1}", "{\"y\":2}"),
        ),
        (
            "calls interleave",
            vec![head(0, "A", "a", ""), head(1, "B", "b", ""), tail(0, "{\"x\":1}"), tail(1, "{\"y\":2}")],
            two("{\"x\":1}", "{\"y\":2}"),
        ),
        (
            "no index",
            vec![
                bare(json!({"id": "A", "function": function("a", "{\"x\"")})),
                bare(json!({"function": {"arguments": ":1}"}})),
                bare(json!({"id": "B", "function": function("b", "{\"y\":2}")})),
            ],
            two("{\"x\":1}", "{\"y\":2}"),
        ),
        (
            "no index and no id",
            vec![bare(json!({"function": function("a", "{}")})), bare(json!({"function": function("b", "{}")}))],
            two("{}", "{}"),
        ),
        (
            "no index and the same id and name",
            vec![
                bare(json!({"id": "X", "function": function("a", "{}")})),
                bare(json!({"id": "X", "function": function("a", "{\"y\":2}")})),
            ],
            Ok((vec![call("", "a", "{}"), call("", "a", "{\"y\":2}")], Stop::Complete)),
        ),
        (
            "id and name are repeated with every piece",
            vec![head(0, "A", "a", "{\"x\""), head(0, "A", "a", ":1}"), head(1, "B", "b", "{}")],
            two("{\"x\":1}", "{}"),
        ),
        (
            "a fresh id with every piece",
            vec![
                head(0, "A", "a", "{\"x\""),
                bare(json!({"index": 0, "id": "Z", "function": {"arguments": ":1}"}})),
                head(1, "B", "b", "{}"),
            ],
            two("{\"x\":1}", "{}"),
        ),
        (
            "arguments as an object, and as nothing",
            vec![
                bare(json!({"index": 0, "id": "A", "function": {"name": "a", "arguments": {"x": 1}}})),
                bare(json!({"index": 1, "id": "B", "function": {"name": "b", "arguments": null}})),
            ],
            two("{\"x\":1}", ""),
        ),
        ("a call without a name", vec![tail(0, "{}")], Err((FailureKind::Nonsense, 1))),
    ] {
        let mut play = Play::chunks(&chunks);
        play = play.event(&finish("tool_calls")).done();
        check(name, play, want).await;
    }
}

#[tokio::test]
async fn content_decides_and_not_the_reason_to_finish() {
    let called = || Ok((vec![call("", "look", "{}")], Stop::Complete));
    let a_call = || Play::chunks(&[head(0, "A", "look", "{}")]);
    check("stop", a_call().event(&finish("stop")).done(), called()).await;
    check("nothing", a_call().event(&finish("")).done(), called()).await;
    check("null, but an end mark", a_call().done(), called()).await;
    check("no end mark", a_call().event(&finish("tool_calls")), called()).await;
    check(
        "no calls",
        Play::chunks(&[delta(json!({"content": "Hm."})), finish("tool_calls")]),
        Ok((vec![text("Hm.")], Stop::Complete)),
    )
    .await;
}

#[tokio::test]
async fn nothing_of_a_reply_that_was_cut_is_handed_out_to_be_run() {
    let cut =
        || Play::chunks(&[delta(json!({"content": "I write."})), head(0, "A", "write_file", "{\"text\": \"half a se")]);
    let whole_by_luck = Play::chunks(&[head(0, "A", "write_file", "{}")]);
    check("the stream ends", cut(), Err((FailureKind::Truncated, 1))).await;
    check("the stream ends where the arguments are whole by luck", whole_by_luck, Err((FailureKind::Truncated, 1)))
        .await;
    check("the limit", cut().event(&finish("length")).done(), Ok((vec![text("I write.")], Stop::MaxTokens))).await;
    check("a filter", cut().event(&finish("content_filter")).done(), Ok((vec![text("I write.")], Stop::Refusal))).await;
    let claimed = cut().event(&finish("tool_calls")).done();
    let as_written = vec![text("I write."), call("", "write_file", "{\"text\": \"half a se")];
    check("the server claims it is whole: the text stays as written", claimed, Ok((as_written, Stop::Complete))).await;
    let error = json!({"error": {"message": "upstream went away", "code": 502}});
    check("an error inside the stream", cut().event(&error), Err((FailureKind::Rejected, 1))).await;
    let short = Play::head(200, &[("content-type", "text/event-stream"), ("content-length", "99999")])
        .event(&delta(json!({"content": "I"})));
    let garbled = cut().write("data: {\"choices\": [}\n\n").event(&finish("tool_calls")).done();
    check("a chunk that cannot be read", garbled, Err((FailureKind::Nonsense, 1))).await;
    check("the connection breaks", short, Err((FailureKind::Truncated, 1))).await;
}

#[tokio::test]
async fn chunks_without_choices_and_signs_of_life_are_no_content() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 2});
    let play = Play::stream()
        .write(":\n\n: ping\r\n\r\ndata:\n\n")
        .pause(50 * MS)
        .event(&json!({"choices": []}))
        .write(format!("data:{}\r", delta(json!({"content": "Hel"}))))
        .write("\n\r\n: ping\n\n")
        .event(&json!({"id": "x"}))
        .event(&json!({"choices": null, "usage": null}))
        .write("data: {\"choices\": [{\"index\": 0,\ndata: \"delta\": {\"content\": \"lo\"}}]}\n\n")
        .event(&json!({"choices": []}))
        .event(&finish("stop"))
        .event(&json!({"choices": [], "usage": usage}))
        .write("data: [DONE]");
    let (reply, ear, _) = reply_to(play).await;
    let usage = Usage { input: 7, output: 2, cached: 0, estimated: false };
    assert_eq!(reply, Ok(Reply { blocks: vec![text("Hello")], stop: Stop::Complete, usage }));
    assert!(ear.heard().contains(&Delta::Alive));
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_its_bytes_are_cut() {
    let stream = format!(
        "\u{feff}data: {}\r\n\r\ndata: {}\n\ndata: {}\n\n",
        delta(json!({"content": "Grüße 🌱"})),
        head(0, "A", "look", "{\"at\":\"ü\"}"),
        finish("tool_calls")
    );
    let want = vec![text("Grüße 🌱"), call("", "look", "{\"at\":\"ü\"}")];
    let cuts: Vec<usize> = (1..stream.len()).step_by(7).collect();
    let pieces = stream.clone();
    let endpoint = Endpoint::start(move |n, _| {
        let (before, after) = pieces.as_bytes().split_at(1 + 7 * n);
        Play::stream().write(before).pause(MS).write(after)
    })
    .await;
    let model = model(&endpoint);
    for _ in cuts {
        assert_eq!(model.ask(&hello(), &Ear::default()).await.unwrap().blocks, want);
    }
}

#[tokio::test]
async fn what_is_no_stream_is_taken_when_it_is_a_reply_and_shown_when_it_is_not() {
    let json = [("content-type", "application/json")];
    let body = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
        "content": "Hi.", "tool_calls": [{"id": "A", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let whole = Ok((vec![text("Hi."), call("", "look", "{}")], Stop::Complete));
    check("a whole reply", Play::response(200, &json, &body.to_string()), whole).await;
    let marked = format!("\u{feff} {body}");
    let whole_again = Ok((vec![text("Hi."), call("", "look", "{}")], Stop::Complete));
    check("a whole reply after a byte order mark", Play::response(200, &json, &marked), whole_again).await;
    check("half of one", Play::response(200, &json, &body.to_string()[..40]), Err((FailureKind::Truncated, 5))).await;
    for (name, body) in [
        ("a page", "<!DOCTYPE html>\n<title>Log\u{7} in</title>"),
        ("nothing", ""),
        ("empty data", "data:\n\ndata: \n\n"),
    ] {
        check(name, Play::response(200, &[("content-type", "text/html")], body), Err((FailureKind::Nonsense, 1))).await;
    }
    let page = format!("<html>{}</html>", "x".repeat(999));
    let (reply, _, endpoint) = reply_to(Play::response(200, &[], &page)).await;
    let shown = format!("{} sent no reply of a model: \"<html>{}\". Check base_url.", endpoint.host(), "x".repeat(194));
    assert_eq!(reply, Err(Failure::new(FailureKind::Nonsense, shown)));
    let (reply, _, endpoint) =
        reply_to(Play::response(200, &json, "{\"error\": {\"message\": \"no slot\", \"code\": 400}}")).await;
    let shown = format!("{} refused the request (400). It said: \"no slot\"", endpoint.host());
    assert_eq!(reply, Err(Failure::new(FailureKind::Rejected, shown)));
}

#[tokio::test]
async fn missing_figures_are_estimated_and_marked() {
    for usage in [json!(null), json!({"prompt_tokens": 0, "completion_tokens": 0}), json!({"prompt_tokens": null})] {
        let play = Play::chunks(&[
            delta(json!({"content": "x".repeat(400)})),
            finish("stop"),
            json!({"choices": [], "usage": usage}),
        ]);
        let usage = reply_to(play.done()).await.0.unwrap().usage;
        assert!(usage.estimated && usage.output == 100 && usage.input > 20, "{usage:?}");
    }
    let deepseek = json!({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8});
    let play =
        Play::chunks(&[delta(json!({"content": "x"})), finish("stop"), json!({"choices": [], "usage": deepseek})]);
    let usage = reply_to(play).await.0.unwrap().usage;
    assert_eq!(usage, Usage { input: 9, output: 1, cached: 8, estimated: false });
}

#[tokio::test]
async fn a_server_that_refuses_usage_figures_is_asked_without_from_then_on() {
    let endpoint = Endpoint::start(|_, seen| match seen.body.get("stream_options") {
        Some(_) => Play::response(400, &[], "{\"error\": {\"message\": \"bad request\"}}"),
        None => Play::says("Hi."),
    })
    .await;
    let model = model(&endpoint);
    for _ in 0..2 {
        assert_eq!(model.ask(&hello(), &Ear::default()).await.unwrap().blocks, [text("Hi.")]);
    }
    let asked: Vec<bool> = endpoint.bodies().iter().map(|body| body.get("stream_options").is_some()).collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn a_refusal_that_no_other_form_heals_is_reported_and_teaches_nothing() {
    let endpoint = Endpoint::start(|n, _| match n {
        0 | 1 => Play::response(400, &[], "{\"error\": \"no\"}"),
        _ => Play::says("Hi."),
    })
    .await;
    let model = model(&endpoint);
    let message = format!("{} refused the request (400). It said: \"no\"", endpoint.host());
    assert_eq!(model.ask(&hello(), &Ear::default()).await, Err(Failure::new(FailureKind::Rejected, message)));
    model.ask(&hello(), &Ear::default()).await.unwrap();
    let asked: Vec<bool> = endpoint.bodies().iter().map(|body| body.get("stream_options").is_some()).collect();
    assert_eq!(asked, [true, false, true]);
}

fn reasoning_sent(seen: &[Seen]) -> Vec<Option<String>> {
    let of_calls = |body: &Value| {
        let messages = body["messages"].as_array().unwrap().clone();
        let call = messages.into_iter().find(|message| message.get("tool_calls").is_some())?;
        call.get("reasoning_content").map(|text| text.as_str().unwrap().to_owned())
    };
    seen.iter().map(|seen| of_calls(&seen.body)).collect()
}

#[tokio::test]
async fn reasoning_goes_back_to_a_server_that_gave_it() {
    let endpoint = Endpoint::start(|n, _| match n {
        0 => Play::chunks(&[delta(json!({"reasoning_content": ""})), head(0, "A", "look", "{}"), finish("tool_calls")]),
        _ => Play::says("Hi."),
    })
    .await;
    let model = model(&endpoint);
    model.ask(&hello(), &Ear::default()).await.unwrap();
    model.ask(&after_a_call(vec![]), &Ear::default()).await.unwrap();
    model.ask(&after_a_call(vec![thinking("Hm.")]), &Ear::default()).await.unwrap();
    let sent = [None, Some(String::new()), Some("Hm.".to_owned())];
    assert_eq!(reasoning_sent(&endpoint.seen()), sent);
}

#[tokio::test]
async fn reasoning_in_the_history_goes_back_after_a_restart() {
    let endpoint = Endpoint::start(|_, _| Play::says("Hi.")).await;
    model(&endpoint).ask(&after_a_call(vec![thinking("Hm."), text("So.")]), &Ear::default()).await.unwrap();
    assert_eq!(reasoning_sent(&endpoint.seen()), [Some("Hm.".to_owned())]);
}

#[tokio::test]
async fn a_server_that_wants_reasoning_back_is_believed() {
    let endpoint = Endpoint::start(|_, seen| match reasoning_sent(std::slice::from_ref(seen))[0] {
        Some(_) => Play::says("Hi."),
        None => {
            Play::response(400, &[], "{\"error\": {\"message\": \"The `reasoning_content` must be passed back.\"}}")
        }
    })
    .await;
    let model = model(&endpoint);
    for _ in 0..2 {
        model.ask(&after_a_call(vec![]), &Ear::default()).await.unwrap();
    }
    assert_eq!(reasoning_sent(&endpoint.seen()), [None, Some(String::new()), Some(String::new())]);
}

#[tokio::test]
async fn a_server_that_takes_no_reasoning_gets_none_from_then_on() {
    for words in ["{\"detail\": \"extra field reasoning_content\"}", ""] {
        let endpoint = Endpoint::start(move |_, seen| match reasoning_sent(std::slice::from_ref(seen))[0] {
            Some(_) => Play::response(422, &[], words),
            None => Play::says("Hi."),
        })
        .await;
        let model = model(&endpoint);
        for _ in 0..2 {
            model.ask(&after_a_call(vec![thinking("Hm.")]), &Ear::default()).await.unwrap();
        }
        let sent = reasoning_sent(&endpoint.seen());
        assert_eq!(sent.iter().flatten().count() + 2, sent.len(), "{sent:?}");
        assert_eq!(sent.last(), Some(&None), "{words}");
    }
}

#[tokio::test]
async fn a_history_is_sent_as_the_strictest_template_takes_it() {
    let endpoint = Endpoint::start(|_, _| Play::says("Hi.")).await;
    let odd = "task\n🌱 \"quoted\" \\n\ttoken-4711";
    let history = request(vec![
        Message::User(odd.to_owned()),
        Message::User("A notice.".to_owned()),
        Message::Assistant(vec![
            thinking("Hm."),
            text("I look."),
            call("X", "look", "{ \"at\":  1 }"),
            call("X", "look", ""),
            call("3.2", "look", "\"{\\\"at\\\":1}\""),
            call("3.3", "look", "{\"at\": \"cut"),
        ]),
        result("X", "first"),
        result("X", "second"),
        result("3.2", "third"),
        result("3.3", "fourth"),
        Message::User("And now?".to_owned()),
        Message::Assistant(vec![]),
        Message::User("Well?".to_owned()),
        Message::Assistant(vec![call("4.0", "look", "{}")]),
        result("4.0", ""),
    ]);
    model(&endpoint).ask(&history, &Ear::default()).await.unwrap();
    let called =
        |id: &str, args: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": args}});
    let answered = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    assert_eq!(
        endpoint.bodies()[0]["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": format!("{odd}\n\nA notice.")},
            {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [
                called("c00000001", "{ \"at\":  1 }"),
                called("c00000002", "{}"),
                called("c00000003", "{\"at\":1}"),
                called("c00000004", "{\"unreadable\":\"{\\\"at\\\": \\\"cut\"}"),
            ]},
            answered("c00000001", "first"),
            answered("c00000002", "second"),
            answered("c00000003", "third"),
            answered("c00000004", "fourth"),
            {"role": "user", "content": "And now?\n\nWell?"},
            {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": [called("c00000005", "{}")]},
            answered("c00000005", ""),
        ])
    );
    let without_tools = Request { tools: vec![], system: String::new(), ..hello() };
    model(&endpoint).ask(&without_tools, &Ear::default()).await.unwrap();
    let body = &endpoint.bodies()[1];
    assert_eq!((body.get("tools"), &body["messages"][0]["role"]), (None, &json!("user")));
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_each_try_is_told() {
    for (name, first) in [
        ("429", Play::response(429, &[("retry-after-ms", "30")], "")),
        ("503", Play::response(503, &[], "{\"error\": {\"message\": \"Loading model\"}}")),
        ("500", Play::response(500, &[], "oops")),
        ("a connection that closes", Play::default()),
        ("a stream that ends before it began", Play::stream().write(": ping\n\n").event(&json!({"choices": []}))),
        ("an overload inside a stream", Play::stream().event(&json!({"error": {"type": "overloaded_error"}}))),
    ] {
        let endpoint = Endpoint::start(move |n, _| if n < 2 { first.clone() } else { Play::says("Hi.") }).await;
        let ear = Ear::default();
        let reply = model(&endpoint).ask(&hello(), &ear).await;
        assert_eq!(reply.map(|reply| reply.blocks), Ok(vec![text("Hi.")]), "{name}");
        assert_eq!((endpoint.seen().len(), ear.retries().len()), (3, 2), "{name}");
        if name == "429" {
            assert!(ear.retries().iter().all(|wait| *wait >= 25 * MS), "{:?}", ear.retries());
            let at: Vec<_> = endpoint.seen().iter().map(|seen| seen.at).collect();
            assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 29 * MS), "{at:?}");
        }
    }
}

#[tokio::test]
async fn tries_are_bounded_and_a_pause_longer_than_patience_is_not_waited_for() {
    check("429 for ever", Play::response(429, &[], ""), Err((FailureKind::RateLimited, 5))).await;
    check("500 for ever", Play::response(500, &[], ""), Err((FailureKind::Rejected, 5))).await;
    check("an hour", Play::response(429, &[("retry-after", "3600")], ""), Err((FailureKind::RateLimited, 1))).await;
    let quota = "{\"error\": {\"message\": \"pay\", \"code\": \"insufficient_quota\"}}";
    check("no money", Play::response(429, &[], quota), Err((FailureKind::RateLimited, 1))).await;
}

#[tokio::test]
async fn a_pause_that_a_server_asks_for_is_told_in_words_and_bounded() {
    for (asked, told) in [
        ("3600", "60 min"),
        ("36000", "10 h"),
        ("86400", "a day or more"),
        ("1e19", "a day or more"),
        ("99999999999999999999999999", "a day or more"),
    ] {
        let endpoint = Endpoint::start(move |_, _| Play::response(429, &[("retry-after", asked)], "")).await;
        let failure = OpenAi::new(settings(&endpoint)).unwrap().ask(&hello(), &Ear::default()).await.unwrap_err();
        let message = format!(
            "{} takes no more requests for now (429). The next try would be {told} away. Ask again later.",
            endpoint.host()
        );
        assert_eq!(failure, Failure::new(FailureKind::RateLimited, message), "{asked}");
    }
}

#[tokio::test]
async fn refusals_are_not_tried_again_and_speak_without_the_key() {
    let key = "sk-secret-0123456789-4f2a";
    let echo = format!("{{\"error\": {{\"message\": \"Bad key {key}\\u0007\"}}}}");
    for (status, kind, message) in [
        (401, FailureKind::Auth, "The key ending 4f2a was refused (401) by HOST. It said: \"Bad key [key]\""),
        (403, FailureKind::Auth, "The key ending 4f2a was refused (403) by HOST. It said: \"Bad key [key]\""),
        (
            404,
            FailureKind::Rejected,
            "HOST knows no model \"some-model\" at this address (404). Check base_url and model. It said: \"Bad key [key]\"",
        ),
        (302, FailureKind::Rejected, "HOST points to another address (302). Set base_url to that one."),
    ] {
        let echo = echo.clone();
        let endpoint = Endpoint::start(move |_, _| Play::response(status, &[("location", "/elsewhere")], &echo)).await;
        let settings = OpenAiSettings { key: Some(format!("{key}\n")), ..settings(&endpoint) };
        let failure = OpenAi::new(settings).unwrap().ask(&hello(), &Ear::default()).await.unwrap_err();
        assert_eq!(failure, Failure::new(kind, message.replace("HOST", &endpoint.host())));
        let seen = endpoint.seen();
        assert_eq!((seen.len(), seen[0].headers["authorization"].as_str()), (1, &*format!("Bearer {key}")));
    }
}

#[tokio::test]
async fn a_key_that_is_not_there_is_told_and_nothing_is_sent() {
    let endpoint = Endpoint::start(|_, _| Play::says("Hi.")).await;
    let settings = OpenAiSettings { key_name: Some("SOME_KEY".to_owned()), ..settings(&endpoint) };
    let model = OpenAi::new(settings).unwrap();
    let message = format!(
        "The key for {} is missing: SOME_KEY is not set. Set it and start again. Nothing was sent.",
        endpoint.host()
    );
    let failure = Failure::new(FailureKind::Auth, message);
    assert_eq!(model.ask(&hello(), &Ear::default()).await, Err(failure.clone()));
    assert_eq!(model.check().await, Err(failure));
    assert_eq!(endpoint.seen().len(), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let endpoint = Endpoint::start(|_, _| Play::default()).await;
    let (host, settings) = (endpoint.host(), settings(&endpoint));
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = socket.local_addr().unwrap();
    drop(socket);
    let settings = OpenAiSettings { base_url: settings.base_url.replace(&host, &free.to_string()), ..settings };
    let model = OpenAi::new(settings).unwrap();
    let ear = Ear::default();
    let failure = model.ask(&hello(), &ear).await.unwrap_err();
    let message = format!("{free} does not answer. Nothing was sent.");
    assert_eq!(failure, Failure::new(FailureKind::Unreachable, format!("{message} Tried 3 times. Ask again later.")));
    assert_eq!(ear.retries().len(), 2);
    assert_eq!(model.check().await, Err(Failure::new(FailureKind::Unreachable, message)));
}

#[tokio::test]
async fn a_history_that_is_too_long_is_told_with_its_figures() {
    let body = json!({"error": {"code": 400, "message": "request (6010 tokens) exceeds the available context size (4096 tokens)",
        "type": "exceed_context_size_error", "n_prompt_tokens": 6010, "n_ctx": 4096}});
    let (reply, _, endpoint) = reply_to(Play::response(400, &[], &body.to_string())).await;
    let message =
        format!("The conversation has 6010 tokens, and {} takes 4096. Nothing was answered.", endpoint.host());
    assert_eq!(reply, Err(Failure::new(FailureKind::ContextOverflow, message)));
    let openai =
        json!({"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 10."}});
    check("named", Play::response(400, &[], &openai.to_string()), Err((FailureKind::ContextOverflow, 1))).await;
    let inside = Play::stream().event(&body);
    check("inside a stream", inside, Err((FailureKind::ContextOverflow, 1))).await;
}

#[tokio::test]
async fn silence_ends_a_request_and_a_sign_of_life_does_not() {
    let idle = 300 * MS;
    let ask = async |play: Play| {
        let endpoint = Endpoint::start(move |_, _| play.clone()).await;
        let settings = OpenAiSettings { idle, ..settings(&endpoint) };
        let reply = OpenAi::new(settings).unwrap().ask(&hello(), &Ear::default()).await;
        (reply.map(|reply| reply.blocks).map_err(|failure| failure.kind), endpoint.seen().len())
    };
    let silent = (Err(FailureKind::Silent), 1);
    assert_eq!(ask(Play::default().hang()).await, silent);
    assert_eq!(ask(Play::stream().hang()).await, silent);
    assert_eq!(ask(Play::chunks(&[delta(json!({"content": "I"}))]).hang()).await, silent);
    let mut slow = Play::stream();
    for _ in 0..5 {
        slow = slow.pause(idle / 2).write(": still here\n\n");
    }
    slow = slow.event(&delta(json!({"content": "Hi."}))).event(&finish("stop")).done();
    assert_eq!(ask(slow).await, (Ok(vec![text("Hi.")]), 1));
    let open = Play::chunks(&[delta(json!({"content": "Hi."})), finish("stop")]).hang();
    assert_eq!(
        ask(open).await,
        (Ok(vec![text("Hi.")]), 1),
        "a finished reply does not wait for the end of the connection"
    );
}

#[tokio::test]
async fn dropping_a_request_closes_its_socket_at_once() {
    for head in [Play::default(), Play::chunks(&[delta(json!({"content": "one"}))])] {
        let endpoint = Endpoint::start(move |_, _| head.clone().hang()).await;
        let model = model(&endpoint);
        let (request, ear) = (hello(), Ear::default());
        let dropped = tokio::select! {
            reply = model.ask(&request, &ear) => panic!("{reply:?}"),
            _ = endpoint.until(|seen| seen.len() == 1) => tokio::time::Instant::now(),
        };
        let closed = endpoint.closed(0).await;
        assert!(closed - dropped < Duration::from_secs(1), "{:?}", closed - dropped);
    }
}

#[tokio::test]
async fn a_pause_that_one_is_told_holds_for_all_and_they_come_back_spread() {
    let pause = 400 * MS;
    let endpoint = Endpoint::start(move |n, _| match n {
        0..4 => Play::response(429, &[("retry-after-ms", "400")], ""),
        _ => Play::says("Hi."),
    })
    .await;
    let settings = OpenAiSettings { spread: 60 * MS, ..settings(&endpoint) };
    let model = OpenAi::new(settings).unwrap();
    let request = hello();
    let ears: Vec<Ear> = (0..8).map(|_| Ear::default()).collect();
    let first = model.ask(&request, &ears[0]);
    let rest = async {
        endpoint.until(|seen| !seen.is_empty()).await;
        futures::future::join_all(ears[1..].iter().map(|ear| model.ask(&request, ear))).await
    };
    let (first, rest) = tokio::join!(first, rest);
    assert!(first.is_ok() && rest.iter().all(Result::is_ok), "{first:?} {rest:?}");
    let at: Vec<_> = endpoint.seen().iter().map(|seen| seen.at).collect();
    // The last of those who were told to pause came before the pause; after it nobody shares a beat.
    let before = at.iter().filter(|at_| **at_ - at[0] < pause).count();
    assert!(at[before] - at[before - 1] >= 300 * MS, "{at:?}");
    let after = &at[before..];
    assert!(after.windows(2).all(|pair| pair[1] - pair[0] >= 20 * MS), "{after:?}");
}

#[tokio::test]
async fn a_look_at_the_server_learns_its_context() {
    let endpoint = Endpoint::start(|_, _| {
        let models =
            json!({"data": [{"id": "other", "max_model_len": 1}, {"id": "some-model", "max_model_len": 4096}]});
        Play::response(200, &[("content-type", "application/json")], &models.to_string())
    })
    .await;
    let model = model(&endpoint);
    assert_eq!(model.context(), None);
    assert_eq!(model.check().await, Ok(()));
    assert_eq!(model.context(), Some(4096));
    assert_eq!(endpoint.seen()[0].target, "GET /v1/models");
    let endpoint = Endpoint::start(|_, _| Play::response(404, &[], "")).await;
    assert_eq!(self::model(&endpoint).check().await, Ok(()), "a server without a list is there all the same");
}

#[test]
fn an_address_that_cannot_be_one_is_refused() {
    for url in ["", "localhost:8080", "ftp://x/", "not an address"] {
        assert!(OpenAi::new(OpenAiSettings::new(url, "m")).is_err(), "{url}");
    }
}

#[tokio::test]
#[ignore = "needs the server of tests/peer/serve_model.py, and its address in COPPICE_TEST_PEER"]
async fn a_real_server_streams_a_call_and_then_an_answer() {
    let address = coppice_engine::env::var("COPPICE_TEST_PEER").expect("COPPICE_TEST_PEER is not set");
    let model = OpenAi::new(OpenAiSettings::new(format!("{address}/v1"), "smollm2-135m")).unwrap();
    assert_eq!(model.check().await, Ok(()));
    assert_eq!(model.context(), Some(8192));
    let mut request = request(vec![Message::User("Look at the oak.".to_owned())]);
    let ear = Ear::default();
    let mut reply = model.ask(&request, &ear).await.unwrap();
    assert!(!reply.usage.estimated && reply.usage.input > 0 && reply.usage.output > 0, "{reply:?}");
    let mut results = Vec::new();
    for (place, block) in reply.blocks.iter_mut().enumerate() {
        let Block::ToolCall { id, name, args } = block else { continue };
        *id = format!("1.{place}").as_str().into();
        assert_eq!(name, "look");
        assert!(serde_json::from_str::<Value>(args).unwrap().is_object(), "{args}");
        results.push(result(id.as_str(), "The oak is green."));
    }
    assert!(!results.is_empty() && ear.content().len() > 2, "{reply:?}");
    request.messages.push(Message::Assistant(reply.blocks));
    request.messages.extend(results);
    let ear = Ear::default();
    let answer = model.ask(&request, &ear).await.unwrap();
    let [Block::Text { text }] = &answer.blocks[..] else { panic!("{answer:?}") };
    assert!(!text.trim().is_empty() && answer.stop == Stop::Complete, "{answer:?}");
    assert!(ear.content().len() > 1, "{:?}", ear.heard());
    request.messages = vec![Message::User("many words ".repeat(9000))];
    assert_eq!(model.ask(&request, &ear).await.unwrap_err().kind, FailureKind::ContextOverflow);
}

#[tokio::test]
#[ignore = "needs `llmock serve` (llmock 0.2.2 from PyPI), and its address in COPPICE_TEST_JUDGE"]
async fn an_independent_judge_of_clients_finds_no_error() {
    let address = coppice_engine::env::var("COPPICE_TEST_JUDGE").expect("COPPICE_TEST_JUDGE is not set");
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    http.post(format!("{address}/_llmock/reset")).send().await.unwrap();
    let fault = |kind: &str| json!({"type": "stream_fault", "kind": kind, "after_chunks": 3, "stall_seconds": 3});
    for behaviors in [
        json!([{"type": "fail", "status": 429, "retry_after": 1, "times": 2}]),
        json!([{"type": "fail", "status": 503, "times": 2}]),
        json!([{"type": "fail", "status": 401, "times": 1}]),
        json!([fault("truncate")]),
        json!([fault("disconnect")]),
        json!([fault("malformed")]),
        json!([fault("stall")]),
    ] {
        let scenario = json!({"behaviors": behaviors});
        let taken = http.post(format!("{address}/_llmock/scenario")).body(scenario.to_string());
        let taken = taken.header("content-type", "application/json").send().await.unwrap();
        assert!(taken.status().is_success(), "{}", taken.text().await.unwrap());
        let settings = OpenAiSettings {
            key: Some("sk-some-key-0123456789".to_owned()),
            idle: 1000 * MS,
            ..OpenAiSettings::new(format!("{address}/v1"), "gpt-4o")
        };
        let model = OpenAi::new(settings).unwrap();
        // The judge takes equal requests for tries of one.
        let request = request(vec![Message::User(behaviors.to_string())]);
        let mut reply = model.ask(&request, &Ear::default()).await;
        // It sees only requests: that a reply was not taken shows in being asked again, which people do.
        if reply.as_ref().is_err_and(|failure| failure.kind != FailureKind::Auth) {
            reply = model.ask(&request, &Ear::default()).await;
        }
        println!("{behaviors} -> {reply:?}");
    }
    let verdict =
        http.get(format!("{address}/_llmock/verdict?format=text")).send().await.unwrap().text().await.unwrap();
    println!("{verdict}");
    assert!(verdict.contains("0 error(s)"), "{verdict}");
}
