//! The policy of `serve`, and the hook.yaml of modules.

use std::fs;

use proto::hooks::v1alpha3;

use crate::example_modules::example;
use crate::manufacturer;
use crate::served_sidecar::{Pod, XML, stock_launcher_client, vmi};

#[tokio::test]
async fn required_versions_must_be_known_and_met() {
    let pod = Pod::new();
    let hook = pod.root().join("smbios");
    fs::create_dir(&hook).unwrap();
    let module = hook.join("hook.wasm");
    fs::copy(example("smbios-hook"), &module).unwrap();
    fs::write(hook.join("hook.yaml"), "requires: {libvirt: '>=11'}\n").unwrap();
    let refused =
        async |arguments: &[&str]| pod.serve(&[&module], arguments).wait_for_exit(2).await;
    for (arguments, part) in [
        (&[][..], "give it with --libvirt-version"),
        (&["--libvirt-version", "v10.9.0"], "this is libvirt 10.9.0"),
        (&["--libvirt-version", "new"], "not a version such as"),
    ] {
        let stderr = refused(arguments).await;
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let stderr = refused(&[]).await;
    let position = format!("{}:1:21", hook.join("hook.yaml").display());
    assert!(stderr.contains(&position), "{position}: {stderr}");
    let mut served = pod.serve(&[&module], &["--libvirt-version", "11.3"]);
    served.wait_until_ready().await;
    served.terminate();
    served.wait_for_exit(0).await;
}

#[tokio::test]
async fn a_policy_on_the_command_line_is_applied() {
    let pod = Pod::new();
    let module = example("smbios-hook");
    let policy = "{allow: {paths: [/domain/os/smbios/**]}}";
    // A wish that is not granted is an error before the socket is created.
    let stderr = pod
        .serve(&[&module], &["--policy", policy])
        .wait_for_exit(2)
        .await;
    assert!(
        stderr.contains("/domain/sysinfo") && stderr.contains("--policy:1:"),
        "{stderr}"
    );
    let stderr = pod
        .serve(&[&module], &["--policy", "{alow: {}}"])
        .wait_for_exit(2)
        .await;
    assert!(stderr.contains("alow"), "{stderr}");
    let stderr = pod
        .serve(&[&module], &["--policy", "/gone.yaml"])
        .wait_for_exit(2)
        .await;
    assert!(stderr.contains("/gone.yaml"), "{stderr}");
    assert!(pod.everything().is_empty(), "{:?}", pod.everything());

    let policy = "{allow: {paths: [/domain/os/smbios/**, /domain/sysinfo/baseBoard/**]}}";
    let mut served = pod.serve(&[&module], &["--policy", policy]);
    served.wait_until_ready().await;
    served.terminate();
    served.wait_for_exit(0).await;
}

/// Without the namespace, a rule that restricts the hooks of a namespace would not apply.
#[tokio::test]
async fn rules_of_namespaces_need_the_vms_namespace() {
    let pod = Pod::new();
    let module = example("smbios-hook");
    let policy = "{rules: [{namespaces: [ns], allow: {config: []}}]}";
    let stderr = pod
        .serve(&[&module], &["--policy", policy])
        .wait_for_exit(2)
        .await;
    for part in ["--policy", "--namespace NAME"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let file = pod.root().join("policy.yaml");
    fs::write(&file, policy).unwrap();
    let in_file = ["--policy", file.to_str().unwrap()];
    let stderr = pod.serve(&[&module], &in_file).wait_for_exit(2).await;
    assert!(
        stderr.contains("policy.yaml") && stderr.contains("--namespace NAME"),
        "{stderr}"
    );
    assert!(pod.everything().is_empty(), "{:?}", pod.everything());

    for (namespace, is_of_vmi) in [("ns", true), ("other", false)] {
        let arguments = ["--policy", policy, "--namespace", namespace];
        let mut served = pod.serve(&[&module], &arguments);
        served.wait_until_ready().await;
        let channel = stock_launcher_client::dial(&pod.socket()).await;
        let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: XML.into(),
            vmi: vmi().into_bytes(),
        };
        let defined = client.on_define_domain(params).await;
        assert_eq!(defined.is_ok(), is_of_vmi, "{defined:?}");
        if let Err(status) = defined {
            let words = "a VMI of the namespace \"ns\"; this serves the namespace \"other\"";
            assert!(status.message().contains(words), "{status:?}");
        }
        served.terminate();
        served.wait_for_exit(0).await;
    }
}

/// A file that is not WebAssembly is refused by the policy, too, and a module is not compiled.
#[tokio::test]
async fn a_refused_module_never_reaches_the_compiler() {
    let pod = Pod::new();
    let listed = "{digests: Listed, rules: [{digests: ['DIGEST']}]}";
    let listed = listed.replace("DIGEST", &"0".repeat(64));
    let garbage = pod.root().join("garbage.wasm");
    fs::write(&garbage, "no WebAssembly").unwrap();
    let example = example("smbios-hook");
    for module in [&garbage, &example] {
        let stderr = pod
            .serve(&[module], &["--policy", &listed])
            .wait_for_exit(2)
            .await;
        let refused = stderr.contains("--policy:1:11: modules run only");
        assert!(refused && !stderr.contains("was compiled"), "{stderr}");
    }
    // The sha256 in hook.yaml is checked as early.
    let (own, module) = (pod.root().join("own"), pod.root().join("own/smbios.wasm"));
    fs::create_dir(&own).unwrap();
    fs::copy(example, &module).unwrap();
    let pin = format!("sha256: '{}'\n", "0".repeat(64));
    fs::write(own.join("hook.yaml"), pin).unwrap();
    let stderr = pod.serve(&[&module], &[]).wait_for_exit(2).await;
    assert!(
        stderr.contains("own/hook.yaml:1:9") && !stderr.contains("was compiled"),
        "{stderr}"
    );
}

#[tokio::test]
async fn hook_yaml_beside_the_module_is_applied() {
    let pod = Pod::new();
    let (own, module) = (pod.root().join("own"), pod.root().join("own/smbios.wasm"));
    fs::create_dir(&own).unwrap();
    fs::copy(example("smbios-hook"), &module).unwrap();
    let settings = |text: &str| fs::write(own.join("hook.yaml"), text).unwrap();
    settings("allow: {paths: [/domain/os/smbios/**]}\n");
    let stderr = pod.serve(&[&module], &[]).wait_for_exit(2).await;
    assert!(
        stderr.contains("/domain/sysinfo") && stderr.contains("hook.yaml:1:"),
        "{stderr}"
    );
    settings("failurePolicy: DryRun\n");
    let mut served = pod.serve(&[&module], &["--plugin", "smbios"]);
    served.wait_until_ready().await;
    let socket = pod.directory().join("hook.sock");
    let domain = stock_launcher_client::mutate(&socket, vmi(), "Boot")
        .await
        .unwrap();
    assert_eq!(manufacturer(&domain), None);
    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    assert!(stderr.contains("/domain/sysinfo"), "{stderr}");
}
