//! The limits of a scenario, as its errors state them.

/// The longest scenario file that is read, in bytes, so that a wrong file ends in an error and not in exhausted memory.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;

/// The most local memory that a machine may have, in bytes: 1 TiB, for which the model GPU's records take about 0.6 GB.
pub(super) const MAX_LOCAL_MEMORY: u64 = 1 << 40;
