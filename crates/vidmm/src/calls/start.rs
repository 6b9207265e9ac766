//! Adapter start.

use alloc::{boxed::Box, vec, vec::Vec};

use crate::{
    adapter::{
        self, Adapter, ApertureSegment, MemorySegment, NotificationRevision,
        patching::{Patching, PreparationKnobs},
        verifier::VerifierKnobs,
        write_behind::WriteBehind,
    },
    addresses::Addresses,
    budget::{
        AccountShares,
        account::{Account, PerAccount},
    },
    buggify::Buggify,
    calls::paging_va::{PagingVaQuery, QUERY_TYPE},
    contract::{
        AdapterInfo, AddressingModel, BrokenRule, Host, Kmd, KmdContextHandle, KmdError, KmdProcessHandle,
        SegmentFlags, StartAdapterError, WddmVersion,
    },
    data::ordered_set::OrderedSet,
    engines::{Engines, recovering::TdrOptions},
    event::{ApertureSegmentFacts, Event, EventLog, MemorySegmentFacts, error::DriverFinding, trim::TrimIntervals},
    gpu_va::{PageTables, Table},
    manager::VidMm,
    memory::{
        Memory,
        aperture::ApertureRanges,
        commit::CommitLimit,
        linear_placer::LinearPlacer,
        placer::{PagePlacer, Placer},
    },
    moment::Moment,
    objects::{Objects, turn::EXCHANGE_AFTER},
    plans::{Plans, Stream, Windows, builder::Builder},
    policy::{Policy, PolicyChoice, PolicyInUse},
    requests::Requests,
    residency::Residents,
    schedule::{Schedule, cleaner::Cleaner},
    shares::Shares,
    state::State,
    units::{Extent, Nanoseconds, PAGE_SIZE, PhysicalAddress, SegmentId},
    work::Work,
};

/// The choices of an adapter's user.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdapterOptions {
    /// Keep events until [`events`](VidMm::events) is drained; without, they are only counted.
    pub events: bool,
    /// The revision of the notification's documents that is followed (C-16).
    pub notification_revision: NotificationRevision,
    /// Bytes at the end of each memory segment with page tables that hold nothing else, in whole tables; 0 lets tables lie anywhere.
    /// Allocations that engines address physically (`ACCESSED_PHYSICALLY`) can be in such a segment only beside an area (D19), and so
    /// can tables larger than a page of the segment. Each takes as much of it as the largest.
    /// Where a table is a page, an area of a 256th of what is mapped is enough for any mapping by pages of 4 KiB.
    pub page_table_area: u64,
    /// Whether the driver's size of the paging process's address space counts even where WDDM gives it none (U-16).
    pub paging_va_without_local_memory: bool,
    /// Whether the CPU writes the paging process's tables however others are written, as the documents say (GVA-33).
    /// They must live in system memory then. Each update of them waits until the GPU has done all that was built
    /// before.
    pub paging_tables_by_cpu: bool,
    /// The unlikely choices that are forced when DMA buffers are prepared, without GPU virtual addresses (SPL-13).
    pub preparation: PreparationKnobs,
    /// The consequences of mistakes that come at once (RES-25).
    pub verifier: VerifierKnobs,
    /// The order of eviction among allocations of equal priority (D24).
    pub policy: PolicyChoice,
    /// The time for which a process has nothing in flight before it gives what it holds beyond its reservation to others within their
    /// budgets that have allocations away from home; none is 10 s (D36).
    pub exchange_after: Option<Nanoseconds>,
    /// Copies of written content ahead of the eviction, if the driver has opted in (D37).
    pub write_behind: WriteBehind,
    /// The time limits after which packets count as hung (6.4).
    pub tdr: TdrOptions,
    /// The seed of legal and unlikely choices; none makes none of them.
    #[cfg(feature = "buggify")]
    pub buggify: Option<u64>,
}

/// # Start of an adapter
impl VidMm {
    /// Lets a policy of the caller's choose among allocations of equal priority (D24), instead of that of the
    /// [`AdapterOptions`].
    ///
    /// # Errors
    ///
    /// If there are allocations.
    pub fn set_policy(&mut self, policy: Box<dyn Policy>) -> Result<(), PolicyInUse> {
        if self.state.objects.allocations.iter().next().is_some() {
            return Err(PolicyInUse);
        }
        self.state.residency.set_policy(policy);
        Ok(())
    }

