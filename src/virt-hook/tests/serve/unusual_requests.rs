//! Requests that no launcher sends: texts that are not XML or JSON, odd protobuf messages and headers, unknown methods,
//! VMIs of other namespaces.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use prost::Message;
use proto::hooks::v1alpha3;
use tests::raw_http2_client::{AUTHORITIES, DATA, HEADERS, frames_of_two_answers};
use tokio::time::timeout;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use crate::example_modules::example;
use crate::manufacturer;
use crate::served_sidecar::{Pod, TEST_TIMEOUT, XML, stock_launcher_client, vmi};

const DEFINE: &str = "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain";

/// `OnDefineDomainParams` with its domain any number of times, and a field that the protocol does not have.
#[derive(Clone, PartialEq, Message)]
struct Params {
    #[prost(bytes = "vec", repeated, tag = "1")]
    domains: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "2")]
    vmi: Vec<u8>,
    #[prost(bytes = "vec", tag = "99")]
    unknown: Vec<u8>,
}

impl Params {
    fn new(domain: impl Into<Vec<u8>>, vmi: impl Into<Vec<u8>>) -> Params {
        Params {
            domains: vec![domain.into()],
            vmi: vmi.into(),
            unknown: Vec::new(),
        }
    }
}

/// Calls a method. Returns the domain of the answer.
async fn call(pod: &Pod, method: &str, request: Request<Params>) -> Result<Vec<u8>, Status> {
    let mut client = tonic::client::Grpc::new(stock_launcher_client::dial(&pod.socket()).await);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<Params, v1alpha3::OnDefineDomainResult>::default();
    let method = PathAndQuery::try_from(method).unwrap();
    let answer = client.unary(request, method, codec).await?;
    Ok(answer.into_inner().domain_xml)
}

async fn define(pod: &Pod, params: Params) -> Result<Vec<u8>, Status> {
    call(pod, DEFINE, Request::new(params)).await
}

fn vmi_of_namespace(namespace: &str) -> String {
    let namespace = serde_json::to_string(namespace).unwrap();
    vmi().replace("\"ns\"", &namespace)
}

/// gRPC's C core, the library below clients in Python, C++ and Ruby, sends the percent-encoded path of the socket.
#[tokio::test]
async fn any_authority_is_accepted() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.wait_until_ready().await;
    for authority in AUTHORITIES {
        let socket = pod.socket();
        let answers = frames_of_two_answers(&socket, "/kubevirt.hooks.info.Info/Info", authority);
        let answers = timeout(TEST_TIMEOUT, answers).await;
        for answer in answers.unwrap().unwrap() {
            assert_eq!(answer, [HEADERS, DATA, HEADERS], "{authority}");
        }
    }
}

