//! What goes wrong: tried again where that may help, bounded, and told without the key.

use super::*;

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
        let settings = OpenAiSettings { key: has_key(key), ..settings(&endpoint) };
        let failure = OpenAi::new(settings).unwrap().ask(&hello(), &Ear::default()).await.unwrap_err();
        assert_eq!(failure, Failure::new(kind, message.replace("HOST", &endpoint.host())));
        let seen = endpoint.seen();
        assert_eq!((seen.len(), seen[0].headers["authorization"].as_str()), (1, &*format!("Bearer {key}")));
    }
}

#[tokio::test]
async fn a_key_that_is_not_there_is_told_and_nothing_is_sent() {
    let endpoint = Endpoint::start(|_, _| Play::says("Hi.")).await;
    let settings = OpenAiSettings { key: no_key(), key_name: Some("SOME_KEY".to_owned()), ..settings(&endpoint) };
    let model = OpenAi::new(settings).unwrap();
    let message = format!(
        "The key for {} is missing: SOME_KEY is not set. Set it with `coppice key set SOME_KEY`. Nothing was sent.",
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
    // Signs of life alone prove the connection, and only for a while.
    let mut alive = Play::chunks(&[delta(json!({"content": "I"}))]);
    for _ in 0..40 {
        alive = alive.pause(idle / 4).write(": still here\n\n");
    }
    let alive = alive.event(&finish("stop")).done();
    assert_eq!(ask(alive).await, silent);
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

// How they are spread is tested with the pace itself, on a clock of its own.
#[tokio::test]
async fn a_pause_that_one_is_told_holds_for_all() {
    let pause = 800 * MS;
    let endpoint = Endpoint::start(move |n, _| match n {
        0 => Play::response(429, &[("retry-after-ms", "800")], ""),
        _ => Play::says("Hi."),
    })
    .await;
    let model = model(&endpoint);
    let request = hello();
    let ears: Vec<Ear> = (0..8).map(|_| Ear::default()).collect();
    let first = model.ask(&request, &ears[0]);
    let rest = async {
        while ears[0].retries().is_empty() {
            tokio::task::yield_now().await;
        }
        futures::future::join_all(ears[1..].iter().map(|ear| model.ask(&request, ear))).await
    };
    let (first, rest) = tokio::join!(first, rest);
    assert!(first.is_ok() && rest.iter().all(Result::is_ok), "{first:?} {rest:?}");
    let at: Vec<_> = endpoint.seen().iter().map(|seen| seen.at).collect();
    // However slow all this is, nobody comes sooner.
    assert!(at.len() == 9 && at[1..].iter().all(|later| *later - at[0] >= pause), "{at:?}");
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
