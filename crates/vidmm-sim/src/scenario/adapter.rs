//! The machine: adapter and driver.

use std::ops::RangeInclusive;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use vidmm::contract::{AddressingModel, PageTableUpdateMode};
use vidmm::policy::PolicyChoice;
use vidmm::{AdapterOptions, NotificationRevision, PAGE_SIZE, PAGE_SIZE_64K, PreparationKnobs};
use vidmm_trace::{ByteSize, LocalMemory};

use super::amount::{self, optional_commit_limit, optional_local_memory};
use super::contract::{AddressingModelName, NotificationRevisionName, Wddm};
use super::duration::Duration;
use super::keys::exactly;
use super::limits::MAX_LOCAL_MEMORY;
use super::linked::LinkedAdapter;
use super::number::within;
use super::page_size::PageSize;
use super::paging_va::PagingVa;
use crate::machine::ApertureDesc;
use crate::policies;

use super::tdr::{EngineName, TdrSettings};
use super::verifier::VerifierSettings;
use super::write_behind::WriteBehindSettings;

/// The sizes that a paging buffer may have, in bytes.
const PAGING_BUFFERS: RangeInclusive<u64> = 4 << 10..=64 << 20;

/// The aperture segment of a machine whose workload needs no larger one.
pub(super) const DEFAULT_APERTURE: ByteSize = ByteSize::mib(256);

/// The unit of the size of a paging buffer, in bytes.
const PAGING_BUFFER_UNIT: u64 = 4 << 10;
/// An adapter has 10 memory segments at most, local memory included, and 5 apertures.
const MORE_MEMORY_MAX: usize = 9;
const MORE_APERTURES_MAX: usize = 4;

