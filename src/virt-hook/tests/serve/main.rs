//! `virt-hook serve` as a launcher meets it: real modules, real gRPC, real sockets.
#![allow(clippy::unwrap_used)]

mod metrics;
mod prometheus_text;
#[path = "../served_sidecar/mod.rs"]
mod served_sidecar;

use std::fs;
use std::time::Duration;

use domain_xml::Document;
use hook_host::{CollectConfig, Compiler, Invocation, Limits, Outcome};
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use serde_json::{Value, json};
use served_sidecar::{Pod, XML, every_point, example, stock_launcher_client, vmi, vmi_that_does};
use tonic::Code;

fn manufacturer(xml: &[u8]) -> Option<String> {
    let document = Document::parse(std::str::from_utf8(xml).unwrap()).unwrap();
    let path = "sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']";
    let entry = document.root().find(path).unwrap();
    entry.map(domain_xml::Element::text)
}

#[tokio::test]
async fn a_launcher_finds_one_ordinary_sidecar() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook"), &example("cloud-init-hook")], &[]);
    served.ready().await;
    assert_eq!(pod.files(), ["virt-hook-hook-sidecar-0.sock"]);

    let info = stock_launcher_client::info(&pod.socket()).await.unwrap();
    assert_eq!(info.name, "smbios-hook+cloud-init-hook");
    assert_eq!(info.versions, ["v1alpha1", "v1alpha2", "v1alpha3"]);
    let points: Vec<_> = info
        .hook_points
        .iter()
        .map(|point| (point.name.as_str(), point.priority))
        .collect();
    assert_eq!(
        points,
        [
            ("PreCloudInitIso", 0),
            ("OnDefineDomain", 0),
            ("Shutdown", 0)
        ]
    );

    // Every version, each call on a connection of its own, as KubeVirt does it.
    let (domain_xml, vmi) = (XML.as_bytes().to_vec(), vmi().into_bytes());
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha1::callbacks_client::CallbacksClient::new(channel);
    let params = v1alpha1::OnDefineDomainParams {
        domain_xml: domain_xml.clone(),
        vmi: vmi.clone(),
    };
    let answer = client.on_define_domain(params).await.unwrap().into_inner();
    assert_eq!(
        manufacturer(&answer.domain_xml).as_deref(),
        Some("Radical Edward")
    );

    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha2::callbacks_client::CallbacksClient::new(channel);
    let params = v1alpha2::PreCloudInitIsoParams {
        cloud_init_no_cloud_source: br##"{"userData":"#cloud-config\n"}"##.to_vec(),
        vmi: vmi.clone(),
        cloud_init_data: Vec::new(),
    };
    let answer = client
        .pre_cloud_init_iso(params)
        .await
        .unwrap()
        .into_inner();
    let source: Value = serde_json::from_slice(&answer.cloud_init_no_cloud_source).unwrap();
    assert!(
        source["userData"].as_str().unwrap().contains("ns/vm"),
        "{source}"
    );

    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let data = json!({"DataSource": "noCloud", "NoCloudMetaData": {"instance-id": "i"},
        "ConfigDriveMetaData": null, "UserData": "#cloud-config\n", "NetworkData": "", "DevicesData": null});
    let params = v1alpha3::PreCloudInitIsoParams {
        cloud_init_no_cloud_source: br##"{"userData":"#cloud-config\n"}"##.to_vec(),
        vmi: vmi.clone(),
        cloud_init_data: data.to_string().into_bytes(),
    };
    let answer = client
        .pre_cloud_init_iso(params)
        .await
        .unwrap()
        .into_inner();
    let after: Value = serde_json::from_slice(&answer.cloud_init_data).unwrap();
    assert!(
        after["UserData"].as_str().unwrap().contains("ns/vm"),
        "{after}"
    );
    assert_eq!(after["NoCloudMetaData"], data["NoCloudMetaData"]);

    // Shutdown is answered, and then it ends, and nothing is left.
    let params = v1alpha3::ShutdownParams {};
    client.shutdown(params).await.unwrap();
    let stderr = served.ended(0).await;
    assert!(pod.files().is_empty());
    assert!(
        stderr.contains("hook ran") && stderr.contains("1-smbios_hook"),
        "{stderr}"
    );
    assert!(
        stderr.contains("/domain/sysinfo") && stderr.contains("name=\"vm\""),
        "{stderr}"
    );
}

