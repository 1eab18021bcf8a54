//! A client of a Kubernetes API server.

use std::time::Duration;

use serde_json::{Value as Json, json};

const STRICT_VALIDATION: &str = "fieldValidation=Strict";

/// A client of an API server behind `kubectl proxy`.
pub(crate) struct KubeClient {
    url: String,
    agent: ureq::Agent,
}

impl KubeClient {
    pub(crate) fn new(url: String) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)));
        Self {
            url,
            agent: config.build().new_agent(),
        }
    }

    /// Sends a request. Returns the answer, or the message of the server's error.
    pub(crate) fn send(&self, method: &str, path: &str, object: &Json) -> Result<Json, String> {
        let uri = match (method, path.contains('?')) {
            ("GET" | "DELETE", _) => format!("{}{path}", self.url),
            (_, true) => format!("{}{path}&{STRICT_VALIDATION}", self.url),
            (_, false) => format!("{}{path}?{STRICT_VALIDATION}", self.url),
        };
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = match object {
            Json::Null => Vec::new(),
            object => object.to_string().into_bytes(),
        };
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content)
            .body(body)
            .unwrap();
        let mut answer = self.agent.run(request).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let body: Json = serde_json::from_str(&text).unwrap_or_else(|_| json!({"message": text}));
        match answer.status().is_success() {
            true => Ok(body),
            false => Err(body["message"].as_str().unwrap_or(&text).to_owned()),
        }
    }
}

/// The API path of the collection for this object.
pub(crate) fn collection(object: &Json) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let resource = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    let is_cluster_scoped = version.starts_with("admissionregistration.k8s.io/")
        || matches!(kind.as_str(), "namespace" | "plugin");
    let namespace = object["metadata"]["namespace"].as_str();
    match is_cluster_scoped {
        true => format!("{root}/{resource}"),
        false => format!(
            "{root}/namespaces/{}/{resource}",
            namespace.unwrap_or("default")
        ),
    }
}
