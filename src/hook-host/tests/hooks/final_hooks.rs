//! Final hooks, which the operator's policy names: they run after all others, what they changed is sealed, and the VM's
//! owner cannot weaken them.

use std::fs;
use std::path::PathBuf;

use crate::fixture::handwritten_guest::HandwrittenGuest;
use crate::fixture::plugin_server::{Answer, PluginServer};
use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use crate::fixture::{HookDirs, invocation, sha256_hex};
use hook_host::record::{Record, RecordConfig, SealedChange};
use hook_host::replay::replay;
use hook_host::wasm::LoadOptions;
use hook_host::{
    AttachTime, Chain, CloudInitDocuments, CollectConfig, HookError, HookPoint, Invocation,
    Plugins, PolicySource, Reason, Run, StandingHooks, collect,
};
use serde_json::json;

/// A domain with a title of the length that the guests write.
const DOMAIN: &str = "<domain type='kvm'>\n  <name>ns_vm</name>\n  <uuid>5a9f</uuid>\n  <title>original</title>\n  \
    <description>original</description>\n</domain>\n";
const DISK: &str =
    "<disk type='file'><driver cache='original'/><target dev='vdb'/><source file='c'/></disk>";

/// Where a guest writes: the text before, and what of it is read at once.
const TITLE: &str = "<title>";
const DESCRIPTION: &str = "<description>";
const CACHE: &str = " cache='";

/// A module that writes 8 letters behind a text of the domain, and of a device that is attached.
struct Module {
    bytes: Vec<u8>,
    sha256: String,
}

/// Code that writes the letters behind the first occurrence of `before`, whose first 4 bytes occur nowhere else.
fn write_behind(before: &str, letters: &str) -> String {
    let number = |text: &str| {
        let bytes: [u8; 4] = text.as_bytes()[..4].try_into().unwrap();
        u32::from_le_bytes(bytes)
    };
    let value = u64::from_le_bytes(letters.as_bytes().try_into().unwrap());
    format!(
        "(local $at i32) (local.set $at (local.get $xml))
        (loop $search (if (i32.ne (i32.load (local.get $at)) (i32.const {})) (then
            (local.set $at (i32.add (local.get $at) (i32.const 1))) (br $search))))
        (i64.store offset={} align=1 (local.get $at) (i64.const {value}))",
        number(before),
        before.len(),
    )
}

/// The module `name` with this priority, which writes `letters` behind `before`.
fn module(name: &str, priority: i32, before: &str, letters: &str) -> Module {
    let paths = [
        "/domain/title/**",
        "/domain/description/**",
        "/domain/devices/disk/driver/@cache",
    ];
    module_with_wishes(name, priority, (before, letters), &paths)
}

fn module_with_wishes(
    name: &str,
    priority: i32,
    (before, letters): (&str, &str),
    paths: &[&str],
) -> Module {
    let point = |name: &str| format!(r#"{{"name": "{name}", "priority": {priority}}}"#);
    let points = [point("OnDefineDomain"), point("OnAttachDevice")].join(", ");
    let description = format!(
        r#"{{"name": "{name}", "hookPoints": [{points}], "wishes": {{"config": ["mode"], "paths": {paths:?}}}}}"#
    );
    let attach = format!(
        r#"(func (export "virt-hook:hooks/attach-device@0.1.1#on-attach-device")
            (param i32 i32) (param $xml i32) (param $length i32) (result i32)
            {}
            (call $done (local.get $xml) (local.get $length)))"#,
        write_behind(CACHE, letters)
    );
    let guest = HandwrittenGuest {
        description: description.leak(),
        define: write_behind(before, letters).leak(),
        fields: attach.leak(),
        ..HandwrittenGuest::default()
    };
    let bytes = guest.module();
    let sha256 = sha256_hex(&bytes);
    Module { bytes, sha256 }
}

/// The operator's standing hook, at the lowest priority.
fn enforcing() -> Module {
    module("image-enforce", i32::MIN, TITLE, "ENFORCED")
}

