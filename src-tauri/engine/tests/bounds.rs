//! What is bounded stays bounded, and every cut falls on a character, whatever is said and however much of it.

use crate::lab::{Act, Lab, PATIENCE, call, delegate, key, results, say, task, within};
use coppice_engine::config::bounds::MAX_RESULT;
use coppice_engine::engine::Target;
use coppice_engine::event::{Event, TurnEnd};
use coppice_engine::llm::FailureKind;
use coppice_engine::text::{cut, plain};
use coppice_engine::view::SessionState;
use serde_json::json;
use std::fs;
use std::path::Path;

/// Text whose character at `limit` bytes is cut by it.
fn straddling(limit: usize) -> String {
    "a".repeat(limit - 1) + &"語".repeat(9999)
}

#[test]
fn text_is_cut_on_characters_at_every_length() {
    for text in [straddling(1), straddling(7), "🌳".repeat(20), "e\u{301}".repeat(20), "\u{202e}\n\té".repeat(9)] {
        for max in 0..70 {
            let part = cut(&text, max);
            assert!(part.len() <= max && text.starts_with(part) && part.len() + 4 > max.min(text.len()));
            assert!(plain(&text, max).chars().count() <= max, "{max}: {text:?}");
        }
    }
}

#[tokio::test]
async fn characters_that_a_limit_would_cut_pass_everywhere_a_text_is_shortened() {
    // Titles, labels, lines and parts of rows; messages to people and models; outputs and what is kept of them.
    let limits =
        [80, 120, 200, 400, 1000, 2000, 4 * 1024, 12 * 1024, 16 * 1024, 18 * 1024, 24 * 1024, 31 * 1024, 32 * 1024];
    for limit in limits {
        let lab = Lab::new().await;
        let text = straddling(limit);
        for file in ["text", "other"] {
            fs::write(lab.cwd.join(file), &text).unwrap();
        }
        let cat = |background: bool| {
            let mut args = json!({ "command": format!("cat text; : {}", cut(&text, 50_000)), "description": text });
            if background {
                args["run_in_background"] = json!(true);
            }
            call("bash", args)
        };
        lab.script(
            "root",
            vec![
                vec![
                    delegate(&text, &text),
                    cat(true),
                    cat(false),
                    call("subagent", json!({ "description": text, "prompt": text })),
                    call("read_file", json!({ "path": "text" })),
                    call("read_file", json!({ "path": text })),
                    call("grep", json!({ "pattern": "語" })),
                    call("glob", json!({ "pattern": text })),
                    call("write_file", json!({ "path": "new", "content": text })),
                    call("edit_file", json!({ "path": "other", "old": text, "new": "語" })),
                    call("task_output", json!({ "task_id": text })),
                    call(&text, json!({ "語": text })),
                    Act::RawCall("task_list".to_owned(), text.clone()),
                ],
                vec![
                    call("task_output", json!({ "task_id": "subagent-1", "wait": true })),
                    call("task_output", json!({ "task_id": "bash-1", "wait": true })),
                    call("task_list", json!({})),
                    call("list_agents", json!({})),
                    call("send_message", json!({ "child_id": text, "message": text })),
                ],
                vec![call("task_kill", json!({ "task_id": "bash-1", "reason": text }))],
                vec![say(&text)],
            ],
        );
        let lost = Act::Fail(FailureKind::Rejected, text.clone());
        // The label of a child is one line of at most 120 characters of this.
        lab.script(&plain(&text, 120), vec![vec![say(&text), lost]]);
        let root = lab.prompted(&text).await;
        assert_eq!(lab.rest(&root).await.state, SessionState::Idle, "{limit}");
        let request = lab.requests(&root).pop().unwrap();
        let answers = results(&request);
        assert!(answers.len() >= 19, "{limit}: {}", answers.len());
        for (_, answer) in &answers {
            assert!(answer.len() <= MAX_RESULT, "{limit}: {} bytes: {}", answer.len(), cut(answer, 300));
            assert!(!answer.contains("met a defect") && !answer.contains('\u{fffd}'), "{limit}: {answer}");
        }
        let page = lab.engine.page(&root, None, None, 1000).await.unwrap();
        assert!(page.rows.len() > 10);
        let mut follow = lab.engine.follow(Some(root.clone()), Some(0)).await.unwrap();
        within(follow.next()).await.unwrap().unwrap();
        let receipt = lab.engine.stop(Target::Branch(root.clone()), Some(text.clone()), true, &key()).await.unwrap();
        assert_eq!(receipt.ended, []);
        lab.engine.rename(&root, text.clone(), &key()).await.unwrap();
        assert!(lab.engine.session(&root).await.unwrap().title.chars().count() <= 200);
        // Read in pieces of every small size, the bytes are counted truly and nothing is lost.
        for id in ["bash-1", "subagent-1"] {
            let whole = lab.engine.output(&task(id), 0, 1 << 20).await.unwrap();
            assert_eq!((whole.size, whole.next), (text.len() as u64, text.len() as u64), "{id} {limit}");
            let (mut read, mut at) = (String::new(), 0);
            while at < whole.size {
                let slice = lab.engine.output(&task(id), at, limit).await.unwrap();
                assert_eq!(slice.next - at, slice.text.len() as u64);
                read.push_str(&slice.text);
                at = slice.next;
            }
            assert_eq!(read, text, "{id} {limit}");
        }
        let ends = lab.events(&root).await.into_iter().filter_map(|recorded| match recorded.event {
            Event::TurnEnded { end, .. } => Some(end),
            _ => None,
        });
        assert!(ends.into_iter().all(|end| end == TurnEnd::Completed));
    }
}

