//! Floods: what a model or a command gives without end costs a bounded amount, and nobody else waits for it.

use crate::lab::{Lab, call, key, results, say, within};
use coppice_engine::engine::Target;
use coppice_engine::event::{Event, TurnEnd};
use coppice_engine::view::SessionState;
use serde_json::json;
use std::fs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_calls_of_one_reply_few_run_at_once_and_too_many_are_refused_each_with_its_result() {
    let lab = Lab::new().await;
    let command = "mkdir -p now; touch now/$$; ls now | wc -l >> most; sleep 0.3; rm now/$$";
    let calls = (0..1000).map(|_| call("bash", json!({ "command": command }))).collect();
    lab.script("root", vec![calls, vec![say("done")]]);
    let root = lab.prompted("go").await;
    assert_eq!(lab.rest(&root).await.state, SessionState::Idle);
    let answers = results(&lab.requests(&root).pop().unwrap());
    assert_eq!(answers.len(), 1000);
    let (run, refused) = answers.split_at(128);
    assert!(run.iter().all(|(ok, _)| *ok), "{run:?}");
    let why = "Not run: one reply may ask for at most 128 calls, and this one asked for 1000. Ask again for what is still \
               needed, in smaller groups.";
    assert!(refused.iter().all(|answer| *answer == (false, why.to_owned())), "{:?}", refused[0]);
    let most = fs::read_to_string(lab.cwd.join("most")).unwrap();
    let most: Vec<usize> = most.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert_eq!(most.len(), 128);
    assert!(most.iter().all(|count| *count <= 16), "{most:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_the_calls_that_wait_their_turn_and_starts_none_of_them() {
    let lab = Lab::new().await;
    let calls = (0..40).map(|_| call("bash", json!({ "command": "echo >> begun; sleep 600" }))).collect();
    lab.script("root", vec![calls]);
    let root = lab.prompted("go").await;
    let begun = || fs::read_to_string(lab.cwd.join("begun")).map_or(0, |text| text.lines().count());
    within(async {
        while begun() < 16 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(lab.engine.stop(Target::Turn(root.clone()), None, false, &key())).await.unwrap();
    lab.rest(&root).await;
    let events = lab.events(&root).await;
    let text = |event: &Event| match event {
        Event::ToolFinished { ok: false, text, .. } => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<String> = events.iter().filter_map(|recorded| text(&recorded.event)).collect();
    assert_eq!(texts.len(), 40);
    assert_eq!(texts.iter().filter(|text| *text == "Not run: the turn was stopped.").count(), 24, "{texts:?}");
    assert_eq!(begun(), 16);
    let stopped = |event: &Event| matches!(event, Event::TurnEnded { end: TurnEnd::Stopped, .. });
    assert!(events.iter().any(|recorded| stopped(&recorded.event)));
}