/// The module of a VM's owner, at the same priority.
fn undoing() -> Module {
    module("zz", i32::MIN, TITLE, "-UNDONE-")
}

/// A policy that makes these modules final.
fn final_policy(modules: &[&Module]) -> String {
    let digests: Vec<&str> = modules
        .iter()
        .map(|module| module.sha256.as_str())
        .collect();
    format!(
        "rules:\n- digests: [{}]\n  final: true\n",
        digests.join(", ")
    )
}

/// A pod with standing hooks of the operator and hooks of the VM's owner.
struct Pod {
    dirs: HookDirs,
    owner_hooks: usize,
}

impl Pod {
    fn new() -> Self {
        let pod = Self {
            dirs: HookDirs::new(),
            owner_hooks: 0,
        };
        fs::create_dir_all(pod.standing()).unwrap();
        fs::create_dir_all(pod.dirs.hooks()).unwrap();
        pod
    }

    /// A pod with the operator's enforcing hook and the owner's undoing one.
    fn with_both() -> Self {
        let mut pod = Self::new();
        pod.put_standing("image-enforce", &enforcing());
        pod.put("zz", &undoing());
        pod
    }

    fn standing(&self) -> PathBuf {
        self.dirs.hooks().with_file_name("standing")
    }

    fn plugins(&self) -> PathBuf {
        self.dirs.hooks().with_file_name("plugins")
    }

    fn records(&self) -> PathBuf {
        self.dirs.hooks().with_file_name("records")
    }

    fn put_standing(&self, directory: &str, module: &Module) {
        let directory = self.standing().join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("hook.wasm"), &module.bytes).unwrap();
    }

    /// Puts a module of the VM's owner into a directory of its own.
    fn put(&mut self, directory: &str, module: &Module) {
        let module_file = self.dirs.hooks().join(directory).join("hook.wasm");
        let is_new = !module_file.exists();
        self.owner_hooks += usize::from(is_new);
        self.dirs
            .put_modified_an_hour_ago(directory, "hook.wasm", &module.bytes);
    }

    async fn try_collect(&self, policy: &str) -> Result<Chain, String> {
        let file = self.dirs.at("../policy", "p.yaml");
        fs::write(&file, policy).unwrap();
        let config = CollectConfig {
            policy: PolicySource::File(file),
            standing: StandingHooks::In(self.standing()),
            plugins_dir: self.plugins(),
            record: Some(RecordConfig {
                dir: self.records(),
                secrets: true,
            }),
            ..self.dirs.config(self.owner_hooks)
        };
        collect(config).await.map_err(|error| error.to_string())
    }

    async fn chain(&self, policy: &str) -> Chain {
        self.try_collect(policy).await.unwrap()
    }

    /// The records of the runs so far, in order, with their files.
    fn read_records(&self) -> Vec<(PathBuf, Record)> {
        let entries = fs::read_dir(self.records()).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let read = |path: PathBuf| (path.clone(), Record::read(&path).unwrap());
        paths.into_iter().map(read).collect()
    }
}

async fn define(chain: &Chain) -> Result<(String, Vec<Run>), HookError> {
    define_with(chain, &Plugins::default()).await
}

async fn define_with(chain: &Chain, plugins: &Plugins) -> Result<(String, Vec<Run>), HookError> {
    chain
        .on_define_domain_with_plugins(&invocation(), "{}", DOMAIN.into(), plugins)
        .await
}

fn names(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.hook.as_str()).collect()
}

/// Why a lowest priority enforces nothing.
#[tokio::test]
async fn without_a_final_rule_a_module_of_the_same_priority_has_the_last_word() {
    let pod = Pod::with_both();
    let (xml, runs) = define(&pod.chain("{}\n").await).await.unwrap();
    assert_eq!(names(&runs), ["image-enforce", "zz"]);
    assert!(xml.contains("<title>-UNDONE-</title>"), "{xml}");
    assert!(runs.iter().all(|run| !run.is_final));
}

