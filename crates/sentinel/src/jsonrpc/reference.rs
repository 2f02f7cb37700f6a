//! The classification against a slow second opinion.
