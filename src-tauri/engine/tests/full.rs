//! A disk that is full: what was saved can be read, and what commands write does not fill it.

use crate::lab::{Lab, call, key, say};
use coppice_engine::config::Config;
use coppice_engine::config::bounds::DISK_RESERVE;
use coppice_engine::env;
use coppice_engine::error::Code;
use coppice_engine::event::TaskStatus;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of a disk of a few megabytes, when this is the run of the test on one. Otherwise the test is run again with
/// one, where the system lets a person have a disk of their own.
#[expect(clippy::disallowed_methods, reason = "the disk is mounted where only this test sees it")]
fn small_disk(test: &str, megabytes: u32) -> Option<PathBuf> {
    if let Some(disk) = env::path("COPPICE_SMALL_DISK") {
        return Some(disk);
    }
    let run = |script: &str, folder: &Path| {
        let own = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new("unshare");
        command.args(["-Urm", "sh", "-c", script, "sh"]).arg(folder).arg(own).arg(test);
        command.env("COPPICE_SMALL_DISK", folder).output()
    };
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size={megabytes}m none \"$1\"");
    if run(&mount, folder.path()).is_ok_and(|tried| tried.status.success()) {
        let ran = run(&format!("{mount} && exec \"$2\" --exact \"$3\""), folder.path()).unwrap();
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();

        assert!(ran.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    }
    None
}

/// Takes all the room that is left on a disk.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut filler = File::create(&path).unwrap();
    for size in [1 << 16, 4096, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
    path
}

#[tokio::test]
async fn a_store_on_a_full_disk_is_read_and_takes_writes_again_when_there_is_room() {
    let Some(disk) = small_disk("full::a_store_on_a_full_disk_is_read_and_takes_writes_again_when_there_is_room", 8)
    else {
        return;
    };
    let mut lab = Lab::on(&disk, Config::default()).await;
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let filler = fill(&disk);
    let refused = lab.engine.prompt(&root, "x".repeat(100_000), &key()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Store);
    let events = lab.engine.events(&root, 0, 1000).await;
    assert!(events.as_ref().is_ok_and(|events| events.len() > 4), "{events:?}");
    // The same after a start on the full disk.
    std::fs::remove_file(&filler).unwrap();
    lab.engine.shutdown(crate::lab::PATIENCE).await.unwrap();
    fill(&disk);
    lab.reopen().await;
    let events = lab.engine.events(&root, 0, 1000).await;
    assert!(events.as_ref().is_ok_and(|events| events.len() > 4), "{events:?}");
    std::fs::remove_file(filler).unwrap();
    lab.engine.prompt(&root, "and now?".into(), &key()).await.unwrap();
    lab.rest(&root).await;
}

#[tokio::test]
async fn output_is_not_kept_any_more_when_the_disk_has_little_room_and_its_task_says_so() {
    let test = "full::output_is_not_kept_any_more_when_the_disk_has_little_room_and_its_task_says_so";
    let Some(disk) = small_disk(test, 72) else { return };
    let lab = Lab::on(&disk, Config::default()).await;
    let command = "head -c 20000000 /dev/zero | tr '\\0' x";
    lab.script(
        "root",
        vec![vec![call("bash", json!({ "command": command, "run_in_background": true }))], vec![say("started")]],
    );
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let free = env::free(&disk).unwrap();
    assert!(free > DISK_RESERVE - 1024 * 1024, "{free} bytes are left");
    let task = lab.tasks().await.pop().unwrap();
    let why = "less than 64 MiB are free on the disk";
    assert_eq!(
        (task.status, task.detail.unwrap()),
        (TaskStatus::Completed, format!("exit 0; not all of its output was kept: {why}"))
    );
    let mut at = 0;
    let end = loop {
        let slice = lab.engine.output(&task.id, at, 1 << 20).await.unwrap();
        if slice.dropped > 0 {
            break slice;
        }
        at = slice.next;
    };
    assert_eq!(end.text, format!("\n[{} bytes of output were not kept: {why}.]\n", 20_000_000 - at));
}
