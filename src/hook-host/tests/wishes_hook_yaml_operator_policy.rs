//! Policies with real components: wishes, `hook.yaml`, the operator's policy.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fixture::sidecar_server::{Behaviour, Sidecar};
use fixture::{HookDirs, XML, invocation};
use hook_host::{
    Chain, CollectConfig, CollectError, HookError, HookPoint, Outcome, PolicySource, StandingHooks,
    admit_modules, collect,
};

/// As long as the lists in the misbehaving hook's description that tests overwrite.
const PATHS: &str = r#"["/domain/**"                                        ]"#;
const DIRS: &str = "[                                        ]";

/// The misbehaving hook with other wishes.
fn wishing(list: &str, placeholder: &str) -> Vec<u8> {
    let padded = format!(
        "{:<width$}]",
        list.trim_end_matches(']'),
        width = placeholder.len() - 1
    );
    fixture::misbehaving_hook_with(placeholder, &padded)
}

/// A chain of one hook with this `hook.yaml`.
async fn ruled(module: &[u8], yaml: &str) -> Result<Chain, CollectError> {
    let dirs = HookDirs::new();
    dirs.put_old("h", "hook.yaml", yaml.as_bytes());
    dirs.put_old("h", "odd.wasm", module);
    collect(dirs.config(1)).await
}

async fn chain_of_misbehaving_hook(yaml: &str) -> Chain {
    ruled(&std::fs::read(fixture::misbehaving_hook()).unwrap(), yaml)
        .await
        .unwrap()
}

async fn refusal(module: &[u8], yaml: &str) -> String {
    ruled(module, yaml).await.err().unwrap().to_string()
}

async fn define(chain: &Chain, vmi: &str) -> Result<String, HookError> {
    let defined = chain.on_define_domain(&invocation(), vmi, XML.into()).await;
    defined.map(|(xml, _)| xml)
}

fn written(dirs: &HookDirs, name: &str, text: &str) -> PathBuf {
    let path = dirs.at("../policy", name);
    std::fs::write(&path, text).unwrap();
    path
}

/// What is not WebAssembly at all gets the policy's refusal: nothing reads a refused module, let alone compiles it.
#[tokio::test]
async fn a_refused_module_never_reaches_the_compiler() {
    let place = HookDirs::new();
    place.put_old("h", "odd.wasm", b"no WebAssembly");
    let listed = "digests: Listed\nrules:\n- digests: ['DIGEST']\n";
    let listed = listed.replace("DIGEST", &"0".repeat(64));
    let config = CollectConfig {
        policy: PolicySource::File(written(&place, "p.yaml", &listed)),
        ..place.config(1)
    };
    let standing = CollectConfig {
        standing: StandingHooks::In(place.hooks()),
        expected: 0,
        ..config.clone()
    };
    let refusals = [
        admit_modules(&config).await.map(drop),
        collect(config).await.map(drop),
        collect(standing).await.map(drop),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap_err().to_string();
        assert!(
            refusal.contains("h/odd.wasm") && refusal.contains("p.yaml:1:10: modules run only"),
            "{refusal}"
        );
    }
    // The owner's pin alone is asked as early.
    place.put_old(
        "h",
        "hook.yaml",
        format!("sha256: '{}'\n", "0".repeat(64)).as_bytes(),
    );
    let refusal = admit_modules(&place.config(1)).await.map(drop);
    let refusal = refusal.unwrap_err().to_string();
    assert!(refusal.contains("hook.yaml:1:9"), "{refusal}");
}

