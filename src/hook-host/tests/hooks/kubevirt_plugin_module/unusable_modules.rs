//! Modules of plugins that cannot be loaded, or that the policy refuses.

use super::*;

#[tokio::test]
async fn a_module_of_a_plugin_that_cannot_be_loaded_refuses_an_arriving_domain() {
    let pod = PluginDirs::new();
    fs::write(pod.module(), "no WebAssembly").unwrap();
    let (chain, plugins) = (pod.chain(None).await, pod.plugins(&json!({})));
    let arrival = invocation();
    let arrived = chain.on_incoming_domain(&arrival, "{}", XML.into(), &plugins);
    let error = arrived.await.unwrap_err().to_string();
    assert!(
        error.contains("module odd/hook.wasm of the plugin"),
        "{error}"
    );
}

/// A file that is not WebAssembly gets the error of the policy.
#[tokio::test]
async fn a_module_that_the_policy_refuses_never_reaches_the_compiler() {
    let pod = PluginDirs::new();
    fs::write(pod.module(), "no WebAssembly").unwrap();
    let policy = format!(
        "digests: Listed\nrules:\n- digests: ['{}']\n",
        "0".repeat(64)
    );
    let defined = pod.define("{}", &json!({}), Some(&policy)).await;
    let error = defined.unwrap_err().to_string();
    assert!(error.contains("p.yaml:1:10: modules run only"), "{error}");
}

/// Opening a pipe blocks until there is a writer, and no deadline could end that.
#[tokio::test]
async fn a_pipe_in_place_of_the_module_is_refused() {
    let pod = PluginDirs::new();
    fs::remove_file(pod.module()).unwrap();
    let mkfifo = std::process::Command::new("mkfifo")
        .arg(pod.module())
        .status();
    assert!(mkfifo.unwrap().success());
    let no_members = json!({});
    let defining = pod.define("{}", &no_members, None);
    let defined = tokio::time::timeout(Duration::from_secs(20), defining).await;
    let error = defined.unwrap().unwrap_err().to_string();
    assert!(error.contains("plugin/odd[0]"), "{error}");
    assert!(error.contains("regular file"), "{error}");
}

/// The plugin's timeout is for its calls. `describe` has the deadline of all modules.
#[tokio::test]
async fn a_module_that_spins_while_it_describes_itself_ends_before_the_plugins_timeout() {
    let pod = PluginDirs::new();
    let spins = crate::fixture::misbehaving_hook_with("\"future\": [1, {}]", "\"future\": [4, {}]");
    fs::write(pod.module(), spins).unwrap();
    let long_timeout = json!({"timeout": "600s"});
    let defining = pod.define("{}", &long_timeout, None);
    let defined = tokio::time::timeout(Duration::from_secs(120), defining).await;
    let error = defined.unwrap().unwrap_err().to_string();
    assert!(error.contains("plugin/odd[0]"), "{error}");
}

#[tokio::test]
async fn a_module_that_cannot_be_used_is_an_error_of_the_plugin() {
    let pod = PluginDirs::new();
    fs::write(pod.module(), "no module").unwrap();
    let error = pod
        .define("{}", &json!({}), None)
        .await
        .unwrap_err()
        .to_string();
    for part in ["plugin/odd[0]", "odd/hook.wasm", "starts with"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let ignore = json!({"failureStrategy": "Ignore"});
    assert_eq!(pod.define("{}", &ignore, None).await.unwrap().0, XML);
}

/// A plugin can only write to its own directory, but can create a link that leads out of it.
#[tokio::test]
async fn a_link_out_of_the_plugins_directory_is_refused() {
    let pod = PluginDirs::new();
    fs::remove_file(pod.module()).unwrap();
    std::os::unix::fs::symlink(crate::fixture::misbehaving_hook(), pod.module()).unwrap();
    let error = pod.define("{}", &json!({}), None).await.unwrap_err();
    assert!(error.to_string().contains("odd/hook.wasm"), "{error}");
}
