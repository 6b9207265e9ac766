//! The command line of vidmm.
mod soft;
use vidmm_sim::*;
use vidmm_trace::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let workload = import::read(std::path::Path::new(&args[1]), &Default::default()).unwrap();
    let mut workload = workload;
    let pct: u64 = args[2].parse().unwrap();
    let ahead: usize = args[3].parse().unwrap();
    let scale: u64 = args.get(4).map_or(1, |s| s.parse().unwrap());
    workload.scale(scale);
    let fp = workload.footprint(65536);
    println!("{fp:?}");
    let desc = RunDesc { machine: MachineDesc {
        local_memory_bytes: (fp.peak_bytes / 100 * pct).next_multiple_of(2<<20), page_size: vidmm::PageSize::Kib64, page_table_bits: None, dual_pte: true, invalid_tlb_entries_not_cached: true,
        page_tables_in_system_memory: false, paging_buffer_bytes: 65536, paging_va_mib: 0, bus_bytes_per_second: 25_000_000_000, local_bytes_per_second: 800_000_000_000, faults: vec![] },
        ahead, content: if scale > 1 { Content::Ramp } else { Content::Uniform }, events: false };
    let t = std::time::Instant::now();
    let r = run(&workload, &desc, &soft::machine, &mut Unobserved).unwrap();
    println!("{r:#?} {:?}", t.elapsed());
}
