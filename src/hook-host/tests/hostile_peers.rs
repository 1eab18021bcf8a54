//! Sockets behind which nobody speaks gRPC as it should be: peers that never answer, drip, flood or lie.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::path::Path;
use std::time::Duration;

use fixture::sidecar_server::{Behaviour, Sidecar};
use fixture::{HooksPlace, XML, invocation};
use hook_host::{Chain, CollectConfig, Limits, collect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// How a peer misbehaves on every connection.
#[derive(Debug, Clone, Copy)]
enum Peer {
    /// Reads, and says nothing.
    Silent,
    /// Closes each connection at once.
    Closing,
    /// A correct beginning, one byte a time, without end.
    Dripping,
    /// Bytes that are no HTTP/2, as fast as they are read.
    Garbage,
    /// Correct HTTP/2 frames that ask for answers, as fast as they are read.
    Pinging,
    /// An answer whose headers never end.
    Headers,
}

const ALL: [Peer; 6] = [
    Peer::Silent,
    Peer::Closing,
    Peer::Dripping,
    Peer::Garbage,
    Peer::Pinging,
    Peer::Headers,
];

/// An empty SETTINGS frame of HTTP/2.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

impl Peer {
    fn serve(self, socket: &Path) {
        let listener = UnixListener::bind(socket).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(self.answer(stream));
            }
        });
    }

    async fn answer(self, stream: UnixStream) {
        let (mut reader, mut writer) = stream.into_split();
        if matches!(self, Self::Closing) {
            return;
        }
        // Whatever it says, it reads: the caller is never stopped by a full socket.
        tokio::spawn(async move {
            let mut bytes = vec![0; 64 << 10];
            while reader.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
        });
        let (begin, piece) = self.frames();
        let mut sent = writer.write_all(&begin).await;
        while sent.is_ok() {
            match self {
                Self::Silent => std::future::pending().await,
                Self::Dripping => tokio::time::sleep(Duration::from_millis(1)).await,
                _ => {}
            }
            sent = writer.write_all(&piece).await;
        }
    }

    /// What it says first, and then without end.
    fn frames(self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Silent | Self::Closing => (Vec::new(), Vec::new()),
            // A frame of 16 KiB of a kind that receivers ignore, a byte each millisecond.
            Self::Dripping => {
                let begin = [SETTINGS, &[0, 0x40, 0, 0x20, 0, 0, 0, 0, 0]].concat();
                (begin, vec![0])
            }
            Self::Garbage => (Vec::new(), vec![b'x'; 4096]),
            Self::Pinging => {
                let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[7; 8]].concat();
                (SETTINGS.to_vec(), ping.repeat(100))
            }
            Self::Headers => {
                // HEADERS on stream 1 without their end, then CONTINUATION frames of literal fields.
                let field = [&[0x00, 1, b'a', 127, 0x81, 0x01][..], &[b'v'; 256]].concat();
                let frame = |kind: u8, body: &[u8]| {
                    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
                    [&length[1..], &[kind, 0, 0, 0, 0, 1], body].concat()
                };
                let begin = [SETTINGS, &frame(1, &[0x88])[..]].concat();
                (begin, frame(9, &field.repeat(60)))
            }
        }
    }
}

fn config(place: &HooksPlace) -> CollectConfig {
    CollectConfig {
        limits: Limits {
            sidecar_deadline: Duration::from_millis(500),
            ..Limits::default()
        },
        ..place.config(1)
    }
}

#[tokio::test]
async fn no_such_peer_is_collected() {
    for peer in ALL {
        let place = HooksPlace::new();
        peer.serve(&place.at("hook-sidecar-0", "s"));
        let config = CollectConfig {
            deadline: Duration::from_millis(1500),
            ..config(&place)
        };
        let error = collect(config).await.err().unwrap().to_string();
        assert!(error.contains("hook-sidecar-0/s"), "{peer:?}: {error}");
        assert!(error.len() < 1000, "{peer:?}: {error}");
    }
}

/// A sidecar that answered Info, and is another one when it is called.
async fn turned_into(peer: Peer, place: &HooksPlace) -> Chain {
    let socket = place.at("hook-sidecar-0", "s");
    let honest = Behaviour {
        hook_points: vec![("OnDefineDomain", 0), ("Shutdown", 0)],
        ..Behaviour::default()
    };
    let honest = Sidecar::serve(&socket, honest);
    let chain = collect(config(place)).await.unwrap();
    drop(honest);
    std::fs::remove_file(&socket).unwrap();
    peer.serve(&socket);
    chain
}

#[tokio::test]
async fn a_call_of_such_a_peer_ends_with_its_hooks_name() {
    for peer in ALL {
        let place = HooksPlace::new();
        let chain = turned_into(peer, &place).await;
        let defined = chain
            .on_define_domain(&invocation(), "{}", XML.into())
            .await;
        let error = defined.err().unwrap().to_string();
        assert!(error.contains("hook-sidecar-0"), "{peer:?}: {error}");
        assert!(error.len() < 5000, "{peer:?}: {error}");
        // At the end of the virtual machine too.
        let runs = chain.shutdown(&invocation()).await;
        assert_eq!(runs.len(), 1);
        assert!(
            runs.iter().all(|run| run.outcome.name() != "ok"),
            "{peer:?}"
        );
    }
}
