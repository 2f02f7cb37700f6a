use crate::support as _;
