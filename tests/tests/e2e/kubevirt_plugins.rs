//! KubeVirt's Plugins, which run after the hooks: a served module, a gRPC sidecar, and plugins that cannot be called.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::binaries::binary;
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::PreparedPod;
use tests::pod::LauncherUser;
use tests::sidecar_server::Sidecar;
use tests::vmi_builder::Vmi;

use super::virt_hook_serve_process::VirtHookServe;

const MANUFACTURER: &str = "Radical Edward";
const PLUGINS_DIRECTORY: &str = "/var/run/kubevirt-plugin";

fn vmi(name: &str) -> Vmi {
    Vmi::new(name, LauncherUser::Nonroot)
        .annotate("smbios.vm.kubevirt.io/baseBoardManufacturer", MANUFACTURER)
}

fn plugin(name: &str, hook: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"domainHooks": [hook]}})
}

fn sidecar_plugin(name: &str, socket: &str) -> Value {
    plugin(
        name,
        json!({"sidecar": {"socketPath": format!("{PLUGINS_DIRECTORY}/{name}/{socket}")}}),
    )
}

/// Restricts a plugin to VMs with this label.
fn labelled(mut plugin: Value, label: &str) -> Value {
    plugin["spec"]["condition"] = format!("'{label}' in vmi.Labels").into();
    plugin
}

