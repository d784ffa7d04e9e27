//! Other programs as servers and as judges.

use super::*;

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
            key: has_key("sk-some-key-0123456789"),
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
