//! Time, size and other processes.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn writes_wait_for_another_process_and_keep_their_order() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let other = Connection::open(log.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = Instant::now();
    let writes = join_all((0..20).map(|n| {
        let log = log.clone();
        async move { put(&log, "s", vec![message(&n.to_string())]).await }
    }));
    tokio::pin!(writes);
    // Longer than SQLite itself waits.
    assert!(tokio::time::timeout(Duration::from_millis(2500), &mut writes).await.is_err());
    assert_eq!((log.since(0, 100).await.unwrap().len(), *log.watch().borrow()), (1, 1));
    other.execute_batch("COMMIT").unwrap();
    let told = tokio::time::timeout(SOON, writes).await.unwrap();
    assert!(held.elapsed() >= Duration::from_millis(2500));
    let told: Vec<_> = told.into_iter().map(|told| told.unwrap().remove(0)).collect();
    let expected: Vec<_> = (0..20).map(|n| (n + 2, message(&n.to_string()))).collect();
    assert_eq!(told.iter().map(|event| (event.n, event.event.clone())).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_write_in_turns_never_meet_a_lock() {
    let dir = tempdir().unwrap();
    let logs = [open(&dir), open(&dir)];
    let write = async |log: &Log, session: &str| {
        put(log, session, vec![opened(None, session)]).await.unwrap();
        for n in 0..200 {
            put(log, session, vec![message(&n.to_string())]).await.unwrap();
        }
    };
    tokio::join!(write(&logs[0], "a"), write(&logs[1], "b"));
    let all = logs[0].since(0, 1000).await.unwrap();
    assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=402).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_page_of_a_long_session_is_read_at_once() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let mut n = 1;
    for _ in 0..40 {
        let mut events = Vec::new();
        for _ in 0..500 {
            events.extend([
                step(1),
                answered(1, vec![call("1.0", "bash", r#"{"command":"true"}"#)]),
                finished("1.0", n + 2),
                Event::MessageAdmitted { message: 1, step: 1, route: Route::Steered },
                step(2),
            ]);
            n += 5;
        }
        put(&log, "s", events).await.unwrap();
    }
    for (after, before, newest) in [(0, i64::MAX, true), (50_000, i64::MAX, false), (0, 50_000, true)] {
        let since = Instant::now();
        let page = log.row_events(&id("s"), after, before, 200, newest).await.unwrap();
        let took = since.elapsed();
        assert_eq!(page.len(), 200);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_write_ahead_log_stays_bounded_under_readers_and_shrinks_when_idle() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let wal = dir.path().join(format!("{}-wal", Log::FILE));
    let size = || fs::metadata(&wal).map_or(0, |metadata| metadata.len());
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (log, stopped) = (log.clone(), stopped.clone());
            async move {
                while !*stopped.borrow() {
                    log.since(0, 50).await.unwrap();
                }
            }
        })
        .collect();
    let writing = async {
        let text = "x".repeat(64 * 1024);
        let mut most = 0;
        for _ in 0..60 {
            put(&log, "s", vec![message(&text); 8]).await.unwrap();
            most = most.max(size());
        }
        stop.send_replace(true);
        most
    };
    let (most, _) = tokio::join!(writing, join_all(readers));
    assert!(most < 20 * 1024 * 1024, "{most}");
    let idle = async {
        while size() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, idle).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn many_questions_at_once_open_few_files() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let handles = || {
        let links =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| link == log.path()).count()
    };
    let root = id("root");
    for _ in 0..20 {
        for told in join_all((0..50).map(|_| log.events(&root, 0, 100))).await {
            told.unwrap();
        }
    }
    assert!(handles() <= 5, "{}", handles());
}