/// Runs a test in a process where no other test runs.
#[expect(clippy::disallowed_methods, reason = "what a process holds is measured where no other test runs")]
fn alone(name: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

fn bytes_below(folder: &Path) -> u64 {
    let sizes = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        // A segment can go while this looks.
        let metadata = entry.metadata().ok();
        if entry.path().is_dir() { bytes_below(&entry.path()) } else { metadata.map_or(0, |metadata| metadata.len()) }
    });
    sizes.sum()
}

#[cfg(target_os = "linux")]
#[test]
fn endless_output_costs_neither_memory_nor_disk_and_others_go_on() {
    alone("bounds::endless_output_alone");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "another test starts it in a process of its own"]
async fn endless_output_alone() {
    let resident = || -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    let lab = Lab::new().await;
    let endless = |command: &str| call("bash", json!({ "command": command, "run_in_background": true }));
    // The second reads what is kept of the first, and of itself.
    let output = lab.data().join("output");
    let reads = format!("until [ -d {0}/bash-2 ]; do :; done; tail -q -f {0}/*/*", output.display());
    lab.script("root", vec![vec![endless("yes"), endless(&reads)], vec![say("they run")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    let size = async |id: &str| lab.engine.output(&task(id), 0, 1).await.unwrap().size;
    let megabyte = 1024 * 1024;
    within(async {
        while size("bash-1").await < 40 * megabyte {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let before = resident();
    within(async {
        while size("bash-1").await < 240 * megabyte {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 * megabyte, "{grown} bytes more in memory");
    let kept = bytes_below(&output);
    assert!(kept <= 2 * 32 * megabyte + megabyte, "{kept} bytes on disk");
    lab.script("root", vec![vec![say("hello")]]);
    let other = lab.prompted("and you?").await;
    assert_eq!(lab.rest(&other).await.state, SessionState::Idle);
    let receipt = within(lab.engine.stop(Target::Everything, None, false, &key())).await.unwrap();
    assert_eq!(receipt.unconfirmed, Vec::<String>::new());
    lab.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn what_tasks_put_out_lies_where_no_tool_of_a_model_looks() {
    let lab = Lab::new().await;
    let says = call("bash", json!({ "command": "echo SECRET", "run_in_background": true }));
    lab.script("root", vec![vec![says], vec![say("it ran")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let output = lab.data().join("output");
    let file = fs::read_dir(output.join("bash-1")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(&file).unwrap(), "SECRET\n");
    let looks = vec![
        call("read_file", json!({ "path": file })),
        call("glob", json!({ "pattern": "**/*", "path": lab.data() })),
        call("grep", json!({ "pattern": "SECRET", "path": output })),
        call("write_file", json!({ "path": output.join("mine"), "content": "x" })),
    ];
    lab.script("root", vec![looks, vec![say("nothing there")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "look".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let answers = results(&lab.requests(&root).pop().unwrap());
    for (ok, text) in &answers[answers.len() - 4..] {
        assert!(!ok && !text.contains("SECRET"), "{text}");
    }
    assert!(!output.join("mine").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_hundred_background_commands_leave_no_descriptor_behind() {
    alone("bounds::a_hundred_background_commands_alone");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "another test starts it in a process of its own"]
async fn a_hundred_background_commands_alone() {
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let lab = Lab::new().await;
    let root = lab.root().await;
    let work = async || {
        let command = |n| call("bash", json!({ "command": format!("echo {n}"), "run_in_background": true }));
        lab.script("root", vec![(0..10).map(command).collect(), vec![say("they ran")]]);
        lab.replay(&root);
        lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
        lab.rest(&root).await;
    };
    work().await;
    let before = descriptors();
    for _ in 0..10 {
        work().await;
    }
    assert_eq!(lab.tasks().await.len(), 110);
    assert!(descriptors() <= before + 12, "{before} descriptors before, {} after", descriptors());
    lab.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn what_runs_is_in_the_lists_also_when_nobody_kept_its_id() {
    let lab = Lab::new().await;
    let sleeps = call("bash", json!({ "command": "sleep 600", "run_in_background": true }));
    lab.script("root", vec![vec![sleeps], vec![call("task_list", json!({}))], vec![say("it runs")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    let listed = results(&lab.requests(&root).pop().unwrap()).pop().unwrap();
    assert_eq!(listed, (true, "bash-1  bash  running  \"sleep 600\"".to_owned()));
    assert_eq!(lab.tasks().await.len(), 1);
    assert_eq!(lab.engine.session(&root).await.unwrap().live_below, 1);
    let receipt = within(lab.engine.stop(Target::Everything, None, false, &key())).await.unwrap();
    assert!(receipt.processes.iter().all(|process| process.gone) && !receipt.processes.is_empty(), "{receipt:?}");
}
