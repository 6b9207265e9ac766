//! Monitored fences: their values, and what signals them (I13).

use std::collections::BTreeMap;

use vidmm::{DeviceId, MonitoredFenceId};

use super::finding::{Findings, Invariant};

/// A monitored fence and a value of it.
pub(super) type FenceValue = (MonitoredFenceId, u64);

/// The values of monitored fences.
#[derive(Debug, Default)]
pub(super) struct Monitored {
    values: BTreeMap<MonitoredFenceId, u64>,
    /// The devices that they end with, of those that have one.
    owners: BTreeMap<MonitoredFenceId, DeviceId>,
    /// Signals that the events before owe: they follow at once.
    owed: Vec<FenceValue>,
}

impl Monitored {
    pub fn create(&mut self, fence: MonitoredFenceId, value: u64, owner: Option<DeviceId>) {
        self.values.insert(fence, value);
        owner.map(|owner| self.owners.insert(fence, owner));
    }

    pub fn remove(&mut self, fence: MonitoredFenceId) {
        self.values.remove(&fence);
        self.owners.remove(&fence);
    }

    /// Whether an end that was told owes this signal.
    pub fn is_owed(&self, signal: FenceValue) -> bool {
        self.owed.contains(&signal)
    }

    /// The device that a fence ends with.
    pub fn owner(&self, fence: MonitoredFenceId) -> Option<DeviceId> {
        self.owners.get(&fence).copied()
    }

    /// The fences that end with a device.
    pub fn of_device(&self, device: DeviceId) -> Vec<MonitoredFenceId> {
        self.owners.iter().filter(|&(_, &owner)| owner == device).map(|(&fence, _)| fence).collect()
    }

    /// Whether a fence has reached a value.
    pub fn has_reached(&self, (fence, value): FenceValue) -> bool {
        self.values.get(&fence).is_some_and(|&reached| value <= reached)
    }

    /// Something has ended that signals fences: those that it raises are signalled before anything else happens.
    pub fn owe(&mut self, signals: impl IntoIterator<Item = FenceValue>) {
        for signal in signals {
            if !self.has_reached(signal) {
                self.owed.push(signal);
            }
        }
    }

    /// A fence is signalled. It rises.
    pub fn signal(&mut self, (fence, value): FenceValue, findings: &mut Findings) {
        let before = self.values.insert(fence, value);
        findings.check(before.is_none_or(|before| before < value), Invariant::I13, || {
            format!("{fence} is signalled with {value} after {before:?}")
        });
        self.owed.retain(|&(of, owed)| of != fence || owed > value);
    }

    /// Something else happens: nothing is owed any more.
    pub fn check_nothing_owed(&mut self, findings: &mut Findings) {
        for (fence, value) in self.owed.drain(..) {
            findings.report(Invariant::I13, format!("{fence} is not signalled with {value} by what has ended"));
        }
    }
}
