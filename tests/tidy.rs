//! What can be a rule of the house is a test: layers, who may do what, sizes, words, formatting.

use crate::support::project;
use std::collections::{BTreeMap, BTreeSet};
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
    &["tool", "llm", "permission", "asks", "budget", "turn", "transcript", "prompt"],
    &["task"],
    &["log", "scope", "process", "output", "files", "config", "keys"],
    &["view"],
    &["event"],
    &["id", "env", "error", "text", "action", "mask"],
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

#[cfg(target_os = "linux")]
#[test]
fn the_terminal_loads_nothing_that_draws() {
    let needed = crate::support::output("readelf", &["-d", env!("CARGO_BIN_EXE_coppice")]);
    let window = crate::support::output("readelf", &["-d", env!("CARGO_BIN_EXE_coppice-window")]);
    assert!(window.out.contains("webkit2gtk"), "{}", window.out);
    for library in ["gtk", "webkit", "gdk", "glib"] {
        assert!(!needed.out.contains(library), "{}", needed.out);
    }
}

#[test]
fn the_engine_names_no_window() {
    let engine: Vec<_> = product().into_iter().filter(|(path, _)| path.starts_with("src-tauri/engine/")).collect();
    only(&[], &engine, &["tauri", "gtk", "notify_rust"], "the engine knows nothing of the desktop");
    // The keyring answers over it.
    only(&["src-tauri/engine/src/keys/system.rs"], &engine, &["zbus"], "the engine knows nothing of the desktop");
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
        &["process_wrap", "kill_process"],
        "only process.rs makes and ends processes",
    );
    // The terminal's program becomes the window's.
    only(
        &[&place("process.rs"), &place("process"), "src-tauri/src/bin/coppice.rs"],
        &all,
        &["Command::new"],
        "only process.rs makes processes",
    );
    only(&[&place("scope.rs")], &all, &["tokio::spawn", "spawn_blocking", "thread::spawn"], "only scope.rs spawns");
    only(
        &[&place("env.rs")],
        &all,
        &["SystemTime::now", "now_v7", "std::env::var"],
        "only env.rs reads clock and environment",
    );
    only(
        &["src-tauri/src/main.rs", &place("process/guard.rs")],
        &all,
        &["unsafe "],
        "unsafe code stands in two places, each a call that has no other way",
    );
}

#[test]
fn the_page_has_one_way_out_and_one_place_for_markup() {
    let mut page = files("ui/src", ".ts");
    page.extend(files("ui/src", ".svelte"));
    page.retain(|(path, _)| !path.ends_with(".test.ts") && !path.contains("/test/"));
    only(&["ui/src/host.ts"], &page, &["@tauri-apps/", "__TAURI"], "the page talks only through host.ts");
    let markdown = "ui/src/transcript/Markdown.svelte";
    only(&["ui/src/transcript/sanitize.ts"], &page, &["dompurify", "DOMPurify"], "one file knows what is harmless");
    only(&[markdown], &page, &["/sanitize\""], "markup is made in one component");
    assert!(
        page.iter().any(|(path, text)| path == markdown && text.contains("from \"./sanitize\"")),
        "and it is harmless"
    );
    only(
        &[],
        &page,
        &["{@html", "innerHTML", "insertAdjacentHTML", "document.write", "eval("],
        "markup goes through one component",
    );
}

/// Fails with a circle, if what names what makes one.
#[track_caller]
fn no_circle(names: &BTreeMap<String, BTreeSet<String>>) {
    fn walk<'a>(
        at: &'a str,
        names: &'a BTreeMap<String, BTreeSet<String>>,
        trail: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) {
        if let Some(begin) = trail.iter().position(|before| *before == at) {
            panic!("these name each other in a circle: {} -> {at}", trail[begin..].join(" -> "));
        }
        if done.insert(at) {
            trail.push(at);
            for next in names.get(at).into_iter().flatten() {
                walk(next, names, trail, done);
            }
            trail.pop();
        }
    }
    let (mut trail, mut done) = (Vec::new(), BTreeSet::new());
    for at in names.keys() {
        walk(at, names, &mut trail, &mut done);
    }
}

/// What each module of a crate names. A module is its file and its folder.
fn modules(below: &str) -> BTreeMap<String, BTreeSet<String>> {
    let word =
        |text: &str| text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in product().iter().filter(|(path, _)| path.starts_with(below) && !seam(path)) {
        let module = word(&path[below.len()..]);
        let used = text.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
            // `use crate::{a, b::c}`: what stands first in each part.
            Some(group) => group.split('}').next().unwrap().split(',').map(word).collect(),
            None => vec![word(rest)],
        });
        names.entry(module.clone()).or_default().extend(used.filter(|used| *used != module && !used.is_empty()));
    }
    // The top of the crate puts everything together, and nobody names it.
    names.remove("lib");
    names.remove("main");
    let known: BTreeSet<String> = names.keys().cloned().collect();
    for used in names.values_mut() {
        used.retain(|used| known.contains(used));
    }
    names
}

#[test]
fn no_two_modules_name_each_other_in_a_circle() {
    no_circle(&modules("src-tauri/src/"));
    no_circle(&modules("src-tauri/host/src/"));
    no_circle(&modules("src-tauri/engine/src/"));
}

#[test]
fn no_two_files_of_the_page_import_each_other_in_a_circle() {
    let mut page = files("ui/src", ".ts");
    page.extend(files("ui/src", ".svelte"));
    let known: BTreeSet<String> = page.iter().map(|(path, _)| path.clone()).collect();
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in &page {
        let folder: Vec<&str> = path.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect();
        // A type is gone when the page runs: only what is loaded can load in a circle.
        let loaded = text.split(';').filter(|part| !part.trim_start().starts_with("import type"));
        let from = loaded.flat_map(|part| part.split("from \"").skip(1).chain(part.split("import \"").skip(1)));
        for target in from.filter_map(|rest| rest.split('"').next()).filter(|target| target.starts_with('.')) {
            let mut at = folder.clone();
            for step in target.split('/') {
                match step {
                    "." => {}
                    ".." => drop(at.pop()),
                    step => at.push(step),
                }
            }
            let at = at.join("/");
            let found = [at.clone(), format!("{at}.ts")].into_iter().find(|at| known.contains(at));
            names.entry(path.clone()).or_default().extend(found);
        }
    }
    assert!(names.len() > 20, "the imports are found");
    no_circle(&names);
}

#[test]
#[should_panic(expected = "a -> b -> a")]
fn a_circle_is_found() {
    let names = [("a", "b"), ("b", "a"), ("c", "a")];
    no_circle(&names.into_iter().map(|(from, to)| (from.to_owned(), BTreeSet::from([to.to_owned()]))).collect());
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
    // The system's own name for what a process takes for the whole disk.
    all.iter_mut().for_each(|(_, text)| *text = text.replace("/proc/self/root/", ""));
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
