//! One row's two pods, what is done to them, and the second migration.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tests::binaries::target_dir;
use tests::install_hooks;
use tests::launcher_fixture::{BOOT, LauncherFixture, PreparedPod};
use tests::migration::{
    MIGRATION, MigrationPods, Proxies, SOURCE_POD, TARGET_POD, has_ended, migrating, migration_of,
    prepare_pod, stock_options,
};
use tests::pod::{LauncherUser, Process};
use tests::sidecar_server::Sidecar as GrpcSidecar;
use tests::virt_handler::{Answer, Event};
use tests::vmi_builder::Vmi;

use super::matrix_vocabulary::{
    Fault, MigrationRow, Moment, Refusal, Side, Sidecar, Target, Victim,
};
use super::sidecar_xml_rewrites;

/// So slow that the migration lasts longer than a row.
const SLOW_BANDWIDTH: &str = "1Mi";
/// Some seconds for the memory of a small guest.
const BRISK: &str = "20Mi";
/// What the proxies let through in post-copy, whatever QEMU is allowed: some seconds for the memory of a small guest.
const PROXIED: u64 = 10 << 20;
/// A module that is called now has not returned.
const HOOKS_BEGIN: Duration = Duration::from_millis(300);
/// The time between the end of a virt-handler and the next one.
const VIRT_HANDLER_AWAY: Duration = Duration::from_secs(2);
/// Room for an empty image, and not for what the guest has written.
const SMALL_DISK: &str = "mkdir -p /run/libvirt/empty-disks
    mount -t tmpfs -o size=6m,mode=2777,uid=107,gid=107 tmpfs /run/libvirt/empty-disks";
/// libvirt waits for its hook without a limit.
const HUNG_HOOK: &str = "#!/bin/sh\ncase \"$2\" in migrate) sleep 5; exit 1 ;; esac\nexit 0\n";

/// A VM that runs, and its launcher.
pub(crate) struct RunningVm {
    pub(crate) launcher: LauncherFixture,
    vmi: Vmi,
    /// The number of its host.
    host: u32,
}

/// The state of a row.
pub(crate) struct Trial {
    number: u32,
    pods: Option<MigrationPods>,
    vmi: Option<Vmi>,
    host: u32,
    proxies: Option<Proxies>,
    /// The notifications that each side had sent before this row.
    marks: [usize; 2],
    /// The target was not prepared, as the row expects.
    pub(crate) is_unprepared: bool,
    pub(crate) requested: bool,
    /// The source's FailureReason.
    pub(crate) reason: String,
    story: Option<String>,
}

impl Trial {
    pub(crate) fn new(number: u32) -> Trial {
        Trial {
            number,
            pods: None,
            vmi: None,
            host: 0,
            proxies: None,
            marks: [0, 0],
            is_unprepared: false,
            requested: false,
            reason: String::new(),
            story: None,
        }
    }

    /// Boots the VM if none runs, and starts a launcher for it to migrate to.
    pub(crate) async fn prepare(&mut self, vm: Option<RunningVm>, target: Target) -> Result<()> {
        let wanted = adapt(target, Vmi::new("moves", LauncherUser::Nonroot));
        let fits = |vm: &RunningVm| needs(&vm.vmi) == needs(&wanted);
        let vm = match vm.filter(fits) {
            Some(vm) => vm,
            None => self.boot(target).await?,
        };
        let host = match target {
            Target::SameHost => vm.host,
            _ => vm.host + 1,
        };
        let launcher = start_target(&vm.vmi, host, target).await?;
        self.marks = [vm.launcher.handler.events().len(), 0];
        (self.vmi, self.host) = (Some(vm.vmi), host);
        self.pods = Some(MigrationPods {
            source: vm.launcher,
            target: launcher,
        });
        Ok(())
    }