/// The machine: its memory, its page tables, and the properties of its driver.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct AdapterSettings {
    /// How engines find memory.
    #[serde(with = "AddressingModelName")]
    pub addressing_model: AddressingModel,
    /// The number of engines, from 1 to 3: those of paging, of kernels and of copies, in this order. One engine runs
    /// everything, and the second of two runs the work that is meant for the third.
    #[serde(deserialize_with = "within::<_, _, 1, 3>")]
    pub engines: u32,
    /// The size of local memory. None leaves it to [`local_memory_or`](Self::local_memory_or).
    #[serde(deserialize_with = "optional_local_memory", serialize_with = "exactly")]
    pub local_memory: Option<LocalMemory>,
    /// Whether the CPU sees all of local memory.
    pub local_memory_cpu_visible: bool,
    /// Further memory segments, which come after the aperture.
    pub more_memory: Vec<MoreMemory>,
    /// The pages that memory segments are managed in.
    pub page_size: PageSize,
    /// Bits in a virtual address. None leaves them to [`virtual_address_bits`](Self::virtual_address_bits).
    pub virtual_address_bits: Option<u32>,
    /// The index bits of the levels of page tables below the root, from the leaf up. None leaves them to
    /// [`page_table_bits`](Self::page_table_bits).
    pub page_table_bits: Option<Vec<u32>>,
    /// Whether a level-1 entry points to a leaf table of 4 KiB pages and to one of 64 KiB pages. None leaves it to
    /// [`dual_pte`](Self::dual_pte).
    pub dual_pte: Option<bool>,
    /// Whether the TLB caches valid entries only. If it does not, an entry that becomes valid must be flushed as well.
    pub invalid_tlb_entries_not_cached: bool,
    /// Whether entries of page tables can say that the CPU's caches are snooped (4.2).
    pub cache_coherent_memory: bool,
    /// Whether entries of page tables can read as zero, as those of reserved addresses then do (GVA-20, GVA-52).
    pub zero_in_pte: bool,
    /// Whether entries of level 1 can show memory, as much as a leaf table covers (GVA-21).
    pub large_pages: bool,
    /// Whether large pages may begin at any page, not only at multiples of their size.
    pub large_pages_anywhere: bool,
    /// Whether large pages may be in system memory.
    pub large_pages_in_system_memory: bool,
    /// Where page tables live. None leaves it to [`page_tables`](Self::page_tables).
    pub page_tables: Option<PageTables>,
    /// The writer of page tables, and where it finds them (GVA-10).
    pub update_mode: UpdateMode,
    /// Bytes at the end of the memory segments with page tables that hold nothing else, so that allocations that engines address
    /// physically may be there too; 0 lets tables lie anywhere. Adapter start checks it.
    #[serde(serialize_with = "exactly")]
    pub page_table_area: ByteSize,
    /// The time for which a process sleeps before it gives its memory to others that have allocations away from home (D36).
    pub exchange_after: Duration,
    /// The order of eviction among allocations of equal priority (D24).
    #[serde(deserialize_with = "policies::read", serialize_with = "policies::write")]
    pub policy: PolicyChoice,
    /// The size of a paging buffer: a multiple of 4 KiB, from 4 KiB to 64 MiB.
    #[serde(deserialize_with = "paging_buffer", serialize_with = "exactly")]
    pub paging_buffer: ByteSize,
    /// The most bytes that one command of the driver covers; a multiple of 4 KiB.
    #[serde(deserialize_with = "pages", serialize_with = "exactly")]
    pub max_command: ByteSize,
    /// The driver's answer for the size of the paging process's address space.
    pub paging_va_mib: PagingVa,
    /// Whether that answer counts even where the documents give the paging process no address space (U-16).
    pub paging_va_without_local_memory: bool,
    /// Whether the CPU writes the paging process's tables however others are written (GVA-33).
    pub paging_tables_by_cpu: bool,
    /// The aperture segment; 0 is none (SEG-10). No more than its size may be resident in system memory. None is 256 MiB, or
    /// what a workload in system memory needs if that is more.
    #[serde(deserialize_with = "optional_aperture", serialize_with = "exactly")]
    pub aperture: Option<ByteSize>,
    /// Further aperture segments, which come last; only before WDDM 2.0 (SEG-10).
    pub more_apertures: Vec<MoreAperture>,
    /// The most that may be resident in the apertures and in implicit system memory together: a size, or a share of what the
    /// workload needs. None is the size of the apertures.
    #[serde(deserialize_with = "optional_commit_limit", serialize_with = "exactly")]
    pub aperture_commit_limit: Option<LocalMemory>,
    /// Whether engines that read through the aperture see what the CPU caches.
    pub cache_coherent_aperture: bool,
    /// Whether the driver is sent MAP_APERTURE_SEGMENT2 in place of MAP_APERTURE_SEGMENT; only from WDDM 2.9 on (BPB-34).
    pub map_aperture2: bool,
    /// The log buffers of hardware scheduling. None is a machine whose engines the operating system schedules.
    #[serde(serialize_with = "exactly")]
    pub scheduling_log: Option<ByteSize>,
    /// The other physical adapters of a link.
    pub linked_adapters: Vec<LinkedAdapter>,
    /// Which revision of the notification's documents the manager follows (C-16).
    #[serde(with = "NotificationRevisionName")]
    pub notification_revision: NotificationRevision,
    /// The interface version that the driver declares.
    pub wddm: Wddm,
    /// The driver answers busy to every n-th notification that does not promise an idle allocation; none is never.
    #[serde(deserialize_with = "every")]
    pub busy_notify_every: Option<u32>,
    /// The driver answers busy to every n-th transfer, or discarding of content, that does not promise an idle allocation
    /// (BPB-06); none is never.
    #[serde(deserialize_with = "every")]
    pub busy_every: Option<u32>,
    /// The slots of a DMA buffer's resource table (SPL-02). This key and the next three mean something only without GPU virtual
    /// addresses.
    #[serde(deserialize_with = "slots")]
    pub slots: u32,
    /// Whether engines keep their state between packets, so that another context may run between two portions (SPL-07).
    pub preemption_aware: bool,
    /// Where the banks of local memory end, from its start (SEG-31).
    #[serde(serialize_with = "exactly")]
    pub banks: Vec<ByteSize>,
    /// The unlikely choices that are forced when DMA buffers are prepared (SPL-13).
    pub preparation: PreparationKnobs,
    /// The consequences of mistakes that come at once.
    pub verifier: VerifierSettings,
    /// The paging engine copies in both directions at the same time.
    pub copies_both_ways: bool,
    /// Copies of written content ahead of evictions.
    pub write_behind: WriteBehindSettings,
    /// The time limits after which packets count as hung, and the number of resets that may be remembered.
    pub tdr: TdrSettings,
    /// Groups of engines of which the reset of one harms the others (FLT-26).
    pub dependent_engines: Vec<Vec<EngineName>>,
    /// The seed of legal and unlikely choices of the manager; none is none of them.
    pub buggify: Option<u64>,
}

