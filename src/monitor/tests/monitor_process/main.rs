//! Tests of the monitor with real processes: a shell script instead of virt-launcher, and `sleep` instead of QEMU. As
//! root the monitor is PID 1 of a new pid namespace, as in a pod.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod pod_with_scripted_launcher;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, geteuid};
use serde_json::Value;

use pod_with_scripted_launcher::{Pod, wait_for};

fn exists(path: &Path) -> Option<()> {
    path.exists().then_some(())
}

#[test]
fn arguments_and_exit_code_are_passed_through() {
    let pod = Pod::new("echo \"$@\" > arguments; exit 7");
    fs::write(pod.path("disks/disk_0.sock"), "").unwrap();
    fs::write(pod.path("disks/disk_0.img"), "").unwrap();
    let output = pod.run(&["--name", "vm", "--keep-after-failure=false", "--unknown"]);
    assert_eq!(output.status.code(), Some(7));
    let arguments = pod.read("arguments");
    assert!(arguments.ends_with("--name vm --unknown"), "{arguments}");
    assert!(!pod.path("disks/disk_0.sock").exists() && pod.path("disks/disk_0.img").exists());
}

#[test]
fn nothing_is_started_with_a_malformed_flag() {
    let pod = Pod::new("touch started");
    let output = pod.run(&["--keep-after-failure=yes"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!pod.path("started").exists());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("--keep-after-failure"), "{errors}");
}

#[test]
fn directories_of_another_launcher_are_not_cleaned_up() {
    let pod = Pod::new("exit 75");
    fs::write(pod.path("disks/disk_0.sock"), "").unwrap();
    fs::write(pod.path("passt.log"), "of the other one\n").unwrap();
    let output = pod.run(&[]);
    assert_eq!(output.status.code(), Some(75));
    assert!(pod.path("disks/disk_0.sock").exists());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("of the other one"), "{errors}");
}