    async fn boot(&self, target: Target) -> Result<RunningVm> {
        let vmi = adapt(target, Vmi::new("moves", LauncherUser::Nonroot));
        let host = self.number * 100 + 1;
        let prepared = prepare_pod(LauncherUser::Nonroot, host, SOURCE_POD)?;
        let count = serve_sidecar(&prepared, &vmi)?;
        let launcher = prepared.start(&vmi, count).await?;
        launcher.boot_without_controller(&vmi).await?;
        launcher.wait_for_agent(&vmi).await?;
        if vmi.annotation(DISK).is_some() {
            fill_disk(&launcher, &vmi).await?;
        }
        Ok(RunningVm {
            launcher,
            vmi,
            host,
        })
    }

    pub(crate) fn pods(&mut self) -> Result<&mut MigrationPods> {
        self.pods.as_mut().context("no pods run")
    }

    pub(crate) fn vmi(&self) -> Result<&Vmi> {
        self.vmi.as_ref().context("no VM runs")
    }

    pub(crate) fn uid(&self) -> String {
        format!("4d4d0000-0000-4000-8000-{:012}", self.number * 10)
    }

    fn next_uid(&self) -> String {
        format!("4d4d0000-0000-4000-8000-{:012}", self.number * 10 + 1)
    }

    /// The migration up to the row's moment, and its faults.
    pub(crate) async fn play(&mut self, row: &MigrationRow) -> Result<()> {
        let (uid, vmi) = (self.uid(), self.vmi()?.clone());
        let pods = self.pods()?;
        let answer = pods.sync_target(&in_migration(&vmi, &uid)).await?;
        if let Some(Refusal::Preparation(reason)) = row.refusal {
            let is_expected = !answer.success && answer.message.contains(reason);
            ensure!(is_expected, "SyncMigrationTarget: {answer:?}");
            self.is_unprepared = true;
            return Ok(());
        }
        ensure!(answer.success, "SyncMigrationTarget: {}", answer.message);
        if row.target != Target::NoProxies {
            let limit = (row.moment == Moment::PostCopy).then_some(PROXIED);
            let (source, target) = (&pods.source.pod, &pods.target.pod);
            let proxies = Proxies::start_limited(source, target, vmi.uid(), limit)?;
            self.proxies = Some(proxies);
        }
        if row.moment == Moment::Prepared {
            self.apply(row.faults).await?;
            let mut options = options(row.moment);
            if row.target == Target::NoUserfaultfd {
                options["AllowPostCopy"] = json!(true);
            }
            self.request(&uid, options).await?.ok()?;
            self.requested = true;
            return Ok(());
        }
        self.request(&uid, options(row.moment)).await?.ok()?;
        self.requested = true;
        self.reach(row.moment)
            .await
            .with_context(|| format!("reaching {:?}", row.moment))?;
        self.apply(row.faults).await
    }

    async fn reach(&mut self, moment: Moment) -> Result<()> {
        let uid = self.uid();
        let marks = self.marks;
        let MigrationPods { source, target } = self.pods()?;
        let state = match moment {
            Moment::Prepared | Moment::Requested => return Ok(()),
            Moment::Hooks => {
                tokio::time::sleep(HOOKS_BEGIN).await;
                return Ok(());
            }
            Moment::Switch => {
                let handler = &source.handler;
                let stopped = handler.wait_for_state("Paused/Migration", marks[0], BOOT);
                return stopped.await.map(drop);
            }
            Moment::PostCopy => {
                let handler = &target.handler;
                let runs = |event: &Event| event.state().starts_with("Running/");
                let runs = handler.wait_for("the guest's run on the target", 0, BOOT, runs);
                return runs.await.map(drop);
            }
            Moment::Transfer | Moment::ShortTransfer => "Paused/Migration",
            Moment::Resumed => "Running/Unknown",
            Moment::Ended => {
                let ended = |event: &Event| has_ended(event, &uid);
                let handler = &source.handler;
                let end = handler.wait_for("the migration's end", marks[0], MIGRATION, ended);
                return end.await.map(drop);
            }
        };
        let told = target.handler.wait_for_state(state, 0, BOOT);
        told.await.map(drop)
    }

    async fn apply(&mut self, faults: &[Fault]) -> Result<()> {
        for fault in faults {
            self.apply_one(*fault)
                .await
                .with_context(|| format!("{fault:?}"))?;
        }
        Ok(())
    }

