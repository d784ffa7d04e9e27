//! Where the window was, remembered in the data folder, and whether it can be seen there.

use serde::{Deserialize, Serialize};
use std::path::Path;
use tauri::WebviewWindow;

/// The smallest window, in logical pixels.
pub const MIN_WIDTH: f64 = 480.0;
/// The smallest window, in logical pixels.
pub const MIN_HEIGHT: f64 = 400.0;
const WIDTH: f64 = 1280.0;
const HEIGHT: f64 = 800.0;
/// How much of the window's top must be on a screen, so that it can be taken hold of.
const GRIP: f64 = 80.0;
const FILE: &str = "window.json";

/// A size, and a position where there is one worth going back to. Logical pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The inner width.
    pub width: f64,
    /// The inner height.
    pub height: f64,
    /// The left and top edge.
    pub position: Option<(f64, f64)>,
    /// Whether it filled the screen.
    pub maximized: bool,
}

/// A screen. Logical pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Area {
    /// The area of a monitor.
    pub fn of(monitor: &tauri::Monitor) -> Self {
        let scale = monitor.scale_factor();
        let (at, size) = (monitor.position().to_logical::<f64>(scale), monitor.size().to_logical::<f64>(scale));
        Self { x: at.x, y: at.y, width: size.width, height: size.height }
    }
}

/// Where the window is to be. A file that is absent, damaged or of nowhere gives the usual place.
pub fn load(data: &Path, screens: &[Area]) -> Bounds {
    let usual = Bounds { width: WIDTH, height: HEIGHT, position: None, maximized: false };
    let kept = std::fs::read(data.join(FILE)).ok().and_then(|text| serde_json::from_slice::<Bounds>(&text).ok());
    fit(kept.unwrap_or(usual), screens)
}

fn fit(place: Bounds, screens: &[Area]) -> Bounds {
    let position = place.position.filter(|(x, y)| {
        screens.iter().any(|screen| {
            let seen = (x + place.width).min(screen.x + screen.width) - x.max(screen.x);
            seen >= GRIP && *y >= screen.y && *y <= screen.y + screen.height - GRIP
        })
    });
    let bound = |size: f64, usual: f64, least: f64, most: f64| {
        let size = if size.is_finite() && size >= least { size } else { usual };
        size.min(most.max(least))
    };
    let most = |of: fn(&Area) -> f64| screens.iter().map(of).fold(0.0, f64::max);
    let (widest, highest) = (most(|screen| screen.width), most(|screen| screen.height));
    Bounds {
        width: bound(place.width, WIDTH, MIN_WIDTH, if widest > 0.0 { widest } else { WIDTH }),
        height: bound(place.height, HEIGHT, MIN_HEIGHT, if highest > 0.0 { highest } else { HEIGHT }),
        position,
        maximized: place.maximized,
    }
}

/// Remembers where the window is.
pub fn save(data: &Path, window: &WebviewWindow) {
    let saved = of(window).map_err(std::io::Error::other).and_then(|place| {
        let text = serde_json::to_vec(&place)?;
        let fresh = data.join(format!("{FILE}.new"));
        std::fs::write(&fresh, text)?;
        std::fs::rename(&fresh, data.join(FILE))
    });
    if let Err(error) = saved {
        tracing::warn!(%error, "the window's place could not be kept");
    }
}

fn of(window: &WebviewWindow) -> tauri::Result<Bounds> {
    let scale = window.scale_factor()?;
    let size = window.inner_size()?.to_logical::<f64>(scale);
    let at = window.outer_position()?.to_logical::<f64>(scale);
    Ok(Bounds {
        width: size.width,
        height: size.height,
        position: Some((at.x, at.y)),
        maximized: window.is_maximized()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Area = Area { x: 0.0, y: 0.0, width: 1920.0, height: 1080.0 };
    const SMALL: Area = Area { x: 0.0, y: 0.0, width: 1024.0, height: 768.0 };

    fn place(text: &str, screens: &[Area]) -> Bounds {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), text).unwrap();
        load(dir.path(), screens)
    }

    fn usual(width: f64, height: f64) -> Bounds {
        Bounds { width, height, position: None, maximized: false }
    }

    #[test]
    fn a_window_comes_back_where_it_was() {
        let kept = Bounds { width: 900.0, height: 700.0, position: Some((30.0, 40.0)), maximized: false };
        assert_eq!(place(&serde_json::to_string(&kept).unwrap(), &[SCREEN]), kept);
    }

    #[test]
    fn a_place_that_nobody_can_see_is_not_gone_back_to() {
        let nowhere = r#"{"width": 1, "height": 1, "position": [9000, -4000], "maximized": false}"#;
        assert_eq!(place(nowhere, &[SMALL]), usual(1024.0, 768.0));
        let above = r#"{"width": 900, "height": 700, "position": [0, -50], "maximized": false}"#;
        assert_eq!(place(above, &[SCREEN]), usual(900.0, 700.0));
    }

    #[test]
    fn a_damaged_file_and_no_screen_give_the_usual_place() {
        assert_eq!(place("garbage", &[SCREEN]), usual(WIDTH, HEIGHT));
        assert_eq!(place(r#"{"x": 9000}"#, &[]), usual(WIDTH, HEIGHT));
    }
}
