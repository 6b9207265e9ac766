//! Recovery: faults, engines that are asked to stop, resets, devices in error or at their end.

pub(crate) mod adapter_reset;
pub(crate) mod device_error;
pub(crate) mod engine_reset;
pub(crate) mod faults;
pub(crate) mod purge;
pub(crate) mod retire;
pub(crate) mod watch;
