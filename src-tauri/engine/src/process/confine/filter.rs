//! The system calls that a command which only looks has no use for, as a program for the kernel's filter.
//!
//! Landlock knows neither sockets that are not TCP nor what is changed about a file besides its content. Calls of another
//! architecture end the process: their numbers mean something else. Calls that are newer than this list do not exist,
//! which also covers those of the x32 interface, whose numbers all lie far above.

use libc::{c_long, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Where the kernel shows the call to the program: its number, its architecture, and the low half of its second argument.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const SECOND_AT: u32 = 24;

/// `file_setattr`, the newest call that is known here.
const NEWEST: u32 = 469;

/// Calls that are not to be had, so that programs do without.
const ABSENT: &[c_long] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Calls that are refused. The last three are `setxattrat`, `removexattrat` and `file_setattr`, which the library does
/// not name everywhere.
const REFUSED: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // The kernel's own keyring.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    463,
    466,
    469,
];

/// Those that only the older architecture has.
#[cfg(target_arch = "x86_64")]
const REFUSED_ALSO: &[c_long] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_ALSO: &[c_long] = &[];

/// What `ioctl` is not to do to a file that is only open for reading: FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR, and their
/// older sisters FS_IOC32_SETFLAGS and FS_IOC_SETVERSION. And TIOCSTI, which types on a terminal.
const REFUSED_OF_FILES: [u32; 5] = [0x4008_6602, 0x401c_5820, 0x4004_6602, 0x4008_7602, 0x5412];

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const ANSWER: u16 = 0x06;

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// The program.
pub(super) fn program() -> Vec<sock_filter> {
    let refuse = |errno: i32| step(ANSWER, libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(), 0, 0);
    let mut program = vec![
        step(LOAD, ARCHITECTURE_AT, 0, 0),
        step(IF_EQUAL, ARCHITECTURE, 1, 0),
        step(ANSWER, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        step(LOAD, NUMBER_AT, 0, 0),
        step(IF_GREATER, NEWEST, 0, 1),
        refuse(libc::ENOSYS),
    ];
    let refused = REFUSED.iter().chain(REFUSED_ALSO).map(|call| (call, libc::EACCES));
    for (call, errno) in ABSENT.iter().map(|call| (call, libc::ENOSYS)).chain(refused) {
        // No number is negative, and none is larger than the newest.
        program.push(step(IF_EQUAL, u32::try_from(*call).unwrap_or(u32::MAX), 0, 1));
        program.push(refuse(errno));
    }
    let ioctl = u32::try_from(libc::SYS_ioctl).unwrap_or(u32::MAX);
    program.extend([
        step(IF_EQUAL, ioctl, 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(LOAD, SECOND_AT, 0, 0),
    ]);
    for request in REFUSED_OF_FILES {
        program.push(step(IF_EQUAL, request, 0, 1));
        program.push(refuse(libc::EACCES));
    }
    program.push(step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0));
    program
}