#[tokio::test]
async fn a_final_hook_runs_after_a_module_of_the_same_priority() {
    let pod = Pod::with_both();
    let chain = pod.chain(&final_policy(&[&enforcing()])).await;
    let points = [HookPoint::OnDefineDomain, HookPoint::OnAttachDevice];
    for point in points {
        assert_eq!(chain.order(point), ["zz", "image-enforce"]);
    }
    let (xml, runs) = define(&chain).await.unwrap();
    assert_eq!(names(&runs), ["zz", "image-enforce"]);
    assert!(xml.contains("<title>ENFORCED</title>"), "{xml}");
    let are_final: Vec<_> = runs.iter().map(|run| run.is_final).collect();
    assert_eq!(are_final, [false, true]);
    let info = chain.hooks().into_iter().find(|info| info.is_final);
    assert_eq!(info.unwrap().hook, "image-enforce");
}

/// The same module, mounted by the owner, enforces the same.
#[tokio::test]
async fn a_copy_of_a_final_module_is_final_too() {
    let mut pod = Pod::with_both();
    pod.put("a-copy", &enforcing());
    let chain = pod.chain(&final_policy(&[&enforcing()])).await;
    let (xml, runs) = define(&chain).await.unwrap();
    assert_eq!(names(&runs), ["zz", "a-copy", "image-enforce"]);
    assert!(xml.contains("<title>ENFORCED</title>"), "{xml}");
}

#[tokio::test]
async fn a_final_hook_runs_after_sidecars_and_plugins() {
    let undo = |xml: String| {
        xml.replace("original</title>", "-UNDONE-</title>")
            .replace("ENFORCED", "-UNDONE-")
    };
    let mut pod = Pod::with_both();
    let directory = pod.plugins().join("undo");
    fs::create_dir_all(&directory).unwrap();
    let plugin_socket = directory.join("hook.sock");
    let plugin_server = PluginServer::serve(&plugin_socket, Answer::Domain(Box::new(undo)));
    // A plugin whose module runs in this process, and one whose module is final.
    for (plugin, module) in [
        ("in-process", module("in-process", 0, TITLE, "-UNDONE-")),
        ("late", module("late", 0, DESCRIPTION, "DESCRIBE")),
    ] {
        fs::create_dir_all(pod.plugins().join(plugin)).unwrap();
        fs::write(pod.plugins().join(plugin).join("hook.wasm"), module.bytes).unwrap();
    }
    let plugin = |name: &str| {
        let socket = pod.plugins().join(name).join("hook.sock");
        let hook = json!({"sidecar": {"socketPath": socket}, "failureStrategy": "Ignore"});
        json!({"metadata": {"name": name}, "spec": {"domainHooks": [hook]}})
    };
    let plugins = json!([plugin("in-process"), plugin("late"), plugin("undo")]);
    let plugins = Plugins::parse(plugins.to_string().as_bytes()).unwrap();
    let socket = pod.dirs.at("zzz", "hook.sock");
    let behaviour = Behaviour {
        hook_points: vec![("OnDefineDomain", i32::MIN)],
        define: |xml| {
            Ok(xml
                .replace("-UNDONE-", "original")
                .replace("ENFORCED", "-UNDONE-"))
        },
        ..Behaviour::default()
    };
    let sidecar = Sidecar::serve(&socket, behaviour);
    pod.owner_hooks += 1;
    let late = module("late", 0, DESCRIPTION, "DESCRIBE");
    let chain = pod.chain(&final_policy(&[&enforcing(), &late])).await;
    let (xml, runs) = define_with(&chain, &plugins).await.unwrap();
    let order = [
        "zz",
        "zzz",
        "plugin/in-process[0]",
        "plugin/undo[0]",
        "image-enforce",
        "plugin/late[0]",
    ];
    assert_eq!(names(&runs), order);
    assert!(xml.contains("<title>ENFORCED</title>"), "{xml}");
    assert!(xml.contains("<description>DESCRIBE</description>"), "{xml}");
    assert_eq!((sidecar.calls().len(), plugin_server.calls().len()), (1, 1));
    // The Plugin says Ignore, and a final hook is never ignored.
    let policies: Vec<_> = runs
        .iter()
        .map(|run| format!("{:?}", run.failure_policy))
        .collect();
    assert_eq!(policies[3..], ["Ignore", "Fail", "Fail"]);
}

