//! Statistics of segments and processes, in the shape of WDDM's.

use crate::{
    budget::account::Account,
    event::error::QueryStatisticsError,
    id::{ProcessId, ProcessIx},
    manager::VidMm,
    objects::traffic::Traffic,
    units::SegmentId,
};

/// The subject of a query.
#[doc(alias = "D3DKMT_QUERYSTATISTICS_TYPE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueryStatistics {
    /// A memory segment, or [`SegmentId::SYSTEM`]: system memory that the GPU reaches, through whichever aperture.
    Segment(SegmentId),
    /// A process, in all memory.
    Process(ProcessId),
    /// A process, in a memory segment or in system memory.
    ProcessSegment(ProcessId, SegmentId),
}

/// The answer to a query. All amounts are in bytes, of whole allocations.
#[doc(alias = "D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION")]
#[doc(alias = "D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentStatistics {
    /// The most that lists may name there: all of a segment but page tables; of system memory the commit limit.
    pub commit_limit: u64,
    /// Bytes that the lists of devices name, resident or not.
    pub bytes_committed: u64,
    /// Bytes of allocations that are there, or on their way.
    pub bytes_resident: u64,
    /// The number of these allocations.
    pub allocations_resident: u64,
    /// The bytes that have gone through the memory so far.
    pub traffic: Traffic,
}

/// # Statistics
impl VidMm {
    /// Returns the statistics of a segment, of a process, or of a process in a segment. A query costs as much as there are
    /// allocations; the counters are kept all the time.
    ///
    /// # Errors
    ///
    /// If a handle names nothing, or the segment is neither a memory segment nor [`SegmentId::SYSTEM`].
    #[doc(alias = "D3DKMTQueryStatistics")]
    pub fn query_statistics(&self, of: QueryStatistics) -> Result<SegmentStatistics, QueryStatisticsError> {
        let (process, segment) = match of {
            QueryStatistics::Segment(segment) => (None, Some(segment)),
            QueryStatistics::Process(process) => (Some(process), None),
            QueryStatistics::ProcessSegment(process, segment) => (Some(process), Some(segment)),
        };
        let process = process.map(|process| self.state.objects.processes.lookup(process)).transpose()?;
        let account = segment.map(|segment| self.account_of(segment)).transpose()?;
        let mut sum = SegmentStatistics::default();
        for account in self.state.memory.accounts().iter().filter(|&each| account.is_none_or(|account| account == each))
        {
            self.add_statistics(&mut sum, process, account);
        }
        let is_asked_for = |place: Account| account.is_none_or(|account| account == place);
        for (_, allocation) in self.state.objects.allocations.iter() {
            let is_its = process.is_none_or(|process| process == allocation.process);
            if is_its && allocation.place.is_some_and(|place| is_asked_for(place.account())) {
                sum.bytes_resident += allocation.size;
                sum.allocations_resident += 1;
            }
        }
        Ok(sum)
    }

    fn account_of(&self, segment: SegmentId) -> Result<Account, QueryStatisticsError> {
        if segment.is_system() {
            return Ok(Account::SYSTEM);
        }
        let adapter = &self.state.adapter;
        let is_it = |&account: &Account| adapter.memory_segment(account).is_some_and(|memory| memory.id == segment);
        let found = adapter.accounts().iter().find(is_it);
        found.ok_or(QueryStatisticsError::NoMemorySegment { segment })
    }

    fn add_statistics(&self, sum: &mut SegmentStatistics, process: Option<ProcessIx>, account: Account) {
        let shares = &self.state.shares.by_account[account];
        let (committed, traffic) = match process {
            Some(process) => (shares.requested(process), &self.state.objects[process].traffic[account]),
            None => (shares.requested_total(), &self.state.objects.traffic[account]),
        };
        sum.commit_limit = sum.commit_limit.saturating_add(self.state.memory.list_capacity(account));
        sum.bytes_committed += committed;
        sum.traffic += *traffic;
    }
}
