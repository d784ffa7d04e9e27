//! The one window: how it is made, and what its page may ask for.

use crate::page::{MAIN, Page, ToPage};
use crate::place;
use crate::quit;
use coppice_engine::error::Code;
use coppice_engine::id::SessionId;
use coppice_host::commands::{self, Failed};
use coppice_host::host::Host;
use coppice_host::push::{Push, Quit};
use coppice_host::stream::Stream;
use serde_json::Value;
use std::sync::Arc;
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
const ENDED_AGAIN: &str = "The process that shows the window's page has ended twice within seconds. Nothing is lost: work \
                           goes on, and `coppice tree` shows it.";

/// Loads the page anew when the process that shows it has ended. One that ends again at once is loaded when the person
/// wants it, so that nothing goes round in a circle.
#[cfg(target_os = "linux")]
fn mend(window: &WebviewWindow) -> tauri::Result<()> {
    use std::time::{Duration, Instant};
    use webkit2gtk::WebViewExt;
    const AGAIN: Duration = Duration::from_secs(5);
    let app = window.app_handle().clone();
    window.with_webview(move |webview| {
        let before = std::cell::Cell::new(None::<Instant>);
        webview.inner().connect_web_process_terminated(move |view, reason| {
            let now = Instant::now();
            let again = before.replace(Some(now)).is_some_and(|before| now.duration_since(before) < AGAIN);
            tracing::error!(?reason, again, "the process that shows the page has ended");
            if !again {
                return view.reload();
            }
            let reloading = app.clone();
            app.dialog()
                .message(ENDED_AGAIN)
                .title("Coppice")
                .kind(MessageDialogKind::Error)
                .buttons(MessageDialogButtons::OkCustom("Load it again".to_owned()))
                .show(move |_| {
                    if let Some(Err(error)) = reloading.get_webview_window(MAIN).map(|window| window.reload()) {
                        tracing::error!(%error, "the page could not be loaded again");
                    }
                });
        });
    })
}

/// Does one command of the table.
#[tauri::command]
pub async fn call(host: State<'_, Host>, cmd: String, args: Value) -> Result<Value, Failed> {
    commands::dispatch(&host, &cmd, args).await
}

/// Subscribes the page, in place of its subscription before. Answers the position it starts from.
#[tauri::command]
pub async fn watch(
    window: WebviewWindow,
    host: State<'_, Host>,
    page: State<'_, Page>,
    session: Option<SessionId>,
    after: Option<i64>,
    channel: Channel<Push>,
) -> Result<i64, Failed> {
    let number = page.number();
    let stream = Arc::new(Stream::new(ToPage(channel, window)));
    let seq = stream.follow((&host.engine, &host.scope, &host.status), session.clone(), after).await?;
    let Some(waiting) = page.take(number, stream.clone(), session) else { return Ok(seq) };
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
