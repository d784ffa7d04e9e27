//! The window's types are those of Rust.

use std::path::Path;

#[test]
fn the_windows_types_are_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui/src/wire.ts");
    let fresh = coppice_host::commands::typescript();
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if written != fresh {
        std::fs::write(&path, fresh).unwrap();
        panic!("ui/src/wire.ts was stale and has been made anew: commit it");
    }
}