/// A further memory segment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
pub struct MoreMemory {
    /// Its size; a multiple of 64 KiB.
    #[serde(deserialize_with = "chunks", serialize_with = "exactly")]
    pub size: ByteSize,
    /// Whether the CPU sees all of it.
    #[serde(default)]
    pub cpu_visible: bool,
}

/// A further aperture segment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
pub struct MoreAperture {
    /// Its size; a multiple of 4 KiB.
    #[serde(deserialize_with = "pages", serialize_with = "exactly")]
    pub size: ByteSize,
    /// The most that may be mapped in it (SEG-50). None is its size.
    #[serde(default, serialize_with = "exactly")]
    pub commit_limit: Option<ByteSize>,
    /// Whether engines that read through it see what the CPU caches.
    #[serde(default)]
    pub cache_coherent: bool,
}

impl MoreAperture {
    /// Its description for a machine.
    pub fn desc(&self) -> ApertureDesc {
        ApertureDesc {
            bytes: self.size.bytes(),
            commit_limit_bytes: self.commit_limit.map(|limit| limit.bytes().min(self.size.bytes())),
            cache_coherent: self.cache_coherent,
        }
    }
}

/// The writer of page tables, and where it finds them (GVA-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateMode {
    /// The driver, with the CPU: page tables live in system memory, unless the scenario says where they live.
    CpuVirtual,
    /// The paging engine, at addresses of the paging process, whose own tables live in system memory.
    GpuVirtual,
    /// The paging engine, at physical addresses.
    GpuPhysical,
}

impl From<UpdateMode> for PageTableUpdateMode {
    fn from(mode: UpdateMode) -> Self {
        match mode {
            UpdateMode::CpuVirtual => Self::CpuVirtual,
            UpdateMode::GpuVirtual => Self::GpuVirtual,
            UpdateMode::GpuPhysical => Self::GpuPhysical,
        }
    }
}

/// Where page tables live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageTables {
    /// In local memory.
    Local,
    /// In system memory, where no table may be larger than 4 KiB.
    System,
}

impl Default for AdapterSettings {
    /// A discrete GPU with pages of 64 KiB.
    fn default() -> Self {
        Self {
            addressing_model: AddressingModel::GpuMmu,
            engines: 3,
            local_memory: None,
            local_memory_cpu_visible: false,
            more_memory: Vec::new(),
            page_size: PageSize::Kib64,
            virtual_address_bits: None,
            page_table_bits: None,
            dual_pte: None,
            invalid_tlb_entries_not_cached: true,
            cache_coherent_memory: false,
            zero_in_pte: false,
            large_pages: false,
            large_pages_anywhere: false,
            large_pages_in_system_memory: false,
            page_tables: None,
            update_mode: UpdateMode::GpuPhysical,
            page_table_area: ByteSize(0),
            exchange_after: Duration { ns: 10_000_000_000 },
            policy: PolicyChoice::LRU,
            paging_buffer: ByteSize::kib(64),
            max_command: ByteSize::mib(64),
            paging_va_mib: PagingVa::default(),
            paging_va_without_local_memory: false,
            paging_tables_by_cpu: false,
            aperture: None,
            more_apertures: Vec::new(),
            aperture_commit_limit: None,
            cache_coherent_aperture: false,
            map_aperture2: false,
            scheduling_log: None,
            linked_adapters: Vec::new(),
            notification_revision: NotificationRevision::Current,
            wddm: Wddm::default(),
            busy_notify_every: None,
            busy_every: None,
            slots: 16,
            preemption_aware: false,
            banks: Vec::new(),
            preparation: PreparationKnobs::default(),
            verifier: VerifierSettings::default(),
            copies_both_ways: false,
            write_behind: WriteBehindSettings::default(),
            tdr: TdrSettings::default(),
            dependent_engines: Vec::new(),
            buggify: None,
        }
    }
}

