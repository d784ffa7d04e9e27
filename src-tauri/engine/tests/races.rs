//! What may meet in one instant, met in many orders: each race is run in seeded disorders, in which anything may come
//! between any two steps. `COPPICE_SEEDS` tells how many orders of each are tried, `COPPICE_SEED` the first.

use crate::lab::{Lab, call, delegate, gate, key, results, say, user_texts, within};
use crate::laws::laws;
use coppice_engine::config::Config;
use coppice_engine::engine::Target;
use coppice_engine::env;
use coppice_engine::error::{Code, Error};
use coppice_engine::event::{Event, Receipt, TaskStatus, TurnEnd};
use coppice_engine::id::SessionId;
use coppice_engine::scope::Disorder;
use coppice_engine::view::Sent;
use serde_json::json;
use std::time::Duration;

/// How many orders of each race are tried.
const SEEDS: u64 = 8;

/// A laboratory in a disorder, with a root and its child `one`, which is in its turn until `end` is opened.
struct Race {
    lab: Lab,
    disorder: Disorder,
    root: SessionId,
    child: SessionId,
}

/// Tells which order it was, when a test fails in it.
struct Told(u64);

impl Drop for Told {
    #[expect(clippy::print_stderr, reason = "a failure is told to who runs the tests")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("once more with COPPICE_SEEDS=1 COPPICE_SEED={}", self.0);
        }
    }
}

/// The numbers of the orders that are tried.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let told = |name: &str, otherwise: u64| env::var(name).map_or(otherwise, |value| value.parse().unwrap());
    let first = told("COPPICE_SEED", 0);
    first..first + told("COPPICE_SEEDS", count)
}