#[tokio::test]
async fn our_own_launcher_collects_it_and_chains_it() {
    let pod = Pod::new();
    let served = pod.serve(&[&example("smbios-hook"), &example("cloud-init-hook")], &[]);
    // Collected from the start: nothing there is taken for a hook before it is ready.
    let chain = hook_host::collect(CollectConfig {
        hooks_dir: pod.hooks(),
        expected: 1,
        deadline: Duration::from_secs(60),
        artifacts_dir: pod.root().join("artifacts"),
        compiler: Compiler::InProcess,
        limits: Limits::default(),
        host_name: "virt-launcher/9.9.9".into(),
        ..CollectConfig::default()
    });
    let chain = chain.await.unwrap();
    let hooks = chain.hooks();
    assert_eq!(hooks[0].file, "virt-hook-hook-sidecar-0.sock");
    let invocation = Invocation {
        namespace: "ns".into(),
        name: "vm".into(),
        ..Invocation::default()
    };
    let (xml, runs) = chain
        .on_define_domain(&invocation, &vmi(), XML.to_owned())
        .await
        .unwrap();
    assert_eq!(
        manufacturer(xml.as_bytes()).as_deref(),
        Some("Radical Edward")
    );
    assert!(!runs[0].changes.is_empty());
    // A stock launcher calls again, with what came out.
    let (repeated, runs) = chain
        .on_define_domain(&invocation, &vmi(), xml.clone())
        .await
        .unwrap();
    assert_eq!((repeated, runs[0].changes.len()), (xml, 0));
    let runs = chain.shutdown(&invocation).await;
    assert_eq!(runs[0].outcome, Outcome::Ok);
    served.ended(0).await;
}

