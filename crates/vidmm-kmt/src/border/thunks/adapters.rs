//! Adapters, and what a process may have of their memory.

use windows_sys::Wdk::Graphics::Direct3D as wdk;

use super::not_supported;
use crate::border::{client, dxcore};
use crate::call::{Call, Reply};
use crate::status::Status;

/// Kinds of `KMTQUERYADAPTERINFOTYPE`.
const ADAPTER_TYPE: i32 = 15;
const QUERY_REGISTRY: i32 = 48;

/// `D3DKMT_ADAPTERTYPE`: the adapter renders, and computes only.
const RENDERS: u32 = 1 << 0;
const COMPUTES_ONLY: u32 = 1 << 11;

/// `D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH`.
const DRIVER_STORE_PATH: u32 = 2;

/// Words before the value's type in `D3DDDI_QUERYREGISTRY_INFO`: two numbers, and a name of 260 characters of four bytes each.
const REGISTRY_NAME_WORDS: usize = 2 + 260;

/// `D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW`.
const BUFFER_OVERFLOW: u32 = 1;

/// The segments of statistics: local memory, and system memory that the GPU reaches.
const SEGMENTS: u32 = 2;

/// The engines: one renders, one copies.
const NODES: u32 = 2;

/// `D3DKMT_ENUMADAPTERS3`.
#[repr(C)]
pub struct EnumAdapters3 {
    filter: u64,
    num_adapters: u32,
    adapters: *mut wdk::D3DKMT_ADAPTERINFO,
}

/// Opens the adapter for a list. Without a list, the number of adapters is the answer.
///
/// # Safety
///
/// `list` is null, or has `num` elements.
unsafe fn list_adapters(list: *mut wdk::D3DKMT_ADAPTERINFO, num: &mut u32) -> Reply {
    if list.is_null() {
        *num = 1;
        return Reply::default();
    }
    if *num == 0 {
        return Reply::refused(Status::INVALID_PARAMETER, "the list has no room");
    }
    let reply = client::call(Call::OpenAdapter);
    *num = 1;
    // SAFETY: the caller's array has an element.
    let info = unsafe { &mut *list };
    info.hAdapter = reply.handle();
    info.AdapterLuid.LowPart = dxcore::LUID as u32;
    info.AdapterLuid.HighPart = 0;
    (info.NumOfSources, info.bPrecisePresentRegionsPreferred) = (0, 0);
    reply
}