    async fn apply_one(&mut self, fault: Fault) -> Result<()> {
        let (uid, next, vmi) = (self.uid(), self.next_uid(), self.vmi()?.clone());
        match fault {
            Fault::Kill(side, victim) => self.signal(side, victim, Signal::KILL),
            Fault::Terminate(side) => self.signal(side, Victim::Launcher, Signal::TERM),
            Fault::Hang(side, victim, millis) => {
                self.signal(side, victim, Signal::STOP)?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                self.signal(side, victim, Signal::CONT)
            }
            Fault::CutProxies => {
                self.proxies.take();
                Ok(())
            }
            Fault::RestartVirtHandler(side) => {
                self.proxies.take();
                let pods = self.pods()?;
                let handler = match side {
                    Side::Source => &pods.source.handler,
                    Side::Target => &pods.target.handler,
                };
                handler.stop().await;
                tokio::time::sleep(VIRT_HANDLER_AWAY).await;
                handler.start().await;
                Ok(())
            }
            Fault::RepeatUid => self.request(&uid, options(Moment::Ended)).await?.ok(),
            Fault::OtherUid => {
                let answer = self.request(&next, options(Moment::Ended)).await?;
                ensure!(!answer.success, "another migration was accepted");
                Ok(())
            }
            Fault::Cancel => self.pods()?.cancel(&migrating(&vmi, &uid)).await?.ok(),
            Fault::CleanUp => {
                let answer = self.pods()?.clean_up_target(&migrating(&vmi, &uid)).await?;
                ensure!(answer.success, "{}", answer.message);
                Ok(())
            }
        }
    }

    async fn request(&mut self, uid: &str, options: Value) -> Result<Answer> {
        let vmi = in_migration(self.vmi()?, uid);
        self.pods()?.migrate(&vmi, &options).await
    }

    fn signal(&mut self, side: Side, victim: Victim, signal: Signal) -> Result<()> {
        let pod = &match side {
            Side::Source => &self.pods()?.source,
            Side::Target => &self.pods()?.target,
        }
        .pod;
        let process = match victim {
            Victim::Pod => return pod.signal(signal),
            Victim::Qemu => guest_of(&pod.processes()),
            Victim::Daemon => pod.daemon(),
            Victim::Launcher => pod.process("virt-launcher"),
        };
        let process = process.context("it does not run")?;
        Ok(kill_process(process.pid, signal)?)
    }

    /// A migration from where the VM runs to a new pod, which must succeed.
    pub(crate) async fn migrate_again(&mut self, side: Side) -> Result<RunningVm> {
        let vmi = self.vmi()?.clone();
        let (uid, host) = (self.next_uid(), self.host + 1);
        let MigrationPods { source, target } = self.pods.take().context("no pods run")?;
        let source = match side {
            Side::Source => ended(target, source),
            Side::Target => ended(source, target),
        };
        self.proxies.take();
        let mark = source.handler.events().len();
        let target = start_target(&vmi, host, Target::Plain).await?;
        self.pods = Some(MigrationPods { source, target });
        let again = self.succeed(&vmi, &uid, mark).await;
        again.context("the second migration")?;
        let MigrationPods { mut source, target } = self.pods.take().context("no pods run")?;
        source.commands.delete(&vmi).await?.ok()?;
        source.expect_exit_code(0).await?;
        source.pod.suppress_log();
        target.wait_for_agent(&vmi).await?;
        Ok(RunningVm {
            launcher: target,
            vmi,
            host,
        })
    }

    async fn succeed(&mut self, vmi: &Vmi, uid: &str, mark: usize) -> Result<()> {
        let pods = self.pods.as_ref().context("no pods run")?;
        let (migrating, options) = (in_migration(vmi, uid), options(Moment::Ended));
        let answer = pods.sync_target(&migrating).await?;
        ensure!(answer.success, "SyncMigrationTarget: {}", answer.message);
        let _proxies = Proxies::start(&pods.source.pod, &pods.target.pod, vmi.uid())?;
        pods.migrate(&migrating, &options).await?.ok()?;
        let ended = |event: &Event| has_ended(event, uid);
        let handler = &pods.source.handler;
        let end = handler.wait_for("the migration's end", mark, MIGRATION, ended);
        let end = end.await?;
        let record = migration_of(&end);
        ensure!(record["Failed"] != true, "{record}");
        pods.wait_for_any_target_end().await?;
        let answer = pods.finalize(&migrating).await?;
        ensure!(answer.success, "{}", answer.message);
        pods.target.commands.sync(vmi).await?.ok()
    }

