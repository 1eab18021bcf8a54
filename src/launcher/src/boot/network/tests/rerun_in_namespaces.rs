//! A test that runs itself again, in a network namespace that is the pod and in one that is the guest.

use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::STEP_TIMEOUT;

const ROLE: &str = "TEST_NETWORK_NAMESPACE";
/// The name of the test that runs.
const NAME: &str = "TEST_NETWORK_NAME";

/// Where the test runs.
pub(super) enum Side {
    /// Where it was started; the rest has been run, and was good.
    Outside,
    /// In the pod.
    Pod,
    /// In the guest, with its link up.
    Guest,
}

/// Runs the test called `name` in a pod, or tells that this is one.
pub(super) fn side(name: &str) -> Side {
    match env::var(ROLE).as_deref() {
        Ok("pod") => Side::Pod,
        Ok("guest") => {
            until("the guest's link", || {
                fs::exists("/proc/sys/net/ipv4/conf/guest0").unwrap_or(false)
            });
            shell(
                "ip link set guest0 up
                 echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/guest0/rp_filter",
            );
            Side::Guest
        }
        _ => {
            was_good("pod", rerun_test("pod", name));
            Side::Outside
        }
    }
}

/// This test once more, in a new network namespace; who is not root gets one of users around it.
fn rerun_test(role: &str, name: &str) -> Child {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.arg("--map-root-user");
    }
    unshare
        .arg("--net")
        .arg(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(ROLE, role), (NAME, name)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for its end. That no test has this name would be a success, too.
fn was_good(role: &str, child: Child) {
    let output = child.wait_with_output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let good = output.status.success() && report.contains("1 passed");
    assert!(good, "in the {role}: {} {report}", output.status);
}

/// The pod's side: the guest is there once it is plugged.
pub(super) fn run(pod: impl AsyncFnOnce(Guest)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(pod(Guest));
}

/// The guest, which does its part of the test when it gets its link.
pub(super) struct Guest;

impl Guest {
    /// Starts it, gives it the link, and waits for it to find everything in order.
    pub(super) async fn plug(self, link: &str) {
        let link = link.to_owned();
        let guest = move || {
            let child = rerun_test("guest", &env::var(NAME).unwrap());
            let namespace =
                |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
            let id = child.id().to_string();
            until("the guest's namespace", || {
                namespace(&id) != namespace("self")
            });
            shell(&format!("ip link set {link} netns {id}"));
            was_good("guest", child);
        };
        tokio::task::spawn_blocking(guest).await.unwrap();
    }
}

/// A link's number.
pub(super) fn index(link: &str) -> u32 {
    let text = fs::read_to_string("/proc/self/net/if_inet6").unwrap();
    let line = text.lines().find(|line| line.ends_with(link)).unwrap();
    u32::from_str_radix(line.split(' ').nth(1).unwrap(), 16).unwrap()
}

/// Runs commands, the first that fails being the last.
pub(super) fn shell(commands: &str) {
    let status = Command::new("sh")
        .args(["-euc", commands])
        .status()
        .unwrap();
    assert!(status.success(), "{commands}: {status}");
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < STEP_TIMEOUT, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
