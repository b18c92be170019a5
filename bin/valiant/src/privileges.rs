//! The rights that a router keeps once its ports are open.

use dpdk::helper::{self, Helper};
use dpdk::rights::{self, Capability, User};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The requested rights.
pub(crate) struct PrivilegeArgs<'a> {
    /// The user that the router is to become.
    pub(crate) user: Option<&'a str>,
    /// Capabilities that it is to keep, or `all`.
    pub(crate) keep: &'a [String],
    /// Whether its configuration can be replaced.
    pub(crate) hotswap: bool,
}

/// The rights that a router is to give up: determined before it opens anything, given up when its ports are
/// open.
pub(crate) struct PrivilegeDrop {
    user: Option<User>,
    keep: Vec<Capability>,
    helper: Option<Helper>,
}

impl PrivilegeDrop {
    /// The rights to give up according to the arguments. Without such arguments, none are given up unless a
    /// service manager has started this process.
    ///
    /// # Errors
    /// A message for the user.
    pub(crate) fn of(asked: &PrivilegeArgs<'_>, click: bool) -> Result<Option<Self>, String> {
        let anything = asked.user.is_some() || !asked.keep.is_empty();
        if !anything && (click || !is_service()) {
            return Ok(None);
        }
        let all = asked.keep.iter().any(|name| name == "all");
        if all && asked.user.is_none() {
            return Ok(None);
        }
        let keep: Result<Vec<Capability>, String> = match all {
            true => Ok(Capability::of_mask(u64::MAX)),
            false => asked.keep.iter().map(|name| name.parse()).collect(),
        };
        let keep = keep.map_err(|e| format!("--keep-capability: {e}"))?;
        let user = asked.user.map(User::find).transpose().map_err(|e| format!("--user: {e}"))?;
        if user.is_some() && !dpdk::probe::Rights::probe().root {
            return Err("--user: becoming another user takes root".to_owned());
        }
        // Devices are opened later only if the configuration can be replaced.
        let helper = match asked.hotswap.then(Helper::start).transpose() {
            Ok(helper) => helper,
            Err(e) => {
                let reason = launch::reason(&e);
                tracing::warn!(target: "router", "the helper that opens devices for hot swaps does not start: {reason}");
                None
            }
        };
        Ok(Some(Self { user, keep, helper }))
    }

    /// Gives up the rights that are not needed any more. Returns a message about it.
    ///
    /// # Errors
    /// The rights could not be given up; the process must not continue.
    pub(crate) fn carry_out(self) -> Result<String, String> {
        let mut kept: BTreeMap<Capability, String> = dpdk::capabilities_in_use().into_iter().collect();
        let used: Vec<String> = kept.iter().map(|(c, why)| format!("{c} ({why})")).collect();
        kept.extend(self.keep.iter().map(|c| (*c, String::new())));
        rights::give_up(self.user.as_ref(), &kept.into_keys().collect::<Vec<_>>())?;
        if let Some(helper) = self.helper {
            helper.employ();
        }
        let asked: Vec<String> = self.keep.iter().map(Capability::to_string).collect();
        let kept = [used.join(", "), asked.join(", ")].into_iter().filter(|t| !t.is_empty());
        let kept = kept.collect::<Vec<_>>().join(", ");
        let user = self.user.map_or_else(String::new, |user| format!("runs as {} and ", user.name));
        Ok(format!("{user}keeps {} of its capabilities", if kept.is_empty() { "none" } else { &kept }))
    }
}

/// Whether the system's service manager has started this process, as root. Other processes that a service has
/// started have its variables too, but another parent.
fn is_service() -> bool {
    std::os::unix::process::parent_id() == 1
        && std::env::var_os("INVOCATION_ID").is_some()
        && dpdk::probe::Rights::probe().root
}

/// The helper's `main`.
pub(crate) fn helper() -> ExitCode {
    match helper::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            launch::logging::error(&format!("{}: {e}", helper::NAME));
            ExitCode::FAILURE
        }
    }
}
