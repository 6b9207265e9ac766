//! The limits of a scenario, as its errors state them.

/// The longest scenario file that is read, in bytes, so that a wrong file ends in an error and not in exhausted memory.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 20;

/// The most bytes that the steps of a scenario create: 64 GiB. The content of each page is kept, which takes some GB then.
pub(super) const MAX_CREATED: u64 = 64 << 30;

/// The most local memory that a machine may have, in bytes: 1 TiB, for which the model GPU's records take about 0.6 GB.
pub(super) const MAX_LOCAL_MEMORY: u64 = 1 << 40;
