//! Bugs that are planted on purpose, one at a time, so that every check can be seen to find what it is for.
//!
//! Each stands as one condition where it is made. Without the feature `planted-bugs` that condition is constant and nothing of it
//! is built.

macro_rules! planted_bugs {
    ($($(#[$doc:meta])* $bug:ident, $name:literal, $rule:literal;)*) => {
        /// A bug of the manager that can be planted. Its number is its place in [`ALL`](Self::ALL), from 1.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum PlantedBug {
            $($(#[$doc])* $bug),*
        }

        #[cfg(feature = "planted-bugs")]
        impl PlantedBug {
            /// All of them, in the order of their rules.
            pub const ALL: &[Self] = &[$(Self::$bug),*];

            /// Its name, as the command line writes it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name),*
                }
            }

            /// The rule that must find it.
            pub const fn rule(self) -> &'static str {
                match self {
                    $(Self::$bug => $rule),*
                }
            }

            /// Its number, from 1.
            pub const fn number(self) -> usize {
                self as usize + 1
            }
        }
    };
}

planted_bugs! {
    /// What comes into the memory segment lies a page further on than the range that was taken for it.
    MisplaceByAPage, "misplace-by-a-page", "I01";
    /// A range is used again before the plan that empties it.
    TakeEarly, "take-early", "I01";
    /// What may only be in system memory is let into the memory segment.
    IgnoreSegmentSet, "ignore-segment-set", "I01";
    /// What was written is not copied out.
    SkipCopyOut, "skip-copy-out", "I02";
    /// That work wrote to an allocation is forgotten.
    ForgetDirty, "forget-dirty", "I02";
    /// What has content is filled with zeros when it comes in.
    FillContent, "fill-content", "I02";
    /// What comes from another place is not taken out of that.
    PlaceTwice, "place-twice", "I03";
    /// Entries of what leaves stay valid.
    SkipInvalidate, "skip-invalidate", "I05";
    /// Of several mappings only the first becomes invalid.
    ForgetAliases, "forget-aliases", "I05";
    /// The last page of a run does not get its entry.
    ValidateShort, "validate-short", "I04";
    /// Read-only mappings can be written to.
    AllowWrites, "allow-writes", "I04";
    /// The TLB is not flushed when entries have become invalid.
    SkipTlbFlush, "skip-tlb-flush", "I05";
    /// The last page of a range is not flushed.
    FlushTooLittle, "flush-too-little", "I05";
    /// The TLB is flushed before entries become invalid.
    FlushBeforeInvalidate, "flush-before-invalidate", "I05";
    /// An address of the paging process is used again without a flush.
    SkipWindowFlush, "skip-window-flush", "I05";
    /// Work does not wait for the last request that was made before it.
    GateByOne, "gate-by-one", "I06";
    /// Work is handed out without the fence of the paging engine that it waits for.
    SkipPagingWait, "skip-paging-wait", "I06";
    /// Counts stay raised when a MakeResident is refused.
    SkipUndo, "skip-undo", "I07";
    /// An Evict takes an allocation off the list that was made resident twice.
    EvictTwice, "evict-twice", "I17";
    /// A refusal asks for half of what must be trimmed.
    TrimTooLittle, "trim-too-little", "I08";
    /// A refusal asks for more than what must be trimmed.
    TrimTooMuch, "trim-too-much", "I08";
    /// An eviction is not notified.
    SkipNotice, "skip-notice", "I09";
    /// An eviction is notified twice.
    NotifyTwice, "notify-twice", "I09";
    /// Leaving the memory segment is notified.
    NotifyFromLocal, "notify-from-local", "I09";
    /// An IOMMU unmap is not notified.
    SkipUnmapNotice, "skip-unmap-notice", "I09";
    /// A chunk that is copied out begins a page before the last one ended.
    OverlapChunks, "overlap-chunks", "I10";
    /// A page between two chunks does not come in.
    LeaveOutBetweenChunks, "leave-out-between-chunks", "I10";
    /// Only the first chunk of an allocation is notified.
    NotifyFirstChunk, "notify-first-chunk", "I10";
    /// What stays bound across a cut is not kept.
    ForgetKept, "forget-kept", "I11";
    /// Another context's work comes between the portions of a DMA buffer.
    ComeBetween, "come-between", "I11";
    /// A device in error is told so again.
    TellTwice, "tell-twice", "I12";
    /// The device of the last packet is blamed for what the first one did.
    BlameLast, "blame-last", "I12";
    /// A paging fence is signalled when its operations are built.
    SignalEarly, "signal-early", "I13";
    /// A paging fence is signalled with the value after its own.
    SignalTooFar, "signal-too-far", "I13";
    /// A plan retires one packet early.
    RetireEarly, "retire-early", "I13";
    /// Windows are not unmapped.
    KeepWindows, "keep-windows", "I14";
    /// A window shows the page after the one that it should.
    ShowNextPage, "show-next-page", "I14";
    /// A table is used without being initialised.
    SkipTableInit, "skip-table-init", "I15";
    /// A parent points to a table that is not initialised yet.
    LinkEarly, "link-early", "I15";
    /// A table is freed, and its parent still points to it.
    KeepLink, "keep-link", "I15";
    /// A table is kept when nothing is mapped through it any more.
    KeepEmptyTables, "keep-empty-tables", "I15";
    /// What is left of a page that is cut is not shown any more.
    ForgetRest, "forget-rest", "I04";
    /// What leaves still counts in its process's usage.
    KeepUsage, "keep-usage", "I16";
    /// A process is told another budget than it has.
    TellWrongBudget, "tell-wrong-budget", "I16";
    /// A process is held to half of its budget.
    HalveBudget, "halve-budget", "I16";
    /// What work in flight uses is taken away without waiting for it.
    MoveInUse, "move-in-use", "I17";
    /// A busy answer is not waited for.
    IgnoreBusy, "ignore-busy", "I17";
    /// Slots that are unbound keep what they had.
    KeepUnbound, "keep-unbound", "I18";
    /// A group of patch locations is cut.
    TearGroup, "tear-group", "I19";
    /// What did not fit into a paging buffer is not built any more.
    LoseRest, "lose-rest", "I20";
    /// Some bytes between two operations of a paging buffer are left as they were.
    LeaveGap, "leave-gap", "I21";
    /// What is built of a TRANSFER moves its offset on.
    AdvanceTransferOffset, "advance-transfer-offset", "I22";
    /// No part of a TRANSFER says that it is the last.
    SkipTransferEnd, "skip-transfer-end", "I22";
    /// A driver of an older interface is notified.
    NotifyOldDriver, "notify-old-driver", "I23";
    /// What leaves the aperture is not unmapped there.
    KeepAperture, "keep-aperture", "I24";
    /// Pages of the aperture that nobody has show the allocation that they had.
    SkipDummyPage, "skip-dummy-page", "I24";
    /// A reclaim says that discarded content is intact.
    ReclaimDiscarded, "reclaim-discarded", "I25";
    /// What is offered loses its backing store although the host has memory.
    DecommitUnasked, "decommit-unasked", "I25";
    /// What never had content is not filled: it shows what others left there.
    SkipFill, "skip-fill", "I26";
    /// A name means whatever has its number now.
    IgnoreGenerations, "ignore-generations", "I27";
    /// An allocation is gone before it has left its place.
    ReapEarly, "reap-early", "I28";
    /// What leaves stays mapped in the IOMMU.
    KeepIoMmu, "keep-io-mmu", "I29";
    /// A window is unmapped from the IOMMU before the packet with its operation has ended.
    UnmapWindowEarly, "unmap-window-early", "I14";
    /// An aborted packet is taken for one that has ended.
    CompleteAborted, "complete-aborted", "I30";
    /// One reset more than the limit is tolerated.
    TolerateReset, "tolerate-reset", "I31";
    /// Plans that wait for work never enter the stream.
    ForgetParked, "forget-parked", "I32";
    /// Where paging buffers end depends on what the program did before.
    DependOnThePast, "depend-on-the-past", "I33";
    /// Books of allocations without GPU virtual addresses outlive them.
    LeakBooks, "leak-books", "I34";
}

/// What is planted in an adapter; nothing without the feature.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted {
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<PlantedBug>,
}

impl Planted {
    /// Whether `bug` is planted.
    #[inline]
    pub const fn has(self, bug: PlantedBug) -> bool {
        #[cfg(feature = "planted-bugs")]
        return matches!(self.bug, Some(planted) if planted as usize == bug as usize);
        #[cfg(not(feature = "planted-bugs"))]
        {
            _ = bug;
            false
        }
    }

    /// Whether `bug` is planted, and it is the third time again that the program asks, whoever asked before.
    #[inline]
    pub fn has_every_third_time(self, bug: PlantedBug) -> bool {
        #[cfg(feature = "planted-bugs")]
        {
            use core::sync::atomic::{AtomicU32, Ordering};
            static ASKED: AtomicU32 = AtomicU32::new(0);
            self.has(bug) && ASKED.fetch_add(1, Ordering::Relaxed).is_multiple_of(3)
        }
        #[cfg(not(feature = "planted-bugs"))]
        self.has(bug)
    }
}
