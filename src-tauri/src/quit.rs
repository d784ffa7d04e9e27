//! Closing, quitting, and the one way out: `host.leaving` fires, the window goes, the event loop ends, and then the
//! process shuts everything down in order.

use crate::commands::{Push, Quit};
use crate::host::Host;
use crate::notify;
use crate::shell::Shell;
use crate::window::{MAIN, Page};
use crate::{place, window};
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Manager};

/// What was asked of the person.
#[derive(Default)]
pub struct Asked {
    /// The page was asked what is to become of running work, and has not answered.
    quitting: AtomicBool,
    /// A notification said that closing does not end work.
    told: AtomicBool,
}

/// What the window's close button does: hides the window while work runs, else quits. The window itself never closes.
pub fn close(app: &AppHandle) {
    let shell = app.state::<Shell>();
    let run = shell.counts().run;
    if run == 0 {
        leave(app);
        return;
    }
    hide(app);
    if !app.state::<Asked>().told.swap(true, Ordering::Relaxed) {
        shell.say(notify::goes_on(run, shell.has_tray()));
    }
}

/// Takes the window away: into the tray, or to where minimised windows go.
fn hide(app: &AppHandle) {
    let Some(window) = app.get_webview_window(MAIN) else { return };
    place::save(app.state::<Host>().engine.data(), &window);
    let done = if app.state::<Shell>().has_tray() { window.hide() } else { window.minimize() };
    if let Err(error) = done {
        tracing::warn!(%error, "the window could not be hidden");
    }
}

/// Follows a choice of the person. Asking twice in a row means that the page does not answer: then it quits.
pub async fn choose(app: &AppHandle, choice: Quit) {
    let asked = app.state::<Asked>();
    match choice {
        Quit::Ask => {
            let run = app.state::<Shell>().counts().run;
            if run == 0 || asked.quitting.swap(true, Ordering::Relaxed) {
                leave(app);
            } else {
                window::raise(app, None, None);
                app.state::<Page>().tell(Push::Quitting(run)).await;
            }
        }
        Quit::Keep => {
            asked.quitting.store(false, Ordering::Relaxed);
            let hiding = app.clone();
            if let Err(error) = app.run_on_main_thread(move || hide(&hiding)) {
                tracing::warn!(%error, "the window could not be hidden");
            }
        }
        Quit::Stop => leave(app),
        Quit::Cancel => asked.quitting.store(false, Ordering::Relaxed),
    }
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
