//! A token service of a registry: it gives alice, who authenticates with a password, tokens that a generated key signs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

/// The header `Authorization` of the user alice with the password "secret".
const ALICE_AUTHORIZATION: &str = "Basic YWxpY2U6c2VjcmV0";
const SERVICE: &str = "hooks of the test";

/// A token service for alice.
pub(crate) struct TokenService {
    port: u16,
    certificate: PathBuf,
    scopes: Arc<Mutex<Vec<String>>>,
}

struct Signer {
    key: EcdsaKeyPair,
    /// The certificate as DER in base64.
    certificate: String,
}

impl TokenService {
    /// Serves until the test program ends. `temp_dir` is for the key and its certificate.
    pub(crate) fn start(temp_dir: &Path) -> Self {
        let (key, certificate) = (temp_dir.join("token.key"), temp_dir.join("token.crt"));
        let output = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args(["-nodes", "-days", "2", "-subj", "/CN=token service"])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let pkcs8 = STANDARD.decode(pem_content(&key)).unwrap();
        let rng = SystemRandom::new();
        let signer = Signer {
            key: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &rng).unwrap(),
            certificate: pem_content(&certificate),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let scopes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&scopes);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(&stream, &signer, &seen);
            }
        });
        Self {
            port,
            certificate,
            scopes,
        }
    }

    /// The lines for the configuration of a registry.
    pub(crate) fn registry_config(&self) -> String {
        format!(
            "auth: {{token: {{realm: 'http://localhost:{}/token', service: '{SERVICE}', issuer: test, \
             rootcertbundle: {}}}}}\n",
            self.port,
            self.certificate.display()
        )
    }

    /// The scopes of the tokens that were given.
    pub(crate) fn scopes(&self) -> Vec<String> {
        self.scopes.lock().unwrap().clone()
    }
}

fn pem_content(path: &Path) -> String {
    let pem = fs::read_to_string(path).unwrap();
    pem.lines()
        .filter(|line| !line.starts_with("-----"))
        .collect()
}

fn serve(mut stream: &TcpStream, signer: &Signer, scopes: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let headers: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let is_alice = headers.iter().any(|line| {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        name.eq_ignore_ascii_case("authorization") && value == ALICE_AUTHORIZATION
    });
    let query = first
        .split(' ')
        .nth(1)
        .and_then(|target| target.strip_prefix("/token?"));
    let (status, body) = match query {
        Some(query) if is_alice => {
            let scope = parameter(query, "scope");
            assert_eq!(parameter(query, "service"), SERVICE);
            let token = signer.token(&scope);
            scopes.lock().unwrap().push(scope);
            (200, json!({"token": token}).to_string())
        }
        Some(_) => (401, String::new()),
        None => (404, String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
}

/// A percent-encoded parameter of a query.
fn parameter(query: &str, name: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(key, _)| *key == name).unwrap().1;
    let mut bytes = value.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8(decoded).unwrap()
}

impl Signer {
    /// A JWT for `repository:NAME:ACTIONS`.
    fn token(&self, scope: &str) -> String {
        let parts: Vec<_> = scope.split(':').collect();
        let [kind, name, actions] = parts[..] else {
            panic!("{scope}");
        };
        let actions: Vec<_> = actions.split(',').collect();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [self.certificate]});
        let claims = json!({
            "iss": "test", "sub": "alice", "aud": SERVICE, "jti": "1",
            "nbf": now - 60, "iat": now - 60, "exp": now + 3600,
            "access": [{"type": kind, "name": name, "actions": actions}],
        });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self
            .key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
