//! The admission policies of `deploy/admission`, evaluated on the pods that virt-controller renders
//! (`tests/corpus/pods`). The evaluation itself is compared with a real API server's answers in `recorded_answers`.
#![allow(clippy::unwrap_used)]

mod api_server;
mod cel_expression;
mod deployed_modules;
mod hook_guard;
mod kustomizations;
mod pod_corpus;
mod policy_files;
mod real_api_server;
mod recorded_answers;
mod shipped_policies;
mod sidecar_images;
