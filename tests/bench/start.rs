//! From the start of `coppice rpc` on a store that has been lived in to the tree, and what it then holds in memory.

use crate::measure::{Line, Sample, memory, ms, rest};
use crate::stock;
use crate::support::Place;
use rusqlite::Connection;
use serde_json::json;
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 15;

pub fn run() {
    let place = Place::new(json!({ "sessions": {} }));
    tokio::runtime::Runtime::new().unwrap().block_on(stock::fill(&place.data()));
    let file = place.data().join(coppice_engine::log::Log::FILE);
    let mut reference = Vec::new();
    let here = Sample::of(ROUNDS, |_| {
        let began = Instant::now();
        assert!(Command::new("true").status().unwrap().success());
        assert_eq!(count(&file), stock::SESSIONS);
        reference.push(ms(began));

        let began = Instant::now();
        let mut rpc = place.rpc();
        let tree = rpc.call("tree", json!({}));
        let took = ms(began);
        assert_eq!(tree["sessions"].as_array().unwrap().len(), stock::SESSIONS);
        assert_eq!(rpc.end(), Some(0));
        took
    });
    Line {
        what: "rpc: start to the tree of 200 sessions",
        unit: "ms",
        here: here.median(),
        there: Sample::from_iter(reference).median(),
        reference: "`true` from start to end, and the same sessions read from the same file",
        rounds: ROUNDS,
    }
    .print();

    let (mut full, fresh) = (place.rpc(), Place::new(json!({ "sessions": {} })));
    full.call("tree", json!({}));
    let mut empty = fresh.rpc();
    empty.call("tree", json!({}));
    let sizes = [&full, &empty].map(|rpc| {
        let pid = rpc.running.child.id();
        rest(pid);
        memory(pid)
    });
    for (what, of) in [("rpc: memory at rest, RSS", 0), ("rpc: memory at rest, PSS", 1)] {
        let [here, there] = sizes.map(|size| if of == 0 { size.rss } else { size.pss });
        Line { what, unit: "MB", here, there, reference: "`coppice rpc` without a session", rounds: 1 }.print();
    }
}

fn count(file: &std::path::Path) -> usize {
    let sql = Connection::open(file).unwrap();
    let mut statement = sql.prepare("SELECT * FROM session ORDER BY seq").unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>("title")).unwrap();
    rows.map(Result::unwrap).count()
}