impl AdapterSettings {
    /// The keys that another key caps, a sentence each, on a machine with an aperture of this size and this commit limit.
    pub fn caps(&self, aperture_bytes: u64, commit_limit_bytes: Option<u64>) -> Vec<String> {
        let more: u64 = self.more_apertures.iter().map(|aperture| aperture.size.bytes()).sum();
        let whole = (
            "`aperture-commit-limit`".to_owned(),
            commit_limit_bytes,
            aperture_bytes.saturating_add(more),
            "`aperture`",
        );
        let of_aperture = |(number, aperture): (usize, &MoreAperture)| {
            let key = format!("`commit-limit` of aperture-{}", number + 2);
            (key, aperture.commit_limit.map(|limit| limit.bytes()), aperture.size.bytes(), "`size`")
        };
        let limits = std::iter::once(whole).chain(self.more_apertures.iter().enumerate().map(of_aperture));
        let capped = limits.filter_map(|(key, limit, size, by)| {
            let limit = limit.filter(|&limit| limit > size)?;
            let (limit, size) = (ByteSize(limit), ByteSize(size));
            Some(format!("{key} is {limit}, and {by} caps it at {size}: no more can be resident; raise {by}"))
        });
        capped.collect()
    }

    /// The options of the manager for the adapter; a caller has its own of events and of time limits.
    pub fn options(&self) -> AdapterOptions {
        AdapterOptions {
            notification_revision: self.notification_revision,
            paging_va_without_local_memory: self.paging_va_without_local_memory,
            paging_tables_by_cpu: self.paging_tables_by_cpu,
            page_table_area: self.page_table_area.bytes(),
            preparation: self.preparation,
            verifier: self.verifier.into(),
            write_behind: self.write_behind.into(),
            exchange_after: Some(self.exchange_after.ns),
            policy: self.policy,
            buggify: self.buggify,
            ..AdapterOptions::default()
        }
    }

    /// The size of local memory: the scenario's, or else `default`. An adapter whose engines find memory through an
    /// IOMMU has none.
    pub fn local_memory_or(&self, default: LocalMemory) -> LocalMemory {
        match self.addressing_model {
            AddressingModel::GpuMmu | AddressingModel::Physical => self.local_memory.unwrap_or(default),
            AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal => amount::NONE,
        }
    }

    /// Whether there is any local memory.
    pub fn has_local_memory(&self) -> bool {
        let reaches_it = matches!(self.addressing_model, AddressingModel::GpuMmu | AddressingModel::Physical);
        reaches_it && self.local_memory != Some(amount::NONE)
    }

    /// The place of page tables: the scenario's, or else local memory where there is any and the CPU does not write them.
    pub fn page_tables(&self) -> PageTables {
        let is_local = self.has_local_memory() && self.update_mode != UpdateMode::CpuVirtual;
        let default = if is_local { PageTables::Local } else { PageTables::System };
        self.page_tables.unwrap_or(default)
    }

