//! Embeds the page and the icons, and checks the window's configuration.

use std::path::Path;

/// What a window shows that was built without its page.
const NOT_BUILT: &str = "<!doctype html><title>Coppice</title><p>The page was not built. Run `make run`.</p>\n";

fn main() {
    let page = Path::new("ui/dist/index.html");
    if !page.exists()
        && let Err(error) = std::fs::create_dir_all("ui/dist").and_then(|()| std::fs::write(page, NOT_BUILT))
    {
        panic!("ui/dist could not be written: {error}");
    }
    let attributes = tauri_build::Attributes::new().capabilities_path_pattern("./src-tauri/capabilities/**/*");
    if let Err(error) = tauri_build::try_build(attributes) {
        panic!("the window's build step failed: {error:#}");
    }
}
