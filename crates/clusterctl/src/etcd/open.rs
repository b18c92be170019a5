//! The part of etcd that is a cluster's, as its file names it.

use super::store::{Store, StoreError};
use crate::file::Cluster;
use crate::key::secret;
use etcd::Limits;
use launch::Failure;
use std::path::Path;

impl From<StoreError> for Failure {
    fn from(e: StoreError) -> Self {
        Self::Text(e.to_string())
    }
}

/// The store of a cluster that has one.
pub(super) fn store(cluster: &Cluster, limits: Limits) -> Result<Option<Store>, Failure> {
    let Some(settings) = &cluster.etcd else { return Ok(None) };
    Ok(Some(Store::new(settings, limits, secret(cluster)?).map_err(StoreError::from)?))
}

/// The store of a cluster that must have one.
pub(super) fn the_store(cluster: &Cluster, file: &Path) -> Result<Store, Failure> {
    store(cluster, Limits::default())?.ok_or_else(|| {
        let file = file.display();
        Failure::Text(format!(
            "{file} has no section [etcd]\nhelp: add one: [etcd] and endpoints = [\"http://127.0.0.1:2379\"]"
        ))
    })
}

pub(super) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
