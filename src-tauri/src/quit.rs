//! Closing, quitting, and the one way out: `host.leaving` fires, the window goes, the event loop ends, and then the
//! process shuts everything down in order.

use crate::page::{self, MAIN, Page};
use crate::place;
use crate::shell::Shell;
use crate::tray::Deed;
use coppice_engine::engine::Target;
use coppice_engine::env::Env;
use coppice_engine::event::Receipt;
use coppice_host::host::Host;
use coppice_host::notify::{self, Gone};
use coppice_host::push::{Push, Quit};
use coppice_host::status::Topic;
use coppice_host::text;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Manager};
use tauri_plugin_dialog::{DialogExt, MessageDialogButtons, MessageDialogKind};

/// Where what an end could not confirm is kept for the next start, in the data folder.
const UNCONFIRMED: &str = "unconfirmed.txt";

/// What was asked of the person.
#[derive(Default)]
pub struct Question {
    /// The page was asked what is to become of running work, and has not answered.
    page: AtomicBool,
    /// The same question stands in a dialog of the desktop.
    desktop: AtomicBool,
    /// A notification said that closing does not end work.
    told: AtomicBool,
}

/// Who is to be asked before work is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Nobody,
    Page(u32),
    Desktop,
}

impl Question {
    /// Whom to ask while `run` sessions and commands run; none when that is not known. A page that was asked and has
    /// not answered may be hidden or hung, so the second question goes past it.
    fn next(&self, run: Option<u32>, page_is_there: bool) -> Ask {
        match run {
            Some(0) => Ask::Nobody,
            Some(run) if page_is_there && !self.page.swap(true, Ordering::Relaxed) => Ask::Page(run),
            _ => Ask::Desktop,
        }
    }

    /// The page's question is answered, or is out of sight.
    fn over(&self) {
        self.page.store(false, Ordering::Relaxed);
    }
}

/// What the window's close button does: hides the window while work runs, else quits. The window itself never closes.
pub fn close(app: &AppHandle) {
    let shell = app.state::<Shell>();
    let run = shell.counts().map(|counts| counts.run);
    if run == Some(0) {
        leave(app);
        return;
    }
    take_away(app, gone_to(shell.has_tray(), false));
}

/// Where a window goes that leaves work behind it: out of sight only where something shows the way back.
fn gone_to(tray: bool, notification: bool) -> Gone {
    match (tray, notification) {
        (true, _) => Gone::Tray,
        (false, true) => Gone::Hidden,
        (false, false) => Gone::Minimised,
    }
}

/// Takes the window away, and says how it comes back: each time when it is nowhere to be seen, else the first time. A
/// question in it goes with it. On the main thread.
fn take_away(app: &AppHandle, gone: Gone) {
    let (shell, question) = (app.state::<Shell>(), app.state::<Question>());
    question.over();
    let Some(window) = app.get_webview_window(MAIN) else { return };
    place::save(app.state::<Host>().engine.data(), &window);
    let done = match gone {
        Gone::Minimised => window.minimize(),
        Gone::Tray | Gone::Hidden => window.hide(),
    };
    if let Err(error) = done {
        tracing::warn!(%error, "the window could not be hidden");
    }
    // Not every desktop says that a window which is gone has lost the focus.
    app.state::<Page>().focus(false);
    if !question.told.swap(true, Ordering::Relaxed) || gone == Gone::Hidden {
        shell.say(notify::goes_on(shell.counts().map(|counts| counts.run), gone));
    }
}

/// Follows a choice of the person.
pub async fn choose(app: &AppHandle, choice: Quit) {
    let question = app.state::<Question>();
    match choice {
        Quit::Ask => {
            let run = app.state::<Shell>().counts().map(|counts| counts.run);
            match question.next(run, app.state::<Page>().is_there()) {
                Ask::Nobody => leave(app),
                Ask::Page(run) => {
                    page::raise(app, None, None);
                    app.state::<Page>().tell(Push::Quitting(run)).await;
                }
                Ask::Desktop => ask_on_desktop(app),
            }
        }
        Quit::Keep => {
            question.over();
            let shell = app.state::<Shell>();
            let gone = gone_to(shell.has_tray(), app.state::<Page>().can_tell());
            let hiding = app.clone();
            if let Err(error) = app.run_on_main_thread(move || take_away(&hiding, gone)) {
                tracing::warn!(%error, "the window could not be hidden");
            }
        }
        Quit::Stop => leave(app),
        Quit::Cancel => question.over(),
    }
}

/// Asks without the page, once at a time.
fn ask_on_desktop(app: &AppHandle) {
    if app.state::<Question>().desktop.swap(true, Ordering::Relaxed) {
        return;
    }
    let answered = app.clone();
    app.dialog()
        .message("Work may still run. Quitting stops all of it; what was done so far is kept.")
        .title("Quit Coppice")
        .kind(MessageDialogKind::Warning)
        .buttons(MessageDialogButtons::OkCancelCustom("Stop all and quit".to_owned(), "Cancel".to_owned()))
        .show(move |stop| {
            let question = answered.state::<Question>();
            question.desktop.store(false, Ordering::Relaxed);
            question.over();
            if stop {
                leave(&answered);
            }
        });
}

