//! Uploads blobs and manifests.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{Method, StatusCode};
use image_layout::{Digest, sha256};

use crate::RegistryError;
use crate::http_transport::HttpRequest;
use crate::percent_encoding::percent_encode;
use crate::repository_client::Client;

impl Client {
    /// Uploads a blob, unless the registry has it. Returns whether it was uploaded.
    pub fn push_blob(&mut self, content: &[u8]) -> Result<bool, RegistryError> {
        let digest = sha256(content);
        let url = self.url(&format!("blobs/{digest}"));
        let answer = self.send(&HttpRequest::new(Method::HEAD, &url))?;
        match answer.status() {
            StatusCode::OK => return Ok(false),
            StatusCode::NOT_FOUND => {}
            _ => return Err(self.status_error(&url, answer)),
        }
        let url = self.url("blobs/uploads/");
        let answer =
            self.send_expecting(StatusCode::ACCEPTED, &HttpRequest::new(Method::POST, &url))?;
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let location = location.and_then(|location| self.upload_url(location));
        let location = location.ok_or_else(|| {
            RegistryError::malformed(&url, "it names no place of its own for the upload")
        })?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = format!(
            "{location}{separator}digest={}",
            percent_encode(digest.as_str())
        );
        let upload = HttpRequest {
            method: Method::PUT,
            url: &url,
            headers: &[(CONTENT_TYPE, "application/octet-stream")],
            body: content,
        };
        self.send_expecting(StatusCode::CREATED, &upload)?;
        Ok(true)
    }

    /// Uploads a manifest under a name: a tag, or its digest.
    pub fn push_manifest(
        &mut self,
        name: &str,
        media_type: &str,
        content: &[u8],
    ) -> Result<Digest, RegistryError> {
        let url = self.url(&format!("manifests/{name}"));
        let upload = HttpRequest {
            method: Method::PUT,
            url: &url,
            headers: &[(CONTENT_TYPE, media_type)],
            body: content,
        };
        self.send_expecting(StatusCode::CREATED, &upload)?;
        Ok(sha256(content))
    }

    /// The URL of an upload; `None` if it is on another host, since the credentials are sent there.
    fn upload_url(&self, location: &str) -> Option<String> {
        let origin = self.origin();
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(format!("{origin}{location}"));
        }
        let rest = location.strip_prefix(&origin)?;
        rest.starts_with('/').then(|| location.to_owned())
    }
}
