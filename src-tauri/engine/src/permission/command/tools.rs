//! The programs that are known to only read, and what each may be given so that it stays true. A table, to be read and
//! argued about: what is not in it is asked about.

use super::words::Word;
use super::{BINARY_TESTS, Checked, UNARY_TESTS, git};
use crate::action::Rule;
use crate::text::plain;

/// How a program stays one that only reads.
enum Use {
    /// Whatever it is given.
    Any,
    /// With these options and no other.
    Only(Options),
    /// With exactly one of these lists of arguments.
    Exactly(&'static [&'static [&'static str]]),
    /// When this says so.
    When(fn(&[Word]) -> bool),
    /// When what it runs only reads.
    Runs(fn(&[Word]) -> Checked),
}

/// What a program may be given.
#[derive(Clone, Copy)]
pub(super) struct Options {
    /// Letters of short options. `#` stands for a number (`-20`).
    pub short: &'static str,
    /// Letters of short options that take the rest of their word, or the next one, for a value.
    pub valued: &'static str,
    /// Long options, whole. Each may have a value after `=`.
    pub long: &'static [&'static str],
    /// How many words there may be that are no options.
    pub most: usize,
}

const MANY: usize = usize::MAX;

const fn only(short: &'static str, valued: &'static str, long: &'static [&'static str], most: usize) -> Use {
    Use::Only(Options { short, valued, long, most })
}

/// Programs and what they may be given.
const TABLE: &[(&[&str], Use)] = &[
    // They show what they are given, in one way or another; none of them can write a file or run a program.
    (&["cat", "tac", "rev", "head", "tail", "nl", "wc", "cut", "tr", "fold", "paste", "join", "comm"], Use::Any),
    (&["expand", "unexpand", "column", "strings", "od", "hexdump", "seq", "cmp", "diff", "jq"], Use::Any),
    (&["grep", "egrep", "fgrep", "ls", "stat", "du", "df", "basename", "dirname", "realpath", "readlink"], Use::Any),
    (&["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum"], Use::Any),
    (&["uname", "whoami", "id", "groups", "nproc", "arch", "uptime", "free", "ps", "pgrep", "lscpu"], Use::Any),
    (&["echo", "pwd", "true", "false", ":", "sleep", "which", "type", "printenv", "tty"], Use::Any),
    // They read unless they are told to write.
    (&["sort"], only("bcCdfghiMmnRrsuVz", "kt", SORT, MANY)),
    // A second name is where it writes.
    (&["uniq"], only("cdDiuz", "fsw", &["--count", "--repeated", "--unique", "--ignore-case"], 1)),
    (&["xxd"], only("abeEipu", "clsgo", &[], 1)),
    (&["tree"], only("adfhiJlpsDFCnQ#", "LPI", &["--dirsfirst", "--gitignore", "--noreport", "--prune"], MANY)),
    (&["file"], only("bhiLNns0", "", &["--brief", "--mime", "--mime-type", "--mime-encoding"], MANY)),
    (&["rg"], only("abceFgHhiIlLnNopPqsSUuvwx0#", "ABCEefgmMjtT", RG, MANY)),
    (&["fd", "fdfind"], only("agHILlpsi01", "edtE", FD, MANY)),
    (&["find"], Use::Runs(find)),
    (&["sed"], Use::When(sed)),
    (&["git"], Use::When(git::only_reads)),
    (&["date"], Use::When(date)),
    (&["hostname"], Use::Exactly(&[&[], &["-f"], &["-s"], &["-i"], &["-I"]])),
    (&["printf"], Use::When(printf)),
    (&["test", "["], Use::When(test)),
    // They change nothing but the shell that runs the command.
    (&["cd"], only("LP", "", &[], 1)),
    (&["read"], Use::When(read)),
    (&["exit", "break", "continue"], only("", "", &[], 1)),
    (&["set"], Use::Exactly(SET)),
    // They run what they are given.
    (&["command"], Use::Runs(command)),
    (&["timeout"], Use::Runs(timeout)),
    (&["nice"], Use::Runs(nice)),
    (&["xargs"], Use::Runs(xargs)),
    // Asked for their version, and nothing else.
    (&["cargo", "rustc", "rustup", "node", "npm", "npx", "yarn", "pnpm", "deno", "bun"], VERSION),
    (&["python", "python3", "pip", "pip3", "ruby", "perl", "php", "java", "javac", "dotnet", "swift"], VERSION),
    (&["gcc", "g++", "clang", "make", "cmake", "docker", "bash", "tsc"], VERSION),
    (&["go"], Use::Exactly(&[&["version"]])),
];