thunks! {
    /// Opens the adapter.
    D3DKMTOpenAdapterFromLuid(args: wdk::D3DKMT_OPENADAPTERFROMLUID) {
        let luid = args.AdapterLuid;
        if u64::from(luid.LowPart) | (luid.HighPart as u64) << 32 != dxcore::LUID {
            return Status::INVALID_PARAMETER.0;
        }
        let reply = client::call(Call::OpenAdapter);
        args.hAdapter = reply.handle();
        reply
    }

    /// Closes an adapter.
    D3DKMTCloseAdapter(args: wdk::D3DKMT_CLOSEADAPTER) {
        client::call(Call::CloseAdapter { adapter: args.hAdapter })
    }

    /// Lists the adapter, open.
    D3DKMTEnumAdapters2(args: wdk::D3DKMT_ENUMADAPTERS2) {
        // SAFETY: the array has so many elements, or is null.
        unsafe { list_adapters(args.pAdapters, &mut args.NumAdapters) }
    }

    /// Lists the adapter, open, whatever the filter asks for.
    D3DKMTEnumAdapters3(args: EnumAdapters3) {
        // SAFETY: the array has so many elements, or is null.
        unsafe { list_adapters(args.adapters, &mut args.num_adapters) }
    }

    /// Says what the adapter is.
    D3DKMTQueryAdapterInfo(args: wdk::D3DKMT_QUERYADAPTERINFO) {
        let reply = client::call(Call::QueryAdapterInfo { adapter: args.hAdapter, info_type: args.Type });
        if reply.status.is_success() {
            // SAFETY: the caller's buffer has so many bytes.
            unsafe { adapter_info(args.Type, args.pPrivateDriverData.cast(), args.PrivateDriverDataSize as usize / 4) };
        }
        reply
    }

    /// Says what a process may keep resident, and does.
    D3DKMTQueryVideoMemoryInfo(args: wdk::D3DKMT_QUERYVIDEOMEMORYINFO) {
        let local = args.MemorySegmentGroup == wdk::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
        let reply = client::call(Call::QueryVideoMemoryInfo { adapter: args.hAdapter, local });
        if let [budget, usage, reservation, available] = reply.values[..] {
            (args.Budget, args.CurrentUsage) = (budget, usage);
            (args.CurrentReservation, args.AvailableForReservation) = (reservation, available);
        }
        reply
    }

    /// Says how much memory lists name, and how much is resident: of the adapter's two segments, and of the process in each.
    D3DKMTQueryStatistics(args: wdk::D3DKMT_QUERYSTATISTICS) {
        // SAFETY: the kinds of the union that are looked at begin with the number of a segment.
        let segment = unsafe { (&raw const args.Anonymous).cast::<u32>().read() };
        let (is_known, of_process) = match args.Type {
            wdk::D3DKMT_QUERYSTATISTICS_ADAPTER => (true, false),
            wdk::D3DKMT_QUERYSTATISTICS_SEGMENT => (segment < SEGMENTS, false),
            wdk::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT => (segment < SEGMENTS, true),
            kind => {
                return not_supported(format!("D3DKMTQueryStatistics of type {kind}")).status.0;
            }
        };
        if !is_known {
            return Status::INVALID_PARAMETER.0;
        }
        let reply = client::call(Call::QueryStatistics { local: segment == 0, of_process });
        if let [limit, committed, resident] = reply.values[..] {
            match args.Type {
                wdk::D3DKMT_QUERYSTATISTICS_ADAPTER => {
                    args.QueryResult.AdapterInformation.NbSegments = SEGMENTS;
                    args.QueryResult.AdapterInformation.NodeCount = NODES;
                }
                wdk::D3DKMT_QUERYSTATISTICS_SEGMENT => {
                    args.QueryResult.SegmentInformation.CommitLimit = limit;
                    args.QueryResult.SegmentInformation.BytesCommitted = committed;
                    args.QueryResult.SegmentInformation.BytesResident = resident;
                    args.QueryResult.SegmentInformation.Aperture = u32::from(segment > 0);
                }
                _ => args.QueryResult.ProcessSegmentInformation.BytesCommitted = committed,
            }
        }
        reply
    }

    /// Says what time it is on the GPU and on the CPU: the model has one clock, in nanoseconds.
    D3DKMTQueryClockCalibration(args: wdk::D3DKMT_QUERYCLOCKCALIBRATION) {
        let reply = client::call(Call::QueryClockCalibration { adapter: args.hAdapter });
        if reply.status.is_success() {
            args.ClockData.GpuFrequency = 1_000_000_000;
            (args.ClockData.GpuClockCounter, args.ClockData.CpuClockCounter) = (reply.value(), reply.value());
        }
        reply
    }

    /// Asks the kernel-mode driver: the bytes are a driver's own, so no kind of escape is supported.
    D3DKMTEscape(args: wdk::D3DKMT_ESCAPE) {
        not_supported(format!("D3DKMTEscape of type {}", args.Type))
    }

    /// Sets what a process cannot go without.
    D3DKMTChangeVideoMemoryReservation(args: wdk::D3DKMT_CHANGEVIDEOMEMORYRESERVATION) {
        let local = args.MemorySegmentGroup == wdk::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
        client::call(Call::ChangeVideoMemoryReservation { adapter: args.hAdapter, local, bytes: args.Reservation })
    }
}

/// Writes what the adapter is into a buffer of words.
///
/// # Safety
///
/// The buffer has `words` words.
unsafe fn adapter_info(info_type: i32, buffer: *mut u32, words: usize) {
    if buffer.is_null() {
        return;
    }
    let set = |at: usize, word: u32| {
        if at < words {
            // SAFETY: the word is in the buffer.
            unsafe { buffer.add(at).write_unaligned(word) };
        }
    };
    match info_type {
        ADAPTER_TYPE => set(0, RENDERS | COMPUTES_ONLY),
        QUERY_REGISTRY => {
            let path = client::settings().driver_store.display().to_string();
            let path = Vec::from_iter(path.chars().map(u32::from).chain([0]));
            // The type of the value, the index of the adapter, the size of the value, the status; then the value, aligned to eight bytes.
            let (size, status) = (REGISTRY_NAME_WORDS + 2, REGISTRY_NAME_WORDS + 3);
            let value = (REGISTRY_NAME_WORDS + 4).next_multiple_of(2);
            // SAFETY: the first word of the buffer is the kind of the query.
            let is_store = words > status && unsafe { buffer.read_unaligned() } == DRIVER_STORE_PATH;
            set(size, if is_store { path.len() as u32 * 4 } else { 0 });
            let has_room = value + path.len() <= words;
            set(status, if is_store && has_room { 0 } else { BUFFER_OVERFLOW });
            if is_store && has_room {
                path.into_iter().enumerate().for_each(|(at, word)| set(value + at, word));
            }
        }
        // The driver's own struct: the helper makes its tokens, whatever is in the struct.
        _ => (0..words).for_each(|at| set(at, 0)),
    }
}
