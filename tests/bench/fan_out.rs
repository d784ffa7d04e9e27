//! Many background children at once, against a model endpoint over real HTTP that takes its time.

use crate::bare;
use crate::endpoint::{DELAY, Endpoint, PROMPT, Seen};
use crate::measure::{Line, Process, Sample, peak};
use crate::support::Place;
use serde_json::{Value, json};

const ROUNDS: usize = 5;
/// The tool calls of each child; its last word comes on top.
const STEPS: usize = 10;

/// What one round came to, here and with the bare client.
struct Round {
    here: bare::Took,
    there: bare::Took,
}

pub fn run() {
    for children in [10, 100] {
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| round(children)).collect();
        // The root answers once, then every child asks once a step and once for its last word.
        let ideal = DELAY.as_secs_f64() * 1e3 * (STEPS + 2) as f64;
        let line = |what: &str, unit: &str, pick: fn(&bare::Took) -> f64, scale: f64| {
            let median = |of: fn(&Round) -> &bare::Took| {
                rounds.iter().map(|round| pick(of(round)) / scale).collect::<Sample>().median()
            };
            Line {
                what: &format!("{children} children of {STEPS} steps: {what}"),
                unit,
                here: median(|round| &round.here),
                there: median(|round| &round.there),
                reference: "a bare client that sends the same requests",
                rounds: ROUNDS,
            }
            .print();
        };
        line("wall over ideal", "x", |took| took.wall_ms, ideal);
        line("processor time", "s", |took| took.cpu_s, 1.0);
        line("peak memory", "MB", |took| took.peak_mb, 1.0);
    }
}

fn round(children: usize) -> Round {
    let endpoint = Endpoint::start(children, STEPS);
    let place = Place::new(json!({ "sessions": {} }));
    place.configure(&format!(
        "[models.endpoint]\nprotocol = \"openai-chat\"\nbase_url = {:?}\nmodel = \"fixed\"\ncontext = 100000\n\
         [limits]\nlive_tasks_per_owner = 200\nlive_children = 200\nchildren = 1000\n",
        endpoint.base_url()
    ));
    let here = coppice(&place, children);
    let Seen { root, child, requests, .. } = endpoint.take();
    assert!(requests > children * (STEPS + 1), "{requests} requests");
    assert_eq!(child.len(), STEPS + 1);
    let there = bare::run(&endpoint.base_url(), &place.work(), &root.unwrap(), &child, children);
    assert_eq!(endpoint.take().requests, 1 + children * (STEPS + 1));
    Round { here, there }
}

/// One prompt, to the rest of everything. The wall runs from the prompt to the last child's settlement, both as they
/// stand in the log.
fn coppice(place: &Place, children: usize) -> bare::Took {
    let mut rpc = place.rpc();
    let open = json!({ "cwd": place.work(), "mode": "full", "model": "endpoint", "key": "open" });
    let session = rpc.call("open", open)["session"].as_str().unwrap().to_owned();
    rpc.call("prompt", json!({ "session": session, "text": PROMPT, "key": "prompt" }));
    rpc.rest(&session);
    let pid = rpc.running.child.id();
    let (cpu_s, peak_mb) = (Process::find(pid).unwrap().cpu.as_secs_f64(), peak(pid));
    let events = rpc.call("events", json!({ "session": session, "limit": 100_000 }));
    let times = |kind: &str| -> Vec<i64> {
        let events = events["events"].as_array().unwrap().iter();
        events.filter(|event| event["kind"] == kind).map(|event| event["at"].as_i64().unwrap()).collect()
    };
    let settled = times("task_settled");
    assert_eq!(settled.len(), children, "{events}");
    let tree = rpc.call("tree", json!({}));
    let completed = |session: &&Value| session["parent"].is_string() && session["state"] == "completed";
    assert_eq!(tree["sessions"].as_array().unwrap().iter().filter(completed).count(), children, "{tree}");
    assert_eq!(rpc.end(), Some(0));
    let wall_ms = (settled.iter().max().unwrap() - times("message_accepted").first().unwrap()) as f64;
    bare::Took { wall_ms, cpu_s, peak_mb }
}