#[tokio::test]
async fn an_ungranted_change_is_refused_with_the_line_that_would_allow_it() {
    let chain =
        chain_of_misbehaving_hook("# narrow\nallow:\n  paths: ['/domain/description']\n").await;
    let error = define(&chain, "facts").await;
    assert!(error.is_ok(), "{error:?}");
    let error = define(&chain, "title").await.unwrap_err();
    let HookError::Denied {
        hook,
        point,
        path,
        before,
        after,
        remedy,
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!((hook.as_str(), *point), ("h", HookPoint::OnDefineDomain));
    assert_eq!((path.as_str(), before), ("/domain/title", &None));
    assert!(after.as_deref().unwrap().contains("odd"));
    assert!(
        remedy.contains("h/hook.yaml:3:10") && remedy.contains("\"/domain/title\""),
        "{remedy}"
    );
    assert_eq!(
        (error.kind(), error.event_reason()),
        ("denied", "HookDenied")
    );
}

#[tokio::test]
async fn cdata_prefixes_and_wrappers_do_not_hide_a_change() {
    let chain = chain_of_misbehaving_hook("allow: {paths: ['/domain/description/**']}\n").await;
    for (what, from, to) in [
        (
            "CDATA",
            "<uuid>5a9f</uuid>",
            "<uuid>5a9f</uuid><title><![CDATA[x]]></title>",
        ),
        (
            "a prefix",
            "<uuid>",
            "<d:description xmlns:d='http://libvirt.org/schemas/domain/qemu/1.0'/><uuid>",
        ),
        ("an entity", "<uuid>", "<title>&#120;</title><uuid>"),
        (
            "a second key",
            "</metadata>",
            "</metadata><metadata><x/></metadata>",
        ),
        (
            "a wrapper",
            "<uuid>",
            "<description/><title><description/></title><uuid>",
        ),
    ] {
        let error = define(&chain, &format!("replace\n{from}\n{to}"))
            .await
            .unwrap_err();
        // Two elements that libvirt reads once are no domain, whoever may write them.
        let kind = match what {
            "a second key" => "bad-output",
            _ => "denied",
        };
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
    // libvirt's parser ignores these declarations, and so reads a command line of QEMU.
    let chain_of_all = chain_of_misbehaving_hook("allow: {paths: ['/domain/**']}\n").await;
    let qemu = "http://libvirt.org/schemas/domain/qemu/1.0";
    for (hidden, reason) in [
        (
            format!("<commandline xmlns='{qemu}' xmlns:='urn:x'/>"),
            "not a name",
        ),
        (
            format!("<description xmlns:q='{qemu}'><q:commandline xmlns:q=''/></description>"),
            "not a valid namespace declaration",
        ),
    ] {
        let vmi = format!("replace\n<uuid>\n{hidden}<uuid>");
        let error = define(&chain_of_all, &vmi).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    // To libvirt's parser the colon belongs to the local name, so that nobody finds the element any more.
    let with_metadata = XML.replace(
        "<uuid>",
        "<metadata><kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt></metadata><uuid>",
    );
    for (from, to) in [
        ("<uid>7</uid>", "<:uid>7</:uid>"),
        ("<uid>7</uid>", "<uid:>7</uid:>"),
    ] {
        let vmi = format!("replace\n{from}\n{to}");
        let invocation = invocation();
        let defined = chain_of_all.on_define_domain(&invocation, &vmi, with_metadata.clone());
        let error = defined.await.unwrap_err();
        assert!(error.to_string().contains("not a name"), "{error}");
    }
    // Elements that change places are moves of their parent's.
    let xml = XML.replace(
        "</domain>",
        "<os><boot dev='hd'/><boot dev='network'/></os></domain>",
    );
    let vmi =
        "replace\n<boot dev='hd'/><boot dev='network'/>\n<boot dev='network'/><boot dev='hd'/>";
    let error = chain
        .on_define_domain(&invocation(), vmi, xml)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, HookError::Denied { path, .. } if path.starts_with("/domain/os")),
        "{error}"
    );
    // What says the same is no change.
    for (from, to) in [
        ("<uuid>5a9f</uuid>", "<uuid><![CDATA[5a9f]]></uuid>"),
        ("type='kvm'", "type=\"kvm\""),
    ] {
        define(&chain, &format!("replace\n{from}\n{to}"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_dangerous_set_must_be_granted_by_the_operator() {
    let emulator = "replace\n</domain>\n<devices><emulator>/bin/sh</emulator></devices></domain>";
    let chain =
        chain_of_misbehaving_hook("allow: {paths: ['/domain/**', '/domain/devices/emulator']}\n")
            .await;
    let error = define(&chain, emulator).await.unwrap_err().to_string();
    assert!(error.contains("/domain/devices/emulator"), "{error}");

    let dirs = HookDirs::new();
    let module = wishing(r#"["/domain/**","/domain/devices/emulator"]"#, PATHS);
    dirs.put_old("h", "odd.wasm", &module);
    let refused = collect(dirs.config(1)).await.err().unwrap().to_string();
    assert!(
        refused.contains("/domain/devices/emulator") && refused.contains("allow.dangerous"),
        "{refused}"
    );
    let policy = "rules:\n- namespaces: [ns]\n  allow: {dangerous: [/domain/devices/emulator]}\n";
    let policy = PolicySource::File(written(&dirs, "p.yaml", policy));
    let namespace = |namespace: &str| CollectConfig {
        policy: policy.clone(),
        namespace: namespace.to_owned(),
        ..dirs.config(1)
    };
    assert!(collect(namespace("other")).await.is_err());
    let chain = collect(namespace("ns")).await.unwrap();
    assert!(define(&chain, emulator).await.unwrap().contains("/bin/sh"));
}

#[tokio::test]
async fn module_without_wishes_may_not_change_the_domain() {
    let silent = fixture::misbehaving_hook_with("\"wishes\"", "\"future\"");
    let dirs = HookDirs::new();
    dirs.put_old("h", "odd.wasm", &silent);
    let chain = collect(dirs.config(1)).await.unwrap();
    assert_eq!(define(&chain, "keep").await.unwrap(), XML);
    let error = define(&chain, "title").await.unwrap_err().to_string();
    assert!(
        error.contains("`describe` declares") && error.contains("hook.yaml"),
        "{error}"
    );
    let chain = ruled(&silent, "allow: {paths: [/domain/title]}\n")
        .await
        .unwrap();
    assert!(define(&chain, "title").await.is_ok());
}

#[tokio::test]
async fn ignored_failures_and_dry_runs_leave_the_domain_unchanged() {
    for word in ["veto", "fail", "panic", "malformed", "rename"] {
        let chain = chain_of_misbehaving_hook("failurePolicy: Ignore\n").await;
        let (xml, runs) = chain
            .on_define_domain(&invocation(), word, XML.into())
            .await
            .unwrap();
        assert_eq!(xml, XML, "{word}");
        assert!(matches!(runs[0].outcome, Outcome::Failed(_)), "{word}");
    }
    let chain = chain_of_misbehaving_hook(
        "failurePolicy: Ignore\ndeadline: 100ms\nallow: {paths: [/domain/description]}\n",
    )
    .await;
    for word in ["loop", "title"] {
        let (xml, runs) = chain
            .on_define_domain(&invocation(), word, XML.into())
            .await
            .unwrap();
        assert!(
            xml == XML && matches!(runs[0].outcome, Outcome::Failed(_)),
            "{word}"
        );
    }
    assert!(
        define(&chain, "facts")
            .await
            .unwrap()
            .contains("<description>")
    );
    let chain = chain_of_misbehaving_hook("failurePolicy: DryRun\n").await;
    let (xml, runs) = chain
        .on_define_domain(&invocation(), "title", XML.into())
        .await
        .unwrap();
    assert_eq!((xml.as_str(), runs[0].changes.len()), (XML, 1));
    assert_eq!(chain.last_touched("/domain/title"), None);
    assert!(chain.pre_start(&invocation(), "veto").await.is_ok());
}

#[tokio::test]
async fn limits_and_configuration_are_per_hook() {
    let yaml = "deadline: 100ms\nmemory: 8Mi\nlog: 20\nconfig: {manufacturer: ACME}\npriority: 3\n";
    let chain = chain_of_misbehaving_hook(yaml).await;
    assert_eq!(
        chain.hooks()[0].priority(HookPoint::OnDefineDomain),
        Some(3)
    );
    let started = Instant::now();
    let error = define(&chain, "loop").await.unwrap_err();
    assert!(
        matches!(error, HookError::Deadline { limit, .. } if limit.as_millis() == 100),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(2));
    let error = define(&chain, "memory").await.unwrap_err().to_string();
    assert!(error.contains("may have 8388608"), "{error}");
    assert!(
        define(&chain, "config")
            .await
            .unwrap()
            .contains("<description>ACME<")
    );
    let error = refusal(
        &std::fs::read(fixture::misbehaving_hook()).unwrap(),
        "config:\n  manufacurer: A\n",
    )
    .await;
    assert!(
        error.contains("hook.yaml:2:16: ") && error.contains("manufacurer"),
        "{error}"
    );
}

#[tokio::test]
async fn directories_are_read_only_and_granted() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::write(dir.path().join("f"), "from outside").unwrap();
    std::fs::write(dir.path().with_extension("beside"), "x").unwrap();
    let path = dir.path().display().to_string();
    let module = wishing(&format!("[\"{path}\"]"), DIRS);
    // The owner's word is not enough.
    let owners = format!("allow: {{dirs: [{path}]}}\n");
    for yaml in ["{}", &owners] {
        let error = refusal(&module, yaml).await;
        assert!(
            error.contains(&path) && error.contains("allow.dirs of the operator's policy"),
            "{error}"
        );
    }
    let dirs = HookDirs::new();
    dirs.put_old("h", "odd.wasm", &module);
    let config = CollectConfig {
        policy: PolicySource::File(written(&dirs, "p.yaml", &owners)),
        ..dirs.config(1)
    };
    let chain = collect(config).await.unwrap();
    let read = |file: &str| format!("read\n{file}");
    let xml = define(&chain, &read(&format!("{path}/f"))).await.unwrap();
    assert!(xml.contains("from outside"));
    for outside in [
        format!("{path}/../{}", "etc/passwd"),
        format!("{path}.beside"),
        "/etc/passwd".into(),
    ] {
        assert!(define(&chain, &read(&outside)).await.is_err(), "{outside}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    std::fs::remove_file(dir.path().with_extension("beside")).unwrap();
}

#[tokio::test]
async fn a_module_with_another_digest_does_not_run() {
    let module = std::fs::read(fixture::misbehaving_hook()).unwrap();
    let error = refusal(&module, &format!("sha256: {}\n", "0".repeat(64))).await;
    assert!(
        error.contains("h/hook.yaml:1:9") && error.contains("not 0000"),
        "{error}"
    );
    let digest = match &chain_of_misbehaving_hook("{}").await.hooks()[0].kind {
        hook_host::HookKind::Wasm { digest } => digest.clone(),
        other => panic!("{other:?}"),
    };
    assert!(ruled(&module, &format!("sha256: {digest}\n")).await.is_ok());
}

#[tokio::test]
async fn a_module_swapped_while_it_is_collected_is_looked_at_again() {
    let dirs = HookDirs::new();
    let module = std::fs::read(fixture::misbehaving_hook()).unwrap();
    let other = fixture::misbehaving_hook_with("1.2.3", "3.2.1");
    dirs.put("h", "odd.wasm", &module);
    let collecting = tokio::spawn(collect(dirs.config(2)));
    for n in 0..20 {
        dirs.put("h", ".part", if n % 2 == 0 { &other } else { &module });
        std::fs::rename(dirs.at("h", ".part"), dirs.at("h", "odd.wasm")).unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    dirs.put("h", ".part", &other);
    std::fs::rename(dirs.at("h", ".part"), dirs.at("h", "odd.wasm")).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    dirs.put("i", ".part", &module);
    std::fs::rename(dirs.at("i", ".part"), dirs.at("i", "odd.wasm")).unwrap();
    let chain = collecting.await.unwrap().unwrap();
    assert_eq!(chain.hooks()[0].version, "3.2.1");
    assert_eq!(chain.hooks()[1].version, "1.2.3");
}

/// It is not even asked for its description, in which this one would crash.
#[tokio::test]
async fn a_module_that_no_rule_lists_is_neither_compiled_nor_run() {
    let dirs = HookDirs::new();
    let crashes = fixture::misbehaving_hook_with("\"future\": [1, {}]", "\"future\": [3, {}]");
    dirs.put_old("h", "odd.wasm", &crashes);
    for digests in ["Listed", "Pinned"] {
        let other = "0".repeat(64);
        let text = format!("digests: {digests}\nrules: [{{digests: ['{other}'], allow: {{}}}}]\n");
        let config = CollectConfig {
            policy: PolicySource::IfPresent(written(&dirs, "p.yaml", &text)),
            ..dirs.config(1)
        };
        let error = collect(config).await.err().unwrap().to_string();
        assert!(error.contains("modules run only when"), "{error}");
    }
}

#[tokio::test]
async fn a_module_with_an_unstable_description_is_refused() {
    let dirs = HookDirs::new();
    let fickle = fixture::misbehaving_hook_with("\"future\": [1, {}]", "\"future\": [2, {}]");
    dirs.put_old("h", "odd.wasm", &fickle);
    let error = collect(dirs.config(1)).await.err().unwrap().to_string();
    assert!(error.contains("differently each time"), "{error}");
}

#[tokio::test]
async fn invalid_policies_name_file_line_and_column() {
    let module = std::fs::read(fixture::misbehaving_hook()).unwrap();
    for (yaml, part) in [
        ("failurePolicy: Ignorre\n", "h/hook.yaml:1:16: "),
        ("priorities: 3\n", "h/hook.yaml:1:1: "),
        ("memory: 64Mi\nmemory: 32Mi\n", "h/hook.yaml:2:1: "),
        (
            "allow:\n  paths: ['/domain/devices/disk[']\n",
            "h/hook.yaml:2:11: ",
        ),
        (
            "hookPoints: [{name: OnDefineDomain}]\nallow: {paths: [/domain/**]}\ndeadline: 20s\n",
            "h/hook.yaml:3:11: ",
        ),
    ] {
        let error = refusal(&module, yaml).await;
        assert!(error.contains(part), "{yaml}: {error}");
    }
    let dirs = HookDirs::new();
    let policy = written(&dirs, "p.yaml", "sidecars: Forbid\ndigest: Any\n");
    let config = CollectConfig {
        policy: PolicySource::IfPresent(policy),
        ..dirs.config(0)
    };
    let error = collect(config).await.err().unwrap().to_string();
    assert!(error.contains("policy/p.yaml:2:1: "), "{error}");
}

#[tokio::test]
async fn a_policy_that_is_a_link_out_of_the_directory_is_refused() {
    let dirs = HookDirs::new();
    dirs.put_hook("h");
    dirs.put_old("elsewhere", "real.yaml", b"failurePolicy: Ignore\n");
    symlink("../elsewhere/real.yaml", dirs.at("h", "hook.yaml")).unwrap();
    let config = CollectConfig {
        deadline: Duration::from_secs(10),
        ..dirs.config(1)
    };
    let error = collect(config).await.err().unwrap().to_string();
    assert!(
        error.contains("h/hook.yaml") && error.contains("within the directory"),
        "{error}"
    );
}

#[tokio::test]
async fn a_hook_yaml_that_appears_after_its_module_is_used() {
    let dirs = HookDirs::new();
    dirs.put_hook("a");
    let collecting = tokio::spawn(collect(dirs.config(2)));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    dirs.put("a", ".part", b"priority: 42\n");
    std::fs::rename(dirs.at("a", ".part"), dirs.at("a", "hook.yaml")).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    dirs.put(
        "b",
        ".part",
        &std::fs::read(fixture::misbehaving_hook()).unwrap(),
    );
    std::fs::rename(dirs.at("b", ".part"), dirs.at("b", "odd.wasm")).unwrap();
    let chain = collecting.await.unwrap().unwrap();
    assert_eq!(chain.hooks()[0].priority(HookPoint::Shutdown), Some(42));
}

#[tokio::test]
async fn sidecars_can_be_forbidden_and_are_never_restricted() {
    let dirs = HookDirs::new();
    let behaviour = Behaviour {
        hook_points: vec![("OnDefineDomain", 0)],
        define: |xml| {
            Ok(xml.replace(
                "</domain>",
                "<devices><emulator>/x</emulator></devices></domain>",
            ))
        },
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("s", "s.sock"), behaviour);
    let with = |text: &str| CollectConfig {
        policy: PolicySource::File(written(&dirs, "p.yaml", text)),
        ..dirs.config(1)
    };
    let chain = collect(with("allow: {paths: []}\n")).await.unwrap();
    assert!(define(&chain, "{}").await.unwrap().contains("emulator"));
    let error = collect(with("sidecars: Forbid\n"))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("s/s.sock") && error.contains("p.yaml:1:11"),
        "{error}"
    );
}

#[tokio::test]
async fn a_node_that_two_hooks_changed_is_attributed_to_the_last() {
    let dirs = HookDirs::new();
    dirs.put_hook("one");
    dirs.put_hook("two");
    let chain = collect(dirs.config(2)).await.unwrap();
    let vmi = "replace\n<uuid>\n<sysinfo type='x'/><uuid>";
    define(&chain, vmi).await.unwrap();
    assert_eq!(
        chain.last_touched("/domain/sysinfo").as_deref(),
        Some("two")
    );
    assert_eq!(chain.last_touched("/domain/devices"), None);
    let provenance = chain.provenance();
    assert_eq!(
        provenance.named_in("unknown element 'sysinfo'").unwrap().0,
        "two"
    );
}
