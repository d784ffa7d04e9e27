//! What commands can reach: real commands against the real kernel.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::process::{alive, marked, plan, processes, store, until};
use coppice_engine::event::Mode;
use coppice_engine::process::{Confinement, Plan, Processes, Support};
use coppice_engine::tool::{Call, Leave, Tool};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

const GRACE: Duration = Duration::from_millis(300);

/// A place outside of the temporary folders, with a session's folder, something that is the person's, and the app's own.
struct Ground {
    name: String,
    place: TempDir,
    processes: Processes,
}

fn ground() -> Ground {
    assert_eq!(Support::here(), Support { landlock: 6, filter: true }, "these tests need a kernel with everything");
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (file, text) in [("folder/mine", "mine"), ("other/file", "theirs"), ("data/keys", "SECRET"), ("data/log", "")] {
        let file = place.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    // Markers tell trees apart, and tests run side by side.
    let name = place.path().file_name().unwrap().to_string_lossy().into_owned();
    Ground { processes: processes(&name).0, name, place }
}

impl Ground {
    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn out_of_reach(&self) -> Vec<PathBuf> {
        vec![self.at("data"), self.at("not-there-yet")]
    }

    fn folder(&self) -> Confinement {
        Confinement::Folder { folder: self.at("folder"), out_of_reach: self.out_of_reach() }
    }

    fn looks(&self) -> Confinement {
        Confinement::ReadOnly { folder: self.at("folder"), out_of_reach: self.out_of_reach() }
    }

    fn reach(&self) -> Confinement {
        Confinement::Reach { out_of_reach: self.out_of_reach() }
    }

    fn plan(&self, confinement: &Confinement, command: &str) -> Plan {
        Plan { cwd: self.at("folder"), confinement: confinement.clone(), ..plan("s", "1", command) }
    }

    /// Runs a command; its exit code and what it wrote.
    async fn run(&self, confinement: &Confinement, command: &str) -> (i32, String) {
        let mut tree = self.processes.start(self.plan(confinement, command)).await.unwrap();
        let mut text = String::new();
        while let Some(chunk) = tree.output.recv().await {
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
        let code = tree.exited().await.unwrap().code.unwrap_or(-1);
        assert_eq!(tree.end(GRACE).await.left(), 0);
        (code, text)
    }

    #[track_caller]
    fn untouched(&self, what: &str) {
        let read = |name| std::fs::read_to_string(self.at(name)).unwrap();
        assert_eq!(
            (read("other/file"), read("data/keys"), read("data/log")),
            ("theirs".into(), "SECRET".into(), String::new()),
            "{what}"
        );
        let names = |name| {
            let mut names: Vec<_> =
                std::fs::read_dir(self.at(name)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!((names("other"), names("data")), (vec!["file".into()], vec!["keys".into(), "log".into()]), "{what}");
    }

    async fn works(&self, confinement: &Confinement, command: &str) -> String {
        let (code, text) = self.run(confinement, command).await;
        assert_eq!(code, 0, "{command}: {text}");
        text
    }

    async fn refused(&self, confinement: &Confinement, command: &str) -> String {
        let (code, text) = self.run(confinement, command).await;
        assert_ne!(code, 0, "{command}: {text}");
        assert!(!text.contains("SECRET"), "{command}: {text}");
        self.untouched(command);
        text
    }
}

/// Ways to change something that is not in the folder. Each works where nothing confines it, or the test would prove
/// nothing.
const TRESPASSES: &[&str] = &[
    "echo x > ../other/file",
    "echo x >> ../other/new",
    "truncate -s 0 ../other/file",
    "mkdir ../other/new",
    "rm ../other/file",
    "mv ../other/file ../other/new",
    "mv mine ../other/new",
    "cp mine ../other/new",
    "ln -s mine ../other/new",
    "mkfifo ../other/new",
    // Through a link that leads out.
    "ln -s ../other out && echo x > out/file",
    "ln -s ../other/file out && echo x > out",
    // A second name for what is outside.
    "ln ../other/file out && echo x > out",
    "ln mine ../other/new",
    "mv ../other/file out",
    // By a name that leads around.
    "echo x > /proc/self/cwd/../other/file",
    "echo x > /proc/self/root$PWD/../other/file",
    "exec 3< ../other && echo x > /proc/self/fd/3/file",
    // By a program that it makes itself.
    "cp $(command -v dd) own && echo x | ./own of=../other/file 2>&1",
];

#[tokio::test]
async fn a_command_that_is_held_to_its_folder_changes_nothing_outside() {
    for trespass in TRESPASSES {
        let free = ground();
        free.works(&Confinement::None, trespass).await;
        let ground = ground();
        let told = ground.refused(&ground.folder(), trespass).await;
        assert!(ground.folder().explain(&told).is_some(), "{trespass}: {told}");
    }
}

#[tokio::test]
async fn a_command_that_is_held_to_its_folder_does_its_work() {
    let ground = ground();
    let folder = ground.folder();
    for work in [
        "echo x > new && mv new newer && mkdir -p a/b && mv newer a/b && ln a/b/newer again && rm -r a again",
        "cat ../other/file mine /etc/passwd",
        "f=$(mktemp) && echo x > $f && cat $f && rm $f",
        "f=$(mktemp -p /var/tmp) && rm $f; f=$(mktemp -p /dev/shm) && rm $f",
        "echo lost > /dev/null; head -c 4 /dev/urandom > /dev/null; echo told > /dev/stderr; echo told | tee /dev/stderr",
        "ps -e > /dev/null; echo <(echo x) > /dev/null; cat <(echo x); head -c 100000 /dev/zero | wc -c",
        "sleep 60 & kill $!; wait; true",
        "script -qec 'echo pty' /dev/null",
    ] {
        ground.works(&folder, work).await;
    }
    // What an earlier command left behind can be ended by a later one.
    let server =
        ground.processes.start(Plan { name: "2".into(), ..ground.plan(&folder, "exec sleep 600") }).await.unwrap();
    until("it sleeps", || !server.living().is_empty()).await;
    let pid = server.living()[0].pid;
    ground.works(&folder, &format!("kill {pid}")).await;
    assert_eq!(server.exited().await.unwrap().signal, Some(15));
}

#[tokio::test]
async fn the_apps_own_is_out_of_reach_of_every_command() {
    let reads = [
        "cat ../data/keys",
        "ln -s ../data d && cat d/keys",
        "ln ../data/keys d && cat d",
        "cp -r ../data d",
        "mv ../data d",
        "cat /proc/self/root$PWD/../data/keys",
        "cd ../data && cat keys",
        "grep -r SECRET ..",
    ];
    let writes =
        ["echo x > ../data/keys", "echo x > ../data/new", "rm ../data/log", "rm -rf ../data", "mv mine ../data/new"];
    let ground = ground();
    for confinement in [ground.folder(), ground.looks(), ground.reach()] {
        for command in reads.iter().chain(&writes) {
            std::fs::remove_dir_all(ground.at("folder")).unwrap();
            std::fs::create_dir(ground.at("folder")).unwrap();
            std::fs::write(ground.at("folder/mine"), "mine").unwrap();
            ground.refused(&confinement, command).await;
        }
    }
    for command in
        ["printf theirs > ../other/file", "mkdir -p ../other/new/below && rm -r ../other/new", "cat ../other/file"]
    {
        ground.works(&ground.reach(), command).await;
    }
    // Also where it lies in the session's folder: around it, work goes on.
    let folder = ground.place.path().to_owned();
    let whole = Confinement::Folder { folder, out_of_reach: ground.out_of_reach() };
    ground.works(&whole, "printf theirs > ../other/file && echo x > new && rm new").await;
    for command in reads.iter().chain(&writes) {
        ground.run(&whole, "rm -rf d").await;
        ground.refused(&whole, command).await;
    }
}

#[tokio::test]
async fn a_command_sees_neither_the_environment_nor_the_memory_of_what_is_not_its_own() {
    let ground = ground();
    let engine = std::process::id();
    for confinement in [ground.folder(), ground.looks(), ground.reach()] {
        for view in ["environ", "mem", "maps", "fd/0", "cwd/", "root/etc"] {
            let command = format!("ls -L /proc/{engine}/{view} > /dev/null && cat /proc/{engine}/{view} > /dev/null");
            ground.works(&Confinement::None, &command.replace(" && cat", " ; : cat")).await;
            ground.refused(&confinement, &format!("cat /proc/{engine}/{view}")).await;
        }
        let own = ground.works(&confinement, "tr '\\0' '\\n' < /proc/$PPID/environ").await;
        assert!(own.contains("COPPICE_TASK=") && own.contains("PATH="), "{own}");
        ground.works(&confinement, "cat /proc/self/environ /proc/self/maps > /dev/null").await;
    }
    // What is hidden from commands is hidden in their guard as well.
    ground.processes.hide(vec!["HOME".to_owned()]);
    let own = ground.works(&ground.folder(), "tr '\\0' '\\n' < /proc/$PPID/environ").await;
    assert!(own.lines().any(|line| line.starts_with("COPPICE_TASK=")), "{own}");
    assert!(!own.lines().any(|line| line.starts_with("HOME=")), "{own}");
}

#[tokio::test]
async fn a_command_that_only_looks_changes_nothing_at_all() {
    let own = [
        "echo x > mine",
        "echo x > new",
        "echo x > /tmp/new-$$",
        "rm mine",
        "truncate -s 0 mine",
        "chmod 777 mine",
        "chmod 777 ../other/file",
        "touch -d 2001-01-01 mine",
        "perl -e 'exit !utime(1, 1, \"mine\")'",
        "perl -e 'exit !chmod(0777, \"mine\")'",
        "perl -e 'open(F, \"<\", \"mine\"); exit !chmod(0777, *F)'",
        "perl -e 'open(F, \"<\", \"mine\"); exit !chown(1, 1, *F)'",
        "chown 1:1 mine",
        "chattr +d mine",
        "setfattr -n user.x -v y mine",
    ];
    for command in own.iter().chain(TRESPASSES) {
        let ground = ground();
        let before = std::fs::metadata(ground.at("folder/mine")).unwrap();
        let told = ground.refused(&ground.looks(), command).await;
        let after = std::fs::metadata(ground.at("folder/mine")).unwrap();
        let facts = |of: &std::fs::Metadata| (of.mode(), of.uid(), of.mtime(), of.ctime(), of.ctime_nsec(), of.size());
        assert_eq!(facts(&before), facts(&after), "{command}: {told}");
        assert_eq!(std::fs::read_dir(ground.at("folder")).unwrap().count(), 1, "{command}: {told}");
    }
}

#[tokio::test]
async fn a_command_that_only_looks_does_look() {
    let ground = ground();
    for setup in
        ["git init -q", "git add mine && git -c user.name=a -c user.email=a@b commit -qm one", "echo two > mine"]
    {
        ground.works(&Confinement::None, setup).await;
    }
    let looks = ground.looks();
    for (command, part) in [
        ("cat mine", "two"),
        ("git status", "modified:   mine"),
        ("git diff", "+two"),
        ("git log --oneline | cat", "one"),
        ("ls -la | sort | head -3", "mine"),
        ("find . -name 'm*' | xargs grep -c two", "1"),
        ("ps -e -o pid,args", "ps -e"),
        ("cat <<< here; cat << END\nthere\nEND\n", "there"),
        ("echo told > /dev/stderr; echo gone > /dev/null; echo again | tee /dev/stderr", "again"),
        ("cat /etc/passwd /proc/meminfo", "MemTotal"),
        ("timeout 5 sleep 0.01 && echo done", "done"),
        ("mkdir -p sub; cd sub 2> /dev/null; git -C . rev-parse --is-inside-work-tree", "true"),
    ] {
        let (_, text) = ground.run(&looks, command).await;
        assert!(text.contains(part), "{command}: {text}");
    }
    // It sees no more than that.
    for command in ["cat ../other/file", "ls ../other", "ln -s ../other/file out; cat out"] {
        ground.refused(&looks, command).await;
    }
    assert!(looks.explain(&ground.refused(&looks, "cat ../other/file").await).unwrap().contains("write nothing"));
}

/// A program of 32 bits that exits with 0 when it could have a socket.
fn old_program() -> Vec<u8> {
    let code: &[u8] = &[
        0xb8, 0x67, 1, 0, 0, 0xbb, 2, 0, 0, 0, 0xb9, 1, 0, 0, 0, 0x31, 0xd2, 0xcd, 0x80, // socket(2, 1, 0)
        0x89, 0xc3, 0xc1, 0xfb, 31, 0x83, 0xe3, 1, 0xb8, 1, 0, 0, 0, 0xcd, 0x80, // exit(result < 0)
    ];
    let mut program = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let at: u32 = 0x0804_8000;
    let halves =
        |program: &mut Vec<u8>, halves: &[u16]| program.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    let words = |program: &mut Vec<u8>, words: &[u32]| program.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    halves(&mut program, &[2, 3]);
    words(&mut program, &[1, at + 84, 52, 0, 0]);
    halves(&mut program, &[52, 32, 1, 0, 0, 0]);
    let size = 84 + u32::try_from(code.len()).unwrap();
    words(&mut program, &[1, 0, at, at, size, size, 5, 0x1000]);
    program.extend(code);
    program
}

#[tokio::test]
async fn a_command_that_only_looks_reaches_no_network_and_no_service() {
    let ground = ground();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let _unix = std::os::unix::net::UnixListener::bind(ground.at("folder/service")).unwrap();
    // Answers whoever asks, once for each.
    let web = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = web.local_addr().unwrap().port();
    let server = async {
        loop {
            let (mut stream, _) = web.accept().await.unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello").await.unwrap();
            // It is read to its end, so that nothing is reset.
            stream.shutdown().await.unwrap();
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
        }
    };
    let (tcp, udp) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    #[cfg(target_arch = "x86_64")]
    std::fs::write(ground.at("folder/old"), old_program()).unwrap();
    ground.works(&Confinement::None, "if [ -e old ]; then chmod +x old; fi").await;
    let perl = |call: &str| format!("perl -MSocket -e 'exit !({call})'");
    let mut ways = vec![
        format!("exec 3<> /dev/tcp/127.0.0.1/{tcp}"),
        format!("exec 3<> /dev/udp/127.0.0.1/{udp} && echo x >&3"),
        format!("curl -sS --max-time 20 http://127.0.0.1:{http}"),
        perl("socket(S, PF_INET, SOCK_STREAM, 0)"),
        perl("socket(S, PF_INET6, SOCK_DGRAM, 0)"),
        perl("socket(S, PF_UNIX, SOCK_STREAM, 0) && connect(S, pack_sockaddr_un(\"service\"))"),
        perl("socket(S, 16, SOCK_RAW, 0)"),
    ];
    // Calls of the older kind on the same machine.
    if cfg!(target_arch = "x86_64") && ground.run(&ground.folder(), "./old").await.0 == 0 {
        assert_eq!(ground.run(&ground.looks(), "./old").await.0, 128 + 31);
        ways.push("./old".to_owned());
    }
    let tried = async {
        for way in &ways {
            ground.works(&ground.folder(), way).await;
            ground.refused(&ground.looks(), way).await;
        }
    };
    tokio::select! {
        () = tried => {}
        () = server => {}
    }
    let absent = "perl -e 'syscall(425, 1, 0) < 0 or exit 1; print $! + 0; syscall(0x40000029, 2, 1, 0) < 0 or exit 1; print \" \", $! + 0'";
    assert_eq!(ground.works(&ground.looks(), absent).await, "38 38");
    ground.works(&ground.looks(), &perl("socketpair(A, B, PF_UNIX, SOCK_STREAM, 0)")).await;
}

#[tokio::test]
async fn a_command_that_only_looks_cannot_signal_what_is_not_its_own() {
    let ground = ground();
    let other = ground.processes.start(Plan { name: "2".into(), ..ground.plan(&Confinement::None, "exec sleep 600") });
    let other = other.await.unwrap();
    until("it sleeps", || !other.living().is_empty()).await;
    let pid = other.living()[0].pid;
    ground.refused(&ground.looks(), &format!("kill {pid}")).await;
    ground.refused(&ground.looks(), &format!("kill -0 {}", std::process::id())).await;
    assert!(alive(pid));
    ground.works(&ground.looks(), "sleep 60 & kill $!; wait; true").await;
    assert_eq!(other.end(GRACE).await.left(), 0);
}

#[tokio::test]
async fn what_is_confined_ends_as_everything_does() {
    let ground = ground();
    let commands = [
        ("echo ready; sleep 600 | sleep 600", 3),
        ("setsid sleep 600 & echo ready; wait", 2),
        ("env -i setsid -f setsid -f sleep 600; echo ready; sleep 600; true", 3),
        ("trap '' TERM; echo ready; sleep 600; sleep 600", 2),
        ("setsid -f sleep 600; echo ready; kill -9 $PPID; sleep 600; true", 0),
    ];
    for confinement in [ground.folder(), ground.looks(), ground.reach()] {
        for (command, count) in commands {
            let mut tree = ground.processes.start(ground.plan(&confinement, command)).await.unwrap();
            assert_eq!(tree.output.recv().await, Some(b"ready\n".to_vec()), "{command}");
            until("all of it runs", || tree.living().len() >= count).await;
            let ended = tree.end(GRACE).await;
            assert!(ended.left() == 0 && ended.processes.len() >= count, "{command}: {ended:?}");
            assert_eq!(marked(&store(&ground.name)), BTreeMap::new(), "{command}");
        }
    }
}

#[tokio::test]
async fn the_repository_of_a_folder_belongs_to_it_and_nothing_that_a_command_says_does() {
    let ground = ground();
    let free = Confinement::None;
    ground
        .works(
            &free,
            "cd ../other && git init -q . && git config user.name a && git config user.email a@b && git add file &&
             git commit -qm one && git worktree add -q ../tree && mkdir part && git -C ../tree log -1 > /dev/null",
        )
        .await;
    let held = |name: &str| Confinement::Folder { folder: ground.at(name), out_of_reach: ground.out_of_reach() };
    ground.works(&held("tree"), "cd ../tree && echo x > new && git add new && git commit -qm two && git log -1").await;
    ground.works(&held("other/part"), "cd ../other/part && echo x > new && git add new && git commit -qm three").await;
    // A folder that only says that it belongs to a repository gets none of it.
    for lie in [
        "echo \"gitdir: $PWD/../other/.git\" > .git",
        "echo \"gitdir: $PWD/../other/.git/worktrees/tree\" > .git",
        "mkdir -p worktrees/x && echo $PWD/.git > worktrees/x/gitdir && echo 'gitdir: worktrees/x' > .git",
        "ln -s ../other/.git .git",
    ] {
        ground.works(&ground.folder(), &format!("rm -rf .git worktrees; {lie}")).await;
        let (code, told) = ground.run(&ground.folder(), "echo x > ../other/.git/hooks/pre-commit").await;
        assert_ne!(code, 0, "{lie}: {told}");
        assert_ne!(ground.run(&ground.folder(), "echo x > ../new").await.0, 0, "{lie}");
    }
    let named = Confinement::Folder { folder: ground.at("worktrees"), out_of_reach: vec![] };
    let lie = "cd .. && mkdir -p worktrees/x && echo $PWD/worktrees/.git > worktrees/x/gitdir && echo 'gitdir: x' > worktrees/.git";
    ground.works(&free, lie).await;
    assert_ne!(ground.run(&named, "echo x > ../new").await.0, 0);
}

/// Runs a test of this file alone, in a process that starts like this.
#[expect(clippy::disallowed_methods, reason = "environment and mounts are those of a whole process")]
fn alone(test: &str, start: &str, home: &Path) {
    let run = std::process::Command::new("/bin/sh")
        .args(["-c", start, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("HOME", home)
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap();
    let told = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(run.status.success() && told.contains("1 passed"), "{told}");
}

#[test]
fn what_is_out_of_reach_is_so_wherever_it_is_mounted() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    alone("confine::a_mount_alone", "exec unshare --user --map-root-user --mount -- \"$@\"", home.path());
}

#[tokio::test]
#[ignore = "another test starts it with mounts of its own"]
async fn a_mount_alone() {
    let ground = ground();
    let free = Confinement::None;
    ground
        .works(&free, "mkdir again 'the whole' part && mount --bind ../data again && mount --bind .. 'the whole'")
        .await;
    ground.works(&free, "mkdir ../data/deep && mount --bind ../data/deep part && rmdir ../data/deep || true").await;
    for confinement in [ground.folder(), ground.looks(), ground.reach()] {
        for way in ["again/keys", "'the whole'/data/keys", "again/../again/keys"] {
            assert_eq!(ground.works(&free, &format!("cat {way}")).await, "SECRET");
            let (code, text) = ground.run(&confinement, &format!("cat {way}")).await;
            assert!(code != 0 && !text.contains("SECRET"), "{way}: {text}");
        }
        assert_ne!(ground.run(&confinement, "echo x > part/new").await.0, 0);
        ground.works(&confinement, "cat mine").await;
    }
    // Only directly above what is mounted there, nothing new can be made.
    ground.works(&free, "mkdir sub").await;
    ground.works(&ground.folder(), "echo x > sub/new && echo x > 'the whole'/folder/sub/newer").await;
}

#[test]
fn a_home_lends_its_tools_and_caches_and_keeps_its_keys() {
    // A home may lie in a place that everybody can read.
    for place in [env!("CARGO_TARGET_TMPDIR"), "/tmp"] {
        home_in(Path::new(place));
    }
}

fn home_in(place: &Path) {
    let home = tempfile::tempdir_in(place).unwrap();
    for file in [
        ".ssh/id",
        ".aws/credentials",
        ".netrc",
        ".config/gh/hosts.yml",
        ".config/git/credentials",
        ".config/git/ignore",
        ".cargo/credentials.toml",
        ".cargo/bin/tool",
        ".mozilla/cookies",
        ".local/share/keyrings/login.keyring",
        "diary",
        ".cache/pip/wheel",
        ".cargo/registry/index",
        "code/mine",
    ] {
        let file = home.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "kept\n").unwrap();
    }
    std::fs::write(home.path().join(".gitconfig"), "[core]\n\texcludesFile = ~/.config/git/ignore\n").unwrap();
    alone("confine::a_home_alone", "exec \"$@\"", home.path());
}

#[tokio::test]
#[ignore = "another test starts it with a home of its own"]
async fn a_home_alone() {
    let ground = ground();
    let keys = [
        ".ssh/id",
        ".aws/credentials",
        ".netrc",
        ".config/gh/hosts.yml",
        ".config/git/credentials",
        ".cargo/credentials.toml",
        ".mozilla/cookies",
        ".local/share/keyrings/login.keyring",
    ];
    let home = coppice_engine::env::path("HOME").unwrap();
    // Where it works at the top of the home, the keys are kept all the same.
    let top = Confinement::ReadOnly { folder: home.clone(), out_of_reach: vec![] };
    for looks in [ground.looks(), top.clone()] {
        for key in keys {
            ground.refused(&looks, &format!("cat ~/{key}")).await;
        }
        for tool in [".cargo/bin/tool", ".config/git/ignore", ".gitconfig"] {
            ground.works(&looks, &format!("cat ~/{tool}")).await;
        }
    }
    ground.refused(&ground.looks(), "cat ~/diary").await;
    ground.works(&top, "cat ~/diary ~/code/mine").await;
    let folder = ground.folder();
    for write in [".cache/pip/new", ".cargo/registry/new"] {
        ground.works(&folder, &format!("echo x > ~/{write}")).await;
        ground.refused(&ground.looks(), &format!("echo x > ~/{write}")).await;
    }
    for write in [".cargo/bin/tool", ".cargo/config.toml", ".gitconfig", ".bashrc", ".ssh/config", "diary"] {
        ground.refused(&folder, &format!("echo x > ~/{write}")).await;
    }
    ground.works(&ground.reach(), "echo x > ~/diary; echo x > ~/new").await;
}

#[tokio::test]
#[ignore = "a measurement"]
async fn what_confinement_costs() {
    let ground = ground();
    let keyrings = coppice_engine::process::confine::keyrings();
    let with = |mut confinement| {
        if let Confinement::Folder { out_of_reach, .. }
        | Confinement::ReadOnly { out_of_reach, .. }
        | Confinement::Reach { out_of_reach } = &mut confinement
        {
            out_of_reach.extend(keyrings.clone());
        }
        confinement
    };
    let kinds = [
        ("none", Confinement::None),
        ("folder", ground.folder()),
        ("reads", ground.looks()),
        ("reach", ground.reach()),
    ];
    let mut times: Vec<(&str, Confinement, Vec<Duration>)> =
        kinds.into_iter().map(|(name, confinement)| (name, with(confinement), Vec::new())).collect();
    for round in 0..210 {
        for (_, confinement, times) in &mut times {
            let begun = Instant::now();
            let tree = ground.processes.start(ground.plan(confinement, "true")).await.unwrap();
            tree.exited().await.unwrap();
            let took = begun.elapsed();
            tree.gone().await;
            if round >= 10 {
                times.push(took);
            }
        }
    }
    for (name, _, mut times) in times {
        times.sort();
        println!("{name}: {:?}, of a tenth at most {:?}", times[100], times[20]);
    }
}

#[tokio::test]
async fn a_command_that_was_refused_something_says_that_it_ran_confined() {
    let ground = ground();
    let bench = crate::bash::bench("told");
    for (confinement, command, part) in [
        (ground.folder(), "echo x > ../other/file", "it can write only below"),
        (ground.looks(), "touch mine", "write nothing"),
        (ground.looks(), "exec 3<> /dev/tcp/127.0.0.1/1", "neither the network nor any service"),
        (ground.reach(), "cat ../data/keys", "It cannot reach"),
    ] {
        let leave = Leave { confinement };
        let call = Call { leave: leave.clone(), cwd: ground.at("folder"), ..bench.call() };
        let outcome = bench.bash.run(&call, json!({ "command": command })).await;
        let told = outcome.text.lines().rev().nth(1).unwrap_or_default().to_owned();
        assert!(
            !outcome.ok && told.starts_with("[This command ran confined") && told.contains(part),
            "{}",
            outcome.text
        );
        // What fails for a reason of its own says nothing of it, nor does what goes well.
        for other in ["exit 3", "echo Permission denied"] {
            let outcome = bench.bash.run(&call, json!({ "command": other })).await;
            assert!(!outcome.text.contains("confined"), "{}", outcome.text);
        }
    }
}

#[test]
fn each_mode_gives_a_command_its_reach() {
    let (folder, out_of_reach) = (PathBuf::from("/folder"), vec![PathBuf::from("/data")]);
    let given = |mode| Leave::of(mode, &folder, &out_of_reach).confinement;
    let held = Confinement::Folder { folder: folder.clone(), out_of_reach: out_of_reach.clone() };
    assert_eq!(
        [Mode::ReadOnly, Mode::Ask, Mode::AcceptEdits, Mode::Full].map(given),
        [
            Confinement::ReadOnly { folder: folder.clone(), out_of_reach: out_of_reach.clone() },
            held.clone(),
            held,
            Confinement::Reach { out_of_reach: out_of_reach.clone() },
        ]
    );
}

#[test]
fn a_system_says_which_confinement_it_holds() {
    let ground = ground();
    let held = |landlock, filter| {
        let support = Support { landlock, filter };
        [Confinement::None, ground.folder(), ground.looks(), ground.reach()].map(|one| support.holds(&one))
    };
    assert_eq!(held(6, true), [true; 4]);
    assert_eq!(held(3, true), [true; 4]);
    assert_eq!(held(6, false), [true, true, false, true]);
    for weak in [held(2, true), held(0, true), held(0, false)] {
        assert_eq!(weak, [true, false, false, false]);
    }
    let told = |landlock, filter| Support { landlock, filter }.sentence();
    assert!(told(6, true).contains("to reading.") && told(5, true).contains("signalling"));
    assert!(told(6, false).contains("each is asked about") && told(2, true).contains("in part"));
    assert!(told(0, true).starts_with("Commands are not confined"));
}
