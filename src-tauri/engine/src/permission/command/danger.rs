//! What of a command could destroy something or get out of hand, in a sentence for the person who is asked. It only
//! words the question: a command without a word here is asked about all the same.

use super::words::Word;
use rable::{Node, NodeKind};

/// A function that starts itself.
pub const ENDLESS: &str = "It starts itself again and again, until the machine stands still.";
/// A shell or an interpreter at the end of a pipe.
pub const FED: &str = "It runs whatever the command before it prints, unseen.";
/// A shell that is given what is only known when it runs.
pub const COMPUTED: &str = "It runs what is only known when it runs, unseen.";
/// A disk as a file.
pub const RAW: &str = "It writes over a disk or a device, past the files on it.";

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish", "ash"];
const INTERPRETERS: &[&str] = &["python", "python3", "perl", "ruby", "node", "php", "osascript", "source", "."];

/// Programs that run another, which stands among their arguments.
const WRAPPERS: &[&str] = &[
    "env",
    "xargs",
    "nice",
    "ionice",
    "timeout",
    "nohup",
    "time",
    "command",
    "exec",
    "builtin",
    "stdbuf",
    "setsid",
    "chroot",
    "watch",
    "find",
    "fd",
    "parallel",
    "busybox",
    "flock",
    "strace",
    "unshare",
    "systemd-run",
    "ssh",
];

/// Programs that are dangerous with these words among their arguments; one group needs all of its words. A word that
/// begins with one `-` stands for a letter among the short options.
const WITH: &[(&str, &[&str], &str)] = &[
    ("rm", &["-r"], "It deletes folders with everything in them; that cannot be undone."),
    ("rm", &["-R"], "It deletes folders with everything in them; that cannot be undone."),
    ("rm", &["--recursive"], "It deletes folders with everything in them; that cannot be undone."),
    ("rm", &["-f"], "It deletes files without a question; that cannot be undone."),
    ("rm", &["--force"], "It deletes files without a question; that cannot be undone."),
    ("chmod", &["-R"], "It changes who may use everything in a folder."),
    ("chown", &["-R"], "It changes whom everything in a folder belongs to."),
    ("find", &["-delete"], "It deletes every file that it finds; that cannot be undone."),
    ("rsync", &["--delete"], "It deletes files that its source does not have."),
    ("git", &["push", "-f"], "It replaces what others may have pushed."),
    ("git", &["push", "--force"], "It replaces what others may have pushed."),
    ("git", &["push", "--force-with-lease"], "It replaces what was pushed before."),
    ("git", &["push", "--mirror"], "It replaces and deletes branches on the server."),
    ("git", &["push", "--delete"], "It deletes a branch on the server."),
    ("git", &["reset", "--hard"], "It throws away changes that are not committed."),
    ("git", &["clean", "-f"], "It deletes files that git does not know; that cannot be undone."),
    ("git", &["clean", "--force"], "It deletes files that git does not know; that cannot be undone."),
    ("git", &["checkout", "-f"], "It throws away changes that are not committed."),
    ("git", &["checkout", "--"], "It throws away changes that are not committed."),
    ("git", &["checkout", "."], "It throws away changes that are not committed."),
    ("git", &["restore", "."], "It throws away changes that are not committed."),
    ("git", &["branch", "-D"], "It deletes a branch though its commits may be nowhere else."),
    ("git", &["stash", "drop"], "It throws away stashed changes."),
    ("git", &["stash", "clear"], "It throws away all stashed changes."),
    ("git", &["filter-branch"], "It rewrites the whole history."),
    ("git", &["reflog", "expire"], "It throws away the way back to earlier commits."),
    ("docker", &["prune"], "It deletes containers, images or volumes that are not in use."),
    ("docker", &["volume", "rm"], "It deletes stored data."),
    ("kubectl", &["delete"], "It deletes what runs on a cluster."),
    ("terraform", &["destroy"], "It takes down what runs on servers."),
    ("crontab", &["-r"], "It deletes all planned jobs."),
    ("npm", &["publish"], "It publishes a package for everybody; that can hardly be undone."),
    ("cargo", &["publish"], "It publishes a package for everybody; that cannot be undone."),
];

/// Programs that are dangerous whatever their arguments.
const ALONE: &[(&[&str], &str)] = &[
    (&["sudo", "doas", "su", "pkexec", "run0"], "It runs with the rights of the administrator."),
    (&["kill", "pkill", "killall"], "It ends programs that may be at work."),
    (&["dd", "wipefs", "fdisk", "sfdisk", "parted", "blkdiscard"], RAW),
    (&["shred"], "It destroys the content of files; that cannot be undone."),
    (&["shutdown", "reboot", "halt", "poweroff"], "It turns the machine off."),
];