fn cel_plugin(name: &str, strategy: &str) -> Value {
    plugin(
        name,
        json!({"cel": {"expression": "Domain{}"}, "failureStrategy": strategy}),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_change_the_domain_after_the_hooks() -> Result<()> {
    let vmi = vmi("plugins")
        .edit(|vmi| vmi["metadata"]["labels"] = json!({"board": ""}))
        .plugins(json!([
            sidecar_plugin("friends", "hook.sock"),
            cel_plugin("colour", "Ignore"),
            labelled(sidecar_plugin("board", "hook.sock"), "board"),
            labelled(sidecar_plugin("nobody", "hook.sock"), "nothing"),
        ]));
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let hook = Sidecar::new("hook").on_define_domain(-7, |xml| match xml.contains(MANUFACTURER) {
        true => Err("a plugin ran before a hook".into()),
        false => Ok(xml),
    });
    let hook = hook.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    let plugins = prepared.pod.path(PLUGINS_DIRECTORY);
    let module = hooks::example("smbios-hook")?;
    let _board = VirtHookServe::plugin("board", &plugins.join("board"), &module).await?;
    let friends = Sidecar::new("friends")
        .on_define_domain(0, |xml| match xml.contains(MANUFACTURER) {
            true => Ok(xml.replace(MANUFACTURER, "Radical Edward and friends")),
            false => Err("friends came before board".into()),
        })
        .serve_plugin(&plugins.join("friends"))?;

    let records = "/run/kubevirt-private/records";
    let arguments = ["--hook-sidecars", "1", "--hook-record", records];
    let fixture = prepared.start(&vmi, &arguments).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    let console = fixture.pod.console(&vmi);
    assert!(
        console.has_reported("board_vendor: Radical Edward and friends"),
        "{}",
        console.text()
    );

    let mut recorded: Vec<(String, String)> = Vec::new();
    for entry in fs::read_dir(fixture.pod.path(records))? {
        let record: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        recorded.push((word(&record["hook"]["hook"]), word(&record["outcome"])));
    }
    recorded.sort();
    let expected = [
        ("hook-sidecar-0", "ok"),
        ("plugin/board[0]", "ok"),
        ("plugin/colour[0]", "unusable"),
        ("plugin/friends[0]", "ok"),
    ];
    assert_eq!(
        recorded,
        expected.map(|(hook, outcome)| (hook.to_owned(), outcome.to_owned()))
    );
    let run_count = |hook: &str| {
        let entries = fixture.pod.log_entries().into_iter();
        let runs = entries.filter(|entry| entry["hook"] == hook && entry["msg"] == "hook ran");
        runs.count()
    };
    assert_eq!(
        run_count("plugin/board[0]"),
        1,
        "one line per run: {}",
        fixture.pod.log()
    );
    fixture.end_vm(&vmi).await?;
    assert_eq!(hook.calls(), ["v1alpha3 OnDefineDomain"]);
    assert_eq!(friends.calls(), ["Boot MutateDomain"], "once per boot");
    Ok(())
}

/// The Plugin that `virt-hook deploy` prints for VMs with the label `board=yes`.
fn deployed_plugin(module: &std::path::Path) -> Result<Value> {
    let output = Command::new(binary("virt-hook")?)
        .arg("deploy")
        .arg(module)
        .args(["--name", "board", "--as", "plugin", "--label", "board=yes"])
        .args(["--image", "registry.example/hooks:1"])
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?;
    let plugin = objects
        .into_iter()
        .find(|object| object["kind"] == "Plugin");
    plugin.context("no Plugin")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployed_plugin_runs_in_process_or_served() -> Result<()> {
    let module = hooks::example("smbios-hook")?;
    let plugin = deployed_plugin(&module)?;
    let vmi = vmi("deployed")
        .edit(|vmi| vmi["metadata"]["labels"] = json!({"board": "yes"}))
        .plugins(json!([plugin]));
    for is_served in [false, true] {
        let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
        let directory = prepared.pod.path(PLUGINS_DIRECTORY).join("board");
        let _served = if is_served {
            Some(VirtHookServe::plugin("board", &directory, &module).await?)
        } else {
            fs::create_dir_all(&directory)?;
            fs::copy(&module, directory.join("hook.wasm"))?;
            None
        };
        let fixture = prepared.start(&vmi, &[]).await?;
        fixture.boot_and_read_reports(&vmi).await?;
        let console = fixture.pod.console(&vmi);
        assert!(
            console.has_reported("board_vendor: Radical Edward"),
            "served: {is_served}: {}",
            console.text()
        );
        fixture.end_vm(&vmi).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_cannot_be_called_leaves_no_domain_and_one_event() -> Result<()> {
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let policy = prepared.pod.path("/run/kubevirt/policy.yaml");
    fs::write(&policy, "sidecars: Forbid\n")?;
    let forbidden = vmi("refused").plugins(json!([sidecar_plugin("board", "hook.sock")]));
    let arguments = ["--hook-policy", "/run/kubevirt/policy.yaml"];
    let fixture = prepared.start(&forbidden, &arguments).await?;
    for _ in 0..2 {
        let answer = fixture.commands.sync(&forbidden).await?;
        let expected = "hook plugin/board[0] may not be called at OnDefineDomain: \
            /run/kubevirt/policy.yaml:1:11: gRPC sidecars are forbidden";
        assert_eq!((answer.success, answer.message.as_str()), (false, expected));
    }
    let expression = forbidden
        .clone()
        .plugins(json!([cel_plugin("colour", "Fail")]));
    let answer = fixture.commands.sync(&expression).await?;
    assert!(
        !answer.success
            && answer
                .message
                .contains("spec.domainHooks[0].cel of plugin colour"),
        "{answer:?}"
    );
    assert_eq!(fixture.commands.domain().await?, Value::Null);
    let reasons = || -> Vec<String> {
        let events = fixture.handler.events();
        let reasons = events.iter().filter_map(|event| event.kubernetes_reason());
        reasons.map(str::to_owned).collect()
    };
    let is_reported = async || (reasons().len() >= 2).then_some(());
    tests::wait_until(
        "both events",
        tests::launcher_fixture::EVENT_TIMEOUT,
        is_reported,
    )
    .await?;
    assert_eq!(reasons(), ["HookDenied", "HookFailed"]);
    // Without the plugin, the same launcher starts the VM.
    let without_plugin = forbidden.clone().plugins(Value::Null);
    fixture.boot(&without_plugin).await?;
    fixture.end_vm(&without_plugin).await
}