/// The program has one thread for its calls. If that checked the answer, nobody else would be answered meanwhile.
#[tokio::test]
async fn a_long_check_keeps_nobody_waiting() {
    let pod = Pod::new();
    let deep = "x/".repeat(120);
    let paths = format!("['/domain/**/x[{deep}@a]', '/domain/x/**']");
    let (own, module) = (pod.root().join("own"), pod.root().join("own/odd.wasm"));
    fs::create_dir(&own).unwrap();
    fs::copy(example("misbehaving-hook"), &module).unwrap();
    let settings = format!("deadline: 10s\nallow: {{paths: {paths}}}\n");
    fs::write(own.join("hook.yaml"), settings).unwrap();
    let mut served = pod.serve(&[&module], &[]);
    served.ready().await;
    let define = || {
        let socket = pod.socket();
        tokio::spawn(async move {
            let channel = stock_launcher_client::dial(&socket).await;
            let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
            let params = v1alpha3::OnDefineDomainParams {
                domain_xml: XML.into(),
                vmi: vmi_that_does("crowd").into_bytes(),
            };
            client.on_define_domain(params).await
        })
    };
    let defined = define();
    let mut answered = 0;
    while !defined.is_finished() {
        stock_launcher_client::info(&pod.socket()).await.unwrap();
        answered += 1;
    }
    let status = defined.await.unwrap().unwrap_err();
    assert!(status.message().contains("checking it"), "{status:?}");
    assert!(answered > 50, "only {answered} times during the check");

    // SIGTERM ends it too: the call in flight is answered first.
    let defined = define();
    stock_launcher_client::info(&pod.socket()).await.unwrap();
    served.signal();
    served.ended(0).await;
    defined.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_plugins_launcher_mutates_a_domain() {
    let pod = Pod::new();
    let arguments = ["--plugin", "smbios", "--socket", "smbios.sock"];
    let mut served = pod.serve(&[&example("smbios-hook"), &every_point()], &arguments);
    served.ready().await;
    assert_eq!(pod.files(), ["smbios.sock"]);
    let socket = pod.directory().join("smbios.sock");

    let mutate = async |vmi: String, context: &str| {
        stock_launcher_client::mutate(&socket, vmi, context).await
    };
    // PreStart of the second module logs its invocation; OnDefineDomain then lacks its configuration key `colour`.
    let status = mutate(vmi(), "MigrationTarget").await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(
        status
            .message()
            .starts_with("hook 2-every_point failed at OnDefineDomain: no colour"),
        "{status:?}"
    );
    let status = mutate(vmi_that_does("veto"), "Boot").await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(
        status.message(),
        "hook 2-every_point refuses at PreStart: licence expired"
    );
    let status = mutate(vmi_that_does("panic"), "Boot").await.unwrap_err();
    assert!(status.code() == Code::Internal && status.message().contains("a wheel came off"));
    let status = mutate(vmi(), "MigrationSource").await.unwrap_err();
    assert!(status.code() == Code::InvalidArgument && status.message().contains("MigrationSource"));
    let status = mutate("no".into(), "Boot").await.unwrap_err();
    assert!(status.code() == Code::InvalidArgument && status.message().contains("the VMI"));
    assert!(stock_launcher_client::info(&socket).await.is_err());

    served.signal();
    let stderr = served.ended(0).await;
    assert!(stderr.contains("vm may start: MigrationTarget"), "{stderr}");
    assert!(stderr.contains("shutting down is never easy"), "{stderr}");
    assert!(
        stderr.contains("called before each of the others"),
        "{stderr}"
    );
    assert!(pod.files().is_empty());
}

#[tokio::test]
async fn a_plugins_domain_comes_back_changed() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &["--plugin", "smbios"]);
    served.ready().await;
    let socket = pod.directory().join("hook.sock");
    let domain = stock_launcher_client::mutate(&socket, vmi(), "Boot")
        .await
        .unwrap();
    assert_eq!(manufacturer(&domain).as_deref(), Some("Radical Edward"));
    // KubeVirt v1.10 calls another service on the same socket.
    let domain = stock_launcher_client::guest_definition(&socket, vmi(), "Boot").await;
    assert_eq!(
        manufacturer(&domain.unwrap()).as_deref(),
        Some("Radical Edward")
    );
    let status = stock_launcher_client::guest_definition(&socket, vmi(), "PreBoot").await;
    assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    served.signal();
    served.ended(0).await;
}

#[tokio::test]
async fn required_versions_must_be_known_and_met() {
    let pod = Pod::new();
    let hook = pod.root().join("smbios");
    fs::create_dir(&hook).unwrap();
    let module = hook.join("hook.wasm");
    fs::copy(example("smbios-hook"), &module).unwrap();
    fs::write(hook.join("hook.yaml"), "requires: {libvirt: '>=11'}\n").unwrap();
    let refused = async |arguments: &[&str]| pod.serve(&[&module], arguments).ended(2).await;
    for (arguments, part) in [
        (&[][..], "give it with --libvirt-version"),
        (&["--libvirt-version", "v10.9.0"], "this is libvirt 10.9.0"),
        (&["--libvirt-version", "new"], "not a version such as"),
    ] {
        let stderr = refused(arguments).await;
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let stderr = refused(&[]).await;
    let place = format!("{}:1:21", hook.join("hook.yaml").display());
    assert!(stderr.contains(&place), "{place}: {stderr}");
    let mut served = pod.serve(&[&module], &["--libvirt-version", "11.3"]);
    served.ready().await;
    served.signal();
    served.ended(0).await;
}

#[tokio::test]
async fn a_veto_is_the_launchers_to_read() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&every_point()], &[]);
    served.ready().await;
    let define = async |what: &str| {
        let channel = stock_launcher_client::dial(&pod.socket()).await;
        let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: XML.into(),
            vmi: vmi_that_does(what).into_bytes(),
        };
        client.on_define_domain(params).await.unwrap_err()
    };
    assert_eq!(define("veto").await.code(), Code::FailedPrecondition);
    assert_eq!(define("fail").await.code(), Code::Internal);

    // A shutdown hook that fails is no reason to leave other sidecars without theirs; and two
    // calls are one shutdown.
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let mut other = client.clone();
    let (one, two) = tokio::join!(
        client.shutdown(v1alpha3::ShutdownParams {}),
        other.shutdown(v1alpha3::ShutdownParams {})
    );
    assert!(one.is_ok() && two.is_ok());
    let stderr = served.ended(0).await;
    assert_eq!(
        stderr.matches("hooks were shut down").count(),
        1,
        "{stderr}"
    );
}

