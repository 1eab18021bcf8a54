//! WASM hooks and gRPC sidecars in one chain, a veto, and a sync that is cancelled during a hook.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{BOOT_TIMEOUT, PreparedPod};
use tests::pod::LauncherUser;
use tests::sidecar_server::Sidecar;
use tests::vmi_builder::Vmi;

const MANUFACTURER: &str = "Radical Edward";

fn vmi(name: &str) -> Vmi {
    Vmi::new(name, LauncherUser::Nonroot)
        .annotate("smbios.vm.kubevirt.io/baseBoardManufacturer", MANUFACTURER)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sidecars_and_modules_run_in_one_order_and_reach_the_guest() -> Result<()> {
    let vmi = vmi("chain").cloud_init("#cloud-config\nhostname: chain\n");
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let hooks_dir = prepared.pod.hooks_dir()?;
    let first = Sidecar::new("first")
        .versions(&["v1alpha1"])
        .on_define_domain(100, |xml| match xml.contains(MANUFACTURER) {
            true => Err("the module ran before the hook of higher priority".into()),
            // As a script does with `sed`.
            false if xml.contains("<baseBoard></baseBoard>") => Ok(xml),
            false => Err(format!("this is not the text that KubeVirt writes: {xml}")),
        });
    let last = Sidecar::new("last")
        .on_define_domain(-100, |xml| match xml.contains(MANUFACTURER) {
            true => Ok(xml.replace(MANUFACTURER, "Radical Edward and friends")),
            false => Err("the module's change did not reach the hook of lower priority".into()),
        })
        .pre_cloud_init_iso(-100, |json| {
            let mut data: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
            let user_data = data["UserData"].as_str().unwrap_or_default().to_owned();
            data["UserData"] = format!("{user_data}# from the sidecar\n").into();
            Ok(data.to_string())
        })
        .shutdown(0);
    let first = first.serve(&hooks_dir, "hook-sidecar-0")?;
    hooks::install(
        &hooks_dir,
        "hook-sidecar-1",
        &hooks::example("smbios-hook")?,
    )?;
    // A standing hook is not counted by --hook-sidecars.
    let standing = "/run/standing-hooks";
    hooks::install(
        &prepared.pod.path(standing),
        "hook-sidecar-2",
        &hooks::example("cloud-init-hook")?,
    )?;
    let last = last.serve(&hooks_dir, "hook-sidecar-3")?;

    let arguments = ["--hook-sidecars", "3", "--standing-hooks-dir", standing];
    let fixture = prepared.start(&vmi, &arguments).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    let console = fixture.pod.console(&vmi);
    assert!(
        console.has_reported("board_vendor: Radical Edward and friends"),
        "{}",
        console.text()
    );
    assert!(
        console.has_reported("user-data: # from the sidecar"),
        "{}",
        console.text()
    );
    assert!(
        console.has_reported("user-data: hostname: chain"),
        "{}",
        console.text()
    );
    let applied = || -> Vec<String> {
        let events = fixture.handler.events();
        let events = events
            .iter()
            .filter(|event| event.kubernetes_reason() == Some("HookApplied"));
        events.map(|event| event.to_string()).collect()
    };
    let published = async || (applied().len() >= 4).then_some(());
    tests::wait_until(
        "an event per hook",
        tests::launcher_fixture::EVENT_TIMEOUT,
        published,
    )
    .await?;
    let applied = applied();
    assert_eq!(applied.len(), 4, "one per hook and boot: {applied:#?}");
    for (number, part, changes) in [
        (0, "first (sidecar)", false),
        (1, "(sha256:", true),
        (2, "(sha256:", true),
        (3, "last (sidecar)", true),
    ] {
        let start = format!("Kubernetes event HookApplied: hook hook-sidecar-{number}: ");
        let event = applied.iter().find(|event| event.starts_with(&start));
        let event = event.unwrap_or_else(|| panic!("{start}: {applied:#?}"));
        assert!(
            event.contains(part) && event.contains(" changed "),
            "{event}"
        );
        assert_eq!(!event.ends_with(" changed 0 paths"), changes, "{event}");
    }
    let entries = fixture.pod.log_entries().into_iter();
    let lines: Vec<Value> = entries
        .filter(|entry| entry["msg"] == "hook statistics" && entry["hook"] == "hook-sidecar-1")
        .collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["phase"], "started", "{lines:#?}");
    assert_eq!(lines[0]["outcomes"], "ok=1", "{lines:#?}");
    assert!(lines[0]["compile_micros"].is_number(), "{lines:#?}");
    fixture.end_vm(&vmi).await?;
    assert_eq!(first.calls(), ["v1alpha1 OnDefineDomain"], "once per boot");
    assert_eq!(
        last.calls(),
        [
            "v1alpha3 PreCloudInitIso",
            "v1alpha3 OnDefineDomain",
            "v1alpha3 Shutdown"
        ]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_veto_leaves_no_domain_and_a_retry_calls_the_hook_again() -> Result<()> {
    let vmi = vmi("refused");
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let call_count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&call_count);
    let sidecar = Sidecar::new("gate").on_define_domain(0, move |xml| {
        match counter.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err("not on a Monday".into()),
            _ => Ok(xml),
        }
    });
    let _sidecar = sidecar.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    let fixture = prepared.start(&vmi, &["--hook-sidecars", "1"]).await?;
    for _ in 0..2 {
        let answer = fixture.commands.sync(&vmi).await?;
        assert!(!answer.success, "{answer:?}");
        assert!(answer.message.contains("not on a Monday"), "{answer:?}");
        assert!(
            answer.message.contains("hook-sidecar-0") || answer.message.contains("gate"),
            "{answer:?}"
        );
        assert_eq!(fixture.commands.domain().await?, Value::Null);
    }
    assert!(
        fixture.handler.states().is_empty(),
        "{}",
        fixture.handler.history()
    );
    let warnings = fixture
        .handler
        .events()
        .iter()
        .filter_map(|event| event.kubernetes_reason().map(str::to_owned))
        .count();
    assert_eq!(
        warnings,
        1,
        "the same failure is reported once: {}",
        fixture.handler.history()
    );
    fixture.boot(&vmi).await?;
    assert_eq!(call_count.load(Ordering::SeqCst), 3);
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_sync_continues_and_the_next_joins_it() -> Result<()> {
    let vmi = vmi("cancelled");
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let sidecar = Sidecar::new("slow").on_define_domain(0, |xml| {
        std::thread::sleep(Duration::from_millis(1500));
        Ok(xml)
    });
    let sidecar = sidecar.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    let fixture = prepared.start(&vmi, &["--hook-sidecars", "1"]).await?;
    let cancelled =
        tokio::time::timeout(Duration::from_millis(300), fixture.commands.sync(&vmi)).await;
    assert!(
        cancelled.is_err(),
        "the hook takes longer than that: {cancelled:?}"
    );
    let (second, third) = tokio::join!(fixture.commands.sync(&vmi), fixture.commands.sync(&vmi));
    second?.accepted()?;
    third?.accepted()?;
    fixture
        .handler
        .wait_for_state("Running/Unknown", 0, BOOT_TIMEOUT)
        .await?;
    assert_eq!(sidecar.calls(), ["v1alpha3 OnDefineDomain"]);
    let added = fixture
        .handler
        .states()
        .iter()
        .filter(|state| state.starts_with("ADDED"))
        .count();
    assert_eq!(added, 1, "{}", fixture.handler.history());
    fixture.end_vm(&vmi).await
}