const VERSION: Use = Use::Exactly(&[&["--version"], &["-V"], &["-v"], &["-version"]]);

/// The programs of the table that run what they are given.
const RUNNERS: &[&str] = &["command", "timeout", "nice", "xargs"];

const SORT: &[&str] =
    &["--reverse", "--numeric-sort", "--unique", "--human-numeric-sort", "--version-sort", "--key", "--stable"];

const RG: &[&str] = &[
    "--files",
    "--files-with-matches",
    "--files-without-match",
    "--count",
    "--count-matches",
    "--hidden",
    "--no-ignore",
    "--glob",
    "--iglob",
    "--type",
    "--type-not",
    "--type-list",
    "--line-number",
    "--no-line-number",
    "--heading",
    "--no-heading",
    "--color",
    "--ignore-case",
    "--smart-case",
    "--fixed-strings",
    "--word-regexp",
    "--multiline",
    "--context",
    "--after-context",
    "--before-context",
    "--max-count",
    "--max-depth",
    "--only-matching",
    "--json",
    "--stats",
    "--sort",
    "--pcre2",
    "--with-filename",
    "--no-filename",
    "--invert-match",
    "--regexp",
    "--vimgrep",
    "--version",
];

const FD: &[&str] =
    &["--hidden", "--no-ignore", "--type", "--extension", "--max-depth", "--glob", "--absolute-path", "--version"];

const SET: &[&[&str]] = &[
    &["-e"],
    &["-u"],
    &["-x"],
    &["-eu"],
    &["-ex"],
    &["-eux"],
    &["-o", "pipefail"],
    &["-eo", "pipefail"],
    &["-euo", "pipefail"],
    &["-euxo", "pipefail"],
    &["-uo", "pipefail"],
    &["+e"],
    &["+x"],
];

/// What `find` may be told; other words that begin with `-` are not among it, as those that delete, write or run.
const FIND: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-type",
    "-xtype",
    "-maxdepth",
    "-mindepth",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-newer",
    "-not",
    "-o",
    "-or",
    "-a",
    "-and",
    "-print",
    "-print0",
    "-printf",
    "-ls",
    "-empty",
    "-prune",
    "-regex",
    "-iregex",
    "-regextype",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-L",
    "-H",
    "-P",
    "-xdev",
    "-mount",
    "-depth",
    "-follow",
    "-readable",
    "-writable",
    "-executable",
    "-links",
    "-samefile",
    "-inum",
    "-lname",
    "-true",
    "-false",
    "-quit",
];

/// Whether the program only reads, given these words.
pub fn check(name: &str, args: &[Word]) -> Checked {
    let shown = plain(name, 60);
    let Some((_, usage)) = TABLE.iter().find(|(names, _)| names.contains(&name)) else {
        let by_path = name.contains('/');
        let what = if by_path { "is a program by its path, which can be any" } else { "is not known to only read" };
        return Err((Rule::Unknown, format!("{shown} {what}.")));
    };
    let reads = match usage {
        Use::Any => true,
        Use::Only(options) => fits(options, args),
        Use::Exactly(lists) => {
            let same =
                |list: &&&[&str]| list.len() == args.len() && list.iter().zip(args).all(|(text, arg)| arg.is(text));
            lists.iter().any(|list| same(&list))
        }
        Use::When(says) => says(args),
        Use::Runs(says) => return says(args),
    };
    if reads { Ok(()) } else { Err(usage_of(name)) }
}

