//! What the steps of the tour are called, by which their results are known again, and how names in them read.

/// What a command says where there is nothing that git keeps.
pub const NO_REPOSITORY: &str = "Not a git repository.";
/// The step that counts files by kind, the one that counts them all, the one that orders them, the one that searches
/// for notes, and the one that asks git for changes.
pub const KINDS: &str = "Files by kind";
pub const IN_ALL: &str = "Files in all";
pub const IN_ORDER: &str = "The largest, in bytes";
pub const EVERYTHING: &str = "All files and folders";
pub const NOTES_LEFT: &str = "TODO, FIXME and XXX";
pub const CHANGES: &str = "Not committed";

/// The path behind a size.
pub fn sized(line: &str) -> Option<&str> {
    let (size, path) = line.trim_start().split_once(' ')?;
    size.bytes().all(|byte| byte.is_ascii_digit()).then(|| path.strip_prefix("./").unwrap_or(path))
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a name is one that texts have.
pub fn is_text(path: &str) -> bool {
    const TEXTS: [&str; 26] = [
        "md", "rst", "adoc", "txt", "rs", "toml", "json", "yaml", "yml", "js", "ts", "svelte", "py", "go", "java", "c",
        "h", "cpp", "rb", "sh", "html", "css", "sql", "xml", "csv", "lock",
    ];
    file_name(path).rsplit_once('.').is_some_and(|(_, kind)| TEXTS.contains(&kind))
}
