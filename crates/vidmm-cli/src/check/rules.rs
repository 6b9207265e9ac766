//! The rules of `vidmm check`: the names, and what each is about.

/// The rules that are checked, and what each is about. The numbers of facts are explained in `docs/reference/facts.md`.
pub const RULES: [(&str, &str); 98] = [
    ("BPB-01", "an answer to BuildPagingBuffer that no document allows"),
    ("BPB-02", "pDmaBuffer and the bytes written: packed, inside of the buffer"),
    ("BPB-05", "a new buffer is asked for without progress in the last one"),
    ("BPB-06", "busy, although the allocation is idle or the operation has no busy answer"),
    ("BPB-20", "TRANSFER: each page at the destination"),
    ("BPB-21", "TRANSFER: TransferOffset is for the segment's side, MdlOffset for the list's"),
    ("BPB-24", "FILL: each page has the pattern"),
    ("BPB-27", "nothing is refused between reset and restart"),
    ("BPB-30", "MAP_APERTURE_SEGMENT: each page shows its page of system memory"),
    ("BPB-33", "UNMAP_APERTURE_SEGMENT: each page shows the dummy page"),
    ("BPB-40", "VIRTUAL_TRANSFER: each page at the destination"),
    ("BPB-42", "VIRTUAL_FILL: each page has the pattern"),
    ("GVA-30", "UPDATE_PAGE_TABLE: each entry, and those beside them"),
    ("GVA-34", "FLUSH_TLB: success without a command, or the range"),
    ("NTF-02", "NOTIFY_ALLOC: content is plain before it is evicted from system memory"),
    (
        "PAT-10",
        "DxgkDdiRender refuses addresses of the user's choice; DxgkDdiPatch: each address of the part that is submitted",
    ),
    ("PAT-12", "DxgkDdiRender: the status of a refusal, and progress where a DMA buffer is full"),
    ("PAT-14", "DxgkDdiRender writes the addresses that are known, and lists every reference"),
    ("PAT-15", "DxgkDdiPatch does not fail"),
    ("SPL-02", "a patch location names an element, and a slot, that there is"),
    ("SPL-04", "split offsets do not fall"),
    ("SPL-06", "the state is programmed again behind each split point"),
    ("SPL-11", "a patch is within the part that is submitted"),
    ("SPL-12", "what is bound is bound again or unbound at a split point"),
    ("CRE-01", "the status with which an object is not created"),
    ("CRE-03", "what the driver decides about an allocation: size, alignment, segments"),
    ("DRV-04", "a remark: a commit limit of 0"),
    ("DRV-05", "a remark: MaxAllocationListSlotId of 0"),
    ("SEG-35", "a remark: PagingBufferSize of 0"),
    ("DRV-08", "a remark: segments with one BaseAddress"),
    ("DRV-12", "DxgkDdiRender fails where the user's memory has vanished, and reads each byte once"),
    ("DRV-13", "a remark: pool of work that was never submitted"),
    ("DRV-17", "a remark: power components without a number, or transitions that nobody asked the end of"),
    ("DRV-18", "a remark: isolation by an IOMMU is required"),
    ("DRV-19", "a remark: presentations that are refused, or that have no patch location"),
    ("SHIM-MDL", "the pages of an MDL are unmapped and unlocked once"),
    ("DDI-CANCEL", "DxgkDdiCancelCommand does not fail, and is there where CancelCommandAware is set"),
    ("DDI-COMPONENT", "power components: the description, and each transition between F-states"),
    ("DDI-CPU-VISIBLE", "the CPU can access the allocations that it is to access"),
    (
        "DDI-CURRENT-FENCE",
        "DxgkDdiQueryCurrentFence names the last ended packet, and reports an end whose interrupt was lost",
    ),
    ("DDI-DEBUG-DATA", "DxgkDdiCollectDbgInfo writes inside of its buffer"),
    ("DDI-DESCRIBE", "DxgkDdiDescribeAllocation describes the surfaces that Windows creates"),
    ("DDI-ENGINE-STATUS", "DxgkDdiQueryEngineStatus does not fail"),
    ("DDI-HOST-APERTURE", "pages of a CPU host aperture show the pages of the segment that were asked for"),
    ("DDI-INTERRUPT", "interrupts are reported for a reason"),
    ("DDI-IOMMU", "DXGK_IOMMU_CAPS does not contradict itself"),
    ("DDI-POWER", "DxgkDdiSetPowerState does not fail"),
    (
        "DDI-PREEMPT",
        "DxgkDdiPreemptCommand, and the report of the preemption: its request, and the last packet that has ended",
    ),
    ("DDI-PRESENT", "DxgkDdiPresent: the DMA buffer, the list of patch locations, and the patches"),
    ("DDI-PRIVATE-DATA", "the private data of an allocation is within its buffer"),
    (
        "DDI-RENDER",
        "the DMA buffer has the commands of the user-mode driver, and the list of patch locations its whole entries",
    ),
    ("DDI-SIZE", "the size of an allocation is at least what was asked for"),
    ("DDI-SUBMIT", "a submission does not fail"),
    ("DDI-SYSTEM-COPY", "an allocation with a copy in system memory has the flag that was asked for"),
    ("DDI-UNKNOWN-OPERATION", "an operation that no version has is not answered with success"),
    ("FLT-11", "a fault report names the packet that faulted, whose end is not reported"),
    ("FLT-13", "a report of an interrupt is followed by DxgkCbQueueDpc, and DxgkCbNotifyDpc in the DPC"),
    ("FLT-20", "a driver that resets single engines has the functions for that"),
    ("FLT-23", "no paging buffer faults"),
    ("FLT-21", "ResetEngine names the packet that it has aborted"),
    ("FLT-31", "the adapter is not reset again and again"),
    ("FLT-32", "a reset of the adapter must not fail"),
    ("SYN-13", "the end of each packet is reported once, with its fence"),
    ("I02", "content: a page has what was written last"),
    ("I04", "work of users does not fault where all is resident"),
    ("I12", "the adapter is in error without a mistake of others"),
    ("I21", "the manager bounds what the driver says it wrote"),
    ("I28", "objects can be destroyed at the end"),
    ("I32", "everything that is under way ends"),
    ("EXPECT", "the answer that a step of a scenario expects"),
    ("PANIC", "a mistake of vidmm's own: please report it"),
    ("START", "the adapter starts"),
    ("CRASH", "the driver ended its process by a signal"),
    ("EXIT", "the driver ended its process"),
    ("HANG", "a call of the driver did not return in time"),
    ("KILL", "the driver killed or stopped the process that had started its own"),
    ("PROCESS", "the driver leaves no process behind"),
    ("OUTPUT", "a remark: the driver prints more than 1 MiB in a check"),
    ("STACK", "a call takes at most 24 KiB of stack, our figure; over 12 KiB is a remark"),
    ("SLOW", "a remark: calls take over half a second each, and a check ends before its end"),
    ("GPU-ACCESS", "the GPU's model accesses no memory"),
    ("SHIM-DEFERRED", "DPCs and timers that are still to run are not freed, and none is set after RemoveDevice"),
    (
        "SHIM-HANDLE",
        "callbacks have the adapter's DeviceHandle; acquired data is released once, and before the destruction",
    ),
    ("SHIM-IRQL", "kernel functions at too high a level of interrupts"),
    ("SHIM-LIST", "lists are whole"),
    ("SHIM-LOCK", "locks are released, and not acquired twice"),
    ("SHIM-OPEN-HANDLE", "handles are closed before RemoveDevice"),
    ("SHIM-POOL-FREE", "pool is freed once"),
    ("SHIM-POOL-LEAK", "no pool is left after RemoveDevice"),
    ("SHIM-POOL-OVERRUN", "no byte is written behind a pool block"),
    ("SHIM-POOL-PAGED", "timers, events, locks and DPCs are in nonpaged pool"),
    ("SHIM-POOL-TAG", "pool is freed with its tag"),
    ("SHIM-REGISTERS", "registers are mapped at the whole address of the device's resources"),
    ("SHIM-STRUCT", "no byte is written beside a struct"),
    ("SHIM-THREAD", "the driver's threads end before RemoveDevice"),
    ("SHIM-TRY", "a __try with its handler is no body of a loop without braces"),
    ("SHIM-WAIT", "a wait has something that ends it"),
    ("SHIM-WORK-ITEM", "work items are queued once, and freed when they have run"),
];

/// Whether a word is the number of a fact.
pub fn is_fact(word: &str) -> bool {
    word.split_once('-').is_some_and(|(family, number)| {
        family.len() == 3
            && family.bytes().all(|byte| byte.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether findings may be by this rule: one of the list, or another fact or invariant, which the manager may name.
pub fn is_rule(name: &str) -> bool {
    let is_invariant = |number: &str| number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
    RULES.iter().any(|&(rule, _)| rule == name) || is_fact(name) || name.strip_prefix('I').is_some_and(is_invariant)
}
