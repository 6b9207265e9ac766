//! The twins have the layouts of the table, which are those of the C headers.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::abi;

/// A payload without a name of its own is a member of the union of `DXGKARG_BUILDPAGINGBUFFER` or of
/// `DXGKARGCB_NOTIFY_INTERRUPT_DATA`.
const MEMBERS: [(&str, &str, &str); 12] = [
    ("TRANSFER", "DXGKARG_BUILDPAGINGBUFFER", "Transfer"),
    ("TRANSFER_SIDE", "DXGKARG_BUILDPAGINGBUFFER", "Transfer.Source"),
    ("FILL", "DXGKARG_BUILDPAGINGBUFFER", "Fill"),
    ("DISCARD_CONTENT", "DXGKARG_BUILDPAGINGBUFFER", "DiscardContent"),
    ("MAP_APERTURE_SEGMENT", "DXGKARG_BUILDPAGINGBUFFER", "MapApertureSegment"),
    ("UNMAP_APERTURE_SEGMENT", "DXGKARG_BUILDPAGINGBUFFER", "UnmapApertureSegment"),
    ("MAP_APERTURE_SEGMENT2", "DXGKARG_BUILDPAGINGBUFFER", "MapApertureSegment2"),
    ("D3DGPU_PHYSICAL_ADDRESS", "DXGKARG_SETROOTPAGETABLE", "Address"),
    ("DMA_COMPLETED", "DXGKARGCB_NOTIFY_INTERRUPT_DATA", "DmaCompleted"),
    ("DMA_PREEMPTED", "DXGKARGCB_NOTIFY_INTERRUPT_DATA", "DmaPreempted"),
    ("DMA_FAULTED", "DXGKARGCB_NOTIFY_INTERRUPT_DATA", "DmaFaulted"),
    ("DMA_PAGE_FAULTED", "DXGKARGCB_NOTIFY_INTERRUPT_DATA", "DmaPageFaulted"),
];

/// Fields whose name is ours, because WDDM has none for all of them together, or has a struct there.
const OURS: [(&str, &str); 4] = [
    ("DXGK_DRIVERCAPS", "PagingNode"),
    ("DXGK_DRIVERCAPS", "EngineReserved"),
    ("DXGKARG_BUILDPAGINGBUFFER", "Reserved"),
    ("DXGKARGCB_NOTIFY_INTERRUPT_DATA", "Data"),
];

fn offset(place: &Value) -> Option<u64> {
    match place.as_array() {
        Some(bits) => bits[0].as_u64(),
        None => place.as_u64(),
    }
}

#[test]
fn twins_have_the_documented_layouts() {
    let table: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../tests/layout.json")).expect("the table is JSON");
    let mut compared = 0;
    for &(name, size, fields) in abi::twins() {
        let member = MEMBERS.iter().find(|(twin, ..)| *twin == name);
        let (owner, prefix) = member.map_or((name, ""), |&(_, owner, prefix)| (owner, prefix));
        let layout = table.get(owner).unwrap_or_else(|| panic!("the table has no {owner}"));
        let places = layout["fields"].as_object().expect("fields are an object");
        let base = if prefix.is_empty() { Some(0) } else { places.get(prefix).and_then(offset) };
        let base = base.unwrap_or_else(|| panic!("{owner} has no {prefix}"));
        if prefix.is_empty() {
            assert_eq!(Some(size as u64), layout["size"].as_u64(), "the size of {name}");
        }
        for &(field, at) in fields {
            // A run of fields that nothing accesses has no name of its own: those behind it say that it is as long.
            if OURS.contains(&(name, field)) || field.starts_with('_') {
                continue;
            }
            let dotted = if prefix.is_empty() { field.to_owned() } else { format!("{prefix}.{field}") };
            let place = places.get(&dotted).and_then(offset);
            assert_eq!(place, Some(base + at as u64), "{name}.{field}");
            compared += 1;
        }
    }
    assert!(compared > 400, "{compared} fields were compared");
}
