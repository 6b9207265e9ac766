//! The driver's segments, by the query of its version.

use vidmm::contract::{PagingBufferDesc, SegmentDescriptor, SegmentFlags, WddmVersion};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::guards::in_guards;
use crate::progress::Entry;
use crate::reports::report;

/// More segments have no id (SEG-05).
const SEGMENTS_MAX: u32 = 32;

/// More banks have no id (SEG-43).
const BANKS_MAX: u32 = 128;

/// WDDM 1.2 has QUERYSEGMENT3, and WDDM 2.0 QUERYSEGMENT4.
const WDDM1_2: WddmVersion = WddmVersion(0x300E);

/// The driver's report about its memory.
pub(crate) struct Segments {
    pub descriptors: Vec<SegmentDescriptor>,
    pub paging_buffer: PagingBufferDesc,
    /// The banks of the first memory segment (SEG-31).
    pub bank_range_table: Vec<u64>,
    /// The descriptors as a driver of WDDM 2.0 or later has written the descriptors.
    pub written: Vec<DXGK_SEGMENTDESCRIPTOR4>,
}

/// Asks the driver a question about its adapter.
pub(crate) fn query<I, O: Copy>(adapter: &Adapter, kind: u32, input: &I, output: &mut O) -> NTSTATUS {
    let Some(function) = adapter.ddi().DxgkDdiQueryAdapterInfo else { return STATUS_INVALID_PARAMETER };
    let input_bytes = size_of::<I>() as u32;
    let mut args = DXGKARG_QUERYADAPTERINFO {
        Type: kind,
        pInputData: if input_bytes == 0 { std::ptr::null() } else { std::ptr::from_ref(input).cast() },
        InputDataSize: input_bytes,
        pOutputData: std::ptr::null_mut(),
        OutputDataSize: size_of::<O>() as u32,
        Flags: 0,
        hKmdProcessHandle: std::ptr::null_mut(),
    };
    let query = |output: *mut O| {
        args.pOutputData = output.cast();
        // SAFETY: input and output are the structs of this type, and live for the call.
        adapter.call_with(Entry::DxgkDdiQueryAdapterInfo, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(adapter.handle(), args)
        })
    };
    let (status, damage) = in_guards(output, query);
    if let Some(damage) = damage {
        report("SHIM-STRUCT", format!("DxgkDdiQueryAdapterInfo of type {kind}: {damage} (OutputDataSize)"));
    }
    status
}

/// The error of a query without which there is no adapter.
///
/// # Errors
///
/// If the query has failed.
pub(crate) fn must(status: NTSTATUS, query: &str) -> Result<(), String> {
    match status >= 0 {
        true => Ok(()),
        false => Err(format!("DxgkDdiQueryAdapterInfo of DXGKQAITYPE_{query} failed with status {status:#x} (CAP-01)")),
    }
}

/// Asks for the segments as an operating system does that knows the driver's version.
///
/// # Errors
///
/// If the driver fails the query, or reports no number of segments that there can be.
pub(crate) fn segments(adapter: &Adapter) -> Result<Segments, String> {
    match WddmVersion(adapter.ddi().Version) {
        version if version >= WddmVersion::WDDM2_0 => segments4(adapter),
        version if version >= WDDM1_2 => older(adapter, DXGKQAITYPE_QUERYSEGMENT3, "QUERYSEGMENT3", |descriptor| {
            let &DXGK_SEGMENTDESCRIPTOR3 { Flags, BaseAddress, Size, CommitLimit, .. } = descriptor;
            (
                segment(Flags, BaseAddress, Size, CommitLimit),
                banks(Flags, descriptor.NbOfBanks),
                descriptor.pBankRangeTable,
            )
        }),
        _ => older(adapter, DXGKQAITYPE_QUERYSEGMENT, "QUERYSEGMENT", |descriptor| {
            let &DXGK_SEGMENTDESCRIPTOR { Flags, BaseAddress, Size, CommitLimit, .. } = descriptor;
            (
                segment(Flags, BaseAddress, Size, CommitLimit),
                banks(Flags, descriptor.NbOfBanks),
                descriptor.pBankRangeTable,
            )
        }),
    }
}

