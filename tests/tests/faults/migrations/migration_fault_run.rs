//! Runs one migration row: the source and target pod, the faults, and the second migration.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tests::binaries::target_dir;
use tests::build_and_install_hooks as hooks;
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
    Fault, MigrationPhase, MigrationRow, Refusal, Side, Sidecar, Target, TargetProcess,
};
use super::sidecar_xml_rewrites;

/// At this bandwidth a migration lasts longer than a row.
const SLOW_BANDWIDTH: &str = "1Mi";
/// At this bandwidth the memory of the small guest takes some seconds.
const SHORT_TRANSFER_BANDWIDTH: &str = "20Mi";
/// Bytes per second through the proxies in post-copy: some seconds for the memory of the small guest.
const POST_COPY_PROXY_LIMIT: u64 = 10 << 20;
/// The time after the request at which the hooks of PreMigrationSource run.
const HOOK_CALL_DELAY: Duration = Duration::from_millis(300);
/// The time from virt-handler's end to its restart.
const VIRT_HANDLER_DOWNTIME: Duration = Duration::from_secs(2);
/// Mounts a file system with space for an empty image, but not for the blocks that the guest has written.
const SMALL_DISK: &str = "mkdir -p /run/libvirt/empty-disks
    mount -t tmpfs -o size=6m,mode=2777,uid=107,gid=107 tmpfs /run/libvirt/empty-disks";
/// A libvirt hook that hangs: libvirt waits for its hooks without a limit.
const HUNG_HOOK: &str = "#!/bin/sh\ncase \"$2\" in migrate) sleep 5; exit 1 ;; esac\nexit 0\n";

/// A VM that runs, and its launcher.
pub(crate) struct RunningVm {
    pub(crate) launcher: LauncherFixture,
    vmi: Vmi,
    /// The number of the simulated host.
    host: u32,
}

/// The state of a row.
pub(crate) struct RowRun {
    number: u32,
    pods: Option<MigrationPods>,
    vmi: Option<Vmi>,
    host: u32,
    proxies: Option<Proxies>,
    /// The number of notifications that the source and the target had sent before this row.
    first_event_index: [usize; 2],
    /// SyncMigrationTarget failed, as the row expects.
    pub(crate) target_refused: bool,
    pub(crate) requested: bool,
    /// The source's FailureReason.
    pub(crate) reason: String,
    reported_states: Option<String>,
}

impl RowRun {
    pub(crate) fn new(number: u32) -> RowRun {
        RowRun {
            number,
            pods: None,
            vmi: None,
            host: 0,
            proxies: None,
            first_event_index: [0, 0],
            target_refused: false,
            requested: false,
            reason: String::new(),
            reported_states: None,
        }
    }

    /// Boots the VM if none runs, and starts a launcher for it to migrate to.
    pub(crate) async fn prepare(&mut self, vm: Option<RunningVm>, target: Target) -> Result<()> {
        let required = configure_vmi(target, Vmi::new("moves", LauncherUser::Nonroot));
        let fits = |vm: &RunningVm| fixture_annotations(&vm.vmi) == fixture_annotations(&required);
        let vm = match vm.filter(fits) {
            Some(vm) => vm,
            None => self.boot(target).await?,
        };
        let host = match target {
            Target::SameHost => vm.host,
            _ => vm.host + 1,
        };
        let launcher = start_target(&vm.vmi, host, target).await?;
        self.first_event_index = [vm.launcher.handler.events().len(), 0];
        (self.vmi, self.host) = (Some(vm.vmi), host);
        self.pods = Some(MigrationPods {
            source: vm.launcher,
            target: launcher,
        });
        Ok(())
    }

