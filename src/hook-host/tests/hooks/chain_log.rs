//! The log lines of a chain.

use std::fs;

use crate::fixture::log::Log;
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::{CloudInitDocuments, CollectConfig, Plugins, collect};
use serde_json::json;

/// Without the log line nobody would notice, because the Plugin's other hook points are called.
#[tokio::test]
async fn hook_points_of_a_module_that_its_plugin_does_not_call_are_logged() {
    let (log, _guard) = Log::begin();
    let dirs = HookDirs::new();
    let plugins_dir = dirs.hooks().with_file_name("plugins");
    let odd = plugins_dir.join("odd");
    fs::create_dir_all(&odd).unwrap();
    fs::copy(crate::fixture::misbehaving_hook(), odd.join("hook.wasm")).unwrap();
    let config = CollectConfig {
        plugins_dir,
        ..dirs.config(0)
    };
    let chain = collect(config).await.unwrap();
    let hook = json!({"sidecar": {"socketPath": odd.join("hook.sock")}});
    let plugins = json!([{"metadata": {"name": "odd"}, "spec": {"domainHooks": [hook]}}]);
    let plugins = Plugins::parse(plugins.to_string().as_bytes()).unwrap();
    let boot = invocation();
    let defined = chain.on_define_domain_with_plugins(&boot, "{}", XML.into(), &plugins);
    defined.await.unwrap();
    log.line(&[
        "WARN",
        "uncalled_points",
        "plugin/odd[0]",
        "PreCloudInitIso",
        "Shutdown",
    ]);
}

#[tokio::test]
async fn runs_hook_logs_and_late_arrivals_are_logged() {
    let (log, _guard) = Log::begin();
    let dirs = HookDirs::new();
    dirs.put_hook("hook-sidecar-0");
    let chain = collect(dirs.config(1)).await.unwrap();
    log.line(&[
        "hook is ready",
        "name=\"odd\"",
        "OnDefineDomain=-1",
        "version=\"1.2.3\"",
    ]);

    dirs.put_hook("too-late");
    chain
        .on_define_domain(&invocation(), "log", XML.into())
        .await
        .unwrap();
    chain
        .on_define_domain(&invocation(), "veto", XML.into())
        .await
        .unwrap_err();
    let documents = CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json: r#"{"DataSource":"noCloud","NoCloudMetaData":{},"UserData":"u"}"#
            .into(),
    };
    chain
        .pre_cloud_init_iso(&invocation(), "log", documents)
        .await
        .unwrap();
    let with_bidi_control = "replace\n<uuid>\n<title>a\u{202e}b</title><uuid>";
    chain
        .on_define_domain(&invocation(), with_bidi_control, XML.into())
        .await
        .unwrap();
    let shown = log.line(&["hook ran", "<title>a"]);
    assert!(
        shown.contains("u{202e}") && !shown.contains('\u{202e}'),
        "{shown}"
    );
    let ran = log.line(&[
        "INFO",
        "hook ran",
        "hook=\"hook-sidecar-0\"",
        "hook_point=\"OnDefineDomain\"",
        "<title>odd</title>",
    ]);
    for part in [
        "outcome=\"changed\"",
        "/domain/title",
        "inserted",
        "<title>odd</title>",
        "micros=",
        "uid=\"u-1\"",
    ] {
        assert!(ran.contains(part), "{part} in {ran}");
    }
    log.line(&["ERROR", "outcome=\"veto\"", "not on a Friday"]);
    log.line(&["WARN", "through the host", "hook=\"hook-sidecar-0\""]);
    log.line(&["ERROR", "through standard error"]);
    let documents = CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json: r#"{"DataSource":"noCloud","NoCloudMetaData":{},"UserData":"u"}"#
            .into(),
    };
    let crashed = chain
        .pre_cloud_init_iso(&invocation(), "panic", documents)
        .await;
    let error = crashed.unwrap_err().to_string();
    assert!(
        error.contains("crashed") && !error.contains("wheel"),
        "{error}"
    );
    log.line(&["ERROR", "PreCloudInitIso", "last words", "withheld"]);
    // The log lines of a hook that read cloud-init data are withheld, so the line above occurs once.
    log.line(&["log lines are withheld", "PreCloudInitIso", "lines=3"]);
    log.wait_for_line(&["WARN", "too-late/odd.wasm", "it is not used"])
        .await;
}