#[tokio::test]
async fn unusual_requests_are_answered_or_refused_with_the_reason() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.wait_until_ready().await;
    let mode = fs::metadata(pod.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666, "the launcher may run as another user");

    let vmi_without_names = r#"{"metadata":{"name":"\u001b[31m\u202e\u0085","namespace":"\n"}}"#;
    let unknown_field = Params {
        unknown: vec![7; 100_000],
        ..Params::new(XML, vmi())
    };
    let two_domains = Params {
        domains: vec![b"<a/>".to_vec(), XML.into()],
        ..Params::new(XML, vmi())
    };
    let accepted = [
        (
            "names with control characters",
            Params::new(XML, vmi_without_names),
        ),
        ("a large unknown field", unknown_field),
        (
            "the domain twice, of which the last one counts",
            two_domains,
        ),
    ];
    for (name, params) in accepted {
        let domain = define(&pod, params).await;
        let domain = domain.unwrap_or_else(|status| panic!("{name}: {status:?}"));
        assert!(domain.starts_with(b"<domain"), "{name}");
    }

    let doctype = format!("<!DOCTYPE d>{XML}");
    let metadata_twice = r#"{"metadata":{"namespace":"team-b"},"metadata":{"namespace":"team-a"}}"#;
    let too_large = vec![b'x'; 12_000_000];
    let refused = [
        (
            "VMI in UTF-16",
            Params::new(XML, [0xff, 0xfe]),
            Code::InvalidArgument,
            "the VMI: it is UTF-16, and only UTF-8 is accepted",
        ),
        (
            "VMI that is a list",
            Params::new(XML, "[]"),
            Code::InvalidArgument,
            "the VMI cannot be read: invalid length 0, expected struct Vmi",
        ),
        (
            "VMI of 900,000 lists",
            Params::new(XML, "[".repeat(900_000)),
            Code::InvalidArgument,
            "the VMI cannot be read: invalid type: sequence",
        ),
        (
            "VMI with its metadata twice",
            Params::new(XML, metadata_twice),
            Code::InvalidArgument,
            "the VMI cannot be read: duplicate field `metadata` at line 1",
        ),
        (
            "no domain",
            Params::new("", vmi()),
            Code::InvalidArgument,
            "was not called at OnDefineDomain: malformed XML: line 1, column 1: there is no root element",
        ),
        (
            "domain with a DOCTYPE",
            Params::new(doctype, vmi()),
            Code::InvalidArgument,
            "a DOCTYPE is not accepted in domain XML",
        ),
        (
            "domain of 12 MB",
            Params::new(too_large, vmi()),
            Code::OutOfRange,
            "the limit is: 7323648 bytes",
        ),
        (
            "domain and VMI of 7.5 MB, each below its limit",
            Params::new(vec![b'x'; 4 << 20], vec![b' '; 7 << 19]),
            Code::OutOfRange,
            "the limit is: 7323648 bytes",
        ),
    ];
    for (name, params, code, text) in refused {
        let status = define(&pod, params).await.unwrap_err();
        assert_eq!(status.code(), code, "{name}: {status:?}");
        assert!(status.message().contains(text), "{name}: {status:?}");
    }

    for method in [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.health.v1.Health/Check",
        "/kubevirt.hooks.v1alpha3.Callbacks/../Info",
        "/",
    ] {
        let status = call(&pod, method, Request::new(Params::new(XML, vmi()))).await;
        assert_eq!(status.unwrap_err().code(), Code::Unimplemented, "{method}");
    }

    let with_header = |bytes: usize| {
        let mut request = Request::new(Params::new(XML, vmi()));
        let value = "v".repeat(bytes).parse().unwrap();
        request.metadata_mut().insert("x-large", value);
        request
    };
    call(&pod, DEFINE, with_header(8_000)).await.unwrap();
    let status = call(&pod, DEFINE, with_header(60_000)).await.unwrap_err();
    assert!(status.message().contains("431"), "{status:?}");
    call(&pod, DEFINE, with_header(1_000_000))
        .await
        .unwrap_err();

    // After all of this, a call succeeds and the program ends.
    let domain = define(&pod, Params::new(XML, vmi())).await.unwrap();
    assert_eq!(manufacturer(&domain).as_deref(), Some("Radical Edward"));
    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    let is_raw = |c: char| !hook_host::is_printable(c) && c != '\n';
    assert!(!stderr.contains(is_raw), "{stderr:?}");
    assert!(stderr.contains("\\u{1b}[31m"), "{stderr}");
}

#[tokio::test]
async fn vmis_of_all_but_the_served_namespace_are_refused() {
    let pod = Pod::new();
    let policy = "{allow: {paths: []}, rules: [{namespaces: [team-a], allow: {paths: \
        [/domain/os/smbios/**, /domain/sysinfo/**]}}]}";
    let arguments = ["--namespace", "team-a", "--policy", policy];
    let mut served = pod.serve(&[&example("smbios-hook")], &arguments);
    served.wait_until_ready().await;
    let of_namespace = |namespace| define(&pod, Params::new(XML, vmi_of_namespace(namespace)));
    let domain = of_namespace("team-a").await.unwrap();
    assert_eq!(manufacturer(&domain).as_deref(), Some("Radical Edward"));
    for namespace in ["team-b", "Team-A", "team-a ", "team-a\0", ""] {
        let status = of_namespace(namespace).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{namespace:?}");
        let text = "this serves the namespace \"team-a\", whose rules of the policy";
        assert!(status.message().contains(text), "{namespace:?}: {status:?}");
    }
    served.terminate();
    served.wait_for_exit(0).await;
}

#[tokio::test]
async fn forty_modules_are_served_as_one_sidecar() {
    let pod = Pod::new();
    let modules: Vec<_> = (0..40)
        .map(|index| {
            let directory = pod.root().join(format!("hook-{index}"));
            fs::create_dir(&directory).unwrap();
            let module = directory.join("hook.wasm");
            fs::copy(example("smbios-hook"), &module).unwrap();
            module
        })
        .collect();
    let modules: Vec<_> = modules.iter().collect();
    let mut served = pod.serve(&modules, &[]);
    served.wait_until_ready().await;
    let domain = define(&pod, Params::new(XML, vmi())).await.unwrap();
    assert_eq!(manufacturer(&domain).as_deref(), Some("Radical Edward"));
    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    assert!(stderr.contains("40-"), "{stderr}");
}