    async fn boot(&self, target: Target) -> Result<RunningVm> {
        let vmi = configure_vmi(target, Vmi::new("moves", LauncherUser::Nonroot));
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

    /// Migrates up to the row's phase, and applies its faults.
    pub(crate) async fn run_until_fault(&mut self, row: &MigrationRow) -> Result<()> {
        let (uid, vmi) = (self.uid(), self.vmi()?.clone());
        let pods = self.pods()?;
        let answer = pods.sync_target(&in_migration(&vmi, &uid)).await?;
        if let Some(Refusal::Preparation(reason)) = row.refusal {
            let is_expected = !answer.success && answer.message.contains(reason);
            ensure!(is_expected, "SyncMigrationTarget: {answer:?}");
            self.target_refused = true;
            return Ok(());
        }
        ensure!(answer.success, "SyncMigrationTarget: {}", answer.message);
        if row.target != Target::NoProxies {
            let limit = (row.phase == MigrationPhase::PostCopy).then_some(POST_COPY_PROXY_LIMIT);
            let (source, target) = (&pods.source.pod, &pods.target.pod);
            let proxies = Proxies::start_limited(source, target, vmi.uid(), limit)?;
            self.proxies = Some(proxies);
        }
        if row.phase == MigrationPhase::Prepared {
            self.apply(row.faults).await?;
            let mut options = options(row.phase);
            if row.target == Target::NoUserfaultfd {
                options["AllowPostCopy"] = json!(true);
            }
            self.request(&uid, options).await?.ok()?;
            self.requested = true;
            return Ok(());
        }
        self.request(&uid, options(row.phase)).await?.ok()?;
        self.requested = true;
        self.wait_for_phase(row.phase)
            .await
            .with_context(|| format!("reaching {:?}", row.phase))?;
        self.apply(row.faults).await
    }

    async fn wait_for_phase(&mut self, phase: MigrationPhase) -> Result<()> {
        let uid = self.uid();
        let first_event_index = self.first_event_index;
        let MigrationPods { source, target } = self.pods()?;
        let state = match phase {
            MigrationPhase::Prepared | MigrationPhase::Requested => return Ok(()),
            MigrationPhase::Hooks => {
                tokio::time::sleep(HOOK_CALL_DELAY).await;
                return Ok(());
            }
            MigrationPhase::Switchover => {
                let handler = &source.handler;
                let stopped =
                    handler.wait_for_state("Paused/Migration", first_event_index[0], BOOT);
                return stopped.await.map(drop);
            }
            MigrationPhase::PostCopy => {
                let handler = &target.handler;
                let runs = |event: &Event| event.state().starts_with("Running/");
                let runs = handler.wait_for("the guest's run on the target", 0, BOOT, runs);
                return runs.await.map(drop);
            }
            MigrationPhase::Transfer | MigrationPhase::ShortTransfer => "Paused/Migration",
            MigrationPhase::Resumed => "Running/Unknown",
            MigrationPhase::Ended => {
                let ended = |event: &Event| has_ended(event, &uid);
                let handler = &source.handler;
                let end = handler.wait_for(
                    "the migration's end",
                    first_event_index[0],
                    MIGRATION,
                    ended,
                );
                return end.await.map(drop);
            }
        };
        let reported = target.handler.wait_for_state(state, 0, BOOT);
        reported.await.map(drop)
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
            Fault::Kill(side, process) => self.signal(side, process, Signal::KILL),
            Fault::Terminate(side) => self.signal(side, TargetProcess::Launcher, Signal::TERM),
            Fault::Hang(side, process, millis) => {
                self.signal(side, process, Signal::STOP)?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                self.signal(side, process, Signal::CONT)
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
                tokio::time::sleep(VIRT_HANDLER_DOWNTIME).await;
                handler.start().await;
                Ok(())
            }
            Fault::RepeatUid => self
                .request(&uid, options(MigrationPhase::Ended))
                .await?
                .ok(),
            Fault::OtherUid => {
                let answer = self.request(&next, options(MigrationPhase::Ended)).await?;
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

    fn signal(&mut self, side: Side, target_process: TargetProcess, signal: Signal) -> Result<()> {
        let pod = &match side {
            Side::Source => &self.pods()?.source,
            Side::Target => &self.pods()?.target,
        }
        .pod;
        let process = match target_process {
            TargetProcess::Pod => return pod.signal(signal),
            TargetProcess::Qemu => find_guest_qemu(&pod.processes()),
            TargetProcess::Daemon => pod.daemon(),
            TargetProcess::Launcher => pod.process("virt-launcher"),
        };
        let process = process.context("the process does not run")?;
        Ok(kill_process(process.pid, signal)?)
    }

    /// Migrates from the side that runs the VM to a new pod, which must succeed.
    pub(crate) async fn migrate_again(&mut self, side: Side) -> Result<RunningVm> {
        let vmi = self.vmi()?.clone();
        let (uid, host) = (self.next_uid(), self.host + 1);
        let MigrationPods { source, target } = self.pods.take().context("no pods run")?;
        let source = match side {
            Side::Source => drop_ended(target, source),
            Side::Target => drop_ended(source, target),
        };
        self.proxies.take();
        let first_event_index = source.handler.events().len();
        let target = start_target(&vmi, host, Target::Plain).await?;
        self.pods = Some(MigrationPods { source, target });
        let result = self.succeed(&vmi, &uid, first_event_index).await;
        result.context("the second migration")?;
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

    async fn succeed(&mut self, vmi: &Vmi, uid: &str, first_event_index: usize) -> Result<()> {
        let pods = self.pods.as_ref().context("no pods run")?;
        let (migrating, options) = (in_migration(vmi, uid), options(MigrationPhase::Ended));
        let answer = pods.sync_target(&migrating).await?;
        ensure!(answer.success, "SyncMigrationTarget: {}", answer.message);
        let _proxies = Proxies::start(&pods.source.pod, &pods.target.pod, vmi.uid())?;
        pods.migrate(&migrating, &options).await?.ok()?;
        let ended = |event: &Event| has_ended(event, uid);
        let handler = &pods.source.handler;
        let end = handler.wait_for("the migration's end", first_event_index, MIGRATION, ended);
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
        let since = |launcher: &LauncherFixture, first_event_index| {
            let events = launcher.handler.events();
            events.into_iter().skip(first_event_index).collect()
        };
        [
            since(&pods.source, self.first_event_index[0]),
            since(&pods.target, self.first_event_index[1]),
        ]
    }

    /// The states that both launchers have reported to virt-handler, without repetitions.
    pub(crate) fn current_states(&self) -> String {
        let [source, target] = self.events().map(|events| {
            let mut states: Vec<String> = events.iter().map(Event::state).collect();
            states.retain(|state| !state.is_empty());
            states.dedup();
            states.join(", ")
        });
        format!("[{source}] [{target}]")
    }

    /// Saves the states that were reported until now, before the second migration reports more.
    pub(crate) fn save_reported_states(&mut self) {
        self.reported_states = Some(self.current_states());
    }

    pub(crate) fn reported_states(&self) -> String {
        self.reported_states
            .clone()
            .unwrap_or_else(|| self.current_states())
    }

    pub(crate) fn save_logs(&self, title: &str, error: &str) {
        let Some(pods) = &self.pods else { return };
        let name = title.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
        let directory = target_dir().join("faults");
        let sides = [("source", &pods.source), ("target", &pods.target)].map(|(side, launcher)| {
            format!(
                "==== {side}\n{}\n{}",
                launcher.handler.history(),
                launcher.pod.log()
            )
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

/// Drops the side that ended, and returns the survivor.
fn drop_ended(mut ended: LauncherFixture, survivor: LauncherFixture) -> LauncherFixture {
    ended.pod.suppress_log();
    drop(ended);
    survivor
}

/// The QEMU process of the guest, not one that libvirt starts to probe capabilities.
pub(crate) fn find_guest_qemu(processes: &[Process]) -> Option<Process> {
    let is_guest = |process: &&Process| {
        let path = format!("/proc/{}/cmdline", process.pid.as_raw_nonzero());
        process.name == "qemu-system-x86"
            && fs::read(path).is_ok_and(|line| line.windows(6).any(|part| part == b"guest="))
    };
    processes.iter().find(is_guest).cloned()
}

const ON_ARRIVAL: &str = "misbehaving.example.com/on-arrival";
/// The VM has a disk with content.
const DISK: &str = "row.example.com/disk";
/// The XML rewrite of the VM's gRPC sidecar.
const SIDECAR: &str = "row.example.com/sidecar";
/// The VM's module does not return from PreMigrationSource before a slow migration.
const SLOW_HOOK: &str = "row.example.com/slow-hook";
const REWRITE_TYPES: &str = "rewrite-types";
const APPEND_ELEMENT: &str = "append-element";

/// Adds the disks and annotations that the row needs to the VMI.
fn configure_vmi(target: Target, vmi: Vmi) -> Vmi {
    match target {
        Target::MisbehavingHook(word) => vmi.annotate(ON_ARRIVAL, word),
        Target::FullDisk => vmi.annotate(DISK, "").empty_disk("scratch", "64Mi"),
        Target::Sidecar(Sidecar::RewriteTypes) => vmi.annotate(SIDECAR, REWRITE_TYPES),
        Target::Sidecar(Sidecar::AppendElement) => vmi.annotate(SIDECAR, APPEND_ELEMENT),
        Target::SlowHook => vmi.annotate(SLOW_HOOK, ""),
        _ => vmi,
    }
}

/// The annotations by which VMs of different rows differ.
fn fixture_annotations(vmi: &Vmi) -> [Option<&str>; 4] {
    [ON_ARRIVAL, DISK, SIDECAR, SLOW_HOOK].map(|name| vmi.annotation(name))
}

/// As [`migrating`], with block migration if the VM has a disk.
fn in_migration(vmi: &Vmi, uid: &str) -> Vmi {
    let has_disk = vmi.annotation(DISK).is_some();
    migrating(vmi, uid).edit(|vmi| {
        if has_disk {
            vmi["status"]["migrationMethod"] = json!("BlockMigration");
        }
    })
}

/// Writes more to the disk than the full file system of the target can hold.
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
        let module = hooks::rust_hook("slow-migration-hook")?;
        hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", &module)?;
        return Ok(&["--hook-sidecars", "1"]);
    }
    let rewrite = match vmi.annotation(SIDECAR) {
        Some(REWRITE_TYPES) => sidecar_xml_rewrites::rewrite_types,
        Some(_) => sidecar_xml_rewrites::append_element,
        None => return Ok(&[]),
    };
    let sidecar = GrpcSidecar::new("sidecar").on_define_domain(0, move |xml| Ok(rewrite(&xml)));
    let sidecar = sidecar.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    sidecar.keep();
    Ok(&["--hook-sidecars", "1"])
}

/// Starts the target's launcher.
async fn start_target(vmi: &Vmi, host: u32, target: Target) -> Result<LauncherFixture> {
    let prepared = prepare_pod(LauncherUser::Nonroot, host, TARGET_POD)?;
    let module = match target {
        Target::Veto => Some(hooks::example("required-label-hook")?),
        Target::MisbehavingHook(_) => Some(hooks::rust_hook("misbehaving-hook")?),
        _ => None,
    };
    if let Some(module) = &module {
        hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", module)?;
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

fn options(phase: MigrationPhase) -> Value {
    let mut options = stock_options();
    let bandwidth = match phase {
        MigrationPhase::Hooks | MigrationPhase::Transfer => SLOW_BANDWIDTH,
        MigrationPhase::ShortTransfer => SHORT_TRANSFER_BANDWIDTH,
        MigrationPhase::PostCopy => {
            options["CompletionTimeoutPerGiB"] = json!(1);
            options["AllowPostCopy"] = json!(true);
            options["AllowWorkloadDisruption"] = json!(true);
            "0"
        }
        MigrationPhase::Prepared
        | MigrationPhase::Requested
        | MigrationPhase::Switchover
        | MigrationPhase::Resumed
        | MigrationPhase::Ended => {
            return options;
        }
    };
    options["Bandwidth"] = json!(bandwidth);
    options["ParallelMigrationThreads"] = Value::Null;
    options
}
