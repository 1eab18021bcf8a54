//! When the socket is created, and what is left of it.

use std::fs;

use crate::example_modules::example;
use crate::served_sidecar::Pod;

#[tokio::test]
async fn sigterm_before_ready_leaves_no_files() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.wait_until_getting_ready().await;
    served.terminate();
    served.wait_for_exit(0).await;
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
        let stderr = pod.serve(&modules, &arguments).wait_for_exit(2).await;
        assert!(stderr.contains(words), "{stderr}");
        assert!(pod.everything().is_empty(), "{:?}", pod.everything());
    }
    fs::remove_dir(pod.directory()).unwrap();
    let stderr = pod.serve(&[&good], &[]).wait_for_exit(2).await;
    assert!(stderr.contains("shares it with the launcher"), "{stderr}");
}

#[tokio::test]
async fn a_second_program_does_not_take_the_socket_of_a_running_one() {
    let pod = Pod::new();
    let mut first = pod.serve(&[&example("smbios-hook")], &[]);
    first.wait_until_ready().await;
    let stderr = pod
        .serve(&[&example("smbios-hook")], &[])
        .wait_for_exit(2)
        .await;
    assert!(stderr.contains("another process serves there"), "{stderr}");
    first.kill().await;
    // A container that was killed and is started again takes over its own socket.
    let mut repeated = pod.serve(&[&example("smbios-hook")], &[]);
    repeated.wait_until_ready().await;
    repeated.terminate();
    repeated.wait_for_exit(0).await;
}