    /// Starts an adapter: asks the driver to describe it, and creates the paging process and its pinned page tables.
    ///
    /// # Errors
    ///
    /// If the driver's report breaks a rule; all broken rules are listed (U-1).
    pub fn start_adapter(
        options: AdapterOptions,
        kmd: &mut dyn Kmd,
        host: &mut dyn Host,
    ) -> Result<Self, StartAdapterError> {
        let mut info = kmd.query_adapter_info();
        let first_root_entries = ask_for_root_size(kmd, &mut info);
        let refuse = |broken_rules| StartAdapterError { broken_rules };
        let adapter = adapter::validate(&info, host.total_system_memory()).map_err(refuse)?;
        let mut adapter = Adapter {
            revision: options.notification_revision,
            page_table_area: options.page_table_area,
            num_slots: adapter.num_slots + u32::from(options.preparation.accept_max_slot_id),
            verifier: options.verifier,
            paging_tables_by_cpu: adapter.has_page_tables() && options.paging_tables_by_cpu,
            first_root_entries: first_root_entries.unwrap_or(adapter.first_root_entries),
            ..adapter
        };
        check_tables(&adapter).map_err(|rule| refuse(vec![rule]))?;
        check_paging_tables(&adapter).map_err(|rule| refuse(vec![rule]))?;
        let queries = query_paging_va(options, &info, &adapter, kmd);
        (adapter.paging_va_size, _) = queries[0].size(&adapter);
        adapter.table_views = Windows::addresses_of_views(&adapter);
        check_windows(&adapter).map_err(|rule| refuse(vec![rule]))?;
        let mut placers = adapter.accounts().per(|account| placer(&adapter, account));
        let mut areas = adapter.accounts().per(|account| PagePlacer::within(adapter.table_area(account)));
        let (tables, extents) =
            place_paging_tables(&adapter, &mut placers, &mut areas, host).map_err(|rule| refuse(vec![rule]))?;
        let system_process = create_system_process(&adapter, kmd).map_err(|_| ()).and_then(|(process, context)| {
            let dummy_page = host.commit_backing_store(PAGE_SIZE).map_err(|_| {
                kmd.destroy_context(context);
                kmd.destroy_process(process);
            })?;
            Ok((process, context, dummy_page))
        });
        let (process, system_context, dummy_page) = system_process.map_err(|()| {
            release_system_tables(&adapter, &tables, host);
            refuse(vec![BrokenRule::SystemProcess])
        })?;
        adapter.dummy_page = dummy_page;
        let windows = Windows::new(&adapter, process, tables);
        if let Some(root) = windows.root {
            kmd.set_root_page_table(system_context, root);
        }

        let buggify = Buggify {
            #[cfg(feature = "buggify")]
            seed: options.buggify,
        };
        let moment = Moment::new(EventLog::new(options.events), buggify);
        let engines = Engines::new(adapter.engines.len(), options.tdr);
        let accounts = adapter.accounts();
        let mut memory = Memory::new(
            placers,
            areas,
            CommitLimit::new(adapter.system_commit_limit),
            ApertureRanges::new(adapter.apertures.iter().map(aperture_part).collect()),
        );
        memory.table_bytes[adapter.paging_tables_in] += extents.iter().map(|extent| extent.size).sum::<u64>();
        let limit = |account| adapter.group_of(account).map_or(u64::MAX, |group| adapter.verifier.budget_limit(group));
        let shares = accounts.per(|account| AccountShares::new(memory.list_capacity(account), limit(account)));
        let shares = Shares::new(shares);
        // BPB-51 knows a copy out of a memory segment only with an eviction: the driver says whether it takes others.
        let write_behind =
            if info.write_behind && adapter.has_page_tables() { options.write_behind } else { WriteBehind::OFF };
        let memory_bytes = accounts.memory().map(|account| memory.placers[account].size()).fold(0, u64::saturating_add);
        let mut manager = Self {
            state: State {
                adapter,
                moment,
                objects: Objects::new(memory.accounts()),
                engines,
                memory,
                shares,
                residency: Residents::new(accounts, options.policy.policy()),
                addresses: Addresses::default(),
            },
            plans: Plans { stream: Stream::default(), system_context, builder: Builder::default(), windows },
            requests: Requests::default(),
            work: Work {
                queued: OrderedSet::default(),
                has_priorities: false,
                patching: Patching { knobs: options.preparation, ..Patching::default() },
            },
            schedule: Schedule::new(
                TrimIntervals::default(),
                options.exchange_after.unwrap_or(EXCHANGE_AFTER),
                Cleaner::new(write_behind, memory_bytes),
            ),
        };
        record_start(&mut manager.state, &manager.plans, process, extents);
        if manager.state.adapter.apertures.is_empty() && manager.state.adapter.version >= WddmVersion::WDDM2_0 {
            manager.state.moment.report(DriverFinding::NoApertureSegment);
        }
        for query in queries {
            record_query(&manager.state.adapter, &mut manager.state.moment, query);
        }
        manager.plans.initialise_paging_tables(&manager.state.adapter);
        Ok(manager)
    }
}

