//! Networks by chance, of which is known what the estimators have to find: how near they come, how often their intervals cover, and
//! whom they blame.

mod blame;
mod dice;
mod shared;
mod stripes;
