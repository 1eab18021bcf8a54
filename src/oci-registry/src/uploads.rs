//! Uploads.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{Method, StatusCode};
use image_layout::{Digest, sha256};

use crate::RegistryError;
use crate::auth_challenge::encoded;
use crate::http_requests::Query;
use crate::repository_client::Client;

impl Client {
    /// Uploads a blob, unless the registry has it. Returns whether it was uploaded.
    pub fn push_blob(&mut self, content: &[u8]) -> Result<bool, RegistryError> {
        let digest = sha256(content);
        let url = self.url(&format!("blobs/{digest}"));
        let answer = self.ask(&Query::new(Method::HEAD, &url))?;
        match answer.status() {
            StatusCode::OK => return Ok(false),
            StatusCode::NOT_FOUND => {}
            _ => return Err(self.refusal(&url, answer)),
        }
        let url = self.url("blobs/uploads/");
        let answer = self.expect(StatusCode::ACCEPTED, &Query::new(Method::POST, &url))?;
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let location = location.and_then(|location| self.upload_url(location));
        let location = location.ok_or_else(|| {
            RegistryError::malformed(&url, "it names no place of its own for the upload")
        })?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let url = format!("{location}{separator}digest={}", encoded(digest.as_str()));
        let upload = Query {
            method: Method::PUT,
            url: &url,
            headers: &[(CONTENT_TYPE, "application/octet-stream")],
            body: content,
        };
        self.expect(StatusCode::CREATED, &upload)?;
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
        let upload = Query {
            method: Method::PUT,
            url: &url,
            headers: &[(CONTENT_TYPE, media_type)],
            body: content,
        };
        self.expect(StatusCode::CREATED, &upload)?;
        Ok(sha256(content))
    }

    /// The place of an upload: on the registry itself, since the credentials go there.
    fn upload_url(&self, location: &str) -> Option<String> {
        let origin = self.origin();
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(format!("{origin}{location}"));
        }
        let rest = location.strip_prefix(&origin)?;
        rest.starts_with('/').then(|| location.to_owned())
    }
}
