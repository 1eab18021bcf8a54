//! Lets a test run itself again, in a network namespace that is the pod and in one that is the guest.

use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::STEP_TIMEOUT;

/// The environment variable with the side on which the test runs.
const SIDE_VARIABLE: &str = "TEST_NETWORK_NAMESPACE";
/// The environment variable with the name of the test.
const NAME_VARIABLE: &str = "TEST_NETWORK_NAME";

/// Where the test runs.
pub(super) enum Side {
    /// The namespace in which the test was started. The other sides have succeeded.
    Outside,
    /// The pod's namespace.
    Pod,
    /// The guest's namespace, with its link up.
    Guest,
}

/// The side on which this process runs. On the outside, first runs the test called `name` in a pod.
pub(super) fn side(name: &str) -> Side {
    match env::var(SIDE_VARIABLE).as_deref() {
        Ok("pod") => Side::Pod,
        Ok("guest") => {
            wait_until("the guest's link", || {
                fs::exists("/proc/sys/net/ipv4/conf/guest0").unwrap_or(false)
            });
            shell(
                "ip link set guest0 up
                 echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/guest0/rp_filter",
            );
            Side::Guest
        }
        _ => {
            require_success("pod", rerun_test("pod", name));
            Side::Outside
        }
    }
}

/// Starts this test again in a new network namespace, and without root also in a new user namespace.
fn rerun_test(role: &str, name: &str) -> Child {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.arg("--map-root-user");
    }
    unshare
        .arg("--net")
        .arg(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(SIDE_VARIABLE, role), (NAME_VARIABLE, name)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the process has ended, and requires that its test has passed. The exit code is not enough: it is 0 also
/// if no test has this name.
fn require_success(role: &str, child: Child) {
    let output = child.wait_with_output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    let has_passed = output.status.success() && output_text.contains("1 passed");
    assert!(has_passed, "in the {role}: {} {output_text}", output.status);
}

/// Runs the pod's side of the test.
pub(super) fn run(pod: impl AsyncFnOnce(Guest)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(pod(Guest));
}

/// The guest, whose side of the test starts when it gets its link.
pub(super) struct Guest;

impl Guest {
    /// Starts the guest's side, gives it the link, and requires that it passes.
    pub(super) async fn plug(self, link: &str) {
        let link = link.to_owned();
        let guest = move || {
            let child = rerun_test("guest", &env::var(NAME_VARIABLE).unwrap());
            let namespace =
                |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
            let id = child.id().to_string();
            wait_until("the guest's namespace", || {
                namespace(&id) != namespace("self")
            });
            shell(&format!("ip link set {link} netns {id}"));
            require_success("guest", child);
        };
        tokio::task::spawn_blocking(guest).await.unwrap();
    }
}

/// A link's index.
pub(super) fn index(link: &str) -> u32 {
    let text = fs::read_to_string("/proc/self/net/if_inet6").unwrap();
    let line = text.lines().find(|line| line.ends_with(link)).unwrap();
    u32::from_str_radix(line.split(' ').nth(1).unwrap(), 16).unwrap()
}

/// Runs shell commands, which must succeed.
pub(super) fn shell(commands: &str) {
    let status = Command::new("sh")
        .args(["-euc", commands])
        .status()
        .unwrap();
    assert!(status.success(), "{commands}: {status}");
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < STEP_TIMEOUT, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
