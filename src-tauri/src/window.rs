//! The one window: how it is made, and what its page may ask for.

use crate::page::{self, MAIN, Page, ToPage};
use crate::place;
use crate::quit;
use coppice_engine::error::Code;
use coppice_engine::id::SessionId;
use coppice_host::commands::{self, Failed};
use coppice_host::host::Host;
use coppice_host::push::{Push, Quit};
use coppice_host::stream::Stream;
use serde_json::Value;
#[cfg(target_os = "linux")]
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};
use tauri::ipc::Channel;
use tauri::{AppHandle, Manager, State, WebviewUrl, WebviewWindow, WebviewWindowBuilder};
use tauri_plugin_dialog::{DialogExt, MessageDialogButtons, MessageDialogKind};

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
    let window = match place.position {
        Some((x, y)) => builder.position(x, y),
        None => builder.center(),
    }
    .build()?;
    #[cfg(target_os = "linux")]
    mend(&window)?;
    Ok(window)
}

/// Told when the process that shows the page has ended twice within seconds.
#[cfg(target_os = "linux")]
const ENDED_AGAIN: &str = "The process that shows the window's page has ended twice within seconds. Nothing is lost: work \
                           goes on, and `coppice tree` shows it. Starting Coppice again loads the page too.";

/// Loads the page anew when the process that shows it has ended. One that ends again at once is loaded when the person
/// wants it, now or whenever the window is brought to the front, so that nothing goes round in a circle.
#[cfg(target_os = "linux")]
fn mend(window: &WebviewWindow) -> tauri::Result<()> {
    use webkit2gtk::WebViewExt;
    let app = window.app_handle().clone();
    window.with_webview(move |webview| {
        let before = Cell::new(None);
        webview.inner().connect_web_process_terminated(move |view, reason| {
            let again = is_again(&before, Instant::now());
            tracing::error!(?reason, again, "the process that shows the page has ended");
            if !again {
                return view.reload();
            }
            app.state::<Page>().fail();
            let reloading = app.clone();
            app.dialog()
                .message(ENDED_AGAIN)
                .title("Coppice")
                .kind(MessageDialogKind::Error)
                .buttons(MessageDialogButtons::OkCancelCustom("Load it again".to_owned(), "Not now".to_owned()))
                .show(move |load| {
                    if load {
                        page::raise(&reloading, None, None);
                    }
                });
        });
    })
}

/// Whether the process that shows the page ends so soon after the time before that it may go on like this.
#[cfg(target_os = "linux")]
fn is_again(before: &Cell<Option<Instant>>, now: Instant) -> bool {
    const AGAIN: Duration = Duration::from_secs(5);
    before.replace(Some(now)).is_some_and(|before| now.duration_since(before) < AGAIN)
}

/// Does one command of the table.
#[tauri::command]
pub async fn call(host: State<'_, Host>, cmd: String, args: Value) -> Result<Value, Failed> {
    commands::dispatch(&host, &cmd, args).await
}

/// Subscribes the page, in place of its subscription before, and notes what the page shows: this session, or the asks of
/// all trees. Answers the position it starts from.
#[tauri::command]
pub async fn watch(
    window: WebviewWindow,
    host: State<'_, Host>,
    page: State<'_, Page>,
    session: Option<SessionId>,
    after: Option<i64>,
    inbox: Option<bool>,
    channel: Channel<Push>,
) -> Result<i64, Failed> {
    let number = page.number();
    let stream = Arc::new(Stream::new(ToPage(channel, window)));
    let seq = stream.follow((&host.engine, &host.scope, &host.status), session.clone(), after).await?;
    let shown = session.clone();
    let Some(waiting) = page.take(number, stream.clone(), session, inbox.unwrap_or(false)) else { return Ok(seq) };
    stream.begin();
    tracing::info!(session = shown.as_ref().map(SessionId::as_str), "the page follows");
    for push in waiting {
        page.tell(push).await;
    }
    page.looked.notify_one();
    Ok(seq)
}

/// Lets the person choose a folder, beginning at `from`, or at home when there is no such folder; none when they did not.
#[tauri::command]
pub async fn pick_folder(app: AppHandle, from: PathBuf) -> Result<Option<String>, Failed> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut dialog = app.dialog().file().set_title("Choose a folder to work in");
    if let Some(window) = app.get_webview_window(MAIN) {
        dialog = dialog.set_parent(&window);
    }
    let begin = if from.is_absolute() && from.is_dir() { Some(from) } else { app.path().home_dir().ok() };
    if let Some(begin) = begin {
        dialog = dialog.set_directory(begin);
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_page_whose_process_ends_twice_within_seconds_is_not_loaded_unasked() {
        let (before, start) = (Cell::new(None), Instant::now());
        let again = [0, 6, 10, 16].map(|seconds| is_again(&before, start + Duration::from_secs(seconds)));
        assert_eq!(again, [false, false, true, false]);
    }

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
