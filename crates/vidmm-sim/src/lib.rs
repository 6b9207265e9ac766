//! Scenarios, the client that runs them, and the oracle that judges them.
