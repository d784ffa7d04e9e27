//! What can be a rule of the house is a test: layers, who may do what, sizes, words, formatting.

use crate::support::project;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// All files below a folder whose name ends like this, without what is built or fetched.
fn files(below: &str, ending: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, ending: &str, out: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                if !matches!(name.as_str(), "node_modules" | "dist" | "target" | "gen" | ".git" | ".cache") {
                    walk(&path, ending, out);
                }
            } else if name.ends_with(ending) {
                out.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&project().join(below), ending, &mut paths);
    paths.sort();
    let named = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.strip_prefix(project()).unwrap().to_string_lossy().replace('\\', "/"), text)
    };
    paths.into_iter().map(named).collect()
}

/// The code of a Rust file: without comments, and without the unit tests at its end.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let text = text.split("\n#[cfg(all(test").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// Fails with every file that holds one of these words though it is not among those that may.
#[track_caller]
fn only(may: &[&str], files: &[(String, String)], words: &[&str], rule: &str) {
    let broken: Vec<String> = files
        .iter()
        .filter(|(path, _)| !may.iter().any(|may| path == may || path.starts_with(&format!("{may}/"))))
        .flat_map(|(path, text)| {
            let found = words.iter().filter(|word| text.contains(**word));
            found.map(move |word| format!("{path}: {word}"))
        })
        .collect();
    assert!(broken.is_empty(), "{rule}\n{}", broken.join("\n"));
}

fn product() -> Vec<(String, String)> {
    let mut all = files("src-tauri", ".rs");
    all.retain(|(path, _)| !path.contains("/tests/"));
    all.into_iter().map(|(path, text)| (path, code(&text))).collect()
}

#[test]
fn the_code_is_formatted() {
    let done = crate::support::output("cargo", &["fmt", "--all", "--check"]);
    assert_eq!(done.code, Some(0), "run `cargo fmt --all`\n{}", done.out);
}

/// The engine's layers, the upper ones first. A module names only those of its own layer and below.
const LAYERS: &[&[&str]] = &[
    &["engine"],
    &["control"],
    &["subagent"],
    &["agent", "live"],
    &["tool", "llm", "permission", "budget", "turn", "transcript", "prompt"],
    &["task"],
    &["log", "scope", "process", "output", "config"],
    &["view"],
    &["event"],
    &["id", "env", "error", "text"],
];

#[test]
fn a_module_names_only_those_below_it() {
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let mut broken = BTreeSet::new();
    for (path, text) in product().iter().filter(|(path, _)| path.starts_with("src-tauri/engine/src/")) {
        let module = path["src-tauri/engine/src/".len()..].split(['/', '.']).next().unwrap();
        if module == "lib" {
            continue;
        }
        let Some(own) = layer(module) else {
            broken.insert(format!("{module} has no layer: give it one"));
            continue;
        };
        for used in text
            .split("crate::")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
        {
            match layer(used) {
                Some(used_layer) if used_layer < own && !seam(path) => {
                    broken.insert(format!("{path} names {used}, which is above it"));
                }
                _ => {}
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Concrete tools hang off their seam and reach up through a handle that they are given.
fn seam(path: &str) -> bool {
    path.starts_with("src-tauri/engine/src/tool/")
}

#[test]
fn the_engine_names_no_window() {
    let engine: Vec<_> = product().into_iter().filter(|(path, _)| path.starts_with("src-tauri/engine/")).collect();
    only(&[], &engine, &["tauri", "gtk", "notify_rust", "zbus"], "the engine knows nothing of the desktop");
}

#[test]
fn each_power_has_one_place() {
    let all = product();
    let engine = "src-tauri/engine/src";
    let place = |name: &str| format!("{engine}/{name}");
    only(&[&place("log.rs"), &place("log")], &all, &["rusqlite", "SELECT ", "INSERT INTO"], "only the log knows SQL");
    only(
        &[&place("process.rs"), &place("process")],
        &all,
        &["Command::new", "process_wrap", "kill_process"],
        "only process.rs makes and ends processes",
    );
    only(&[&place("scope.rs")], &all, &["tokio::spawn", "spawn_blocking", "thread::spawn"], "only scope.rs spawns");
    only(
        &[&place("env.rs")],
        &all,
        &["SystemTime::now", "now_v7", "std::env::var"],
        "only env.rs reads clock and environment",
    );
    only(&["src-tauri/src/main.rs"], &all, &["unsafe "], "unsafe code stands in one place");
}

#[test]
fn the_page_has_one_way_out_and_one_place_for_markup() {
    let mut page = files("ui/src", ".ts");
    page.extend(files("ui/src", ".svelte"));
    page.retain(|(path, _)| !path.ends_with(".test.ts") && !path.contains("/test/"));
    only(&["ui/src/host.ts"], &page, &["@tauri-apps/", "__TAURI"], "the page talks only through host.ts");
    let raw: Vec<&String> = page.iter().filter(|(_, text)| text.contains("{@html")).map(|(path, _)| path).collect();
    assert!(raw.len() <= 1, "raw markup stands in one component: {raw:?}");
    only(
        &[],
        &page,
        &["innerHTML", "insertAdjacentHTML", "document.write", "eval("],
        "markup goes through one component",
    );
}

#[test]
fn every_command_of_the_window_is_async() {
    for (path, text) in files("src-tauri/src", ".rs") {
        for after in text.split("#[tauri::command]\n").skip(1) {
            let signature = after.lines().next().unwrap_or_default();
            assert!(signature.starts_with("pub async fn "), "{path}: {signature}");
        }
    }
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> =
        [files("src-tauri", ".rs"), files("ui/src", ".ts"), files("ui/src", ".svelte"), files("tests", ".rs")]
            .concat()
            .iter()
            .filter(|(path, text)| {
                let most = if path.contains("tests/") { 900 } else { 700 };
                path != "ui/src/wire.ts" && text.lines().count() > most
            })
            .map(|(path, text)| format!("{path}: {} lines", text.lines().count()))
            .collect();
    assert!(long.is_empty(), "split what has grown too long: {long:#?}");
}

#[test]
fn the_code_is_finished_and_speaks_of_itself() {
    // Cut in two, so that this file does not find itself.
    let words = [
        concat!("TO", "DO:"),
        concat!("FIX", "ME:"),
        concat!("unimple", "mented!"),
        concat!("to", "do!("),
        concat!("dbg", "!("),
    ];
    let mut all = product();
    all.extend(files("ui/src", ".ts"));
    all.extend(files("ui/src", ".svelte"));
    only(&[], &all, &words, "nothing is left to do");
    let mut all = files("", ".rs");
    all.extend(files("", ".md"));
    all.extend(files("ui/src", ".ts"));
    only(&[], &all, &[concat!("/wo", "rk/"), concat!("/ro", "ot/")], "no path of one machine");
    let modules: Vec<_> = files("src-tauri", "mod.rs").into_iter().chain(files("tests", "mod.rs")).collect();
    assert!(modules.is_empty(), "foo.rs and foo/, no mod.rs");
}

#[test]
fn the_top_of_the_project_stays_short() {
    let allowed = [
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        "Makefile",
        "README.md",
        "clippy.toml",
        "icons",
        "rustfmt.toml",
        "src-tauri",
        "tauri.conf.json",
        "tests",
        "ui",
        "gen",
        "target",
    ];
    let found: Vec<String> = std::fs::read_dir(project())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !allowed.contains(&name.as_str()))
        .collect();
    assert!(found.is_empty(), "{found:?} stands at the top");
}