/// Where an aperture's ranges lie.
fn aperture_part(&ApertureSegment { start, size, .. }: &ApertureSegment) -> Extent {
    Extent { offset: start, size }
}

fn record_start(state: &mut State, plans: &Plans, paging_process: KmdProcessHandle, paging_tables: Vec<Extent>) {
    let (adapter, windows) = (&state.adapter, &plans.windows);
    state.moment.record(|| Event::AdapterStarted {
        wddm_version: adapter.version.0,
        addressing_model: adapter.model,
        map_aperture2_supported: adapter.map_aperture2,
        num_slots: if adapter.is_physical() { adapter.num_slots } else { 0 },
        preemption_aware: adapter.is_physical() && adapter.preemption_aware,
        notification_revision: adapter.revision,
        memory: adapter.accounts().memory().filter_map(|account| segment_facts(adapter, account)).collect(),
        apertures: adapter.apertures.iter().map(aperture_facts).collect(),
        system_group: adapter.system_group,
        system_commit_limit: adapter.system_commit_limit,
        dummy_page: adapter.dummy_page,
        engines: adapter.engines.clone(),
        level_bits: adapter.levels.iter().map(|level| level.index_bits).collect(),
        table_bytes: adapter.levels.iter().map(|level| level.table_bytes).collect(),
        leaf_table_64kb_bytes: adapter.leaf_table_64kb,
        page_table_update_mode: adapter.page_table_update_mode,
        invalid_tlb_entries_not_cached: adapter.invalid_not_cached,
        paging_tables_by_cpu: adapter.paging_tables_by_cpu,
        cache_coherent_memory_supported: adapter.has_cache_coherent,
        zero_in_pte_supported: adapter.has_zero,
        large_page_supported: adapter.large_pages.is_some(),
        allow_non_aligned_large_page_address: adapter.large_pages.is_some_and(|large| large.begins_anywhere),
        sys_mem_large_page_supported: adapter.large_pages.is_some_and(|large| large.in_system_memory),
        restrict_budget_local: adapter.verifier.restrict_budget_local,
        restrict_budget_non_local: adapter.verifier.restrict_budget_non_local,
        paging_buffer_bytes: adapter.paging_buffer_size as u64,
        va_bits: adapter.va_bits,
        paging_va_size: adapter.paging_va_size,
        paging_process,
        paging_table_bytes: windows.tables.iter().map(|(key, _)| key.bytes(adapter)).sum(),
        paging_tables,
        paging_tables_segment: adapter.memory_segment(adapter.paging_tables_in).map_or(SegmentId::SYSTEM, |of| of.id),
        tdr_limit_count: state.engines.tdr().limit_count,
        tdr_limit_time: state.engines.tdr().limit_time,
        tdr_quantum: Some(state.engines.tdr().quantum),
        tdr_dependent_delay: Some(state.engines.tdr().dependent_delay),
    });
}

fn aperture_facts(&ApertureSegment { id, size, cache_coherent, .. }: &ApertureSegment) -> ApertureSegmentFacts {
    ApertureSegmentFacts { segment: id, size, cache_coherent }
}

fn segment_facts(adapter: &Adapter, account: Account) -> Option<MemorySegmentFacts> {
    let &MemorySegment { id, size, page_size, cpu_visible, group } = adapter.memory_segment(account)?;
    let page_table_area = adapter.table_area(account).size;
    Some(MemorySegmentFacts { segment: id, size, page_size, cpu_visible, group, page_table_area })
}