/// Asks to quit, from where nothing can be waited for.
pub fn ask(app: &AppHandle) {
    let (asked, host) = (app.clone(), app.state::<Host>().inner().clone());
    host.scope.spawn(async move { choose(&asked, Quit::Ask).await });
}

/// Does what was chosen in the tray.
pub fn from_tray(app: &AppHandle, deed: Deed) {
    match deed {
        Deed::Open => page::raise(app, None, None),
        Deed::Ask(ask) => {
            let session = app.state::<Shell>().asker(&ask);
            let ask = session.is_some().then_some(ask);
            page::raise(app, session, ask);
        }
        Deed::Stop => stop_everything(app),
        Deed::Quit => ask(app),
    }
}

fn stop_everything(app: &AppHandle) {
    let host = app.state::<Host>().inner().clone();
    let key = format!("tray-{}", Env::system().new_session());
    host.clone().scope.spawn(async move {
        let reason = Some("stopped from the tray".to_owned());
        match host.engine.stop(Target::Everything, reason, false, &key).await {
            Ok(_) => host.status.clear(Topic::Stop),
            Err(error) => {
                tracing::error!(%error, "not everything could be stopped");
                host.status.say(Topic::Stop, error.message());
            }
        }
    });
}

/// Begins the way out.
pub fn leave(app: &AppHandle) {
    app.state::<Host>().leaving.cancel();
}

/// Ends the event loop when the process is to end, whoever asked for it.
pub fn end_loop_when_leaving(app: &AppHandle) {
    let (ending, host) = (app.clone(), app.state::<Host>().inner().clone());
    let leaving = host.leaving.clone();
    host.scope.spawn(async move {
        leaving.cancelled().await;
        let closing = ending.clone();
        let closed = ending.run_on_main_thread(move || {
            if let Some(window) = closing.get_webview_window(MAIN) {
                place::save(closing.state::<Host>().engine.data(), &window);
                if let Err(error) = window.hide() {
                    tracing::debug!(%error, "the window could not be hidden");
                }
            }
        });
        if let Err(error) = closed {
            tracing::debug!(%error, "the window could not be closed");
        }
        ending.exit(0);
    });
}

/// Keeps what the end could not confirm for the next start: the window that would have told it is gone.
pub fn keep_unconfirmed(data: &Path, receipt: &Receipt) -> io::Result<()> {
    if receipt.unconfirmed.is_empty() {
        return Ok(());
    }
    std::fs::write(data.join(UNCONFIRMED), receipt.unconfirmed.join(" "))
}

/// Tells what the end before could not confirm, once.
pub fn tell_unconfirmed(host: &Host) {
    let path = host.engine.data().join(UNCONFIRMED);
    let told = std::fs::read_to_string(&path).and_then(|kept| {
        let kept = text::line(&kept, 400);
        host.status.say(Topic::Unconfirmed, format!("Not confirmed when Coppice last ended: {kept}"));
        std::fs::remove_file(&path)
    });
    match told {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "what the end before could not confirm cannot be read");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_never_stopped_without_an_answer() {
        let question = Question::default();
        assert_eq!(question.next(Some(0), true), Ask::Nobody);
        assert_eq!(question.next(Some(2), false), Ask::Desktop, "no page to ask");
        assert_eq!(question.next(None, true), Ask::Desktop, "what cannot be counted may run");
        assert_eq!(question.next(Some(2), true), Ask::Page(2));
        assert_eq!(question.next(Some(2), true), Ask::Desktop, "the page has not answered");
        question.over();
        assert_eq!(question.next(Some(3), true), Ask::Page(3), "a question that went out of sight is asked again");
    }

    #[test]
    fn a_window_goes_out_of_sight_only_where_something_shows_the_way_back() {
        let gone = [(true, true), (true, false), (false, true), (false, false)].map(|(tray, note)| gone_to(tray, note));
        assert_eq!(gone, [Gone::Tray, Gone::Tray, Gone::Hidden, Gone::Minimised]);
    }

    #[tokio::test]
    async fn what_an_end_could_not_confirm_is_told_at_the_next_start_once() {
        let dir = tempfile::tempdir().unwrap();
        let engine = coppice_engine::Engine::open(dir.path(), Default::default()).await.unwrap();
        let host = Host::new(engine, dir.path().join("config.toml"), dir.path().to_owned());
        let receipt = Receipt { unconfirmed: vec!["Process 7 still lives.".to_owned()], ..Receipt::default() };
        keep_unconfirmed(dir.path(), &Receipt::default()).unwrap();
        tell_unconfirmed(&host);
        assert_eq!(host.status.line(), None);
        keep_unconfirmed(dir.path(), &receipt).unwrap();
        tell_unconfirmed(&host);
        let line = "Not confirmed when Coppice last ended: Process 7 still lives.";
        assert_eq!(host.status.line().as_deref(), Some(line));
        assert!(!dir.path().join(UNCONFIRMED).exists());
        host.leave().await.unwrap();
    }
}
