//! Tests of the service with `qemu-nbd`, which serves NBD as QEMU does.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio_stream::StreamExt;

use super::*;

const MIB: usize = 1 << 20;
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// `qemu-nbd` with an image of 8 MiB: 2 MiB of data, a hole of 4 MiB, 2 MiB of data.
struct ExportedImage {
    child: Child,
    directory: TempDir,
    content: Vec<u8>,
}

impl ExportedImage {
    async fn new() -> ExportedImage {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("disk.img");
        let mut content: Vec<u8> = (0..8 * MIB)
            .map(|at| (at / 4096 + at % 251) as u8)
            .collect();
        content[2 * MIB..6 * MIB].fill(0);
        let file = fs::File::create(&image).unwrap();
        file.set_len(8 << 20).unwrap();
        for range in [0..2 * MIB, 6 * MIB..8 * MIB] {
            let at = range.start as u64;
            std::os::unix::fs::FileExt::write_all_at(&file, &content[range], at).unwrap();
        }
        let socket = directory.path().join("sock");
        let child = Command::new("qemu-nbd")
            .args(["-f", "raw", "-r", "-t", "-e", "10", "-x", "data", "-k"])
            .args([&socket, &image])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let connect = async {
            // The socket exists a moment before connections are accepted.
            while tokio::net::UnixStream::connect(&socket).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(START_TIMEOUT, connect).await.unwrap();
        ExportedImage {
            child,
            directory,
            content,
        }
    }

    fn service(&self) -> NbdService {
        NbdService::new(self.directory.path().join("sock"))
    }

    async fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Status> {
        let request = ReadRequest {
            export_name: "data".into(),
            offset,
            length,
        };
        let mut stream = self
            .service()
            .read(Request::new(request))
            .await?
            .into_inner();
        let mut data = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            assert_eq!(chunk.offset, offset + data.len() as u64);
            assert!(chunk.data.len() as u64 <= CHUNK_BYTES);
            data.extend(chunk.data);
        }
        Ok(data)
    }

    async fn map(&self, export: &str, bitmap: &str) -> Result<Vec<String>, Status> {
        let request = MapRequest {
            export_name: export.into(),
            bitmap_name: bitmap.into(),
            ..MapRequest::default()
        };
        let mut stream = self
            .service()
            .map(Request::new(request))
            .await?
            .into_inner();
        let mut extents = Vec::new();
        while let Some(response) = stream.next().await {
            let batch = response?.extents.into_iter();
            extents.extend(batch.map(|extent| {
                format!("{}+{} {}", extent.offset, extent.length, extent.description)
            }));
        }
        Ok(extents)
    }
}

impl Drop for ExportedImage {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn served_data_equal_the_images_content() {
    let exported = ExportedImage::new().await;
    assert!(exported.read(0, 0).await.unwrap() == exported.content);
    let part = exported.read(MIB as u64 + 3, 3 * MIB as u64).await.unwrap();
    assert!(part == exported.content[MIB + 3..4 * MIB + 3]);
    let tail = exported.read(8 * MIB as u64 - 5, u64::MAX).await.unwrap();
    assert_eq!(tail, exported.content[8 * MIB - 5..]);
    let beyond = exported.read(8 * MIB as u64, 1).await.unwrap_err();
    assert_eq!(
        beyond.message(),
        "offset 8388608 is beyond export size 8388608"
    );
}

#[tokio::test]
async fn map_distinguishes_data_and_holes() {
    let exported = ExportedImage::new().await;
    let map = exported.map("data", "").await.unwrap();
    assert_eq!(
        map,
        [
            "0+2097152 data",
            "2097152+4194304 hole,zero",
            "6291456+2097152 data"
        ]
    );
}

#[tokio::test]
async fn error_names_an_unknown_export_bitmap_or_socket() {
    let exported = ExportedImage::new().await;
    let export = exported.map("none", "").await.unwrap_err();
    assert!(export.message().contains("\"none\""), "{export}");
    let bitmap = exported.map("data", "c1").await.unwrap_err();
    assert_eq!(
        bitmap.message(),
        "server does not support requested context: qemu:dirty-bitmap:c1"
    );
    let missing_socket = NbdClient::connect(Path::new("/nonexistent/sock"), "data", &[]).await;
    assert!(
        missing_socket
            .unwrap_err()
            .to_string()
            .contains("/nonexistent/sock")
    );
}

#[tokio::test]
async fn at_most_two_messages_are_queued_for_a_client_that_does_not_read() {
    let exported = ExportedImage::new().await;
    let request = ReadRequest {
        export_name: "data".into(),
        ..ReadRequest::default()
    };
    let response = exported
        .service()
        .read(Request::new(request))
        .await
        .unwrap();
    let mut stream = response.into_inner();
    // Other clients are served meanwhile.
    assert!(exported.read(0, 0).await.unwrap() == exported.content);
    let inner = stream.as_mut();
    assert!(
        inner.len() <= MAX_QUEUED_MESSAGES,
        "{} messages wait",
        inner.len()
    );
    assert!(stream.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn invalid_bytes_from_the_server_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &[0x17; 64]).await;
        }
    });
    let error = NbdClient::connect(&socket, "data", &[]).await.unwrap_err();
    assert!(error.to_string().contains("not an NBD server"), "{error}");
}
