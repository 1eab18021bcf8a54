//! The driver contract on real QEMU: a session daemon of the test's own, in private namespaces.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

mod driver_contract;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use driver_contract::domain_lifecycle::{self, Driver};
use driver_contract::memory_dump_contract;
use driver_contract::{Recorder, wait_until};
use libvirt::{
    BlockSize, CloseReason, DestroyMode, Domain, DomainState, Event, HypervisorConnection,
    LifecycleEvent, Reason, StartOptions, State, UndefineOptions,
};

const UID: u32 = 107;
const XML: &str = "<domain type='qemu'>
  <name>default_vm</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
    </channel>
    <memballoon model='virtio'/>
  </devices>
</domain>";

/// A daemon in namespaces of its own; everything in it ends with its first process.
struct Pod {
    first: Child,
    root: tempfile::TempDir,
}

impl Pod {
    fn start() -> Option<Pod> {
        let daemon = ["/usr/sbin/virtqemud", "/usr/sbin/libvirtd"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let run = root.path().join("run");
        fs::create_dir_all(run.join("libvirt")).unwrap();
        fs::write(run.join("libvirt/qemu.conf"), "stdio_handler = \"file\"\n").unwrap();
        for path in [run.clone(), run.join("libvirt")] {
            chown(&path, Some(UID), Some(UID)).unwrap();
        }
        let first = Command::new("unshare")
            .args(["-m", "-p", "-f", "--kill-child", "--mount-proc"])
            // A first process that reaps, since libvirt waits for the QEMUs it probes, and that
            // keeps its user: changing that would undo --kill-child.
            .args(["sh", "-c"])
            .arg("setpriv --reuid=107 --regid=107 --clear-groups \"$0\" & wait")
            .arg(daemon)
            .envs(["XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, &run)))
            .env_remove("XDG_DATA_HOME")
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .stderr(Stdio::from(
                fs::File::create(root.path().join("stderr")).unwrap(),
            ))
            .spawn()
            .ok()?;
        Some(Pod { first, root })
    }

    /// The daemon's socket, once it takes connections: it is there a while before that.
    fn socket(&self) -> PathBuf {
        let directory = self.root.path().join("run/libvirt");
        let sockets = ["virtqemud-sock", "libvirt-sock"].map(|name| directory.join(name));
        let listening = || {
            sockets
                .iter()
                .find(|path| UnixStream::connect(path).is_ok())
        };
        wait_until("the daemon listens", || listening().is_some());
        listening().unwrap().clone()
    }

    fn connect(&self) -> Arc<dyn HypervisorConnection> {
        let uri = format!("qemu+unix:///session?socket={}", self.socket().display());
        libvirt::connect(&uri).unwrap()
    }

    /// The QEMU process, by the directory that its command line names.
    fn qemu(&self) -> String {
        let root = self.root.path().to_str().unwrap();
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .find(|pid| {
                let state = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let state = String::from_utf8_lossy(&state);
                state.contains("guest=default_vm") && state.contains(root)
            })
            .unwrap()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

/// Without root, QEMU or a daemon the test fails: a test that tests nothing must not pass.
fn pod() -> Pod {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let qemu = Path::new("/usr/bin/qemu-system-x86_64").exists();
    (root && qemu).then(Pod::start).flatten().expect(
        "this needs root, qemu-system-x86_64 and virtqemud or libvirtd: 'make test' sets it up",
    )
}

#[test]
fn real_qemu_keeps_the_domain_contract() {
    let pod = pod();
    let hypervisor = pod.connect();
    assert!(hypervisor.qemu_version().unwrap() > libvirt::Version(5_000_000));
    let driver = Driver {
        xml: XML.into(),
        start_paused: true,
        obeys_shutdown: false,
        refusals: &[libvirt::code::OPERATION_INVALID],
        events: domain_lifecycle::QEMU,
    };
    domain_lifecycle::check(&*hypervisor, &driver);
    check_associated_fds_and_disk_resize(&pod, &*hypervisor);
    check_qemu_killed(&pod, &*hypervisor);
    check_daemon_end(pod, &*hypervisor);
}

/// The guest has enough memory for the dump to last while the daemon is queried.
#[test]
fn real_qemu_keeps_the_memory_dump_contract() {
    let pod = pod();
    let hypervisor = pod.connect();
    let directory = pod.root.path().join("dumps");
    fs::create_dir(&directory).unwrap();
    chown(&directory, Some(UID), Some(UID)).unwrap();
    let xml = XML.replace("<memory unit='MiB'>64<", "<memory unit='MiB'>512<");
    memory_dump_contract::check(&*hypervisor, &xml, &directory, || {});
}

fn disk(source: &str, target: &str) -> String {
    format!(
        "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source {source}/>\
        <target dev='{target}' bus='virtio'/></disk>"
    )
}

/// One disk whose image only this process can open, and one that is resized while the guest runs.
fn check_associated_fds_and_disk_resize(pod: &Pod, hypervisor: &dyn HypervisorConnection) {
    const MIB: u64 = 1 << 20;
    let recorder = Recorder::on(hypervisor, domain_lifecycle::NAME);
    let lent = tempfile::tempfile().unwrap();
    let plain = pod.root.path().join("plain.img");
    for file in [&lent, &fs::File::create(&plain).unwrap()] {
        file.set_len(MIB).unwrap();
    }
    chown(&plain, Some(UID), Some(UID)).unwrap();
    let disks = disk("file='/nowhere/lent.img' fdgroup='lent'", "vda")
        + &disk(&format!("file='{}'", plain.display()), "vdb");
    let xml = XML.replace("</devices>", &format!("{disks}</devices>"));
    let domain = hypervisor.define(&xml).unwrap();
    let refusal = domain.start(StartOptions::PAUSED).unwrap_err();
    assert!(refusal.message.contains("'lent'"), "{refusal}");
    domain.associate_fds("lent", &[lent.as_fd()]).unwrap();
    domain.start(StartOptions::PAUSED).unwrap();
    let path = plain.to_str().unwrap();
    let capacity = || {
        domain
            .block_infos()
            .unwrap()
            .get(path)
            .map(|info| info.capacity)
    };
    assert_eq!(capacity(), Some(MIB));
    assert!(domain.disk_errors().unwrap().is_empty(), "both disks work");
    domain
        .resize_block("vdb", BlockSize::Bytes(2 * MIB))
        .unwrap();
    assert_eq!(capacity(), Some(2 * MIB));
    assert_eq!(fs::metadata(&plain).unwrap().len(), 2 * MIB);
    let refusal = domain.resize_block("vdc", BlockSize::Device).unwrap_err();
    assert!(refusal.message.contains("vdc"), "{refusal}");
    domain.destroy(DestroyMode::Forceful).unwrap();
    undefine(&*domain, &recorder);
}

/// Undefines the domain and waits for that event, so that the next recorder does not receive it.
fn undefine(domain: &dyn Domain, recorder: &Recorder) {
    domain.undefine(UndefineOptions::KEEP).unwrap();
    let check_undefine = recorder.first(|event| match event {
        Event::Lifecycle { event, .. } => (*event == LifecycleEvent::Undefined).then_some(()),
        _ => None,
    });
    check_undefine.expect("an event of the undefinition");
}

fn check_qemu_killed(pod: &Pod, hypervisor: &dyn HypervisorConnection) {
    let recorder = Recorder::on(hypervisor, domain_lifecycle::NAME);
    let domain = hypervisor.define(XML).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
    let stats = domain.stats().unwrap().unwrap();
    assert_eq!(stats.vcpus.len(), 1);
    assert_eq!(stats.memory.total, Some(64 * 1024));
    assert!(stats.memory.rss.is_some() && stats.cpu.time.is_some());
    assert_eq!(stats.cpu_map.as_ref().map(Vec::len), Some(1));
    Command::new("kill")
        .args(["-9", &pod.qemu()])
        .status()
        .unwrap();
    assert_eq!(
        recorder.lifecycle(4),
        [
            "Defined Added",
            "Resumed Unpaused",
            "Started Booted",
            "Stopped Failed"
        ]
    );
    let crashed = State::new(DomainState::Shutoff, Reason::Crashed);
    assert_eq!(domain.state().unwrap(), crashed);
    undefine(&*domain, &recorder);
}

/// The daemon is killed while connections are opened and closed and events are under way: calls end
/// with an error, and nothing crashes.
#[test]
fn calls_fail_cleanly_when_the_daemon_is_killed() {
    for round in 0..4 {
        let pod = pod();
        let uri = format!("qemu+unix:///session?socket={}", pod.socket().display());
        let killed = Arc::new(AtomicBool::new(false));
        let users: Vec<_> = (0..3)
            .map(|user| {
                let (uri, killed) = (uri.clone(), Arc::clone(&killed));
                thread::spawn(move || {
                    while !killed.load(Relaxed) {
                        connect_and_define(&uri, user);
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(400 + 37 * round));
        drop(pod);
        thread::sleep(Duration::from_millis(100));
        killed.store(true, Relaxed);
        for user in users {
            user.join().unwrap();
        }
        assert!(libvirt::connect(&uri).is_err());
    }
}

/// Every call may fail.
fn connect_and_define(uri: &str, user: usize) {
    let Ok(hypervisor) = libvirt::connect(uri) else {
        return;
    };
    let (sender, _events) = std::sync::mpsc::channel();
    let subscription = hypervisor.subscribe(Box::new(move |event| drop(sender.send(event))));
    let name = format!("default_vm{user}");
    if let Ok(domain) = hypervisor.define(&XML.replace("default_vm", &name)) {
        let _ = domain.undefine(UndefineOptions::KEEP);
    }
    drop(subscription);
}

fn check_daemon_end(pod: Pod, hypervisor: &dyn HypervisorConnection) {
    let recorder = Recorder::on(hypervisor, domain_lifecycle::NAME);
    drop(pod);
    let reason = recorder.first(|event| match event {
        Event::ConnectionClosed { reason } => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, Some(CloseReason::Eof));
    assert!(!hypervisor.is_alive());
    assert!(hypervisor.lookup(domain_lifecycle::NAME).is_err());
}
