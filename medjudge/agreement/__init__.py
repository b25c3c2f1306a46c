"""Agreement between a judge and physicians: pure functions on arrays, and the study that assembles them."""
