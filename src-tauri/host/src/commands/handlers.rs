//! What each command does: checks its arguments, calls the engine, shapes the answer.

mod secrets;

use super::types::*;
use crate::host::Host;
use coppice_engine::engine::{Deletion, Opening, Page, Target, Undo, Undoing};
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Receipt, Recorded};
use coppice_engine::view::{Sent, SessionView, Tokens};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

pub use secrets::*;

type Answer<T> = Result<T, Failed>;

/// The longest key a client may mint, in bytes.
const MAX_KEY: usize = 200;
/// How long `wait` waits when it is not told, and at most.
const WAIT: Duration = Duration::from_secs(30);
const MAX_WAIT: Duration = Duration::from_secs(600);
/// How long `shutdown` may take when it is not told, and at most.
pub const SHUTDOWN: Duration = Duration::from_secs(10);
const MAX_SHUTDOWN: Duration = Duration::from_secs(60);
/// How long a window that is being opened is waited for.
const OPENING: Duration = Duration::from_secs(20);
/// How much of an output is read at once, in bytes.
const OUTPUT: usize = 64 * 1024;
const MAX_OUTPUT: usize = 1024 * 1024;
/// How many events a page is made of, or how many are told at once.
const EVENTS: usize = 200;
const MAX_EVENTS: usize = 2000;

fn key(key: &str) -> Answer<&str> {
    match key.len() {
        1..=MAX_KEY => Ok(key),
        _ => Err(Failed::bad_request(format!("The argument `key` does not fit: it must have 1 to {MAX_KEY} bytes."))),
    }
}

fn limit(asked: Option<usize>, usual: usize, most: usize) -> usize {
    asked.unwrap_or(usual).clamp(1, most)
}

pub async fn open(host: &Host, args: OpenArgs) -> Answer<Opened> {
    let cwd = PathBuf::from(&args.cwd);
    if !cwd.is_absolute() {
        return Err(Failed::bad_request("The argument `cwd` does not fit: it must be an absolute path."));
    }
    let opening = Opening {
        cwd,
        model: args.model,
        mode: args.mode.unwrap_or_default(),
        title: args.title,
        limits: args.limits.unwrap_or_default(),
    };
    Ok(Opened { session: host.engine.open_session(opening, key(&args.key)?).await? })
}

pub async fn prompt(host: &Host, args: PromptArgs) -> Answer<Prompted> {
    Ok(Prompted { n: host.engine.prompt(&args.session, args.text, key(&args.key)?).await? })
}

pub async fn send(host: &Host, args: SendArgs) -> Answer<Sent> {
    Ok(host.engine.send(&args.child, args.text, args.expect, key(&args.key)?).await?)
}

pub async fn stop(host: &Host, args: StopArgs) -> Answer<Receipt> {
    let target = match (args.what, args.id) {
        (StopWhat::Everything, None) => Target::Everything,
        (StopWhat::Everything, Some(_)) => {
            return Err(Failed::bad_request("The argument `id` does not fit: `everything` takes none."));
        }
        (_, None) => return Err(Failed::bad_request("The argument `id` is missing: say what to stop.")),
        (StopWhat::Turn, Some(id)) => Target::Turn(id.into()),
        (StopWhat::Branch, Some(id)) => Target::Branch(id.into()),
        (StopWhat::Task, Some(id)) => Target::Task(id.into()),
    };
    Ok(host.engine.stop(target, args.reason, args.preview.unwrap_or(false), key(&args.key)?).await?)
}

pub async fn tree(host: &Host, args: TreeArgs) -> Answer<Tree> {
    // What is read of a store that was taken away would show as running what is ended.
    host.engine.check_held()?;
    let (sessions, tasks) = host.engine.tree(args.root.as_ref()).await?;
    Ok(Tree { sessions, tasks })
}

pub async fn tasks(host: &Host, args: TasksArgs) -> Answer<Tasks> {
    host.engine.check_held()?;
    Ok(Tasks { tasks: host.engine.tasks(args.owner.as_ref()).await? })
}

pub async fn output(host: &Host, args: OutputArgs) -> Answer<Output> {
    let slice = host.engine.output(&args.task, args.offset.unwrap_or(0), limit(args.limit, OUTPUT, MAX_OUTPUT)).await?;
    Ok(Output { text: slice.text, next: slice.next, size: slice.size, done: slice.done })
}

pub async fn wait(host: &Host, args: WaitArgs) -> Answer<Waited> {
    let timeout = args.timeout_ms.map_or(WAIT, Duration::from_millis).min(MAX_WAIT);
    match (args.task, args.session) {
        (Some(task), None) => Ok(Waited::Task(host.engine.wait_task(&task, timeout).await?)),
        (None, Some(session)) => Ok(Waited::Session(Box::new(host.engine.wait_session(&session, timeout).await?))),
        _ => Err(Failed::bad_request("The arguments do not fit: give exactly one of `task` and `session`.")),
    }
}

