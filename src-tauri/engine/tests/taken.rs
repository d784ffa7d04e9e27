//! The data folder is taken away from under the process that holds it: it notices, says so, keeps nothing, ends what
//! runs, and leaves alone what stands at the path then.

use crate::lab::{Lab, PATIENCE, call, gate, key, say, within};
use coppice_engine::config::Config;
use coppice_engine::engine::{Engine, Opening};
use coppice_engine::env::Env;
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Mode, TreeLimits};
use coppice_engine::id::SessionId;
use coppice_engine::log::Log;
use coppice_engine::log::held::Held;
use serde_json::json;
use std::fs;
use std::path::Path;

fn refused(told: coppice_engine::error::Result<i64>) {
    let told = told.unwrap_err();
    assert_eq!(told.code(), Code::Gone, "{told}");
    assert!(told.message().contains("was deleted, moved or replaced while Coppice had it open"), "{told}");
}

/// Whether a command of this session lives.
fn lives(session: &SessionId) -> bool {
    let marked = |pid: &str| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environ)
            .split('\0')
            .any(|var| var.starts_with("COPPICE_TASK=") && var.contains(session.as_str()))
    };
    fs::read_dir("/proc").unwrap().any(|entry| marked(&entry.unwrap().file_name().to_string_lossy()))
}

async fn open_root(engine: &Engine, cwd: &Path) -> SessionId {
    let opening =
        Opening { cwd: cwd.to_owned(), model: None, mode: Mode::Full, title: None, limits: TreeLimits::default() };
    engine.open_session(opening, &key()).await.unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn whatever_is_taken_away_nothing_is_answered_as_durable_any_more_and_what_runs_is_ended() {
    type Take = fn(&Path);
    let take: [(&str, Take); 5] = [
        ("the folder is deleted", |data| fs::remove_dir_all(data).unwrap()),
        ("the folder is moved", |data| fs::rename(data, data.with_extension("moved")).unwrap()),
        ("the store's file is deleted", |data| fs::remove_file(data.join(Log::FILE)).unwrap()),
        ("the store's file is replaced", |data| {
            fs::copy(data.join(Log::FILE), data.join("copy")).unwrap();
            fs::rename(data.join("copy"), data.join(Log::FILE)).unwrap();
        }),
        ("the lock is deleted", |data| fs::remove_file(data.join("coppice.lock")).unwrap()),
    ];
    for (name, take) in take {
        let lab = Lab::new().await;
        let sleep = json!({ "command": "sleep 300", "run_in_background": true });
        lab.script("root", vec![vec![call("bash", sleep)], vec![gate("root"), say("done")]]);
        let root = lab.prompted("go").await;
        lab.reached("root").await;
        within(async {
            while !lives(&root) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let mut follow = lab.engine.follow(Some(root.clone()), None).await.unwrap();
        take(&lab.data());
        let keys = [key(), key()];
        let prompts = keys.iter().map(|key| lab.engine.prompt(&root, "and this?".into(), key));
        futures::future::join_all(prompts).await.into_iter().for_each(refused);
        let status = within(async {
            loop {
                if let Some(status) = follow.next().await.unwrap().unwrap().status {
                    return status;
                }
            }
        })
        .await;
        assert!(status.contains("nothing is saved any more"), "{name}: {status}");
        within(async {
            while lives(&root) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
        refused(lab.engine.prompt(&root, "still?".into(), &key()).await);
        within(lab.engine.shutdown(PATIENCE)).await.unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_holder_that_does_nothing_notices_and_leaves_the_store_of_the_next_process_alone() {
    let lab = Lab::new().await;
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let mut follow = lab.engine.follow(None, None).await.unwrap();
    fs::remove_dir_all(lab.data()).unwrap();
    let next = Engine::open(&lab.data(), Config::default()).await.unwrap();
    let theirs = open_root(&next, &lab.cwd).await;
    let status = within(async {
        loop {
            if let Some(status) = follow.next().await.unwrap().unwrap().status {
                return status;
            }
        }
    })
    .await;
    assert!(status.contains("put the folder back"), "{status}");
    refused(lab.engine.prompt(&root, "mine".into(), &key()).await);
    assert!(
        lab.engine
            .open_session(
                Opening {
                    cwd: lab.cwd.clone(),
                    model: None,
                    mode: Mode::Full,
                    title: None,
                    limits: TreeLimits::default()
                },
                &key()
            )
            .await
            .is_err()
    );
    within(lab.engine.shutdown(PATIENCE)).await.unwrap();
    next.rename(&theirs, "kept".into(), &key()).await.unwrap();
    next.shutdown(PATIENCE).await.unwrap();
    let again = Engine::open(&lab.data(), Config::default()).await.unwrap();
    let (sessions, _) = again.tree(None).await.unwrap();
    let titles: Vec<(&SessionId, &str)> =
        sessions.iter().map(|session| (&session.id, session.title.as_str())).collect();
    assert_eq!(titles, [(&theirs, "kept")]);
    again.shutdown(PATIENCE).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_takes_the_lease_where_locks_do_not_hold_is_the_only_one_that_writes() {
    let lab = Lab::new().await;
    let sleep = json!({ "command": "sleep 300", "run_in_background": true });
    lab.script("root", vec![vec![call("bash", sleep)], vec![gate("root"), say("done")]]);
    let root = lab.prompted("go").await;
    lab.reached("root").await;
    // Another process, past the lock.
    let other = Log::open_alone(&lab.data(), &Env::system(), Held::default()).unwrap();
    let before = other.events(&root, 0, 1000).await.unwrap();
    let told = lab.engine.prompt(&root, "and this?".into(), &key()).await.unwrap_err();
    assert_eq!(told.code(), Code::HeldElsewhere);
    assert!(told.message().contains("Another Coppice has taken the data folder"), "{told}");
    within(async {
        while lives(&root) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    within(lab.engine.shutdown(PATIENCE)).await.unwrap();
    // The other one has everything as it was, and goes on.
    assert_eq!(other.events(&root, 0, 1000).await.unwrap(), before);
    other.append(&root, vec![Event::Renamed { title: "ours".to_owned() }]).await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn a_holder_that_does_nothing_notices_that_its_lease_was_taken() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = [(); 2].map(|()| Log::open_alone(dir.path(), &Env::system(), Held::default()).unwrap());
    within(first.lost().cancelled()).await;
    assert_eq!(first.check_held().unwrap_err().code(), Code::HeldElsewhere);
    second.check_held().unwrap();
}