/// The number of banks, which counts if the segment says that it has any (SEG-31).
fn banks(flags: u32, count: u32) -> u32 {
    const USE_BANKING: u32 = 1 << 3;
    if flags & USE_BANKING != 0 { count } else { 0 }
}

fn segment(flags: u32, base_address: u64, size: usize, commit_limit: usize) -> SegmentDescriptor {
    SegmentDescriptor {
        flags: SegmentFlags::from_bits_truncate(flags),
        base_address,
        size: size as u64,
        commit_limit: commit_limit as u64,
    }
}

/// The number of segments, if it is one that there can be.
fn checked(count: u32, query: &str) -> Result<usize, String> {
    match count {
        1..=SEGMENTS_MAX => Ok(count as usize),
        _ => Err(format!("DXGK_{query}.NbSegment is {count}: an adapter has 1 to 32 segments (SEG-05)")),
    }
}

fn is_same(count: usize, again: u32, query: &str) -> Result<(), String> {
    match again as usize == count {
        true => Ok(()),
        false => Err(format!("DXGK_{query}.NbSegment is {count}, and then {again} (SEG-05)")),
    }
}

fn segments4(adapter: &Adapter) -> Result<Segments, String> {
    let physical_adapter = 0u32;
    let mut out = DXGK_QUERYSEGMENTOUT4::zeroed();
    must(query(adapter, DXGKQAITYPE_QUERYSEGMENT4, &physical_adapter, &mut out), "QUERYSEGMENT4")?;
    let count = checked(out.NbSegment, "QUERYSEGMENTOUT4")?;
    let mut descriptors = vec![DXGK_SEGMENTDESCRIPTOR4::zeroed(); count];
    out.pSegmentDescriptor = descriptors.as_mut_ptr().cast();
    out.SegmentDescriptorStride = size_of::<DXGK_SEGMENTDESCRIPTOR4>();
    must(query(adapter, DXGKQAITYPE_QUERYSEGMENT4, &physical_adapter, &mut out), "QUERYSEGMENT4")?;
    is_same(count, out.NbSegment, "QUERYSEGMENTOUT4")?;
    let described = |descriptor: &DXGK_SEGMENTDESCRIPTOR4| {
        segment(descriptor.Flags, descriptor.BaseAddress, descriptor.Size, descriptor.CommitLimit)
    };
    Ok(Segments {
        descriptors: descriptors.iter().map(described).collect(),
        paging_buffer: PagingBufferDesc {
            size: out.PagingBufferSize,
            private_data_size: out.PagingBufferPrivateDataSize,
        },
        bank_range_table: Vec::new(),
        written: descriptors,
    })
}

/// The query of a version whose descriptors are `D`s.
fn older<D: Zeroed>(
    adapter: &Adapter,
    kind: u32,
    name: &str,
    described: impl Fn(&D) -> (SegmentDescriptor, u32, *const usize),
) -> Result<Segments, String> {
    let (input, mut out) = (DXGK_QUERYSEGMENTIN::zeroed(), DXGK_QUERYSEGMENTOUT::zeroed());
    must(query(adapter, kind, &input, &mut out), name)?;
    let count = checked(out.NbSegment, name)?;
    let mut descriptors = Vec::from_iter((0..count).map(|_| D::zeroed()));
    out.pSegmentDescriptor = descriptors.as_mut_ptr().cast();
    must(query(adapter, kind, &input, &mut out), name)?;
    is_same(count, out.NbSegment, name)?;
    let described = Vec::from_iter(descriptors.iter().map(described));
    let first_memory = described.iter().find(|(segment, ..)| !segment.flags.contains(SegmentFlags::APERTURE));
    let bank_range_table = match first_memory {
        Some(&(_, count @ 1..=BANKS_MAX, table)) if !table.is_null() => {
            // SAFETY: the driver says that its table has as many banks, the last of which may be left out (SEG-31).
            let ends = unsafe { std::slice::from_raw_parts(table, count as usize - 1) };
            ends.iter().map(|&end| end as u64).collect()
        }
        _ => Vec::new(),
    };
    Ok(Segments {
        descriptors: described.into_iter().map(|(segment, ..)| segment).collect(),
        paging_buffer: PagingBufferDesc {
            size: out.PagingBufferSize,
            private_data_size: out.PagingBufferPrivateDataSize,
        },
        bank_range_table,
        written: Vec::new(),
    })
}
