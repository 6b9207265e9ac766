//! The processes around a driver, and the processes that the driver starts: sessions, orphans, and ends. `/proc` tells parents and
//! children. Without `/proc` only the worker ends.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

mod system {
    unsafe extern "C" {
        pub fn setsid() -> i32;
        pub fn kill(process: i32, signal: i32) -> i32;
        pub fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        #[cfg(target_os = "linux")]
        pub fn prctl(option: i32, ...) -> i32;
    }
}

const SIGKILL: i32 = 9;
const WNOHANG: i32 = 1;

/// The number of searches for descendants: a driver may fork while vidmm ends the forks.
const ROUNDS: u32 = 1000;

/// Begins a session: signals to a group or from a terminal reach this process and the children alone.
pub fn begin_session() {
    // SAFETY: the function has no arguments, and fails in the leader of a group.
    unsafe { system::setsid() };
}

/// Orphans of descendants become children of this process.
#[cfg(target_os = "linux")]
pub fn adopt_orphans() {
    const PR_SET_CHILD_SUBREAPER: i32 = 36;
    // SAFETY: the option takes one number.
    unsafe { system::prctl(PR_SET_CHILD_SUBREAPER, 1u64) };
}

/// The system has no such thing.
#[cfg(not(target_os = "linux"))]
pub fn adopt_orphans() {}

/// This process ends with the parent.
#[cfg(target_os = "linux")]
pub fn end_with_parent() {
    const PR_SET_PDEATHSIG: i32 = 1;
    // SAFETY: the option takes one number.
    unsafe { system::prctl(PR_SET_PDEATHSIG, SIGKILL as u64) };
}

/// The system has no such thing.
#[cfg(not(target_os = "linux"))]
pub fn end_with_parent() {}

/// The number of this process in the machine's `/proc`: a process may be in a separate space of numbers.
pub fn number_for_others() -> u32 {
    let link = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    link.unwrap_or_else(std::process::id)
}

/// The letter of the state, and the parent.
fn state_and_parent(process: u32) -> Option<(char, u32)> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name of the program is in parentheses, and may have any bytes.
    let behind_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = String::from_utf8_lossy(&stat[behind_name + 1..]).into_owned();
    let mut words = rest.split_ascii_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Whether a signal has stopped the process.
pub fn is_stopped(process: u32) -> bool {
    state_and_parent(process).is_some_and(|(state, _)| state == 'T')
}

/// The process, its parent, and so on to the child of this process.
pub fn lineage(process: u32) -> Vec<u32> {
    let (own, mut lineage, mut next) = (std::process::id(), Vec::new(), process);
    while next > 1 && next != own && !lineage.contains(&next) {
        lineage.push(next);
        next = state_and_parent(next).map_or(0, |(_, parent)| parent);
    }
    lineage
}

fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| Vec::from_iter(list.split_ascii_whitespace().filter_map(|word| word.parse().ok()))).collect()
}

/// All descendants of this process.
pub fn descendants() -> BTreeSet<u32> {
    let (mut found, mut open) = (BTreeSet::new(), vec![std::process::id()]);
    while let Some(process) = open.pop() {
        open.extend(children(process).into_iter().filter(|&child| found.insert(child)));
    }
    found
}

/// Ends all descendants of this process but the spared. Returns their number.
pub fn end_descendants(spared: &BTreeSet<u32>) -> usize {
    let mut ended = BTreeSet::new();
    for _ in 0..ROUNDS {
        let mut remain = false;
        for process in descendants().difference(spared) {
            // A zombie is a matter for the parent.
            if state_and_parent(*process).is_some_and(|(state, _)| state != 'Z') {
                remain = true;
                ended.insert(*process);
                // SAFETY: both are numbers; the process is a descendant.
                unsafe { system::kill(*process as i32, SIGKILL) };
            }
            // SAFETY: a null pointer asks for no status. A child of this process is waited for, and no further process.
            unsafe { system::waitpid(*process as i32, std::ptr::null_mut(), WNOHANG) };
        }
        if !remain {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    ended.len()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_found_by_its_lineage_and_ends() {
        if !fs::exists("/proc/self/task").is_ok_and(|is_there| is_there) {
            return;
        }
        let spared = descendants();
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("there is a shell");
        let mut line = String::new();
        let out = shell.stdout.take().expect("it was asked for");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("the shell tells a number");
        let child: u32 = line.trim().parse().expect("a number");
        assert_eq!(lineage(child), [child, shell.id()]);
        let others: BTreeSet<u32> =
            descendants().into_iter().filter(|other| !lineage(*other).contains(&shell.id())).collect();
        assert_eq!(end_descendants(&spared.union(&others).copied().collect()), 2);
        // Without the shell the child is no descendant any more, and dies on its own time.
        let is_over = || state_and_parent(child).is_none_or(|(state, _)| state == 'Z');
        assert!((0..10_000).any(|_| is_over() || {
            sleep(Duration::from_millis(1));
            false
        }));
        // The process was waited for already.
        let _ = shell.wait();
    }
}