fn usage_of(name: &str) -> (Rule, String) {
    (Rule::Usage, format!("{} can do more than read, and used like this it may.", plain(name, 60)))
}

/// Whether a program only reads whatever it is given, so that words which are not known yet do no harm.
fn reads_anything(name: &Word) -> bool {
    let known = |name: &str| TABLE.iter().any(|(names, usage)| names.contains(&name) && matches!(usage, Use::Any));
    name.known().is_some_and(known)
}

/// Whether all words are options of these, or none. No word is skipped as the value of an option: what a program could
/// take for an option has to be one that it may be given.
pub(super) fn fits(options: &Options, args: &[Word]) -> bool {
    let mut others = 0;
    for arg in args {
        match arg.known() {
            Some("--") => {}
            Some(text) if text.starts_with("--") => {
                let name = text.split_once('=').map_or(text, |(name, _)| name);
                if !options.long.contains(&name) {
                    return false;
                }
            }
            Some(text) if text.len() > 1 && text.starts_with('-') => {
                if !letters_fit(options, &text[1..]) {
                    return false;
                }
            }
            _ if arg.is_no_option() => others += 1,
            _ => return false,
        }
    }
    others <= options.most
}

fn letters_fit(options: &Options, letters: &str) -> bool {
    if letters.bytes().all(|byte| byte.is_ascii_digit()) {
        return options.short.contains('#');
    }
    for letter in letters.chars() {
        if options.valued.contains(letter) {
            return true;
        }
        if letter == '#' || !options.short.contains(letter) {
            return false;
        }
    }
    true
}

fn find(args: &[Word]) -> Checked {
    let number = |text: &str| {
        let text = text.strip_prefix('-').unwrap_or(text);
        text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let fine = match word.known() {
            // The program that is run gets names which begin as the folder does that is looked through.
            Some("-exec") => {
                let runs = words.next().is_some_and(reads_anything);
                let given = words.by_ref().map(Word::known);
                // A word that is not known could be the end of what is run.
                let end = given.take_while(Option::is_some).flatten().any(|word| word == ";" || word == "+");
                runs && end
            }
            Some(text) if text.starts_with('-') && text.len() > 1 => FIND.contains(&text) || number(text),
            _ => word.is_no_option(),
        };
        if !fine {
            return Err(usage_of("find"));
        }
    }
    Ok(())
}

/// `sed` prints lines, or replaces text on its way through; its scripts can write files and run programs, so only the
/// plainest are let through.
fn sed(args: &[Word]) -> bool {
    let flag = |word: &&Word| ["-n", "-E", "-r", "-nE", "-En", "-nr"].iter().any(|flag| word.is(flag));
    let flags = args.iter().take_while(flag).count();
    let Some((script, files)) = args[flags..].split_first() else { return false };
    files.iter().all(Word::is_no_option)
        && script.known().is_some_and(|script| script.split(';').all(prints_or_replaces))
}

fn prints_or_replaces(script: &str) -> bool {
    let script = script.trim_matches(' ');
    let place = |text: &str| text == "$" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(lines) = script.strip_suffix(['p', 'd', 'q']) {
        return match lines.split_once(',') {
            Some((from, to)) => place(from) && place(to),
            None => lines.is_empty() || place(lines) || between_slashes(lines),
        };
    }
    let Some(rest) = script.strip_prefix("s/") else { return false };
    let parts: Vec<&str> = rest.split('/').collect();
    let [from, to, flags] = parts[..] else { return false };
    let text = |text: &str| !text.contains(['\\', '\n']);
    text(from) && text(to) && flags.bytes().all(|byte| b"gpIi0123456789".contains(&byte))
}

