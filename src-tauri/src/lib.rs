//! The desktop shell of Coppice: the window, the tray and the notifications, around a host.

pub mod page;
pub mod place;
pub mod quit;
pub mod shell;
pub mod teller;
pub mod tray;
pub mod window;

use coppice_engine::id::{AskId, SessionId};
use coppice_host::host::{Host, Window};
use shell::Shell;
use std::time::Duration;
use tauri::menu::{Menu, MenuItem};
use tauri::{AppHandle, Manager, RunEvent, WindowEvent, Wry};
use tauri_plugin_dialog::{DialogExt, MessageDialogKind};

/// How long the page may take to appear before the person is told what helps.
const PAGE: Duration = Duration::from_secs(20);

/// The window's application around an engine that is open.
pub fn app(host: Host) -> tauri::Builder<Wry> {
    let (shell, queue) = Shell::new();
    let mut queue = Some(queue);
    tauri::Builder::default()
        .plugin(tauri_plugin_dialog::init())
        .manage(host)
        .manage(shell)
        .manage(page::Page::default())
        .manage(quit::Question::default())
        .invoke_handler(tauri::generate_handler![
            window::call,
            window::watch,
            window::pick_folder,
            window::open_link,
            window::quit
        ])
        .setup(move |app| {
            let app = app.handle();
            let host = app.state::<Host>().inner().clone();
            window::open(app, host.engine.data())?;
            host.has_window(Box::new(Raise(app.clone())));
            quit::end_loop_when_leaving(app);
            quit::tell_unconfirmed(&host);
            if cfg!(target_os = "macos") {
                ask_from_the_menu(app)?;
            }
            if let Some(queue) = queue.take() {
                shell::start(app, queue, quit::from_tray);
            }
            tell_if_blank(app);
            Ok(())
        })
        .on_window_event(|window, event| match event {
            WindowEvent::CloseRequested { api, .. } => {
                api.prevent_close();
                quit::close(window.app_handle());
            }
            WindowEvent::Focused(focused) => window.state::<page::Page>().focus(*focused),
            WindowEvent::Destroyed => window.state::<page::Page>().gone(),
            _ => {}
        })
}

/// Runs the window until the process is to end. On the main thread.
pub fn run(host: Host) -> tauri::Result<()> {
    let app = app(host).build(tauri::generate_context!())?;
    app.run_return(|app, event| {
        // Only `quit` ends the loop: it exits with a code. Whoever else wants it to end is asked first.
        if let RunEvent::ExitRequested { api, code: None, .. } = event {
            api.prevent_exit();
            quit::ask(app);
        }
    });
    Ok(())
}

/// The application menu's own Quit ends the process without a question: one that asks takes its place.
fn ask_from_the_menu(app: &AppHandle) -> tauri::Result<()> {
    const ID: &str = "application-quit";
    let menu = Menu::default(app)?;
    if let Some(application) = menu.items()?.first().and_then(|item| item.as_submenu().cloned()) {
        let last = application.items()?.len().saturating_sub(1);
        application.remove_at(last)?;
        application.append(&MenuItem::with_id(app, ID, "Quit Coppice", true, Some("CmdOrCtrl+Q"))?)?;
    }
    app.set_menu(menu)?;
    app.on_menu_event(|app, event| {
        if event.id().as_ref() == ID {
            quit::ask(app);
        }
    });
    Ok(())
}

struct Raise(AppHandle);

impl Window for Raise {
    fn raise(&self, session: Option<SessionId>, ask: Option<AskId>) {
        page::raise(&self.0, session, ask);
    }
}

/// Some graphics drivers leave the page blank. Whoever sees nothing is told what helps.
fn tell_if_blank(app: &AppHandle) {
    let (app, host) = (app.clone(), app.state::<Host>().inner().clone());
    host.clone().scope.spawn(async move {
        let waited = tokio::select! {
            () = host.leaving.cancelled() => false,
            () = tokio::time::sleep(PAGE) => true,
        };
        if waited && !app.state::<page::Page>().is_there() {
            let message = "The window's page has not appeared. If it stays blank, start Coppice with \
                           WEBKIT_DISABLE_DMABUF_RENDERER=1. Work goes on meanwhile: `coppice tree` shows it.";
            tracing::error!("{message}");
            app.dialog().message(message).title("Coppice").kind(MessageDialogKind::Warning).show(|_| {});
        }
    });
}
