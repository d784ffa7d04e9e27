//! `coppice-window`: opens the window, and ends the process in one place. It is a program of its own so that the
//! terminal does not load what draws.

use coppice::{quit, run};
use coppice_host::cli::{self, LINGER, told};
use coppice_host::commands::Failed;
use coppice_host::display;
use coppice_host::host::{Host, leave_on_signals};
use coppice_host::single::{Folders, Holder};
use std::process::ExitCode;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let folders = match cli::parse_window() {
        Ok(folders) => folders,
        Err(code) => return code,
    };
    #[cfg(target_os = "linux")]
    {
        if display::without_dmabuf() {
            set_without_dmabuf();
        }
        // What the desktop calls its windows, so that it finds the entry of the menu, and with it the icon, that is theirs.
        gtk::glib::set_prgname(Some("coppice"));
        if !(display::is_named() && gtk::init().is_ok()) {
            return told(display::NO_DISPLAY);
        }
        // What the desktop calls the program where nothing else names it: the title of its icon in the tray.
        gtk::glib::set_application_name("Coppice");
    }
    let runtime = match cli::threads() {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    let code = match window(&runtime, folders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => told(&failed.message),
    };
    runtime.shutdown_timeout(LINGER);
    code
}

/// Opens the window, or raises the one that is there.
fn window(runtime: &Runtime, folders: Folders) -> Result<(), Failed> {
    tauri::async_runtime::set(runtime.handle().clone());
    match runtime.block_on(folders.reach())? {
        Holder::Other(client) => runtime.block_on(client.call("raise", serde_json::json!({}))).map(|_| ()),
        Holder::Us(host) => {
            host.opens_window();
            runtime.block_on(async { leave_on_signals(&host) });
            // The window's callbacks run on this thread and start tasks of the shell.
            let entered = runtime.enter();
            let ran = show(host.clone());
            drop(entered);
            let data = host.engine.data().to_owned();
            if let Some(receipt) = runtime.block_on(host.leave())?
                && let Err(error) = quit::keep_unconfirmed(&data, &receipt)
            {
                tracing::error!(%error, ?receipt.unconfirmed, "what the end could not confirm could not be kept");
            }
            ran
        }
    }
}

fn show(host: Host) -> Result<(), Failed> {
    run(host).map_err(|error| Failed {
        code: coppice_engine::error::Code::Internal,
        message: format!("The window could not be opened ({error}). `coppice run` works in the terminal."),
    })
}

/// Before there is any other thread: tells WebKitGTK how to draw.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the environment is written once, while this is the only thread")]
fn set_without_dmabuf() {
    // SAFETY: `main` calls this before it starts a runtime or a toolkit, so no other thread reads the environment.
    unsafe { std::env::set_var(display::DMABUF, "1") };
}
