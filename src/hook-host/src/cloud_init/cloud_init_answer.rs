//! A hook's answer at PreCloudInitIso: documents of a module, or JSON of a sidecar.

/// A hook's answer at PreCloudInitIso before it is validated.
#[derive(Debug, Clone)]
pub(crate) enum CloudInitAnswer {
    /// Documents, as modules return them.
    Documents(Vec<(String, String)>),
    /// JSON, as sidecars return it.
    Json {
        /// KubeVirt's `CloudInitData`.
        data: Vec<u8>,
        /// KubeVirt's `CloudInitNoCloudSource`, from older sidecars.
        no_cloud_source: Vec<u8>,
    },
}

impl CloudInitAnswer {
    /// The total length of the answer in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Documents(documents) => {
                let texts = documents.iter().map(|(name, text)| name.len() + text.len());
                documents.len() + texts.sum::<usize>()
            }
            Self::Json {
                data,
                no_cloud_source,
            } => data.len() + no_cloud_source.len(),
        }
    }
}
