//! What is asked: forms that a server refuses are not sent again, reasoning goes back where it is wanted.

use super::*;

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
