//! The points that random worlds do not come to, and why.

const NO_SUCH_MACHINE: &str =
    "neither the reference driver nor a fault of the model GPU does that; tests of the core have machines that do";
const NO_SUCH_PROGRAM: &str = "programs of worlds do not write such commands; tests of the core and the fuzzer do";
const TOO_MANY: &str = "a world has too few steps to reach the limit; tests of the core do";
const ENDS_FIRST: &str = "a world ends with its adapter's error";

/// A point of a campaign's coverage, and the reason why no world gets there.
pub const UNMET: &[(&str, &str)] = &[
    ("adapter_in_error violation aborted_fence", NO_SUCH_MACHINE),
    ("adapter_in_error violation allocation_info", NO_SUCH_MACHINE),
    ("adapter_in_error violation buffer_overrun", "the auditor finds it first, by I21; scenarios of faults have it"),
    ("adapter_in_error violation packet_not_returned", NO_SUCH_MACHINE),
    ("adapter_in_error violation purge_refused", "seldom: an answer that no document allows must come amid a reset"),
    ("adapter_in_error violation too_many_passes", NO_SUCH_MACHINE),
    ("answer any", "no call gives it"),
    ("answer engine", "kernels of worlds are for the engines that there are"),
    ("answer illegal-instruction", NO_SUCH_PROGRAM),
    ("answer invalid-parameter", NO_SUCH_PROGRAM),
    ("answer no-addresses", TOO_MANY),
    ("answer page-fault", "a step may expect it; no call gives it"),
    ("answer process-blocked", "seldom: the program of a blocked process must ask for a device before it ends"),
    ("answer queue-full", TOO_MANY),
    ("answer too-many-pending", TOO_MANY),
    ("answer too-many-references", TOO_MANY),
    ("answer vetoed", NO_SUCH_MACHINE),
    ("answer violation", NO_SUCH_MACHINE),
    ("call check-content", "every page that a kernel of a world reads is judged"),
    ("device_in_error reason adapter_in_error", ENDS_FIRST),
    (
        "device_in_error reason dependent_engine_reset",
        "seldom: a kernel must run on for half a second while another engine, which harms its own, is to be reset",
    ),
    (
        "device_in_error reason engine_timeout_promoted_to_adapter_reset",
        "a device is in error for what its own work did",
    ),
    ("device_in_error reason out_of_memory", "seldom: MustSucceed must be refused"),
    ("device_in_error reason paging_engine_timeout", "a device is in error for what its own work did"),
    (
        "device_yielded reason exchange_ends",
        "seldom: a process that slept must wake while its memory is the home of another; scenarios/residency/exchange has it",
    ),
    ("driver_finding finding adapter_reset_unasked", NO_SUCH_MACHINE),
    ("driver_finding finding no_aperture_segment", "worlds without an aperture are of WDDM 1.3, which allows it"),
    (
        "driver_finding finding no_split_point",
        "DMA buffers of worlds have split points; scenarios/splitting has one without",
    ),
    (
        "driver_finding finding notify_io_mmu_unmap_without_io_mmu",
        "programs ask for that notification only behind an IOMMU",
    ),
    ("event finding", "runs of workloads write it, for a wrong page"),
    ("make_resident_refused reason no_assignment", "seldom: the search must end before it has tried all assignments"),
    ("make_resident_refused reason over_share", "each segment of a world has a budget; tests of the core have others"),
];