#[tokio::test]
async fn too_large_answers_are_reported() {
    let pod = Pod::new();
    // To check four megabytes takes a loaded machine longer than a call usually may.
    let hook = tempfile::tempdir().unwrap();
    let module = hook.path().join("smbios_hook.wasm");
    fs::copy(example("smbios-hook"), &module).unwrap();
    fs::write(hook.path().join("hook.yaml"), "deadline: 15s\n").unwrap();
    let mut served = pod.serve(&[&module], &[]);
    served.ready().await;
    let define = async |bytes: usize| {
        let channel = stock_launcher_client::dial(&pod.socket()).await;
        let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
        let padding = format!("<!--{}--></domain>", "x".repeat(bytes - XML.len() - 7));
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: XML.replace("</domain>", &padding).into_bytes(),
            vmi: b"{}".to_vec(),
        };
        client.on_define_domain(params).await
    };
    let limit = 4 << 20;
    define(limit - 100).await.unwrap();
    let status = define(limit - 10).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let status = define(limit + 10).await.unwrap_err();
    assert!(status.message().contains("smbios_hook"), "{status:?}");
    assert_eq!(
        define(3 * limit).await.unwrap_err().code(),
        Code::OutOfRange
    );
    served.signal();
    served.ended(0).await;
}

#[tokio::test]
async fn modules_run_in_the_order_of_the_command_line() {
    let pod = Pod::new();
    let (smbios, every) = (example("smbios-hook"), every_point());
    let mut served = pod.serve(&[&smbios, &every], &[]);
    served.ready().await;
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let params = v1alpha3::OnDefineDomainParams {
        domain_xml: XML.into(),
        vmi: vmi().into_bytes(),
    };
    client.on_define_domain(params).await.unwrap_err();
    served.signal();
    let stderr = served.ended(0).await;
    let first = stderr.find("hook ran hook=\"1-smbios_hook\"").unwrap();
    let second = stderr
        .find("hook did not do its work hook=\"2-every_point\"")
        .unwrap();
    assert!(first < second, "{stderr}");
}

#[tokio::test]
async fn a_policy_on_the_command_line_holds() {
    let pod = Pod::new();
    let module = example("smbios-hook");
    let policy = "{allow: {paths: [/domain/os/smbios/**]}}";
    // A wish that is not granted is an error before there is a socket.
    let stderr = pod.serve(&[&module], &["--policy", policy]).ended(2).await;
    assert!(
        stderr.contains("/domain/sysinfo") && stderr.contains("--policy:1:"),
        "{stderr}"
    );
    let stderr = pod
        .serve(&[&module], &["--policy", "{alow: {}}"])
        .ended(2)
        .await;
    assert!(stderr.contains("alow"), "{stderr}");
    let stderr = pod
        .serve(&[&module], &["--policy", "/gone.yaml"])
        .ended(2)
        .await;
    assert!(stderr.contains("/gone.yaml"), "{stderr}");
    assert!(pod.everything().is_empty(), "{:?}", pod.everything());

    let policy = "{allow: {paths: [/domain/os/smbios/**, /domain/sysinfo/**]}}";
    let mut served = pod.serve(&[&module], &["--policy", policy]);
    served.ready().await;
    served.signal();
    served.ended(0).await;
}