pub async fn page(host: &Host, args: PageArgs) -> Answer<Page> {
    if args.before.is_some() && args.after.is_some() {
        return Err(Failed::bad_request("The arguments do not fit: give at most one of `before` and `after`."));
    }
    Ok(host.engine.page(&args.session, args.before, args.after, limit(args.limit, EVENTS, MAX_EVENTS)).await?)
}

pub async fn events(host: &Host, args: EventsArgs) -> Answer<Events> {
    let events =
        host.engine.events(&args.session, args.after.unwrap_or(0), limit(args.limit, EVENTS, MAX_EVENTS)).await?;
    Ok(Events { events: events.into_iter().map(event).collect::<Answer<_>>()? })
}

fn event(recorded: Recorded) -> Answer<EventView> {
    let Recorded { n, at, event, .. } = recorded;
    let (kind, v) = (event.kind().to_owned(), event.version());
    let body = match event {
        Event::Unknown { body, .. } => body,
        known => {
            let mut body = super::write(&known)?;
            if let Value::Object(fields) = &mut body {
                fields.shift_remove("kind");
            }
            body
        }
    };
    Ok(EventView { n, at, kind, v, body })
}

pub async fn subscribe(host: &Host, args: SubscribeArgs) -> Answer<Subscribed> {
    let Some(stream) = &host.stream else {
        return Err(Failed::bad_request("This way in has nowhere to push frames to. The window uses `watch`."));
    };
    Ok(Subscribed { seq: stream.follow((&host.engine, &host.scope, &host.status), args.session, args.after).await? })
}

pub async fn usage(host: &Host, args: SessionArgs) -> Answer<Usage> {
    let (own, branch) = host.engine.usage(&args.session).await?;
    let session = host.engine.session(&args.session).await?;
    let (sessions, _) = host.engine.tree(Some(&session.root)).await?;
    let cost = branch_cost(&session, &sessions);
    let spent = |tokens: Tokens, cost| Spent { tokens, cost };
    Ok(Usage { own: spent(own, session.cost), branch: spent(branch, cost) })
}

/// What a session and all below it cost; none when a part of it cannot be told. `tree` is oldest first, so that a
/// parent comes before its children.
fn branch_cost(top: &SessionView, tree: &[SessionView]) -> Option<f64> {
    let mut branch = vec![&top.id];
    let mut sum = top.cost?;
    for session in tree {
        if session.parent.as_ref().is_some_and(|parent| branch.contains(&parent)) {
            branch.push(&session.id);
            sum += session.cost?;
        }
    }
    Some(sum)
}

pub async fn models(host: &Host, _: Nothing) -> Answer<Models> {
    Ok(Models { models: host.engine.models().await? })
}

pub async fn limits(host: &Host, args: LimitsArgs) -> Answer<LimitsView> {
    let (limits, spent) = match &args.session {
        Some(session) => host.engine.tree_limits(session).await?,
        None => (host.engine.limits().clone(), Vec::new()),
    };
    Ok(LimitsView { limits, spent, notices: host.engine.config().notices.clone() })
}

pub async fn set_limits(host: &Host, args: SetLimitsArgs) -> Answer<Nothing> {
    host.engine.set_limits(&args.session, args.limits, key(&args.key)?).await?;
    Ok(Nothing {})
}

pub async fn asks(host: &Host, args: AsksArgs) -> Answer<Asks> {
    host.engine.check_held()?;
    Ok(Asks { asks: host.engine.asks(args.all.unwrap_or(false)).await? })
}

pub async fn answer(host: &Host, args: AnswerArgs) -> Answer<Answered> {
    let ask = host.engine.answer(&args.ask, args.decision, args.note, key(&args.key)?).await?;
    Ok(Answered { ask })
}

pub async fn set_mode(host: &Host, args: SetModeArgs) -> Answer<Nothing> {
    host.engine.set_mode(&args.session, args.mode, key(&args.key)?).await?;
    Ok(Nothing {})
}

pub async fn allowances(host: &Host, _: Nothing) -> Answer<Allowances> {
    Ok(Allowances { allowances: host.engine.allowances().await? })
}

pub async fn disallow(host: &Host, args: DisallowArgs) -> Answer<Nothing> {
    host.engine.disallow(&args.ask, key(&args.key)?).await?;
    Ok(Nothing {})
}

