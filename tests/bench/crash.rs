//! A thousand crashes at random instants: how many promises were broken, and how long the worst recovery took.

use crate::measure::{Line, Sample, ms};
use crate::support::{Place, crash};
use serde_json::json;
use std::time::Instant;

const ROUNDS: usize = 1000;
const SEED: u64 = 0x00c0_ff1c_e5ee;

pub fn run() {
    let findings = crash::rounds(ROUNDS, SEED);
    let place = Place::new(json!({ "sessions": {} }));
    let mut rpc = place.rpc();
    rpc.call("tree", json!({}));
    rpc.end();
    let there = Sample::of(20, |_| {
        let began = Instant::now();
        let mut rpc = place.rpc();
        rpc.call("tree", json!({}));
        let took = ms(began);
        rpc.end();
        took
    });
    let here: Sample = findings.recoveries.iter().map(|took| took.as_secs_f64() * 1e3).collect();
    let reference = "a start on an empty folder, to its first answer";
    for (what, here, there) in [
        ("crash to the first answer, p50", here.median(), there.median()),
        ("crash to the first answer, worst", here.worst(), there.worst()),
    ] {
        Line { what, unit: "ms", here, there, reference, rounds: findings.rounds }.print();
    }
    let (messages, tasks) = (findings.messages, findings.tasks);
    println!(
        "kill -9 at a random instant: {} rounds, {} faults ({messages} promised messages and {tasks} tasks looked at)",
        findings.rounds,
        findings.faults.len()
    );
    for fault in &findings.faults {
        println!("  {fault}");
    }
}