/// A Plugin of the VM's owner with a module that a rule names must not be skipped by `failureStrategy: Ignore`, or the
/// rule would enforce nothing.
#[tokio::test]
async fn a_final_module_of_a_plugin_that_cannot_be_loaded_is_never_ignored() {
    let late = module("late", 0, DESCRIPTION, "DESCRIBE");
    let named = final_policy(&[&late]);
    let other = final_policy(&[&module("other", 0, TITLE, "ENFORCED")]);
    let elsewhere = named.replace("  final", "  namespaces: [elsewhere]\n  final");
    let no_members = json!({});
    let unsupported = json!({"condition": "vmi.Spec.exists(x, x)"});
    let unknown = json!({"ofALaterVersion": 1});
    for (name, policy, files, members, expected) in [
        (
            "its hook.yaml weakens it",
            &named,
            Files::HookYaml("priority: 1\n"),
            &no_members,
            Some("priority is not accepted beside a final hook"),
        ),
        (
            "its hook.yaml is not YAML",
            &named,
            Files::HookYaml("{"),
            &no_members,
            Some("hook.yaml"),
        ),
        (
            "its file cannot be read, so that any rule may name it",
            &other,
            Files::Directory,
            &no_members,
            Some("hook.wasm"),
        ),
        (
            "its file is a link out of the directory",
            &other,
            Files::LinkOut,
            &no_members,
            Some("hook.wasm"),
        ),
        (
            "its condition cannot be evaluated",
            &named,
            Files::Unchanged,
            &unsupported,
            Some("spec.domainHooks[0].condition"),
        ),
        (
            "its hook has a member that is not known",
            &named,
            Files::Unchanged,
            &unknown,
            Some("ofALaterVersion"),
        ),
        (
            "it has another digest",
            &other,
            Files::HookYaml("{"),
            &no_members,
            None,
        ),
        (
            "the rule is for another namespace",
            &elsewhere,
            Files::HookYaml("{"),
            &no_members,
            None,
        ),
        (
            "no rule is final",
            &"sidecars: Allow\n".to_owned(),
            Files::Directory,
            &unsupported,
            None,
        ),
    ] {
        let pod = Pod::new();
        let directory = pod.plugins().join("late");
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("hook.wasm");
        fs::write(&file, &late.bytes).unwrap();
        match files {
            Files::Unchanged => {}
            Files::HookYaml(text) => fs::write(directory.join("hook.yaml"), text).unwrap(),
            Files::Directory => {
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
            }
            Files::LinkOut => {
                let outside = pod.plugins().join("outside.wasm");
                fs::rename(&file, &outside).unwrap();
                std::os::unix::fs::symlink("../outside.wasm", &file).unwrap();
            }
        }
        let mut hook = json!({
            "sidecar": {"socketPath": directory.join("hook.sock")},
            "failureStrategy": "Ignore",
        });
        let hook_members = hook.as_object_mut().unwrap();
        hook_members.extend(members.as_object().unwrap().clone());
        let plugins = json!([{"metadata": {"name": "late"}, "spec": {"domainHooks": [hook]}}]);
        let plugins = Plugins::parse(plugins.to_string().as_bytes()).unwrap();
        let chain = pod.chain(policy).await;
        let defined = define_with(&chain, &plugins).await;
        match expected {
            None => assert_eq!(defined.unwrap().0, DOMAIN, "{name}"),
            Some(reason) => {
                let error = defined.expect_err(name).to_string();
                let is_named = error.contains("plugin/late[0]") && error.contains(reason);
                assert!(is_named, "{name}: {error}");
                assert!(
                    error.contains(
                        "p.yaml:3:10 is about final hooks, whose failure is never ignored"
                    ),
                    "{name}: {error}"
                );
            }
        }
    }
}