/// Without the namespace, a rule that narrows what hooks of a namespace may do would not hold.
#[tokio::test]
async fn rules_of_namespaces_need_the_vms_namespace() {
    let pod = Pod::new();
    let module = example("smbios-hook");
    let policy = "{rules: [{namespaces: [ns], allow: {config: []}}]}";
    let stderr = pod.serve(&[&module], &["--policy", policy]).ended(2).await;
    for part in ["--policy", "--namespace NAME"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let file = pod.root().join("policy.yaml");
    fs::write(&file, policy).unwrap();
    let in_file = ["--policy", file.to_str().unwrap()];
    let stderr = pod.serve(&[&module], &in_file).ended(2).await;
    assert!(
        stderr.contains("policy.yaml") && stderr.contains("--namespace NAME"),
        "{stderr}"
    );
    assert!(pod.everything().is_empty(), "{:?}", pod.everything());

    for (namespace, is_its) in [("ns", true), ("other", false)] {
        let arguments = ["--policy", policy, "--namespace", namespace];
        let mut served = pod.serve(&[&module], &arguments);
        served.ready().await;
        let channel = stock_launcher_client::dial(&pod.socket()).await;
        let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: XML.into(),
            vmi: vmi().into_bytes(),
        };
        let defined = client.on_define_domain(params).await;
        assert_eq!(defined.is_ok(), is_its, "{defined:?}");
        if let Err(status) = defined {
            let words = "a VMI of the namespace \"ns\"; this serves the namespace \"other\"";
            assert!(status.message().contains(words), "{status:?}");
        }
        served.signal();
        served.ended(0).await;
    }
}

/// What is not WebAssembly at all gets the policy's refusal, and a module that is one is not compiled.
#[tokio::test]
async fn a_refused_module_never_reaches_the_compiler() {
    let pod = Pod::new();
    let listed = "{digests: Listed, rules: [{digests: ['DIGEST']}]}";
    let listed = listed.replace("DIGEST", &"0".repeat(64));
    let garbage = pod.root().join("garbage.wasm");
    fs::write(&garbage, "no WebAssembly").unwrap();
    let example = example("smbios-hook");
    for module in [&garbage, &example] {
        let stderr = pod.serve(&[module], &["--policy", &listed]).ended(2).await;
        let refused = stderr.contains("--policy:1:11: modules run only");
        assert!(refused && !stderr.contains("was compiled"), "{stderr}");
    }
    // The owner's pin is asked as early.
    let (own, module) = (pod.root().join("own"), pod.root().join("own/smbios.wasm"));
    fs::create_dir(&own).unwrap();
    fs::copy(example, &module).unwrap();
    let pin = format!("sha256: '{}'\n", "0".repeat(64));
    fs::write(own.join("hook.yaml"), pin).unwrap();
    let stderr = pod.serve(&[&module], &[]).ended(2).await;
    assert!(
        stderr.contains("own/hook.yaml:1:9") && !stderr.contains("was compiled"),
        "{stderr}"
    );
}

#[tokio::test]
async fn a_hooks_own_settings_go_with_it() {
    let pod = Pod::new();
    let (own, module) = (pod.root().join("own"), pod.root().join("own/smbios.wasm"));
    fs::create_dir(&own).unwrap();
    fs::copy(example("smbios-hook"), &module).unwrap();
    let settings = |text: &str| fs::write(own.join("hook.yaml"), text).unwrap();
    settings("allow: {paths: [/domain/os/smbios/**]}\n");
    let stderr = pod.serve(&[&module], &[]).ended(2).await;
    assert!(
        stderr.contains("/domain/sysinfo") && stderr.contains("hook.yaml:1:"),
        "{stderr}"
    );
    settings("failurePolicy: DryRun\n");
    let mut served = pod.serve(&[&module], &["--plugin", "smbios"]);
    served.ready().await;
    let socket = pod.directory().join("hook.sock");
    let domain = stock_launcher_client::mutate(&socket, vmi(), "Boot")
        .await
        .unwrap();
    assert_eq!(manufacturer(&domain), None);
    served.signal();
    let stderr = served.ended(0).await;
    assert!(stderr.contains("/domain/sysinfo"), "{stderr}");
}

