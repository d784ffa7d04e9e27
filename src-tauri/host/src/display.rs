//! What the desktop offers: a display, a renderer that works, a notification service, a tray.

use crate::desktop;
use coppice_engine::env::var;
use std::path::Path;

/// Told when there is nowhere to open a window.
pub const NO_DISPLAY: &str =
    "There is no display to open a window on. In a terminal, `coppice run \"what to do\"` does the same work.";

/// The variable by which WebKitGTK is told to draw without DMA buffers.
#[cfg(target_os = "linux")]
pub const DMABUF: &str = "WEBKIT_DISABLE_DMABUF_RENDERER";

/// Whether the environment names a display.
#[cfg(target_os = "linux")]
pub fn is_named() -> bool {
    var("DISPLAY").is_some() || var("WAYLAND_DISPLAY").is_some()
}

/// Whether WebKitGTK is to draw without DMA buffers, because the window would stay blank with them: there is no
/// graphics device, or drawing is done in software. What the person set decides before that.
#[cfg(target_os = "linux")]
pub fn without_dmabuf() -> bool {
    var(DMABUF).is_none() && (!has_render_node(Path::new("/dev/dri")) || var("LIBGL_ALWAYS_SOFTWARE").is_some())
}

#[cfg(target_os = "linux")]
fn has_render_node(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("renderD")))
    })
}

/// What there is, for `coppice doctor`: what was looked at, and what was found.
pub async fn findings() -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    #[cfg(target_os = "linux")]
    {
        found.push((
            "display",
            match (var("WAYLAND_DISPLAY"), var("DISPLAY")) {
                (Some(wayland), _) => format!("Wayland, {wayland}"),
                (None, Some(x11)) => format!("X11, {x11}"),
                (None, None) => NO_DISPLAY.to_owned(),
            },
        ));
        found.push((
            "drawing",
            if without_dmabuf() { "in software, without DMA buffers" } else { "as WebKitGTK chooses" }.to_owned(),
        ));
    }
    let service = desktop::NoticeService::find().await;
    found.push((
        "notifications",
        match &service {
            Ok(service) => service.name().to_owned(),
            Err(error) => format!("{} ({error})", desktop::NO_SERVICE),
        },
    ));
    found.push(("tray", way_back(desktop::has_tray().await, service.is_ok()).to_owned()));
    found
}

/// How a window that was closed while work runs comes back.
fn way_back(tray: bool, service: bool) -> &'static str {
    match (tray, service) {
        (true, _) => "yes",
        (false, true) => {
            "none: while work runs, closing minimises the window; where it is not wanted, a notification brings it back"
        }
        (false, false) => "none: while work runs, the window is minimised and never hidden",
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_render_node_means_software() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_render_node(&dir.path().join("absent")));
        std::fs::write(dir.path().join("card0"), "").unwrap();
        assert!(!has_render_node(dir.path()));
        std::fs::write(dir.path().join("renderD128"), "").unwrap();
        assert!(has_render_node(dir.path()));
    }
}
