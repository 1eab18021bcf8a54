//! The calls of hook sidecars: those of a stock launcher, and those of this launcher.

use std::fs;
use std::time::Duration;

use hook_host::{CollectConfig, Compiler, Invocation, Limits, Outcome};
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use serde_json::{Value, json};

use crate::example_modules::{example, hook_at_every_point, misbehaving_hook};
use crate::manufacturer;
use crate::served_sidecar::{Pod, XML, stock_launcher_client, vmi, vmi_that_does};

#[tokio::test]
async fn a_stock_launcher_sees_one_sidecar_for_all_modules() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook"), &example("cloud-init-hook")], &[]);
    served.wait_until_ready().await;
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

    // Every version of the protocol, each call on a new connection, as KubeVirt does it.
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

    // Shutdown is answered. Then the program ends and leaves no files.
    let params = v1alpha3::ShutdownParams {};
    client.shutdown(params).await.unwrap();
    let stderr = served.wait_for_exit(0).await;
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
async fn this_launcher_collects_and_calls_the_sidecar() {
    let pod = Pod::new();
    let served = pod.serve(&[&example("smbios-hook"), &example("cloud-init-hook")], &[]);
    // The collection begins at once: no file of the program is taken for a hook before the socket is ready.
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
    // A stock launcher calls the hook again, with the domain that the first call returned.
    let (repeated, runs) = chain
        .on_define_domain(&invocation, &vmi(), xml.clone())
        .await
        .unwrap();
    assert_eq!((repeated, runs[0].changes.len()), (xml, 0));
    let runs = chain.shutdown(&invocation).await;
    assert_eq!(runs[0].outcome, Outcome::Ok);
    served.wait_for_exit(0).await;
}

/// The program has one thread for its calls. If this thread checked the hook's answer, no other call would be answered
/// meanwhile.
#[tokio::test]
async fn a_long_check_of_an_answer_does_not_delay_other_calls() {
    let pod = Pod::new();
    let deep = "x/".repeat(120);
    let paths = format!("['/domain/**/x[{deep}@a]', '/domain/x/**']");
    let (own, module) = (pod.root().join("own"), pod.root().join("own/odd.wasm"));
    fs::create_dir(&own).unwrap();
    fs::copy(misbehaving_hook(), &module).unwrap();
    let settings = format!("deadline: 10s\nallow: {{paths: {paths}}}\n");
    fs::write(own.join("hook.yaml"), settings).unwrap();
    let mut served = pod.serve(&[&module], &[]);
    served.wait_until_ready().await;
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

    // On SIGTERM the call in flight is answered before the program ends.
    let defined = define();
    stock_launcher_client::info(&pod.socket()).await.unwrap();
    served.terminate();
    served.wait_for_exit(0).await;
    defined.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn modules_run_in_the_order_of_the_command_line() {
    let pod = Pod::new();
    let (smbios, every) = (example("smbios-hook"), hook_at_every_point());
    let mut served = pod.serve(&[&smbios, &every], &[]);
    served.wait_until_ready().await;
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let params = v1alpha3::OnDefineDomainParams {
        domain_xml: XML.into(),
        vmi: vmi().into_bytes(),
    };
    client.on_define_domain(params).await.unwrap_err();
    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    let first = stderr.find("hook ran hook=\"1-smbios_hook\"").unwrap();
    let second = stderr
        .find("hook did not do its work hook=\"2-hook_at_every_point\"")
        .unwrap();
    assert!(first < second, "{stderr}");
}
