//! The one window: how it is made, what its page may ask for, and how it comes to the front.

use crate::commands::{self, Failed, Push, Quit};
use crate::host::Host;
use crate::place;
use crate::quit;
use crate::stream::{Sink, Stream};
use coppice_engine::error::Code;
use coppice_engine::id::SessionId;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tauri::ipc::Channel;
use tauri::{AppHandle, Manager, State, WebviewUrl, WebviewWindow, WebviewWindowBuilder};
use tauri_plugin_dialog::DialogExt;
use tokio::sync::Notify;

/// The window's label.
pub const MAIN: &str = "main";

/// What the shell knows of the page.
#[derive(Default)]
pub struct Page {
    inner: Mutex<Inner>,
    focused: AtomicBool,
    /// Wakes whoever withdraws notifications of what is looked at.
    pub looked: Notify,
}

#[derive(Default)]
struct Inner {
    stream: Option<Arc<Stream>>,
    open: Option<SessionId>,
    /// What the page is to be told when it is there.
    waiting: Vec<Push>,
}

impl Page {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that the focused window shows; none when it has not the focus.
    pub fn seen(&self) -> Option<SessionId> {
        if self.focused.load(Ordering::Relaxed) { self.lock().open.clone() } else { None }
    }

    /// The window got or lost the focus.
    pub fn focus(&self, focused: bool) {
        self.focused.store(focused, Ordering::Relaxed);
        self.looked.notify_one();
    }

    /// The page is gone, or is loaded anew: its subscription ends.
    pub fn gone(&self) {
        let stream = self.lock().stream.take();
        if let Some(stream) = stream {
            stream.end();
        }
    }

    /// Whether a page listens.
    pub fn is_there(&self) -> bool {
        self.lock().stream.is_some()
    }

    /// Tells the page, now or when it is there.
    pub async fn tell(&self, push: Push) {
        let stream = self.lock().stream.clone();
        let told = match stream {
            Some(stream) => stream.push(push.clone()).await,
            None => false,
        };
        if !told {
            self.lock().waiting.push(push);
        }
    }
}

/// Makes the window, where it last was. On the main thread.
pub fn open(app: &AppHandle, data: &std::path::Path) -> tauri::Result<WebviewWindow> {
    let monitors: Vec<place::Area> = app.available_monitors()?.iter().map(place::Area::of).collect();
    let place = place::load(data, &monitors);
    let builder = WebviewWindowBuilder::new(app, MAIN, WebviewUrl::App("index.html".into()))
        .title("Coppice")
        .inner_size(place.width, place.height)
        .min_inner_size(place::MIN_WIDTH, place::MIN_HEIGHT)
        .maximized(place.maximized)
        .data_directory(data.join("page"))
        .on_navigation(|url| url.scheme() == "tauri" || url.host_str() == Some("tauri.localhost"))
        .on_new_window(|_, _| tauri::webview::NewWindowResponse::Deny)
        .on_page_load(|window, payload| {
            if payload.event() == tauri::webview::PageLoadEvent::Started {
                window.state::<Page>().gone();
            }
        });
    match place.position {
        Some((x, y)) => builder.position(x, y),
        None => builder.center(),
    }
    .build()
}

/// Brings the window to the front, at a session if one is named. `token` is the right to take the focus, where the
/// desktop gave one.
pub fn raise(app: &AppHandle, session: Option<SessionId>, token: Option<String>) {
    let raised = app.clone();
    let shown = app.run_on_main_thread(move || {
        let Some(window) = raised.get_webview_window(MAIN) else { return };
        #[cfg(target_os = "linux")]
        if let (Some(token), Ok(window)) = (&token, window.gtk_window()) {
            gtk::prelude::GtkWindowExt::set_startup_id(&window, token);
        }
        #[cfg(not(target_os = "linux"))]
        drop(token);
        for done in [window.show(), window.unminimize(), window.set_focus()] {
            if let Err(error) = done {
                tracing::warn!(%error, "the window could not be brought to the front");
            }
        }
    });
    if let Err(error) = shown {
        tracing::warn!(%error, "the window could not be brought to the front");
    }
    if let Some(session) = session {
        let app = app.clone();
        let host = app.state::<Host>().inner().clone();
        host.scope.spawn(async move { app.state::<Page>().tell(Push::Show(session)).await });
    }
}

/// Does one command of the table.
#[tauri::command]
pub async fn call(host: State<'_, Host>, cmd: String, args: Value) -> Result<Value, Failed> {
    commands::dispatch(&host, &cmd, args).await
}

/// Subscribes the page, in place of its subscription before. Answers the position it starts from.
#[tauri::command]
pub async fn watch(
    host: State<'_, Host>,
    page: State<'_, Page>,
    session: Option<SessionId>,
    after: Option<i64>,
    channel: Channel<Push>,
) -> Result<i64, Failed> {
    let stream = Arc::new(Stream::new(Sink::Page(channel)));
    let seq = stream.follow(&host, session.clone(), after).await?;
    let (before, waiting) = {
        let mut inner = page.lock();
        inner.open = session;
        (inner.stream.replace(stream.clone()), std::mem::take(&mut inner.waiting))
    };
    if let Some(before) = before {
        before.end();
    }
    stream.begin();
    for push in waiting {
        page.tell(push).await;
    }
    page.looked.notify_one();
    Ok(seq)
}

/// Lets the person choose a folder; none when they did not.
#[tauri::command]
pub async fn pick_folder(app: AppHandle) -> Result<Option<String>, Failed> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut dialog = app.dialog().file().set_title("Choose a folder to work in");
    if let Some(window) = app.get_webview_window(MAIN) {
        dialog = dialog.set_parent(&window);
    }
    dialog.pick_folder(move |folder| {
        // The asker is gone only when the page was loaded anew: then nobody wants to know.
        let _ = sender.send(folder);
    });
    Ok(receiver.await.ok().flatten().map(|folder| folder.to_string()))
}

/// Opens a link in the person's own browser or mail program.
#[tauri::command]
pub async fn open_link(url: String) -> Result<(), Failed> {
    if !is_link(&url) {
        return Err(Failed::bad_request("Only http, https and mailto links are opened."));
    }
    open::that_detached(&url)
        .map_err(|error| Failed { code: Code::Internal, message: format!("The link could not be opened ({error}).") })
}

/// What is to become of running work, and of the process.
#[tauri::command]
pub async fn quit(app: AppHandle, choice: Quit) -> Result<(), Failed> {
    quit::choose(&app, choice).await;
    Ok(())
}

fn is_link(url: &str) -> bool {
    let plain = url.chars().all(|char| !char.is_control() && !char.is_whitespace());
    let named = |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    plain && (named("http://") || named("https://") || named("mailto:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_the_web_and_to_mail_are_opened() {
        for link in ["http://a", "HTTPS://a/b?c#d", "mailto:a@b"] {
            assert!(is_link(link), "{link}");
        }
        for other in
            ["file:///etc/passwd", "javascript:alert(1)", "/bin/sh", "http:", "https://a b", "-x", "é", "smb://a"]
        {
            assert!(!is_link(other), "{other}");
        }
    }
}
