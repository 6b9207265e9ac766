//! The meaning of each column, by its name: columns of one name mean the same in all tables.

/// The meaning of a column; none if nobody has described the name.
pub(super) fn about(column: &str) -> Option<&'static str> {
    let found = ABOUT.binary_search_by_key(&column, |&(name, _)| name).ok()?;
    Some(ABOUT[found].1)
}

/// Names in ascending order.
const ABOUT: &[(&str, &str)] = &[
    ("allocation", "the id of the allocation"),
    ("at", "the time in nanoseconds of the run's clock"),
    ("at_ns", "the virtual time in nanoseconds at which the submission ends"),
    ("batch", "the number of requests that make a submission"),
    ("budget", "the budget of the process in bytes"),
    ("bytes", "the size in bytes"),
    ("bytes_in", "bytes that were copied to local memory"),
    ("bytes_in_per_second", "the speed of copies to local memory"),
    ("bytes_out", "bytes that were copied out of local memory"),
    ("bytes_out_per_second", "the speed of copies from local memory"),
    ("bytes_prefetched", "of bytes_in, the bytes that came ahead of their use"),
    ("bytes_used", "bytes of all objects used, once for each use"),
    ("candidates", "the number of objects of which the policy chose the first victim"),
    ("content", "the kind of a packet, or the source of content that was brought in"),
    ("context", "the id of the context"),
    ("created_at", "the time of the creation in nanoseconds"),
    ("device", "the id of the device"),
    ("end", "how the packet ended: completed, aborted, or open at the end of the log"),
    ("ended_at", "the time of the end in nanoseconds"),
    ("engine", "the number of the engine"),
    ("event", "the kind of the event"),
    ("evictions", "the number of objects that were taken out"),
    ("fairness_millionths", "how evenly processes pay for each other, in millionths: 1000000 is evenly"),
    ("fence", "the fence of the packet on the engine"),
    ("fields", "the fields that only this kind of event has, as a JSON object"),
    ("findings", "the number of checks that did not hold"),
    ("footprint_bytes", "the most bytes that exist at once"),
    ("format", "how the input was read: the format and the columns"),
    ("gone_at", "the time in nanoseconds from which the allocation is no more"),
    ("group", "the kind of memory: local or non-local"),
    ("hidden_ns", "nanoseconds of paging during which other engines worked"),
    ("holding", "the reason for which the bytes are resident"),
    ("in_flight", "the number of submissions that the GPU is behind"),
    ("in_ns", "nanoseconds of all copies to local memory"),
    ("input", "the path of the input"),
    ("input_digest", "the length and the SHA-256 of the input"),
    ("is_discarded", "1 if the content was dropped and not copied"),
    ("is_encoded", "1 if the driver encoded the operation"),
    ("is_hit", "1 if the object was resident"),
    ("is_write", "1 if the submission writes the object"),
    ("iterations", "the number of times that the trace was repeated"),
    ("lists", "how the device's list is kept: anew, kept, or content for a run with content"),
    ("local_memory", "the size of local memory as it was given"),
    ("local_memory_bytes", "the size of local memory in bytes"),
    ("lost_ns", "nanoseconds for which engines stood still"),
    ("min_split_bytes_in", "bytes in of MIN on bytes, which no policy betters"),
    ("min_whole_bytes_in", "bytes in of MIN on whole objects, a heuristic"),
    ("min_whole_virtual_ns", "virtual time of MIN on whole objects in nanoseconds"),
    ("misses", "the number of objects that were brought in"),
    ("monitored_fence", "the id of the monitored fence that was waited for"),
    ("moved_to", "the segment to which the allocation moved"),
    ("number", "the number of the event"),
    ("object", "the number of the object, in the order of the first uses"),
    ("objects", "the number of objects"),
    ("occurred_at", "the time in nanoseconds at which the GPU says that the event occurred"),
    ("operation", "the kind of the paging operation"),
    ("out_ns", "nanoseconds of all copies from local memory"),
    ("page_bytes", "the size in bytes of the pages to which sizes are rounded up"),
    ("passed", "the number of uses that passed by, since the object is larger than the memory"),
    ("pfoo_bytes_in", "bytes in of PFOO-L, a lower bound"),
    ("plan", "the number of the plan"),
    ("policy", "the policy of eviction"),
    ("process", "the id of the process"),
    ("processes", "the number of processes"),
    ("queue", "the id of the paging queue"),
    ("queued_at", "the time in nanoseconds at which the packet was handed to the engine"),
    ("rank", "the rank that the policy gives the object after the submission"),
    ("reason", "the reason of the eviction"),
    ("requested", "bytes that the lists of the process name"),
    ("returned_at", "the time in nanoseconds at which the allocation came back"),
    ("returned_bytes_in", "bytes that were copied in for the return"),
    ("reuse_bytes", "bytes of the different objects that were used since the use before"),
    ("row", "the number of the combination among those of all shards"),
    ("sample_error_millionths", "the standard error of the share of bytes brought in, in millionths"),
    ("sample_millionths", "the share of the objects that were read, in millionths"),
    ("seed", "the seed of a policy that draws"),
    ("segment", "the number of the segment; 0 is system memory"),
    ("started_at", "the time of the begin in nanoseconds"),
    ("submission", "the number of the submission of the device"),
    ("submissions", "the number of submissions"),
    ("submitted_at", "the time of the call in nanoseconds"),
    ("uses", "the number of uses of objects"),
    ("value", "the value of the fence that was waited for"),
    ("victims", "the number of objects that left to make room"),
    ("vidmm_commit", "the commit of the program"),
    ("vidmm_version", "the version of the program"),
    ("virtual_ns", "virtual time of the run in nanoseconds"),
    ("waited_for", "the kind of what was waited for"),
    ("wanted_by_allocation", "the id of the allocation for which room was wanted"),
    ("wanted_by_device", "the id of the device for which room was wanted"),
    ("warm_up", "the number of submissions at the start that do not count"),
    ("work_ns", "nanoseconds for which the kernels keep the GPU busy"),
];

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::*;

    #[test]
    fn each_column_of_a_log_s_tables_is_described() {
        assert!(ABOUT.is_sorted_by_key(|&(name, _)| name), "names are found by halves");
        let columns = Table::ALL.iter().flat_map(|table| table.columns());
        let missing = Vec::from_iter(columns.map(|column| column.name).filter(|name| about(name).is_none()));
        assert_eq!(missing, [""; 0]);
    }
}