/// What is wrong with the files of a plugin's module.
enum Files {
    Unchanged,
    HookYaml(&'static str),
    Directory,
    LinkOut,
}

#[tokio::test]
async fn a_final_hook_has_the_last_word_on_an_attached_device() {
    let pod = Pod::with_both();
    let attach = async |policy: &str| {
        let (chain, time) = (pod.chain(policy).await, AttachTime::default());
        define(&chain).await.unwrap();
        let invocation = invocation();
        let attached = chain.on_attach_device(&invocation, "{}", DISK.to_owned(), &time);
        attached.await.unwrap().0
    };
    let undone = attach("{}\n").await;
    assert!(undone.contains("cache='-UNDONE-'"), "{undone}");
    let enforced = attach(&final_policy(&[&enforcing()])).await;
    assert!(enforced.contains("cache='ENFORCED'"), "{enforced}");
}

/// What a final hook changed in a device at the boot stays sealed when the device is attached again.
#[tokio::test]
async fn what_a_final_hook_changed_at_the_boot_is_sealed_for_attached_devices() {
    let hostdev = "<hostdev type='pci'><driver cache='original'/><alias name='ua-vdb'/></hostdev>";
    for (device, others, place, path) in [
        (
            DISK,
            "<disk type='file'><target dev='vda'/></disk>",
            "/domain/devices/disk[target/@dev='vdb']/driver/@cache",
            "/domain/devices/disk/driver/@cache",
        ),
        (
            hostdev,
            "<hostdev type='pci'><alias name='ua-vda'/></hostdev>",
            "/domain/devices/hostdev[alias/@name='ua-vdb']/driver/@cache",
            "/domain/devices/hostdev/driver/@cache",
        ),
        (
            hostdev,
            "",
            "/domain/devices/hostdev[alias/@name='ua-vdb']/driver/@cache",
            "/domain/devices/hostdev/driver/@cache",
        ),
    ] {
        let mut pod = Pod::new();
        let writing = |name, letters| module_with_wishes(name, 0, (CACHE, letters), &[path]);
        let at_boot = writing("image-cache", "ENFORCED");
        pod.put_standing("image-cache", &at_boot);
        pod.put("zz", &writing("zz", "-UNDONE-"));
        let devices = format!("  <devices>{device}{others}</devices>\n</domain>");
        let domain = DOMAIN.replace("</domain>", &devices);
        let other_device = device.replace("vdb", "vdc");
        let time = AttachTime::default();
        let dangerous = "allow:\n  dangerous: [HostDevice]\n";
        for (rules, is_sealed) in [(String::new(), false), (final_policy(&[&at_boot]), true)] {
            let chain = pod.chain(&format!("{dangerous}{rules}")).await;
            let invocation = invocation();
            let defined = chain.on_define_domain(&invocation, "{}", domain.clone());
            defined.await.unwrap();
            let attached = chain
                .on_attach_device(&invocation, "{}", device.to_owned(), &time)
                .await;
            match is_sealed {
                false => assert!(attached.is_ok(), "{attached:?}"),
                true => {
                    let error = attached.unwrap_err().to_string();
                    let start = format!("hook zz may not change {place}");
                    let reason = "the final hook image-cache changed it";
                    assert!(
                        error.starts_with(&start) && error.contains(reason),
                        "{error}"
                    );
                }
            }
            // Another device is another place.
            let attached = chain.on_attach_device(&invocation, "{}", other_device.clone(), &time);
            attached.await.unwrap();
        }
    }
}

/// A documented limit: the target knows what its own final hooks changed, not what those of the source did.
#[tokio::test]
async fn a_migration_does_not_carry_seals_over() {
    let mut pod = Pod::new();
    let at_boot = module("image-cache", 0, CACHE, "ENFORCED");
    pod.put_standing("image-cache", &at_boot);
    // In the domain it changes the title, in an attached disk the cache.
    pod.put("zz", &module("zz", 0, TITLE, "-UNDONE-"));
    let arrival = Invocation {
        reason: Reason::MigrationTarget,
        ..invocation()
    };
    let domain = |cache: &str| {
        let disk = DISK.replace("original", cache);
        DOMAIN.replace(
            "</domain>",
            &format!("  <devices>{disk}</devices>\n</domain>"),
        )
    };
    let policy = final_policy(&[&at_boot]);
    for (arriving, is_sealed) in [("original", true), ("ENFORCED", false)] {
        let chain = pod.chain(&policy).await;
        let no_plugins = Plugins::default();
        let domain = domain(arriving);
        let arrived = chain.on_incoming_domain(&arrival, "{}", domain, &no_plugins);
        assert!(arrived.await.unwrap().0.contains("ENFORCED"), "{arriving}");
        let time = AttachTime::default();
        let attaching = chain.on_attach_device(&arrival, "{}", DISK.to_owned(), &time);
        assert_eq!(attaching.await.is_err(), is_sealed, "{arriving}");
    }
}

#[tokio::test]
async fn a_final_hook_has_the_last_word_on_a_domain_that_arrives() {
    let pod = Pod::with_both();
    let arrival = Invocation {
        reason: Reason::MigrationTarget,
        ..invocation()
    };
    let arrive = async |policy: &str| {
        let (chain, plugins) = (pod.chain(policy).await, Plugins::default());
        // The source's final hook has made its change.
        let domain = DOMAIN.replace("original</title>", "ENFORCED</title>");
        let arrived = chain.on_incoming_domain(&arrival, "{}", domain, &plugins);
        let (xml, runs) = arrived.await.unwrap();
        (xml, names(&runs).join(" "))
    };
    let (undone, order) = arrive("{}\n").await;
    assert_eq!(order, "image-enforce zz");
    assert!(undone.contains("<title>-UNDONE-</title>"), "{undone}");
    let (enforced, order) = arrive(&final_policy(&[&enforcing()])).await;
    assert_eq!(order, "zz image-enforce");
    assert!(enforced.contains("<title>ENFORCED</title>"), "{enforced}");
}

/// The second changes nothing, so that there is nothing to refuse.
#[tokio::test]
async fn two_final_hooks_that_write_the_same_value_agree() {
    let mut pod = Pod::with_both();
    let other = module("other", i32::MIN, TITLE, "ENFORCED");
    pod.put("other", &other);
    let chain = pod.chain(&final_policy(&[&enforcing(), &other])).await;
    let (xml, runs) = define(&chain).await.unwrap();
    assert!(xml.contains("<title>ENFORCED</title>"), "{xml}");
    let changes: Vec<usize> = runs.iter().map(|run| run.changes.len()).collect();
    assert_eq!(names(&runs), ["zz", "image-enforce", "other"]);
    assert_eq!(changes, [1, 1, 0]);
}

#[tokio::test]
async fn two_final_hooks_that_change_one_place_are_an_error_that_names_both() {
    let mut pod = Pod::with_both();
    let other = module("other", 0, TITLE, "OTHERWIS");
    pod.put("other", &other);
    let policy = final_policy(&[&enforcing(), &other]);
    let error = define(&pod.chain(&policy).await).await.unwrap_err();
    assert_eq!((error.hook(), error.kind()), ("image-enforce", "denied"));
    let text = error.to_string();
    let expected = "hook image-enforce may not change /domain/title at OnDefineDomain (before: \"OTHERWIS\", after: \
         \"ENFORCED\"): the final hook other changed it, which is sealed for the hooks after it, as ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("policy/p.yaml:3:10"), "{text}");
    // Each at another place, or both to the same value, is no conflict.
    let beside = module("beside", 0, DESCRIPTION, "DESCRIBE");
    pod.put("other", &beside);
    let (xml, _) = define(&pod.chain(&final_policy(&[&enforcing(), &beside])).await)
        .await
        .unwrap();
    assert!(
        xml.contains("<title>ENFORCED</title>") && xml.contains("<description>DESCRIBE<"),
        "{xml}"
    );
}

#[tokio::test]
async fn records_name_the_final_rule_and_what_was_sealed() {
    let mut pod = Pod::with_both();
    let other = module("other", 0, TITLE, "OTHERWIS");
    pod.put("other", &other);
    let policy = final_policy(&[&enforcing(), &other]);
    define(&pod.chain(&policy).await).await.unwrap_err();
    let records = pod.read_records();
    let finals: Vec<_> = records
        .iter()
        .map(|(_, record)| record.hook.final_rule.is_some())
        .collect();
    assert_eq!(finals, [false, true, true]);
    let (path, denied) = &records[2];
    assert_eq!(
        (denied.outcome.as_str(), denied.input.sealed.len()),
        ("denied", 1)
    );
    let seal = &denied.input.sealed[0];
    assert_eq!(
        (seal.hook.as_str(), seal.path.as_str(), seal.kind),
        ("other", "/domain/title", SealedChange::Edited)
    );
    let json = fs::read_to_string(path).unwrap();
    assert!(json.contains("\"final\": \""), "{json}");
    assert!(json.contains("\"kind\": \"edited\""), "{json}");
    // A replay is denied for the same reason.
    let module = pod.standing().join("image-enforce/hook.wasm");
    let replayed = replay(denied, &module, false, LoadOptions::default())
        .await
        .unwrap();
    assert!(replayed.difference.is_none(), "{:?}", replayed.difference);
    assert!(replayed.run.is_final);
}

/// `hook.yaml` belongs to the VM's owner.
#[tokio::test]
async fn a_hook_yaml_cannot_weaken_a_final_hook() {
    let module = enforcing();
    let policy = final_policy(&[&module]);
    let refusal = async |yaml: &str, policy: &str| {
        let mut pod = Pod::new();
        pod.dirs
            .put_modified_an_hour_ago("h", "hook.yaml", yaml.as_bytes());
        pod.put("h", &module);
        pod.try_collect(policy).await.err()
    };
    for (yaml, part) in [
        (
            "priority: 5\n",
            "hook.yaml:1:11: priority is not accepted beside a final hook",
        ),
        ("hookPoints: []\n", "hook.yaml:1:13: hookPoints is not"),
        (
            "hookPoints: [{name: OnDefineDomain, priority: 1}]\n",
            "hook.yaml:1:13: hookPoints is not",
        ),
        (
            "failurePolicy: Ignore\n",
            "hook.yaml:1:16: failurePolicy is not",
        ),
        (
            "failurePolicy: DryRun\n",
            "hook.yaml:1:16: failurePolicy is not",
        ),
        (
            "allow: {paths: ['/domain/**']}\n",
            "hook.yaml:1:16: allow.paths is not",
        ),
        ("allow: {dirs: []}\n", "hook.yaml:1:15: allow.dirs is not"),
        ("allow: {pod: []}\n", "hook.yaml:1:14: allow.pod is not"),
        (
            "deadline: 1ms\n",
            "hook.yaml:1:11: deadline of a final hook may be raised, not lowered",
        ),
        ("memory: 1Mi\n", "hook.yaml:1:9: memory of a final hook"),
        ("output: 64Ki\n", "hook.yaml:1:9: output of a final hook"),
        ("log: 0\n", "hook.yaml:1:6: log of a final hook"),
        (
            "config: {mode: off}\n",
            "it wants the configuration key \"mode\", which allow.config of ",
        ),
    ] {
        let error = refusal(yaml, &policy).await.unwrap();
        assert!(error.contains(part), "{yaml}: {error}");
        assert!(error.contains("p.yaml"), "{yaml}: {error}");
        // Any other hook may have it.
        assert_eq!(refusal(yaml, "{}\n").await, None, "{yaml}");
    }
    let pinned = format!(
        "sha256: {}\nfailurePolicy: Fail\nrequires: {{hooks: '0.1'}}\n",
        module.sha256
    );
    for yaml in [
        "{}\n",
        &pinned,
        "deadline: 3s\nmemory: 128Mi\noutput: 8Mi\nlog: 128Ki\n",
    ] {
        assert_eq!(refusal(yaml, &policy).await, None, "{yaml}");
    }
    // The operator may leave a configuration key to the owner, and lower the limits of all.
    let configurable = format!("{policy}  allow: {{config: [mode]}}\n");
    assert_eq!(refusal("config: {mode: off}\n", &configurable).await, None);
    let capped = format!("{policy}limits: {{deadline: 1s}}\n");
    assert_eq!(refusal("deadline: 1s\n", &capped).await, None);
}

/// Cloud-init data has documents for places.
#[tokio::test]
async fn at_pre_cloud_init_iso_documents_are_sealed() {
    let guest = |name: &str, priority: i32, letter: char| {
        let description = format!(
            r#"{{"name": "{name}", "hookPoints": [{{"name": "PreCloudInitIso", "priority": {priority}}}]}}"#
        );
        // The list has tuples of two texts; the first letter of the first document's text is replaced.
        let code = format!(
            "(i32.store8 (i32.load offset=8 (local.get $list)) (i32.const {}))",
            u32::from(letter)
        );
        let guest = HandwrittenGuest {
            description: description.leak(),
            documents: code.leak(),
            ..HandwrittenGuest::default()
        };
        let bytes = guest.module();
        let sha256 = sha256_hex(&bytes);
        Module { bytes, sha256 }
    };
    let (enforce, undo) = (guest("image-enforce", 0, 'E'), guest("zz", i32::MIN, 'U'));
    let mut pod = Pod::new();
    pod.put_standing("image-enforce", &enforce);
    pod.put("zz", &undo);
    let run = async |policy: &str| {
        let documents = CloudInitDocuments {
            data_source: "noCloud".into(),
            cloud_init_data_json: r#"{"DataSource":"noCloud","NoCloudMetaData":{"instance-id":"i"},"UserData":"original","NetworkData":""}"#.into(),
        };
        pod.chain(policy)
            .await
            .pre_cloud_init_iso(&invocation(), "{}", documents)
            .await
    };
    let text = |data: CloudInitDocuments| data.cloud_init_data_json.clone();
    let (undone, _) = run("{}\n").await.unwrap();
    let (enforced, runs) = run(&final_policy(&[&enforce])).await.unwrap();
    assert_eq!(names(&runs), ["zz", "image-enforce"]);
    assert_ne!(text(undone), text(enforced));
    let error = run(&final_policy(&[&enforce, &undo]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("hook zz may not change ")
            && error.contains("the final hook image-enforce changed it"),
        "{error}"
    );
}

#[test]
fn a_final_rule_names_digests_or_keys() {
    let parse = |text: &str| {
        hook_host::policy::OperatorPolicy::parse(std::path::Path::new("p.yaml"), text)
            .err()
            .map(|error| error.to_string())
    };
    let error = parse("rules: [{namespaces: [infra], final: true}]\n").unwrap();
    assert!(
        error.starts_with("p.yaml:1:38: a final rule names digests or keys"),
        "{error}"
    );
    assert_eq!(
        parse("rules: [{namespaces: [infra], final: false}]\n"),
        None
    );
    assert!(
        parse("rules: [{namespaces: [infra], final: yes}]\n")
            .unwrap()
            .contains("true or false is wanted")
    );
}