fn between_slashes(text: &str) -> bool {
    let inner = text.strip_prefix('/').and_then(|text| text.strip_suffix('/'));
    inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(['/', '\\', '\n']))
}

/// Shows the time in some form; a word that is no form sets it.
fn date(args: &[Word]) -> bool {
    args.iter().all(|word| match word.known() {
        Some(text) => {
            text.starts_with('+') || ["-u", "-R", "-I", "-Is", "-Iseconds", "--utc", "--iso-8601"].contains(&text)
        }
        None => word.is_one() && word.lead().starts_with('+'),
    })
}

/// The form is known, and neither an option nor one that sets a variable.
fn printf(args: &[Word]) -> bool {
    let Some(form) = args.first().and_then(Word::known) else { return false };
    let sets = |text: &str| {
        text.trim_start_matches(|c: char| !c.is_ascii_alphabetic() || "hlLjzt".contains(c)).starts_with('n')
    };
    !form.starts_with('-') && !form.split('%').skip(1).any(sets)
}

/// Looks at files and compares texts; one of its tests computes.
fn test(args: &[Word]) -> bool {
    let args = match args.split_last() {
        Some((last, rest)) if last.is("]") => rest,
        _ => args,
    };
    let args = if args.first().is_some_and(|first| first.is("!")) { &args[1..] } else { args };
    let among = |word: &Word, tests: &[&str]| word.known().is_some_and(|text| tests.contains(&text));
    let numbers: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    match args {
        [test, what] => among(test, UNARY_TESTS) && what.is_one(),
        [left, test, right] => left.is_one() && right.is_one() && (among(test, BINARY_TESTS) || among(test, numbers)),
        _ => false,
    }
}

/// Reads a line into variables of the command's own.
fn read(args: &[Word]) -> bool {
    let names = if args.first().is_some_and(|first| first.is("-r")) { &args[1..] } else { args };
    names.iter().all(|name| name.known().is_some_and(super::own_variable))
}

fn run(name: &str, words: &[Word]) -> Checked {
    let Some((inner, args)) = words.split_first() else { return Err(usage_of(name)) };
    match inner.known() {
        // One that runs another in its turn is rare enough to be asked about, and a row of them has no end.
        Some(inner) if !inner.starts_with('-') && !RUNNERS.contains(&inner) => check(inner, args),
        _ => Err(usage_of(name)),
    }
}

fn command(args: &[Word]) -> Checked {
    match args.split_first() {
        Some((first, _)) if first.is("-v") || first.is("-V") => Ok(()),
        _ => run("command", args),
    }
}

fn timeout(args: &[Word]) -> Checked {
    let lasts =
        |text: &str| text.trim_end_matches(['s', 'm', 'h']).bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match args.split_first() {
        Some((time, rest)) if time.known().is_some_and(lasts) => run("timeout", rest),
        _ => Err(usage_of("timeout")),
    }
}

fn nice(args: &[Word]) -> Checked {
    match args {
        [flag, number, rest @ ..] if flag.is("-n") && number.known().is_some() => run("nice", rest),
        _ => run("nice", args),
    }
}

/// What it adds to the words of the program is not known, so the program has to be one that reads whatever it is given.
fn xargs(args: &[Word]) -> Checked {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let with_number = |text: &str| ["-n", "-P", "-L"].iter().any(|flag| text.strip_prefix(flag).is_some_and(number));
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let counted = |words: &mut std::slice::Iter<'_, Word>| words.next().and_then(Word::known).is_some_and(number);
        let fine = match word.known() {
            Some("-0" | "-r" | "-t" | "--null" | "--no-run-if-empty" | "-I{}") => true,
            Some("-n" | "-P" | "-L") => counted(&mut words),
            Some("-I") => words.next().is_some_and(|word| word.is("{}")),
            Some(text) if with_number(text) => true,
            _ if reads_anything(word) => return Ok(()),
            _ => false,
        };
        if !fine {
            break;
        }
    }
    Err(usage_of("xargs"))
}
