"""Studies of a judge against physicians: measures over records, the acceptance gate, the validation status."""
