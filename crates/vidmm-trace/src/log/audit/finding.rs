//! The findings of the audit.

use std::fmt;

macro_rules! invariants {
    ($($(#[$doc:meta])* $invariant:ident = $name:literal,)*) => {
        /// A rule that an event log must hold to. The names are those of the project's list of invariants and decisions.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Invariant {
            $($(#[$doc])* $invariant,)*
        }

        impl Invariant {
            /// All rules, in their order.
            pub const ALL: &[Self] = &[$(Self::$invariant,)*];

            /// Its name, as the documents have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$invariant => $name,)*
                }
            }
        }
    };
}

invariants! {
    /// No overlap: places lie inside the segment, on its pages, and no two share a byte. A range that an earlier plan
    /// empties may be taken only by that plan and by those that follow it.
    I01 = "I01",
    /// Content: what was written is copied out, and what is brought in comes from where the content is.
    I02 = "I02",
    /// One authoritative copy: an allocation has one place, and leaves the place that it has.
    I03 = "I03",
    /// A page-table entry is valid only while its allocation is exactly where it points; and then all of them are.
    I04 = "I04",
    /// Entries are invalid, and the TLB is flushed, before the first byte moves or the memory is used again.
    I05 = "I05",
    /// The schedule gate: nothing runs before all that it requires is in, or without waiting for it.
    I06 = "I06",
    /// MakeResident and Evict are counted, and the count is never negative.
    I07 = "I07",
    /// How much to trim is enough, and not more than that.
    I08 = "I08",
    /// Notifications are sent exactly by rule: whoever asked hears of what they asked for, all of it and in time, and of
    /// nothing else.
    I09 = "I09",
    /// The chunks of a move or of a notification are the allocation: in ascending order, without gap or overlap, and one after
    /// another.
    I10 = "I10",
    /// Portions of a DMA buffer cover it once and in order; what the resource table has is there at one address, which it keeps
    /// unless it is reprogrammed; nothing of another context comes between, without preemption.
    I11 = "I11",
    /// Errors are isolated: a device is in error for what it did, is told so once, and makes no call that succeeds.
    I12 = "I12",
    /// Fences: issued in order, each completed once and in order; a done paging fence means that what it stands for is
    /// done.
    I13 = "I13",
    /// A scratch window shows exactly what its operation moves, and nothing outside it.
    I14 = "I14",
    /// Page tables are where entries are written to, and are reached from their root.
    I15 = "I15",
    /// Budgets are imposed only under pressure and follow from what all demand; refusals are for what they say (P03).
    I16 = "I16",
    /// An allocation in use never moves, and a driver that answered busy finds the GPU idle.
    I17 = "I17",
    /// Slots and split points of patch locations are in bounds and in order.
    I18 = "I18",
    /// Patch locations with one split point are taken as a whole or not at all.
    I19 = "I19",
    /// Each operation of a plan is built once, to its end, after its plan entered the stream and before it retires.
    I20 = "I20",
    /// Paging buffers: commands are packed without gaps, and not beyond the end.
    I21 = "I21",
    /// A repeated operation is asked as before, and the first and the last part of a transfer say that they are.
    I22 = "I22",
    /// Nothing is asked of a driver, or sent to it, that its interface version or its addressing model does not have.
    I23 = "I23",
    /// The aperture: its pages show a backing store while an allocation is there, and the dummy page otherwise; nothing is
    /// moved or filled that is resident in system memory.
    I24 = "I24",
    /// Offered memory is not used before it is reclaimed; what was reclaimed with its content was never discarded.
    I25 = "I25",
    /// Memory that shows nothing of its allocation's yet is filled: nobody reads what others left there.
    I26 = "I26",
    /// A call names what lives.
    I27 = "I27",
    /// Nothing is left of what is gone, and nobody names it.
    I28 = "I28",
    /// Entries of the IOMMU are what processes have mapped of what is resident, and nothing uses one that is gone.
    I29 = "I29",
    /// Resets: nothing ends that was aborted, nothing is lost that an engine gave back, and nothing waits for what will not
    /// be signalled.
    I30 = "I30",
    /// The adapter is reset only so often.
    I31 = "I31",
    /// A plan enters the stream when its waits are over and the plans that it follows have entered.
    D5 = "D5",
    /// A request that was admitted is granted, and work whose waits are over is handed out, as soon as there is room. Neither waits for a
    /// call that may never come.
    D30 = "D30",
    /// A copy ahead of an eviction has its reason, nobody waits for it, and nothing writes meanwhile.
    D37 = "D37",
    /// A packet runs for its quantum before it is asked to yield; the reset of an engine aborts a packet that it has.
    Flt22 = "FLT-22",
    /// Packets that came back are handed out again in their order: paging buffers with their fences, other work with new ones.
    Flt23 = "FLT-23",
    /// An allocation goes to the segment that its driver prefers most, where there is certainly room.
    Seg42 = "SEG-42",
    /// An engine that the reset of another harms is asked to yield first, and has its time to do so.
    Flt26 = "FLT-26",
    /// A process that hangs engines again and again loses the GPU; nobody else does.
    Flt31 = "FLT-31",
    /// The reset of the adapter: the driver hears of all that was resident, once, and nothing is left of it.
    Flt32 = "FLT-32",
    /// Contexts are told of a root while none of their work is under way, and of one that reaches all addresses in use before it runs.
    Gva17 = "GVA-17",
    /// An entry of level 1 shows memory that the leaf table below it shows too, all of it and as one piece, and as long as it does.
    Gva21 = "GVA-21",
    /// Nothing of a process is in flight while a page of 64 KiB of it is cut, and its later work waits for that.
    Gva42 = "GVA-42",
    /// Reserved addresses are free for what is mapped into the reservation, and for nothing else. Where nothing is mapped they read as
    /// zero, if entries can say so.
    Gva52 = "GVA-52",
    /// Allocations of a process make room in the order of their priorities.
    Cre31a = "CRE-31a",
    /// Residency in the aperture and in implicit system memory keeps to its limit.
    Seg50 = "SEG-50",
    /// The size of the paging process's windows is asked of the driver, and follows from its answer (PGV-01 to PGV-05).
    U16 = "U-16",
    /// A shared allocation that its owner destroys belongs to the first who has it open.
    U34 = "U-34",
    /// Offered allocations make room first, lower priorities before higher ones.
    U37 = "U-37",
    /// Nothing is brought in that no list and no work wants any more.
    U41 = "U-41",
    /// The turn: requests of queues with higher priority are granted first, then those that were made first.
    U28 = "U-28",
    /// A device has a moment to trim before it yields for being above its budget, and runs for its slice.
    U39 = "U-39",
    /// An innocent neighbour is left alone: who keeps to its budget yields to nobody but one who has waited for long.
    P08 = "P08",
    /// Without power nothing is in the adapter's memory, and nothing runs.
    P60 = "P60",
    /// A MakeResident that must succeed, and does not, puts its device in error.
    Res15 = "RES-15",
    /// A device that listens is asked to trim, and to trim to the budget if and only if its process is above it.
    Res41 = "RES-41",
    /// A device that yields runs nothing until it is resumed; it is suspended when nothing of it is in flight. While its process
    /// is suspended it is not resumed.
    Res71 = "RES-71",
    /// A demoted allocation comes home when memory has room, and no allocation goes back and forth.
    Res55 = "RES-55",
    /// Without GPU virtual addresses the driver is told what leaves a memory segment without a copy, unless it is destroyed.
    U13 = "U-13",
    /// An Evict takes an allocation out at once, or leaves it in its place until memory is short, as its flags say.
    Res21 = "RES-21",
    /// The CPU sees a locked allocation wherever that is.
    Res84 = "RES-84",
    /// Content is copied out only if work or the CPU may have written since the last copy.
    Res22 = "RES-22",
    /// Addresses are mapped by pages of 64 KiB where all that they may show has such pages.
    Gva41 = "GVA-41",
    /// The first leaf table's addresses are never used, nor those beyond the last that there is.
    Gva58 = "GVA-58",
    /// Destroyed allocations and freed addresses are free when the work submitted before has ended.
    Res91 = "RES-91",
    /// A page fault is told with what is mapped at its address, and next to it.
    Flt03 = "FLT-03",
    /// New memory is filled with zeros.
    Cre42 = "CRE-42",
    /// No allocation has priority 0.
    Cre05 = "CRE-05",
    /// A set of segments that has its present value changes nothing, and an allocation leaves only a place where it may not be.
    Cre51 = "CRE-51",
    /// A call that names no allocation is refused.
    U26 = "U-26",
    /// A locked allocation is seen by the CPU at one address, wherever it moves.
    Res86 = "RES-86",
    /// The log does not contradict itself: events are numbered, times do not fall, names name what lives.
    Log = "LOG",
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An invariant that a log breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditFinding {
    /// The invariant.
    pub invariant: Invariant,
    /// The number of the event that breaks it.
    pub event: u64,
    /// The problem.
    pub message: String,
}

impl fmt::Display for AuditFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}: {}: {}", self.event, self.invariant, self.message)
    }
}

/// Findings so far, and the event that is looked at.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub event: u64,
    pub list: Vec<AuditFinding>,
}

impl Findings {
    pub fn report(&mut self, invariant: Invariant, message: String) {
        self.report_at(self.event, invariant, message);
    }

    pub fn report_at(&mut self, event: u64, invariant: Invariant, message: String) {
        self.list.push(AuditFinding { invariant, event, message });
    }

    /// Reports unless `holds`.
    pub fn check(&mut self, holds: bool, invariant: Invariant, message: impl FnOnce() -> String) {
        if !holds {
            self.report(invariant, message());
        }
    }
}
