//! Laws that hold for every plan.
