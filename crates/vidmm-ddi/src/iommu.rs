//! The driver's answers about an IOMMU, between AddDevice and StartDevice (CAP-01).

use vidmm::contract::WddmVersion;

use crate::abi::*;
use crate::adapter::Adapter;
use crate::reports::{remark, report};
use crate::segments::query;

/// All documents agree that WDDM 3.0 has the questions.
const WDDM3_0: WddmVersion = WddmVersion(0xF003);

/// Asks for the caps. A driver without the caps fails the queries, and the adapter is none behind an IOMMU. No IOMMU is switched on here:
/// addresses stay physical.
pub(crate) fn ask(adapter: &Adapter) {
    if adapter.ddi().Version < WDDM3_0.0 {
        return;
    }
    let mut caps = 0u32;
    let knows_iommu = query(adapter, DXGKQAITYPE_IOMMU_CAPS, &(), &mut caps) >= 0;
    if !knows_iommu {
        caps = 0;
    }
    let has = |flag| caps & flag != 0;
    if has(IOMMU_ISOLATION_REQUIRED) && !has(IOMMU_ISOLATION_SUPPORTED) {
        report("DDI-IOMMU", "DXGK_IOMMU_CAPS has IommuIsolationRequired without IommuIsolationSupported");
    }
    if has(IOMMU_ISOLATION_REQUIRED) {
        remark("DRV-18", "IommuIsolationRequired is set: vidmm has no IOMMU, and addresses stay physical");
    }
    let mut highest = 0u64;
    if query(adapter, DXGKQAITYPE_PHYSICAL_MEMORY_CAPS, &(), &mut highest) < 0 {
        return;
    }
    match highest {
        0 => remark("DRV-08", "HighestVisibleAddress is 0, read as no limit"),
        // With remapping the GPU's addresses are below the limit, whatever memory the machine has (DRV-18).
        _ if !has(IOMMU_DMA_REMAPPING_SUPPORTED) => adapter.limit_addresses(highest),
        _ => {}
    }
}