    /// The source's notifications of this row, and the target's.
    pub(crate) fn events(&self) -> [Vec<Event>; 2] {
        let Some(pods) = &self.pods else {
            return [Vec::new(), Vec::new()];
        };
        let since = |launcher: &LauncherFixture, mark| {
            let events = launcher.handler.events();
            events.into_iter().skip(mark).collect()
        };
        [
            since(&pods.source, self.marks[0]),
            since(&pods.target, self.marks[1]),
        ]
    }

    /// The states that both sides' virt-handlers were told, without repetitions.
    pub(crate) fn told(&self) -> String {
        let [source, target] = self.events().map(|events| {
            let mut states: Vec<String> = events.iter().map(Event::state).collect();
            states.retain(|state| !state.is_empty());
            states.dedup();
            states.join(", ")
        });
        format!("[{source}] [{target}]")
    }

    /// Keeps what was told until now: what follows is the second migration's.
    pub(crate) fn keep_story(&mut self) {
        self.story = Some(self.told());
    }

    pub(crate) fn story(&self) -> String {
        self.story.clone().unwrap_or_else(|| self.told())
    }

    pub(crate) fn save_logs(&self, title: &str, error: &str) {
        let Some(pods) = &self.pods else { return };
        let name = title.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
        let directory = target_dir().join("faults");
        let sides = [("source", &pods.source), ("target", &pods.target)].map(|(side, one)| {
            format!("==== {side}\n{}\n{}", one.handler.history(), one.pod.log())
        });
        let path = directory.join(format!("{name}.log"));
        let text = format!("{error}\n\n{}\n{}", sides[0], sides[1]);
        if fs::create_dir_all(&directory).is_ok() && fs::write(&path, text).is_ok() {
            println!("     evidence in {}", path.display());
        }
    }

    pub(crate) fn suppress_logs(&mut self) {
        if let Some(pods) = &mut self.pods {
            pods.source.pod.suppress_log();
            pods.target.pod.suppress_log();
        }
    }
}

/// Drops the side that ended, and returns the other.
fn ended(mut gone: LauncherFixture, left: LauncherFixture) -> LauncherFixture {
    gone.pod.suppress_log();
    drop(gone);
    left
}

/// QEMU with a guest, not one that libvirt asks for its capabilities.
pub(crate) fn guest_of(processes: &[Process]) -> Option<Process> {
    let is_guest = |process: &&Process| {
        let path = format!("/proc/{}/cmdline", process.pid.as_raw_nonzero());
        process.name == "qemu-system-x86"
            && fs::read(path).is_ok_and(|line| line.windows(6).any(|part| part == b"guest="))
    };
    processes.iter().find(is_guest).cloned()
}

const ON_ARRIVAL: &str = "odd.example.com/on-arrival";
/// The VM has a disk of its own, with content.
const DISK: &str = "row.example.com/disk";
/// What the VM's gRPC sidecar does.
const SIDECAR: &str = "row.example.com/sidecar";
/// Its module does not return before a slow migration.
const SLOW_HOOK: &str = "row.example.com/slow-hook";
const RETYPES: &str = "retypes";
const APPENDS: &str = "appends";

/// What a VM must have for the row.
fn adapt(target: Target, vmi: Vmi) -> Vmi {
    match target {
        Target::OddHook(word) => vmi.annotate(ON_ARRIVAL, word),
        Target::FullDisk => vmi.annotate(DISK, "").empty_disk("scratch", "64Mi"),
        Target::Sidecar(Sidecar::Retypes) => vmi.annotate(SIDECAR, RETYPES),
        Target::Sidecar(Sidecar::Appends) => vmi.annotate(SIDECAR, APPENDS),
        Target::SlowHook => vmi.annotate(SLOW_HOOK, ""),
        _ => vmi,
    }
}

