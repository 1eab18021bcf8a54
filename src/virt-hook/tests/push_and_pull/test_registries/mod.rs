//! Registries with which `push` and `pull` are tested.

pub(crate) mod built_images;
pub(crate) mod certificate;
pub(crate) mod docker_registry;
pub(crate) mod scripted_registry;
pub(crate) mod token_service;
