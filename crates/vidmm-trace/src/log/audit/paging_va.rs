//! The paging process's windows: how large they are, and that the driver was asked (PGV-01 to PGV-05, U-16).

use vidmm::event::MemorySegmentFacts;
use vidmm::{DriverFinding, PAGE_SIZE};

use super::Audit;
use super::finding::{Findings, Invariant};

/// DXGKQAITYPE_PAGINGPROCESSGPUVASIZE.
const QUERY_TYPE: u32 = 48;
/// Bytes of a UINT: the input, and the output.
const UINT: u32 = 4;
/// The least that a window has (PGV-06).
const LEAST: u64 = 4 << 20;
/// Windows that the system chooses are cut down above this: their tables stay resident for ever (PGV-04).
const NEVER_CUT_BELOW: u64 = 16 << 30;

/// The windows, as the adapter's start describes them.
#[derive(Debug, Default)]
pub(super) struct PagingVa {
    /// The adapter has no GPU virtual addresses.
    pub is_physical: bool,
    local: Option<u64>,
    /// Windows are made of whole leaf tables.
    leaf_coverage: u64,
    va_bits: u32,
    /// No window need be larger: no allocation is, or its tables would take more than an eighth of the memory segment, or a quarter of its area for
    /// tables.
    most: u64,
    size: u64,
    queries: Vec<Query>,
    findings: Vec<DriverFinding>,
    settled: bool,
}

/// The answer of one physical adapter.
#[derive(Clone, Copy, Debug)]
struct Query {
    index: u32,
    answer_mib: Option<u32>,
    size: u64,
}

impl PagingVa {
    pub fn start(
        &mut self,
        memory: &[MemorySegmentFacts],
        system_commit_limit: u64,
        level_bits: &[u32],
        largest_table: u64,
        va_bits: u32,
        size: u64,
    ) {
        self.local = memory.iter().map(|memory| memory.size).max();
        self.leaf_coverage =
            level_bits.first().map_or(PAGE_SIZE, |&bits| PAGE_SIZE.checked_shl(bits).unwrap_or(u64::MAX));
        (self.va_bits, self.size) = (va_bits, size);
        let largest = system_commit_limit.max(self.local.unwrap_or(0));
        let largest = largest.checked_next_multiple_of(self.leaf_coverage.max(1)).unwrap_or(u64::MAX);
        // The tables may live in any of them.
        let pinned = memory.iter().map(|memory| {
            let table = largest_table.checked_next_multiple_of(memory.page_size.bytes()).unwrap_or(u64::MAX).max(1);
            let tables = if memory.page_table_area > 0 { memory.page_table_area / 4 } else { memory.size / 8 };
            (tables / table.saturating_mul(2)).max(1).saturating_mul(self.leaf_coverage)
        });
        self.most = largest.min(pinned.min().unwrap_or(u64::MAX));
    }

    /// Whether the sizes that the driver's author is told of are those of the adapter.
    fn window_is(&self, size: u64) -> bool {
        size == self.size
    }

    /// Whether the driver's author was told this.
    pub fn is_told(&self, finding: &DriverFinding) -> bool {
        self.findings.contains(finding)
    }