/// Runs a race in many orders. After each, all comes to rest, no law is broken, and a place can be taken again. There is
/// no process in a race: time is not the real one, and passes only when nothing else does.
fn in_every_order(race: impl AsyncFn(&Race)) {
    for seed in seeds(SEEDS) {
        let _told = Told(seed);
        let disorder = Disorder::seeded(seed);
        let run = async {
            let mut config = Config::default();
            // Every second time there is one place only.
            config.limits.live_tasks_per_owner = if seed % 2 == 0 { 10 } else { 1 };
            let lab = Lab::with(config).await;
            lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
            lab.script("one", vec![vec![gate("end"), say("done")]]);
            let root = lab.prompted("go").await;
            lab.reached("end").await;
            let child = lab.child("one").await.id;
            let run = Race { lab, disorder: disorder.clone(), root, child };
            race(&run).await;
            run.end().await;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(disorder.clone().run(run));
    }
}

impl Race {
    /// Lets two things happen at one instant.
    async fn both<A, B>(&self, one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
        let run = async { tokio::join!(self.disorder.clone().run(one), self.disorder.clone().run(other)) };
        within(run).await
    }

    async fn open(&self, name: &str) {
        self.lab.open_gate(name);
    }

    async fn idle(&self) {
        self.lab.open_gate("end");
        self.lab.rest(&self.root).await;
    }

    async fn send(&self, text: &str) -> Result<Sent, Error> {
        self.lab.engine.send(&self.child, text.to_owned(), None, &key()).await
    }

    async fn stop(&self, target: Target) -> Receipt {
        let receipt = self.lab.engine.stop(target, None, false, &key()).await.unwrap();
        assert_eq!(receipt.unconfirmed, Vec::<String>::new());
        receipt
    }

    /// How often the child has accepted, and how often it has read, a message.
    async fn arrived(&self, text: &str) -> (usize, usize) {
        let events = self.lab.events(&self.child).await;
        let accepted = events.iter().filter(
            |recorded| matches!(&recorded.event, Event::MessageAccepted { text: accepted, .. } if accepted == text),
        );
        let read = self.lab.requests(&self.child).pop().map(|last| user_texts(&last).join("\n"));
        (accepted.count(), read.unwrap_or_default().matches(text).count())
    }

    /// Checks that a message that was sent was read once, and one that was not, never.
    async fn read_if_sent(&self, text: &str, sent: &Result<Sent, Error>) {
        let times = usize::from(sent.is_ok());
        assert_eq!(self.arrived(text).await, (times, times), "{sent:?}");
    }

    async fn end(self) {
        let Self { lab, root, .. } = &self;
        if lab.engine.session(root).await.is_ok() {
            lab.rest(root).await;
            lab.script("root", vec![vec![delegate("last", "work")], vec![say("well")]]);
            lab.replay(root);
            for text in ["and in the end?", "is that all?"] {
                lab.engine.prompt(root, text.into(), &key()).await.unwrap();
                lab.rest(root).await;
            }
            let (taken, told) = results(&lab.requests(root).pop().unwrap()).pop().unwrap();
            assert!(taken, "a place is given back: {told}");
            let owed = crate::laws::owed(&lab.engine.since(0, 100_000).await.unwrap(), root);
            assert_eq!(owed, [], "who speaks with the person is told what it is owed");
            let broken = laws(&lab.engine.since(0, 100_000).await.unwrap(), &lab.tasks().await);
            assert!(broken.is_empty(), "{broken:#?}");
        }
        lab.engine.shutdown(crate::lab::PATIENCE).await.unwrap();
    }
}

#[test]
fn a_message_and_the_end_of_the_turn_it_is_for() {
    in_every_order(async |race| {
        let (_, sent) = race.both(race.open("end"), race.send("<m>")).await;
        race.lab.rest(&race.root).await;
        race.read_if_sent("<m>", &sent).await;
        assert!(sent.is_ok() || sent.is_err_and(|error| error.code() == Code::NotDelivered));
    });
}

#[test]
fn two_messages_that_wake_a_child() {
    in_every_order(async |race| {
        race.idle().await;
        let (one, two) = race.both(race.send("<1>"), race.send("<2>")).await;
        race.lab.rest(&race.root).await;
        race.read_if_sent("<1>", &one).await;
        race.read_if_sent("<2>", &two).await;
        assert!(one.is_ok() || two.is_ok());
    });
}

#[test]
fn a_message_of_the_person_and_one_of_the_parent() {
    in_every_order(async |race| {
        race.idle().await;
        let send = call("send_message", json!({ "child_id": race.child.as_str(), "message": "<parent>" }));
        race.lab.script("root", vec![vec![send], vec![say("sent")]]);
        race.lab.replay(&race.root);
        let tell = async { race.lab.engine.prompt(&race.root, "tell it".into(), &key()).await.unwrap() };
        let (_, person) = race.both(tell, race.send("<person>")).await;
        race.lab.rest(&race.root).await;
        race.read_if_sent("<person>", &person).await;
        let (ok, told) = results(&race.lab.requests(&race.root).pop().unwrap()).pop().unwrap();
        let times = usize::from(ok);
        assert_eq!(race.arrived("<parent>").await, (times, times), "{told}");
        assert!(ok || person.is_ok(), "{told} {person:?}");
    });
}

#[test]
fn a_kill_and_the_end_of_what_it_kills() {
    in_every_order(async |race| {
        let task = race.lab.child("one").await.task.unwrap();
        let (_, receipt) = race.both(race.open("end"), race.stop(Target::Task(task.clone()))).await;
        race.lab.rest(&race.root).await;
        let ended = race.lab.engine.wait_task(&task, Duration::ZERO).await.unwrap();
        assert!([TaskStatus::Killed, TaskStatus::Completed].contains(&ended.status), "{ended:?}");
        assert_eq!(receipt.ended.len(), usize::from(ended.status == TaskStatus::Killed), "{receipt:?} {ended:?}");
    });
}

#[test]
fn a_wait_and_the_end_that_it_waits_for() {
    in_every_order(async |race| {
        let task = race.lab.child("one").await.task.unwrap();
        let wait = race.lab.engine.wait_task(&task, Duration::from_secs(20));
        let (_, ended) = race.both(race.open("end"), wait).await;
        assert_eq!(ended.unwrap().status, TaskStatus::Completed);
    });
}

#[test]
fn a_notice_and_the_wait_of_its_owner() {
    in_every_order(async |race| {
        race.lab.until(&race.root, |event| matches!(event, Event::TurnEnded { .. })).await;
        let wait = call("task_output", json!({ "task_id": "subagent-1", "wait": true }));
        race.lab.script("root", vec![vec![wait], vec![say("well")]]);
        race.lab.replay(&race.root);
        let ask = async { race.lab.engine.prompt(&race.root, "and?".into(), &key()).await.unwrap() };
        race.both(race.open("end"), ask).await;
        race.lab.rest(&race.root).await;
        let events = race.lab.events(&race.root).await;
        let count = |of: fn(&Event) -> bool| events.iter().filter(|recorded| of(&recorded.event)).count();
        let told = count(|event| matches!(event, Event::NoticeAdmitted { .. }));
        let learned = count(|event| matches!(event, Event::TaskLearned { .. }));
        // Who was told may read it all the same; that the other way round is not is one of the laws.
        assert!(told <= 1 && told + learned >= 1, "{told} {learned}");
    });
}

#[test]
fn a_message_that_wakes_a_child_and_a_stop_of_all_of_it() {
    for by in ["branch", "above", "everything"] {
        in_every_order(async |race| {
            race.idle().await;
            let target = match by {
                "branch" => Target::Branch(race.child.clone()),
                "above" => Target::Branch(race.root.clone()),
                _ => Target::Everything,
            };
            let (sent, _) = race.both(race.send("<m>"), race.stop(target)).await;
            race.lab.rest(&race.root).await;
            let (accepted, read) = race.arrived("<m>").await;
            assert!(accepted == usize::from(sent.is_ok()) && read <= accepted, "{sent:?} {accepted} {read}");
            // A person can always speak to it again.
            race.send("<again>").await.unwrap();
            race.lab.rest(&race.root).await;
            assert_eq!(race.arrived("<again>").await, (1, 1));
        });
    }
}

#[test]
fn a_message_and_the_end_of_the_parent() {
    in_every_order(async |race| {
        let (sent, _) = race.both(race.send("<m>"), race.stop(Target::Branch(race.root.clone()))).await;
        race.lab.rest(&race.root).await;
        let (accepted, read) = race.arrived("<m>").await;
        assert!(accepted == usize::from(sent.is_ok()) && read <= accepted, "{sent:?} {accepted} {read}");
    });
}

#[test]
fn a_delegation_and_a_stop_of_who_delegates() {
    in_every_order(async |race| {
        race.idle().await;
        let start = |label: &str| delegate(label, "work");
        race.lab.script("root", vec![vec![start("a"), start("b"), start("c")], vec![gate("never")]]);
        for label in ["a", "b", "c"] {
            race.lab.script(label, vec![vec![gate("never")]]);
        }
        race.lab.replay(&race.root);
        race.lab.engine.prompt(&race.root, "start them".into(), &key()).await.unwrap();
        let (first, _) = race.both(race.stop(Target::Branch(race.root.clone())), std::future::ready(())).await;
        let view = race.lab.engine.session(&race.root).await.unwrap();
        assert!(view.live_below == 0 && !view.state.is_live(), "{view:?} {first:?}");
        let (sessions, tasks) = race.lab.engine.tree(None).await.unwrap();
        assert!(tasks.iter().all(|task| task.status.is_terminal()), "{tasks:?}");
        for session in sessions.iter().filter(|session| session.depth > 0 && session.title != "one") {
            let told = first.ended.iter().filter(|item| item.id == session.id.as_str()).count();
            assert_eq!(told, 1, "the receipt names what it ended: {first:?} {session:?}");
        }
    });
}

#[test]
fn two_stops_of_the_same_branch() {
    in_every_order(async |race| {
        let stop = || race.stop(Target::Branch(race.root.clone()));
        let (one, two) = race.both(stop(), stop()).await;
        let mut ended: Vec<String> = one.ended.iter().chain(&two.ended).map(|item| item.id.clone()).collect();
        ended.sort();
        let mut expected = vec![race.child.to_string()];
        let turns = race.lab.turn_ends(&race.root).await;
        if turns.last() == Some(&TurnEnd::Stopped) {
            expected.push(race.root.to_string());
        }
        expected.sort();
        assert_eq!(ended, expected, "each end is in one receipt: {one:?} {two:?}");
    });
}

#[test]
fn a_message_and_the_deletion_of_the_child() {
    in_every_order(async |race| {
        let delete = async { race.lab.engine.delete(&race.root, true, &key()).await.unwrap() };
        let (sent, _) = race.both(race.send("<m>"), delete).await;
        drop(sent);
        let (sessions, tasks) = race.lab.engine.tree(None).await.unwrap();
        assert_eq!((sessions, tasks), (vec![], vec![]));
    });
}
