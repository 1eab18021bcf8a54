//! Invalid container disks, and the limits of qemu-img.

use super::*;

#[tokio::test]
async fn images_with_external_files_or_unknown_formats_are_invalid() {
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
    let little_memory = DiskTools::new(1024 * 1024);
    assert!(matches!(
        inspect("root", &image, &little_memory).await.unwrap_err(),
        DiskImageError::QemuImg { .. }
    ));

    let script = directory.path().join("slow");
    let text = directory.path().join("text");
    fs::write(&text, "#!/bin/sh\nexec sleep 60\n").unwrap();
    // Another process writes the program: a child that another test forks may hold a file open that this process
    // writes.
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
        DiskImageError::Timeout { .. }
    ));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn missing_program_error_names_the_package() {
    let tools = DiskTools {
        qemu_img: "/nonexistent/qemu-img".into(),
        ..tools()
    };
    let error = prepare_required_files(&[empty(Path::new("/tmp/none"))], &tools)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("qemu-utils"), "{error}");
}
