//! Requests whose `:authority` is not a host name. Their HTTP/2 frames are written here, since no Rust library sends
//! them.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::support::test_launcher::TestLauncher;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: &str = "/kubevirt.cmd.v1.Cmd/Ping";

fn frame(frame_type: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, frame_type, flags, 0, 0, 0, stream], payload].concat()
}

/// A header field of HPACK: the bytes of its representation and name, and a literal value.
fn header_field(representation: &[u8], value: &str) -> Vec<u8> {
    [
        representation,
        &[u8::try_from(value.len()).unwrap()],
        value.as_bytes(),
    ]
    .concat()
}

/// The frames of a Ping: the headers POST, http, the path, `authority` and those of gRPC, and an empty message.
fn request(stream: u8, authority: &[u8]) -> Vec<u8> {
    let block = [
        vec![0x83, 0x86],
        header_field(&[0x04], PING),
        authority.to_vec(),
        header_field(&[0x0f, 0x10], "application/grpc"),
        b"\x00\x02te\x08trailers".to_vec(),
    ]
    .concat();
    let empty_message = [0; 5];
    [
        frame(HEADERS, 4, stream, &block),
        frame(DATA, 1, stream, &empty_message),
    ]
    .concat()
}

/// An HTTP/2 connection to the command socket.
struct Http2Connection(UnixStream);

impl Http2Connection {
    async fn connect(launcher: &TestLauncher) -> Http2Connection {
        let mut stream = UnixStream::connect(launcher.paths.ready_socket())
            .await
            .unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        Http2Connection(stream)
    }

    /// Sends a Ping. Returns the types of the frames of the response.
    async fn call(&mut self, stream: u8, authority: &[u8]) -> Vec<u8> {
        self.0.write_all(&request(stream, authority)).await.unwrap();
        let mut frame_types = Vec::new();
        loop {
            let mut frame_header = [0; 9];
            self.0.read_exact(&mut frame_header).await.unwrap();
            let mut payload =
                vec![0; usize::from(frame_header[1]) << 8 | usize::from(frame_header[2])];
            self.0.read_exact(&mut payload).await.unwrap();
            if frame_header[8] == stream {
                frame_types.push(frame_header[3]);
                let ended = frame_header[4] & 1 != 0 && frame_header[3] <= HEADERS;
                if ended || frame_header[3] == RST_STREAM {
                    return frame_types;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_authority_is_accepted() {
    let launcher = TestLauncher::new().await;
    for authority in [
        "localhost",
        "/var/run/kubevirt/sockets/launcher-sock",
        "%2Fvar%2Frun%2Fkubevirt%2Fsockets%2Flauncher-sock",
        "unix:/var/run/kubevirt/sockets/launcher-sock",
        "unix:///var/run/kubevirt",
        "a b",
        "::",
    ] {
        let mut connection = Http2Connection::connect(&launcher).await;
        let answers = async {
            let first = connection.call(1, &header_field(&[0x41], authority)).await;
            // The index of the header field that the first request has added to the dynamic table.
            let second = connection.call(3, &[0xbe]).await;
            (first, second)
        };
        let (first, second) = tokio::time::timeout(Duration::from_secs(10), answers)
            .await
            .unwrap();
        assert_eq!(first, [HEADERS, DATA, HEADERS], "{authority}");
        assert_eq!(second, [HEADERS, DATA, HEADERS], "{authority}");
    }
}
