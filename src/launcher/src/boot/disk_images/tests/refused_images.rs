//! Images that are refused, and limits of qemu-img.

use super::*;

#[tokio::test]
async fn images_that_reach_beyond_themselves_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("disk_1.img");
    let data = directory.path().join("data");
    let option = format!("data_file={},data_file_raw=on", data.display());
    qemu_img(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "-o",
        &option,
        &text(&image),
        "1M",
    ]);
    let error = inspect("root", &image, &tools())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("external data file"), "{error}");
    qemu_img(&["create", "-q", "-f", "vmdk", &text(&image), "1M"]);
    let error = inspect("root", &image, &tools())
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "invalid image in containerDisk root: unsupported image format: vmdk"
    );
}

#[tokio::test]
async fn memory_and_time_of_qemu_img_are_limited() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("disk.img");
    qemu_img(&["create", "-q", "-f", "qcow2", &text(&image), "1M"]);
    let little = DiskTools::new(1024 * 1024);
    assert!(matches!(
        inspect("root", &image, &little).await.unwrap_err(),
        DiskError::QemuImg { .. }
    ));

    let script = directory.path().join("slow");
    let text = directory.path().join("text");
    fs::write(&text, "#!/bin/sh\nexec sleep 60\n").unwrap();
    // Another process writes it: children that other tests fork may hold open what this one does.
    let mut install = Command::new("install");
    install.args(["-m", "755"]).args([&text, &script]);
    assert!(install.status().unwrap().success());
    let slow = DiskTools {
        qemu_img: script,
        deadline: Duration::from_millis(100),
        ..tools()
    };
    let start = Instant::now();
    assert!(matches!(
        inspect("root", &image, &slow).await.unwrap_err(),
        DiskError::Deadline { .. }
    ));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn missing_program_error_names_the_package() {
    let tools = DiskTools {
        qemu_img: "/nonexistent/qemu-img".into(),
        ..tools()
    };
    let error = make_files(&[empty(Path::new("/tmp/none"))], &tools)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("qemu-utils"), "{error}");
}
