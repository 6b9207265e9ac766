//! The choices of an application about its adapter.

use vidmm::policy::PolicyChoice;
use vidmm::{AdapterOptions, PAGE_SIZE_64K, TdrOptions};

use crate::report::{DeviceReport, Mode, Rules, Unbinding};

use super::error::Error;

/// The sizes of an adapter's memory, and how its mappings change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Bytes of local memory that the manager may use, a multiple of 64 KiB; `None` is four fifths of what the device has for
    /// this process. Less than there is shows on any machine what happens when memory runs out.
    pub local_bytes: Option<u64>,
    /// Bytes of system memory that buffers may have as backing store, a multiple of 64 KiB; `None` is four fifths of what there is.
    /// Each buffer takes its size of it for its life (U-9).
    pub system_bytes: Option<u64>,
    /// The moment at which buffers that are evicted lose their memory.
    pub unbinding: Unbinding,
    /// The order of eviction, by frames and by the manager (D24): least recently used first, a different policy of the core, or a kind of
    /// your own.
    pub policy: PolicyChoice,
}

/// The options, when they have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checked {
    local: u64,
    system: u64,
    rules: Rules,
    policy: PolicyChoice,
}

impl Options {
    /// The options on a device.
    pub(super) fn check(self, report: &DeviceReport) -> Result<Checked, Error> {
        let granule = report.granule_bytes;
        if granule > PAGE_SIZE_64K {
            return Err(Error::Granule { granule });
        }
        let usable = |memory_type| report.usable_in_heap_of(memory_type).unwrap_or(0) / PAGE_SIZE_64K * PAGE_SIZE_64K;
        let (mut of_local, mut of_system) = (usable(report.local_type), usable(report.system_type));
        if report.has_one_heap() {
            // A size that is chosen leaves the other memory the rest.
            let half = of_local / 2 / PAGE_SIZE_64K * PAGE_SIZE_64K;
            of_local -= self.system_bytes.unwrap_or(half).min(of_local);
            of_system -= self.local_bytes.unwrap_or(half).min(of_system);
        }
        let local = checked("local memory", self.local_bytes.unwrap_or(of_local), of_local)?;
        let system = checked("system memory", self.system_bytes.unwrap_or(of_system), of_system)?;
        Ok(Checked { local, system, rules: Rules { unbinding: self.unbinding, ..report.rules() }, policy: self.policy })
    }
}

/// A size that was asked for, if it is one.
pub(super) fn checked(what: &'static str, asked: u64, most: u64) -> Result<u64, Error> {
    let possible = asked > 0 && asked.is_multiple_of(PAGE_SIZE_64K) && asked <= most;
    if possible { Ok(asked) } else { Err(Error::Size { what, asked, most }) }
}

impl Checked {
    /// The mappings that are bound.
    pub(super) fn rules(self) -> Rules {
        self.rules
    }

    /// The order of eviction.
    pub(super) fn policy(self) -> PolicyChoice {
        self.policy
    }

    /// The bytes of backing store.
    pub(super) fn system(self) -> u64 {
        self.system
    }

    /// The bytes of local memory.
    pub(super) fn local(self) -> u64 {
        self.local
    }

    /// The bytes of the aperture that names system memory: 0 where that cannot be bound.
    pub(super) fn aperture(self) -> u64 {
        if self.rules.mode == Mode::BindsAll { self.system } else { 0 }
    }
}

/// The options of the manager: a Vulkan queue cannot be preempted or reset, so nothing is found hung.
pub(super) fn manager_options(policy: PolicyChoice) -> AdapterOptions {
    let tdr = TdrOptions { quantum: u64::MAX, ..TdrOptions::default() };
    AdapterOptions { tdr, policy, ..AdapterOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::{Error, checked};

    #[test]
    fn a_size_is_a_multiple_of_64_kib_and_there() {
        assert_eq!(checked("local memory", 1 << 20, 1 << 20), Ok(1 << 20));
        for asked in [0, 1 << 12, (1 << 20) + 1, 2 << 20] {
            let refused = checked("local memory", asked, 1 << 20);
            assert_eq!(refused, Err(Error::Size { what: "local memory", asked, most: 1 << 20 }));
        }
    }
}