fn record_query(adapter: &Adapter, moment: &mut Moment, query: PagingVaQuery) {
    if !query.is_asked {
        return;
    }
    let (paging_va_size, finding) = query.size(adapter);
    moment.record(|| Event::PagingVaQueried {
        query_type: QUERY_TYPE,
        physical_adapter_index: query.physical_adapter_index,
        input_data_size: size_of::<u32>() as u32,
        output_data_size: size_of::<u32>() as u32,
        answer_mib: query.answer_mib,
        paging_va_size,
    });
    if let Some(finding) = finding {
        moment.report(finding);
    }
}

/// Asks for the size of the paging process's address space, once for each physical adapter (PGV-01).
fn query_paging_va(
    options: AdapterOptions,
    info: &AdapterInfo,
    adapter: &Adapter,
    kmd: &mut dyn Kmd,
) -> Vec<PagingVaQuery> {
    let linked = info.linked_adapter_segments.iter().map(|segments| {
        let memory = segments.iter().filter(|segment| !segment.flags.contains(SegmentFlags::APERTURE));
        let size = memory.map(|segment| segment.size).max().unwrap_or(0);
        (size, size / 8)
    });
    let knows_query = adapter.version >= WddmVersion::WDDM3_2;
    let own = adapter.accounts().memory().map(|account| adapter.memory_size(account)).max().unwrap_or(0);
    let leaf_table_bytes_max = match adapter.table_area(adapter.paging_tables_in).size {
        0 => adapter.memory_size(adapter.paging_tables_in) / 8,
        area => area / 4,
    };
    let memory_sizes = core::iter::once((own, leaf_table_bytes_max)).chain(linked);
    (0..)
        .zip(memory_sizes)
        .map(|(physical_adapter_index, (memory_size, leaf_table_bytes_max))| PagingVaQuery {
            physical_adapter_index,
            memory_size,
            leaf_table_bytes_max,
            scheduling_log: info.scheduling_log_buffer_size,
            // A driver of an older interface does not know the query (I23).
            is_asked: knows_query,
            answer_mib: if knows_query { kmd.query_paging_process_gpu_va_size(physical_adapter_index) } else { None },
            without_local_memory: options.paging_va_without_local_memory,
        })
        .collect()
}

/// Whether the CPU can write the paging process's tables, if it is to.
fn check_paging_tables(adapter: &Adapter) -> Result<(), BrokenRule> {
    match adapter.memory_segment(adapter.paging_tables_in).filter(|_| adapter.paging_tables_by_cpu) {
        Some(segment) => Err(BrokenRule::PagingTablesByCpu(segment.id.0)),
        None => Ok(()),
    }
}

/// Whether the windows of the paging process fit into its addresses.
fn check_windows(adapter: &Adapter) -> Result<(), BrokenRule> {
    let (_, addresses) = adapter.paging_addresses();
    if adapter.has_page_tables() && Windows::needed_addresses(adapter) > addresses {
        let coverage = adapter.coverage(0);
        return Err(BrokenRule::AddressSpaceTooSmall { va_bits: adapter.va_bits, coverage });
    }
    Ok(())
}

/// Whether page tables can lie in each segment that has some: a table in any page, larger ones only in the area for tables, which
/// can be the end of the segment.
fn check_tables(adapter: &Adapter) -> Result<(), BrokenRule> {
    if !adapter.has_page_tables() {
        return Ok(());
    }
    let (area, alignment) = (adapter.page_table_area, adapter.table_alignment);
    for account in [adapter.tables_in, adapter.paging_tables_in] {
        let (table_size, page_size) = (adapter.table_bytes_in(account), adapter.page_size_in(account).bytes());
        let size = adapter.memory_size(account);
        if account.is_memory() && (!area.is_multiple_of(table_size) || area > size / 2) {
            return Err(BrokenRule::PageTableArea { area, table_size, size });
        }
        if area == 0 && table_size > page_size {
            return Err(BrokenRule::TableBeyondPage { size: table_size, page_size });
        }
        let Extent { offset, .. } = adapter.table_area(account);
        if !table_size.is_multiple_of(alignment) || area > 0 && !offset.is_multiple_of(alignment) {
            return Err(BrokenRule::TableAlignment { alignment, table_size });
        }
    }
    Ok(())
}

