//! A report about this machine and this process, to be shown to others: versions, what works and what does not, limits and
//! counts. No key, no word of a session, no name of the person or of a folder below their home.

use crate::display;
use crate::host::Host;
use crate::text;
use coppice_engine::engine::ModelView;
use coppice_engine::env;
use coppice_engine::error::Result;
use coppice_engine::keys::KeyView;
use coppice_engine::process::Support;
use std::collections::BTreeMap;

/// A line of a report: what was looked at, and what was found.
pub fn row(name: &str, found: &str) -> String {
    format!("{name:<15}{}", text::line(found, 1000))
}

/// The report.
pub async fn text(host: &Host) -> Result<String> {
    let engine = &host.engine;
    let mut rows = vec![row(
        "version",
        &format!("{} on {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH),
    )];
    let there = if host.config.exists() { "" } else { " (not there: the defaults hold)" };
    rows.push(row("configuration", &format!("{}{there}", host.config.display())));
    rows.push(row("data folder", &engine.data().display().to_string()));
    if let Some(status) = engine.trouble().or_else(|| host.status.line()) {
        rows.push(row("", &status));
    }
    rows.push(row("confinement", Support::here().sentence()));
    rows.push(row("keyring", &engine.probe_keyring().await.map_or_else(|why| why, |()| "works".to_owned())));
    rows.extend(engine.keys().await.iter().map(|key| row("key", &key_text(key, false))));
    rows.extend(engine.models().await?.iter().map(|model| row("model", &model_text(model))));
    for (name, found) in display::findings().await {
        rows.push(row(name, &found));
    }
    let (sessions, tasks) = engine.tree(None).await?;
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for task in &tasks {
        *states.entry(task.status.word()).or_default() += 1;
    }
    let states: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    rows.push(row("sessions", &sessions.len().to_string()));
    rows.push(row("tasks", &if states.is_empty() { "none".to_owned() } else { states.join(", ") }));
    let limits = serde_json::to_value(&engine.config().limits).unwrap_or_default();
    let limits: Vec<String> =
        limits.as_object().into_iter().flatten().map(|(name, size)| format!("{name} {size}")).collect();
    rows.push(row("limits", &limits.join(", ")));
    Ok(engine.masked(&homeless(&rows.join("\n"), env::path("HOME").as_deref())))
}

/// The text with `~` in the place of the home folder, which holds the name of the person.
pub fn homeless(text: &str, home: Option<&std::path::Path>) -> String {
    match home.map(|home| home.to_string_lossy().into_owned()) {
        Some(home) if home.len() > 1 => text.replace(home.trim_end_matches('/'), "~"),
        _ => text.to_owned(),
    }
}

/// Where a key is, in a line; with its end only when that is asked for.
pub fn key_text(key: &KeyView, ending: bool) -> String {
    let place = match (&key.place, &key.problem) {
        (Some(place), _) => format!("in {}", place.words()),
        (None, Some(problem)) => format!("not found: {problem}"),
        (None, None) => format!("nowhere; `coppice key set {}` keeps one", key.name),
    };
    let end = key.ending.as_deref().filter(|_| ending).map(|end| format!(", ending {end}")).unwrap_or_default();
    format!("{} for {}: {place}{end}", key.name, key.models.join(", "))
}

/// What a model is and whether it works, in a line.
pub fn model_text(model: &ModelView) -> String {
    let default = if model.default { ", the default" } else { "" };
    let at = model.base_url.as_deref().map(|url| format!(" at {}", without_user(url))).unwrap_or_default();
    match &model.problem {
        Some(problem) => format!("{}{at}{default}: {problem}", model.name),
        None => format!("{}{at}{default}: works", model.name),
    }
}

/// An address without the name and password that some put into it, and without its query.
fn without_user(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
            let host = host.rsplit('@').next().unwrap_or_default();
            path.map_or_else(|| format!("{scheme}://{host}"), |path| format!("{scheme}://{host}/{path}"))
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_without_its_secrets() {
        assert_eq!(without_user("http://me:secret@host:1/v1?key=secret"), "http://host:1/v1");
        assert_eq!(without_user("http://host"), "http://host");
        assert_eq!(without_user("https://host/a@b"), "https://host/a@b");
    }

    #[test]
    fn the_home_folder_is_not_named() {
        let home = Some(std::path::Path::new("/home/somebody"));
        assert_eq!(homeless("data /home/somebody/.local", home), "data ~/.local");
        assert_eq!(homeless("data /var", home), "data /var");
    }
}
