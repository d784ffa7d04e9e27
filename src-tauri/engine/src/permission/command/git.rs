//! What of git only reads. A repository's own configuration can make even that run programs, which is why it runs
//! confined like everything else that only reads.

use super::tools::{Options, fits};
use super::words::Word;

/// How a subcommand stays one that only reads.
enum Use {
    Any,
    Only(Options),
    Exactly(&'static [&'static [&'static str]]),
    /// With this first word, whatever follows; or with the options and nothing else.
    Listing(&'static [&'static str], Options),
}

const MANY: usize = usize::MAX;

/// For what shows commits and changes. Among what is missing: `--output` and `-O`, which write or take files,
/// `--ext-diff` and `--textconv`, which run programs.
const SHOWING: Options = Options {
    short: "bgipqrstuwzc#",
    valued: "nSGULCM",
    long: &[
        "--oneline",
        "--stat",
        "--shortstat",
        "--numstat",
        "--dirstat",
        "--summary",
        "--name-only",
        "--name-status",
        "--graph",
        "--all",
        "--branches",
        "--tags",
        "--remotes",
        "--decorate",
        "--no-decorate",
        "--format",
        "--pretty",
        "--since",
        "--until",
        "--after",
        "--before",
        "--author",
        "--committer",
        "--grep",
        "--invert-grep",
        "--all-match",
        "--patch",
        "--no-patch",
        "--follow",
        "--merges",
        "--no-merges",
        "--first-parent",
        "--reverse",
        "--max-count",
        "--skip",
        "--cached",
        "--staged",
        "--merge-base",
        "--word-diff",
        "--color",
        "--no-color",
        "--color-words",
        "--abbrev-commit",
        "--no-abbrev-commit",
        "--abbrev",
        "--date",
        "--unified",
        "--ignore-all-space",
        "--ignore-space-change",
        "--ignore-blank-lines",
        "--find-renames",
        "--find-copies",
        "--no-renames",
        "--diff-filter",
        "--exit-code",
        "--quiet",
        "--check",
        "--full-index",
        "--left-right",
        "--cherry-pick",
        "--topo-order",
        "--date-order",
        "--source",
        "--raw",
        "--minimal",
        "--patience",
        "--histogram",
        "--function-context",
        "--relative",
        "--no-ext-diff",
        "--no-textconv",
        "--count",
        "--summary",
        "--numbered",
        "--email",
        "--objects",
        "--root",
        "--no-index",
    ],
    most: MANY,
};

const fn only(short: &'static str, valued: &'static str, long: &'static [&'static str], most: usize) -> Options {
    Options { short, valued, long, most }
}

const TABLE: &[(&[&str], Use)] = &[
    (
        &["log", "show", "diff", "whatchanged", "shortlog", "rev-list", "diff-tree", "diff-index", "diff-files"],
        Use::Only(SHOWING),
    ),
    (&["rev-parse", "ls-files", "ls-tree", "merge-base", "name-rev", "show-ref", "for-each-ref"], Use::Any),
    (&["count-objects", "check-ignore", "describe", "version"], Use::Any),
    (&["status"], Use::Only(only("sbuvz", "u", STATUS, MANY))),
    (
        &["blame", "annotate"],
        Use::Only(only("wlstfneL", "LCM", &["--porcelain", "--line-porcelain", "--date", "--show-email"], MANY)),
    ),
    (
        &["grep"],
        Use::Only(only(
            "nilLcwEFGPhHvqIrop#",
            "ABCem",
            &[
                "--line-number",
                "--ignore-case",
                "--cached",
                "--untracked",
                "--count",
                "--name-only",
                "--heading",
                "--break",
                "--and",
                "--or",
                "--not",
            ],
            MANY,
        )),
    ),
    (&["cat-file"], Use::Only(only("ptse", "", &["--batch-check"], MANY))),
    (&["branch"], Use::Listing(&["--list", "--contains", "--merged", "--no-merged"], only("arv", "", BRANCH, 0))),
    (&["tag"], Use::Listing(&["-l", "--list"], only("", "", &[], 0))),
    (&["remote"], Use::Exactly(&[&[], &["-v"], &["--verbose"], &["get-url", "origin"]])),
    (&["stash"], Use::Exactly(&[&["list"], &["show"], &["show", "-p"]])),
    (&["reflog"], Use::Exactly(&[&[], &["show"]])),
    (&["worktree"], Use::Exactly(&[&["list"]])),
    (
        &["config"],
        Use::Exactly(&[
            &["--list"],
            &["-l"],
            &["--get", "user.name"],
            &["--get", "user.email"],
            &["--get", "remote.origin.url"],
        ]),
    ),
];

const STATUS: &[&str] = &[
    "--short",
    "--branch",
    "--porcelain",
    "--long",
    "--verbose",
    "--untracked-files",
    "--ignored",
    "--show-stash",
    "--ahead-behind",
];

const BRANCH: &[&str] = &[
    "--all",
    "--remotes",
    "--verbose",
    "--show-current",
    "--sort",
    "--format",
    "--color",
    "--no-color",
    "--column",
    "--no-column",
];

/// Whether git only reads, given these words. Of what may stand before the subcommand, `-c` and its like set what git
/// runs; `-C` names a folder.
pub fn only_reads(args: &[Word]) -> bool {
    let mut rest = args;
    loop {
        match rest {
            [version] if version.is("--version") => return true,
            [flag, after @ ..] if flag.is("--no-pager") || flag.is("--no-optional-locks") => rest = after,
            [flag, folder, after @ ..] if flag.is("-C") && folder.is_no_option() => rest = after,
            _ => break,
        }
    }
    let Some((sub, args)) = rest.split_first() else { return false };
    let Some(sub) = sub.known() else { return false };
    let Some((_, usage)) = TABLE.iter().find(|(names, _)| names.contains(&sub)) else { return false };
    match usage {
        // Help opens in whatever git is told to open it with.
        Use::Any => !args.iter().any(|arg| arg.is("--help")),
        Use::Only(options) => fits(options, args),
        Use::Exactly(lists) => {
            lists.iter().any(|list| list.len() == args.len() && list.iter().zip(args).all(|(text, arg)| arg.is(text)))
        }
        Use::Listing(firsts, options) => match args.split_first() {
            Some((first, rest)) if firsts.iter().any(|text| first.is(text)) => rest.iter().all(Word::is_no_option),
            _ => fits(options, args),
        },
    }
}