    /// The adapter has started: what was said of its windows belongs together.
    pub fn settle(&mut self, findings: &mut Findings) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        for query in &self.queries {
            self.check_size(query, findings);
        }
        self.check_told(findings);
        let first = self.queries.first().map_or(self.size, |query| query.size);
        findings.check(self.window_is(first), Invariant::U16, || {
            format!("the windows have {} bytes, but {first} follow from the query", self.size)
        });
    }

    /// Without local memory and without hardware scheduling there are no addresses, whatever the driver says (PGV-03, U-16). Else
    /// its answer counts (PGV-01), unless it failed or answered 0: then the size is a quarter of the largest local segment or that of
    /// the scheduling log buffers, whichever is greater (PGV-02). Hardware scheduling and the segments of other physical adapters are
    /// not in the log: what would be right with any of them is right.
    fn check_size(&self, query: &Query, findings: &mut Findings) {
        let known = query.index == 0;
        let local = self.local.filter(|_| known);
        let is_whole = query.size.is_multiple_of(self.leaf_coverage.max(1));
        let right = match query.answer_mib {
            // There are no GPU virtual addresses, whatever the driver answers.
            _ if self.is_physical => query.size == 0,
            Some(mib @ 1..) => {
                let asked = self.rounded(u64::from(mib) << 20);
                let none = query.size == 0 && local.is_none();
                none || query.size == asked || query.size < asked && query.size > 0 && is_whole
            }
            _ => {
                let least = self.rounded(local.unwrap_or(0) / 4);
                let least = least.min(NEVER_CUT_BELOW).min(1 << self.va_bits.saturating_sub(3).min(63));
                is_whole && query.size >= least.min(self.most)
            }
        };
        findings.check(right, Invariant::U16, || {
            format!("a window of {} bytes does not follow from {query:?}, the local memory being {local:?}", query.size)
        });
    }

    /// A size as it is given: whole leaf tables, and not less than the least.
    fn rounded(&self, size: u64) -> u64 {
        match size {
            0 => 0,
            size => size.max(LEAST).checked_next_multiple_of(self.leaf_coverage.max(1)).unwrap_or(u64::MAX),
        }
    }

    /// The findings that the driver's author must be told: an answer that is not taken as it is.
    fn due(&self, &Query { index, answer_mib, size }: &Query) -> Option<DriverFinding> {
        let asked_mib = answer_mib.unwrap_or(0);
        let (physical_adapter_index, paging_va_size) = (index, size);
        match u64::from(asked_mib) << 20 {
            0 => None,
            _ if self.is_physical => {
                Some(DriverFinding::PagingVaWithPhysicalAddresses { physical_adapter_index, asked_mib })
            }
            _ if size == 0 => Some(DriverFinding::PagingVaIgnored { physical_adapter_index, asked_mib }),
            asked if size < asked => {
                Some(DriverFinding::PagingVaClamped { physical_adapter_index, asked_mib, paging_va_size })
            }
            asked if size > asked && !self.is_told_to_be_needless(index) => {
                Some(DriverFinding::PagingVaRounded { physical_adapter_index, asked_mib, paging_va_size })
            }
            _ => None,
        }
    }

    /// Whether the author is told that the size is larger than the default: that says enough.
    fn is_told_to_be_needless(&self, index: u32) -> bool {
        self.findings.iter().any(|finding| {
            matches!(*finding, DriverFinding::PagingVaNeedlesslyLarge { physical_adapter_index, .. } if physical_adapter_index == index)
        })
    }

    /// The driver's author is told what is due, and nothing else of the kind.
    fn check_told(&self, findings: &mut Findings) {
        let due: Vec<DriverFinding> = self.queries.iter().filter_map(|query| self.due(query)).collect();
        for finding in &due {
            findings.check(self.findings.contains(finding), Invariant::U16, || {
                format!("the driver's author is not told this: {finding}")
            });
        }
        for finding in &self.findings {
            let right = match *finding {
                DriverFinding::PagingVaIgnored { .. }
                | DriverFinding::PagingVaWithPhysicalAddresses { .. }
                | DriverFinding::PagingVaRounded { .. }
                | DriverFinding::PagingVaClamped { .. } => due.contains(finding),
                DriverFinding::PagingVaNeedlesslyLarge { asked_mib, default_size, .. } => {
                    self.queries.iter().any(|query| query.answer_mib == Some(asked_mib))
                        && default_size < u64::from(asked_mib) << 20
                }
                _ => true,
            };
            findings.check(right, Invariant::U16, || format!("the driver's author is told what is not so: {finding}"));
        }
    }
}

impl Audit {
    /// A physical adapter is asked for its window: by a query of this type, input and output size.
    pub(super) fn paging_va_queried(&mut self, form: (u32, u32, u32), index: u32, answer_mib: Option<u32>, size: u64) {
        self.findings.check(form == (QUERY_TYPE, UINT, UINT), Invariant::U16, || {
            format!("the size of the paging process is asked for by query, input and output size {form:?} (PGV-01)")
        });
        let asked = self.paging_va.queries.len();
        self.findings.check(usize::try_from(index) == Ok(asked), Invariant::U16, || {
            format!("physical adapter {index} is asked for its size, but number {asked} is the next")
        });
        self.paging_va.queries.push(Query { index, answer_mib, size });
    }

    /// A finding that the driver's author is told is true, and told once.
    pub(super) fn driver_finding(&mut self, finding: DriverFinding) {
        let twice = self.paging_va.findings.contains(&finding);
        self.findings.check(!twice, Invariant::Log, || format!("the driver's author is told twice: {finding}"));
        self.paging_va.findings.push(finding);
        if let DriverFinding::AllocationBeyondPagingVa { size, paging_va_size } = finding {
            let right = self.paging_va.window_is(paging_va_size) && size > paging_va_size;
            self.findings.check(right, Invariant::U16, || {
                format!("an allocation of {size} bytes is said not to fit into windows of {paging_va_size}")
            });
        }
    }

    /// The first process begins: the start of the adapter is over. A driver that knows the query was asked (PGV-01).
    pub(super) fn settle_start(&mut self) {
        if !self.paging_va.settled {
            let (asked, known) = (!self.paging_va.queries.is_empty(), self.adapter.knows_notifications());
            self.findings.check(asked || !known, Invariant::U16, || {
                "the driver was not asked for the size of the paging process".to_owned()
            });
            self.findings.check(known || !asked, Invariant::I23, || {
                "a driver before WDDM 3.2 was asked for the size of the paging process".to_owned()
            });
        }
        self.paging_va.settle(&mut self.findings);
    }
}