/// Where there are two levels of page tables the driver says how large the root is with all the entries that addresses have (GVA-16).
/// Returns the entries that it has at first, of which the driver may say that there are none (GVA-15).
fn ask_for_root_size(kmd: &mut dyn Kmd, info: &mut AdapterInfo) -> Option<u32> {
    let AdapterInfo { addressing_model, page_table_levels, gpu_mmu, .. } = info;
    let [leaf, root] = &mut page_table_levels[..] else { return None };
    let below = PAGE_SIZE.trailing_zeros().saturating_add(leaf.page_table_index_bit_count);
    let index_bits = gpu_mmu.virtual_address_bit_count.saturating_sub(below);
    // Of another number of bits the report is refused.
    let num_entries = 1_u32.checked_shl(index_bits).filter(|_| *addressing_model == AddressingModel::GpuMmu)?;
    root.page_table_size_in_bytes = kmd.get_root_page_table_size(num_entries)?;
    Some(1_u32.checked_shl(root.page_table_index_bit_count).map_or(num_entries, |first| first.min(num_entries)))
}

/// The allocator of a memory segment, but for its area of page tables; system memory is counted, not placed.
fn placer(adapter: &Adapter, account: Account) -> Placer {
    let size = adapter.memory_size(account) - adapter.table_area(account).size;
    if !adapter.is_physical() || account == Account::SYSTEM {
        return Placer::Pages(PagePlacer::new(size).with_large_pages(adapter.large_page_multiple()));
    }
    let bank_ends: &[u64] = if account == Account::FIRST_MEMORY { &adapter.bank_ends } else { &[] };
    Placer::Linear(Box::new(LinearPlacer::new(size, bank_ends)))
}

/// Places the tables of the paging process, which stay where they are (GVA-27), at the start of the segment or of its area for
/// tables.
fn place_paging_tables(
    adapter: &Adapter,
    placers: &mut PerAccount<Placer>,
    areas: &mut PerAccount<PagePlacer>,
    host: &mut dyn Host,
) -> Result<(PageTables, Vec<Extent>), BrokenRule> {
    let keys = Windows::needed_tables(adapter);
    let account = adapter.paging_tables_in;
    let total = keys.len() as u64 * adapter.table_bytes_in(account);
    let area = adapter.table_area(account).size;
    let size = if area > 0 { area } else { adapter.memory_size(account) };
    if account.is_memory() && total > size / 2 {
        return Err(BrokenRule::PagingTables { tables: total, size: size / 2 });
    }
    let mut tables = PageTables::default();
    let mut extents = Vec::new();
    for key in keys {
        let address = if account == Account::SYSTEM {
            host.commit_backing_store(key.bytes(adapter)).map_err(|_| {
                release_system_tables(adapter, &tables, host);
                BrokenRule::SystemProcess
            })?
        } else {
            let size = adapter.table_bytes_in(account);
            let placer = if area > 0 { &mut areas[account] } else { placers[account].pages() };
            let taken = placer.take(size, |_| unreachable!("no plan was made yet"));
            let extent = taken.first();
            extents.push(extent);
            PhysicalAddress { segment: adapter.memory_id(account), offset: extent.offset }
        };
        tables.insert(key, Table::new(Some(address)));
    }
    Ok((tables, extents))
}

/// Creates the process and the context that paging buffers run in (GVA-62).
fn create_system_process(
    adapter: &Adapter,
    kmd: &mut dyn Kmd,
) -> Result<(KmdProcessHandle, KmdContextHandle), KmdError> {
    let process = kmd.create_process(true)?;
    let context = kmd.create_context(process, adapter.paging_engine, true);
    Ok((process, context.inspect_err(|_| kmd.destroy_process(process))?))
}

/// Gives back the tables that lie in system memory.
pub(crate) fn release_system_tables(adapter: &Adapter, tables: &PageTables, host: &mut dyn Host) {
    for (key, table) in tables.iter() {
        if let Some(address) = table.address.filter(|address| address.segment.is_system()) {
            host.decommit_backing_store(address, key.bytes(adapter));
        }
    }
}
