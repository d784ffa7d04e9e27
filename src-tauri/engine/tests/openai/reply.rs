//! What comes back: streams in order, whatever a server does with indexes, ids, chunks and figures.

use super::*;

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
async fn an_end_that_nobody_knows_is_no_success_unless_calls_stand() {
    let says = |reason: &str| Play::chunks(&[delta(json!({"content": "Hm."})), finish(reason)]).done();
    let (reply, ear, endpoint) = reply_to(says("weird\n\u{7}end")).await;
    let why = format!(
        "{} ended the reply for a reason that is not known: \"weird end\". What came is kept. Ask again.",
        endpoint.host()
    );
    assert_eq!(reply, Err(Failure::new(FailureKind::Nonsense, why)));
    assert_eq!(ear.content(), [Delta::Text { index: 0, text: "Hm.".to_owned() }]);
    let long = reply_to(says(&"x".repeat(10_000))).await.0.unwrap_err().message;
    assert!(long.len() < 400, "{long}");
    for reason in ["stop", "STOP", "end_turn", "eos_token", "tool_calls", "function_call", ""] {
        check(reason, says(reason), Ok((vec![text("Hm.")], Stop::Complete))).await;
    }
    let called = Ok((vec![call("", "look", "{}")], Stop::Complete));
    check("calls", Play::chunks(&[head(0, "A", "look", "{}"), finish("weird")]).done(), called).await;
    let cut = Play::chunks(&[json!({"choices": [{"delta": {"content": "Hm."}, "finish_reason": ""}]})]);
    check("an empty reason is no end", cut, Err((FailureKind::Truncated, 1))).await;
}

#[tokio::test]
async fn a_reply_without_end_is_a_fault_that_keeps_what_came() {
    let piece = "x".repeat(256 * 1024);
    let many = |chunk: Value| (0..40).fold(Play::stream(), |play, _| play.event(&chunk));
    for (name, play) in [
        ("text", many(delta(json!({"content": piece})))),
        ("reasoning", many(delta(json!({"reasoning_content": piece})))),
        ("arguments", many(tail(0, &piece))),
        ("calls", (0..9000).fold(Play::stream(), |play, n| play.event(&head(n, &format!("c{n}"), "look", "{}")))),
        ("a body", Play::response(200, &[], &format!("{{{}", " ".repeat(30 * 1024 * 1024)))),
    ] {
        let (reply, ear, endpoint) = reply_to(play.hang()).await;
        let why = format!(
            "The reply is larger than 4 MB, so {} was not heard to its end. What came before is kept; nothing in it was \
             run. Ask for less at once.",
            endpoint.host()
        );
        assert_eq!(reply, Err(Failure::new(FailureKind::Nonsense, why)), "{name}");
        let size = |delta: &Delta| match delta {
            Delta::Text { text, .. } | Delta::Thinking { text, .. } | Delta::ToolArgs { text, .. } => text.len(),
            Delta::Retry { .. } | Delta::Alive => 0,
        };
        let heard: usize = ear.heard().iter().map(size).sum();
        assert!(heard <= 4 * 1024 * 1024, "{name}: {heard}");
    }
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
