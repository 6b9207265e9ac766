//! Workload traces, their importers and generators, and the event log.
