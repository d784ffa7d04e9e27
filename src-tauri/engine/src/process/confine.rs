//! What a command can reach, held by the kernel and not by its good will.
//!
//! On Linux the rules are Landlock's. They can only grant: a folder is taken away by granting everything around it, so
//! **nothing new can be made directly in a folder that holds one that was taken away**, and what others make there while
//! a command runs is out of its sight until the next command. Names below such a folder can still be listed, and names,
//! sizes and times of whatever exists can be asked for; contents cannot. Every link is judged by where it leads.
//!
//! What is not held: Landlock knows nothing of owners, modes, times and attributes of files (`chmod`, `touch`), so
//! [`Confinement::Folder`] and [`Confinement::Reach`] leave those of the person's own files within reach, and both leave
//! the network and the sockets of services: a service that acts for the person (a keyring that is unlocked, `docker`,
//! `systemd-run --user`) does so for a command as well. [`Confinement::ReadOnly`] takes all of that away too.
//!
//! Whatever is confined can gain no rights: `sudo`, `su` and what else depends on a set-user-id program do not work, nor
//! do programs that make file systems of their own (`bwrap`, rootless containers). A debugger cannot attach to what an
//! earlier command started.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod places;

#[cfg(target_os = "linux")]
pub(super) use linux::{Bars, bars};

use crate::env;
use std::path::PathBuf;

/// What shuts a command in: nothing here.
#[cfg(not(target_os = "linux"))]
pub(super) struct Bars;

/// Makes the bars of a confinement: there are none here, so what is only to look cannot be started.
#[cfg(not(target_os = "linux"))]
pub(super) fn bars(confinement: &Confinement) -> std::io::Result<Bars> {
    if let Confinement::ReadOnly { .. } = confinement {
        let why = "this system cannot make sure that it only reads; nothing was started";
        return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why));
    }
    Ok(Bars)
}

/// What a command can reach. Paths are absolute; what is out of reach wins over everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Whatever the person can.
    #[default]
    None,
    /// It writes in the folder, in the repository that the folder belongs to, in the temporary folders and in the usual
    /// package caches. It reads everything that is not out of reach. The network is open.
    Folder {
        /// The session's folder.
        folder: PathBuf,
        /// What it can neither read nor write, whether it is there yet or not.
        out_of_reach: Vec<PathBuf>,
    },
    /// It writes nothing. It reads the folder, the repository that the folder belongs to, the system, the temporary
    /// folders and the tools in the person's home, but none of the places where keys are kept; it has no network, no
    /// socket of a service, and no signal for what is not its own.
    ReadOnly {
        /// The session's folder.
        folder: PathBuf,
        /// What it cannot read.
        out_of_reach: Vec<PathBuf>,
    },
    /// It reads and writes everything but this.
    Reach {
        /// What it can neither read nor write, whether it is there yet or not.
        out_of_reach: Vec<PathBuf>,
    },
}

/// Where the systems keep the keyrings of a person.
pub fn keyrings() -> Vec<PathBuf> {
    let places: &[&str] = if cfg!(target_os = "macos") {
        &["Library/Keychains"]
    } else {
        &[".local/share/keyrings", ".local/share/kwalletd"]
    };
    let home = env::path("HOME");
    home.iter().flat_map(|home| places.iter().map(|place| home.join(place))).collect()
}

/// What of confinement this system can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// The generation of Landlock's rules, as far as it matters here: 0 is none, 3 knows that files can be cut short, 5
    /// knows what devices can be told, 6 knows signals.
    pub landlock: u8,
    /// Whether single system calls can be refused.
    pub filter: bool,
}

/// What every way of saying that something was refused has in it.
const REFUSALS: [&str; 9] = [
    "ermission denied",
    "ead-only file system",
    "peration not permitted",
    "ross-device link",
    "new privileges",
    "EACCES",
    "EPERM",
    "esolve host",
    "ould not connect",
];

impl Support {
    /// What this system can hold. It is asked once.
    pub fn here() -> Self {
        #[cfg(target_os = "linux")]
        {
            linux::support()
        }
        #[cfg(not(target_os = "linux"))]
        {
            Self { landlock: 0, filter: false }
        }
    }

    /// Whether a confinement holds here in what it promises. [`Confinement::ReadOnly`] never starts a command where it
    /// does not; the others hold what they can.
    pub fn holds(self, confinement: &Confinement) -> bool {
        match confinement {
            Confinement::None => true,
            Confinement::Folder { .. } | Confinement::Reach { .. } => self.landlock >= 3,
            Confinement::ReadOnly { .. } => self.landlock >= 3 && self.filter,
        }
    }

    /// The same in a sentence for people.
    pub fn sentence(self) -> &'static str {
        match (self.landlock, self.filter) {
            (6.., true) => "Commands are confined by the kernel: to the folder, and where they only look, to reading.",
            (3..=5, true) => {
                "Commands are confined by the kernel: to the folder, and where they only look, to reading; this kernel \
                 cannot keep them from signalling other programs."
            }
            (3.., false) => {
                "Commands are confined to the folder by the kernel; this kernel cannot hold one to reading, so each is \
                 asked about."
            }
            (1..=2, _) => {
                "Commands are confined to the folder by the kernel in part: this kernel lets them cut files short \
                 anywhere, and cannot hold one to reading, so each is asked about."
            }
            (0, _) if cfg!(target_os = "linux") => {
                "Commands are not confined: this kernel has no Landlock. What is judged and asked before they start is \
                 all that holds them."
            }
            (0, _) => {
                "Commands are not confined on this system. What is judged and asked before they start is all that holds \
                 them."
            }
        }
    }
}

impl Confinement {
    /// A sentence for the model, when this output of a command that failed looks as if the confinement had refused it
    /// something; none where nothing confines.
    pub fn explain(&self, output: &str) -> Option<String> {
        if Support::here().landlock == 0 || !REFUSALS.iter().any(|sign| output.contains(sign)) {
            return None;
        }
        let closed = |paths: &[PathBuf]| {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!(
                "It cannot reach {}, make anything new directly in a folder above one of these, or gain rights (sudo).",
                paths.join(", ")
            )
        };
        match self {
            Self::None => None,
            Self::Folder { folder, out_of_reach } => Some(format!(
                "This command ran confined: it can write only below {}, in the temporary folders and in package caches. {}",
                folder.display(),
                closed(out_of_reach)
            )),
            Self::ReadOnly { folder, .. } => Some(format!(
                "This command ran confined: it can read {}, the system and the tools in the home folder, write nothing, and \
                 reach neither the network nor any service.",
                folder.display()
            )),
            Self::Reach { out_of_reach } => Some(format!("This command ran confined. {}", closed(out_of_reach))),
        }
    }
}
