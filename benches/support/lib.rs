//! What the workspace's benches and examples share.