#[test]
fn logs_are_dumped_only_after_a_failure() {
    for (code, is_dumped) in [(0, false), (3, true)] {
        let pod = Pod::new(&format!("exit {code}"));
        fs::write(pod.path("passt.log"), "passt says \"no\"\n").unwrap();
        let errors = String::from_utf8(pod.run(&[]).stderr).unwrap();
        assert_eq!(
            errors.contains(r#"passt says \"no\""#),
            is_dumped,
            "{errors}"
        );
        assert!(
            errors
                .lines()
                .all(|line| line.starts_with(r#"{"component":"virt-launcher-monitor""#)),
            "{errors}"
        );
    }
}

#[test]
fn first_signal_is_forwarded_once() {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::QUIT] {
        let pod = Pod::new(
            "trap 'echo asked >> asked' TERM\ntouch ready\nuntil [ -e stop ]; do sleep 0.02; done; exit 5",
        );
        let running = pod.start(&[]);
        wait_for("ready", || exists(&pod.path("ready")));
        running.signal(signal);
        wait_for("asked", || exists(&pod.path("asked")));
        running.signal(Signal::TERM);
        sleep(Duration::from_millis(200));
        fs::write(pod.path("stop"), "").unwrap();
        assert_eq!(running.end().0, Some(5));
        assert_eq!(pod.read("asked"), "asked", "{signal:?}");
    }
}

/// Starts QEMU as libvirt does: it is daemonised, and its parent ends.
const START_QEMU: &str = "cp \"$(command -v sleep)\" qemu-system-x86_64
(setsid ./qemu-system-x86_64 60 > qemu.out 2>&1 & echo $! > pid)
until [ \"$(awk '{print $4}' /proc/$(cat pid)/stat)\" = \"$PPID\" ]; do sleep 0.02; done
touch child";

#[test]
fn orphaned_qemu_is_adopted_and_ended() {
    let pod = Pod::new(&format!("{START_QEMU}\nexit 0"));
    let start = Instant::now();
    let (code, errors) = pod.start(&[]).end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(pod.path("child").exists());
    assert!(errors.contains("Killing QEMU gracefully."), "{errors}");
    assert!(
        start.elapsed() < Duration::from_secs(9),
        "SIGTERM ended it: {:?}",
        start.elapsed()
    );
}

#[test]
fn orphans_are_reaped_while_virt_launcher_runs() {
    let pod = Pod::new(
        "(sh -c 'echo $$ > orphan; exec sleep 0.1' &)
        until [ -s orphan ]; do sleep 0.02; done
        while [ -e /proc/$(cat orphan) ]; do sleep 0.02; done; exit 4",
    );
    assert_eq!(pod.run(&[]).status.code(), Some(4));
}

#[test]
fn killed_launcher_gives_128_plus_the_signal() {
    let pod = Pod::new("kill -KILL $$");
    assert_eq!(pod.run(&[]).status.code(), Some(137));
}

/// `--version` is virt-launcher's flag, so the monitor logs its own version.
#[test]
fn first_log_line_has_the_monitors_version() {
    let pod = Pod::new("echo $* > arguments");
    let errors = String::from_utf8(pod.run(&["--version"]).stderr).unwrap();
    let first: Value = serde_json::from_str(errors.lines().next().unwrap()).unwrap();
    let expected = format!("virt-launcher-monitor {}", env!("CARGO_PKG_VERSION"));
    assert!(
        first["msg"].as_str().unwrap().starts_with(&expected),
        "{first}"
    );
    assert!(pod.read("arguments").contains("--version"));
}

#[test]
fn missing_launcher_is_reported() {
    let pod = Pod::new("");
    fs::remove_file(pod.path("virt-launcher")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let output = pod.command(&[]).env("PATH", &path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed to run virt-launcher"));
}

#[test]
fn keep_after_failure_keeps_the_container_until_a_signal() {
    let pod = Pod::new("touch ended; exit 9");
    let mut running = pod.start(&["--keep-after-failure"]);
    wait_for("ended", || exists(&pod.path("ended")));
    sleep(Duration::from_millis(500));
    assert!(running.child.try_wait().unwrap().is_none());
    running.signal(Signal::TERM);
    let (code, errors) = running.end();
    assert_eq!(code, Some(9));
    assert!(errors.contains("--keep-after-failure is set"), "{errors}");
}

#[test]
fn cloud_init_image_is_removed_at_the_end_but_for_a_failure_that_is_to_be_examined() {
    for (code, arguments, is_kept) in [
        (0, &[][..], false),
        (3, &[], false),
        (0, &["--keep-after-failure"], false),
        (3, &["--keep-after-failure"], true),
        // Another launcher uses the directories.
        (75, &[], true),
    ] {
        let pod = Pod::new(&format!("touch ended; exit {code}"));
        let image = pod.path("ephemeral/cloud-init-data/default/vm/noCloud.iso");
        fs::create_dir_all(image.parent().unwrap()).unwrap();
        fs::write(&image, "user data").unwrap();
        let running = pod.start(arguments);
        wait_for("ended", || exists(&pod.path("ended")));
        if is_kept && code != 75 {
            sleep(Duration::from_millis(500));
            assert!(image.exists(), "{code} {arguments:?}");
            running.signal(Signal::TERM);
        }
        assert_eq!(running.end().0, Some(code));
        assert_eq!(image.exists(), is_kept, "{code} {arguments:?}");
    }
}

#[test]
fn launcher_may_bind_low_ports() {
    assert!(geteuid().is_root(), "needs root, as `make test` has it");
    let pod = Pod::new("grep CapAmb /proc/self/status > capabilities");
    assert!(pod.run(&[]).status.success());
    assert_eq!(pod.read("capabilities"), "CapAmb:\t0000000000000400");
}

#[test]
fn monitor_is_small_and_ends_at_once() {
    let pod = Pod::new("touch ready; until [ -e stop ]; do sleep 0.02; done; date +%s%N > ended");
    let running = pod.start(&[]);
    wait_for("ready", || exists(&pod.path("ready")));
    let status = fs::read_to_string(format!("/proc/{}/status", running.monitor())).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kilobytes: u32 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    fs::write(pod.path("stop"), "").unwrap();
    assert_eq!(running.end().0, Some(0));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let ended: u128 = pod.read("ended").parse().unwrap();
    let duration_ms = (now - ended) / 1_000_000;
    println!("resident {kilobytes} kB, {duration_ms} ms from virt-launcher's end to the monitor's");
    assert!(kilobytes <= 3 * 1024, "{kilobytes} kB");
    // 100 ms on an idle machine; here other tests run at the same time.
    assert!(duration_ms < 1000, "{duration_ms} ms");
}

/// What KubeVirt's masquerade does to Istio's port of a pod: what is sent there goes to the guest's device. Nobody reads it.
const SEND_TO_GUEST: &str = "ip link set lo up
ip tuntap add guest mode tap
ip link set guest up
echo 1 > /proc/sys/net/ipv4/conf/guest/route_localnet
ip neighbour add 127.0.0.1 lladdr 02:00:00:00:00:01 dev guest nud permanent
ip rule add preference 1 to 127.0.0.1 ipproto tcp dport 15021 lookup 100
ip rule add preference 2 lookup local
ip rule del preference 0
ip route add 127.0.0.1 dev guest table 100
exec \"$@\"";

#[test]
fn guest_that_gets_what_is_sent_to_localhost_does_not_delay_the_end() {
    if !geteuid().is_root() {
        println!("*** NOT TESTED: a pod's network rules: they need root ***");
        return;
    }
    let pod = Pod::new("touch ended");
    let monitor = pod.command(&[]);
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--mount", "sh", "-euc", SEND_TO_GUEST, "sh"])
        .arg(monitor.get_program())
        .args(monitor.get_args());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let ended = fs::metadata(pod.path("ended")).unwrap().modified().unwrap();
    let took = SystemTime::now().duration_since(ended).unwrap();
    // A connection to the guest would hang for 2 s.
    assert!(took < Duration::from_millis(1500), "{took:?}: {errors}");
}
