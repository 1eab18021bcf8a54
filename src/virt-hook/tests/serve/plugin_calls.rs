//! The calls of the sidecars of plugins.

use tonic::Code;

use crate::example_modules::{example, hook_at_every_point};
use crate::manufacturer;
use crate::served_sidecar::{Pod, stock_launcher_client, vmi, vmi_that_does};

#[tokio::test]
async fn plugin_calls_run_all_modules_and_report_their_errors() {
    let pod = Pod::new();
    let arguments = ["--plugin", "smbios", "--socket", "smbios.sock"];
    let mut served = pod.serve(
        &[&example("smbios-hook"), &hook_at_every_point()],
        &arguments,
    );
    served.wait_until_ready().await;
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
            .starts_with("hook 2-hook_at_every_point failed at OnDefineDomain: no colour"),
        "{status:?}"
    );
    let status = mutate(vmi_that_does("veto"), "Boot").await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(
        status.message(),
        "hook 2-hook_at_every_point refuses at PreStart: licence expired"
    );
    let status = mutate(vmi_that_does("panic"), "Boot").await.unwrap_err();
    assert!(status.code() == Code::Internal && status.message().contains("a wheel came off"));
    let status = mutate(vmi(), "MigrationSource").await.unwrap_err();
    assert!(status.code() == Code::InvalidArgument && status.message().contains("MigrationSource"));
    let status = mutate("no".into(), "Boot").await.unwrap_err();
    assert!(status.code() == Code::InvalidArgument && status.message().contains("the VMI"));
    assert!(stock_launcher_client::info(&socket).await.is_err());

    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    assert!(stderr.contains("vm may start: MigrationTarget"), "{stderr}");
    assert!(stderr.contains("shutting down is never easy"), "{stderr}");
    assert!(
        stderr.contains("called before each of the others"),
        "{stderr}"
    );
    assert!(pod.files().is_empty());
}

#[tokio::test]
async fn plugin_calls_return_the_changed_domain() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &["--plugin", "smbios"]);
    served.wait_until_ready().await;
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
    served.terminate();
    served.wait_for_exit(0).await;
}
