//! Clients whose `:authority` is not a host name, written by hand: no Rust library sends them.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::test_launcher::TestLauncher;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: &str = "/kubevirt.cmd.v1.Cmd/Ping";

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, stream], payload].concat()
}

fn literal(index: &[u8], value: &str) -> Vec<u8> {
    [
        index,
        &[u8::try_from(value.len()).unwrap()],
        value.as_bytes(),
    ]
    .concat()
}

/// POST, http, the path, the authority by `authority`, and what gRPC needs.
fn request(stream: u8, authority: &[u8]) -> Vec<u8> {
    let block = [
        vec![0x83, 0x86],
        literal(&[0x04], PING),
        authority.to_vec(),
        literal(&[0x0f, 0x10], "application/grpc"),
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

struct Client(UnixStream);

impl Client {
    async fn connect(launcher: &TestLauncher) -> Client {
        let mut stream = UnixStream::connect(launcher.paths.ready_socket())
            .await
            .unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        Client(stream)
    }

    /// The kinds of the frames that answer on `stream`, up to the stream's end.
    async fn call(&mut self, stream: u8, authority: &[u8]) -> Vec<u8> {
        self.0.write_all(&request(stream, authority)).await.unwrap();
        let mut kinds = Vec::new();
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            self.0.read_exact(&mut payload).await.unwrap();
            if head[8] == stream {
                kinds.push(head[3]);
                let ended = head[4] & 1 != 0 && head[3] <= HEADERS;
                if ended || head[3] == RST_STREAM {
                    return kinds;
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
        let mut client = Client::connect(&launcher).await;
        let answers = async {
            let first = client.call(1, &literal(&[0x41], authority)).await;
            // From the table of headers, where the first request put it.
            let second = client.call(3, &[0xbe]).await;
            (first, second)
        };
        let (first, second) = tokio::time::timeout(Duration::from_secs(10), answers)
            .await
            .unwrap();
        assert_eq!(first, [HEADERS, DATA, HEADERS], "{authority}");
        assert_eq!(second, [HEADERS, DATA, HEADERS], "{authority}");
    }
}