#[tokio::test]
async fn sigterm_before_ready_leaves_no_files() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.hidden().await;
    served.signal();
    served.ended(0).await;
    assert!(pod.everything().is_empty(), "{:?}", pod.everything());
}

#[tokio::test]
async fn unusable_module_error_contains_its_path_and_no_socket_is_created() {
    let pod = Pod::new();
    let bad = pod.root().join("bad.wasm");
    fs::write(&bad, "no component").unwrap();
    let good = example("smbios-hook");
    let missing_module = pod.root().join("gone.wasm");
    for (modules, arguments, words) in [
        (vec![&missing_module], vec![], "gone.wasm: No such file"),
        (vec![&good, &bad], vec![], "bad.wasm (12 bytes): "),
        (vec![&good, &good], vec![], "named twice"),
        (
            vec![&good],
            vec!["--plugin", "../x"],
            "not the name of a Plugin",
        ),
        (vec![&good], vec!["--socket", "x"], "ends with .sock"),
        (vec![], vec![], "--module"),
    ] {
        let stderr = pod.serve(&modules, &arguments).ended(2).await;
        assert!(stderr.contains(words), "{stderr}");
        assert!(pod.everything().is_empty(), "{:?}", pod.everything());
    }
    fs::remove_dir(pod.directory()).unwrap();
    let stderr = pod.serve(&[&good], &[]).ended(2).await;
    assert!(stderr.contains("shares it with the launcher"), "{stderr}");
}

#[tokio::test]
async fn two_do_not_take_one_name() {
    let pod = Pod::new();
    let mut first = pod.serve(&[&example("smbios-hook")], &[]);
    first.ready().await;
    let stderr = pod.serve(&[&example("smbios-hook")], &[]).ended(2).await;
    assert!(stderr.contains("another process serves there"), "{stderr}");
    first.kill().await;
    // A container that was killed and is started again takes its own place.
    let mut repeated = pod.serve(&[&example("smbios-hook")], &[]);
    repeated.ready().await;
    repeated.signal();
    repeated.ended(0).await;
}

/// KubeVirt v1.9.0 with any hook: the first define has `qemu:commandline`, the next ones have not.
#[tokio::test]
async fn an_element_that_the_launcher_loses_between_two_calls_is_named_in_the_log() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.ready().await;
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let namespace = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'";
    let argument = "<qemu:commandline><qemu:arg value='-debugcon'/></qemu:commandline>";
    for more in [argument, "", ""] {
        let domain =
            format!("<domain type='kvm' {namespace}><name>ns_vm</name><os/>{more}</domain>");
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: domain.into_bytes(),
            vmi: vmi().into_bytes(),
        };
        let answer = client.on_define_domain(params).await.unwrap().into_inner();
        let answer = String::from_utf8(answer.domain_xml).unwrap();
        assert_eq!(answer.contains("-debugcon"), !more.is_empty(), "{answer}");
    }
    served.signal();
    let stderr = served.ended(0).await;
    let lost = stderr
        .lines()
        .filter(|line| line.contains("qemu:commandline"));
    let lost: Vec<_> = lost
        .filter(|line| line.contains("has lost an element"))
        .collect();
    assert_eq!(lost.len(), 1, "{stderr}");
    assert!(
        lost[0].contains("WARN") && lost[0].contains("vm"),
        "{stderr}"
    );
}