/// What distinguishes VMs of different rows.
fn needs(vmi: &Vmi) -> [Option<&str>; 4] {
    [ON_ARRIVAL, DISK, SIDECAR, SLOW_HOOK].map(|name| vmi.annotation(name))
}

/// As [`migrating`]; the disk of a VM that has one is copied.
fn in_migration(vmi: &Vmi, uid: &str) -> Vmi {
    let has_disk = vmi.annotation(DISK).is_some();
    migrating(vmi, uid).edit(|vmi| {
        if has_disk {
            vmi["status"]["migrationMethod"] = json!("BlockMigration");
        }
    })
}

/// Writes to the disk more than a full one takes.
async fn fill_disk(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let script = "for n in 1 2 3 4 5 6 7 8; do cat /bin/busybox; done >/dev/vda && sync";
    let arguments = ["-c", script];
    let answer = launcher.commands.exec(vmi, "/bin/sh", &arguments).await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    Ok(())
}

/// Starts the VM's gRPC sidecar or installs its module, if it has one. Returns the launcher's arguments.
fn serve_sidecar(prepared: &PreparedPod, vmi: &Vmi) -> Result<&'static [&'static str]> {
    if vmi.annotation(SLOW_HOOK).is_some() {
        let module = install_hooks::rust_hook("slow-migration-hook")?;
        install_hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", &module)?;
        return Ok(&["--hook-sidecars", "1"]);
    }
    let rewrite = match vmi.annotation(SIDECAR) {
        Some(RETYPES) => sidecar_xml_rewrites::retype,
        Some(_) => sidecar_xml_rewrites::append,
        None => return Ok(&[]),
    };
    let sidecar = GrpcSidecar::new("sidecar").on_define_domain(0, move |xml| Ok(rewrite(&xml)));
    let sidecar = sidecar.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    sidecar.keep();
    Ok(&["--hook-sidecars", "1"])
}

/// A launcher for a VM to arrive in.
async fn start_target(vmi: &Vmi, host: u32, target: Target) -> Result<LauncherFixture> {
    let prepared = prepare_pod(LauncherUser::Nonroot, host, TARGET_POD)?;
    let module = match target {
        Target::Veto => Some(install_hooks::example("required-label-hook")?),
        Target::OddHook(_) => Some(install_hooks::rust_hook("misbehaving-hook")?),
        _ => None,
    };
    if let Some(module) = &module {
        install_hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", module)?;
    }
    if target == Target::HungHook {
        let hook = prepared.pod.path("/etc/libvirt/hooks/qemu");
        fs::remove_file(&hook)?;
        prepared.pod.replace_program("hung-hook", HUNG_HOOK)?;
        prepared.pod.link_program("hung-hook", &hook)?;
    }
    match target {
        Target::FullDisk => prepared.pod.set_up_network(SMALL_DISK, "")?,
        Target::NoUserfaultfd => prepared.pod.hide_userfaultfd()?,
        _ => {}
    }
    let count = match module {
        Some(_) => &["--hook-sidecars", "1"],
        None => serve_sidecar(&prepared, vmi)?,
    };
    prepared.start(vmi, count).await
}

fn options(moment: Moment) -> Value {
    let mut options = stock_options();
    let bandwidth = match moment {
        Moment::Hooks | Moment::Transfer => SLOW_BANDWIDTH,
        Moment::ShortTransfer => BRISK,
        Moment::PostCopy => {
            options["CompletionTimeoutPerGiB"] = json!(1);
            options["AllowPostCopy"] = json!(true);
            options["AllowWorkloadDisruption"] = json!(true);
            "0"
        }
        Moment::Prepared | Moment::Requested | Moment::Switch | Moment::Resumed | Moment::Ended => {
            return options;
        }
    };
    options["Bandwidth"] = json!(bandwidth);
    options["ParallelMigrationThreads"] = Value::Null;
    options
}