/// What is dangerous about a simple command, its name first.
pub fn of(words: &[Word]) -> Option<&'static str> {
    let wraps = words.first().and_then(Word::known).is_some_and(|name| WRAPPERS.contains(&program(name)));
    let last = if wraps { words.len() } else { 1 };
    (0..last).find_map(|at| named(words.get(at..)?))
}

fn named(words: &[Word]) -> Option<&'static str> {
    let (name, args) = words.split_first()?;
    let name = program(name.known()?);
    if let Some((_, text)) = ALONE.iter().find(|(names, _)| names.contains(&name)) {
        return Some(text);
    }
    if name == "mkfs" || name.starts_with("mkfs.") {
        return Some(RAW);
    }
    let fits = |(whom, marks, _): &&(&str, &[&str], &str)| {
        *whom == name && marks.iter().all(|mark| args.iter().any(|arg| has(arg, mark)))
    };
    if let Some((_, _, text)) = WITH.iter().find(fits) {
        return Some(text);
    }
    let pushes = name == "git" && args.iter().any(|arg| arg.is("push"));
    let forces = pushes && args.iter().any(|arg| arg.lead().starts_with('+'));
    forces.then_some("It replaces what others may have pushed.")
}

fn has(arg: &Word, mark: &str) -> bool {
    let Some(arg) = arg.known() else { return false };
    let letter = mark.strip_prefix('-').filter(|letter| letter.len() == 1 && *letter != "-");
    match (letter, arg.strip_prefix('-')) {
        (Some(letter), Some(cluster)) => !cluster.starts_with('-') && cluster.contains(letter),
        _ => arg == mark,
    }
}

/// The last part of a program's path.
fn program(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Whether the command does what it reads from a pipe.
pub fn obeys_its_input(words: &[Word]) -> bool {
    let known = |word: &Word| word.known().map(program).map(str::to_owned);
    let mut names = words.iter().filter_map(known);
    let Some(name) = names.next() else { return false };
    let obeys = |name: &str| SHELLS.contains(&name) || INTERPRETERS.contains(&name);
    let wraps = WRAPPERS.contains(&&*name) || name == "sudo";
    // What an interpreter is told to run by name does not come from the pipe.
    let told = || {
        let by_name = words.iter().skip(1).any(|word| word.is_no_option() && !word.is("-"));
        by_name && !words.iter().any(|word| word.is("-s"))
    };
    if obeys(&name) { !told() } else { wraps && names.any(|name| obeys(&name)) }
}

/// Whether a shell is given a text or a file that is only known when it runs.
pub fn obeys_what_is_computed(words: &[Word]) -> bool {
    let Some((name, args)) = words.split_first() else { return false };
    let obeys = |name: &str| SHELLS.contains(&program(name)) || matches!(name, "eval" | "source" | ".");
    name.known().is_some_and(obeys) && args.iter().any(|arg| arg.known().is_none())
}

/// The text that a command hands to a shell within.
pub fn shell_text(words: &[Word]) -> Option<String> {
    let known: Vec<&str> = words.iter().map(|word| word.known().unwrap_or_default()).collect();
    let at = known.iter().position(|word| SHELLS.contains(&program(word)) || *word == "eval")?;
    let (name, rest) = (known[at], &known[at + 1..]);
    if at > 0 && !WRAPPERS.contains(&program(known[0])) && program(known[0]) != "sudo" {
        return None;
    }
    if name == "eval" {
        return Some(rest.join(" "));
    }
    let flag = |word: &&str| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    let at = rest.iter().position(flag)?;
    rest[at + 1..].iter().find(|word| !word.starts_with('-')).map(|text| (*text).to_owned())
}

/// Whether a command somewhere in the tree has this name.
pub fn calls(node: &Node, name: &str) -> bool {
    match &node.kind {
        NodeKind::Command { words, .. } => {
            let first = words.first().and_then(|word| super::words::read(word).ok());
            first.is_some_and(|(word, _)| word.is(name))
        }
        NodeKind::Pipeline { commands, .. } => commands.iter().any(|node| calls(node, name)),
        NodeKind::List { items } => items.iter().any(|item| calls(&item.command, name)),
        NodeKind::Subshell { body, .. } | NodeKind::BraceGroup { body, .. } => calls(body, name),
        _ => false,
    }
}

/// Whether a path names a whole disk.
pub fn is_a_disk(path: &str) -> bool {
    ["/dev/sd", "/dev/nvme", "/dev/hd", "/dev/vd", "/dev/mmcblk", "/dev/mem", "/dev/disk"]
        .iter()
        .any(|disk| path.starts_with(disk))
}