    /// Checks that there is no local memory that engines could not reach.
    pub(super) fn check_memory(&self) -> Result<(), &'static str> {
        let behind_io_mmu =
            matches!(self.addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal);
        if behind_io_mmu && self.local_memory.is_some_and(|local_memory| local_memory != amount::NONE) {
            return Err("engines that find memory through an IOMMU reach system memory only; leave `local-memory` out");
        }
        if !self.has_local_memory() && !self.more_memory.is_empty() {
            return Err("there is no local memory, which is the first memory segment; leave `more-memory` out");
        }
        if self.more_memory.len() > MORE_MEMORY_MAX {
            return Err("an adapter has 10 memory segments at most; give `more-memory` 9 at most");
        }
        if self.more_apertures.len() > MORE_APERTURES_MAX {
            return Err("an adapter has 5 apertures at most; give `more-apertures` 4 at most");
        }
        if !self.more_apertures.is_empty() && self.wddm != Wddm::V1_3 {
            return Err("an adapter of WDDM 2 has one aperture; leave `more-apertures` out, or write `wddm = \"1.3\"`");
        }
        if !self.more_apertures.is_empty() && self.aperture == Some(ByteSize(0)) {
            return Err("there is no first aperture; leave `more-apertures` out, or `aperture`");
        }
        if !self.has_local_memory() && self.aperture == Some(ByteSize(0)) {
            return Err("there is neither local memory nor an aperture; leave `aperture` out");
        }
        if self.wddm == Wddm::V1_3 && !self.is_physical() {
            return Err(
                "GPU virtual addresses begin with WDDM 2.0; write `wddm = \"2.0\"`, or `addressing-model = \"physical\"`",
            );
        }
        if !self.has_local_memory() && self.page_tables == Some(PageTables::Local) {
            return Err("there is no local memory for `page-tables = \"local\"`; leave `page-tables` out");
        }
        Ok(())
    }

    /// Whether engines use physical addresses, which the driver patches into DMA buffers (PAT-10).
    pub fn is_physical(&self) -> bool {
        self.addressing_model == AddressingModel::Physical
    }

    /// Bits in a virtual address: the scenario's, or else 47 with pages of 64 KiB and 48 with pages of 4 KiB, as real GPUs have them.
    pub fn virtual_address_bits(&self) -> u32 {
        self.virtual_address_bits.unwrap_or(match self.page_size {
            PageSize::Kib4 => 48,
            PageSize::Kib64 => 47,
        })
    }

    /// Whether level-1 entries are dual: the scenario's choice, or else with pages of 64 KiB only.
    pub fn dual_pte(&self) -> bool {
        self.dual_pte.unwrap_or(self.page_size == PageSize::Kib64)
    }

    /// The index bits of the levels below the root, from the leaf up: the scenario's, or else `[13, 10]` for tables in
    /// local memory with pages of 64 KiB. Where some tables are elsewhere a table is 4 KiB at most: the levels are `[9, 8, 8, 5]` with dual
    /// entries, which are twice as large, and `[9, 9, 9]` without.
    pub fn page_table_bits(&self) -> Vec<u32> {
        // The paging process's own tables, which the CPU sets up, have the same shape (GVA-33).
        let all_are_local = self.page_tables() == PageTables::Local && self.update_mode != UpdateMode::GpuVirtual;
        let default = || match self.page_size {
            PageSize::Kib64 if all_are_local => vec![13, 10],
            _ if self.dual_pte() => vec![9, 8, 8, 5],
            _ => vec![9, 9, 9],
        };
        self.page_table_bits.clone().unwrap_or_else(default)
    }
}

/// Reads the size of a paging buffer.
fn paging_buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if PAGING_BUFFERS.contains(&size.bytes()) && size.bytes().is_multiple_of(PAGING_BUFFER_UNIT) {
        return Ok(size);
    }
    let (least, most) = (ByteSize(*PAGING_BUFFERS.start()), ByteSize(*PAGING_BUFFERS.end()));
    Err(D::Error::custom(format!("a paging buffer of {size}; give a multiple of 4 KiB from {least} to {most}")))
}

/// Reads a size that is made of whole pages.
fn pages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    of_pages(ByteSize::deserialize(deserializer)?)
}

fn of_pages<E: serde::de::Error>(size: ByteSize) -> Result<ByteSize, E> {
    if (PAGE_SIZE..=MAX_LOCAL_MEMORY).contains(&size.bytes()) && size.bytes().is_multiple_of(PAGE_SIZE) {
        return Ok(size);
    }
    let most = ByteSize(MAX_LOCAL_MEMORY);
    Err(E::custom(format!("{size} is not made of pages; give a multiple of 4 KiB from 4 KiB to {most}")))
}

/// Reads the size of the aperture: whole pages, or 0.
fn optional_aperture<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if size == ByteSize(0) { Ok(Some(size)) } else { of_pages(size).map(Some) }
}

/// Reads the size of a memory segment, whose pages may be of 64 KiB.
fn chunks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = of_pages(ByteSize::deserialize(deserializer)?)?;
    if size.bytes().is_multiple_of(PAGE_SIZE_64K) {
        return Ok(size);
    }
    Err(D::Error::custom(format!("{size} is not made of pages of 64 KiB; give a multiple of them")))
}

/// Reads the number of slots, whose numbers have 24 bits.
fn slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within::<_, _, 1, 0x100_0000>(deserializer)
}

/// Reads the n of "every n-th".
fn every<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within::<_, _, 1, 0xFFFF_FFFF>(deserializer).map(Some)
}