pub async fn about(host: &Host, _: Nothing) -> Answer<About> {
    Ok(About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        data: host.engine.data().display().to_string(),
        config: host.config.display().to_string(),
        cwd: host.cwd.display().to_string(),
        // As the frames tell it: what keeps the store comes first.
        status: host.engine.trouble().or_else(|| host.status.line()),
    })
}

pub async fn archive(host: &Host, args: ArchiveArgs) -> Answer<Receipt> {
    let (archived, stop) = (args.archived.unwrap_or(true), args.stop.unwrap_or(false));
    Ok(host.engine.archive(&args.session, archived, stop, key(&args.key)?).await?)
}

pub async fn delete(host: &Host, args: DeleteArgs) -> Answer<Deleted> {
    let key = key(&args.key)?;
    let Deletion { receipt, sessions, messages } = if args.preview.unwrap_or(false) {
        host.engine.deletion(&args.session).await?
    } else {
        host.engine.delete(&args.session, args.stop.unwrap_or(false), key).await?
    };
    Ok(Deleted { receipt, sessions, messages })
}

pub async fn undo(host: &Host, args: UndoArgs) -> Answer<Undoing> {
    let key = key(&args.key)?;
    let UndoArgs { session, n, call, branch, preview, .. } = args;
    let branch = branch.unwrap_or(false);
    if branch && (n.is_some() || call.is_some()) {
        return Err(Failed::bad_request("The arguments do not fit: with `branch` there is neither `n` nor `call`."));
    }
    Ok(host.engine.undo(Undo { session, branch, n, call }, preview.unwrap_or(false), key).await?)
}

pub async fn rename(host: &Host, args: RenameArgs) -> Answer<Nothing> {
    host.engine.rename(&args.session, args.title, key(&args.key)?).await?;
    Ok(Nothing {})
}

pub async fn raise(host: &Host, args: RaiseArgs) -> Answer<Nothing> {
    match host.window_within(OPENING).await {
        Some(window) => {
            window.raise(args.session, args.ask);
            Ok(Nothing {})
        }
        None => Err(Failed {
            code: Code::Conflict,
            message: format!(
                "Process {} works on this data folder in a terminal and has no window. It can be opened when that has ended.",
                std::process::id()
            ),
        }),
    }
}

pub async fn shutdown(host: &Host, args: ShutdownArgs) -> Answer<Receipt> {
    let deadline = args.deadline_ms.map_or(SHUTDOWN, Duration::from_millis).min(MAX_SHUTDOWN);
    let receipt = host.engine.shutdown(deadline).await;
    host.leaving.cancel();
    Ok(receipt?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Window;
    use coppice_engine::Engine;
    use coppice_engine::config::Config;
    use coppice_engine::id::{AskId, SessionId};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn session(id: &str, parent: Option<&str>, cost: Option<f64>) -> SessionView {
        SessionView { parent: parent.map(Into::into), cost, ..crate::board::tests::session(id) }
    }

    #[test]
    fn a_branch_costs_what_all_in_it_cost_and_nothing_beside_it() {
        let tree = [
            session("root", None, Some(1.0)),
            session("a", Some("root"), Some(2.0)),
            session("b", Some("root"), Some(4.0)),
            session("a1", Some("a"), Some(8.0)),
        ];
        assert_eq!(branch_cost(&tree[1], &tree), Some(10.0));
        assert_eq!(branch_cost(&tree[0], &tree), Some(15.0));
    }

    #[test]
    fn a_branch_with_an_unknown_cost_has_no_sum() {
        let tree = [session("root", None, Some(1.0)), session("a", Some("root"), None)];
        assert_eq!(branch_cost(&tree[0], &tree), None);
    }

    #[test]
    fn a_key_is_neither_empty_nor_endless() {
        assert!(key("k").is_ok());
        assert!(key("").is_err());
        assert!(key(&"k".repeat(MAX_KEY + 1)).is_err());
    }

    struct Counting(Arc<AtomicU32>);

    impl Window for Counting {
        fn raise(&self, _: Option<SessionId>, _: Option<AskId>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_start_that_comes_while_the_window_opens_raises_it_when_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Config::default()).await.unwrap();
        let host = Host::new(engine, dir.path().join("config.toml"), dir.path().to_owned());
        let again = || raise(&host, RaiseArgs { session: None, ask: None });
        assert_eq!(again().await.err().map(|failed| failed.code), Some(Code::Conflict), "it opens no window");
        host.opens_window();
        let raised = Arc::new(AtomicU32::new(0));
        let opened = async { host.has_window(Box::new(Counting(raised.clone()))) };
        let (first, ()) = tokio::join!(again(), opened);
        assert_eq!((first.is_ok(), raised.load(Ordering::Relaxed)), (true, 1));
        host.leave().await.unwrap();
    }
}
